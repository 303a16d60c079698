"""Bodies that are sent in blocks: what an error in them does, and what is closed when (R7).

The second half asks real servers by a bare socket, since the question is what a client can see.
"""

from __future__ import annotations

import logging
import re
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import webob

from pipeline import Pipeline, element
from pipeline.elements.errors import errors

MiB = 1024 * 1024


class Oops(Exception):
    pass


class Blocks:
    """A body of these blocks; one that is an exception is raised. Counts how often it is closed."""

    def __init__(self, *blocks: Any) -> None:
        self.blocks = iter(blocks)
        self.made = 0
        self.closed = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        block = next(self.blocks)
        self.made += 1
        if isinstance(block, BaseException):
            raise block
        return block

    def close(self) -> None:
        self.closed += 1


class Sent:
    """What a server got from an app, and how it ended."""

    def __init__(self, app: Any, method: str = "GET", stop_after: int | None = None) -> None:
        self.blocks: list[bytes] = []
        self.error: BaseException | None = None
        environ = webob.Request.blank("/", method=method).environ
        self.iterable = app(environ, self.start_response)
        try:
            for block in self.iterable:
                self.blocks.append(block)
                if len(self.blocks) == stop_after:
                    break
        except BaseException as error:
            self.error = error
        if hasattr(self.iterable, "close"):
            self.iterable.close()
            self.iterable.close()  # a server that is not sure

    def start_response(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
        assert not hasattr(self, "status"), "start_response is called once"
        self.status = int(status[:3])
        self.headers = dict(headers)


def streaming(body: Any, length: int | str | None = None, closed: list[str] | None = None) -> Pipeline:
    """A pipeline that answers with this body, and says of it that it has this length."""

    @element
    def end() -> Any:
        def end(request: Any, response: Any) -> None:
            if closed is not None:
                request.on_close(lambda: closed.append("first"))
                request.on_close(lambda: closed.append("second"))
            response.app_iter = body
            if length is not None:
                response.headers["Content-Length"] = str(length)

        return end

    return Pipeline(errors(), end())


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [re.sub("[0-9a-f]{12}", "ID", record.getMessage()) for record in caplog.records]


def test_a_body_is_closed_once_and_after_it_is_sent__R7() -> None:
    closed: list[str] = []
    body = Blocks(b"a", b"", b"b")
    sent = Sent(streaming(body, closed=closed))
    assert (sent.status, sent.blocks) == (200, [b"a", b"b"])
    assert body.closed == 1
    assert closed == ["second", "first"]


@pytest.mark.parametrize("stop_after", [1, 2])
def test_a_body_whose_client_went_away_is_closed_once__R7(stop_after: int, caplog: Any) -> None:
    closed: list[str] = []
    body = Blocks(b"a", b"b", b"c")
    Sent(streaming(body, closed=closed), stop_after=stop_after)
    assert (body.made, body.closed, closed) == (stop_after, 1, ["second", "first"])
    assert caplog.records == []


def test_nothing_is_made_ahead_but_the_first_block() -> None:
    body = Blocks(b"a", b"b", b"c")
    environ = webob.Request.blank("/").environ
    iterable = streaming(body)(environ, lambda *arguments: None)
    assert body.made == 1
    assert (next(iterable), body.made) == (b"a", 1)
    assert (next(iterable), body.made) == (b"b", 2)


def test_HEAD_starts_no_stream() -> None:
    body = Blocks(Oops())
    sent = Sent(streaming(body, 10), method="HEAD")
    assert (sent.status, sent.headers["Content-Length"], body.made, body.closed) == (200, "10", 0, 1)


def test_an_error_before_the_first_block_is_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    body = Blocks(b"", Oops())
    sent = Sent(streaming(body, 10))
    assert (sent.status, sent.error, body.closed) == (500, None, 1)
    assert sent.headers["Content-Length"] == str(len(sent.blocks[0]))
    assert lines(caplog) == ["error ID: GET /: Oops"]


def test_an_error_in_mid_stream_reaches_the_server_is_logged_and_closes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    closed: list[str] = []
    body = Blocks(b"abc", b"def", Oops("why"), b"never")
    sent = Sent(streaming(body, closed=closed))
    assert (sent.status, sent.blocks) == (200, [b"abc", b"def"])
    assert isinstance(sent.error, Oops)
    assert (body.closed, closed) == (1, ["second", "first"])
    assert lines(caplog) == ["error ID: GET /, in mid-stream, after 6 bytes: Oops"]
    assert "Oops: why" in caplog.text and "Traceback" in caplog.text


def test_an_error_closes_also_where_the_server_does_not__R5(caplog: pytest.LogCaptureFixture) -> None:
    body = Blocks(b"a", Oops())
    iterable = streaming(body)(webob.Request.blank("/").environ, lambda *arguments: None)
    assert (next(iterable), body.closed) == (b"a", 0)
    with pytest.raises(Oops):
        next(iterable)
    assert body.closed == 1


@pytest.mark.parametrize("error", [GeneratorExit(), SystemExit(), KeyboardInterrupt()])
def test_what_is_no_Exception_passes_and_closes__R5(error: BaseException, caplog: Any) -> None:
    for blocks in ([b"a", error], [error]):
        body = Blocks(*blocks)
        try:
            sent = Sent(streaming(body))
        except BaseException as raised:
            assert raised is error
        else:
            assert sent.error is error
        assert body.closed == 1
    assert caplog.records == []


def test_an_HTTP_exception_in_mid_stream_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    sent = Sent(streaming(Blocks(b"a", webob.exc.HTTPNotFound())))
    assert (sent.status, type(sent.error)) == (200, webob.exc.HTTPNotFound)
    assert lines(caplog) == ["error ID: GET /, in mid-stream, after 1 bytes: HTTPNotFound"]


def test_the_reporter_hears_of_an_error_in_mid_stream(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Any] = []

    @element
    def end() -> Any:
        def end(request: Any, response: Any) -> None:
            response.app_iter = Blocks(b"a", Oops())

        return end

    Sent(Pipeline(errors(reporter=lambda *arguments: told.append(arguments)), end()))
    [(_, error, id)] = told
    assert isinstance(error, Oops)
    assert id in caplog.records[0].getMessage()


@pytest.mark.parametrize(
    ("blocks", "length", "sent"),
    [
        ([b"abc", b"def"], 7, b"abcdef"),  # shorter: the client misses a byte
        ([b"abc", b"def"], 5, b"abc"),  # longer: not even what fits is sent, it would look complete
        ([b"abc", b"def", b"g"], 6, b"abc"),
        ([b"abc", b"def", b"", b"g"], 6, b"abc"),
        ([b"abc", b"def", Oops()], 6, b"abc"),  # complete, and then an error
        ([b"abc", "def"], 6, b"abc"),
        ([b"abc", "def"], None, b"abc"),
        ([b"abc", 1], None, b"abc"),
        ([b"abc", None], None, b"abc"),
        ([b"abc", bytearray(b"def")], None, b"abc"),
    ],
)
def test_a_body_that_is_not_what_was_said_never_looks_complete(
    blocks: list[Any], length: int | None, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    body = Blocks(*blocks)
    got = Sent(streaming(body, length))
    assert (got.status, b"".join(got.blocks)) == (200, sent)
    assert got.error is not None
    assert body.closed == 1
    [record] = caplog.records
    assert ", in mid-stream, after " in record.getMessage()


@pytest.mark.parametrize(
    ("blocks", "length"),
    [([b"abc"], 2), ([b"abc", b"d"], 3), ([b"abc", Oops()], 3), ([], 1), (["abc"], None), ([b"a"], "one")],
)
def test_one_that_can_be_told_from_its_first_block_is_a_500(
    blocks: list[Any], length: Any, caplog: pytest.LogCaptureFixture
) -> None:
    body = Blocks(*blocks)
    got = Sent(streaming(body, length))
    assert (got.status, got.error, body.closed) == (500, None, 1)
    assert len(caplog.records) == 1


@pytest.mark.parametrize(("blocks", "length"), [([b"abc", b"", b"def", b""], 6), ([], 0), ([b""], 0)])
def test_a_body_as_long_as_was_said_is_sent(blocks: list[Any], length: int, caplog: Any) -> None:
    got = Sent(streaming(Blocks(*blocks), length))
    assert (got.status, got.headers["Content-Length"]) == (200, str(length))
    assert b"".join(got.blocks) == b"".join(blocks)
    assert caplog.records == []


def test_an_element_that_fails_after_the_stream_was_given_closes_it__R7() -> None:
    @element
    def late(next: Any) -> Any:
        def late(request: Any, response: Any) -> None:
            next(request, response)
            raise Oops

        return late

    body = Blocks(b"a")
    dropped = Blocks(b"a")
    got = Sent(Pipeline(errors(), late(), _given(body)))
    assert (got.status, body.made, body.closed) == (500, 0, 1)
    got = Sent(Pipeline(late(), errors(), _given(dropped)))
    assert (got.status, dropped.made, dropped.closed) == (500, 0, 1)


def _given(body: Any) -> Any:
    """A foreign app, whose body is closed whatever becomes of it."""

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return body

    return app


# Real servers. They run this very module, which is why the application stands here.

SIZES = {"small": 10, "large": 2_000_000}
"""Bytes in all; a small body fits into every buffer on the way, a large one into none."""


def _blocks(size: int, fault: str) -> Iterable[Any]:
    """``size`` bytes in ten blocks, with a fault in the sixth or at the end."""
    try:
        for number in range(10):
            if number == 5 and fault == "error":
                raise Oops("in mid-stream")
            if number == 5 and fault == "os":
                raise ConnectionResetError("of a database, not of the client")
            if number == 5 and fault == "text":
                yield "no bytes"
            if number == 9 and fault == "short":
                return
            yield b"x" * (size // 10)
        if fault == "long":
            yield b"more"
        if fault == "end":
            raise Oops("at the end")
    finally:
        logging.getLogger("test").warning("generator closed")


@element
def faulty() -> Any:
    """``/small/error?length`` and the like."""

    def faulty(request: Any, response: Any) -> None:
        request.on_close(lambda: logging.getLogger("test").warning("request closed"))
        _, size, fault = request.path_info.split("/")
        response.content_type = "application/octet-stream"
        response.app_iter = _blocks(SIZES[size], fault)
        if request.query_string:
            response.content_length = SIZES[size]

    return faulty


def application(environ: dict[str, Any], start_response: Any) -> Any:
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", force=True)
    return _pipeline(environ, start_response)


_pipeline = Pipeline(errors(), faulty())


def ask(port: int, path: str, version: str = "1.1", close: bool = False) -> bytes:
    """All the bytes that the server sends until it closes the connection, which it must do by itself."""
    connection_header = "Connection: close\r\n" if close else ""
    head = f"GET {path} HTTP/{version}\r\nHost: localhost\r\n{connection_header}\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(head.encode())
        received = bytearray()
        try:
            while block := connection.recv(MiB):
                received += block
        except ConnectionResetError:
            pass
    return bytes(received)


def is_complete(answer: bytes) -> bool:
    """Whether a client takes the answer for complete (RFC 9112 section 6.3)."""
    head, _, body = answer.partition(b"\r\n\r\n")
    head = head.lower()
    if b"transfer-encoding: chunked" in head:
        return body.endswith(b"\r\n0\r\n\r\n")
    if found := re.search(rb"content-length: ([0-9]+)", head):
        return len(body) >= int(found[1])
    return True


CLOSED = ["WARNING test: generator closed", "WARNING test: request closed"]


@pytest.mark.parametrize("server", ["waitress", "gunicorn", "gunicorn --threads 2"])
def test_on_a_real_server_a_broken_stream_never_looks_complete__R7(
    server: str, start: Any, free_port: int, missing: Any
) -> None:
    program, *options = server.split()
    if find_spec(program) is None:
        missing(program, f"pip install {program}")
    bind = "--listen" if program == "waitress" else "--bind"
    options += ["--no-control-socket"] if program == "gunicorn" else []
    app = f"{Path(__file__).stem}:application"
    command = [sys.executable, "-m", program, *options, f"{bind}=127.0.0.1:{free_port}", app]
    process = start(command, free_port, cwd=Path(__file__).parent)

    def said_since(before: int) -> list[str]:
        """Our lines of the log, once the request is closed."""
        end = time.monotonic() + 10
        while "request closed" not in process.said()[before:] and time.monotonic() < end:
            time.sleep(0.01)
        ours = re.findall(r"^[A-Z]+ (?:pipeline|test): .*", process.said()[before:], re.MULTILINE)
        return [re.sub("[0-9a-f]{12}", "ID", line) for line in ours]

    for size in SIZES:
        for query, version, close in (
            ("?length", "1.1", False),
            ("?length", "1.1", True),
            ("?length", "1.0", True),
            ("", "1.1", False),  # chunked
            ("", "1.1", True),
        ):
            for fault in ("error", "os", "text", "end", *(("short", "long") if query else ())):
                before = len(process.said())
                case = f"{server} /{size}/{fault}{query} HTTP/{version} {'close' if close else ''}"
                answer = ask(free_port, f"/{size}/{fault}{query}", version, close)
                assert answer.startswith(b"HTTP/1."), case
                assert b" 200 OK\r\n" in answer[:20], case
                assert not is_complete(answer), case
                said = said_since(before)
                assert sorted(said)[1:] == CLOSED, (case, said)
                assert sorted(said)[0].startswith("ERROR pipeline: error ID: GET "), (case, said)
        for query, version in (("?length", "1.1"), ("", "1.1"), ("?length", "1.0"), ("", "1.0")):
            before = len(process.said())
            answer = ask(free_port, f"/{size}/none{query}", version, close=True)
            assert is_complete(answer) and answer.count(b"x") >= SIZES[size], "the control: nothing fails"
            assert said_since(before) == CLOSED


def test_without_a_length_an_HTTP_1_0_client_cannot_tell(start: Any, free_port: int) -> None:
    """What cannot be helped, and is said in the documentation: such a body ends with the connection."""
    app = f"{Path(__file__).stem}:application"
    command = [sys.executable, "-m", "waitress", f"--listen=127.0.0.1:{free_port}", app]
    process = start(command, free_port, cwd=Path(__file__).parent)
    answer = ask(free_port, "/small/error", "1.0", close=True)
    assert answer.endswith(b"\r\n\r\nxxxxx")
    assert "in mid-stream, after 5 bytes: Oops" in process.said()
