"""Output filters: what the edge does around them, and the three of ours together."""

from __future__ import annotations

import http.client
import os
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from webob import Request as Asked

from asking import ask
from pipeline import Pipeline, Request, Response, element, view
from pipeline.elements.base import base
from pipeline.elements.coalesce import coalesce
from pipeline.elements.compress import compress
from pipeline.elements.errors import errors
from pipeline.elements.traverse import traverse
from pipeline.http.files import FileBody
from pipeline.publisher import publisher

BODY = b"body"


class Blocks:
    """A stream that knows how often it was closed."""

    def __init__(self, *blocks: Any) -> None:
        self.blocks = iter(blocks)
        self.closed = 0

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        block = next(self.blocks)
        if isinstance(block, BaseException):
            raise block
        assert isinstance(block, bytes)
        return block

    def close(self) -> None:
        self.closed += 1


def says(app_iter: Any = None, *, filters: Any = (), delivery_filters: Any = (), **attributes: Any) -> Any:
    """The end of a pipeline: an answer with these filters."""

    @element
    def says() -> Any:
        def says(request: Request, response: Response) -> None:
            response.content_type = "text/plain"
            response.app_iter = [BODY] if app_iter is None else app_iter
            for name, value in attributes.items():
                setattr(response, name, value)
            for filter in filters:
                response.add_filter(filter)
            for filter, rewrites in delivery_filters:
                response.add_delivery_filter(filter, rewrites=rewrites)

        return says

    return says()


def upper(chunks: Iterator[bytes]) -> Iterator[bytes]:
    return (chunk.upper() for chunk in chunks)


def marked(mark: bytes) -> Callable[[Iterator[bytes]], Iterator[bytes]]:
    return lambda chunks: (chunk + mark for chunk in chunks)


