"""``base``: relative links of pages that were reached by default steps, and nothing else, are changed.

The judge is html5lib: what it builds of a page must differ by the base alone, whether scripts run or not.
"""

from __future__ import annotations

import io
import pydoc
import re
import string
import sysconfig
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urljoin

import docutils.core
import html5lib
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from webob import Request as Asked
from webob import Response as Answer

from asking import ask
from pipeline import Pipeline, Request, Response, element, view
from pipeline.elements.base import base, with_base
from pipeline.elements.errors import errors
from pipeline.elements.traverse import traverse
from pipeline.http.error_pages import Problem, as_html
from pipeline.interfaces import IDefaultSteps, OptionError
from pipeline.publisher import publisher
from pipeline.views import adapter

URL = "http://example.org/folder/"
ASKED = "http://example.org/folder"

Tree = tuple[Any, ...]


def filtered(
    page: bytes, size: int | None = None, *, charset: str | None = "utf-8", window: int = 65_536
) -> bytes:
    """The page behind the filter, given to it in blocks of ``size`` bytes."""
    blocks = [page] if size is None else [page[place : place + size] for place in range(0, len(page), size)]
    return b"".join(with_base(iter(blocks), URL, charset, window))


# The tree that html5lib builds.


def parsed(page: bytes, charset: str | None, *, scripting: bool) -> tuple[Any, str]:
    parser = html5lib.HTMLParser(tree=html5lib.getTreeBuilder("dom"), namespaceHTMLElements=False)
    return parser.parse(page, transport_encoding=charset, scripting=scripting), parser.compatMode


def tree(node: Any, *, without_ours: bool) -> Tree:
    """All of a tree but the base that was put in, and but the href of those that may be corrected."""
    if node.nodeType in (node.TEXT_NODE, node.COMMENT_NODE):
        return node.nodeType, node.data
    if node.nodeType == node.DOCUMENT_TYPE_NODE:
        return node.nodeType, node.name, node.publicId, node.systemId
    is_base = node.nodeName == "base"
    attributes = [] if node.attributes is None else node.attributes.items()
    kept = sorted(pair for pair in attributes if not (is_base and pair[0] == "href"))
    children = [
        tree(child, without_ours=without_ours)
        for child in node.childNodes
        if not (without_ours and is_ours(child))
    ]
    return node.nodeName, kept, children


def is_ours(node: Any) -> bool:
    return node.nodeName == "base" and node.getAttribute("href") == URL


def bases(document: Any) -> list[Any]:
    return [node for node in document.getElementsByTagName("base") if node.hasAttribute("href")]


def judge(page: bytes, *, charset: str | None = "utf-8") -> bytes:
    """What the filter makes of the page, if it is right, however the page is cut into blocks."""
    made = filtered(page, charset=charset)
    for size in (1, 2, 3, 7, 64):
        if len(page) <= 4_000 or size > 3:
            assert filtered(page, size, charset=charset) == made
    if made != page:
        for scripting in (False, True):
            before, mode = parsed(page, charset, scripting=scripting)
            after, mode_after = parsed(made, charset, scripting=scripting)
            put_in = len(bases(after)) > len(bases(before))
            assert tree(after, without_ours=put_in) == tree(before, without_ours=False)
            assert mode_after == mode
            [first, *_] = bases(after)
            assert urljoin(URL, first.getAttribute("href")) == first.getAttribute("href")
            assert not put_in or (is_ours(first) and first.parentNode.nodeName == "head")
    return made


BASE = f'<base href="{URL}" />'

