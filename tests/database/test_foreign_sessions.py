"""A session that the site has made itself, and zope.sqlalchemy commits: what an error at its COMMIT means (R4)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import sessionmaker
from zope.sqlalchemy import mark_changed, register

from around_a_view import end
from asking import ask
from pipeline import Pipeline
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import zodb

Fault = Callable[[Callable[[], None]], None]
"""Is called in place of the COMMIT of the driver, with that COMMIT."""


def none(commit: Callable[[], None]) -> None:
    commit()


def lost_after(commit: Callable[[], None]) -> None:
    commit()
    raise sqlite3.OperationalError("disk I/O error")


def time_limit_after(commit: Callable[[], None]) -> None:
    commit()
    raise RuntimeError("time limit")


def time_limit_before(commit: Callable[[], None]) -> None:
    raise RuntimeError("time limit")


def busy(commit: Callable[[], None]) -> None:
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorname = "SQLITE_BUSY"
    raise error


@pytest.mark.parametrize(
    ("fault", "value", "expected"),
    [
        pytest.param(none, "b", (200, None, ["a", "b"]), id="stored"),
        pytest.param(lost_after, "b", (500, "unknown", ["a", "b"]), id="lost after COMMIT"),
        pytest.param(time_limit_after, "b", (500, "unknown", ["a", "b"]), id="a limit of the site after COMMIT"),
        pytest.param(time_limit_before, "b", (500, "unknown", ["a"]), id="a limit of the site before COMMIT"),
        pytest.param(busy, "b", (500, None, ["a"]), id="refused at COMMIT"),
        pytest.param(none, "a", (500, None, ["a"]), id="refused by a constraint"),
    ],
)
@pytest.mark.parametrize("with_zodb", [False, True])
def test_an_error_at_commit_is_an_answer_only_if_it_is_known_as_one__R4(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: Fault,
    value: str,
    expected: tuple[int, str | None, list[str]],
    with_zodb: bool,
) -> None:
    """Whether a ZODB takes part in the same transaction, which the session votes after, or does not."""
    engine = create_engine(f"sqlite:///{tmp_path}/site.db")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE t (v TEXT PRIMARY KEY)"))
        connection.execute(text("INSERT INTO t VALUES ('a')"))
    made = sessionmaker(engine)

    def view(request: Any, response: Any) -> list[bytes]:
        if with_zodb:
            request.root["changed"] = value
        session = made()
        register(session, transaction_manager=request.tm)
        session.execute(text("INSERT INTO t VALUES (:v)"), {"v": value})
        mark_changed(session)
        return [b"stored"]

    site = Pipeline(retry(delay=0), zodb(uri="memory://"), errors(), transaction(), end(view=view))
    dialect: Any = engine.dialect
    commit = dialect.do_commit
    monkeypatch.setattr(dialect, "do_commit", lambda connection: fault(lambda: commit(connection)))
    answer = ask(site, "/", "POST")
    monkeypatch.undo()
    with engine.begin() as connection:
        stored = list(connection.scalars(text("SELECT v FROM t ORDER BY v")))
    engine.dispose()
    assert (answer.status, answer.headers.get("X-Outcome"), stored) == expected
