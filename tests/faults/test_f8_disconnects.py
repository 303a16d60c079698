"""F8: the client goes away, at every block and at any byte.

Every body is closed exactly once, no transaction stays open, no connection is missing (R5, R7, R8).
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faults import site as faults_site
from faults.conftest import Figures
from faults.inside import take
from faults.judge import Writers, stored_in
from faults.length import length
from faults.load import get
from faults.serving import Site, Workers, write_ini
from pipeline.paste import load
from servers.base import wait_until
from servers.postgres import Postgres

pytestmark = pytest.mark.timeout(600)

BLOCKS = 16
OFFSETS = length(short=150, full=1000)
THREADS = 8


def state_of(text: bytes) -> list[str]:
    """What is wrong in an answer of ``@@streams``."""
    state = json.loads(text)
    problems = [f"{id} is not closed" for id in state["open"]]
    problems += [f"{id} was closed more than once" for id in state["twice"]]
    if state["transactions"] != 1:  # that of the request itself
        problems.append(f"{state['transactions'] - 1} transactions are open")
    if state["connections"] > THREADS:
        problems.append(f"{state['connections']} connections were opened for {THREADS} threads")
    return problems


def every_block(place: Path, **options: Any) -> tuple[int, list[str]]:
    """Go away after each block, and before the first; in this process."""
    faults_site.opened.clear()
    faults_site.closed.clear()
    app = load(f"config:{write_ini(place / 'site.ini', f'file://{place}/Data.fs', **options)}")
    take(app, "/")
    problems = []
    for round in range(3):
        for blocks in range(BLOCKS + 1):
            take(app, f"/@@stream?id={round}-{blocks}&blocks={BLOCKS}", blocks=blocks)
            problems += state_of(take(app, "/@@streams").body)
    return 3 * (BLOCKS + 1), problems


def test_every_block(figures: Figures, place: Path, in_process: None) -> None:
    count, problems = every_block(place)
    figures("F8", "every block", f"{count} disconnects at a block; {len(problems)} bodies or connections lost")
    assert problems == []
    assert len(faults_site.opened) == count


def cut(port: int, request: bytes, at: int, chance: random.Random) -> int:
    """Send a request and read its answer, up to byte ``at`` of both together, then go away.

    Returns how many bytes there were.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        done = len(request[:at])
        with contextlib.suppress(ConnectionError):  # the server may refuse the rest of it
            client.sendall(request[:at])
            while done < at and (data := client.recv(min(65536, at - done))):
                done += len(data)
        if chance.random() < 0.5:  # reset, instead of saying goodbye
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return done


def at_any_byte(site: Site, count: int) -> tuple[Writers, list[str], int, dict[str, int]]:
    """Go away at random bytes of downloads, and of uploads."""
    chance = random.Random(8)
    uploads = Writers("/@@write")
    site.start()
    try:
        site.prepare()
        reached = 0
        for number in range(count):
            if number % 5 == 4:
                id = f"upload-{number}"
                uploads.ledger.sent(id)
                head = f"POST /@@write?id={id} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
                request = head.encode() + b"x" * 100_000
                cut(site.port, request, chance.randrange(len(request)), chance)
                uploads.ledger.failed(id)  # half of a request is no request
            else:
                target = f"/@@stream?id={number}&blocks=64"
                request = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
                at = chance.randrange(len(request), 64 * faults_site.PAGE)
                reached += cut(site.port, request, at, chance) == at
        problems = settled(site)
    finally:
        site.stop()
    return uploads, problems, reached, stored_in(site.uri)[0]


def settled(site: Site, seconds: float = 10) -> list[str]:
    """What is still wrong when the server has had the time to notice that the clients are gone."""
    end = time.monotonic() + seconds
    while (problems := state_of(get(site.port, "/@@streams").body)) and time.monotonic() < end:
        time.sleep(0.1)
    return problems


def measure(figures: Figures, name: str, site: Site) -> None:
    uploads, problems, reached, stored = at_any_byte(site, OFFSETS)
    problems += uploads.ledger.judge(stored)
    figures(
        "F8",
        name,
        f"{OFFSETS} disconnects at random bytes, {reached} of them in the answer and "
        f"{OFFSETS // 5} in an upload; {len(problems)} bodies, transactions or connections lost",
    )
    assert problems == []
    assert reached > OFFSETS * 0.7


SMALL_BUFFERS = {"outbuf_high_watermark": 16384, "outbuf_overflow": 1_000_000}
"""So that waitress does not take whole answers from the site before the client reads them."""


def test_waitress(figures: Figures, place: Path) -> None:
    measure(figures, "waitress, file", Site(place, f"file://{place}/Data.fs", server=SMALL_BUFFERS))


def test_gunicorn(figures: Figures, place: Path) -> None:
    measure(figures, "gunicorn, file", Workers(place, f"file://{place}/Data.fs", workers=1))


@pytest.mark.servers
def test_postgres(figures: Figures, place: Path, postgres: Postgres, new_name: Callable[[], str]) -> None:
    postgres.create(name := new_name())
    site = Site(place, postgres.uri(name), server=SMALL_BUFFERS)
    measure(figures, "waitress, PostgreSQL", site)

    def none_in_transaction() -> bool:
        state = f"datname = '{name}' AND state LIKE 'idle in transaction%'"
        return postgres.ask(f"SELECT count(*) FROM pg_stat_activity WHERE {state}") == "0"

    wait_until(none_in_transaction, 5, "PostgreSQL sees no transaction open")


def test_control(figures: Figures, place: Path, in_process: None) -> None:
    """What is to be closed is forgotten."""
    count, problems = every_block(place, bugs=["log_forgets"])
    figures("F8", "control: close forgotten", f"found: {len(problems)} problems at {count} disconnects")
    assert any("is not closed" in problem for problem in problems)
    assert any("transactions are open" in problem for problem in problems)