INSERTED = [
    # Where the base goes is marked by "^".
    "<!DOCTYPE html><html><head>^<link href=a></head><body>text</body></html>",
    "<!DOCTYPE html>\n<html>\n<head>\n  <meta charset=utf-8>\n  <title>A</title>\n  ^<link>\n</head>\n",
    "<!DOCTYPE HTML><HTML><HEAD><TITLE>a</TITLE>^</HEAD><BODY>",
    "<!DOCTYPE html><html lang=en><title>a</title>\n^<p>text",
    "^<p>text",
    "^text",
    "\n ^text",
    "<html>\n ^<p>",
    "<head>\n ^text",
    "<html> <!-- <head> --> ^<body>",
    "<!-- a --><!-- b ->--><!--> ^<p> -->",
    "<!---> ^<p>-->",
    "<!----!> ^<p>",
    "<!--!><p>--> ^<p>",
    "<!--[if IE]><head><base href=x><![endif]--><html><head>^<link></head>",
    "<!--[if !IE]><!--><html><!--<![endif]--><head>^<link>",
    "<![if !IE]><html><![endif]><head>^<link>",
    '<?xml version="1.0"?><!DOCTYPE html PUBLIC "a"><html xmlns="x"><head>^<script src=a></script></head>',
    "<![CDATA[<head>^]]>]]&gt;",
    "<title><head><base href=x></title>^<p>",
    # One in the body, which a browser would take, is not seen: the one in the head counts instead.
    "<head>^<link></head><body><base href=https://example.com/><p>",
    "^<p><base href=https://example.com/>",
    "<title>a</TITLE\n x='>'>^<p>",
    "<head>^<script>'<head>'</script><link></head>",
    "<head>^<script><!-- <script> </script> <base href=x> --></script></head>",
    "<head>^<script><!-- <script> </script> <base href=x> </script> </script></head>",
    "<head>^<script><!--</script><script>--></script></head>",
    "<head>^<script><!--><script></script></head>",
    "<head>^<SCRIPT/></scriptx></head><base href=x></script >",
    "<head>^<style><base href=x></style></head>",
    "<head>^<textarea><head></textarea>",
    "<head>^<template><head><base href=x></template></head>",
    "<head>^<template><template><script></template></script></template></template></head>",
    "<head>^<noscript><link href=a></noscript></head>",
    "<head>^<noscript><style>a{}</style><!-- a --></noscript></head>",
    '<head>^<noscript><img src="a" alt="1>2"></noscript><link></head>',
    "<head>^<noframes><base href=x></noframes></head>",
    "<html><head></p></div></title>^</head>",
    "<html>^</head><p>",
    "<html>^</body>",
    "^</br>",
    "<html><head><title>a</title>^</head><frameset cols=1><frame src=a></frameset>",
    "<html>^<frameset cols=1>",
    "<html data-a='>' data-b=\">\" =x><head title=</head>^><link>",
    "<head profile='<head>'><title>a</title>^<link>",
    "<html><head>^<svg><head><base href=x></svg>",
    "^<math>",
    "<head>^<meta http-equiv=refresh content='0;url=x'></head>",
    "<html http-equiv=a><head http-equiv=b><title http-equiv=c></title>^<link></head>",
    "<head>^<meta HTTP-EQUIV=Content-Security-Policy content=\"base-uri 'none'\"></head>",
    "<head><meta name=a content='<base href=x>'>^<link></head>",
    "<head>^<base target=_top><link></head>",
    "<html></ x><head>^<link>",
    "<html></><head>^<link>",
    "^<3",
    "<html>^< head>",
    "<head><title>\xe9\u20ac</title>^<link>",
    "<head>^\xa0",
    "<head>^\x0b",
    "<html>\x0c<head>\r\n^<link>",
    "^<a<b>",
    "<head><head><html a=b>^<link></head><link><!-- a --><title>b</title><body>",
]


@pytest.mark.parametrize("page", INSERTED)
def test_where_the_base_goes(page: str) -> None:
    before, _, after = page.partition("^")
    assert judge((before + after).encode()).decode() == before + BASE + after


LEFT = [
    "",
    "\n",
    "<!-- a -->",
    "<!DOCTYPE html>",
    "<title>a",
    "<html><head>",
    "<title>a</title>",
    "<head><base href='http://example.com/'><link></head>",
    "<head><link><BASE HREF=//example.com/></head>",
    "<head><link><base href=/></head>",
    "<head><link></head><base href=https:x><body>",
    "<head><script></script><base target=_top><base href=/a></head>",
    "<head><base href='\\\\example.com'></head>",
    "<head><base href='&#47;a'></head>",
    "<head><base href='\xe9'></head>",
    "<head><base href='a\tb'></head>",
    # What may be white space, or something else.
    "&#32;<p>",
    "&nbsp;",
    "<html><head>&Tab;<link>",
    # What is read in two ways.
    "<head><noscript><base href=x></noscript></head>",
    "<head><noscript><!-- </noscript> --></noscript></head>",
    "<head><noscript><style></noscript></style></noscript></head>",
    "<head><noscript><img alt='</noscript>'></noscript></head>",
    "<head><noscript><script></script></noscript></head>",
    "<head><noscript><svg><title></svg></title></noscript></head>",
    "<head><noscript>",
    "<head><template><svg></template></head>",
    "<head><template><noscript></template></noscript></template></head>",
    "<head>\0<link>",
    "<head><title>\0</title><link>",
    "<head><title>\x1b$B</title><link>",
]


