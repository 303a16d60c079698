"""The publisher: the call of the view, every kind of result, and what is answered where there is no view."""

from __future__ import annotations

import gzip
import io
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import webob
from webob.exc import HTTPException, HTTPForbidden, HTTPFound, HTTPNoContent, HTTPNotFound, HTTPSeeOther
from zope.interface import implementer

from pipeline import Response, redirect, view
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.interfaces import IResult
from pipeline.views import adapter


class Markup(str):
    """As templating packages have it."""


class Blocks:
    def __init__(self, *blocks: Any) -> None:
        self.blocks = iter(blocks)
        self.closed = 0

    def __iter__(self) -> Iterator[Any]:
        return self.blocks

    def close(self) -> None:
        self.closed += 1


class ReadOnly:
    """A file that can only be read."""

    def __init__(self, data: bytes) -> None:
        self.file = io.BytesIO(data)
        self.closed = 0

    def read(self, size: int = -1) -> bytes:
        return self.file.read(size)

    def close(self) -> None:
        self.closed += 1


def temporary(data: bytes) -> Any:
    file = tempfile.TemporaryFile()  # noqa: SIM115
    file.write(data)
    file.seek(0)
    return file


def at(position: int, file: Any) -> Any:
    file.seek(position)
    return file


def zipped(data: bytes) -> Any:
    return gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(data)))


def zipped_on_disk(data: bytes) -> Any:
    with tempfile.NamedTemporaryFile() as file:
        file.write(gzip.compress(data))
        file.flush()
        return gzip.open(file.name)


def other(**options: Any) -> webob.Response:
    return webob.Response(**options)


RESULTS: list[tuple[str, Any, bytes, str | None]] = [
    # what it is, what makes it, and what is sent: body, Content-Length
    ("str", lambda: "é", "é".encode(), "2"),
    ("an empty str", lambda: "", b"", "0"),
    ("a subclass of str", lambda: Markup("<é>"), "<é>".encode(), "4"),
    ("bytes", lambda: b"\xff", b"\xff", "1"),
    ("None", lambda: None, b"", "0"),
    ("a list", lambda: [b"a", b"b"], b"ab", "2"),
    ("an empty list", list, b"", "0"),
    ("a tuple", lambda: (b"a", b"b"), b"ab", "2"),
    ("a generator", lambda: (block for block in (b"a", b"b")), b"ab", None),
    ("an iterator", lambda: iter([b"a", b"b"]), b"ab", None),
    ("an iterable", lambda: Blocks(b"a", b"b"), b"ab", None),
    ("a map", lambda: map(str.encode, "ab"), b"ab", None),
    ("BytesIO", lambda: io.BytesIO(b"file"), b"file", "4"),
    ("BytesIO further on", lambda: at(2, io.BytesIO(b"file")), b"le", "2"),
    ("an empty file", lambda: io.BytesIO(), b"", "0"),
    ("a file on disk", lambda: temporary(b"x" * 200_000), b"x" * 200_000, "200000"),
    ("a file on disk further on", lambda: at(199_999, temporary(b"x" * 200_000)), b"x", "1"),
    ("a file that cannot tell", lambda: ReadOnly(b"file"), b"file", None),
    ("a file that is unpacked", lambda: zipped(b"x" * 9000), b"x" * 9000, "9000"),
    ("a file on disk that is unpacked", lambda: zipped_on_disk(b"x" * 9000), b"x" * 9000, "9000"),
    ("WebOb's response", lambda: other(body=b"abc"), b"abc", "3"),
    ("WebOb's response, streamed", lambda: other(app_iter=Blocks(b"a", b"b")), b"ab", None),
    ("a response of ours", lambda: Response(text="abc"), b"abc", "3"),
    ("a response of ours, empty", lambda: Response(), b"", "0"),
]


@pytest.mark.parametrize(("what", "make", "body", "length"), RESULTS)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_results(
    call: Any, publish: Any, what: str, make: Any, body: bytes, length: str, method: str
) -> None:
    made: list[Any] = []

    @view(context=dict)
    def result(context: Any, request: Any) -> Any:
        made.append(make())
        return made[0]

    answer = call(publish(result), "/", method)
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/html")
    assert answer.body == (body if method == "GET" else b"")
    assert answer.headers.get("Content-Length") == length
    closed = getattr(made[0], "closed", True)
    assert closed in (True, 1), "it was closed, once"


