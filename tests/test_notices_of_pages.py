"""Notices of debug mode about pages, forms, variables and the source of views, each beside right code."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from html import escape
from typing import Any

import pytest
from BTrees.OOBTree import OOBTree
from webob.exc import HTTPFound

import asking
from pipeline import Pipeline, view
from pipeline.elements.compress import compress
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import close_all, zodb
from pipeline.http.redirects import redirect
from pipeline.publisher import publisher

COUNTS: dict[str, int] = {}
NAMES: list[str] = []
TOTAL = 0
CACHE: dict[str, str] = {}
FORM = '<form method="{}" action="save" enctype="{}">{}</form>'
FORM_TYPE = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"


def returns_nothing(context: Any, request: Any, response: Any) -> None:
    str(context)


def returns_an_empty_text(context: Any, request: Any, response: Any) -> str:
    return ""


def sets_204(context: Any, request: Any, response: Any) -> None:
    response.status = 204


def sets_the_text(context: Any, request: Any, response: Any) -> None:
    response.text = "a page"


def forgets_to_return_a_redirect(context: Any, request: Any, response: Any) -> str:
    redirect("/elsewhere")
    return "a page"


def forgets_to_raise(context: Any, request: Any, response: Any) -> str:
    if not context:
        HTTPFound(location="/elsewhere")
    return "a page"


def returns_a_redirect(context: Any, request: Any, response: Any) -> Any:
    return redirect("/elsewhere")


def raises_a_redirect(context: Any, request: Any, response: Any) -> Any:
    raise redirect("/elsewhere")


def returns_an_address(context: Any, request: Any, response: Any) -> str:
    return "/elsewhere?a=b"


def returns_a_whole_address(context: Any, request: Any, response: Any) -> str:
    return "http://localhost/elsewhere"


def shows_an_address(context: Any, request: Any, response: Any) -> str:
    return "<p>/elsewhere"


def sets_a_location_alone(context: Any, request: Any, response: Any) -> str:
    response.location = "/elsewhere"
    return "a page"


def sets_a_status_alone(context: Any, request: Any, response: Any) -> str:
    response.status = 303
    return "a page"


def returns_json(context: Any, request: Any, response: Any) -> str:
    return json.dumps({"a": 1})


def says_that_it_is_json(context: Any, request: Any, response: Any) -> str:
    response.content_type = "application/json"
    return json.dumps({"a": 1})


def begins_with_a_bracket(context: Any, request: Any, response: Any) -> str:
    return "[draft] a page"


def returns_a_pdf(context: Any, request: Any, response: Any) -> bytes:
    return b"%PDF-1.7 and so on"


def returns_a_picture(context: Any, request: Any, response: Any) -> bytes:
    return b"\x89PNG\r\n\x1a\n and so on"


def says_that_it_is_a_pdf(context: Any, request: Any, response: Any) -> bytes:
    response.content_type = "application/pdf"
    return b"%PDF-1.7 and so on"


def shows_what_was_asked(context: Any, request: Any, response: Any) -> str:
    return f"<p>{request.GET['q']}</p>"


def escapes_what_was_asked(context: Any, request: Any, response: Any) -> str:
    return f"<p>{escape(request.GET['q'])}</p>"


def shows_what_was_sent(context: Any, request: Any, response: Any) -> str:
    return f"<p>{request.form['q']}</p>"


def compressed_by_the_view(context: Any, request: Any, response: Any) -> bytes:
    response.headers["Content-Encoding"] = "gzip"
    return gzip.compress(b"<p>a page")


def makes(method: str, fields: str, enctype: str = "") -> Any:
    def form(context: Any, request: Any, response: Any) -> str:
        return f"<!doctype html><p>A form: {FORM.format(method, enctype, fields)}" + "<p>and more" * 200

    return form


def counts_in_a_dict(context: Any, request: Any, response: Any) -> str:
    COUNTS["a"] = COUNTS.get("a", 0) + 1
    return "a page"


def appends_to_a_list(context: Any, request: Any, response: Any) -> str:
    NAMES.append("a")
    return "a page"


def counts_in_a_global(context: Any, request: Any, response: Any) -> str:
    global TOTAL
    TOTAL += 1
    return "a page"


def fills_a_default(context: Any, request: Any, response: Any, seen: list[str] = []) -> str:  # noqa: B006  # the mistake
    seen.append("a")
    return "a page"


def fills_a_cache(context: Any, request: Any, response: Any) -> str:
    return CACHE.setdefault(str(len(CACHE)), "a page")


def deletes_while_it_walks(context: Any, request: Any, response: Any) -> str:
    tree = OOBTree({str(number): number for number in range(100)})
    for key in tree.keys():  # noqa: SIM118  # the mistake
        if key > "5":
            tree.pop(key)
    return "a page"


def deletes_afterwards(context: Any, request: Any, response: Any) -> str:
    tree = OOBTree({str(number): number for number in range(100)})
    for key in list(tree):
        del tree[key]
    for key in tree:
        tree.pop(key)
        break
    return "a page"


def swallows_every_error(context: Any, request: Any, response: Any) -> str:
    try:
        request.root["half"] = True
        request.root["whole"] = "a" + request
    except Exception:
        pass
    return "a page"


def swallows_what_changes_nothing(context: Any, request: Any, response: Any) -> str:
    try:
        return "a" + request
    except Exception:
        pass
    return "a page"


def expects_an_error(context: Any, request: Any, response: Any) -> str:
    try:
        return "a" + request
    except TypeError:
        pass
    return "a page"


def refuses(status: int) -> Any:
    def refuses(context: Any, request: Any, response: Any) -> str:
        request.root["changed"] = request.root.get("changed", 0) + 1
        response.status = status
        return "a page"

    return refuses


TOLD: dict[str, tuple[Any, str, str]] = {
    "nothing is returned": (returns_nothing, "GET /", "the view has returned None, and the page is empty"),
    "nothing is returned to a POST": (returns_nothing, "POST /", "the view has returned None"),
    "a redirect is not returned": (forgets_to_return_a_redirect, "POST /", "redirect(...) is made, and neither"),
    "an answer is not raised": (forgets_to_raise, "GET /", "HTTPFound(...) is made, and neither"),
    "an address is returned": (returns_an_address, "GET /", "the page is an address"),
    "a whole address is returned": (returns_a_whole_address, "POST /", "the page is an address"),
    "Location beside 200": (sets_a_location_alone, "GET /", "a browser ignores Location beside 200 OK"),
    "303 without Location": (sets_a_status_alone, "POST /", "303 See Other without a Location"),
    "JSON": (returns_json, "GET /", "JSON is sent as text/html"),
    "a PDF": (returns_a_pdf, "GET /", "a PDF is sent as text/html"),
    "a picture": (returns_a_picture, "GET /", "a PNG picture is sent as text/html"),
    "markup of the query": (
        shows_what_was_asked,
        "GET /?q=%3Cb%3Ebold",
        "the page has the markup of the field 'q'",
    ),
    "markup of a form": (shows_what_was_sent, "POST /", "the page has the markup of the field 'q'"),
    "a file without enctype": (makes("post", '<input type="file" name="f">'), "GET /", 'no enctype="multipart'),
    "a file by GET": (
        makes("", '<input type="file" name="f">', MULTIPART),
        "GET /",
        'no method="post": its values',
    ),
    "a password by GET": (makes("get", "<input type=password name=p>"), "GET /", 'no method="post": its values'),
    "a field without a name": (makes("post", '<input id="title">'), "GET /", "has no name, so a browser does not"),
    "a form with PUT": (makes("put", ""), "GET /", "a form has the method 'put', for which browsers send a GET"),
    "a dict of the module": (counts_in_a_dict, "POST /", "test_notices_of_pages.COUNTS has changed in memory"),
    "a list of the module": (appends_to_a_list, "POST /", "test_notices_of_pages.NAMES has changed in memory"),
    "a number of the module": (counts_in_a_global, "POST /", "test_notices_of_pages.TOTAL has changed in memory"),
    "a mutable default": (fills_a_default, "POST /", "a default value of a parameter of"),
    "a container that is walked": (deletes_while_it_walks, "POST /", "tree is changed while the loop walks it"),
    "a swallowed error": (swallows_every_error, "POST /", "every exception is swallowed here"),
    "changes beside 403": (
        refuses(403),
        "POST /",
        "the changes were dropped, since the view has set the status 403",
    ),
}
QUIET: dict[str, tuple[Any, str]] = {
    "an empty text": (returns_an_empty_text, "GET /"),
    "204": (sets_204, "POST /"),
    "the text is set": (sets_the_text, "GET /"),
    "a redirect is returned": (returns_a_redirect, "POST /"),
    "a redirect is raised": (raises_a_redirect, "POST /"),
    "an address in a page": (shows_an_address, "GET /"),
    "JSON as JSON": (says_that_it_is_json, "GET /"),
    "a bracket": (begins_with_a_bracket, "GET /"),
    "a PDF as a PDF": (says_that_it_is_a_pdf, "GET /"),
    "a query that is escaped": (escapes_what_was_asked, "GET /?q=%3Cb%3Ebold"),
    "a query without markup": (shows_what_was_asked, "GET /?q=1+%3C+2"),
    "a page that a view has compressed": (compressed_by_the_view, "GET /"),
    "a form for a file": (makes("POST", '<input type="file" name="f"><button>Go</button>', MULTIPART), "GET /"),
    "a form for a query": (makes("", '<input name="q"><input type="submit">'), "GET /"),
    "a field that is not sent": (makes("post", "<textarea readonly></textarea><input disabled>"), "GET /"),
    "a cache": (fills_a_cache, "GET /"),
    "a copy is walked": (deletes_afterwards, "POST /"),
    "an error after which nothing is stored": (swallows_what_changes_nothing, "POST /"),
    "an error that is expected": (expects_an_error, "POST /"),
    "changes beside 422": (refuses(422), "POST /"),
}


def publish(name: str, function: Any) -> str:
    """Have the scan of this module find a view, and return its name."""
    path = name.replace(" ", "-").lower()
    globals()[f"view {path}"] = view(name=path, methods=("GET", "POST"))(function)
    return path


PATHS = {name: publish(name, function) for name, (function, *_) in {**TOLD, **QUIET}.items()}


@pytest.fixture(autouse=True)
def databases() -> Iterator[None]:
    yield
    close_all()


def notices(name: str, asked: str, caplog: pytest.LogCaptureFixture, *inner: Any) -> list[str]:
    """Return the notices of one request. The field ``q`` of a POST has markup."""
    database = (retry(delay=0), zodb(uri="memory://notices"), errors(debug=True))
    site = Pipeline(*database, transaction(), forms(), traverse(), *inner, publisher(scan=(__name__,)))
    method, _, query = asked.partition(" /")
    body = b"q=%3Cb%3Ebold" if method == "POST" else b""
    answer = asking.ask(
        site, f"/{PATHS[name]}{query}", method, body, CONTENT_TYPE=FORM_TYPE, HTTP_ACCEPT_ENCODING="gzip"
    )
    assert ("Content-Encoding" in answer.headers) is bool(inner) or "compressed" in name
    assert answer.status in (200, 204, 302, 303, 403, 422), answer
    return [record.getMessage() for record in caplog.records if record.name == "pipeline.notices"]


@pytest.mark.parametrize("name", TOLD)
def test_a_mistake_is_told(name: str, caplog: pytest.LogCaptureFixture) -> None:
    _, asked, told = TOLD[name]
    found = notices(name, asked, caplog)
    assert [notice for notice in found if told in notice], found
    assert len(found) == 1, found
    if "dropped" not in told:
        assert f"{__file__}, line " in found[0]


@pytest.mark.parametrize("name", QUIET)
def test_right_code_is_quiet(name: str, caplog: pytest.LogCaptureFixture) -> None:
    assert notices(name, QUIET[name][1], caplog) == []


@pytest.mark.parametrize("name", ["markup of the query", "JSON", "a file without enctype", "a form for a file"])
def test_a_page_is_looked_at_also_if_it_is_compressed(name: str, caplog: pytest.LogCaptureFixture) -> None:
    asked = {**TOLD, **{key: (*value, "") for key, value in QUIET.items()}}[name]
    found = notices(name, asked[1], caplog, compress(minimum=1))
    assert bool(found) is (name in TOLD) and asked[2] in "".join(found)
