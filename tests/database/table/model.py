"""The model: what R13 says of a row, derived from its axes."""

from __future__ import annotations

from typing import NamedTuple

from database.table import axes as a
from database.table.axes import Row

WRITABLE = "in a transaction that is going to be committed"
READABLE = "in a transaction that only reads"
NONE = "in no transaction"
BROKEN = "in a transaction that has failed"
AWAY = "the request does not have the connection any more"
CHILD = "another process has opened the connection"

HELD = (WRITABLE, READABLE, NONE, BROKEN)


class Expected(NamedTuple):
    """The expectation of one row."""

    allowed: bool | None
    """False if it raises, and what it has touched is thrown away. None if it may raise or not, since it reaches
    no database."""
    stored: str = ""
    """When what it writes is stored: "if acknowledged", "at once", or "" for never."""
    beyond: bool = False
    """True if the view commits it itself, after the pipeline has failed to. Others must not store it."""
    late: bool = False
    """True if it reaches no code of the database before the end of the transaction."""


REFUSED = Expected(False)
ALLOWED = Expected(True)
REFUSED_LATE = Expected(False, late=True)
HARMLESS = Expected(None)
BEYOND = Expected(None, beyond=True)
STORED = Expected(True, "if acknowledged")
STORED_AT_ONCE = Expected(True, "at once")


def access_of(row: Row) -> str:
    """Return the access that the one who acts has to the database at that moment."""
    who, when = row.who, row.when
    if who in a.CHILDREN:
        return CHILD
    if who in a.STRANGERS:
        return AWAY
    if who == a.HOLDING:  # its connection, and of an SQL database neither its session nor its manager
        return WRITABLE if row.kind == "zodb" else AWAY
    if who in a.AFTERWARDS:
        return NONE if is_thrown_away(row) else READABLE
    if when in (a.ABORTED, a.COMMITTED):
        return NONE
    if when in a.FAILED:
        return BROKEN
    return WRITABLE


def is_thrown_away(row: Row) -> bool:
    """Return whether the failure of the transaction has ended the use of the connection."""
    return row.when in a.FAILED and row.who in (a.OUTER_OUT, a.ON_CLOSE)


def expected(row: Row) -> Expected:
    """Return what R13 says of a row."""
    return (of_objects if row.kind == "zodb" else of_tables)(row)


OBJECT_READS = (a.LOAD, a.GET)
OBJECT_WRITES = (a.SET, a.DELETE_ATTRIBUTE, a.MAPPING, a.LIST, a.TREE, a.REMOVE, a.ADD)


def of_objects(row: Row) -> Expected:
    """Return the expectation for a ZODB. Objects that are loaded can be read in the process that has loaded them,
    whatever became of their connection: it is not asked."""
    access, means = access_of(row), row.means
    if access == CHILD:
        return REFUSED
    if means == a.LOOK and row.when != a.UNTOUCHED:
        return ALLOWED
    if means in (a.LOOK, *OBJECT_READS):
        return ALLOWED if access in (WRITABLE, READABLE, BROKEN) else REFUSED
    if means in OBJECT_WRITES:
        return STORED if access == WRITABLE else REFUSED
    return of_the_transaction(row, access)


def of_the_transaction(row: Row, access: str) -> Expected:
    """Return the expectation for what ends a transaction, or begins one."""
    means = row.means
    if means == a.REGISTER:
        return ALLOWED if access in HELD else REFUSED
    if means == a.OWN:
        return STORED_AT_ONCE if access in HELD and not is_thrown_away(row) else REFUSED
    if means == a.ABORT:
        return ALLOWED if access in (WRITABLE, READABLE, BROKEN) else HARMLESS
    if means in (a.SAVEPOINT, a.COMMIT):
        return ALLOWED if access in (WRITABLE, READABLE) else REFUSED
    if means == a.CLOSE:
        return HARMLESS if access == AWAY else REFUSED
    raise NotImplementedError(row)


TABLE_READS = (a.LOAD, a.SELECT)
TABLE_WRITES = (a.ADD, a.PENDING, a.SET, a.REMOVE, a.CORE, a.NESTED, a.CONNECTION, a.CURSOR)
COMMITS = (a.COMMIT_STATEMENT, a.DRIVER_COMMIT)


def of_tables(row: Row) -> Expected:
    """Return the expectation for an SQL database. A row that is detached from its session is a plain object, as the
    values are that are loaded: nothing is asked."""
    access, means = access_of(row), row.means
    if means == a.AUTOCOMMIT:
        return REFUSED
    if access == BROKEN and means in COMMITS:
        return BEYOND
    if access == BROKEN and means in (*TABLE_READS, *TABLE_WRITES, a.LOOK, a.COMMIT, a.SESSION_COMMIT):
        return REFUSED_LATE
    if means in (a.CONNECTION, a.CURSOR) and not is_current(row, access):
        return REFUSED
    if means in (a.LOOK, a.SET) and is_plain(row, access):
        return HARMLESS
    if means in (a.ROLLBACK, a.SESSION_CLOSE):
        return of_session_ends(row, access)
    if means in (a.LOOK, *TABLE_READS):
        return ALLOWED if access in (WRITABLE, READABLE) else REFUSED
    if means in COMMITS:
        return STORED_AT_ONCE if access == WRITABLE else REFUSED
    if means in TABLE_WRITES:
        if access == WRITABLE:
            return STORED
        return REFUSED_LATE if means == a.SET else REFUSED
    if means == a.SESSION_COMMIT:
        return REFUSED
    return of_the_transaction(row, access)


def is_current(row: Row, access: str) -> bool:
    """Return whether the transaction in which a connection was kept is the current one."""
    return access == WRITABLE and row.when in a.GOING_WELL


def is_plain(row: Row, access: str) -> bool:
    """Return whether the rows that were taken are plain objects: they are detached, or loaded and read only."""
    if row.when == a.UNTOUCHED:
        return False
    if row.means == a.SET:
        return access in (AWAY, CHILD)
    return access == CHILD and row.who != a.IDLE_FORK and row.when in a.GOING_WELL


def of_session_ends(row: Row, access: str) -> Expected:
    """Return the expectation for a session that is rolled back or closed by hand. A session that nobody uses has
    nothing to end."""
    if access not in (WRITABLE, READABLE):
        return HARMLESS
    return ALLOWED if row.means == a.ROLLBACK else REFUSED
