"""Bodies that cannot be read, on any kind of server, for any kind of reader (R11, S11)."""

from __future__ import annotations

import errno
import io
import json
import logging
import socket
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
from transaction.interfaces import TransientError
from webob import Request as Asked

from pipeline import Pipeline, Request, Response, element
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.retry import retry
from pipeline.elements.vhost import vhost
from pipeline.http import bodies

BODY = json.dumps({"text": "x" * 100_000}).encode()
WITH_LENGTH = {"CONTENT_LENGTH": str(len(BODY))}
CHUNKED = {"HTTP_TRANSFER_ENCODING": "chunked"}


def read_body(request: Request) -> bytes:
    return request.body


def read_body_file(request: Request) -> bytes:
    return b"".join(iter(lambda: request.body_file.read(1000), b""))


def read_json(request: Request) -> bytes:
    return json.dumps(request.json).encode()


def read_input(request: Request) -> bytes:
    return request.environ["wsgi.input"].read()  # type: ignore[no-any-return]


def read_lines(request: Request) -> bytes:
    return b"".join(request.environ["wsgi.input"])


def read_form(request: Request) -> bytes:
    return json.dumps(dict(request.form)).encode()


READERS = [read_body, read_body_file, read_json, read_input, read_lines]


@element
def end(*, read: Any, seen: Any) -> Any:
    """Reads the body by one of the functions above."""

    def end(request: Request, response: Response) -> None:
        seen.append(None)
        seen[-1] = read(request)

    return end


def pep_3333(seen: list[Any]) -> Any:
    """An application of others, which knows nothing but PEP 3333: no length is no body."""

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        seen.append(environ["wsgi.input"].read(length))
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b""]

    return app


def _endings() -> Iterator[Any]:
    for read in READERS:
        yield pytest.param(lambda seen, read=read: end(read=read, seen=seen), id=read.__name__)
    yield pytest.param(lambda seen: forms()(end(read=read_form, seen=seen)), id="forms")
    yield pytest.param(pep_3333, id="an app of others")


ENDINGS = list(_endings())
OUTER: list[Any] = [(), (vhost(), retry(), errors())]


def ask(app: Any, method: str = "PUT", **environ: Any) -> Any:
    """The answer, or None for a value in the environ that takes the key out."""
    asked = Asked.blank("/a page", method=method, content_type="application/json")
    asked.environ.pop("CONTENT_LENGTH", None)
    asked.environ.update(environ)
    return asked.get_response(app)


class Stream:
    """What a server has from its client: no more than PEP 3333 says."""

    def __init__(self, data: bytes, error: Exception | None = None) -> None:
        self.data = data
        self.error = error

    def read(self, size: int = -1) -> bytes:
        if not self.data and self.error is not None:
            raise self.error
        size = len(self.data) if size < 0 else min(size, 1500)
        block, self.data = self.data[:size], self.data[size:]
        return block

    def readline(self, size: int = -1) -> bytes:
        return self.read(size)


class Strict(Stream):
    """The stream of a server that fails if it is asked for less than nothing, as Granian's does."""

    def read(self, size: int = -1) -> bytes:
        if size is None or size < 0:
            raise OverflowError("can't convert negative int to unsigned")
        return super().read(size)


class FakeUWSGI(types.ModuleType):
    """uWSGI's module, with the chunks of one request; an exception is raised, and so it is from then on."""

    def __init__(self, *chunks: bytes | Exception) -> None:
        super().__init__("uwsgi")
        self.chunks = list(chunks)
        self.opt: dict[str, Any] = {}

    def chunked_read(self) -> bytes:
        chunk = self.chunks[0] if self.chunks else b""
        if isinstance(chunk, Exception):
            raise chunk
        del self.chunks[:1]
        return chunk


