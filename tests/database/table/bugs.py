"""Bugs, put back in the place of their corrections. The rows that turn red prove that the table would find them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pytest import MonkeyPatch
from sqlalchemy.orm import Session
from transaction import Transaction
from ZODB.Connection import Connection

from database.table import axes as a
from database.table.axes import Row
from pipeline.database import sql_databases, sql_sessions, transactions, zodb_pools
from pipeline.database.connections import RequestConnection
from pipeline.database.sql_dialects import Dialect
from pipeline.database.sql_drivers import UNKNOWN, Driver
from pipeline.database.sql_sessions import Bound, RequestSession
from pipeline.database.transactions import Manager, RequestTransaction
from pipeline.interfaces import ReadOnlyTransaction


class Bug(NamedTuple):
    """A bug, and rows that find it."""

    name: str
    put_back: Callable[[MonkeyPatch], object]
    kind: str
    who: tuple[str, ...]
    when: tuple[str, ...]
    means: tuple[str, ...]
    sign: str
    """The words that tell of it in each of these rows."""
    goes_on: str = a.ANSWERS

    def __str__(self) -> str:
        return self.name

    def rows(self) -> list[Row]:
        """Return the rows that find the bug."""
        return [
            row
            for row in a.rows_of(self.kind)
            if row.who in self.who
            and row.when in self.when
            and row.means in self.means
            and row.goes_on == self.goes_on
        ]


def nothing(*arguments: Any, **named: Any) -> None:
    """Stand in the place of a correction."""


def keep_refused_changes(patch: MonkeyPatch) -> None:
    """Go on with a connection whose objects could not be registered after they had changed."""
    patch.setattr(RequestConnection, "_register", Connection._register)
    patch.setattr(RequestTransaction, "join", Transaction.join)
    patch.setattr(transactions, "refusal", lambda tm, what: ReadOnlyTransaction(what))


def take_changed_connections(patch: MonkeyPatch) -> None:
    """Take an idle connection without a look at what happened to it since the last request."""
    begin = zodb_pools.begin

    def begin_carelessly(request: Any, tm: Manager) -> None:
        tm.must_discard = False
        begin(request, tm)

    patch.setattr(zodb_pools, "begin", begin_carelessly)


def use_the_connection_of_the_parent(patch: MonkeyPatch) -> None:
    patch.setattr(Manager, "disown", nothing)
    patch.setattr(zodb_pools, "leave_to_parent", nothing)


def use_the_session_of_the_parent(patch: MonkeyPatch) -> None:
    patch.setattr(Bound, "leave_to_parent", nothing)
    patch.setattr(Manager, "disown", nothing)
    change_drivers(patch, cut_off=nothing)


def change_drivers(patch: MonkeyPatch, **functions: Any) -> None:
    dialect_of = sql_databases.dialect_of

    def changed(name: str, driver: str) -> tuple[Dialect, Driver]:
        dialect, found = dialect_of(name, driver)
        return dialect, found._replace(**functions)

    patch.setattr(sql_databases, "dialect_of", changed)


def close_sessions(patch: MonkeyPatch) -> None:
    """Let a view close the session, with all that was not committed."""
    for name in ("close", "reset", "invalidate"):
        patch.setattr(RequestSession, name, lambda session: Session.rollback(session))


def see_no_commit(patch: MonkeyPatch) -> None:
    """Use a driver that cannot be asked whether a transaction is open."""
    change_drivers(patch, state=lambda connection: UNKNOWN)


IN_PLACE = (a.MAPPING, a.LIST, a.TREE, a.REMOVE, a.ADD)
"""Means that change an object before the connection hears of it."""

BUGS = [
    Bug(
        "a refused change is seen",
        *(keep_refused_changes, "zodb", (a.VIEW, a.INNER), (a.ABORTED, a.COMMITTED), IN_PLACE, "SEEN BY ANOTHER"),
    ),
    Bug(
        "a refused change is seen after a failure that was swallowed",
        *(keep_refused_changes, "zodb", (a.VIEW,), a.FAILED, IN_PLACE, "SEEN BY ANOTHER", a.RAISES),
    ),
    Bug(
        "a refused change is seen after the answer",
        *(keep_refused_changes, "zodb", (a.ON_CLOSE, a.OUTER_OUT), (a.WRITTEN,), IN_PLACE, "SEEN BY ANOTHER"),
    ),
    Bug(
        "a change between requests is seen",
        *(take_changed_connections, "zodb", (a.BETWEEN, a.LATER), (a.READ,), IN_PLACE, "SEEN BY ANOTHER"),
    ),
    Bug(
        "a child uses the ZODB connection of its parent",
        *(use_the_connection_of_the_parent, "zodb", (a.FORK, a.PROCESS), (a.READ, a.WRITTEN)),
        *((a.LOOK, a.LOAD, a.GET), "has not raised"),
    ),
    Bug(
        "an object is loaded by a request that has ended",
        lambda patch: patch.setattr(RequestConnection, "_need_transaction", nothing),
        *("zodb", (a.BETWEEN, a.LEFTOVER), (a.READ,), (a.LOAD, a.GET), "has not raised"),
    ),
    Bug(
        "a transaction is begun between requests",
        lambda patch: patch.setattr(Manager, "_check_in_use", nothing),
        *("zodb", (a.BETWEEN, a.LEFTOVER, a.LATER), (a.READ,), (a.OWN,), "must be 'as it was'"),
    ),
    Bug(
        "a synchronizer is kept for later requests",
        lambda patch: patch.setattr(Manager, "_let_go", nothing),
        *("zodb", (a.VIEW, a.WAITED), (a.READ,), (a.REGISTER,), "CALLED BY ANOTHER"),
    ),
    Bug(
        "a view closes the ZODB connection",
        lambda patch: patch.setattr(RequestConnection, "close", Connection.close),
        *("zodb", (a.VIEW,), (a.READ,), (a.CLOSE,), "another visitor was answered 500"),
    ),
    Bug(
        "a child uses the session of its parent",
        *(use_the_session_of_the_parent, "sql", (a.FORK, a.PROCESS), (a.READ, a.WRITTEN)),
        *((a.SELECT, a.CORE, a.CURSOR), "has not raised"),
    ),
    Bug(
        "a view closes the session",
        *(close_sessions, "sql", (a.VIEW,), (a.CLOSED, a.RESET, a.INVALIDATED), (a.LOOK, a.SELECT), "'own' is"),
    ),
    Bug(
        "a statement is committed at once",
        lambda patch: patch.setattr(sql_sessions, "refuse_autocommit", nothing),
        *("sql", (a.VIEW,), (a.BEGUN,), (a.AUTOCOMMIT,), "has not raised"),
    ),
    Bug(
        "a commit by the view is not seen",
        *(see_no_commit, "sql", (a.VIEW,), (a.READ,), (a.COMMIT_STATEMENT,)),
        *("2 attempts were made", a.CONFLICTS),
    ),
    Bug(
        "the connection of the driver is handed out without a note",
        lambda patch: patch.setattr(sql_sessions.Bound, "hand_out_driver", nothing),
        *("sql", (a.VIEW,), (a.READ,), (a.CURSOR, a.DRIVER_COMMIT)),
        *("2 attempts were made", a.CONFLICTS),
    ),
]
