"""S8: no redirect of ours leaves this site, however it was made, unless it was made to be trusted."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
import webob
from hypothesis import example, given
from hypothesis import strategies as st
from webob.exc import HTTPException, HTTPFound, HTTPMovedPermanently, HTTPSeeOther

from asking import ask
from pipeline import Pipeline, Request, Response, element, redirect, view
from pipeline.elements.errors import errors
from pipeline.elements.transaction import transaction
from pipeline.elements.vhost import vhost
from pipeline.http.redirects import _PATH_ALONE, refuse_leaving
from pipeline.interfaces import UnsafeRedirect

HERE = "http://127.0.0.1"
"""Where ``call`` asks."""
CONTROLS = ["\r", "\n", "\r\n", "\0", "\t", "\x01", "\x0b", "\x1f", "\x7f"]

STAYS = [
    "",
    "/",
    "/a/b?c=d#e",
    "a",
    "a/b",
    "..",
    "../x",
    ".",
    "./a:b",
    "/a:b",
    "?a=b:c",
    "#a:b",
    "/%2f/evil.example",
    "/%2fevil.example",
    "/%5cevil.example",
    "/.//evil.example",
    "/a//b",
    "/a\\b",
    "/é/€",
    "/@evil.example",
    "@evil.example",
    "/?next=//evil.example",
    "/?next=https://evil.example",
    # Absolute, and of this origin: also with the port that goes without saying, and in capitals.
    "http://127.0.0.1",
    "http://127.0.0.1/",
    "http://127.0.0.1/a?b#c",
    "http://127.0.0.1?a",
    "http://127.0.0.1#a",
    "http://127.0.0.1:80/a",
    "HTTP://127.0.0.1/a",
    "//127.0.0.1/a",
]

LEAVES = [
    "http:\\\\127.0.0.1\\a",
    "http://127.0.0.1.evil.example/",
    "http://127.0.0.1@evil.example/",
    "http://127.0.0.1:80@evil.example/",
    "http://127.0.0.1\\@evil.example/",
    "http://user@127.0.0.1/",
    "http://127.0.0.1:8080/",
    "http://127.0.0.1:443/",
    "https://127.0.0.1/",
    "https://127.0.0.1:80/",
    "http:127.0.0.1",
    "http:/127.0.0.1",
    "http:///127.0.0.1",
    "http://127.0.0.1./",
    "http://",
    "//evil.example",
    "///evil.example",
    "////evil.example",
    "/\\evil.example",
    "\\/evil.example",
    "\\\\evil.example",
    "/\\/evil.example",
    "//evil.example@host",
    "http:evil.example",
    "http:/evil.example",
    "http://evil.example",
    "https:evil.example",
    "HTTPS://evil.example",
    "https:\\\\evil.example",
    "ftp://evil.example",
    "javascript:alert(1)",
    "JavaScript:alert(1)",
    "data:text/html,x",
    "vbscript:x",
    "mailto:a@b",
    "x:y",
    "a:b/c",
    ":80",
]

CONTROLLED = [
    *(f"/a{control}b" for control in CONTROLS),
    *(f"{control}//evil.example" for control in (*CONTROLS, " ", "  ")),
    *(f"/{control}/evil.example" for control in (*CONTROLS, " ")),
    *(f"/x{control}" for control in (*CONTROLS, " ")),
    "java\tscript:alert(1)",
    "/a b",
]


def returned(target: str) -> Callable[[Request, Response], Any]:
    return lambda request, response: redirect(target)


def raised(error: Callable[[], Exception]) -> Callable[[Request, Response], Any]:
    def raised(request: Request, response: Response) -> Any:
        raise error()

    return raised


def placed(target: str) -> Callable[[Request, Response], Any]:
    def placed(request: Request, response: Response) -> str:
        response.status = 302
        response.headerlist.append(("location", target))
        return "text"

    return placed


def made_by_webob(target: str) -> webob.Response:
    answer = webob.Response(b"text", status=307)
    answer.headerlist.append(("Location", target))
    return answer


WAYS: dict[str, Callable[[str], Callable[[Request, Response], Any]]] = {
    "redirect() returned": returned,
    "redirect() raised": lambda target: raised(lambda: redirect(target)),
    "HTTPFound raised": lambda target: raised(lambda: HTTPFound(location=target)),
    "HTTPMovedPermanently returned": lambda target: lambda *_: HTTPMovedPermanently(location=target),
    "HTTPSeeOther by a header": lambda target: lambda *_: HTTPSeeOther(headers=[("Location", target)]),
    "the plain HTTPException": lambda target: raised(lambda: HTTPException("", made_by_webob(target))),
    "webob.Response returned": lambda target: lambda *_: made_by_webob(target),
    "the response": placed,
}


@pytest.fixture
def answered(publish: Any) -> Callable[..., Any]:
    """``answered(way, target)``: the answer to a request whose view does what ``WAYS`` says."""

    def answered(way: str, target: str, *outer: Any) -> Any:
        @view(context=dict)
        def leading(context: Any, request: Request, response: Response) -> Any:
            return WAYS[way](target)(request, response)

        return ask(publish(leading, outer=(*outer, errors())))

    return answered


@pytest.mark.parametrize("target", STAYS)
@pytest.mark.parametrize("way", WAYS)
def test_a_redirect_that_stays(answered: Any, way: str, target: str) -> None:
    if target.isascii() or "redirect()" in way:
        answer = answered(way, target)
        assert 301 <= answer.status <= 307
        assert answer.headers["Location"] == (target if target.isascii() else "/%C3%A9/%E2%82%AC")


@pytest.mark.parametrize("target", LEAVES + CONTROLLED)
@pytest.mark.parametrize("way", WAYS)
def test_a_redirect_that_leaves_is_a_fault_of_the_view(
    answered: Any, way: str, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    """And not of the visitor. The log says which view it was, and where it would lead."""
    if way.startswith("HTTP") and {"\r", "\n"} & set(target):
        return  # WebOb itself refuses that, with an error of its own
    answer = answered(way, target)
    assert answer.status == 500 and "Location" not in answer.headers and "evil" not in answer.text
    [record] = caplog.records
    assert record.levelno == logging.ERROR and "UnsafeRedirect" in record.getMessage()
    assert record.exc_text is not None and repr(target) in record.exc_text
    if "redirect()" not in way or target not in CONTROLLED:
        assert "leading" in record.exc_text.rpartition("UnsafeRedirect: view ")[2].partition(" answers 30")[0]


@pytest.mark.parametrize("target", LEAVES)
def test_a_trusted_redirect_may_leave(publish: Any, target: str) -> None:
    @view(context=dict)
    def leading(context: Any, request: Request) -> Any:
        return redirect(target, trusted=True)

    for outer in ((), (errors(),)):
        assert ask(publish(leading, outer=outer)).headers["Location"] == target


@pytest.mark.parametrize("target", [*CONTROLLED, "/\ud800"])
@pytest.mark.parametrize("trusted", [False, True])
def test_a_blank_or_a_control_character_is_refused_at_once(target: str, trusted: bool) -> None:
    with pytest.raises(UnsafeRedirect, match=r"percent-encode|cannot be encoded as UTF-8"):
        redirect(target, trusted=trusted)


def test_an_unsafe_redirect_is_a_value_error_and_no_answer() -> None:
    assert issubclass(UnsafeRedirect, ValueError) and not issubclass(UnsafeRedirect, HTTPException)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_the_status_of_a_redirect(status: int) -> None:
    assert redirect("/x", status).wsgi_response.status_int == status


@pytest.mark.parametrize("status", [200, 300, 304, 306, 404])
def test_what_is_not_a_redirect_is_refused(status: int) -> None:
    with pytest.raises(ValueError, match="not the status of a redirect"):
        redirect("/x", status)


def test_a_location_that_is_not_followed_is_not_judged(publish: Any) -> None:
    """201 says where the new object is, and 304 nothing at all."""

    @view(context=dict)
    def index(context: Any, request: Request, response: Response) -> str:
        response.headers["Location"] = "https://elsewhere.example/"
        response.status = request.environ["QUERY_STRING"]
        response.etag, response.conditional_response = "x", True
        return "text"

    app = publish(index)
    assert ask(app, "/?201").headers["Location"] == "https://elsewhere.example/"
    assert ask(app, "/?200", HTTP_IF_NONE_MATCH="*").status == 304


# Where it is judged.


def test_the_origin_is_the_one_that_the_visitor_sees(publish: Any) -> None:
    """``redirect(request.absolute_url(...))`` works without more, also behind a proxy."""

    @view(context=dict)
    def index(context: Any, request: Request) -> Any:
        to = request.environ["QUERY_STRING"]
        return redirect(to or request.absolute_url(type("Page", (), {"__parent__": None})()))

    proxies = vhost(trusted=("127.0.0.1",), accept=("X-Forwarded",), allowed_hosts=("*",))
    app = publish(index, outer=(proxies, errors()))
    proxied = {"HTTP_X_FORWARDED_PROTO": "https", "HTTP_X_FORWARDED_HOST": "Shop.example"}

    def visit(query: str) -> Any:
        answer = ask(app, f"/?{query}", REMOTE_ADDR="127.0.0.1", **proxied)
        return answer.status, answer.headers.get("Location")

    assert visit("") == (302, "https://shop.example/")
    assert visit("https://SHOP.example:443/x") == (302, "https://SHOP.example:443/x")
    assert visit("//shop.example/x") == (302, "//shop.example/x")
    for away in ("http://shop.example/", "https://shop.example:80/", "https://127.0.0.1/", "https://shop.example.x/"):
        assert visit(away) == (500, None)


def test_a_view_that_leads_away_stores_nothing(publish: Any) -> None:
    """R3: it is judged behind the view, and not only when everything is committed."""
    ended: list[str] = []

    @view(context=dict)
    def index(context: Any, request: Request) -> Any:
        request.tm.get().addAfterCommitHook(lambda stored: ended.append("stored"))
        request.tm.get().addAfterAbortHook(lambda: ended.append("aborted"))
        return redirect(request.environ["QUERY_STRING"])

    app = publish(index, outer=(errors(), transaction()))
    assert ask(app, "/?/x").status == 302 and ended == ["stored"]
    assert ask(app, "/?//evil.example").status == 500 and ended == ["stored", "aborted"]


def test_there_may_be_an_error_view_for_it__and_that_is_judged_too(publish: Any) -> None:
    @view(context=dict)
    def index(context: Any, request: Request) -> Any:
        return redirect("//evil.example")

    @view(context=UnsafeRedirect)
    def refused(error: UnsafeRedirect, request: Request) -> Any:
        return redirect(f"/{request.environ['QUERY_STRING']}", 303)

    app = publish(index, refused)
    assert ask(app, "/?sorry").headers["Location"] == "/sorry"
    assert ask(app, "/?/evil.example").status == 500


def ending(handle: Callable[[Request, Response], None]) -> Any:
    @element
    def ending() -> Any:
        return handle

    return ending()


@pytest.mark.parametrize("way", ["HTTPFound raised", "redirect() raised", "the response"])
@pytest.mark.parametrize("outer", [(), (errors(),)])
def test_an_element_is_judged_at_the_edge(
    way: str, outer: tuple[Any, ...], caplog: pytest.LogCaptureFixture
) -> None:
    def site(target: str) -> Pipeline:
        return Pipeline(*outer, ending(WAYS[way](target)))

    assert ask(site("/x")).headers["Location"] == "/x"
    for target in ("//evil.example", "/\t/x", "/a\tb"):
        if way.startswith("redirect") and "\t" in target:
            continue
        answer = ask(site(target))
        assert answer.status == 500 and "Location" not in answer.headers
        assert "an element answers 302 Found with a redirect to " in (caplog.records[-1].exc_text or "")
    trusted = ending(raised(lambda: redirect("https://elsewhere.example/", trusted=True)))
    assert ask(Pipeline(*outer, trusted)).headers["Location"] == "https://elsewhere.example/"


@pytest.mark.parametrize("target", ["/x", "https://evil.example/", "/\t/x"])
def test_a_generator_is_judged_too__S8(publish: Any, target: str) -> None:
    """It runs up to its first block when all elements have answered."""

    @view(context=dict)
    def streaming(context: Any, request: Request, response: Response) -> Any:
        yield from placed(target)(request, response) and [b"text"]

    answer = ask(publish(streaming, outer=(errors(),)))
    assert (answer.status, answer.headers.get("Location")) == ((302, "/x") if target == "/x" else (500, None))


@pytest.mark.parametrize("header", [("X-A", "a\nb"), ("X-A\n", "a"), ("X-A", "a\x7f")])
def test_the_headers_of_a_generator_are_checked__S6(publish: Any, header: tuple[str, str]) -> None:
    @view(context=dict)
    def streaming(context: Any, request: Request, response: Response) -> Any:
        response.headerlist.append(header)
        yield b"text"

    assert ask(publish(streaming, outer=(errors(),))).status == 500


# What is not ours.


def foreign(environ: Any, start_response: Any) -> Any:
    start_response("302 Found", [("location", "https://elsewhere.example/"), ("Content-Type", "text/plain")])
    return [b"text"]


def test_the_answer_of_a_foreign_app_passes_as_it_is() -> None:
    answer = ask(Pipeline(errors(), foreign))
    assert answer.status == 302 and answer.headers["Location"] == "https://elsewhere.example/"


def test_a_view_behind_a_foreign_middleware_is_judged(publish: Any) -> None:
    @view(context=dict)
    def index(context: Any, request: Request) -> Any:
        to = request.environ["QUERY_STRING"]
        return redirect(to.removeprefix("trusted:"), trusted=to.startswith("trusted:"))

    def middleware(app: Any) -> Any:
        return lambda environ, start_response: app(dict(environ), start_response)

    app = Pipeline(errors(), middleware, publish(index, outer=()))
    assert ask(app, "/?/x").headers["Location"] == "/x"
    assert ask(app, "/?//evil.example").status == 500
    assert ask(app, "/?trusted://elsewhere.example").headers["Location"] == "//elsewhere.example"


# The page of a redirect.


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_the_page_of_a_redirect_has_the_address_as_a_link(publish: Any, status: int) -> None:
    @view(context=dict)
    def index(context: Any, request: Request) -> Any:
        return redirect("/a?b='c'&d=<e>\"", status)

    answer = ask(publish(index))
    title = webob.exc.status_map[status].title
    text = webob.exc.status_map[status].explanation
    assert answer.headers["Content-Type"] == "text/html; charset=UTF-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    shown = "/a?b=&#x27;c&#x27;&amp;d=&lt;e&gt;&quot;"
    assert answer.text == (
        f'<!DOCTYPE html>\n<html lang="en">\n<title>{title}</title>\n'
        f'<p>{text}: <a href="{shown}">{shown}</a></p>\n</html>\n'
    )


def test_the_page_of_a_redirect_says_what_the_view_says__S7(publish: Any) -> None:
    @view(context=dict)
    def index(context: Any, request: Request) -> Any:
        raise HTTPFound("Moved <b>on</b>", location="x", headers=[("Set-Cookie", "a=b")])

    answer = ask(publish(index))
    assert "<p>Moved &lt;b&gt;on&lt;/b&gt;: <a href=\"x\">x</a></p>" in answer.text
    assert answer.headers["Set-Cookie"] == "a=b"


@pytest.mark.parametrize("target", ["javascript:alert(1)", "JavaScript:x/y", "data:text/html,x", "app:x"])
def test_a_script_is_never_a_link(publish: Any, target: str) -> None:
    """S7: it would run as the site's own. A browser that does not follow it shows the page."""

    @view(context=dict)
    def index(context: Any, request: Request) -> Any:
        return redirect(target, trusted=True)

    answer = ask(publish(index))
    assert answer.headers["Location"] == target and target in answer.text and "<a" not in answer.text