@pytest.mark.parametrize("page", LEFT)
def test_what_is_left_alone(page: str) -> None:
    assert judge(page.encode()) == page.encode()


RELATIVE = [
    ("<base href='sub/'>", "sub/"),
    ("<base href=sub/>", "sub/"),
    ("<BASE\nHREF = '' >", ""),
    ("<base href>", ""),
    ("<base href=>", ""),
    ("<base target=a href=./ x=y>", ""),
    ("<base href='../other/'>", "../other/"),
    ("<base href='?a=1&amp;b=2'>", "?a=1&b=2"),
    ("<base href=' a '>", "a"),
    ("<base href=a href=/b>", "a"),
    ("<base target=x><base href=a>", "a"),
    ("<base/href=a/>", "a/"),
]


@pytest.mark.parametrize(
    "where", ["<head>{}</head>", "<head><link>{}", "<html><head></head>{}<body>", "{}<p>"]
)
@pytest.mark.parametrize(("written", "meant"), RELATIVE)
def test_a_relative_base_is_corrected(written: str, meant: str, where: str) -> None:
    page = where.format(written).encode()
    made = judge(page)
    [first, *others], [was, *_] = (
        bases(parsed(made, "utf-8", scripting=False)[0]),
        bases(parsed(page, "utf-8", scripting=False)[0]),
    )
    assert first.getAttribute("href") == urljoin(URL, meant)
    assert urljoin(ASKED, was.getAttribute("href").strip()) != urljoin(URL, meant) or meant.startswith("..")
    assert len(others) == len(bases(parsed(page, "utf-8", scripting=False)[0])) - 1


# Encodings.

PAGE = "<html><head><title>\xe9\u20ac\U0001f600</title>^<link></head>"


@pytest.mark.parametrize(
    ("charset", "codec"),
    [
        ("utf-8", "utf-8"),
        ("UTF-8", "utf-8-sig"),
        (None, "utf-8-sig"),
        (None, "utf-16"),
        ("utf-8", "utf-16"),
        ("utf-16", "utf-16"),
        ("utf-16", "utf-16-le"),
        ("UTF-16LE", "utf-16-le"),
        ("utf-16be", "utf-16-be"),
        ("iso-8859-1", "utf-16-be-sig"),
        ("gb18030", "gb18030"),
        ("shift_jis", "shift_jis"),
        ("windows-1252", "windows-1252"),
        ("nonsense", "utf-8"),
    ],
)
def test_encodings(charset: str | None, codec: str) -> None:
    codec, signed, _ = codec.partition("-be-sig")
    codec += "-be" if signed else ""
    text = PAGE if codec.startswith(("utf", "gb")) else "<html><head><title>\u30bd~</title>^<link></head>"
    text = text if codec != "windows-1252" else "<html><head><title>\xe9</title>^<link></head>"
    before, _, after = (("\ufeff" if signed else "") + text).partition("^")
    mark = len("".encode(codec))  # the byte order mark that some codecs write
    expected = before.encode(codec) + BASE.encode(codec)[mark:] + after.encode(codec)[mark:]
    page = before.encode(codec) + after.encode(codec)[mark:]
    assert judge(page, charset=charset) == expected


@pytest.mark.parametrize("charset", ["utf-7", "utf-32", "hz", "cp037"])
def test_an_encoding_in_which_markup_looks_otherwise_is_left_alone(charset: str) -> None:
    page = b"<html><head><link></head>"
    assert filtered(page, charset=charset) == page


def test_UTF_16_without_anybody_saying_so_is_left_alone() -> None:
    page = "<html><head><link></head>".encode("utf-16-le")
    assert filtered(page, charset=None) == page


def test_UTF_16_that_ends_in_half_a_character() -> None:
    page = "\ufeff<head><link>".encode("utf-16-le") + b"x"
    assert (
        filtered(page)
        == filtered(page, 1)
        == page.replace("<link>".encode("utf-16-le"), (BASE + "<link>").encode("utf-16-le"))
    )


@pytest.mark.parametrize("meta", ["<meta charset=utf-16be>", "<meta charset=koi8-r>"])
@pytest.mark.parametrize("length", [900, 960, 1000, 1100])
def test_the_encoding_that_a_page_says_itself_stays_where_browsers_look(meta: str, length: int) -> None:
    """They look at the first 1,024 bytes, if nobody told them the encoding."""
    page = f"<head><link href={'a' * (length - 40)}>{meta}<title>\xe9</title></head>".encode()
    judge(page, charset=None)
    assert BASE.encode() in filtered(page, charset="utf-8")


