"""The meaning of an error of an SQL database: another attempt, a 503, a lost connection, a refusal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.orm.exc import StaleDataError
from transaction.interfaces import TransientError

from pipeline.database.places import MASK
from pipeline.database.sql_dialects import Errors, dialect_of
from pipeline.interfaces import ConfigurationError, Unavailable


class NeedsPrimary(TransientError):  # type: ignore[misc]
    """A request that reads from a replica needs the primary. The next attempt at it has the primary."""


class TransactionFailed(Exception):
    """A transaction that the database can only roll back, since the view has swallowed the error of a statement."""

    def __init__(self, message: str, transient: bool) -> None:
        super().__init__(message)
        self.transient = transient
        """True if the same statements may succeed in another attempt."""


class Judge:
    """The meaning of the errors of one database: those that its driver raises, by the codes of its dialect.

    An exception that is not of the driver (PEP 249), such as the time limit of a site, has no code
    here, whatever its arguments are.
    """

    def __init__(self, errors: Errors, of_driver: type[BaseException]) -> None:
        """
        errors     the codes of the dialect
        of_driver  the class ``Error`` of the driver
        """
        self.errors = errors
        self.of_driver = of_driver

    def means(self, error: BaseException | None, meaning: str) -> bool:
        """Return whether the code of an error has a meaning, a name of ``Errors``."""
        return isinstance(error, self.of_driver) and code_of(error) in getattr(self.errors, meaning)

    def was_refused(self, error: BaseException) -> bool:
        """Return whether an error at COMMIT is known to say that nothing is stored (R4)."""
        if self.means(error, "refused"):
            return True
        return isinstance(error, self.of_driver) and str(code_of(error)).startswith(self.errors.refused_classes)

    def is_lost(self, error: BaseException) -> bool:
        """Return whether an error says that the connection is gone, where SQLAlchemy does not see it."""
        if isinstance(error, OSError):  # pg8000 raises what the socket raises
            return True
        return self.means(error, "gone") or "MySQL Connection not available" in str(error)

    def is_transient(self, error: BaseException) -> bool:
        """Return whether the same statements may succeed if they are executed again."""
        if isinstance(error, Unavailable):
            return False
        if isinstance(error, DBAPIError):
            return error.connection_invalidated or self.means(error.orig, "transient")
        if isinstance(error, TransactionFailed):
            return error.transient
        return isinstance(error, StaleDataError)


def was_refused(session: Any, error: BaseException) -> bool:
    """Return whether the database of a session, which the site has made itself, has refused COMMIT."""
    if not isinstance(error, DBAPIError) or error.connection_invalidated:
        return False
    try:
        dialect = session.get_bind().dialect
        own, _ = dialect_of(dialect.name, dialect.driver)
    except (SQLAlchemyError, ConfigurationError):  # what its codes mean is not known
        return False
    return error.orig is not None and Judge(own.errors, dialect.dbapi.Error).was_refused(error.orig)


def values_of(parameters: Any) -> Iterator[Any]:
    """Yield the values of the parameters of a statement, for one row or for several."""
    for row in parameters if isinstance(parameters, list) else [parameters]:
        yield from row.values() if isinstance(row, Mapping) else row or ()


def hide_values(error: Any, outer: Exception | None, parameters: Any) -> None:
    """Take what a visitor has sent out of the words of an error (S25). A database quotes a value that is there
    already, or the whole row.

    outer  SQLAlchemy's error, which repeats them
    """
    before, first = str(error), next(iter(error.args), None)
    fields: Any = first if isinstance(first, dict) else {}  # of pg8000
    detail = fields.get("D") or getattr(getattr(error, "diag", None), "message_detail", None)
    quoted = [f"{sign}{value}{sign}" for value in values_of(parameters) for sign in "'\""]

    def hidden(said: Any) -> Any:
        if isinstance(said, dict):
            return {name: hidden(text) for name, text in said.items()}
        if not isinstance(said, str):
            return said
        for text in filter(None, (detail, *quoted)):
            said = said.replace(text, MASK)
        begin, mark, rest = said.partition("Duplicate entry '")
        _, end, key = rest.rpartition("' for key")
        return f"{begin}{mark}{MASK}{end}{key}" if mark else said

    error.args = tuple(map(hidden, error.args))
    for name, said in getattr(error, "__dict__", {}).items():
        setattr(error, name, hidden(said))
    if fields and error.__context__ is not None:  # it was raised for another one, which has them, too
        hide_values(error.__context__, None, parameters)
    if outer is not None:
        outer.args = tuple(text.replace(before, str(error)) for text in outer.args)


def make_unavailable(error: BaseException) -> None:
    """Make an error also an Unavailable, which is answered 503. An ``except`` in a view still finds its class."""
    kind = type(error)
    error.__class__ = type(kind.__name__, (kind, Unavailable), {"__module__": kind.__module__})


def code_of(error: BaseException | None) -> str | int | None:
    """Return the code that an error of a driver has: SQLSTATE, MySQL's number, or the name of SQLite's code."""
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