WRONG: list[tuple[str, Any]] = [
    ("a dict", {"a": 1}),
    ("an OrderedDict", OrderedDict(a=b"x")),
    ("an int", 3),
    ("zero", 0),
    ("False", False),
    ("a float", 1.5),
    ("a list of str", ["text"]),
    ("a mixed list", [b"a", "b"]),
    ("a list of ints", [1, 2]),
    ("a tuple of str", ("text",)),
    ("a set", {b"a"}),
    ("a frozenset", frozenset({b"a"})),
    ("an object", object()),
    ("a class", dict),
    ("a function", len),
    ("a bytearray", bytearray(b"x")),
    ("a memoryview", memoryview(b"x")),
    ("a text file", io.StringIO("text")),
    ("a range", range(3)),
    ("an exception that is no answer", ValueError("x")),
]


@pytest.mark.parametrize(("what", "result"), WRONG)
def test_what_is_no_result_names_the_view_and_the_value(
    call: Any, publish: Any, what: str, result: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @view(context=dict)
    def wrong(context: Any, request: Any) -> Any:
        return result

    app = publish(wrong)
    assert call(app).status == 500
    assert f"{wrong.__module__}.{wrong.__qualname__} ({__file__}, line " in caplog.text
    assert f"returned {result!r}"[:200] in caplog.text and f"of type {type(result).__name__};" in caplog.text
    assert "a view returns str, bytes, an iterable of bytes" in caplog.text


@pytest.mark.parametrize(
    "change",
    [
        lambda response: setattr(response, "app_iter", ["text"]),
        lambda response: setattr(response, "app_iter", [b"a", 3]),
        lambda response: setattr(response, "app_iter", None),
    ],
)
def test_a_wrong_body_on_the_response_is_an_error(call: Any, publish: Any, change: Any) -> None:
    @view(context=dict)
    def wrong(context: Any, request: Any, response: Any) -> None:
        change(response)

    assert call(publish(wrong)).status == 500


@pytest.mark.parametrize("block", ["text", 3, None])
def test_a_generator_that_yields_no_bytes(call: Any, publish: Any, block: Any) -> None:
    @view(context=dict)
    def early(context: Any, request: Any) -> Any:
        yield block

    @view(context=dict, name="late")
    def late(context: Any, request: Any) -> Any:
        yield b"a"
        yield b"b"
        yield block

    app = publish(early, late)
    assert call(app).status == 500
    with pytest.raises(TypeError, match="a streamed body yielded"):
        call(app, "/late")


# str and charsets


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/html; charset=UTF-8", "é€".encode()),
        ("text/plain; charset=utf-16-be", "é€".encode("utf-16-be")),
        ("text/plain; charset=iso-8859-15", b"\xe9\xa4"),
        ('text/plain; charset="iso-8859-15"', b"\xe9\xa4"),
        ("text/plain", "é€".encode()),
        ("application/json", "é€".encode()),
        ("image/svg+xml", "é€".encode()),
        (None, "é€".encode()),
    ],
)
def test_str_is_encoded_by_the_charset_of_the_response(
    call: Any, publish: Any, content_type: str | None, body: bytes
) -> None:
    @view(context=dict)
    def text(context: Any, request: Any, response: Any) -> str:
        if content_type is None:
            del response.content_type
        else:
            response.headers["Content-Type"] = content_type
        return "é€"

    answer = call(publish(text), valid=content_type is not None)
    assert answer.status == 200 and answer.body == body
    assert answer.headers.get("Content-Type") == content_type


@pytest.mark.parametrize(
    ("charset", "text"), [("latin-1", "€"), ("no-such-charset", "a"), ("utf-8", "\ud800")]
)
def test_what_cannot_be_encoded_is_an_error(call: Any, publish: Any, charset: str, text: str) -> None:
    @view(context=dict)
    def wrong(context: Any, request: Any, response: Any) -> str:
        response.charset = charset
        return text

    assert call(publish(wrong)).status == 500


# The response that the view was given, and others


def test_what_a_view_puts_on_the_response_stays(call: Any, publish: Any) -> None:
    @view(context=dict)
    def index(context: Any, request: Any, response: Any) -> str:
        response.status = 201
        response.headers["X-A"] = "1"
        response.set_cookie("a", "b")
        return "made"

    answer = call(publish(index))
    assert (answer.status, answer.text) == (201, "made")
    assert answer.headers["X-A"] == "1" and answer.headers["Set-Cookie"] == "a=b; Path=/"