# The window.


@pytest.mark.parametrize("size", [None, 1, 1000])
def test_a_head_that_is_longer_than_the_window_is_left_alone(size: int | None) -> None:
    page = b"<head><link><!--" + b"x" * 3000 + b"--></head><body>"
    assert filtered(page, size, window=2048) == page
    assert filtered(page, size, window=4096) == page.replace(b"<link>", BASE.encode() + b"<link>")


def test_the_window_has_a_least_size() -> None:
    with pytest.raises(OptionError, match="at least 1024"):
        Pipeline(errors(), anything(), base(window=10), ending())


# Streaming.


def test_what_stands_ahead_of_the_base_leaves_at_once() -> None:
    made: list[bytes] = []

    def blocks() -> Iterator[bytes]:
        for block in (
            b"<!DOCTYPE html><html>",
            b"<head><title>a</title>",
            b"<link>",
            b"<link>",
            b"</head><body>",
            b"x",
        ):
            made.append(block)
            yield block

    sent = with_base(blocks(), URL, "utf-8", 65_536)
    assert next(sent) == b"<!DOCTYPE html><html>" and len(made) == 1
    assert next(sent) == b"<head><title>a</title>" and len(made) == 2
    assert next(sent) == BASE.encode() + b"<link><link></head><body>" and len(made) == 5
    assert next(sent) == b"x" and len(made) == 6


def test_blocks_behind_the_head_pass_untouched() -> None:
    blocks = [b"<p>", b"<head>", b"x" * 100_000, b"<base>"]
    sent = list(with_base(iter(blocks), URL, "utf-8", 65_536))
    assert sent[1:] == blocks[1:] and all(a is b for a, b in zip(sent[1:], blocks[1:], strict=True))


