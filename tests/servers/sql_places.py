"""SQL databases of one test each, and what a view does with them: for the tests of ``sql`` on every driver.

What is stored is read by a connection of its own, without the element.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError

from around_a_view import View, end
from pipeline import Pipeline, Request
from pipeline.database import sql_databases as module
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.sql import sql
from pipeline.elements.transaction import transaction


class Place(NamedTuple):
    """A database of one test."""

    kind: str
    url: str
    server: Any
    name: str

    def look(self, query: str = "SELECT v FROM t ORDER BY v") -> list[Any]:
        """What is stored: the first column."""
        engine = create_engine(self.url)
        try:
            with engine.connect() as connection:
                return [row[0] for row in connection.execute(text(query))]
        finally:
            engine.dispose()

    def do(self, *statements: str) -> None:
        """Execute statements, and commit."""
        engine = create_engine(self.url)
        try:
            with engine.begin() as connection:
                for statement in statements:
                    connection.exec_driver_sql(statement)
        finally:
            engine.dispose()


@pytest.fixture
def place(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    kind, _, driver = request.param.partition("+")
    if kind == "sqlite":
        place = Place(kind, f"sqlite:///{tmp_path}/test.sqlite", None, "")
    else:
        server, name = request.getfixturevalue(kind), request.getfixturevalue("new_name")()
        server.create(name)
        url = make_url(server.url(name))
        if driver:
            request.getfixturevalue("need_packages")(driver)
            url = with_driver(url, driver, monkeypatch)
        place = Place(kind, url.render_as_string(hide_password=False), server, name)
    place.do("CREATE TABLE t (v varchar(50) PRIMARY KEY)", "INSERT INTO t VALUES ('was')")
    module.close_all()  # of other tests
    module._databases.clear()
    yield place
    used = list(module._databases.values())
    module.close_all()
    module._databases.clear()
    for one in used:
        assert one.engine.pool.checkedout() == 0, "no connection is missing from the pool"  # type: ignore[attr-defined]
    if kind == "postgres":  # a thousand files
        place.server.ask(f'DROP DATABASE "{place.name}"')


def with_driver(url: URL, driver: str, patch: pytest.MonkeyPatch) -> URL:
    """Return the URL of a database for another driver.

    PyMySQL and pg8000 read the certificates of all authorities for each connection, which would be most of the time
    of a test. No server has one.
    """
    patch.setattr(ssl.SSLContext, "load_default_certs", lambda *arguments: None)
    return url.set(drivername=f"{url.get_backend_name()}+{driver}")


SQLITE = pytest.param("sqlite", id="sqlite")
POSTGRES = pytest.param("postgres", id="postgres", marks=pytest.mark.servers)
MARIADB = pytest.param("mariadb", id="mariadb", marks=pytest.mark.servers)
EVERYWHERE = [SQLITE, POSTGRES, MARIADB]
OTHER_DRIVERS = [
    pytest.param("postgres+psycopg", id="postgres, psycopg", marks=pytest.mark.servers),
    pytest.param("postgres+pg8000", id="postgres, pg8000", marks=pytest.mark.servers),
    pytest.param("mariadb+pymysql", id="mariadb, pymysql", marks=pytest.mark.servers),
]
EVERY_DRIVER = [*EVERYWHERE, *OTHER_DRIVERS]
on_each = pytest.mark.parametrize("place", EVERYWHERE, indirect=True)
on_each_driver = pytest.mark.parametrize("place", EVERY_DRIVER, indirect=True)
on_postgres = pytest.mark.parametrize("place", [POSTGRES], indirect=True)
on_mariadb = pytest.mark.parametrize("place", [MARIADB], indirect=True)
on_sqlite = pytest.mark.parametrize("place", [SQLITE], indirect=True)


def site(place: Place, view: View, *, attempts: int = 5, **options: Any) -> Pipeline:
    """In the default order. A view may take the driver's connection, unless the options say otherwise."""
    options.setdefault("driver_connection", True)
    outer = (retry(attempts=attempts, delay=0), sql(url=place.url, **options), errors(), transaction())
    return Pipeline(*outer, end(view=view))


def do(*statements: str) -> Callable[[Request], None]:
    """Execute statements as the view has written them."""

    def work(request: Request) -> None:
        # not by request.sql.connection(), which counts as a change, whatever the statement is
        for statement in statements:
            request.sql.execute(text(statement.replace(":", r"\:")))

    return work


def raw(*statements: str) -> Callable[[Request], None]:
    """Execute statements by a cursor of the driver."""

    def work(request: Request) -> None:
        cursor = request.sql.connection().connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        cursor.close()

    return work


def fail(request: Request) -> None:
    """Meet what is worth another attempt."""
    raise DBAPIError("SELECT", {}, Exception("the connection is lost"), connection_invalidated=True)