@pytest.fixture
def uwsgi(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeUWSGI]:
    def uwsgi(*chunks: bytes | Exception) -> FakeUWSGI:
        module = FakeUWSGI(*chunks)
        monkeypatch.setitem(sys.modules, "uwsgi", module)
        return module

    return uwsgi


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What was logged since the last call, with the level; a traceback is a line more."""
    caplog.set_level(logging.INFO, "pipeline")

    def lines() -> list[str]:
        found = [
            f"{record.levelname} {record.getMessage()}{' TRACEBACK' if record.exc_info else ''}"
            for record in caplog.records
            if record.name.startswith("pipeline")
        ]
        caplog.clear()
        return found

    return lines


UNREADABLE: dict[str, Any] = {
    "not decoded": {"wsgi.input": Stream(b"")},
    "of Granian": {"wsgi.input": Stream(BODY), "wsgi.input_terminated": True, "SERVER_SOFTWARE": "Granian"},
}


@pytest.mark.parametrize("make_end", ENDINGS)
@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("method", ["PUT", "POST"])
@pytest.mark.parametrize("body", UNREADABLE)
def test_a_chunked_body_that_cannot_be_told_whole_is_411(
    make_end: Any, outer: Any, method: str, body: str, lines: Any
) -> None:
    """R11: wsgiref, Twisted, Tornado, hypercorn and uvicorn do not decode it. Granian ends it wherever it breaks
    off, without an error. The view is not called."""
    seen: list[Any] = []
    app = Pipeline(*outer, make_end(seen))
    answer = ask(app, method, HTTP_TRANSFER_ENCODING="chunked", **UNREADABLE[body])
    assert (answer.status_int, seen, answer.headers["Connection"]) == (411, [], "close")
    assert lines() == [
        f"INFO {method} /a%20page: 411, This server takes no chunked body. Please send a Content-Length."
    ]


@pytest.mark.parametrize("make_end", ENDINGS)
@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("size", [7, 1_000, 70_000])
def test_a_chunked_body_is_read_from_uwsgi(make_end: Any, outer: Any, size: int, uwsgi: Any) -> None:
    uwsgi(*(BODY[place : place + size] for place in range(0, len(BODY), size)))
    seen: list[Any] = []
    app = Pipeline(*outer, make_end(seen))
    answer = ask(app, "POST", HTTP_TRANSFER_ENCODING="chunked", **{"wsgi.input": Stream(b"")})
    assert (answer.status_int, seen) == (200, [BODY])


@pytest.mark.parametrize("make_end", ENDINGS)
@pytest.mark.parametrize("outer", OUTER)
def test_a_chunked_body_that_the_server_decodes_is_read(make_end: Any, outer: Any) -> None:
    """As on waitress and gunicorn, also by an application that needs a length."""
    seen: list[Any] = []
    said = {"wsgi.input": Stream(BODY), "wsgi.input_terminated": True}
    answer = ask(Pipeline(*outer, make_end(seen)), "POST", HTTP_TRANSFER_ENCODING="chunked", **said)
    assert (answer.status_int, seen) == (200, [BODY])


@pytest.mark.parametrize("make_end", ENDINGS)
@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("said", [WITH_LENGTH, CHUNKED], ids=["length", "chunked"])
def test_no_server_is_asked_for_a_negative_number_of_bytes(make_end: Any, outer: Any, said: Any) -> None:
    seen: list[Any] = []
    body = {"wsgi.input": Strict(BODY), "wsgi.input_terminated": True}
    answer = ask(Pipeline(*outer, make_end(seen)), "POST", **said, **body)
    assert (answer.status_int, seen) == (200, [BODY])


def test_a_get_may_have_a_chunked_body_too(uwsgi: Any) -> None:
    uwsgi(b"some", b"thing")
    seen: list[Any] = []
    ask(Pipeline(*OUTER[1], end(read=read_input, seen=seen)), "GET", HTTP_TRANSFER_ENCODING="chunked")
    assert seen == [b"something"]


def test_a_chunked_body_is_read_again_by_the_next_attempt(uwsgi: Any) -> None:
    """R2."""
    uwsgi(BODY[:70_000], BODY[70_000:])
    seen: list[Any] = []

    def read(request: Request) -> None:
        seen.append(request.body)
        if request.attempt == 1:
            raise TransientError

    for method in ("GET", "PUT"):
        uwsgi(BODY[:70_000], BODY[70_000:])
        ask(Pipeline(retry(delay=0), end(read=read, seen=[])), method, HTTP_TRANSFER_ENCODING="chunked")
    assert seen == [BODY] * 4


def test_a_copy_for_an_app_that_needs_a_length_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """S15."""
    monkeypatch.setattr(bodies, "LONGEST", len(BODY) - 1)
    seen: list[Any] = []
    said = {"wsgi.input": Stream(BODY), "wsgi.input_terminated": True}
    answer = ask(Pipeline(errors(), pep_3333(seen)), HTTP_TRANSFER_ENCODING="chunked", **said)
    assert (answer.status_int, seen) == (413, [])


def test_uwsgi_ends_an_empty_body_and_a_malformed_one_alike(uwsgi: Any, lines: Any) -> None:
    """R11: a chunk size "zz" ends the body of uWSGI without an error."""
    uwsgi(b"")
    answer = ask(Pipeline(end(read=read_body, seen=[])), HTTP_TRANSFER_ENCODING="chunked")
    assert answer.status_int == 400
    (line,) = lines()
    assert line.startswith("INFO PUT /a%20page: 400, the body failed after 0 bytes: OSError: uWSGI cannot tell")


FAILURES = {
    # what it is: the stream, and the status
    "it ends early": (lambda: Stream(BODY[:-1]), 400),
    "it never begins": (lambda: Stream(b""), 400),
    "the client is gone": (lambda: Stream(BODY[:9], ConnectionResetError("gone")), 400),
    "the server cannot read it": (lambda: Stream(BODY[:9], ValueError("bad chunk")), 400),
    "a time-out": (lambda: Stream(BODY[:9], TimeoutError()), 408),
    "one of uWSGI": (lambda: Stream(BODY[:9], OSError("timeout during read(9) on wsgi.input")), 408),
    "one of a socket": (lambda: Stream(BODY[:9], OSError(errno.EAGAIN, "")), 408),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("make_end", ENDINGS[:-1])
@pytest.mark.parametrize("outer", OUTER)
def test_a_body_that_fails_while_it_is_read_is_a_400_in_one_line(
    failure: str, make_end: Any, outer: Any, lines: Any
) -> None:
    """R11: also if a view reads it by itself."""
    make, status = FAILURES[failure]
    seen: list[Any] = []
    app = Pipeline(*outer, make_end(seen))
    answer = ask(app, "POST", CONTENT_LENGTH=str(len(BODY)), **{"wsgi.input": make()})
    assert (answer.status_int, [*filter(None, seen)]) == (status, [])
    (line,) = lines()
    assert line.startswith(f"INFO POST /a%20page: {status}, the body failed after ") and "TRACE" not in line


def test_an_app_of_others_sees_the_error_that_it_expects() -> None:
    """Frameworks answer an OSError of the body by themselves; any other is a failure to them."""

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        for _ in range(2):
            with pytest.raises(OSError):
                environ["wsgi.input"].read(10)
        start_response("400 Bad Request", [])
        return []

    assert ask(Pipeline(app), CONTENT_LENGTH="10", **{"wsgi.input": Stream(b"short")}).status_int == 400


@pytest.mark.parametrize("failure", [OSError("unable to receive chunked part")])
@pytest.mark.parametrize(("waits", "status"), [("4", 400), ("0", 408)])
def test_a_chunk_that_uwsgi_cannot_read(failure: Exception, waits: str, status: int, uwsgi: Any) -> None:
    """uWSGI raises the same for a chunk that is malformed and for one that does not come: the time tells."""
    uwsgi(b"some", failure).opt["socket-timeout"] = waits.encode()
    answer = ask(Pipeline(end(read=read_body, seen=[])), HTTP_TRANSFER_ENCODING="chunked")
    assert answer.status_int == status


class TooMuch(Stream):
    """The stream of a server that returns more than the body has: the next request, perhaps."""

    def read(self, size: int = -1) -> bytes:
        block, self.data = self.data * 2, b""
        return block


class ChunkError(Exception):
    """An exception of a server's own, as gunicorn has them."""