def test_a_page_of_a_gigabyte_in_constant_memory() -> None:
    block = b"x" * 1_048_576
    tracemalloc.start()
    sent = with_base((block for _ in range(1000)), URL, "utf-8", 65_536)
    assert sum(map(len, sent)) == 1000 * len(block) + len(BASE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * len(block)


def test_it_is_linear__S12() -> None:
    """Also in blocks of one byte, and whatever is never closed."""

    def seconds(page: bytes, size: int) -> float:
        began = time.process_time()
        filtered(page, size)
        return time.process_time() - began

    plain = seconds(b"<head><link>" * 800, 1)
    for bad in (
        b"<!--",
        b"<a ",
        b"<a b='",
        b"<script><!--",
        b"<title>",
        b"<noscript><p ",
        b"<template>",
        b"<a b=c",
        b" ",
    ):
        for page in (
            bad * (10_000 // len(bad)),
            bad + b"x" * 60_000,
            bad + b"- " * 30_000,
            bad + b"<" * 60_000,
        ):
            assert seconds(page, 1) < 20 * plain + 0.2, (bad, page[:40])


# Pages of the world, and pages that nobody writes.


def corpus() -> Iterable[tuple[str, bytes]]:
    libraries = Path(sysconfig.get_path("purelib"))
    for path in islice(sorted(libraries.rglob("*.html")), 150):
        if path.stat().st_size < 200_000:
            yield str(path.relative_to(libraries)), path.read_bytes()
    for writer in ("html4", "html5"):
        text = "Title\n=====\n\nA `link <a>`_ and ``text``.\n\n.. image:: a.png\n"
        yield f"docutils {writer}", docutils.core.publish_string(text, writer=writer)
    for module in (string, io):
        page = pydoc.HTMLDoc().page(module.__name__, pydoc.HTMLDoc().docmodule(module))
        yield f"pydoc {module.__name__}", page.encode()
    yield "an error page", as_html(Problem("404 Not Found", "<head>")).encode()


CORPUS = list(corpus())


@pytest.mark.parametrize(("name", "page"), CORPUS, ids=[name for name, _ in CORPUS])
def test_real_pages(name: str, page: bytes) -> None:
    judge(page)


def test_real_pages_are_corrected() -> None:
    """They are real, and not all of them are left alone."""
    changed = [name for name, page in CORPUS if filtered(page) != page]
    assert len(CORPUS) >= 5 and len(changed) > len(CORPUS) * 0.6


FRAGMENTS = """
    <html>|<html lang=x>|<HEAD>|<head>|<head http-equiv=x>|</head>|</html>|<body>|</body>|<title>|</title>
    |<title>a</title>|<meta charset=utf-8>|<meta name=x content="a>b">|<meta http-equiv=refresh content="1;url=x">
    |<meta =">"|<link rel=x href=a>|<link href='a"b'/>
    |<script>|</script>|<script src=x></script>|</script >|</script/>
    |<script><!-- <script> </script> -->|<!--|-->|--!>|<!-- <head> -->|<!-->|<!--->|<!----!>|<!--!>|<![if IE]>
    |<!--[if IE]><head><![endif]-->|<?xml version="1.0"?>|<!doctype html>|<!DOCTYPE html PUBLIC "a>b">
    |<style>|</style>|<style>a{}</style>|<noscript>|</noscript>|<noscript><img src=x></noscript>
    |<noscript><link href=x></noscript>|<noscript><base href=q></noscript>|<template>|</template>
    |<template><head></template>|</template x="</noscript">|<base target=_top>|<base href=q>|<base href=/q>
    |<noframes>|</noframes>|<frameset>|<frame>|<svg>|</svg>|<svg><title>|<math>|<p>|</p>|<br>|</br>|<table>
    |<select>|<option>|<textarea>|</textarea>|<form>|<input type=hidden>|<img src=x>|<bgsound>|<basefont>
    |<command>|<isindex>|<xmp>|<plaintext>|<iframe>|<noembed>|</p x=">">|text|&amp;|&#32;|&nbsp;|\xe9|\xa0
    |<|</|<a|>|"|'|=|/|<3|</>|</3>|]]>|<![CDATA[x]]>
"""
WORDS = [*(word.strip() for word in FRAGMENTS.split("|")), " ", "\n", "\t", "\x0c", "\x0b", "\r"]


@given(st.lists(st.sampled_from(WORDS), max_size=12), st.booleans())
@example(["<noscript>", "<base href=q>"], True)
def test_hostile_pages(words: list[str], proper: bool) -> None:
    judge((("<!DOCTYPE html><html><head>" if proper else "") + "".join(words)).encode())


@given(st.binary(max_size=300), st.sampled_from(["utf-8", "utf-16", "shift_jis", None]), st.integers(1, 300))
def test_any_bytes(page: bytes, charset: str | None, size: int) -> None:
    whole = filtered(page, charset=charset)
    assert filtered(page, size, charset=charset) == whole
    if whole != page and b"base" not in page.lower():
        codec = "utf-16-be" if page.startswith(b"\xfe\xff") else "utf-16-le"
        width = (len(whole) - len(page)) // len(BASE)
        assert whole.replace(BASE.encode(codec if width == 2 else "ascii"), b"", 1) == page


# The element.


class Folder(dict[str, Any]):
    """A container."""


class Document:
    """A leaf."""


class Led(Folder):
    """A container that leads on."""

    def __init__(self, *steps: str, **items: Any) -> None:
        super().__init__(**items)
        self.steps = steps


@view(context=Folder, methods=("GET", "POST"))
def show(context: Folder, request: Request) -> str:
    return "<html><head><link href=a></head>"


@view(context=Folder, name="list")
def list_(context: Folder, request: Request) -> str:
    return "<html><head><link href=a></head>"


@view(context=Document)
def document(context: Document, request: Request) -> str:
    return "<html><head><link href=a></head>"


@adapter(Led, IDefaultSteps)
class Leads:
    def __init__(self, context: Led) -> None:
        self.context = context

    def default_steps(self, request: Request) -> tuple[str, ...]:
        return self.context.steps


@pytest.fixture
def site() -> Callable[..., Pipeline]:
    root = Folder(
        folder=Folder(folder=Folder()),
        doc=Document(),
        near=Led("doc", doc=Document()),
        far=Led("a", "doc", a=Folder(doc=Document())),
        below=Led("a", a=Folder()),
        listed=Led("list"),
        **{"\xe4 &\"'<": Folder()},
    )

    def site(*inner: Any, slash_redirect: bool = False) -> Pipeline:
        walk = traverse(root=lambda: root, slash_redirect=slash_redirect)
        return Pipeline(errors(), walk, base(), *inner, publisher(scan=(__name__,)))

    return site


@element(provides=("context",))
def anything(next: Any) -> Any:
    """Stands where traverse would."""
    return next


@element
def ending() -> Any:
    return lambda request, response: None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/folder", "http://127.0.0.1/folder/"),
        ("/folder?a=b", "http://127.0.0.1/folder/"),
        ("/folder/folder", "http://127.0.0.1/folder/folder/"),
        ("/folder/.", "http://127.0.0.1/folder/./"),
        ("/%C3%A4%20&%22'%3C", "http://127.0.0.1/%C3%A4%20&amp;%22&#x27;%3C/"),
        ("/near", "http://127.0.0.1/near/doc"),
        ("/far", "http://127.0.0.1/far/a/doc"),
        ("/far/", "http://127.0.0.1/far/a/doc"),
        ("/below", "http://127.0.0.1/below/a/"),
        ("/below/", "http://127.0.0.1/below/a/"),
        ("/listed", "http://127.0.0.1/listed/list"),
        ("/", None),
        ("/folder/", None),
        ("/folder/folder/", None),
        ("/folder/list", None),
        ("/folder/@@list", None),
        ("/doc", None),
        ("/near/", None),
        ("/listed/", None),
    ],
)
def test_what_is_reached_by_default_steps(site: Any, path: str, expected: str | None) -> None:
    answer = ask(site(), path)
    inserted = f'<base href="{expected}" />' if expected else ""
    assert answer.text == f"<html><head>{inserted}<link href=a></head>"
    assert answer.content_length == len(answer.body)


