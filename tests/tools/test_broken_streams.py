"""A stream that fails breaks the connection under servers that would end it as a complete one."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.serving.by_uwsgi import by_http
from pipeline.serving.mod_python import break_off

Ends = tuple[socket.socket, socket.socket]


@contextmanager
def connected() -> Iterator[Ends]:
    """The connection of a client: the end of the server, and that of the client."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname(), timeout=5)
        server, _ = listener.accept()
    with client, server:
        yield server, client


@pytest.fixture
def ends() -> Iterator[Ends]:
    with connected() as ends:
        yield ends


class Blocks:
    """A body that fails behind its first block."""

    def __init__(self, fails: bool) -> None:
        self.left: list[Any] = [b"first", RuntimeError("in the middle") if fails else b"last"]
        self.closed = 0

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if not self.left:
            raise StopIteration
        block = self.left.pop(0)
        if isinstance(block, Exception):
            raise block
        return bytes(block)

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("fails", [True, False])
def test_uwsgi_resets_the_connection_of_a_stream_that_fails(
    fails: bool, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, client = ends
    monkeypatch.setitem(sys.modules, "uwsgi", SimpleNamespace(connection_fd=server.fileno))
    blocks, environ = Blocks(fails), {"wsgi.url_scheme": "https"}
    answer: Any = by_http(lambda environ, start: blocks)(environ, lambda *head: None)
    assert environ == {"wsgi.url_scheme": "http"}, "S13: uWSGI has believed a visitor"
    try:
        for block in answer:
            server.sendall(block)
    except RuntimeError:
        assert fails
    answer.close()
    assert blocks.closed == 1, "R7"
    server.close()  # as uWSGI does after every answer
    assert client.recv(5) == b"first"
    if fails:
        with pytest.raises(ConnectionResetError):
            client.recv(5)
    else:
        assert client.recv(5) == b"last"


@pytest.mark.parametrize("body", [[b"in memory"], ()])
def test_a_body_in_memory_is_given_to_uwsgi_as_it_is(body: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uwsgi", SimpleNamespace())
    assert by_http(lambda environ, start: body)({}, lambda *head: None) is body


def test_mod_python_ends_the_connection_of_one_client_alone(ends: Ends) -> None:
    server, client = ends
    with connected() as (of_other, other):
        break_off(SimpleNamespace(local_addr=server.getsockname(), client_addr=server.getpeername()))
        assert client.recv(1) == b"", "its answer has no last chunk"
        with pytest.raises(BrokenPipeError):
            server.sendall(b"a page of Apache's own")
        of_other.sendall(b"whole")
        assert other.recv(5) == b"whole"
