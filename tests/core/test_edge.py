"""The WSGI edge: what is sent, and that everything is closed, whatever views and elements did."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from webob import Response as WebObResponse
from webob.exc import HTTPNotFound

from pipeline import Pipeline, element
from pipeline.http.files import FileBody
from pipeline.response import HTML, NOSNIFF


class Blocks:
    """A closable body that counts how often it is closed."""

    def __init__(self, blocks: Iterable[Any] = (b"a", b"b")) -> None:
        self.iterator = iter(blocks)
        self.closed = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        block = next(self.iterator)
        if isinstance(block, BaseException):
            raise block
        return block

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def answering() -> Callable[[Callable[[Any, Any], Any]], Pipeline]:
    """``answering(handler)`` is a pipeline that is this handler and nothing else."""

    def answering(handler: Callable[[Any, Any], Any]) -> Pipeline:
        @element
        def end() -> Any:
            return handler

        return Pipeline(end)

    return answering


# What is sent.


class Text(str):
    """A text that is equal to a plain one."""


def test_an_answer_shares_no_headers_with_the_next_one(answering: Callable[..., Pipeline]) -> None:
    """The edge keeps its result for headers that are known from load. What a server appends to its list is of one
    answer, and a text of another class is not kept in the place of a plain one."""
    sent: list[list[tuple[str, str]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
        sent.append(headers.copy())
        headers.append(("X-Of-One-Answer", "yes"))

    for text in (Text, str, str):
        pairs = [HTML, (NOSNIFF[0], text(NOSNIFF[1]))]
        app = answering(lambda request, response, pairs=pairs: says(response, headerlist=pairs, blocks=[b"x"]))
        app({"REQUEST_METHOD": "GET", "PATH_INFO": "/"}, start_response)
    assert sent[0] == sent[1] == sent[2]
    assert [{type(value) for _, value in headers} for headers in sent[1:]] == [{str}, {str}]


def says(response: Any, **attributes: Any) -> None:
    for name, value in attributes.items():
        setattr(response, name, value)


SENT: list[tuple[str, Callable[[Any], Any], str, int, bytes, str | None]] = [
    # what it is, what a handler does, method, and what is sent: status, body, Content-Length
    ("nothing", lambda r: None, "GET", 200, b"", "0"),
    ("a body", lambda r: says(r, body=b"abc"), "GET", 200, b"abc", "3"),
    ("a body", lambda r: says(r, body=b"abc"), "HEAD", 200, b"", "3"),
    ("a list", lambda r: says(r, app_iter=[b"ab", b"c"]), "GET", 200, b"abc", "3"),
    ("a tuple", lambda r: says(r, app_iter=(b"ab", b"c")), "GET", 200, b"abc", "3"),
    ("a stream", lambda r: says(r, app_iter=Blocks()), "GET", 200, b"ab", None),
    ("a stream", lambda r: says(r, app_iter=Blocks()), "HEAD", 200, b"", None),
    ("a measured stream", lambda r: says(r, app_iter=Blocks(), content_length=2), "GET", 200, b"ab", "2"),
    ("a measured stream", lambda r: says(r, app_iter=Blocks(), content_length=2), "HEAD", 200, b"", "2"),
    ("a length and no body", lambda r: says(r, app_iter=[], content_length=9), "HEAD", 200, b"", "9"),
    ("a length and no body", lambda r: says(r, app_iter=[], content_length=9), "GET", 200, b"", "0"),
    ("a wrong length", lambda r: says(r, body=b"abc", content_length=9), "GET", 200, b"abc", "3"),
    ("a wrong length", lambda r: says(r, body=b"abc", content_length=9), "HEAD", 200, b"", "3"),
    ("two lengths", lambda r: two_lengths(r, [b"abc"]), "GET", 200, b"abc", "3"),
    ("two lengths", lambda r: two_lengths(r, Blocks([b"abc"])), "GET", 200, b"abc", "3"),
    ("204", lambda r: says(r, body=b"abc", status=204), "GET", 204, b"", None),
    ("204", lambda r: says(r, app_iter=Blocks(), status=204), "POST", 204, b"", None),
    ("205", lambda r: says(r, body=b"abc", status=205), "GET", 205, b"", "0"),
    ("205", lambda r: says(r, app_iter=Blocks(), status=205), "POST", 205, b"", "0"),
    ("205", lambda r: says(r, app_iter=Blocks(), content_length=2, status=205), "HEAD", 205, b"", "0"),
    ("304", lambda r: says(r, body=b"abc", status=304), "GET", 304, b"", None),
    ("304", lambda r: says(r, body=b"abc", status="304 Same"), "HEAD", 304, b"", None),
    ("an error", lambda r: says(r, body=b"no", status=404), "GET", 404, b"no", "2"),
    ("an error", lambda r: says(r, body=b"no", status=500), "HEAD", 500, b"", "2"),
    ("empty blocks", lambda r: says(r, app_iter=Blocks([b"", b"", b"a", b""])), "GET", 200, b"a", None),
    ("empty blocks alone", lambda r: says(r, app_iter=Blocks([b"", b""])), "GET", 200, b"", None),
]


def two_lengths(response: Any, body: Any) -> None:
    response.app_iter = body
    response.headerlist += [("content-length", "9"), ("Content-Length", "3")]


@pytest.mark.parametrize(("what", "change", "method", "status", "body", "length"), SENT)
def test_what_is_sent(
    call: Any,
    answering: Any,
    what: str,
    change: Any,
    method: str,
    status: int,
    body: bytes,
    length: str | None,
) -> None:
    """HEAD, 204, 205 and 304 carry no body; Content-Length is right or absent."""
    answer = call(answering(lambda request, response: change(response)), method=method)
    assert (answer.status, answer.body, answer.headers.get("Content-Length")) == (status, body, length)
    assert ("Content-Type" in answer.headers) == (status not in (204, 304))


@pytest.mark.parametrize("status", ["100 Continue", "101 Switching Protocols", "103 Early Hints"])
def test_a_1xx_carries_nothing(environ: Any, answering: Any, status: str) -> None:
    started: list[Any] = []
    app = answering(lambda request, response: says(response, body=b"abc", status=status))
    assert app(environ(), lambda *arguments: started.extend(arguments)) == []
    assert started == [status, []]


@pytest.mark.parametrize(
    ("length", "blocks", "sent"),
    [(3, [b"ab"], b"ab"), (1, [b"a", b"b"], b""), (2, [b"a", b"bc"], b"a"), (0, [b"a"], b"")],
)
def test_a_stream_of_another_length_is_an_error(
    environ: Any, answering: Any, length: int, blocks: list[bytes], sent: bytes
) -> None:
    """What is sent is never taken for complete: either it is an error answer, or the stream breaks."""
    app = answering(lambda request, response: says(response, app_iter=Blocks(blocks), content_length=length))
    started: list[Any] = []
    body = app(environ(), lambda *arguments: started.extend(arguments))
    got = b""
    try:
        for block in body:
            got += block
    except ValueError:
        assert started[0] == "200 OK" and got == sent
    else:
        assert started[0].startswith("500") and got.startswith(b"An error occurred")
    if hasattr(body, "close"):
        body.close()


def with_file(start_response: Any, environ: Any, *headers: tuple[str, str]) -> Any:
    start_response("200 OK", [("Content-Type", "text/plain"), *headers])
    return environ["wsgi.file_wrapper"](io.BytesIO(b"abc"))


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_length_of_a_file_is_sent_whoever_opened_it(call: Any, answering: Any, method: str) -> None:
    """So that a client can tell whether it has the whole, also where a server hides that a stream broke."""

    def app(environ: Any, start_response: Any) -> Any:
        return with_file(start_response, environ)

    wrapper = {"wsgi.file_wrapper": lambda file, size: iter(lambda: file.read(size), b"")}
    assert call(Pipeline(app), method=method, **wrapper).headers["Content-Length"] == "3"
    for body in (FileBody(io.BytesIO(b"abc")), FileBody(io.BytesIO(b"abcdef"), 3)):
        answer = call(answering(lambda request, response, body=body: says(response, app_iter=body)), method=method)
        assert answer.headers["Content-Length"] == "3"


def test_the_length_of_a_file_that_a_filter_changes_is_not_known(call: Any, answering: Any) -> None:
    def handler(request: Any, response: Any) -> None:
        response.app_iter = FileBody(io.BytesIO(b"abc"))
        response.add_filter(lambda blocks: (block * 2 for block in blocks))

    answer = call(answering(handler))
    assert answer.body == b"abcabc" and "Content-Length" not in answer.headers


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("content_type", "said", "header"),
    [
        ("text/event-stream", None, "no"),
        ("text/event-stream; charset=utf-8", None, "no"),
        ("Text/Event-Stream", None, "no"),
        ("multipart/x-mixed-replace; boundary=x", None, "no"),
        ("text/event-stream", "yes", "yes"),
        ("text/html", None, None),
        ("", None, None),
    ],
)
def test_a_proxy_is_told_not_to_hold_events_back(
    call: Any, answering: Any, method: str, content_type: str, said: str | None, header: str | None
) -> None:
    def handler(request: Any, response: Any) -> None:
        response.headers["Content-Type"] = content_type
        if said is not None:
            response.headers["x-accel-buffering"] = said
        response.app_iter = iter([b"data: 1\n\n"])

    answer = call(answering(handler), method=method)
    assert answer.headers.getall("X-Accel-Buffering") == ([] if header is None else [header])


# S6, when sent.

UNSAFE = [chr(code) for code in (*range(32), 127)]


@pytest.mark.parametrize("character", UNSAFE)
@pytest.mark.parametrize("place", ["name", "value", "status"])
def test_a_control_character_is_never_sent(
    call: Any, answering: Any, character: str, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    """S6: also where it came onto the response behind its back."""

    def handler(request: Any, response: Any) -> None:
        if place == "status":
            response._status = f"200 O{character}K"
        elif place == "name":
            response.headerlist.append((f"X-{character}-Y", "z"))
        else:
            response.headerlist.append(("X-Y", f"z{character}z"))

    answer = call(answering(handler))
    assert answer.status == 500 and "X-Y" not in answer.headers
    assert "UnsafeHeader" in caplog.text


@pytest.mark.parametrize(
    "pair",
    [
        ("X", "€"),
        ("X-é", "y"),
        ("", "y"),
        ("X Y", "y"),
        ("X: y\tX", "y"),
        ("X", 3),
        (3, "x"),
        ("X", b"x"),
        (b"X", "x"),
        ("X", None),
        ([], "x"),
    ],
)
def test_what_is_no_header_is_never_sent(call: Any, answering: Any, pair: Any) -> None:
    answer = call(answering(lambda request, response: response.headerlist.append(pair)))
    assert answer.status == 500


def test_latin_1_is_sent(call: Any, answering: Any) -> None:
    answer = call(answering(lambda request, response: response.headers.add("X-Name", "éàÿ")))
    assert answer.headers["X-Name"] == "éàÿ"


# Two exits.


def test_what_is_closed_last_in_first_out_each_once_whatever_the_others_do(
    call: Any, answering: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """R6: a step of the clean-up that fails neither hides the answer nor stops the others."""
    trail: list[Any] = []

    class CloseError(Exception):
        """Of no known kind."""

    def failing() -> None:
        trail.append("failing")
        raise CloseError

    def handler(request: Any, response: Any) -> None:
        for number in range(3):
            request.on_close(lambda number=number: trail.append(number))
            request.on_close(failing)
        response.body = b"fine"

    assert call(answering(handler), "/some%0Apath").text == "fine"
    assert trail == ["failing", 2, "failing", 1, "failing", 0]
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 3
    assert "closing GET /some%0Apath: " in caplog.text and "CloseError" in caplog.text


def test_a_closer_may_add_another(call: Any, answering: Any) -> None:
    trail: list[str] = []

    def first(request: Any) -> None:
        trail.append("first")
        request.on_close(lambda: trail.append("second"))

    call(answering(lambda request, response: request.on_close(lambda: first(request))))
    assert trail == ["first", "second"]


def test_an_interrupt_while_closing_comes_after_the_others(environ: Any, answering: Any) -> None:
    trail: list[str] = []

    def leave() -> None:
        raise SystemExit(3)

    def handler(request: Any, response: Any) -> None:
        request.on_close(lambda: trail.append("first"))
        request.on_close(leave)
        request.on_close(lambda: trail.append("last"))

    given = environ()
    with pytest.raises(SystemExit):
        answering(handler)(given, lambda *started: None)
    assert trail == ["last", "first"]
    assert not [key for key in given if key.startswith("pipeline.")]


@pytest.fixture
def watched(answering: Any) -> Callable[..., tuple[Pipeline, list[str]]]:
    """``watched(body)`` answers this body; the trail says when what happened."""

    def watched(body: Any, **attributes: Any) -> tuple[Pipeline, list[str]]:
        trail: list[str] = []

        def handler(request: Any, response: Any) -> None:
            request.on_close(lambda: trail.append("closed"))
            says(response, app_iter=body, **attributes)

        return answering(handler), trail

    return watched


def run(app: Any, environ: dict[str, Any], trail: list[str]) -> Any:
    def start_response(status: str, headers: Any, exc_info: Any = None) -> None:
        trail.append(status[:3])

    return app(environ, start_response)


def test_a_body_in_memory_is_closed_before_the_server_gets_it(watched: Any, environ: Any) -> None:
    app, trail = watched([b"in memory"])
    assert run(app, environ(), trail) == [b"in memory"]
    assert trail == ["closed", "200"]


def test_a_stream_is_closed_when_the_server_closes_it(watched: Any, environ: Any) -> None:
    body = Blocks()
    app, trail = watched(body)
    given = environ()
    sent = run(app, given, trail)
    assert list(sent) == [b"a", b"b"] and trail == ["200"] and "pipeline.request" in given
    sent.close()
    sent.close()
    assert trail == ["200", "closed"] and body.closed == 1
    assert not [key for key in given if key.startswith("pipeline.")]


@pytest.mark.parametrize("read", [0, 1, 2])
def test_a_client_that_goes_away(watched: Any, environ: Any, read: int) -> None:
    """R7: the server calls close() early."""
    body = Blocks([b"a", b"b", b"c"])
    app, trail = watched(body)
    sent = run(app, environ(), trail)
    for _ in range(read):
        next(sent)
    sent.close()
    assert trail == ["200", "closed"] and body.closed == 1


def test_a_generator_of_a_client_that_goes_away_runs_its_finally(watched: Any, environ: Any) -> None:
    trail: list[str] = []

    def generator() -> Iterator[bytes]:
        try:
            yield b"a"
            yield b"b"
        except GeneratorExit:
            trail.append("exit")
            raise
        finally:
            trail.append("finally")

    app, closed = watched(generator())
    sent = run(app, environ(), closed)
    next(sent)
    sent.close()
    assert trail == ["exit", "finally"] and closed == ["200", "closed"]


@pytest.mark.parametrize("error", [ZeroDivisionError(), HTTPNotFound("x")])
def test_an_error_before_the_first_block_is_an_error_answer(
    watched: Any, environ: Any, error: Exception
) -> None:
    body = Blocks([b"", error])
    app, trail = watched(body)
    sent = run(app, environ(), trail)
    assert b"a" not in sent[0][:1]
    assert trail == ["closed", "404" if isinstance(error, HTTPNotFound) else "500"] and body.closed == 1


@pytest.mark.parametrize("error", [ZeroDivisionError(), SystemExit(), GeneratorExit(), KeyboardInterrupt()])
def test_an_error_in_mid_stream_closes_and_is_raised(
    watched: Any, environ: Any, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """R5, R7: the server breaks the connection, so that the client sees that it is not complete."""
    body = Blocks([b"a", b"b", error])
    app, trail = watched(body)
    given = environ()
    sent = run(app, given, trail)
    got = []
    with pytest.raises(type(error)):
        for block in sent:
            got.append(block)
    assert got == [b"a", b"b"]
    assert trail == ["200", "closed"] and body.closed == 1
    sent.close()
    assert trail == ["200", "closed"] and body.closed == 1
    assert not [key for key in given if key.startswith("pipeline.")]
    assert ("in mid-stream" in caplog.text) == isinstance(error, Exception)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_an_interrupt_before_the_first_block(watched: Any, environ: Any, error: type[BaseException]) -> None:
    body = Blocks([error()])
    app, trail = watched(body)
    with pytest.raises(error):
        run(app, environ(), trail)
    assert trail == ["closed"] and body.closed == 1


@pytest.mark.parametrize("block", ["text", 3, None, bytearray(b"x"), [b"x"]])
@pytest.mark.parametrize("before", [(), (b"a", b"b")])
def test_a_block_that_is_no_bytes(watched: Any, environ: Any, block: Any, before: tuple[bytes, ...]) -> None:
    body = Blocks([*before, block])
    app, trail = watched(body)
    sent = run(app, environ(), trail)
    if before:
        with pytest.raises(TypeError, match="a streamed body yielded"):
            list(sent)
        assert trail == ["200", "closed"]
    else:
        assert trail == ["closed", "500"]
    assert body.closed == 1


@pytest.mark.parametrize("body", [["text"], [3], [None], [b"a", "text"], 3, None, object()])
def test_a_body_that_is_none(watched: Any, environ: Any, body: Any) -> None:
    app, trail = watched(body)
    run(app, environ(), trail)
    assert trail == ["closed", "500"]


@pytest.mark.parametrize("method", ["HEAD", "GET"])
@pytest.mark.parametrize("status", [200, 204, 304])
def test_a_stream_that_is_not_sent_is_closed(watched: Any, environ: Any, method: str, status: int) -> None:
    body = Blocks([ZeroDivisionError()])
    if method == "GET" and status == 200:
        body = Blocks()
    app, trail = watched(body, status=status)
    sent = run(app, environ(method=method), trail)
    if hasattr(sent, "close"):
        sent.close()
    assert "closed" in trail and str(status) in trail and body.closed == 1


def test_the_bytes_that_were_sent_are_known_when_it_is_closed(environ: Any, answering: Any) -> None:
    seen: list[int] = []
    for body, sent in (([b"abc", b"d"], 4), (Blocks([b"abc", b"", b"d"]), 4), (b"", 0)):

        def handler(request: Any, response: Any, body: Any = body) -> None:
            request.on_close(lambda: seen.append(request.bytes_sent))
            says(response, **({"body": body} if body == b"" else {"app_iter": body}))

        given = answering(handler)(environ(), lambda *started: None)
        list(given)
        if hasattr(given, "close"):
            given.close()
        assert seen.pop() == sent


# Output filters.


def upper(blocks: Iterator[bytes]) -> Iterator[bytes]:
    for block in blocks:
        yield block.upper()


def twice(blocks: Iterator[bytes]) -> Iterator[bytes]:
    return (block * 2 for block in blocks)


@pytest.mark.parametrize("stream", [False, True])
def test_filters_see_the_body_in_the_order_in_which_they_were_added(
    call: Any, answering: Any, stream: bool
) -> None:
    def handler(request: Any, response: Any) -> None:
        response.add_filter(upper)
        response.add_filter(lambda blocks: (b"<" + block + b">" for block in blocks))
        response.add_filter(twice)
        says(response, app_iter=Blocks() if stream else [b"a", b"b"], content_length=2)

    answer = call(answering(handler))
    assert answer.text == "<A><A><B><B>"
    assert answer.headers.get("Content-Length") == (None if stream else "12")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("read", [1, 9])
def test_filters_are_closed_once_from_the_outermost_in(
    environ: Any, answering: Any, stream: bool, read: int
) -> None:
    made: list[Any] = []
    trail: list[str] = []

    class Filter(Blocks):
        def close(self) -> None:
            super().close()
            trail.append(f"filter {made.index(self)}")

    def filter(blocks: Iterator[bytes]) -> Filter:
        made.append(Filter(blocks))
        return made[-1]

    class Body(Blocks):
        def close(self) -> None:
            super().close()
            trail.append("body")

    body = Body([b"a", b"b", b"c"])

    def handler(request: Any, response: Any) -> None:
        response.add_filter(filter)
        response.add_filter(filter)
        says(response, app_iter=body if stream else [b"a"])

    sent = answering(handler)(environ(), lambda *started: None)
    for _, _ in zip(range(read), sent, strict=False):
        pass
    if hasattr(sent, "close"):
        sent.close()
    assert [filter.closed for filter in made] == [1, 1]
    assert trail == ["filter 1", "filter 0", "body"][: 3 if stream else 2]


def test_a_filter_that_fails_is_an_error_answer(call: Any, answering: Any) -> None:
    def failing(blocks: Iterator[bytes]) -> Iterator[bytes]:
        raise ZeroDivisionError
        yield b""

    def handler(request: Any, response: Any) -> None:
        response.add_filter(failing)
        response.body = b"abc"

    assert call(answering(handler)).status == 500


def test_a_filter_does_not_run_for_what_has_no_body(environ: Any, answering: Any) -> None:
    """It would read a stream to no purpose."""
    body = Blocks([ZeroDivisionError()])

    def handler(request: Any, response: Any) -> None:
        response.add_filter(upper)
        response.app_iter = body

    started: list[str] = []
    assert answering(handler)(environ(method="HEAD"), lambda status, headers: started.append(status)) == []
    assert started == ["200 OK"] and body.closed == 1


# Conditional answers and ranges.

DATA = b"0123456789"


def conditional_body(kind: str) -> Any:
    if kind == "memory":
        return [DATA]
    if kind == "file":
        return FileBody(io.BytesIO(DATA))
    return Blocks([DATA[:4], DATA[4:]])


CONDITIONAL: list[tuple[dict[str, str], int, bytes, str | None]] = [
    ({}, 200, DATA, None),
    ({"HTTP_RANGE": "bytes=2-4"}, 206, b"234", "bytes 2-4/10"),
    ({"HTTP_RANGE": "bytes=-3"}, 206, b"789", "bytes 7-9/10"),
    ({"HTTP_RANGE": "bytes=8-"}, 206, b"89", "bytes 8-9/10"),
    ({"HTTP_RANGE": "bytes=0-0"}, 206, b"0", "bytes 0-0/10"),
    ({"HTTP_RANGE": "bytes=20-30"}, 416, b"", "bytes */10"),
    ({"HTTP_RANGE": "bytes=5-2"}, 200, DATA, None),
    ({"HTTP_RANGE": "nonsense"}, 200, DATA, None),
    ({"HTTP_RANGE": "bytes=2-4", "HTTP_IF_RANGE": '"other"'}, 200, DATA, None),
    ({"HTTP_RANGE": "bytes=2-4", "HTTP_IF_RANGE": '"tag"'}, 206, b"234", "bytes 2-4/10"),
    ({"HTTP_IF_NONE_MATCH": '"tag"'}, 304, b"", None),
    ({"HTTP_IF_NONE_MATCH": '"tag"', "HTTP_RANGE": "bytes=2-4"}, 304, b"", None),
    ({"HTTP_IF_NONE_MATCH": '"other"'}, 200, DATA, None),
]


@pytest.mark.parametrize("kind", ["memory", "file", "stream"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(("asked", "status", "body", "content_range"), CONDITIONAL)
def test_conditional_answers(
    call: Any,
    answering: Any,
    kind: str,
    method: str,
    asked: dict[str, str],
    status: int,
    body: bytes,
    content_range: str | None,
) -> None:
    made = conditional_body(kind)

    def handler(request: Any, response: Any) -> None:
        says(response, app_iter=made, content_length=len(DATA), etag="tag", conditional_response=True)
        response.headers["Location"] = "relative"

    if method == "HEAD" and status in (206, 416):  # a Range is for GET alone (RFC 9110 section 14.2)
        status, body, content_range = 200, DATA, None
    answer = call(answering(handler), method=method, **asked)
    assert answer.status == status
    assert answer.headers.get("Content-Range") == content_range
    assert answer.headers["Location"] == "relative"
    if method == "GET" and status != 416:
        assert answer.body == body
    if status in (200, 206):
        assert answer.headers["Content-Length"] == str(len(body))
    if kind == "stream":
        assert made.closed == 1


def test_a_post_is_not_conditional(call: Any, answering: Any) -> None:
    def handler(request: Any, response: Any) -> None:
        says(response, body=DATA, etag="tag", conditional_response=True)

    answer = call(answering(handler), "/", "POST", HTTP_IF_NONE_MATCH='"tag"', HTTP_RANGE="bytes=2-4")
    assert (answer.status, answer.body) == (200, DATA)


# Apps of others.


def started(start_response: Any, **headers: str) -> Any:
    return start_response("200 OK", [("Content-Type", "text/plain"), *headers.items()])


def lazy(environ: Any, start_response: Any) -> Iterator[bytes]:
    """Starts when its first block is asked for, as a generator does."""
    started(start_response)
    yield b"a"
    yield b"b"


def writes(environ: Any, start_response: Any) -> list[bytes]:
    write = started(start_response)
    write(b"a")
    return [b"b"]


def writes_and_streams(environ: Any, start_response: Any) -> Iterator[bytes]:
    write = started(start_response)
    write(b"a")
    return iter([b"b"])


def starts_again(environ: Any, start_response: Any) -> list[bytes]:
    started(start_response)
    try:
        raise ZeroDivisionError
    except ZeroDivisionError as error:
        start_response("200 Again", [("Content-Type", "text/plain")], (type(error), error, None))
    return [b"ab"]


def returns_a_tuple(environ: Any, start_response: Any) -> tuple[bytes, ...]:
    started(start_response)
    return (b"a", b"b")


def is_webob(environ: Any, start_response: Any) -> Any:
    return WebObResponse("ab", content_type="text/plain")(environ, start_response)


@pytest.mark.parametrize(
    "app", [lazy, writes, writes_and_streams, starts_again, returns_a_tuple, is_webob, WebObResponse("ab")]
)
def test_every_way_of_a_wsgi_app_to_answer(call: Any, app: Any) -> None:
    @element
    def around(next: Any) -> Any:
        return lambda request, response: next(request, response)

    assert call(around(app)).text == "ab"


def never_starts(environ: Any, start_response: Any) -> list[bytes]:
    return [b"a"]


def never_starts_lazily(environ: Any, start_response: Any) -> Iterator[bytes]:
    yield b"a"


def starts_twice(environ: Any, start_response: Any) -> list[bytes]:
    started(start_response)
    started(start_response)
    return [b"a"]


@pytest.mark.parametrize("app", [never_starts, never_starts_lazily, starts_twice])
def test_an_app_that_breaks_the_rules_is_named(call: Any, app: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert call(Pipeline(app)).status == 500
    assert f"{app.__name__}" in caplog.text and "PEP 3333" in caplog.text


def test_an_app_that_fails_after_its_first_block_breaks_the_stream(environ: Any) -> None:
    """``exc_info`` after something was sent is raised again, as PEP 3333 asks."""

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        started(start_response)
        yield b"a"
        yield b"b"
        try:
            raise ZeroDivisionError
        except ZeroDivisionError as error:
            start_response("500 Sorry", [], (type(error), error, error.__traceback__))
        yield b"sorry"

    statuses: list[str] = []
    sent = Pipeline(app)(environ(), lambda status, headers: statuses.append(status))
    with pytest.raises(ZeroDivisionError):
        list(sent)
    assert statuses == ["200 OK"]
    sent.close()


def test_the_headers_of_an_app_are_its_own(environ: Any) -> None:
    """A middleware or server may change the list that it is given (PEP 3333); nobody else sees that."""
    headers = [("Content-Type", "text/plain")]

    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", headers)
        return [b"a"]

    Pipeline(app)(environ(), lambda status, given: given.append(("X-Server", "1")))
    assert headers == [("Content-Type", "text/plain")]


@pytest.mark.parametrize("where", ["in the app", "in the body"])
def test_the_body_of_a_failing_app_is_closed(environ: Any, where: str) -> None:
    body = Blocks([ZeroDivisionError()])

    def app(environ: Any, start_response: Any) -> Any:
        if where == "in the body":
            started(start_response)
        return body

    statuses: list[str] = []
    Pipeline(app)(environ(), lambda status, headers: statuses.append(status))
    assert statuses[0].startswith("500") and body.closed == 1
