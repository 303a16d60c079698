"""Slow clients, half-sent requests, unread answers and blocked threads behind the nginx that is deployed (R10)."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

from faults.length import FULL, length
from servers.base import Missing, find
from servers.deployed import Deployed, deployed
from servers.probes import Target, read
from servers.test_matrix import need, start

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600 if FULL else 300)]

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


class Kind(NamedTuple):
    """What a slow client does."""

    method: str = "GET"
    path: str = "/"
    headers: Sequence[str] = ()
    left_out: int = 0
    """Bytes of the end of the headers that it does not send; all of them if that is more."""
    sends: bytes = b""
    """What it sends every half second from then on."""
    reads: int = 0
    """Bytes that it reads every half second."""


LENGTH = ("Content-Length: 1000000",)
KINDS = {
    "sends nothing": Kind(left_out=10_000),
    "sends half of its headers": Kind(left_out=4),
    "sends a header now and then": Kind(left_out=2, sends=b"X-More: 1\r\n"),
    "sends no body": Kind("POST", "/@@echo", LENGTH),
    "sends its body byte by byte": Kind("POST", "/@@echo", LENGTH, sends=b"x"),
    "sends chunks of a byte": Kind("POST", "/@@echo", ("Transfer-Encoding: chunked",), sends=b"1\r\nx\r\n"),
    "expects 100 Continue, and waits": Kind("POST", "/@@echo", (*LENGTH, "Expect: 100-continue")),
    "does not read an answer": Kind(path="/@@megabyte"),
    "does not read a stream": Kind(path="/@@stream"),
    "reads an answer byte by byte": Kind(path="/@@megabyte", reads=1),
    "keeps its connection": Kind(reads=100_000),
}
BODIES = {name for name, kind in KINDS.items() if kind.method == "POST"}
HEADERS = {"sends half of its headers", "sends a header now and then"}
LIMITS: dict[str, set[str]] = {
    "gunicorn": {"sends nothing", *HEADERS, *BODIES},
    "granian": BODIES - {"sends chunks of a byte"},
    "nginx": set(),
    "nginx --behind granian": set(),
    "nginx --behind uwsgi": set(),
    "apache": BODIES,
    "apache --embedded": {*HEADERS, *BODIES},
    "mod_python": {"does not read an answer", *HEADERS, *BODIES} - {"sends chunks of a byte"},
    "uwsgi": {*HEADERS, *BODIES},
    "lighttpd": set(),
    "mod_wsgi-express": BODIES,
}
"""Kinds that stop a server, or delay others by 5 s, as each has a thread. docs/deployments.rst says so."""


@contextmanager
def hostile(target: Target, kinds: Iterable[str] = KINDS, many: int = 100) -> Iterator[None]:
    """So many clients of each of these kinds."""
    with ExitStack() as stack:
        clients: list[tuple[socket.socket, Kind]] = []
        for kind in [KINDS[name] for name in kinds for _ in range(many)]:
            connection = stack.enter_context(closing(socket.socket()))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # the kernel holds little for it
            connection.settimeout(20)
            with suppress(OSError):
                connection.connect(("127.0.0.1", target.port))
                head = target.head(kind.method, kind.path, *kind.headers)
                connection.sendall(head[: max(0, len(head) - kind.left_out)])
                clients.append((connection, kind))
            connection.setblocking(False)
        stopping = threading.Event()

        def go_on() -> None:
            while not stopping.wait(0.5):
                for connection, kind in clients:
                    with suppress(OSError):  # the server has closed it, or has nothing yet
                        if kind.sends:
                            connection.send(kind.sends)
                        if kind.reads:
                            connection.recv(kind.reads)

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join()


def steady(target: Target, seconds: float, rate: int = RATE) -> list[tuple[float, int]]:
    """Ask so many times a second, from as many threads as that needs; return the seconds and status of each."""
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

    numbers = range(int(seconds * rate))
    threads = [threading.Thread(target=ask, args=(number / rate,)) for number in numbers]
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
    said = f"p50 {times[len(times) // 2]:.3f} s, p99 {p99:.3f} s"
    print(f"{len(found)} requests beside {100 * len(KINDS):,} slow clients: {said}")
    assert {status for _, status in found} == {200}
    assert p99 < 1


@pytest.mark.skipif(not FULL, reason="it takes a minute for each target: make faults runs it")
@pytest.mark.parametrize("words", LIMITS)
def test_each_kind_of_slow_client(
    words: str, python: Path, inis: Path, public_dir: Path, missing: Callable[[str, str], NoReturn]
) -> None:
    """Beside 100 clients of each kind, each by itself: all are answered, but for the limits that are known."""
    need(words, python, missing)
    failed = {}
    with start(words, python, inis, public_dir, "--workers", "1", "--threads", f"{THREADS}") as server:
        target = Target(server.port)
        for kind in ("no slow client", *KINDS):
            with hostile(target, [kind] if kind in KINDS else []):
                time.sleep(1)
                found = sorted(steady(target, 2, 20))
            bad = sum(status != 200 for _, status in found)
            middle, longest = found[len(found) // 2][0], found[-1][0]
            print(f"{words}: {kind}: p50 {middle:.3f} s, longest {longest:.3f} s, {bad} failed")
            if bad or longest > 5:
                failed[kind] = (bad, longest)
    assert set(failed) == LIMITS[words], failed


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
