"""What a view does by connections of its own to the database of ``sql``: nothing is stored twice (R2a)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from around_a_view import ask
from failing_twice import fails_twice
from pipeline.database import sql_databases
from servers.sql_places import Place, on_each_driver, on_sqlite, place, site

__all__ = ["place"]

OWN = "INSERT INTO t VALUES ('own')"


def by_the_engine(engine: Any) -> None:
    with engine.begin() as connection:
        connection.execute(text(OWN))


def by_a_statement(engine: Any) -> None:
    with engine.connect() as connection:
        connection.execute(text(OWN))
        connection.execute(text("COMMIT"))


def by_the_driver(engine: Any) -> None:
    with engine.connect() as connection:
        connection.execute(text(OWN))
        connection.connection.driver_connection.commit()


def by_a_raw_connection(engine: Any) -> None:
    with closing(engine.raw_connection()) as connection:
        connection.cursor().execute(OWN)
        connection.commit()


def detached(engine: Any) -> None:
    with engine.connect() as connection:
        connection.detach()
        connection.execute(text(OWN))
        connection.commit()


def by_a_raw_statement(engine: Any) -> None:
    with closing(engine.raw_connection()) as connection:
        cursor = connection.cursor()
        for statement in ("BEGIN", OWN, "COMMIT"):
            cursor.execute(statement)


LOST = DBAPIError("SELECT", {}, Exception("the connection is lost"), connection_invalidated=True)


@on_each_driver
@pytest.mark.parametrize(
    "work",
    [by_the_engine, by_a_statement, by_the_driver, by_a_raw_connection, by_a_raw_statement, detached],
    ids=lambda work: work.__name__,
)
def test_a_view_that_commits_by_its_engine_is_not_run_again__R2a(
    place: Place, work: Callable[[Any], None]
) -> None:
    view, attempts = fails_twice(lambda request: work(request.sql.get_bind()), LOST)
    answer = ask(site(place, view))
    assert (answer.status, attempts) == (500, [1])
    assert answer.headers["X-Outcome"] in ("committed", "unknown")
    assert place.look() == ["own", "was"]


def reads_by_the_engine(request: Any) -> None:
    with request.sql.get_bind().connect() as connection:
        assert connection.execute(text("SELECT v FROM t")).all() == [("was",)]
    request.sql.execute(text(OWN))


@on_each_driver
def test_a_view_that_only_reads_by_its_engine_is_run_again(place: Place) -> None:
    view, attempts = fails_twice(reads_by_the_engine, LOST)
    assert (ask(site(place, view)).status, attempts, place.look()) == (200, [1, 2, 3], ["own", "was"])


@on_sqlite
def test_the_end_of_an_outage_counts_as_nothing_of_the_view(place: Place) -> None:
    def work(request: Any) -> None:
        if request.attempt == 1:
            (database,) = sql_databases._databases.values()
            database.outage.begin(RuntimeError("of the test"))
            database.outage._next_try = 0.0
        request.sql.execute(text(OWN))

    view, attempts = fails_twice(work, LOST)
    assert (ask(site(place, view)).status, attempts, place.look()) == (200, [1, 2, 3], ["own", "was"])
