"""Applications that answer by WSGI's ``write()``: what a plain server would send, in bounded memory."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from transaction.interfaces import TransientError

from asking import ask
from pipeline import Pipeline
from pipeline.elements.compress import compress
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.foreign import IN_MEMORY

MIB = 1024 * 1024
SIZES: list[list[int]] = [
    [],
    [0],
    [1, 2, 3],
    [IN_MEMORY],
    [IN_MEMORY + 1],
    [IN_MEMORY, 1],
    [1, IN_MEMORY, 5, 3 * MIB, 0, 7],
    [10_000] * 300,
]
ENDS: dict[str, Any] = {
    "nothing": list,
    "a list": lambda: [b"end"],
    "a generator": lambda: (block for block in (b"e", b"", b"nd")),
}


def app_of(sizes: list[int], end: Any) -> Any:
    def app(environ: Any, start_response: Any) -> Any:
        write = start_response("200 OK", [("Content-Type", "text/plain")])
        for number, size in enumerate(sizes):
            write(bytes([number % 251]) * size)
        return end()

    return app


def sent_by(app: Any) -> bytes:
    """What a server sends without a pipeline."""
    sent: list[bytes] = []
    body = app({"REQUEST_METHOD": "GET"}, lambda status, headers, exc_info=None: sent.append)
    return b"".join([*sent, *body])


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("end", ENDS)
def test_it_is_what_a_plain_server_sends(sizes: list[int], end: str) -> None:
    app = app_of(sizes, ENDS[end])
    expected = sent_by(app)
    for parts in ((), (retry(), errors(), transaction(), compress())):
        answer = ask(Pipeline(*parts, app), "/")
        assert answer.status == 200 and answer.body == expected


def test_memory_is_bounded_and_the_file_is_closed() -> None:
    block = b"x" * MIB
    files = len(os.listdir("/proc/self/fd"))

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        write = start_response("200 OK", [("Content-Type", "application/octet-stream")])
        for _ in range(64):
            write(block)
        return iter([b"end"])

    pipeline = Pipeline(retry(), errors(), transaction(), app)
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "SERVER_NAME": "localhost", "SERVER_PORT": "80"}
    tracemalloc.start()
    try:
        body = pipeline({**environ, "HTTP_HOST": "localhost", "wsgi.url_scheme": "http"}, lambda *arguments: None)
        length = sum(len(one) for one in body)
        body.close()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert length == 64 * MIB + 3
    assert peak < 8 * MIB, f"{peak / MIB:.1f} MiB"
    assert len(os.listdir("/proc/self/fd")) == files


def test_a_further_attempt_begins_anew() -> None:
    attempts: list[int] = []

    def app(environ: Any, start_response: Any) -> list[bytes]:
        attempts.append(1)
        write = start_response("200 OK", [("Content-Type", "text/plain")])
        write(b"%d" % len(attempts) * (2 * MIB))
        if len(attempts) < 3:
            raise TransientError("another request was faster")
        return []

    files = len(os.listdir("/proc/self/fd"))
    answer = ask(Pipeline(retry(delay=0), errors(), transaction(), app), "/")
    assert answer.body == b"3" * (2 * MIB) and len(os.listdir("/proc/self/fd")) == files


def test_an_error_after_it_is_an_error_page() -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])(b"x" * (2 * MIB))
        raise KeyError("x")

    answer = ask(Pipeline(errors(), app), "/")
    assert answer.status == 500 and b"xxx" not in answer.body, "nothing was sent yet"


def test_text_is_refused_where_it_is_written() -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        write = start_response("200 OK", [("Content-Type", "text/plain")])
        write(b"x" * (2 * MIB))
        write("text")
        return []

    assert ask(Pipeline(errors(), app), "/").status == 500
