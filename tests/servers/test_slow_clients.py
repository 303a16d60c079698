"""Slow clients, half-sent requests, unread answers and blocked threads behind the nginx that is deployed (R10)."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from faults.length import length
from servers.base import Missing, find
from servers.deployed import Deployed, deployed
from servers.probes import Target, read

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]

SECONDS = length(short=8, full=60)
RATE = 50
BLOCKED = length(short=12, full=30)
THREADS = 8
"""Of one process: of two, chance would share the requests out."""


@pytest.fixture(scope="module")
def server(
    python: Path, inis: Path, public_dir: Path, missing: Callable[[str, str], NoReturn]
) -> Iterator[Deployed]:
    try:
        find("nginx", "apt install nginx")
    except Missing as error:
        missing(*error.args)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    options = ("--workers", "1", "--threads", f"{THREADS}", f"zodb_uri={(inis / 'uri').read_text()}")
    with deployed(python, inis / "matrix.ini", public_dir / "slow", "nginx", *options) as server:
        yield server


@contextmanager
def hostile(target: Target) -> Iterator[None]:
    """1,100 clients: 500 send half of a request, 200 a body byte by byte, 400 do not read what they asked for."""
    with ExitStack() as stack:
        slow = []
        for number in range(1100):
            connection = stack.enter_context(closing(socket.socket()))
            if number >= 700:  # the kernel holds little of what is not read
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(20)
            connection.connect(("127.0.0.1", target.port))
            if number < 500:
                connection.sendall(target.head("GET", "/")[:-4])
            elif number < 700:
                connection.sendall(target.head("POST", "/@@echo", "Content-Length: 1000000"))
                slow.append(connection)
            else:
                connection.sendall(target.head("GET", "/@@megabyte" if number % 2 else "/@@stream"))
        stopping = threading.Event()

        def trickle() -> None:
            while not stopping.wait(0.5):
                for connection in slow:
                    try:
                        connection.sendall(b"x")
                    except OSError:
                        pass

        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join()


def steady(target: Target, seconds: float) -> list[tuple[float, int]]:
    """Ask 50 times a second, from as many threads as that needs; return the seconds and status of each."""
    found: list[tuple[float, int]] = []
    begin = time.monotonic()

    def ask(at: float) -> None:
        time.sleep(max(0.0, begin + at - time.monotonic()))
        began = time.monotonic()
        try:
            status = target.ask("GET", "/@@show", "Connection: close").status
        except OSError:
            status = 0
        found.append((time.monotonic() - began, status))

    threads = [threading.Thread(target=ask, args=(number / RATE,)) for number in range(int(seconds * RATE))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_normal_requests_do_not_notice_slow_clients(server: Deployed) -> None:
    target = Target(server.port)
    with hostile(target):
        time.sleep(4)  # the site has made the answers that nobody reads
        found = steady(target, SECONDS)
    times = sorted(seconds for seconds, _ in found)
    p99 = times[int(len(times) * 0.99)]
    print(f"{len(found)} requests beside 1,100 slow clients: p50 {times[len(times) // 2]:.3f} s, p99 {p99:.3f} s")
    assert {status for _, status in found} == {200}
    assert p99 < 1


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """Connections that are closed after the test, however it ends."""
    with ExitStack() as stack:
        yield stack


def test_blocked_threads_are_seen_and_end(server: Deployed, opened: ExitStack) -> None:
    """Every thread sleeps. Health is an error within its 5 s, and the site answers as soon as they wake."""
    target = Target(server.port)

    sleepers = []
    for _ in range(THREADS):
        sleeper = opened.enter_context(closing(socket.socket(socket.AF_UNIX)))
        sleeper.connect(str(server.directory / "run" / "site.sock"))  # past nginx
        sleeper.sendall(target.head("GET", f"/@@nap?seconds={BLOCKED}", "Connection: close"))
        sleepers.append(sleeper)
    began = time.monotonic()
    answer = target.ask("GET", "/@@health", "Connection: close")
    assert answer.status == 504 and time.monotonic() - began < 7
    began = time.monotonic()
    with closing(target.connect()) as connection:
        connection.settimeout(BLOCKED)
        connection.sendall(target.head("GET", "/@@show", "Connection: close"))
        waiting = read(connection).status
    print(f"all threads blocked: a new client is answered {waiting} after {time.monotonic() - began:.1f} s")
    assert waiting == 200 and time.monotonic() - began < BLOCKED
    # Close what was read: the thread of gunicorn that accepts waits for that, up to 2 s for each connection.
    for sleeper in sleepers:
        with closing(sleeper):
            assert read(sleeper).status == 200
    woke = time.monotonic()
    assert target.ask("GET", "/@@health", "Connection: close").status == 200
    late = time.monotonic() - woke
    print(f"ready {late:.2f} s after the last thread woke")
    assert late < 1
