"""F2: PostgreSQL, MariaDB and ZEO are killed under load, and come back. The site comes back by itself (R4, R5)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from faults.conftest import Figures
from faults.judge import Writers, rows_in, stored_in
from faults.length import length
from faults.load import Answer, Load
from faults.serving import SQL_ORDER, TABLES, Site
from servers.mariadb import MariaDB
from servers.postgres import Postgres
from servers.zeo import ZEO

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900)]

KILLS = length(short=3, full=20)
DOWN = length(short=2.0, full=5.0)
"""Seconds from the kill to the start."""
LONGEST = {"postgres": 2.0, "mariadb": 2.0, "zeo": 12.0}
"""Seconds from when the server is up to the first success. A ZEO client tries again every 1 to 10 seconds."""

Stored = Callable[[], dict[str, int]]


def is_clean(answer: Answer) -> bool:
    """Whether an answer is a success, a 503 with Retry-After, or says that it does not know (R4)."""
    if answer.status == 503:
        return "retry-after" in answer.headers
    return answer.status == 200 or answer.headers.get("x-outcome") == "unknown"


Database = Postgres | MariaDB | ZEO


@contextmanager
def killed(server: Database, loads: Sequence[Load]) -> Iterator[list[float]]:
    """Kill the server again and again under these loads; the seconds until each load succeeds after it is up."""
    recoveries: list[float] = []
    for _ in range(KILLS):
        time.sleep(0.5)
        server.kill()
        time.sleep(DOWN)
        server.launch()
        while not server.is_up():
            time.sleep(0.01)
        up = time.monotonic()
        recoveries += [load.wait_for_success(up) - up for load in loads]
    yield recoveries


def sites_on(server: Database, place: Path, new_name: Callable[[], str]) -> dict[str, tuple[Site, Stored]]:
    """A site of objects and one of tables, as far as the server has both, each with what it has stored."""
    if isinstance(server, ZEO):
        uri = server.uri()
        return {"ZEO": (Site(place / "zodb", uri), lambda: stored_in(uri)[0])}
    name = type(server).__name__
    server.create(objects := new_name())
    server.create(tables := new_name())
    server.ask(f"USE `{tables}`; {TABLES}") if isinstance(server, MariaDB) else server.ask(TABLES, tables)
    uri, url = server.uri(objects), server.url(tables)
    return {
        f"RelStorage on {name}": (Site(place / "zodb", uri), lambda: stored_in(uri)[0]),
        f"sql on {name}": (Site(place / "sql", url, order=SQL_ORDER), lambda: rows_in(server, tables)),
    }


@pytest.mark.parametrize("kind", ["postgres", "mariadb", "zeo"])
def test_killed(
    kind: str, figures: Figures, place: Path, new_name: Callable[[], str], request: pytest.FixtureRequest
) -> None:
    """RelStorage and ``sql`` at the same time, each with a site and a database of its own; ZEO alone."""
    server: Database = request.getfixturevalue(kind)
    sites = sites_on(server, place, new_name)
    writers = {name: Writers("/@@write") for name in sites}
    try:
        for site, _ in sites.values():
            site.start()
            site.prepare()
        pids = [site.pid for site, _ in sites.values()]
        with ExitStack() as stack:
            loads = [
                stack.enter_context(writers[name].on(site.port, 4, pause=0.01)) for name, (site, _) in sites.items()
            ]
            recoveries = stack.enter_context(killed(server, loads))
        assert [site.pid for site, _ in sites.values() if site.runs()] == pids
    finally:
        for site, _ in sites.values():
            site.stop()
    for name, (site, stored) in sites.items():
        problems = writers[name].ledger.judge(stored())
        counts = writers[name].ledger.counts()
        unclean = [answer for answer in writers[name].answers if not is_clean(answer)]
        figures(
            "F2",
            name,
            f"{KILLS} kills, down for {DOWN:.0f} s each: {counts['acknowledged']:,} writes acknowledged, "
            f"{len(problems)} lost or wrong; {counts['failed']:,} answers 503, {counts['unknown']} said to "
            f"be unknown, {len(unclean)} unclean; the first success at most {max(recoveries):.2f} s "
            f"after the server was up",
        )
        assert problems == []
        assert unclean == [], site.said()[-8000:]
        assert counts["acknowledged"] > KILLS
    assert max(recoveries) < LONGEST[kind]


def test_control(figures: Figures, place: Path, postgres: Postgres, new_name: Callable[[], str]) -> None:
    """Commit errors are swallowed."""
    postgres.create(name := new_name())
    options: dict[str, Any] = {"bugs": ["transaction_swallows"]}
    site = Site(place, postgres.uri(name), **options)
    writers = Writers("/@@write")
    site.start()
    site.prepare()
    try:
        with writers.on(site.port, 8):
            time.sleep(0.5)
            postgres.kill()
            time.sleep(0.5)
            postgres.start()
    finally:
        site.stop()
    problems = [p for p in writers.ledger.judge(stored_in(site.uri)[0]) if "acknowledged and is not" in p]
    figures("F2", "control: commit errors swallowed", f"found: {len(problems)} acknowledged writes lost")
    assert problems
