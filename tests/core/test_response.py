"""The response: WebOb's in everything a user can see, inert, and refusing control characters (S6)."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from typing import Any

import pytest
import webob

from pipeline import Response
from pipeline.interfaces import UnsafeHeader
from small_sites import made_by_the_edge


def fresh() -> Response:
    return made_by_the_edge({})[1]


# As WebOb's.


def lengthless(response: Any) -> Any:
    """What a user sees of a response, but for Content-Length: ours is made when it is sent."""
    headers = [(name, value) for name, value in response.headerlist if name.lower() != "content-length"]
    return (
        response.has_body,
        response.status,
        response.status_int,
        headers,
        response.body,
        response.content_type,
        response.charset,
    )


def with_write(response: Any) -> None:
    response.write("é")
    response.write(b"!")


def with_body_file(response: Any) -> None:
    response.body_file.write("text")
    response.body_file.writelines([" and", " more"])


def with_cookies(response: Any) -> None:
    response.set_cookie("a", "1", max_age=60, httponly=True, samesite="Lax")
    response.set_cookie("b", "two", path="/x y", secure=True)
    response.delete_cookie("c")
    response.unset_cookie("b")


def with_headers(response: Any) -> None:
    response.headers["X-A"] = "1"
    response.headers.add("X-A", "2")
    response.headers.setdefault("X-B", "3")
    response.headers.update({"X-C": "4"}, X_D="5")
    response.headers.extend([("X-E", "6"), ("X-E", "7")])
    response.headers.pop("X-B")
    del response.headers["x-c"]


def with_typed_headers(response: Any) -> None:
    response.last_modified = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    response.cache_control = "public"
    response.cache_control.max_age = 60
    response.etag = "tag"
    response.vary = ("Accept", "Cookie")
    response.location = "/elsewhere"
    response.allow = ["GET"]
    response.content_disposition = 'attachment; filename="a"'
    response.retry_after = 7
    response.content_language = ["en"]
    response.cache_expires(10)
    response.expires = None


def with_types(response: Any) -> None:
    response.content_type = "application/xml"
    response.charset = "latin-1"
    response.text = "é"
    response.content_type_params = {"charset": "utf-8", "version": "1"}


def without_type(response: Any) -> None:
    del response.content_type


def without_charset(response: Any) -> None:
    response.charset = None


CHANGES: list[Callable[[Any], Any]] = [
    lambda r: None,
    lambda r: setattr(r, "body", b"abc"),
    lambda r: setattr(r, "text", "ábc"),
    lambda r: setattr(r, "json", {"a": [1, "é"]}),
    lambda r: setattr(r, "json_body", [1]),
    lambda r: setattr(r, "app_iter", [b"a", b"b"]),
    lambda r: setattr(r, "app_iter", iter([b"a", b"b"])),
    lambda r: setattr(r, "status", 404),
    lambda r: setattr(r, "status", "299 Fine"),
    lambda r: setattr(r, "status", "404"),
    lambda r: setattr(r, "status_int", 201),
    lambda r: setattr(r, "status_code", 418),
    lambda r: setattr(r, "content_type", "text/plain"),
    lambda r: setattr(r, "content_type", "image/png"),
    lambda r: setattr(r, "headers", {"X-Only": "1"}),
    lambda r: setattr(r, "headerlist", [("X-Only", "1"), ("X-Only", "2")]),
    lambda r: delattr(r, "headerlist"),
    lambda r: r.md5_etag(b"x"),
    with_write,
    with_body_file,
    with_cookies,
    with_headers,
    with_typed_headers,
    with_types,
    without_type,
    without_charset,
]


@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("make", [Response, fresh])
def test_a_response_is_webobs(change: Callable[[Any], Any], make: Callable[[], Any]) -> None:
    ours, theirs = make(), webob.Response()
    ours_said, theirs_said = change(ours), change(theirs)
    assert ours_said == theirs_said
    assert lengthless(ours) == lengthless(theirs)
    assert ours.app_iter == [ours.body]


CONSTRUCTED: list[dict[str, Any]] = [
    {"body": b"abc"},
    {"body": "ábc"},
    {"text": "ábc"},
    {"json": {"a": 1}},
    {"json_body": {"a": 1}},
    {"app_iter": [b"a", b"b"]},
    {"status": 404},
    {"status": "404 Gone fishing"},
    {"status": 204},
    {"content_type": "text/plain"},
    {"content_type": "text/plain", "charset": "latin-1", "body": "é"},
    {"content_type": "image/png", "body": b"png"},
    {"headerlist": [("X-A", "1")]},
    {"headerlist": [("Content-Type", "text/plain"), ("X-A", "1")], "body": b"abc"},
    {"conditional_response": True, "etag": "x"},
    {"location": "/x", "status": 302},
    {"content_disposition": "attachment"},
]


@pytest.mark.parametrize("arguments", CONSTRUCTED)
def test_a_response_is_constructed_as_webobs(arguments: dict[str, Any]) -> None:
    ours = Response(
        **{**arguments, "headerlist": list(arguments["headerlist"])}
        if "headerlist" in arguments
        else arguments
    )
    theirs = webob.Response(**arguments)
    assert lengthless(ours) == lengthless(theirs) and ours.headerlist == theirs.headerlist
    assert ours.conditional_response == theirs.conditional_response


DEFAULTS: list[dict[str, Any]] = [
    {},
    {"default_content_type": "application/json"},
    {"default_content_type": None},
    {"default_content_type": "text/plain", "default_charset": "latin-1"},
    {"default_charset": None},
    {"default_conditional_response": True},
    {"unicode_errors": "replace"},
]


@pytest.mark.parametrize("arguments", [{}, {"body": b"abc"}, {"status": 404}])
@pytest.mark.parametrize("defaults", DEFAULTS)
def test_the_defaults_of_a_subclass_count(defaults: dict[str, Any], arguments: dict[str, Any]) -> None:
    """Also where nothing is said: ``Response()``."""
    ours = type("Ours", (Response,), dict(defaults))(**arguments)
    theirs = type("Theirs", (webob.Response,), dict(defaults))(**arguments)
    assert lengthless(ours) == lengthless(theirs)
    assert (ours.content_type, ours.charset) == (theirs.content_type, theirs.charset)
    assert ours.conditional_response == theirs.conditional_response and ours.content_length == theirs.content_length


@pytest.mark.parametrize("make", [Response, fresh])
def test_the_length_of_nothing_is_0(make: Callable[[], Any]) -> None:
    assert make().content_length == webob.Response().content_length == 0
    response = make()
    response.app_iter = iter([b"a"])
    assert response.content_length is None
    response.content_length = 1
    assert response.content_length == 1 and response.headers["Content-Length"] == "1"


def test_a_bad_argument_is_refused_as_by_webob() -> None:
    with pytest.raises(TypeError, match="Unexpected keyword"):
        Response(nonsense=1)


def test_a_copy_is_one_of_its_own() -> None:
    response = Response()
    response.text = "a"
    response.set_cookie("a", "1")
    response.headers["X"] = "1"
    copy = response.copy()
    assert isinstance(copy, Response) and lengthless(copy) == lengthless(response)
    copy.headers["X"] = "2"
    copy.text = "b"
    assert response.headers["X"] == "1" and response.text == "a"


def test_responses_share_nothing() -> None:
    first = fresh()
    first.write(b"x")
    first.headers["X"] = "1"
    first.add_filter(lambda blocks: blocks)
    second = fresh()
    assert second.body == b"" and "X" not in second.headers and second.filters == ()
    assert Response().body == b"" and Response().headerlist is not Response().headerlist


def test_the_response_is_inert() -> None:
    with pytest.raises(TypeError, match="cannot be called: the edge sends it"):
        Response()({}, lambda *started: None)


# S6, when set. Each way in which a header or the status is set.

SET: dict[str, Callable[[Any, str], Any]] = {
    "headers[]": lambda r, text: r.headers.__setitem__("X", text),
    "headers[name]": lambda r, text: r.headers.__setitem__(text, "x"),
    "headers.add": lambda r, text: r.headers.add("X", text),
    "headers.add name": lambda r, text: r.headers.add(text, "x"),
    "headers.setdefault": lambda r, text: r.headers.setdefault("X", text),
    "headers.update": lambda r, text: r.headers.update({"X": text}),
    "headers.update pairs": lambda r, text: r.headers.update([("Y", "y"), ("X", text)]),
    "headers.update keyword": lambda r, text: r.headers.update(X=text),
    "headers.extend": lambda r, text: r.headers.extend({"X": text}),
    "headers.extend pairs": lambda r, text: r.headers.extend([("X", text), ("X", "fine")]),
    "headers.extend keyword": lambda r, text: r.headers.extend(X=text),
    "headers.extend headers": lambda r, text: r.headers.extend(
        webob.headers.ResponseHeaders([("X", text), ("X", "fine")])
    ),
    "headers=": lambda r, text: setattr(r, "headers", {"X": text}),
    "headerlist=": lambda r, text: setattr(r, "headerlist", [("X", text), ("X", "fine")]),
    "headerlist= dict": lambda r, text: setattr(r, "headerlist", {"X": text}),
    "status=": lambda r, text: setattr(r, "status", f"200 {text}"),
    "content_type=": lambda r, text: setattr(r, "content_type", f"text/{text}"),
    "content_type_params=": lambda r, text: setattr(r, "content_type_params", {"a": text}),
    "charset=": lambda r, text: setattr(r, "charset", text),
    "location=": lambda r, text: setattr(r, "location", text),
    "content_disposition=": lambda r, text: setattr(r, "content_disposition", text),
    "content_location=": lambda r, text: setattr(r, "content_location", text),
    "content_language=": lambda r, text: setattr(r, "content_language", [text]),
    "content_encoding=": lambda r, text: setattr(r, "content_encoding", text),
    "server=": lambda r, text: setattr(r, "server", text),
    "pragma=": lambda r, text: setattr(r, "pragma", text),
    "vary=": lambda r, text: setattr(r, "vary", (text,)),
    "allow=": lambda r, text: setattr(r, "allow", (text,)),
    "etag=": lambda r, text: setattr(r, "etag", text),
    "www_authenticate=": lambda r, text: setattr(r, "www_authenticate", text),
    "cache_control=": lambda r, text: setattr(r, "cache_control", text),
    "cookie name": lambda r, text: r.set_cookie(text, "x"),
    "cookie path": lambda r, text: r.set_cookie("x", "x", path=f"/{text}"),
    "cookie domain": lambda r, text: r.set_cookie("x", "x", domain=text),
    "cookie comment": lambda r, text: r.set_cookie("x", "x", comment=text),
    "constructor status": lambda r, text: Response(status=f"200 {text}"),
    "constructor headerlist": lambda r, text: Response(headerlist=[("X", text)]),
    "constructor content_type": lambda r, text: Response(content_type=f"text/{text}"),
    "constructor location": lambda r, text: Response(location=text),
}

CONTROLS = ["\r", "\n", "\r\n", "\0", "\t", "\x01", "\x0b", "\x1f", "\x7f"]


@pytest.mark.filterwarnings("ignore:Cookie value contains invalid bytes:RuntimeWarning")
@pytest.mark.parametrize("way", SET)
@pytest.mark.parametrize("control", CONTROLS)
def test_a_control_character_is_refused_when_it_is_set(way: str, control: str) -> None:
    """S6. A way that quotes what it is given may take it; none leaves a control character behind."""
    response = fresh()
    response.headers["Before"] = "1"
    refused = False
    try:
        SET[way](response, f"a{control}b")
    except ValueError:
        refused = True
    said = [response.status, *(text for pair in response.headerlist for text in pair)]
    assert not any(character in text for text in said for character in CONTROLS), "nothing is left of it"
    assert refused or way in QUOTED
    assert response.headers["Before"] == "1" or way in ("headers=", "headerlist=", "headerlist= dict")


QUOTED = {"cookie path", "cookie domain", "cookie comment"}


@pytest.mark.filterwarnings("ignore:Cookie value contains invalid bytes:RuntimeWarning")
@pytest.mark.parametrize("control", CONTROLS)
def test_a_cookie_quotes_its_value(control: str) -> None:
    response = fresh()
    response.set_cookie("a", f"x{control}y")
    assert not any(character in response.headers["Set-Cookie"] for character in CONTROLS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X", "€"),
        ("X", 3),
        ("X", None),
        ("X", b"x"),
        ("é", "x"),
        ("", "x"),
        ("X Y", "x"),
        ("X:", "x"),
        ("X;Y", "x"),
    ],
)
def test_what_cannot_be_sent_is_refused_when_it_is_set(name: Any, value: Any) -> None:
    with pytest.raises(UnsafeHeader):
        fresh().headers[name] = value


@pytest.mark.parametrize("status", ["", "abc", b"200 \xff", None])
def test_what_is_no_status_is_refused(status: Any) -> None:
    response = fresh()
    with pytest.raises((ValueError, TypeError, IndexError)):
        response.status = status
    assert response.status == "200 OK"


# Taking an answer back, and taking over another.


def test_restore_is_as_it_was_at_the_snapshot() -> None:
    response = fresh()
    response.headers["X-Outer"] = "1"
    response.set_cookie("outer", "1")
    snapshot = response.snapshot()
    for _ in range(2):
        response.status = 500
        response.headers["X-Outer"] = "2"
        response.headers["X-Inner"] = "3"
        response.body = b"body"
        response.conditional_response = True
        response.add_filter(lambda blocks: blocks)
        response.filters_applied = True
        response.restore(snapshot)
        assert not response.filters_applied, "so that an error view may add a filter"
        assert response.status == "200 OK" and response.filters == () and not response.conditional_response
        assert response.headers["X-Outer"] == "1" and "X-Inner" not in response.headers
        assert response.headers.getall("Set-Cookie") == ["outer=1; Path=/"]
        assert response.body == b""


def test_adopt_replaces_what_is_there_and_keeps_the_rest() -> None:
    response = fresh()
    response.headers.update({"X-Ours": "1", "X-Both": "ours", "ETag": '"ours"'})
    response.set_cookie("ours", "1")
    response.body = b"ours"
    theirs = [
        ("x-both", "theirs"),
        ("Set-Cookie", "theirs=1"),
        ("Content-Type", "text/plain"),
        ("X-Both", "2"),
    ]
    response.adopt("201 Created", theirs, [b"theirs"])
    assert response.status_int == 201 and response.body == b"theirs"
    assert response.headers["X-Ours"] == "1" and response.headers["ETag"] == '"ours"'
    assert response.headers.getall("X-Both") == ["theirs", "2"]
    assert response.headers.getall("Set-Cookie") == ["ours=1; Path=/", "theirs=1"]
    assert response.headers.getall("Content-Type") == ["text/plain"]


def test_adopting_an_answer_without_a_type_has_none() -> None:
    response = fresh()
    response.adopt("204 No Content", [], [])
    assert "Content-Type" not in response.headers


def test_json_is_what_it_was() -> None:
    response = Response(json={"é": 1})
    assert json.loads(response.body) == {"é": 1} and response.content_type == "application/json"
