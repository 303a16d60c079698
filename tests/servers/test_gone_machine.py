"""nginx as ``pipeline deploy`` writes it, before two instances: one is gone, slow, killed, or back again (R4, R9).

The instances are sockets that note what arrives, so that a request that is sent twice is seen.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import NoReturn

import pytest

from inis import BEHIND_NGINX, ini_of
from ports import unused_port
from servers.base import Missing, find
from servers.deployed import Deployed

pytestmark = [pytest.mark.servers, pytest.mark.timeout(120)]

INI = ini_of(
    ["vhost", "errors", "traverse"],
    "",
    vhost=BEHIND_NGINX,
    traverse="root = builtins:dict",
)
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")
READ_TIMEOUT = 3
"""Seconds, in the place of the 60 that are written."""


class Instance:
    """A server that answers 200, notes each request, waits for ever at /slow and hangs up at /reset."""

    def __init__(self) -> None:
        self.port = unused_port()
        self.seen: list[str] = []
        self.listener: socket.socket | None = None

    def start(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection: socket.socket) -> None:
        with connection:
            read = b""
            while b"\r\n\r\n" not in read:
                if not (block := connection.recv(65536)):
                    return
                read += block
            line = read.split(b" HTTP/")[0].decode()
            self.seen.append(line)
            if line.endswith("/slow"):
                connection.recv(1)  # nginx hangs up
            elif line.endswith("/"):
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    def stop(self) -> None:
        if self.listener is not None:
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
            self.listener = None


@pytest.fixture
def instances() -> Iterator[tuple[Instance, Instance]]:
    made = (Instance(), Instance())
    for one in made:
        one.start()
    yield made
    for one in made:
        one.stop()


@pytest.fixture
def behind(public_dir: Path, missing: Callable[[str, str], NoReturn]) -> Iterator[Callable[..., int]]:
    """``behind(port, port)`` starts nginx in front of the ports; it returns its own port."""
    try:
        find("nginx", "apt install nginx libnginx-mod-stream")
    except Missing as error:
        missing(*error.args)
    with ExitStack() as stack:

        def start(*ports: int) -> int:
            ini = public_dir / "behind.ini"
            ini.write_text(INI)
            upstreams = [word for port in ports for word in ("--upstream", f"127.0.0.1:{port}")]
            nginx = Deployed(Path(sys.executable), ini, public_dir / f"proxy{unused_port()}", "nginx", *upstreams)
            stack.callback(nginx.kill)
            conf = nginx.directory / "site.conf"
            assert conf.read_text().count(" 60s;") >= 2
            conf.write_text(conf.read_text().replace("_read_timeout 60s;", f"_read_timeout {READ_TIMEOUT}s;"))
            nginx.start()
            return nginx.port

        yield start


def ask(port: int, method: str, path: str = "/") -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, b"x" if method in ("POST", "PUT") else None)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def test_a_machine_that_is_gone_fails_nothing(
    instances: tuple[Instance, Instance], gone: int, behind: Callable[..., int]
) -> None:
    """R9: its connect time-out is passed on, and then it is left out."""
    alive = instances[0]
    port = behind(alive.port, gone)
    alive.seen.clear()
    began = time.monotonic()
    took = []
    for number in range(30):
        start = time.monotonic()
        assert ask(port, METHODS[number % 5]) == 200
        took.append(time.monotonic() - start)
    assert Counter(line.split()[0] for line in alive.seen) == dict.fromkeys(METHODS, 6), "each was sent once"
    waits = sum(seconds > 1 for seconds in took)
    print(f"{waits} of {len(took)} requests waited, the longest for {max(took):.2f} s")
    assert max(took) < 3 and waits <= 1 + (time.monotonic() - began) / 2


def test_a_slow_view_is_asked_once_and_no_instance_is_left_out(
    instances: tuple[Instance, Instance], behind: Callable[..., int]
) -> None:
    """R4: a read time-out is not passed on, for the site may be at work on it."""
    port = behind(*(one.port for one in instances))
    for one in instances:
        one.seen.clear()
    for method in ("GET", "PUT"):
        assert ask(port, method, "/slow") == 504
    assert sorted(line for one in instances for line in one.seen) == ["GET /slow", "PUT /slow"]
    for _ in range(4):
        assert ask(port, "GET") == 200
    assert [one.seen.count("GET /") for one in instances] == [2, 2], "both are asked in turn"


@pytest.mark.parametrize("method", METHODS)
def test_what_one_instance_has_taken_no_other_one_gets(
    method: str, instances: tuple[Instance, Instance], behind: Callable[..., int]
) -> None:
    """R4: it may have been done."""
    port = behind(*(one.port for one in instances))
    assert ask(port, method, "/reset") == 502
    assert [line for one in instances for line in one.seen if "reset" in line] == [f"{method} /reset"]


def test_one_that_is_back_is_asked_soon(
    instances: tuple[Instance, Instance], behind: Callable[..., int]
) -> None:
    first, second = instances
    port = behind(first.port, second.port)
    for one in (first, second, first):  # both have refused within a moment
        one.stop()
        assert {ask(port, method) for method in METHODS * 2} == {200}
        one.start()
    first.stop()
    second.stop()
    assert ask(port, "GET") == 502
    first.start()
    assert ask(port, "GET") == 200, "at once, although it was left out"
    time.sleep(3.1)  # nginx counts whole seconds, and waits for more than two
    second.start()
    for one in instances:
        one.seen.clear()
    assert {ask(port, "GET") for _ in range(8)} == {200}
    assert all(one.seen for one in instances)
