"""F14: visitors of three processes on one ZEO server. Each reads what it has written, from another process."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from faults.conftest import Figures
from faults.length import length
from faults.load import Client
from faults.serving import ORDER, Site
from servers.zeo import ZEO

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900)]

VISITORS = 4
READS = length(short=400, full=10_000)
CONTROL = 400


@contextmanager
def three(place: Path, uri: str, order: str, **options: dict[str, str]) -> Iterator[list[Site]]:
    sites = []
    with ExitStack() as stack:
        for number in range(3):
            directory = place / f"instance{number}"
            directory.mkdir()
            site = Site(directory, uri, order=order, **options)
            site.start()
            stack.callback(site.stop)
            sites.append(site)
        sites[0].prepare()
        yield sites


def stale(sites: list[Site], reads: int, tells: bool) -> int:
    """Return how many reads were stale: without what the visitor had written.

    tells  whether the visitor sends back what it was told
    """

    def visit(visitor: int) -> int:
        clients = [Client(site.port) for site in sites]
        wrong = 0
        for number in range(reads // VISITORS):
            write, read = clients[number % 3], clients[(number + 1 + visitor % 2) % 3]
            wrote = write.ask("POST", f"/@@add?id={tells}-{visitor}-{number}")
            assert wrote.status == 200, wrote
            told = {"X-Written": wrote.headers["x-written"]} if tells else {}
            answer = read.ask("GET", "/", headers=told)
            assert answer.status == 200, answer
            wrong += int(answer.body) < int(wrote.body)
        for client in clients:
            client.close()
        return wrong

    with ThreadPoolExecutor(VISITORS) as pool:
        return sum(pool.map(visit, range(VISITORS)))


def test_the_cookie(figures: Figures, place: Path, zeo: ZEO) -> None:
    keys = {"keys": str(place / "keys")}
    with three(place, zeo.uri(), ORDER.replace("retry", "causal retry"), causal=keys) as sites:
        control = stale(sites, CONTROL, tells=False)
        figures("F14", "control: the cookie is not sent", f"found: {control} of {CONTROL} reads are stale")
        assert control
        found = stale(sites, READS, tells=True)
    figures("F14", "causal on ZEO", f"{READS:,} reads after a write to another of 3 processes, {found} stale")
    assert found == 0


def test_server_sync(figures: Figures, place: Path, zeo: ZEO) -> None:
    """The server may answer a question before it sends the news of a commit that it has acknowledged."""
    with three(place, zeo.uri(), ORDER, zodb={"server_sync": "true"}) as sites:
        found = stale(sites, READS, tells=False)
    figures("F14", "server_sync on ZEO", f"{READS:,} reads after a write to another of 3 processes, {found} stale")
    assert found == 0
