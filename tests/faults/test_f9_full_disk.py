"""F9: the disk fills, under the database, the spool of large bodies and the log in turn.

What cannot be done is a clean 5xx, nothing acknowledged is lost, and all is well again as soon as there
is room, without a restart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from faults.conftest import Figures
from faults.judge import Writers, stored_in
from faults.length import length
from faults.load import get, post
from faults.serving import Site
from servers.base import wait_until
from servers.disk import Disk, mounted

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]

SIZE = 64
"""MiB of the disk."""
SECONDS = length(short=2.0, full=10.0)
ROUNDS = length(short=1, full=5)


@pytest.fixture
def disk(place: Path, missing: Callable[[str, str], NoReturn]) -> Iterator[Disk]:
    with mounted(place / "disk", SIZE, missing) as disk:
        yield disk


def on_full_database(site: Site, disk: Disk) -> tuple[Writers, int, list[float], int]:
    """Writers on a database whose disk fills: what they met, reads meanwhile, and how soon all was well."""
    writers = Writers("/@@write", "size=20000")
    recoveries, reads, read_failures = [], 0, 0
    site.start()
    try:
        site.prepare()
        with writers.on(site.port, 4) as load:
            for _ in range(ROUNDS):
                load.wait_for_success(time.monotonic())
                disk.fill(leave=1_000_000)
                wait_until(lambda: load.answers[-1].status >= 500, 60, "the disk is full")
                end = time.monotonic() + SECONDS / ROUNDS
                while time.monotonic() < end:
                    reads += 1
                    read_failures += get(site.port, "/").status != 200
                    time.sleep(0.05)
                disk.empty()
                emptied = time.monotonic()
                recoveries.append(load.wait_for_success(emptied) - emptied)
    finally:
        site.stop()
    return writers, reads, recoveries, read_failures


def test_database(figures: Figures, place: Path, disk: Disk) -> None:
    uri = f"file://{disk.path}/Data.fs"
    writers, reads, recoveries, read_failures = on_full_database(Site(place, uri), disk)
    counts = writers.ledger.counts()
    problems = writers.ledger.judge(stored_in(uri)[0])
    figures(
        "F9",
        "database",
        f"full {ROUNDS} times: {counts['acknowledged']:,} writes acknowledged, {len(problems)} lost or "
        f"wrong; {counts['failed']:,} clean 5xx, {counts['unknown']} unclean; {reads} reads meanwhile, "
        f"{read_failures} failed; the first write at most {max(recoveries) * 1000:.0f} ms after there was "
        f"room",
    )
    assert problems == []
    assert counts["failed"] > 0
    assert counts["unknown"] == 0
    assert read_failures == 0
    assert max(recoveries) < 5


def test_spool(figures: Figures, place: Path, disk: Disk) -> None:
    """A large body is kept on disk for a retry; where it cannot be, that is an answer."""
    uri = f"file://{place}/Data.fs"
    # The server would keep large bodies on the same disk; it is to have them in memory.
    site = Site(place, uri, server={"inbuf_overflow": 100_000_000}, temporary=disk.path)
    large = b"x" * 4_000_000
    writers = Writers("/@@write")
    site.start()
    try:
        site.prepare()

        def send(id: str, body: bytes, how: str = "") -> int:
            writers.ledger.sent(id)
            answer = post(site.port, f"/@@write?id={id}{how}", body)
            writers.enter(id, answer)
            return answer.status

        room = disk.free()
        assert send("before", large) == 200

        def is_free() -> bool:
            get(site.port, "/@@collect")  # the thread that has answered may not have let go of the request yet
            return disk.free() == room

        wait_until(is_free, 5, "what was spooled is gone")
        disk.fill()
        while_full = [send(f"full-{number}", large) for number in range(10)]
        raw = [send(f"raw-{number}", large, "&raw") for number in range(10)]
        small = [send(f"small-{number}", b"x") for number in range(10)]
        disk.empty()
        after = [send(f"after-{number}", large) for number in range(3)]
    finally:
        site.stop()
    problems = writers.ledger.judge(stored_in(uri)[0])
    figures(
        "F9",
        "spool",
        f"without room for bodies of 4 MB: {sum(s >= 500 for s in while_full)} of {len(while_full)} that "
        f"WebOb keeps on disk a clean 5xx, {sum(s == 200 for s in raw)} of {len(raw)} that are read as they "
        f"come stored; {sum(s == 200 for s in small)} of {len(small)} small ones stored; with room again "
        f"{sum(s == 200 for s in after)} of {len(after)} stored; "
        f"{len(problems)} lost or wrong",
    )
    assert problems == []
    assert all(500 <= status <= 599 for status in while_full)
    assert set(raw) == {200}
    assert set(small) == {200}
    assert set(after) == {200}


def test_log(figures: Figures, place: Path, disk: Disk) -> None:
    """Requests are answered also where they cannot be logged."""
    uri = f"file://{place}/Data.fs"
    access = disk.path / "access.log"
    site = Site(place, uri, access=str(access))
    writers = Writers("/@@write")
    site.start()
    try:
        site.prepare()
        with writers.on(site.port, 2) as load:
            load.wait_for_success(time.monotonic())
            disk.fill()
            filled = time.monotonic()
            time.sleep(SECONDS)
            emptied = time.monotonic()
            disk.empty()
            lines = access.read_text().count("\n")
            wait_until(lambda: access.read_text().count("\n") > lines + 3, 10, "requests are logged again")
    finally:
        site.stop()
    problems = writers.ledger.judge(stored_in(uri)[0])
    meanwhile = [answer for answer in writers.answers if filled < answer.at < emptied]
    figures(
        "F9",
        "log",
        f"{len(meanwhile):,} requests while the log was full, {sum(a.status != 200 for a in meanwhile)} "
        f"failed; "
        f"{len(problems)} lost or wrong; logged again as soon as there was room",
    )
    assert problems == []
    assert meanwhile
    assert {answer.status for answer in writers.answers} == {200}


def test_control(figures: Figures, place: Path, disk: Disk) -> None:
    """Commit errors are swallowed."""
    uri = f"file://{disk.path}/Data.fs"
    site = Site(place, uri, bugs=["transaction_swallows"])
    writers = Writers("/@@write", "size=20000")
    site.start()
    try:
        site.prepare()
        with writers.on(site.port, 4) as load:
            load.wait_for_success(time.monotonic())
            disk.fill(leave=200_000)
            time.sleep(1)
            disk.empty()
    finally:
        site.stop()
    problems = writers.ledger.judge(stored_in(uri)[0])
    figures("F9", "control: commit errors swallowed", f"found: {len(problems)} acknowledged writes lost")
    assert any("acknowledged and is not stored" in problem for problem in problems)