def test_a_site_below_a_path() -> None:
    app = Pipeline(errors(), traverse(root=Folder, slash_redirect=False), base(), publisher(scan=(__name__,)))
    environ = Asked.blank("/", base_url="https://example.org:8443/app").environ
    environ["PATH_INFO"] = ""
    assert 'href="https://example.org:8443/app/"' in ask(app, environ=environ).text


def test_a_request_that_is_redirected_needs_none(site: Any) -> None:
    app = site(slash_redirect=True)
    assert ask(app, "/folder").status_int == 302
    posted = ask(app, "/folder", method="POST")
    assert '<base href="http://127.0.0.1/folder/" />' in posted.text


def test_HEAD_says_what_GET_does(site: Any) -> None:
    got, head = (ask(site(), "/folder", method=method) for method in ("GET", "HEAD"))
    assert head.headerlist == got.headerlist and head.body == b""


PAGE_BYTES = b"<html><head><link href=a></head>"


@pytest.mark.parametrize(
    "headers",
    [
        {"content_type": "text/plain"},
        {"content_type": "application/xhtml+xml"},
        {"content_type": "image/svg+xml"},
        {"content_encoding": "gzip"},
        {"status": "206 Partial Content", "content_range": "bytes 0-31/100"},
        {"status": "204 No Content"},
        {"status": "304 Not Modified"},
    ],
)
def test_what_is_no_page_passes(site: Any, headers: dict[str, str]) -> None:
    def app(environ: Any, start_response: Any) -> Any:
        answer = Answer(PAGE_BYTES, charset=None, etag="x", accept_ranges="bytes")
        for name, value in headers.items():
            setattr(answer, name, value)
        return answer(environ, start_response)

    for streamed in (False, True):
        answer = ask(foreign_end(app, streamed), "/folder")
        assert answer.body in (PAGE_BYTES, b"") and answer.etag == "x"
        assert answer.etag_strong == "x" and answer.accept_ranges == "bytes"


def foreign_end(app: Any, streamed: bool) -> Pipeline:
    """A pipeline around an app of others that answers for everything, with one slash too few."""

    @element(provides=("context",))
    def lacking(next: Any) -> Any:
        def lacking(request: Request, response: Response) -> None:
            request.lacks_slash = True
            next(request, response)
            if streamed:
                response.app_iter = iter(list(response.app_iter))

        return lacking

    return Pipeline(errors(), lacking(), base(), app)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_page_of_an_app_of_others(streamed: bool) -> None:
    app = Answer(PAGE_BYTES, content_type="text/html", etag="x", accept_ranges="bytes", content_md5="x")
    answer = ask(foreign_end(app, streamed), "/folder")
    assert answer.body == b'<html><head><base href="http://127.0.0.1/folder/" /><link href=a></head>'
    assert answer.headers["ETag"] == 'W/"x"'
    assert "Accept-Ranges" not in answer.headers and "Content-MD5" not in answer.headers


def test_no_name_of_a_host_gets_out_of_the_attribute(site: Any) -> None:
    page = ask(site(), "/folder", environ={"HTTP_HOST": '"><script>alert(1)</script>'}).text
    assert "<script>" not in page and "&quot;&gt;&lt;script&gt;" in page


def test_the_modules_of_the_corpus_are_real() -> None:
    assert isinstance(string, ModuleType) and re.search(rb"(?i)<html", dict(CORPUS)["pydoc string"])
