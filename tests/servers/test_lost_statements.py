"""A statement that ends its own connection is not tried until patience ends: the fourth loss in a row is a 500."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import text

from around_a_view import ask, end
from pipeline import Pipeline, Request, Response
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import close_all, zodb
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


# A ZODB through RelStorage, whose statements are not those of the site


@pytest.fixture
def ask_relstorage(request: Any, new_name: Callable[[], str]) -> Iterator[Callable[..., tuple[int, int]]]:
    """Ask a view that works with the root. Return the status of the answer, and the number of attempts."""
    pytest.importorskip("relstorage")
    kind, options = request.param
    server = request.getfixturevalue(kind)
    server.create(name := new_name())

    def ask_with(work: Callable[[Request], object]) -> tuple[int, int]:
        attempts: list[int] = []

        def view(request: Request, response: Response) -> None:
            attempts.append(request.attempt)
            work(request)

        database = zodb(uri=server.uri(name, options=options))
        app = Pipeline(retry(attempts=50, delay=0), database, errors(), transaction(), end(view=view))
        return ask(app).status, len(attempts)

    yield ask_with
    close_all()


IDLE_LIMIT = ("postgres", "options=-c%20idle_in_transaction_session_timeout%3D300")


@pytest.mark.servers
@pytest.mark.parametrize("ask_relstorage", [IDLE_LIMIT], ids=["postgres"], indirect=True)
def test_a_transaction_of_relstorage_that_is_idle_for_too_long(ask_relstorage: Any, caplog: Any) -> None:
    def read(request: Request) -> None:
        request.zodb.db().storage._cache.clear(load_persistent=False)
        request.zodb.cacheMinimize()
        len(request.zodb.root())

    def idle(request: Request) -> None:
        read(request)
        time.sleep(0.8)
        read(request)

    assert ask_relstorage(read) == (200, 1)
    assert ask_relstorage(idle) == (500, 4)
    assert "idle_in_transaction_session_timeout" in caplog.text
    assert ask_relstorage(read) == (200, 1)


@pytest.mark.servers
@pytest.mark.filterwarnings("ignore::UserWarning")  # of ZODB: the object is large
@pytest.mark.parametrize("ask_relstorage", [("mariadb", "")], ids=["mariadb"], indirect=True)
def test_an_object_of_relstorage_that_is_too_large(ask_relstorage: Any, caplog: Any) -> None:
    def write(request: Request) -> None:
        request.root["large"] = "x" * 20_000_000

    status, attempts = ask_relstorage(write)
    assert (status, attempts <= 4) == (500, True), attempts
    assert "max_allowed_packet" in caplog.text
    assert ask_relstorage(lambda request: len(request.root)) == (200, 1)