def test_a_body_of_its_own_stays(publish: Any) -> None:
    @view(context=dict)
    def index(context: Any, request: Request) -> Any:
        error = HTTPFound(location="/x")
        error.text, error.content_type = "own", "text/plain"
        raise error

    answer = ask(publish(index))
    assert (answer.text, answer.headers["Content-Type"]) == ("own", "text/plain; charset=UTF-8")


# The judge.


def browser_reads(location: str) -> str:
    """The address that a browser goes to (WHATWG URL): without tabs and newlines, backslash as slash."""
    location = location.strip("".join(map(chr, range(33))))
    for dropped in "\t\n\r":
        location = location.replace(dropped, "")
    head = location.replace("\\", "/")
    scheme, colon, rest = head.partition(":")
    if colon and scheme.lower() in ("http", "https") and (rest[:2] == "//" or scheme.lower() == "https"):
        head = f"{scheme}://{rest.lstrip('/')}"
    elif head.startswith("//"):
        head = f"//{head.lstrip('/')}"
    return urljoin("http://localhost/a/b", head)


PIECES = st.sampled_from(
    [
        *("/", "//", "\\", ":", "@", "http:", "HTTPS:", "javascript:", "evil.example", "localhost", "#", "?"),
        *("http://localhost", ".", "..", "%2f", "%09", "[", "]", "\t", "\n", " ", "\x00", "\xe9", "\u3002"),
        *("\xad", "\ud800", ":80", ":8080", "LOCALHOST", "\u212a"),
    ]
)


