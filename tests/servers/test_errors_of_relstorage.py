"""Errors of PostgreSQL at each step of RelStorage: a fault of the database is a 503, or is tried again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from persistent.mapping import PersistentMapping

from around_a_view import ask, end
from pipeline import Pipeline, Request, Response
from pipeline.database import zodb_pools
from pipeline.database.outages import Outage
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import close_all, zodb
from servers.postgres import Postgres

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]

psycopg2: Any = pytest.importorskip("psycopg2")
pytest.importorskip("relstorage")

from psycopg2 import errorcodes  # noqa: E402
from relstorage.adapters.postgresql.drivers.psycopg2 import Psycopg2Driver  # noqa: E402

CLASSES = ("08", "0A", "25", "40", "53", "55", "57", "58")
"""Connection, not supported, state of the transaction, rolled back, resources, state of an object, an operator,
system: what these say is about the server, and not about a request."""
CODES = sorted(
    code
    for name, code in vars(errorcodes).items()
    if name.isupper() and not name.startswith("CLASS_") and code[:2] in CLASSES
)
NO_CODE = [
    psycopg2.OperationalError("server closed the connection unexpectedly"),
    psycopg2.DatabaseError("error with status PGRES_TUPLES_OK and no message from the libpq"),
    psycopg2.InterfaceError("connection already closed"),
    psycopg2.InternalError("unexpected response from server"),
]
EXAMPLES = ["0A000", "08006", "25006", "25P02", "25P03", "40001", "53300", "55006", "57P01", "58030", *NO_CODE]


class Faults:
    """What the server answers to the statements of RelStorage, instead of executing them."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.at = ""
        self.error: Any = None
        self.left = 0
        self.is_lost = False

    def plan(self, at: str, error: Any, times: int, is_lost: bool) -> None:
        self.at, self.error, self.left, self.is_lost = at, error, times, is_lost

    def look(self, connection: Any, statement: object) -> None:
        text = re.sub(r"_\d+", "", " ".join(str(statement).split()))  # without the numbers of what is prepared
        self.seen.append(text)
        if text != self.at or not self.left:
            return
        self.left -= 1
        error = self.error
        if connection is None:
            error = error if isinstance(error, Exception) else psycopg2.OperationalError(f"FATAL: {error}")
        elif isinstance(error, str):
            try:
                with psycopg2.extensions.cursor(connection) as cursor:
                    cursor.execute(f"DO $$ BEGIN RAISE EXCEPTION 'a fault' USING ERRCODE = '{error}'; END $$")
            except psycopg2.Error as raised:
                error = raised
        if self.is_lost and connection is not None:
            psycopg2.extensions.connection.close(connection)
        raise error


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    found = Faults()

    class Cursor(psycopg2.extensions.cursor):  # type: ignore[misc]
        def execute(self, query: Any, arguments: Any = None) -> Any:
            found.look(self.connection, query)
            return super().execute(query, arguments)

        def copy_expert(self, query: Any, *arguments: Any) -> Any:
            found.look(self.connection, query)
            return super().copy_expert(query, *arguments)

    make = Psycopg2Driver._create_connection

    def connections(self: Any, *arguments: Any) -> Any:
        class Connection(make(self, *arguments)):  # type: ignore[misc]
            def __init__(self, *arguments: Any, **options: Any) -> None:
                found.look(None, "CONNECT")
                super().__init__(*arguments, **options)
                self.cursor_factory = Cursor

            def commit(self) -> None:
                found.look(self, "COMMIT")
                super().commit()

        return Connection

    monkeypatch.setattr(Psycopg2Driver, "_create_connection", connections)
    return found


def view(request: Request, response: Response) -> Any:
    root = request.root
    if request.path == "/count":
        root["inner"]["count"] = root["inner"].get("count", 0) + 1
    elif request.path == "/make":
        root["inner"] = PersistentMapping()
    return [b"%d" % len(root["inner"])]


@pytest.fixture
def app(
    faults: Faults, postgres: Postgres, new_name: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Pipeline]:
    postgres.create(name := new_name())
    monkeypatch.setattr(Outage, "PAUSE", 0.0)
    uri = postgres.uri(name)
    yield Pipeline(retry(attempts=2, delay=0.0), zodb(uri=uri), errors(), transaction(), end(view=view))
    close_all()


def forget() -> None:
    """Have the objects of each connection loaded again."""
    for pool in zodb_pools._pools.values():
        for pooled in list(pool.idle):
            pooled.connection.cacheMinimize()
        if pool.db is not None:
            pool.db.storage._cache.clear(load_persistent=False)


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_fault_of_the_database_at_any_statement_is_no_error_of_the_site(
    app: Pipeline, faults: Faults, is_lost: bool
) -> None:
    """Also on a connection that survives, as when a primary was demoted behind it. Afterwards all is as before."""
    assert [ask(app, path).status for path in ("/make", "/count", "/count")] == [200] * 3
    forget()
    faults.seen.clear()
    assert ask(app, "/count").status == 200
    statements = list(dict.fromkeys(faults.seen))
    steps = (
        "poll_newest_tid",
        "load_current",
        "SET lock_timeout",
        "COPY",
        "lock_objects",
        "lock_and_choose",
        "COMMIT",
    )
    assert all(any(step in one for one in statements) for step in steps), statements
    wrong = []
    for statement in statements:
        for error in EXAMPLES:
            forget()
            faults.plan(statement, error, 1000, is_lost)
            answer = ask(app, "/count")
            if answer.status != 503 and answer.headers.get("X-Outcome") != "unknown":
                wrong.append((statement, error, answer.status))
            faults.left = 0
        assert ask(app, "/count").status == 200
    assert wrong == []


def test_every_code_is_known(app: Pipeline) -> None:
    assert ask(app, "/make").status == 200
    pool = next(pool for pool in zodb_pools._pools.values() if pool.db is not None)
    assert len(CODES) > 40
    assert [code for code in CODES if not issubclass(psycopg2.errors.lookup(code), pool.lost)] == []
