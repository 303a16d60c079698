"""F1: eight writers on one hot object. No increment is lost, and next to none is refused (R1, R2)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from faults.conftest import Figures
from faults.judge import Writers, stored_in
from faults.length import length
from faults.load import percentile
from faults.serving import Site, Workers
from servers.mariadb import MariaDB
from servers.postgres import Postgres
from servers.zeo import ZEO

pytestmark = pytest.mark.timeout(300)

WRITERS = 8
SECONDS = length(short=3, full=60)


@contextmanager
def running(site: Site) -> Iterator[Site]:
    site.start()
    try:
        yield site
    finally:
        site.stop()


def hot(site: Site, seconds: float) -> tuple[Writers, dict[str, int], int]:
    """Eight writers on the counter of a site, for so long; then what its database holds."""
    with running(site):
        site.prepare()
        writers = Writers("/@@add")
        with writers.on(site.port, WRITERS):
            time.sleep(seconds)
    stored, value = stored_in(site.uri)
    return writers, stored, value


def problems_of(writers: Writers, stored: dict[str, int], value: int) -> list[str]:
    """What F1 does not allow."""
    problems = writers.ledger.judge(stored)
    if value != sum(stored.values()):
        problems.append(f"the counter is {value} after {sum(stored.values())} increments")
    refused = [answer for answer in writers.answers if answer.status != 200]
    if len(refused) > max(1, 0.001 * len(writers.answers)):
        problems.append(f"{len(refused)} of {len(writers.answers)} answers are not a success")
    for answer in refused:
        if answer.status != 503 or "retry-after" not in answer.headers:
            problems.append(f"{answer.status} without Retry-After: {answer.body!r:.200}")
    return problems


def measure(figures: Figures, name: str, site: Site) -> None:
    writers, stored, value = hot(site, SECONDS)
    refused = sum(answer.status != 200 for answer in writers.answers)
    times = [answer.seconds for answer in writers.answers]
    figures(
        "F1",
        name,
        f"{value:,} increments by {WRITERS} writers in {SECONDS} s ({value / SECONDS:,.0f} per second), "
        f"{len(problems_of(writers, stored, value))} lost or wrong, {refused} answers 503 "
        f"({refused / len(times):.3%}); half within {percentile(times, 0.5) * 1000:.0f} ms, "
        f"99 % within {percentile(times, 0.99) * 1000:.0f} ms",
    )
    assert problems_of(writers, stored, value) == []
    assert value > SECONDS


def test_file(figures: Figures, place: Path) -> None:
    measure(figures, "file", Site(place, f"file://{place}/Data.fs"))


@pytest.mark.servers
def test_zeo(figures: Figures, place: Path, zeo: ZEO) -> None:
    measure(figures, "ZEO", Workers(place, zeo.uri()))


@pytest.mark.servers
def test_postgres(figures: Figures, place: Path, postgres: Postgres, new_name: Callable[[], str]) -> None:
    postgres.create(name := new_name())
    measure(figures, "PostgreSQL", Workers(place, postgres.uri(name)))


@pytest.mark.servers
def test_mariadb(figures: Figures, place: Path, mariadb: MariaDB, new_name: Callable[[], str]) -> None:
    mariadb.create(name := new_name())
    measure(figures, "MariaDB", Workers(place, mariadb.uri(name)))


@pytest.mark.parametrize(
    ("name", "options", "finding"),
    [
        ("without retry", {"retry": {"attempts": "1"}}, "answers are not a success"),
        ("commit errors swallowed", {"bugs": ["transaction_swallows"]}, "acknowledged and is not stored"),
    ],
)
def test_control(figures: Figures, place: Path, name: str, options: Any, finding: str) -> None:
    writers, stored, value = hot(Site(place, f"file://{place}/Data.fs", **options), 3)
    problems = problems_of(writers, stored, value)
    figures("F1", f"control: {name}", f"found: {len(problems)} problems, such as: {problems[0]}")
    assert [problem for problem in problems if finding in problem]