@given(st.lists(PIECES, max_size=8).map("".join) | st.text(max_size=30))
@example("http:\\\\evil.example").via("S8")
@example("////evil.example").via("S8")
@example("http:////evil.example").via("S8")
def test_what_passes_stays_as_a_browser_reads_it(location: str) -> None:
    try:
        refuse_leaving(location, "http://localhost")
    except UnsafeRedirect:
        return
    read = urlsplit(browser_reads(location))
    assert (read.scheme, read.hostname, read.port or 80) == ("http", "localhost", 80), location
    assert "@" not in read.netloc
    refuse_leaving(location, "http://localhost:80")


@given(st.lists(PIECES, max_size=8).map(lambda pieces: "/" + "".join(pieces)))
@example("//evil.example").via("S8")
@example("/\\evil.example").via("S8")
@example("/\tevil.example").via("S8")
def test_a_path_alone_needs_no_further_check__S8(location: str) -> None:
    """``judge`` asks ``refuse_leaving`` about other addresses only."""
    if _PATH_ALONE.fullmatch(location):
        refuse_leaving(location, "http://localhost")


def test_a_path_alone_is_what_views_answer__S8() -> None:
    assert _PATH_ALONE.fullmatch("/a/b/c?d=e:f//g#h")
    for location in ("a", "//a", "/\\a", "/a b", "/\xe9", "http://a/"):
        assert not _PATH_ALONE.fullmatch(location)
