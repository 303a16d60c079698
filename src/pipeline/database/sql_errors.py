"""The meaning of errors of SQL databases: another attempt, a 503, a lost connection, a refused write.

Databases name an error by a code: PostgreSQL by its SQLSTATE, MySQL and MariaDB by a number, SQLite by a name.
"""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm.exc import StaleDataError

from pipeline.interfaces import Unavailable

TRANSIENT = frozenset(
    {
        *("40001", "40P01"),  # SQL standard: serialization failure; PostgreSQL: deadlock
        "55P03",  # PostgreSQL: a lock was not free within lock_timeout
        *(1213, 1205, 1020),  # MySQL: deadlock, lock wait timeout; MariaDB: changed since it was read
        *("SQLITE_BUSY", "SQLITE_LOCKED"),
    }
)
"""The same statements may succeed if they are executed again."""

NOT_NOW = frozenset(
    {
        *("57014", 1969, 3024, 1317),  # statement time-out, or cancelled: PostgreSQL, MariaDB, MySQL, both
        *("25006", 1290, 1836),  # the server takes no writes: it was demoted, or set to read only
    }
)
"""Answered 503 and not tried again: another attempt would take as long, or fail in the same way."""

GONE = frozenset({"25006", 1290, 1836, "57P01", "57P02", "57P03", 1053, 1927})
"""The connection cannot be used any more: the server takes no writes, or shuts down. A new connection may lead to
another server."""

READ_ONLY = frozenset({"25006", 1792, "SQLITE_READONLY"})
"""The write was refused, because the transaction only reads."""

ROLLS_BACK = frozenset({1213})
"""The database has rolled back the whole transaction, and its driver does not say so."""


class TransactionFailed(Exception):
    """A transaction that the database can only roll back, since the view has swallowed the error of a statement."""

    def __init__(self, message: str, transient: bool) -> None:
        super().__init__(message)
        self.transient = transient
        """True if the same statements may succeed in another attempt."""


def is_transient(error: BaseException) -> bool:
    """Return whether the same statements may succeed if they are executed again."""
    if isinstance(error, Unavailable):
        return False
    if isinstance(error, DBAPIError):
        return error.connection_invalidated or code_of(error.orig) in TRANSIENT
    if isinstance(error, TransactionFailed):
        return error.transient
    return isinstance(error, StaleDataError)


def code_of(error: BaseException | None) -> str | int | None:
    """Return what the database calls an error: SQLSTATE, MySQL's number, or the name of SQLite's code."""
    if isinstance(error, OSError):  # pg8000 raises what the socket raises; its number is the system's
        return None
    number = getattr(error, "errno", None) or next(iter(getattr(error, "args", ())), None)
    if isinstance(number, dict):  # the fields of PostgreSQL's answer, of pg8000
        return number.get("C")
    name = getattr(error, "sqlite_errorname", None)
    if isinstance(name, str):
        return "_".join(name.split("_")[:2])  # SQLITE_BUSY_SNAPSHOT is a kind of SQLITE_BUSY
    if isinstance(number, int) and number > 0:  # -1: MySQL's driver speaks for itself
        return number
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state if isinstance(state, str) else None


def was_answered(error: BaseException) -> bool:
    """Return whether an error comes from the database, rather than from the connection or the disk."""
    code = code_of(error)
    return not (code in (None, "SQLITE_IOERR") or (isinstance(code, int) and 2000 <= code < 3000))


def is_lost(error: BaseException) -> bool:
    """Return whether an error says that the connection is gone, where SQLAlchemy does not see it."""
    return isinstance(error, OSError) or code_of(error) in GONE or "MySQL Connection not available" in str(error)