FAULTS = (
    (CHUNKED, lambda: Stream(BODY[:9], OverflowError("can't convert"))),
    (WITH_LENGTH, lambda: Stream(BODY[:9], OverflowError("can't convert"))),
    (CHUNKED, lambda: Stream(BODY[:9], TypeError("an integer is required"))),
    (WITH_LENGTH, lambda: Stream(BODY[:9], RuntimeError("request object has expired"))),
    (WITH_LENGTH, lambda: TooMuch(BODY)),
)


@pytest.mark.parametrize(("said", "make"), FAULTS)
def test_a_fault_of_the_server_is_not_the_clients(said: Any, make: Any, lines: Any) -> None:
    """R11: it is a 500 that names the server's object, and what is left is not taken for the whole body."""

    def read(request: Request) -> None:
        with pytest.raises(RuntimeError, match=r"wsgi\.input of the server"):
            request.environ["wsgi.input"].read()
        request.environ["wsgi.input"].read()

    for reader in (read, read_body):
        app = Pipeline(errors(), end(read=reader, seen=[]))
        body = {"wsgi.input": make(), "wsgi.input_terminated": True}
        assert ask(app, "POST", **said, **body).status_int == 500
        [line] = lines()
        assert line.startswith("ERROR") and line.endswith("TRACEBACK")


