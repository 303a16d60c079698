"""F2: PostgreSQL is killed under load, and comes back. The site comes back by itself (R4, R5)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faults.conftest import Figures
from faults.judge import Writers, rows_in, stored_in
from faults.length import length
from faults.load import Answer
from faults.serving import SQL_ORDER, TABLES, Site
from servers.postgres import Postgres

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900)]

KILLS = length(short=3, full=20)
DOWN = length(short=2.0, full=5.0)
"""Seconds from the kill to the start."""


def is_clean(answer: Answer) -> bool:
    """Whether an answer is a success, a 503 with Retry-After, or says that it does not know (R4)."""
    if answer.status == 503:
        return "retry-after" in answer.headers
    return answer.status == 200 or answer.headers.get("x-outcome") == "unknown"


def test_killed(figures: Figures, place: Path, postgres: Postgres, new_name: Callable[[], str]) -> None:
    """RelStorage and ``sql`` at the same time, each with a site and a database of its own."""
    postgres.create(objects := new_name())
    postgres.create(tables := new_name())
    postgres.ask(TABLES, tables)
    sites = {
        "RelStorage": Site(place / "zodb", postgres.uri(objects)),
        "sql": Site(place / "sql", postgres.url(tables), order=SQL_ORDER),
    }
    writers = {name: Writers("/@@write") for name in sites}
    recoveries: dict[str, list[float]] = {name: [] for name in sites}
    for site in sites.values():
        site.start()
        site.prepare()
    pids = [site.pid for site in sites.values()]
    try:
        with (
            writers["RelStorage"].on(sites["RelStorage"].port, 4, pause=0.01) as first,
            writers["sql"].on(sites["sql"].port, 4, pause=0.01) as second,
        ):
            loads = {"RelStorage": first, "sql": second}
            for _ in range(KILLS):
                time.sleep(0.5)
                postgres.kill()
                time.sleep(DOWN)
                postgres.launch()
                while not postgres.is_up():
                    time.sleep(0.01)
                up = time.monotonic()
                for name, load in loads.items():
                    recoveries[name].append(load.wait_for_success(up) - up)
        assert [site.pid for site in sites.values() if site.runs()] == pids
    finally:
        for site in sites.values():
            site.stop()
    stored = {"RelStorage": stored_in(postgres.uri(objects))[0], "sql": rows_in(postgres, tables)}
    for name in sites:
        problems = writers[name].ledger.judge(stored[name])
        counts = writers[name].ledger.counts()
        unclean = [answer for answer in writers[name].answers if not is_clean(answer)]
        figures(
            "F2",
            name,
            f"{KILLS} kills, down for {DOWN:.0f} s each: {counts['acknowledged']:,} writes acknowledged, "
            f"{len(problems)} lost or wrong; {counts['failed']:,} answers 503, {counts['unknown']} said to "
            f"be unknown, {len(unclean)} unclean; the first success at most {max(recoveries[name]):.2f} s "
            f"after PostgreSQL was up",
        )
        assert problems == []
        assert unclean == []
        assert counts["acknowledged"] > KILLS
        assert max(recoveries[name]) < 2


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
