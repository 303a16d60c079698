"""The drivers of SQL databases: how each tells the state of its transaction, and how a connection is cut off.

Everything here is read from the connection of the driver. Nothing asks the database.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from pipeline.database import forks

IDLE, OPEN, FAILED, UNKNOWN = "idle", "open", "failed", "unknown"
"""The states of a transaction. It is unknown if the connection is closed."""

CONNECTING = 3
"""Seconds that a server may take to accept a connection."""
IN_TRANSACTION, AUTOCOMMIT = 1, 2
"""Flags of the status that a MySQL server sends with each answer."""


class Driver(NamedTuple):
    """How the connections of one driver are asked."""

    state: Callable[[Any], str]
    """Returns the state of the transaction of a connection."""
    is_autocommit: Callable[[Any], bool]
    """Returns whether a connection commits each statement by itself."""
    begin_again: Callable[[Any], object]
    """Has the next statement begin a transaction, after a statement has ended one."""
    cut_off: Callable[[Any], object]
    """Makes every use of a connection fail, without a word to the database: the parent process uses it."""
    fileno: Callable[[Any], int] | None = None
    """Returns the number of the socket of a connection."""
    knows_hosts: bool = False
    """True if the driver takes several hosts, and finds one that answers."""
    sure: tuple[tuple[str, Any], ...] = ()
    """Arguments of connecting, with values that are safe everywhere; each is a number in a URL."""
    answers: tuple[str, Callable[[Any], object]] | None = None
    """Argument of connecting that limits the wait for each answer, where none limits that for the first ones alone,
    and the function that takes the limit off a connection that is open."""
    begins: bool = False
    """True if each query begins a transaction, also one that reads no table, unless ``autocommit`` is set."""


def _state_by_property(connection: Any) -> str:
    return OPEN if connection.in_transaction else IDLE


def _autocommit_of_mysqlconnector(connection: Any) -> bool:
    status = getattr(connection, "_server_status", None)  # the property autocommit would ask the server
    return bool(connection._autocommit if status is None else status & AUTOCOMMIT)


def _roll_back(connection: Any) -> None:
    connection.rollback()  # psycopg2 would not begin a transaction otherwise


def _cut_off_socket(number: int) -> None:
    """Let a file descriptor of this process lead nowhere. That of the parent process stays as it is."""
    ours, other = socket.socketpair()
    other.close()
    os.dup2(ours.fileno(), number, inheritable=False)
    ours.close()


def _cut_off_mysqlconnector(connection: Any) -> None:
    library = getattr(connection, "_cmysql", None)  # its sockets cannot be reached
    if library is not None:
        forks.keep(library)
        connection._cmysql = None
    else:
        _cut_off_socket(connection._socket.sock.fileno())


def _cut_off_sqlite(connection: Any) -> None:
    """Refuse every statement. To close the connection would roll back what the parent is writing."""
    connection.set_authorizer(lambda *action: sqlite3.SQLITE_DENY)
    connection.set_progress_handler(lambda: 1, 1)  # stops queries that have begun


PYSQLITE = Driver(
    _state_by_property,
    lambda connection: getattr(connection, "autocommit", None) is True,
    lambda connection: connection.execute("BEGIN"),
    _cut_off_sqlite,
)
LIBPQ = (
    ("connect_timeout", CONNECTING),
    ("tcp_user_timeout", 10_000),
    ("keepalives_idle", 10),
    ("keepalives_interval", 3),
    ("keepalives_count", 3),
)
"""Options of libpq by which a machine that is gone is noticed: in 3 seconds of connecting, and in 20 of waiting for
an answer. By default these are minutes and hours."""
OF_LIBPQ = {0: IDLE, 1: OPEN, 2: OPEN, 3: FAILED}
"""The states by the numbers of libpq."""
PSYCOPG = Driver(
    lambda connection: OF_LIBPQ.get(int(connection.info.transaction_status), UNKNOWN),
    lambda connection: bool(connection.autocommit),
    _roll_back,
    lambda connection: _cut_off_socket(connection.fileno()),
    lambda connection: int(connection.fileno()),
    knows_hosts=True,
    sure=LIBPQ,
    begins=True,
)
# Behind PgBouncer a name of a prepared statement may mean one of another client: an INSERT ran a SELECT.
PSYCOPG_3 = PSYCOPG._replace(sure=(*LIBPQ, ("prepare_threshold", None)))
PG8000 = Driver(
    lambda connection: {b"I": IDLE, b"T": OPEN, b"E": FAILED}.get(connection._transaction_status, UNKNOWN),
    lambda connection: bool(connection.autocommit),
    _roll_back,
    lambda connection: _cut_off_socket(connection._usock.fileno()),
    lambda connection: int(connection._usock.fileno()),
    answers=("timeout", lambda connection: connection._usock.settimeout(None)),
    begins=True,
)
PYMYSQL = Driver(
    lambda connection: OPEN if connection.server_status & IN_TRANSACTION else IDLE,
    lambda connection: bool(connection.server_status & AUTOCOMMIT),
    _roll_back,
    lambda connection: _cut_off_socket(connection._sock.fileno()),
    lambda connection: int(connection._sock.fileno()),
    sure=(("connect_timeout", CONNECTING),),
    answers=("read_timeout", lambda connection: setattr(connection, "_read_timeout", None)),
)
MYSQLCONNECTOR = Driver(
    *(_state_by_property, _autocommit_of_mysqlconnector, _roll_back, _cut_off_mysqlconnector),
    sure=(("connection_timeout", CONNECTING),),
)


def leave_transactions_to_us(connection: Any, record: object) -> None:
    """Turn off the transactions of SQLite's driver. They begin with the first write, after the reads before it."""
    connection.isolation_level = None


def begin_in_sqlite(connection: Any) -> None:
    """Begin a transaction, on the driver's connection: by SQLAlchemy it takes ten times as long."""
    connection.dbapi_connection.execute("BEGIN")


def execute(connection: Any, *statements: str) -> list[Any]:
    """Execute statements on a connection of the driver. Return the rows of the last one."""
    cursor = connection.cursor()
    try:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []
    finally:
        cursor.close()


def ask(driver: Driver, connection: Any, query: str) -> Any:
    """Return the first value that a query finds, or None, on a connection of the driver without a transaction.

    None is begun for it, which saves two round trips. The query reads no table.
    """
    if driver.begins:
        connection.autocommit = True
    try:
        rows = execute(connection, query)
    finally:
        if driver.begins:
            connection.autocommit = False
    return rows[0][0] if rows else None


def position_after(driver: Driver, connection: Any, query: str) -> int:
    """Return the position after a commit. The connection is the driver's, or None if it is lost."""
    try:
        return int(ask(driver, connection, query))
    except Exception:  # no replica has so much, and no other commit has the same position
        return 2**126 + time.time_ns()


def hang_up(driver: Driver, connection: Any) -> None:
    """Cut a connection of the driver. A thread that waits for its answer gets an error at once."""
    if driver.fileno is None:
        return
    with suppress(Exception), socket.socket(fileno=os.dup(driver.fileno(connection))) as ours:
        ours.shutdown(socket.SHUT_RDWR)  # it raises if the connection is None, or closed
