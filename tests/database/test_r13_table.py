"""Who touches a database, when, by what means: allowed, or raised and thrown away (R13).

The rows are the product of the axes, and a model derives from the axes what each row must show. ``tests/servers``
has the same rows on PostgreSQL.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.pool import Pool
from ZODB.FileStorage import FileStorage

from database.table import axes
from database.table.bugs import BUGS, Bug
from database.table.engines import QUICK
from database.table.kits import Kit
from database.table.run import Bench

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


@pytest.fixture
def bench_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Bench]]:
    """``bench_of(engine)`` runs rows on new databases, which do not wait for the disk."""
    monkeypatch.setattr(sys.modules[FileStorage.__module__], "fsync", lambda number: None)
    event.listen(Pool, "connect", do_not_sync)
    numbers = count()

    def make(engine: str) -> Kit:
        place = tmp_path / str(next(numbers))
        place.mkdir()
        return QUICK[engine](place)

    yield lambda engine: Bench(lambda: make(engine))
    event.remove(Pool, "connect", do_not_sync)


def do_not_sync(connection: Any, record: object) -> None:
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA journal_mode = MEMORY")


@pytest.mark.parametrize("kind", axes.WHEN)
def test_every_value_of_every_axis_has_rows(kind: str) -> None:
    rows = axes.rows_of(kind)
    assert len(rows) > 200
    assert {row.who for row in rows} == set(axes.WHO)
    assert {row.when for row in rows} == set(axes.WHEN[kind])
    assert {row.means for row in rows} == set(axes.MEANS[kind])
    assert {row.goes_on for row in rows} == set(axes.GOES_ON)


@needs_fork
@pytest.mark.parametrize("who", axes.WHO)
@pytest.mark.parametrize(
    "engine", [pytest.param(name, marks=pytest.mark.once if name == "SQLite" else ()) for name in QUICK]
)
def test_r13_each_row_is_allowed_or_raised_and_thrown_away(
    engine: str, who: str, bench_of: Callable[[str], Bench]
) -> None:
    with bench_of(engine) as bench:
        assert bench.red(row for row in axes.rows_of(bench.kit.kind) if row.who == who) == []


@needs_fork
@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_a_bug_put_back_turns_rows_red(
    bug: Bug, bench_of: Callable[[str], Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = bug.rows()
    bug.put_back(monkeypatch)
    with bench_of({"zodb": "ZODB in a file", "sql": "SQLite"}[bug.kind]) as bench:
        red = bench.red(rows)
    assert len(red) == len(rows) > 0
    assert [found for found in red if bug.sign not in found] == []