@pytest.mark.parametrize("returns", [None, "itself"])
def test_a_view_that_fills_the_response(call: Any, publish: Any, returns: Any) -> None:
    body = Blocks(b"a", b"b")

    @view(context=dict)
    def index(context: Any, request: Any, response: Any) -> Any:
        response.app_iter = body
        return response if returns else None

    assert call(publish(index)).body == b"ab" and body.closed == 1


def test_another_response_brings_its_own_headers(call: Any, publish: Any) -> None:
    @view(context=dict)
    def index(context: Any, request: Any, response: Any) -> Any:
        response.headers["X-Ours"] = "1"
        response.headers["X-Both"] = "ours"
        return webob.Response(json={"a": 1}, headerlist=None, status=202, etag="x", content_language="en")

    answer = call(publish(index))
    assert answer.status == 202 and answer.body == b'{"a":1}'
    assert answer.headers["Content-Type"] == "application/json" and answer.headers["ETag"] == '"x"'
    assert answer.headers["X-Ours"] == "1" and answer.headers["X-Both"] == "ours"


def test_another_response_may_be_conditional(call: Any, publish: Any) -> None:
    @view(context=dict)
    def index(context: Any, request: Any) -> Any:
        return webob.Response(body=b"0123456789", conditional_response=True, etag="x")

    app = publish(index)
    assert call(app, HTTP_IF_NONE_MATCH='"x"').status == 304
    ranged = call(app, HTTP_RANGE="bytes=2-3")
    assert (ranged.status, ranged.body) == (206, b"23")


def test_a_view_may_stream_with_a_length(call: Any, publish: Any) -> None:
    @view(context=dict)
    def index(context: Any, request: Any, response: Any) -> Any:
        response.content_length = 2
        return iter([b"a", b"b"])

    assert call(publish(index)).headers["Content-Length"] == "2"


# HTTP exceptions


