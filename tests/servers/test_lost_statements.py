"""A statement that ends its own connection is not tried until patience ends: the fourth loss in a row is a 500."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from around_a_view import ask
from pipeline import Request, Response
from servers.sql_places import EVERY_DRIVER, Place, place, site

__all__ = ["place"]

MARIADB = [one for one in EVERY_DRIVER if "mariadb" in str(one.id)]
POSTGRES = [one for one in EVERY_DRIVER if "postgres" in str(one.id)]


def asked(place: Place, work: Callable[[Any], object]) -> tuple[int, int]:
    """Return the status of the answer, and the number of attempts."""
    attempts: list[int] = []

    def view(request: Request, response: Response) -> list[bytes]:
        attempts.append(request.attempt)
        work(request.sql)
        return [b"done"]

    return ask(site(place, view, attempts=50)).status, len(attempts)


@pytest.mark.parametrize("place", MARIADB, indirect=True)
def test_a_packet_that_is_too_large(place: Place, caplog: Any) -> None:
    place.do("CREATE TABLE large (v longtext)")
    limit = int(place.look("SELECT @@max_allowed_packet")[0])
    value = {"v": "x" * (limit + 1_000_000)}
    status, attempts = asked(place, lambda session: session.execute(text("INSERT INTO large VALUES (:v)"), value))
    assert (status, attempts <= 4) == (500, True), attempts
    assert place.look("SELECT count(*) FROM large") == [0]
    assert "max_allowed_packet" in caplog.text


@pytest.mark.parametrize("place", POSTGRES, indirect=True)
def test_a_transaction_that_is_idle_for_too_long(place: Place, caplog: Any) -> None:
    def work(session: Any) -> None:
        session.execute(text("INSERT INTO t VALUES ('new')"))
        session.execute(text("SET LOCAL idle_in_transaction_session_timeout = 50"))
        time.sleep(0.3)
        session.execute(text("SELECT v FROM t"))

    assert asked(place, work) == (500, 4)
    assert place.look() == ["was"]
    assert "idle_in_transaction_session_timeout" in caplog.text


@pytest.mark.parametrize("place", POSTGRES, indirect=True)
@pytest.mark.parametrize("losses", [1, 2, 3])
def test_losses_by_chance_are_repaired(place: Place, losses: int) -> None:
    """A server that ends its connections again and again may meet the same statement of one request."""
    lost: list[int] = []

    def work(session: Any) -> None:
        session.execute(text("INSERT INTO t VALUES ('new')"))
        if len(lost) < losses:
            lost.append(session.scalar(text("SELECT pg_backend_pid()")))
            place.server.ask(f"SELECT pg_terminate_backend({lost[-1]})", place.name)
            time.sleep(0.2)
        session.execute(text("SELECT v FROM t"))

    assert asked(place, work) == (200, losses + 1)
    assert sorted(place.look()) == ["new", "was"]
