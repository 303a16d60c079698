"""Clients that send half of their headers and then wait hold nobody up, at lighttpd and nginx as deployed."""

from __future__ import annotations

import http.client
import resource
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NoReturn

import pytest

from servers.test_matrix import need, start

pytestmark = [pytest.mark.servers, pytest.mark.timeout(120)]
MANY = 1_500


@pytest.mark.parametrize("target", ["lighttpd", "nginx"])
def test_others_are_answered(
    target: str, python: Path, inis: Path, public_dir: Path, missing: Callable[[str, str], NoReturn]
) -> None:
    need(target, python, missing)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4 * MANY, hard), hard))
    try:
        with start(target, python, inis, public_dir, "--threads", "5") as server, ExitStack() as stack:
            for _ in range(MANY):
                client = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=5))
                client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Half: ")
            took = []
            for _ in range(10):
                began = time.monotonic()
                with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)) as connection:
                    connection.request("GET", "/")
                    assert connection.getresponse().status == 200
                took.append(time.monotonic() - began)
            assert sorted(took)[5] < 1 and max(took) < 10, took
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