def passing(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Takes no part."""
    return chunks


KINDS: list[Callable[[], Any]] = [lambda: [BODY], lambda: (BODY,), lambda: iter([BODY]), lambda: Blocks(BODY)]
BYTES = {"etag": "x", "accept_ranges": "bytes", "content_md5": "x", "headers": None}


def of_bytes(made: Any) -> dict[str, Any]:
    """Headers that hold for these very bytes."""
    known = {} if isinstance(made, (list, tuple)) else {"content_length": len(BODY)}
    return {"etag": "x", "accept_ranges": "bytes", "content_md5": "x", **known}


# The hook.


@pytest.mark.parametrize("kind", KINDS)
def test_what_holds_for_the_bytes_is_dropped_when_they_change(kind: Any) -> None:
    made = kind()
    answer = ask(Pipeline(errors(), says(made, filters=[upper], **of_bytes(made))))
    assert answer.body == b"BODY" and answer.headers["ETag"] == 'W/"x"'
    assert not {"Accept-Ranges", "Content-MD5"} & set(answer.headers)
    assert answer.headers.get("Content-Length", "4") == "4"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["filters", "delivery_filters"])
def test_a_filter_that_takes_no_part_changes_nothing(kind: Any, way: str) -> None:
    made = kind()
    added = [passing] if way == "filters" else [(passing, True)]
    answer = ask(Pipeline(errors(), says(made, **{way: added}, **of_bytes(made))))
    assert answer.body == BODY and answer.headers["ETag"] == '"x"' and answer.content_length == 4
    assert answer.accept_ranges == "bytes" and answer.headers["Content-MD5"] == "x"


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_only_cuts_the_bytes_into_other_blocks(kind: Any) -> None:
    def cut(chunks: Iterator[bytes]) -> Iterator[bytes]:
        return (chunk[place : place + 1] for chunk in chunks for place in range(len(chunk)))

    made = kind()
    answer = ask(Pipeline(errors(), says(made, delivery_filters=[(cut, False)], **of_bytes(made))))
    assert answer.body == BODY and answer.headers["ETag"] == '"x"' and answer.content_length == 4


def test_a_weak_etag_stays_a_weak_one() -> None:
    answer = ask(Pipeline(errors(), says(filters=[upper, upper], etag=("x", False))))
    assert answer.headers["ETag"] == 'W/"x"'


@pytest.mark.parametrize("stream", [False, True])
def test_transports_come_after_all_filters(stream: bool) -> None:
    """Whoever added them first, and the inner before the outer."""

    @element
    def outer(next: Any, *, mark: bytes = b"") -> Any:
        def outer(request: Request, response: Response) -> None:
            response.add_filter(marked(b"1"))
            next(request, response)
            response.add_delivery_filter(marked(b"5"))
            response.add_filter(marked(b"3"))

        return outer

    end = says(iter([b""]) if stream else None, filters=[marked(b"2")], delivery_filters=[(marked(b"4"), True)])
    answer = ask(Pipeline(errors(), outer(), end))
    assert answer.body == (b"" if stream else BODY) + b"12345"


def test_a_filter_sees_the_headers_as_they_are_at_last_and_may_change_them() -> None:
    seen: list[str] = []

    @element
    def around(next: Any) -> Any:
        def around(request: Request, response: Response) -> None:
            def look(chunks: Iterator[bytes]) -> Iterator[bytes]:
                seen.append(response.content_type)
                response.headers["X-Filtered"] = "yes"
                return chunks

            response.add_filter(look)
            next(request, response)
            response.content_type = "text/css"

        return around

    answer = ask(Pipeline(errors(), around(), says(content_type="text/html")))
    assert seen == ["text/css"] and answer.headers["X-Filtered"] == "yes" and answer.body == BODY


@pytest.mark.parametrize("way", ["filters", "delivery_filters"])
@pytest.mark.parametrize("status", ["204 No Content", "205 Reset Content", "304 Not Modified"])
def test_no_filter_is_called_for_what_has_no_body(way: str, status: str) -> None:
    def never(chunks: Iterator[bytes]) -> Iterator[bytes]:
        raise AssertionError

    added: Any = [never] if way == "filters" else [(never, True)]
    answer = ask(Pipeline(errors(), says([], status=status, **{way: added})))
    assert answer.line == status and answer.body == b""


@pytest.mark.parametrize("stream", [False, True])
def test_HEAD_has_the_headers_of_GET(stream: bool) -> None:
    def end() -> Any:
        return says(Blocks(BODY) if stream else None, filters=[upper], etag="x")

    got, head = (ask(Pipeline(errors(), end()), method=method) for method in ("GET", "HEAD"))
    assert head.body == b"" and head.headerlist == got.headerlist


def test_HEAD_without_a_body_says_no_length_of_what_is_filtered() -> None:
    """Not 0, which would be wrong."""
    answer = ask(Pipeline(errors(), says([], filters=[upper], content_length=100)), method="HEAD")
    assert "Content-Length" not in answer.headers
    answer = ask(Pipeline(errors(), says([], filters=[passing], content_length=100)), method="HEAD")
    assert answer.content_length == 100


def test_a_file_that_no_filter_touches_stays_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(BODY)
    wrapped: list[Any] = []

    def wrapper(file: Any, size: int) -> Any:
        wrapped.append(file)
        return iter([file.read()])

    for filter, expected in ((passing, 1), (upper, 0)):
        wrapped.clear()
        with open(tmp_path / "file", "rb") as file:
            app = Pipeline(errors(), says(FileBody(file), filters=[filter]))
            environ = Asked.blank("/").environ | {"wsgi.file_wrapper": wrapper}
            list(app(environ, lambda status, headers: None))
        assert len(wrapped) == expected


def test_an_answer_taken_back_has_no_filters() -> None:
    """An error page is sent as it is."""

    @element
    def failing(next: Any) -> Any:
        def failing(request: Request, response: Response) -> None:
            next(request, response)
            raise ZeroDivisionError

        return failing

    added = {"filters": [upper], "delivery_filters": [(upper, True)]}
    answer = ask(Pipeline(errors(), failing(), says(**added)))
    assert answer.status_int == 500 and answer.body.startswith(b"An error occurred")


def test_a_filter_on_an_app_of_others_and_on_a_pipeline_behind_a_middleware() -> None:
    @element
    def filtering(next: Any, *, mark: str = "") -> Any:
        def filtering(request: Request, response: Response) -> None:
            response.add_filter(marked(mark.encode()))
            next(request, response)

        return filtering

    @element
    def again(next: Any) -> Any:
        return filtering.link(next)

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain"), ("ETag", '"x"')])
        yield BODY

    def middleware(app: Any) -> Any:
        return lambda environ, start_response: app(environ, start_response)

    answer = ask(Pipeline(errors(), filtering(mark="2"), middleware, again(), app))
    assert answer.body.startswith(BODY) and answer.body.endswith(b"2") and answer.headers["ETag"] == 'W/"x"'


def test_a_filter_that_is_added_too_late_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """By a view that is a generator, which only runs when its first block is asked for."""
    answers: list[Response] = []

    @element
    def watching(next: Any) -> Any:
        def watching(request: Request, response: Response) -> None:
            answers.append(response)
            next(request, response)

        return watching

    def late() -> Iterator[bytes]:
        answers[0].add_filter(upper)
        yield BODY

    answer = ask(Pipeline(errors(), watching(), says(late())))
    assert answer.status_int == 500 and "must add its filters before it yields" in caplog.text


# Errors in filters: an error page, or a visibly broken stream; closed once in any case (R7).


def before(chunks: Iterator[bytes]) -> Iterator[bytes]:
    raise ZeroDivisionError("secret")


def at_first(chunks: Iterator[bytes]) -> Iterator[bytes]:
    raise ZeroDivisionError("secret")
    yield b""


def at_second(chunks: Iterator[bytes]) -> Iterator[bytes]:
    yield next(chunks)
    raise ZeroDivisionError("secret")


def at_the_end(chunks: Iterator[bytes]) -> Iterator[bytes]:
    yield from chunks
    raise ZeroDivisionError("secret")


def no_bytes(chunks: Iterator[bytes]) -> Iterator[Any]:
    return (chunk.decode() for chunk in chunks)


def nothing(chunks: Iterator[bytes]) -> Any:
    return None


@pytest.mark.parametrize("failing", [before, at_first, at_second, at_the_end, no_bytes, nothing])
@pytest.mark.parametrize("way", ["filters", "delivery_filters"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_filter_that_fails_on_a_body_in_memory_is_an_error_page(
    failing: Any, way: str, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    added: Any = [failing] if way == "filters" else [(failing, True)]
    answer = ask(Pipeline(errors(), says(**{way: added})), method=method)
    assert answer.status_int == 500 and BODY not in answer.body and b"secret" not in answer.body
    assert "ZeroDivisionError" in caplog.text or "TypeError" in caplog.text


@pytest.mark.parametrize(
    ("failing", "is_page"),
    [(before, True), (at_first, True), (no_bytes, True), (nothing, True), (at_second, False), (at_the_end, False)],
)
@pytest.mark.parametrize("way", ["filters", "delivery_filters"])
def test_a_filter_that_fails_on_a_stream(
    failing: Any, is_page: bool, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    added: Any = [failing] if way == "filters" else [(failing, True)]
    body = Blocks(BODY, BODY)
    started: list[str] = []
    app = Pipeline(errors(), says(body, content_length=8, **{way: added}))
    sent = app(Asked.blank("/").environ, lambda status, headers: started.append(status))
    if is_page:
        assert started == ["500 Internal Server Error"] and BODY not in b"".join(sent)
    else:
        with pytest.raises(ZeroDivisionError):
            list(sent)
        assert started == ["200 OK"] and "in mid-stream" in caplog.text
        sent.close()
    assert body.closed == 1 and "secret" not in str(started)


@pytest.mark.parametrize("read", [0, 1, 5])
def test_filters_and_body_are_closed_once_when_the_client_goes_away(read: int) -> None:
    closed: list[str] = []

    def noting(chunks: Iterator[bytes]) -> Iterator[bytes]:
        try:
            yield from chunks
        finally:
            closed.append("filter")

    body = Blocks(*[BODY] * 5)
    app = Pipeline(errors(), says(body, filters=[noting], delivery_filters=[(upper, True)]))
    sent = app(Asked.blank("/").environ, lambda status, headers: None)
    for _ in range(read):
        next(sent)
    sent.close()
    sent.close()
    assert body.closed == 1 and closed == ["filter"]


def test_a_wrong_length_is_found_though_a_filter_drops_it(caplog: pytest.LogCaptureFixture) -> None:
    for length in (7, 9):
        app = Pipeline(errors(), says(Blocks(BODY, BODY), filters=[upper], content_length=length))
        sent = app(Asked.blank("/").environ, lambda status, headers: None)
        with pytest.raises(ValueError, match="Content-Length"):
            list(sent)


# Ours, together.


class Folder(dict[str, Any]):
    """A container."""


class Page:
    """A long page; says what was made of it."""

    def __init__(self) -> None:
        self.blocks = 0

    def __iter__(self) -> Iterator[bytes]:
        self.blocks += 1
        yield b"<!DOCTYPE html><html><head><title>Long</title><link rel=x href=a></head><body>\n"
        line = (
            b"<p>%d lines of no great interest, and each of them a little different; but " + b"so " * 8 + b"</p>\n"
        )
        for number in range(2_000_000):
            self.blocks += 1
            yield line % number


def test_all_three_around_a_view() -> None:
    app = Pipeline(
        *(errors(), traverse(root=lambda: Folder(), slash_redirect=False), base(), compress(), coalesce()),
        publisher(scan=(__name__,)),
    )
    environ = Asked.blank("/").environ | {"PATH_INFO": "", "SCRIPT_NAME": "/app", "HTTP_ACCEPT_ENCODING": "gzip"}
    answer = ask(app, environ=environ)
    page = zlib.decompress(answer.body, 31)
    assert page.count(b'<base href="http://localhost/app/" />') == 1 and page.endswith(b"<p>999</p>\n")


@view(context=Folder)
def short(context: Folder, request: Request) -> Iterator[bytes]:
    yield b"<html><head><link href=a></head>"
    for number in range(1000):
        yield b"<p>%d</p>\n" % number


@view(context=Folder, name="long")
def long(context: Folder, request: Request) -> Iterator[bytes]:
    return iter(Page())


def rss(pid: int | str = "self") -> int:
    """Bytes of memory that a process has resident."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("encoding", ["", "gzip", "br", "zstd"])
def test_a_page_of_200_MB_in_flat_memory_and_its_first_byte_at_once(encoding: str) -> None:
    page = Page()

    @element
    def end() -> Any:
        def end(request: Request, response: Response) -> None:
            request.lacks_slash = True
            response.app_iter = iter(page)

        return end

    @element(provides=("context",))
    def anything(next: Any) -> Any:
        return next

    app = Pipeline(errors(), anything(), base(), compress(level=1), coalesce(), end())
    environ = Asked.blank("/folder").environ | {"HTTP_ACCEPT_ENCODING": encoding}
    sent = iter(app(environ, lambda status, headers: None))
    assert next(sent) and page.blocks == 1, "the first byte is there, and nothing else was made"
    next(sent)
    at_first, highest, length = rss(), 0, 0
    for number, block in enumerate(sent):
        length += len(block)
        if number % 100 == 0:
            highest = max(highest, rss())
    sent.close()  # type: ignore[attr-defined]
    assert highest - at_first < 30_000_000
    assert page.blocks == 2_000_001 and (encoding or length > 200_000_000)


SITE = """
import sys
import threading
from pipeline import Pipeline, view
from pipeline.elements.base import base
from pipeline.elements.coalesce import coalesce
from pipeline.elements.compress import compress
from pipeline.elements.errors import errors
from pipeline.elements.traverse import traverse
from pipeline.publisher import publisher

class Folder(dict):
    pass

made = 0
client_has_it = threading.Event()

@view(context=Folder)
def page(context, request):
    global made
    yield b"<!DOCTYPE html><html><head><title>Long</title><link rel=x href=a></head><body>"
    block = b"<p>lines of no great interest, and all of them the same</p>" * 1_000
    for made in range(200_000_000 // len(block)):
        if made == 1_000 and not client_has_it.wait(30):
            raise TimeoutError("the client has got nothing yet")
        yield block

@view(context=Folder, name="go-on")
def go_on(context, request):
    client_has_it.set()

@view(context=Folder, name="made")
def so_far(context, request, response):
    return str(made)

root = Folder(folder=Folder())
app = Pipeline(
    errors(), traverse(root=lambda: root, slash_redirect=False), base(), compress(level=1), coalesce(),
    publisher(scan=(__name__,)),
)
import waitress
waitress.serve(app, port=int(sys.argv[1]), threads=2)
"""


def test_200_MB_on_a_real_server(start: Any, free_port: int, tmp_path: Path) -> None:
    (tmp_path / "site.py").write_text(SITE)
    server = start([sys.executable, tmp_path / "site.py", str(free_port)], free_port)
    highest = 0
    done = threading.Event()

    def watch() -> None:
        nonlocal highest
        while not done.wait(0.02):
            highest = max(highest, rss(server.pid))

    client = http.client.HTTPConnection("127.0.0.1", free_port, timeout=60)
    client.request("GET", "/@@made")
    client.getresponse().read()
    at_first = rss(server.pid)
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        client.request("GET", "/folder", headers={"Accept-Encoding": "gzip"})
        answer = client.getresponse()
        assert answer.getheader("Content-Encoding") == "gzip"
        unpacker = zlib.decompressobj(31)
        page = unpacker.decompress(answer.read(100))
        with urlopen(f"http://127.0.0.1:{free_port}/@@go-on", timeout=60) as told:
            assert told.status == 200
        assert page.startswith(b"<!DOCTYPE html>")
        total = len(page)
        while block := answer.read1(1_000_000):
            total += len(unpacker.decompress(block))
    finally:
        done.set()
        watcher.join()
    assert unpacker.eof and total > 199_000_000
    assert highest - at_first < 40_000_000
