"""The meaning of an error of an SQL database: another attempt, a 503, a lost connection, a refused write."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm.exc import StaleDataError
from transaction.interfaces import TransientError

from pipeline.database.sql_dialects import codes
from pipeline.interfaces import Unavailable


class NeedsPrimary(TransientError):  # type: ignore[misc]
    """A request that reads from a replica needs the primary. The next attempt at it has the primary."""


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
        return error.connection_invalidated or means(error.orig, "transient")
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


def means(error: BaseException | None, meaning: str) -> bool:
    """Return whether the code of an error has a meaning, a name of ``pipeline.database.sql_dialects.Errors``."""
    return code_of(error) in codes(meaning)


def was_answered(error: BaseException) -> bool:
    """Return whether an error comes from the database, rather than from the connection or the disk."""
    code = code_of(error)
    return not (code is None or means(error, "of_the_disk") or (isinstance(code, int) and 2000 <= code < 3000))


def is_lost(error: BaseException) -> bool:
    """Return whether an error says that the connection is gone, where SQLAlchemy does not see it."""
    return isinstance(error, OSError) or means(error, "gone") or "MySQL Connection not available" in str(error)