def test_a_fault_of_the_server_has_words_of_its_own() -> None:
    body = bodies.CheckedBody({"wsgi.input": Stream(BODY[:9], OverflowError("too large"))}, 100)
    words = r"wsgi\.input of the server \(.*test_bodies\.Stream\) raised OverflowError: too large, after 9 bytes"
    for _ in range(2):
        with pytest.raises(RuntimeError, match=words):
            body.read()


def test_an_exception_of_the_servers_own_tells_of_a_broken_body(lines: Any) -> None:
    """gunicorn's exceptions for malformed chunks are neither OSErrors nor ValueErrors."""
    stream = Stream(BODY[:9], ChunkError("Invalid chunk size: b'ZZ'"))
    app = Pipeline(errors(), end(read=read_body, seen=[]))
    said = {"wsgi.input": stream, "wsgi.input_terminated": True}
    assert ask(app, HTTP_TRANSFER_ENCODING="chunked", **said).status_int == 400
    [line] = lines()
    assert line.endswith("400, the body failed after 9 bytes: ChunkError: Invalid chunk size: b'ZZ'")


def test_a_server_without_descriptors_is_no_broken_body() -> None:
    """S15."""
    stream = Stream(b"", OSError(errno.EMFILE, "Too many open files"))
    app = Pipeline(errors(), end(read=read_body, seen=[]))
    answer = ask(app, CONTENT_LENGTH="5", **{"wsgi.input": stream})
    assert (answer.status_int, answer.headers["Retry-After"]) == (503, "1")


