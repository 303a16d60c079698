"""F4: the serving process is killed during commits. Nothing acknowledged is lost, every start serves (R1)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.conftest import Figures
from faults.judge import Writers, stored_in
from faults.length import length
from faults.serving import Site, Workers
from servers.postgres import Postgres

pytestmark = pytest.mark.timeout(1800)

KILLS = length(short=12, full=200)


def killed(site: Site, kills: int) -> tuple[Writers, dict[str, int], list[float]]:
    """Writers on a site that is killed again and again; what is stored then, and how long each start took."""
    chance = random.Random(4)
    starts = []
    site.start()
    site.prepare()
    try:
        writers = Writers("/@@write", "size=4000")
        with writers.on(site.port, 6) as load:
            load.wait_for_success(time.monotonic())
            for _ in range(kills):
                time.sleep(chance.uniform(0.03, 0.15))
                site.kill()
                started = time.monotonic()
                site.launch()
                try:
                    starts.append(load.wait_for_success(started) - started)
                except TimeoutError:
                    raise RuntimeError(f"it did not come back; it said:\n{site.said()[-3000:]}") from None
    finally:
        site.stop()
    return writers, stored_in(site.uri)[0], starts


def measure(figures: Figures, name: str, site: Site) -> None:
    writers, stored, starts = killed(site, KILLS)
    problems = writers.ledger.judge(stored)
    counts = writers.ledger.counts()
    figures(
        "F4",
        name,
        f"{KILLS} kills, {counts['acknowledged']:,} writes acknowledged, {len(problems)} lost or wrong; "
        f"{counts['unknown']:,} cut; {len(starts)} of {KILLS} starts served, the first write within "
        f"{max(starts):.1f} s",
    )
    assert problems == []
    assert counts["acknowledged"] > KILLS


def test_file(figures: Figures, place: Path) -> None:
    measure(figures, "file", Site(place, f"file://{place}/Data.fs"))


@pytest.mark.servers
def test_postgres(figures: Figures, place: Path, postgres: Postgres, new_name: Callable[[], str]) -> None:
    postgres.create(name := new_name())
    measure(figures, "PostgreSQL", Site(place, postgres.uri(name)))


def test_control(figures: Figures, place: Path) -> None:
    """A transaction that is committed after the answer is sent."""
    # gunicorn, since waitress keeps an answer so short until it is closed.
    site = Workers(place, f"file://{place}/Data.fs", workers=1, bugs=["transaction_late"])
    writers, stored, _ = killed(site, 6)
    problems = [p for p in writers.ledger.judge(stored) if "acknowledged and is not stored" in p]
    found = f"found: {len(problems)} acknowledged writes lost in 6 kills"
    figures("F4", "control: commit after sending", found)
    assert problems