@pytest.mark.parametrize("way", ["raised", "returned"])
@pytest.mark.parametrize(
    ("error", "status", "headers"),
    [
        (lambda: HTTPNotFound("gone"), 404, {}),
        (lambda: HTTPForbidden("no", headers={"X-Why": "1"}), 403, {"X-Why": "1"}),
        (lambda: HTTPFound(location="/x"), 302, {"Location": "/x"}),
        (lambda: HTTPSeeOther(location="/x", headers=[("Set-Cookie", "a=b")]), 303, {"Set-Cookie": "a=b"}),
        (lambda: HTTPNoContent(), 204, {}),
        (lambda: HTTPNotFound(body=b"own", content_type="text/plain"), 404, {}),
    ],
)
def test_http_exceptions(
    call: Any, publish: Any, way: str, error: Any, status: int, headers: dict[str, str]
) -> None:
    @view(context=dict)
    def index(context: Any, request: Any) -> Any:
        if way == "raised":
            raise error()
        return error()

    for outer in ((), (errors(),)):
        answer = call(publish(index, outer=outer))
        assert answer.status == status
        for name, value in headers.items():
            assert answer.headers[name] == value
        if status == 404:
            assert answer.body in (b"gone\n", b"own")
            assert answer.headers["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize("raises", [True, False])
def test_a_redirect_replaces_a_location_that_was_set_before(call: Any, publish: Any, raises: bool) -> None:
    @view(context=dict)
    def index(context: Any, request: Any, response: Any) -> Any:
        response.headers["Location"] = "/first"
        response.headers["Vary"] = "Cookie"
        if raises:
            raise redirect("/second")
        return redirect("/second")

    answer = call(publish(index))
    assert [value for name, value in answer.headerlist if name == "Location"] == ["/second"]
    assert answer.headers["Vary"] == "Cookie"


@pytest.mark.parametrize("status", [200, 302, 404, 503])
def test_the_plain_exception_of_webob_has_any_answer(call: Any, publish: Any, status: int) -> None:
    @view(context=dict)
    def index(context: Any, request: Any) -> Any:
        raise HTTPException(
            "message", webob.Response(status=status, body=b"answer", content_type="text/plain")
        )

    for outer in ((), (errors(),)):
        answer = call(publish(index, outer=outer))
        assert (answer.status, answer.body) == (status, b"answer")


def test_what_the_visitor_sent_is_not_shown(call: Any, publish: Any) -> None:
    """S7: WebOb's own pages would show it."""

    @view(context=dict)
    def index(context: Any, request: Any) -> Any:
        raise HTTPNotFound

    app = publish(index)
    answer = call(app, "/?<script>", HTTP_ACCEPT="text/html", HTTP_X_EVIL="<script>", HTTP_REFERER="<script>")
    assert b"<script>" not in answer.body and answer.headers["X-Content-Type-Options"] == "nosniff"


# Error views


def test_an_error_view_of_the_most_specific_class(call: Any, publish: Any) -> None:
    @view(context=Exception)
    def general(error: Exception, request: Any) -> str:
        return f"general {error}"

    @view(context=LookupError)
    def lookup(error: Exception, request: Any, response: Any) -> str:
        response.status = 404
        return f"lookup {error.args}"

    @view(context=HTTPNotFound)
    def missing(error: Any, request: Any) -> str:
        return f"missing {error.detail}"

    @view(context=dict)
    def index(context: Any, request: Any) -> Any:
        raise {"key": KeyError, "value": ValueError, "missing": HTTPNotFound}[
            request.environ["QUERY_STRING"]
        ]("x")

    app = publish(general, lookup, missing, index)
    key, value, gone = (call(app, f"/?{which}") for which in ("key", "value", "missing"))
    assert (key.status, key.text) == (404, "lookup ('x',)")
    assert (value.status, value.text) == (500, "general x")
    assert (gone.status, gone.text) == (404, "missing x")
    assert call(app, "/nowhere").text == "missing There is nothing at this address."


# Methods


@pytest.fixture
def methods(publish: Any) -> Any:
    @view(context=dict)
    def index(context: Any, request: Any) -> str:
        return "index"

    @view(context=dict, name="form", methods=("POST", "PUT"))
    def form(context: Any, request: Any) -> str:
        return "form"

    @view(context=dict, name="own", methods=("OPTIONS", "DELETE"))
    def own(context: Any, request: Any) -> str:
        return "own"

    @view(context=str, name="form")
    def unrelated(context: Any, request: Any) -> str:
        return "unrelated"

    return publish(index, form, own)


METHODS: list[tuple[str, str, int, str | None]] = [
    ("/", "GET", 200, None),
    ("/", "HEAD", 200, None),
    ("/", "POST", 405, "GET, HEAD, OPTIONS"),
    ("/", "BREW", 405, "GET, HEAD, OPTIONS"),
    ("/", "get", 405, "GET, HEAD, OPTIONS"),
    ("/", "OPTIONS", 200, "GET, HEAD, OPTIONS"),
    ("/form", "GET", 405, "OPTIONS, POST, PUT"),
    ("/form", "HEAD", 405, "OPTIONS, POST, PUT"),
    ("/form", "PUT", 200, None),
    ("/form", "OPTIONS", 200, "OPTIONS, POST, PUT"),
    ("/own", "OPTIONS", 200, None),
    ("/own", "GET", 405, "DELETE, OPTIONS"),
    ("/nowhere", "GET", 404, None),
    ("/nowhere", "OPTIONS", 404, None),
    ("/nowhere", "PUT", 404, None),
    ("/@@_private", "GET", 404, None),
    ("/++view++_private", "GET", 404, None),
    ("*", "OPTIONS", 404, None),
]


@pytest.mark.filterwarnings("ignore:Unknown REQUEST_METHOD")
@pytest.mark.parametrize(("path", "method", "status", "allow"), METHODS)
def test_methods(call: Any, methods: Any, path: str, method: str, status: int, allow: str | None) -> None:
    """S2: a view is called by the methods that it was registered for, and by no other."""
    answer = call(methods, path, method, valid=path != "*")
    assert (answer.status, answer.headers.get("Allow")) == (status, allow)
    if method == "OPTIONS" and allow:
        assert answer.body == b""


def test_nothing_is_published_by_being_there(call: Any, publish: Any) -> None:
    """S2: neither functions of a scanned module, nor methods of an object, nor docstrings."""

    class Thing:
        def method(self) -> str:
            """Has a docstring, which once was enough."""
            return "secret"

    def unregistered(context: Any, request: Any) -> str:
        """Stands in a scanned module."""
        return "secret"

    app = publish(unregistered, root={"thing": Thing()})
    for path in ("/unregistered", "/thing/method", "/thing", "/thing/method/__call__"):
        assert call(app, path).status == 404


# Permissions


def test_a_permission_without_anybody_to_ask_is_refused(call: Any, publish: Any) -> None:
    @view(context=dict, permission="edit")
    def index(context: Any, request: Any) -> str:
        return "secret"

    assert call(publish(index)).status == 403


@pytest.mark.parametrize(("login", "status"), [(None, 401), ("ada:wrong", 401), ("ada:right", 200)])
def test_a_permission_needs_a_principal(call: Any, publish: Any, login: str | None, status: int) -> None:
    from base64 import b64encode

    @view(context=dict, permission="edit", methods=("GET", "POST"))
    def index(context: Any, request: Any) -> str:
        return f"{request.principal}"

    check = authenticate(check=lambda request, login, password: login if password == "right" else None)
    header = {} if login is None else {"HTTP_AUTHORIZATION": "Basic " + b64encode(login.encode()).decode()}
    answer = call(publish(index, outer=(errors(), check)), "/", "POST", **header)
    assert answer.status == status and (answer.text == "ada") == (status == 200)
    assert ("WWW-Authenticate" in answer.headers) == (status == 401)


# IResult


def test_an_adapter_makes_a_result_of_a_value(call: Any, publish: Any) -> None:
    class Point:
        x = 3

    class SubPoint(Point):
        x = 4

    @adapter(Point, IResult)
    class PointResult:
        def __init__(self, point: Point) -> None:
            self.point = point

        def __call__(self, request: Any, response: Any) -> str:
            response.content_type = "text/plain"
            return f"{self.point.x} {request.view_name}"

    @view(context=dict, name="point")
    def point(context: Any, request: Any) -> Any:
        return SubPoint()

    answer = call(publish(PointResult, point), "/point")
    assert answer.text == "4 point" and answer.headers["Content-Type"] == "text/plain; charset=UTF-8"


def test_an_adapter_may_lead_to_another_and_beats_what_is_built_in(call: Any, publish: Any) -> None:
    @adapter(list, IResult)
    def of_list(value: list[Any]) -> Any:
        return lambda request, response: {"items": len(value)}

    @adapter(dict, IResult)
    def of_dict(value: dict[str, Any]) -> Any:
        return lambda request, response: repr(value)

    @view(context=dict)
    def index(context: Any, request: Any) -> Any:
        return [b"a", b"b"]

    assert call(publish(of_list, of_dict, index)).text == "{'items': 2}"


def test_a_value_may_be_its_own_result(call: Any, publish: Any) -> None:
    @implementer(IResult)
    class Own:
        def __call__(self, request: Any, response: Any) -> bytes:
            return b"own"

    @view(context=dict)
    def index(context: Any, request: Any) -> Any:
        return Own()

    assert call(publish(index)).text == "own"


# Class views


def test_a_class_view_is_made_for_each_request(call: Any, publish: Any) -> None:
    made: list[Any] = []

    @view(context=dict)
    class Index:
        def __init__(self, context: Any, request: Any) -> None:
            made.append(self)
            self.context, self.request = context, request

        def __call__(self) -> str:
            return f"{self.context} {self.request.method}"

    app = publish(Index)
    assert call(app).text == "{} GET" and call(app).text == "{} GET"
    assert made[0] is not made[1]


# Files


def test_a_file_is_sent_in_blocks_and_its_range_is_read_alone(
    call: Any, publish: Any, tmp_path: Path
) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(range(256)) * 4096)
    read: list[int] = []

    class Counting(io.FileIO):
        def read(self, size: int | None = -1) -> bytes:  # type: ignore[override]
            data = super().read(-1 if size is None else size)
            read.append(len(data))
            return data

    @view(context=dict)
    def large(context: Any, request: Any, response: Any) -> Any:
        response.conditional_response = True
        response.content_type = "application/octet-stream"
        return Counting(str(path))

    app = publish(large)
    whole = call(app)
    assert len(whole.body) == 2**20 and whole.headers["Content-Length"] == str(2**20)
    assert max(read) <= 64 * 1024
    read.clear()
    part = call(app, HTTP_RANGE="bytes=1000000-1000009")
    assert part.status == 206 and part.body == (bytes(range(256)) * 4096)[1000000:1000010]
    assert sum(read) <= 64 * 1024, "what stands before is not read"
