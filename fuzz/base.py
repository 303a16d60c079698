"""Pages into which a base is put: what html5lib builds of them differs by the base alone.

The first byte says the encoding, the second how the page is cut into blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import atheris
import html5lib

from fuzz.target import Broken, Environ, Folder, Pipeline, Request, environ, pipeline, run, view

with atheris.instrument_imports(include=["pipeline"]):
    import pipeline.elements.base
    from pipeline.elements.base import with_base

URL = "http://localhost/a/"
CHARSETS = ("utf-8", None, "utf-16", "utf-16be", "shift_jis", "nonsense", "iso-2022-jp", "windows-1252")
SEEDS = (
    b"\0\0<!DOCTYPE html><html><head><title>a</title><link href=a></head><body>",
    b"\0\1<head><script><!-- <script> </script> --></script><style></style><base href=x>",
    b"\0\7<html><!-- <head> --><noscript><img></noscript><template><head></template><frameset>",
    b"\2\3" + "\ufeff<head><base target=a href='b'/>".encode("utf-16-le"),
    b"\1\0<?xml version='1.0'?><![if IE]><meta charset=koi8-r><meta http-equiv=refresh><svg><title>",
)


def blocks(data: bytes) -> Iterator[bytes]:
    size = (data[1:2] or b"\0")[0] + 1
    return (data[place : place + size] for place in range(2, len(data), size))


def charset(data: bytes) -> str | None:
    return CHARSETS[(data or b"\0")[0] % len(CHARSETS)]


def dumped(node: Any, *, without_ours: bool) -> Any:
    """A tree, but for the hrefs of bases, and for our base."""
    if node.nodeType in (node.TEXT_NODE, node.COMMENT_NODE):
        return node.data
    is_base = node.nodeName == "base"
    attributes = node.attributes.items() if getattr(node, "attributes", None) else []
    kept = [pair for pair in attributes if not (is_base and pair[0] == "href")]
    children = [
        dumped(child, without_ours=without_ours)
        for child in node.childNodes
        if not (without_ours and child.nodeName == "base" and child.getAttribute("href") == URL)
    ]
    return node.nodeName, kept, children


def judge(data: bytes) -> None:
    page = data[2:]
    made = b"".join(with_base(iter([page]), URL, charset(data), 65_536))
    if b"".join(with_base(blocks(data), URL, charset(data), 65_536)) != made:
        raise Broken("it depends on the blocks")
    if made == page or len(page) > 2_000:
        return
    for scripting in (False, True):
        trees = []
        for text in (page, made):
            parser = html5lib.HTMLParser(html5lib.getTreeBuilder("dom"), namespaceHTMLElements=False)
            try:
                trees.append(parser.parse(text, transport_encoding=charset(data), scripting=scripting))
            except Exception:  # html5lib cannot read it
                return
        before, after = ([b for b in t.getElementsByTagName("base") if b.hasAttribute("href")] for t in trees)
        ours = len(after) > len(before)
        if dumped(trees[0], without_ours=False) != dumped(trees[1], without_ours=ours):
            raise Broken(f"more than the base is different: {made!r}")


@view(context=Folder)
def page(context: Folder, request: Request, response: Any) -> Any:
    data = request.environ["fuzz.data"]
    response.headers["Content-Type"] = "text/html" + (f"; charset={charset(data)}" if charset(data) else "")
    return blocks(data)


def make(data: bytes) -> Environ:
    judge(data)
    return environ("/a", **{"fuzz.data": data})  # type: ignore[arg-type]


if __name__ == "__main__":
    app = Pipeline(
        pipeline.elements.errors.errors(),
        pipeline.elements.traverse.traverse(root=lambda: Folder(a=Folder()), slash_redirect=False),
        pipeline.elements.base.base(),
        pipeline.publisher.publisher(scan=(__name__,)),
    )
    run(app, make, lambda length: b"\0\0<html><head>" + b"<link>" * (length // 6), SEEDS)
