"""Where a login leads back to. What a browser would take for another site breaks the promise (S8)."""

from __future__ import annotations

import re
from urllib.parse import quote, quote_from_bytes

import atheris

from fuzz.target import ROOT, Broken, Environ, Folder, Pipeline, Request, environ, pipeline, run, view

with atheris.instrument_imports(include=["pipeline"]):
    from pipeline.auth.login import fields, way_back

HOST = "http://localhost"
SEEDS = (
    *(b"/a/b?c=d#e", b"//evil.example", b"/\\evil.example", b"\thttp://evil.example", b"javascript:x"),
    *(b"http://localhost/a", b"http://localhost@evil.example/", b"http://localhost:80/", b"/\n/evil.example"),
    *("/ä\u2028".encode(), b"?", b"", b"a:b", b"./a:b", b"http:\\\\evil.example"),
)


def leaves(location: str) -> bool:
    """Whether a browser leaves ``HOST`` (WHATWG URL, basic parser), by its rules in other words than ours."""
    location = re.sub("[\t\n\r]", "", location.strip("".join(map(chr, range(33))))).replace("\\", "/")
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", location)
    if scheme is not None:
        return re.match(rf"{HOST}(:80)?(?=[/?#]|$)", location, re.IGNORECASE) is None
    return location.startswith("//")


@view(context=Folder, name="back")
def back(context: Folder, request: Request) -> object:
    answer = way_back(request, fields(request).get("came_from", ""))
    location = answer.headers["Location"]  # type: ignore[attr-defined]
    if leaves(location):
        raise Broken(f"leads to {location!r}")
    return answer


def make(data: bytes) -> Environ:
    return environ("/back", QUERY_STRING="came_from=" + quote_from_bytes(data))


if __name__ == "__main__":
    app = Pipeline(
        pipeline.elements.errors.errors(),
        pipeline.elements.traverse.traverse(root=lambda: ROOT),
        pipeline.publisher.publisher(scan=("fuzz.redirect_target",)),
    )
    run(app, make, lambda length: quote("/" + "a" * length).encode(), SEEDS)
