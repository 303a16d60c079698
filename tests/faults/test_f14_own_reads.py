"""F14: visitors of three processes. Each reads what it has written, from another process, and from a replica.

The processes use one ZEO server, or PostgreSQL with two replicas, one of which is two seconds behind.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from faults.conftest import Figures
from faults.length import length
from faults.load import Client
from faults.serving import ORDER, SQL_ORDER, TABLES, Site, three
from servers.fixtures import Skip
from servers.standby import replicated
from servers.zeo import ZEO

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900)]

VISITORS = 4
READS = length(short=400, full=10_000)
CONTROL = 400
TRANSACTIONS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'site'"


def stale(sites: list[Site], reads: int, tells: bool, view: str = "add") -> int:
    """Return how many reads were stale: without what the visitor had written.

    tells  whether the visitor sends back what it was told
    view   that writes and answers the number of writes
    """

    def visit(visitor: int) -> int:
        clients = [Client(site.port) for site in sites]
        wrong = 0
        for number in range(reads // VISITORS):
            write, read = clients[number % 3], clients[(number + 1 + visitor % 2) % 3]
            wrote = write.ask("POST", f"/@@{view}?id={tells}-{visitor}-{number}")
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


def test_replicas(
    figures: Figures, place: Path, servers_dir: Path, missing: Skip, need_packages: Callable[..., None]
) -> None:
    need_packages("psycopg2", "sqlalchemy", "zope.sqlalchemy")
    with ExitStack() as stack:
        started = replicated(servers_dir, missing, [TABLES], (0, 2_000))
        primary, replicas = stack.enter_context(started)
        urls = {"read_urls": " ".join(one.url("site") for one in replicas)}
        options = {"causal": {"keys": str(place / "keys")}, "sql": urls}
        order = SQL_ORDER.replace("retry", "causal retry")
        sites = stack.enter_context(three(place, primary.url("site"), order, **options))
        control = stale(sites, CONTROL, tells=False, view="count")
        figures("F14", "control: replicas", f"found: without the cookie {control} of {CONTROL} reads are stale")
        assert control
        found = stale(sites, READS, tells=True, view="count")
        shares = " and ".join(one.ask(TRANSACTIONS, "site") for one in replicas)
    said = f"{READS:,} reads after a write to another of 3 processes, {found} stale"
    figures("F14", "replicas of PostgreSQL", f"{said}; {shares} transactions on the replicas")
    assert found == 0