@pytest.mark.parametrize(
    ("length", "status"),
    [
        *((length, 400) for length in ("x", "-1", "+1", "1.0", " 1", "1,1", "5, 5", "²", "0x10", "1_0")),
        ("9" * 19, 413),
        ("9" * 5000, 413),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
@pytest.mark.parametrize("outer", OUTER)
def test_a_length_that_is_not_one_decimal_number_never_reaches_the_view(
    length: str, status: int, method: str, outer: Any, lines: Any
) -> None:
    seen: list[Any] = []
    answer = ask(Pipeline(*outer, end(read=read_body, seen=seen)), method, CONTENT_LENGTH=length)
    assert (answer.status_int, seen, answer.headers["Connection"]) == (status, [], "close")
    assert len(lines()) == 1


@pytest.mark.parametrize("length", ["5", "0"])
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("terminated", [True, False])
@pytest.mark.parametrize("outer", OUTER)
def test_length_and_transfer_encoding_together_are_400(
    length: str, method: str, terminated: bool, outer: Any
) -> None:
    """S11: and the connection is closed."""
    seen: list[Any] = []
    said = {"CONTENT_LENGTH": length, "HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": terminated}
    answer = ask(Pipeline(*outer, end(read=read_body, seen=seen)), method, **said)
    assert (answer.status_int, seen, answer.headers["Connection"]) == (400, [], "close")


@pytest.mark.parametrize("reader", ["view", "foreign"])
@pytest.mark.parametrize(
    ("coding", "status"),
    [("chunked", 200), (" Chunked\t", 200), ("gzip, chunked", 501), ("gzip,chunked", 501), ("identity", 501)],
)
def test_a_body_in_another_coding_is_refused__R11(coding: str, status: int, reader: str) -> None:
    """RFC 9112, section 6.1. gunicorn accepts gzip, and decodes chunked alone: a reader would take what is packed
    for what was sent."""
    seen: list[Any] = []
    app = Pipeline(vhost(), end(read=read_body, seen=seen) if reader == "view" else pep_3333(seen))
    said = {"HTTP_TRANSFER_ENCODING": coding, "wsgi.input_terminated": True, "wsgi.input": Stream(b"12345")}
    answer = ask(app, **said)
    assert (answer.status_int, seen) == ((200, [b"12345"]) if status == 200 else (501, []))
    assert status == 200 or answer.headers["Connection"] == "close"


def test_an_empty_transfer_encoding_is_none() -> None:
    """nginx sends one to say that the body it passes on is not chunked any more."""
    seen: list[Any] = []
    said = {"CONTENT_LENGTH": "5", "HTTP_TRANSFER_ENCODING": "", "wsgi.input": Stream(b"12345")}
    assert ask(Pipeline(vhost(), end(read=read_body, seen=seen)), **said).status_int == 200
    assert ask(Pipeline(pep_3333(seen)), **{**said, "wsgi.input": Stream(b"12345")}).status_int == 200
    assert seen == [b"12345"] * 2


def test_a_request_without_a_body_is_left_alone() -> None:
    stream = Stream(b"")

    @element
    def look() -> Any:
        def look(request: Request, response: Response) -> None:
            assert request.environ["wsgi.input"] is stream

        return look

    for said in ({}, {"CONTENT_LENGTH": ""}, {"CONTENT_LENGTH": "0"}):
        assert ask(Pipeline(look()), "GET", **{"wsgi.input": stream, **said}).status_int == 200


def test_the_stream_reads_as_a_file() -> None:
    body = bodies.CheckedBody({"wsgi.input": io.BytesIO(b"ab\ncd\nef--")}, 8)
    assert (body.readline(), body.readline(1), body.tell(), body.read(2)) == (b"ab\n", b"c", 4, b"d\n")
    assert body.seekable() and body.readable() and body.seek(0) == 0
    assert body.readlines() == [b"ab\n", b"cd\n", b"ef"]
    assert (body.read(), body.read(1), body.readline(), body.given) == (b"", b"", b"", 8)
    body.seek(6)
    assert body.read(None) == b"ef"
    body.close()
    assert not bodies.CheckedBody({"wsgi.input": Stream(b"")}, 8).seekable()


def test_a_short_body_can_be_read_again() -> None:
    """R11: and one that breaks off is refused each time."""

    def short(stream: Any, length: int) -> bodies.ShortBody:
        return bodies.ShortBody(bodies.CheckedBody({"wsgi.input": stream}, length))

    body = short(Stream(b"ab\ncd\nef"), 8)
    assert (body.tell(), body.readline(), body.readline(1), body.read(2)) == (0, b"ab\n", b"c", b"d\n")
    assert body.seekable() and body.readable() and body.seek(0) == 0
    assert body.readlines() == [b"ab\n", b"cd\n", b"ef"]
    with body as same:
        assert (same.read(), same.read(1), same.readline()) == (b"", b"", b"")
    assert body.reader().read(None) == b"ab\ncd\nef"
    body.seek(3)
    assert list(body) == [b"cd\n", b"ef"]
    broken = short(Stream(b"ab"), 8)
    for _ in range(2):
        with pytest.raises(bodies.BrokenBody):
            broken.read()


@pytest.mark.parametrize("name", ["WSGIServer/0.2 CPython/3.11.7", "WSGIServer CPython/3.15.2", "Ours/1.0"])
def test_wsgiref_refuses_a_chunked_body(name: str) -> None:
    """On the real server: it puts the Transfer-Encoding into the environ, and reads nothing. It refuses the header
    ``Connection``, so it is recognised whatever name it has."""

    class Silent(WSGIRequestHandler):
        server_version = name

        def log_message(self, *arguments: Any) -> None:
            pass

    seen: list[Any] = []
    app = Pipeline(vhost(), retry(), errors(), end(read=read_body, seen=seen))
    with make_server("127.0.0.1", 0, app, handler_class=Silent) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with socket.create_connection(server.server_address[:2], timeout=10) as client:
            head = b"PUT / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            client.sendall(head + b"5\r\nhello\r\n0\r\n\r\n")
            answer = b"".join(iter(lambda: client.recv(65536), b""))
        thread.join()
    assert answer.startswith(b"HTTP/1.0 411 Length Required\r\n"), answer
    assert seen == []


# The rest of a body.


class Counting(io.BytesIO):
    """A stream of a server, which counts what is read of it, and may be slow."""

    def __init__(self, size: int) -> None:
        super().__init__(bytes(size))

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None and size >= 0
        return super().read(size)


def left_of(
    size: int, read: int, *, status: int = 200, by_proxy: bool = True, **more: str
) -> tuple[int, dict[str, str]]:
    """Return how many bytes of a body are left when ``start_response`` is called, and the headers of the answer."""

    @element
    def end() -> Any:
        def end(request: Request, response: Response) -> None:
            request.environ["wsgi.input"].read(read)
            response.status = status  # type: ignore[assignment]

        return end

    stream = Counting(size)
    environ = Asked.blank("/", method="PUT").environ
    environ.update({"wsgi.input": stream, "SERVER_PROTOCOL": "HTTP/1.1", "CONTENT_LENGTH": str(size)}, **more)
    environ.update({"REMOTE_ADDR": "", "HTTP_X_FORWARDED_FOR": "192.0.2.7"} if by_proxy else {})
    if "HTTP_TRANSFER_ENCODING" in more:
        environ.pop("CONTENT_LENGTH")
        environ["wsgi.input_terminated"] = True
    found: list[Any] = []
    app = Pipeline(vhost(allowed_hosts=("*",), trusted=("unix",), accept=("X-Forwarded",)), end())
    body = app(environ, lambda status, headers: found.extend([size - stream.tell(), dict(headers)]))
    assert list(body) is not None
    return found[0], found[1]


@pytest.mark.parametrize("read", [0, 1, 70_000])
@pytest.mark.parametrize("status", [200, 401, 404, 413])
@pytest.mark.parametrize("more", [{}, {"HTTP_TRANSFER_ENCODING": "chunked"}])
def test_the_rest_of_a_body_is_read_before_the_answer_is_sent(read: int, status: int, more: dict[str, str]) -> None:
    left, headers = left_of(1_000_000, read, status=status, **more)
    assert left == 0 and "Connection" not in headers


def test_a_body_that_is_too_long_or_too_slow_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "LONGEST_REST", 100_000)
    left, headers = left_of(1_000_000, 0)
    assert (left, headers["Connection"]) == (1_000_000, "close")
    left, headers = left_of(1_000_000, 0, HTTP_TRANSFER_ENCODING="chunked")
    assert left > 500_000 and headers["Connection"] == "close"
    monkeypatch.setattr(bodies, "LONGEST_REST", 10_000_000)
    monkeypatch.setattr(bodies, "_SECONDS", 0)
    assert left_of(1_000_000, 0)[1]["Connection"] == "close"


def test_a_client_without_a_proxy_gets_its_answer_at_once() -> None:
    """It may stall: then a thread would wait at each address, also for a 404."""
    assert left_of(1_000_000, 0, by_proxy=False)[0] == 1_000_000


def test_a_client_that_waits_for_a_100_is_not_asked_for_its_body() -> None:
    left, headers = left_of(1_000_000, 0, HTTP_EXPECT="100-continue")
    assert left == 1_000_000 and "Connection" not in headers
