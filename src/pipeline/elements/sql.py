"""``sql``: a SQLAlchemy session for each request, in the transaction of the request.

A session is bound to a transaction manager by seven event listeners, which cost more than a request: so
it is kept with the manager and used again. It holds a connection only while a request uses it.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
from collections import deque
from threading import Lock
from typing import Any

import zope.sqlalchemy
from sqlalchemy import URL, Connection, create_engine, event
from sqlalchemy.engine import ExceptionContext, make_url
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.orm.exc import StaleDataError
from sqlalchemy.pool import PoolProxiedConnection, QueuePool
from transaction import TransactionManager
from transaction.interfaces import ISynchronizer
from zope.interface import implementer
from zope.sqlalchemy.datamanager import SessionDataManager

from pipeline.composition import Offers, element
from pipeline.database.outages import Outage
from pipeline.database.transactions import (
    OFFERED,
    DatabaseRequest,
    Manager,
    begin,
    is_committed,
    reads_only,
    refusal,
)
from pipeline.interfaces import CommitUncertain, ConfigurationError, Handler, Unavailable
from pipeline.request import on_first_use

log = logging.getLogger("pipeline.sql")


class SqlRequest(DatabaseRequest):
    """What ``sql`` adds to a request."""

    sql: Session = on_first_use(dropped=True)
    """The SQLAlchemy session of this request."""


@element(
    adds=SqlRequest,
    provides=("database",),
    inside={
        "retry": "every attempt needs a fresh connection state",
        "zodb": "its session joins the transaction of the ZODB connection",
    },
    outside={"errors": "error views may read the database"},
)
def sql(
    next: Handler,
    *,
    url: str,
    pool_size: int | None = None,
    max_overflow: int | None = None,
    pool_timeout: float | None = None,
    pool_recycle: int | None = None,
    pool_pre_ping: bool = True,
    isolation_level: str | None = None,
    twophase: bool = False,
) -> Offers:
    """Provide an SQLAlchemy session.

    url              of the database, as SQLAlchemy understands it: sqlite:///path, postgresql://...
    pool_size        connections that are kept open, at most; default 5
    max_overflow     connections beyond these, when they are needed at the same time; default 10
    pool_timeout     seconds that a request waits for one of all these, and then is a 503; default 30
    pool_recycle     seconds after which a connection is replaced; default never
    pool_pre_ping    whether a connection is tried before a request gets it
    isolation_level  such as SERIALIZABLE; default the database's own
    twophase         whether to commit in two phases, for another database beside this one: both commit or
                     neither does, unless one is lost after all have voted; then the answer says so (R4), and
                     what the other has prepared waits for somebody to decide

    Provides ``request.sql``, opened on first use and joined to ``request.tm`` by zope.sqlalchemy. Only inside
    of ``transaction`` can the database be changed.

    Refuses, at load, a URL that is none, AUTOCOMMIT, and two phases where the database has but one. A
    database that cannot be reached is a 503 with ``Retry-After`` until it can.
    """
    settings = {
        "pool_size": pool_size,
        "max_overflow": max_overflow,
        "pool_timeout": pool_timeout,
        "pool_recycle": pool_recycle,
        "pool_pre_ping": pool_pre_ping,
        "isolation_level": isolation_level,
    }
    given = {name: value for name, value in settings.items() if value is not None}
    database = database_of(url, twophase, given)
    return Offers(next, tm=database.open_tm, sql=database.open_session, **OFFERED)


class Database:
    """One URL in this process: its engine, and transaction managers with sessions that are not in use."""

    def __init__(self, url: str, twophase: bool, settings: dict[str, Any]) -> None:
        if settings.get("isolation_level") == "AUTOCOMMIT":
            raise ConfigurationError("sql: with AUTOCOMMIT no statement could be taken back; leave it out")
        try:
            parsed = make_url(url)
            if parsed.get_dialect()().get_dialect_pool_class(parsed) is QueuePool:
                settings = {**settings, "poolclass": Connections}
            self.engine = create_engine(parsed, **settings)
        except (SQLAlchemyError, ImportError, TypeError, ValueError) as error:
            raise ConfigurationError(f"sql: {type(error).__name__}: {error}") from error
        if twophase and type(self.engine.dialect).do_begin_twophase is DefaultDialect.do_begin_twophase:
            raise ConfigurationError(f"sql: {self.engine.dialect.name} has no two-phase commit")
        self.make_session = sessionmaker(self.engine, twophase=twophase)
        self.outage = Outage(f"the database {shown(parsed)}")
        self.managers: deque[Manager] = deque()
        event.listen(self.engine, "before_cursor_execute", before_statement)
        event.listen(self.engine, "commit", before_commit)
        event.listen(self.engine, "handle_error", self.on_error)
        event.listen(self.engine, "checkin", on_checkin)
        if self.engine.dialect.name == "sqlite":
            event.listen(self.engine, "connect", leave_transactions_to_us)
            event.listen(self.engine, "begin", begin_in_sqlite)

    def open_tm(self, request: DatabaseRequest) -> TransactionManager:
        """A transaction manager, for a pipeline without zodb."""
        try:
            tm = self.managers.pop()
        except IndexError:
            tm = Manager()

        def give_back() -> None:
            tm.leave()
            if not tm.spoiled:
                self.managers.append(tm)

        request.on_close(give_back, last=True)
        begin(request, tm)
        return tm

    def open_session(self, request: SqlRequest) -> Session:
        if self.outage.since is not None:
            self.outage.check()
            with self.engine.connect():  # raises Unavailable again, or ends the outage
                self.outage.end()
        tm = request.tm
        bound: Bound | None = tm.kept.get(self)
        if bound is None:
            bound = tm.kept[self] = Bound(self, tm)
        tm.leavers.append(bound.leave)
        return bound.session

    def on_error(self, context: ExceptionContext) -> None:
        """Of errors of the driver, tell what only can be told here."""
        if context.is_pre_ping:
            return
        error = context.original_exception
        connection = context.connection
        if connection is None:
            raise self.outage.begin(error) from error
        if connection.closed or connection.invalidated:
            return
        bound = connection.info.get(BOUND)
        if bound is not None and bound.committing and (context.is_disconnect or not was_answered(error)):
            raise CommitUncertain(f"the connection was lost during COMMIT: {type(error).__name__}") from error

    def forget(self) -> None:
        """Leave the connections to the parent process."""
        self.engine.dispose(close=False)
        self.outage = Outage(self.outage.name)
        self.managers.clear()


class Connections(QueuePool):
    """The pool of an engine: that none of its connections is free in time is an outage, though of our making."""

    def connect(self) -> PoolProxiedConnection:
        try:
            return super().connect()
        except PoolTimeout as error:
            raise Unavailable(f"every connection to the database is in use: {error}") from error


BOUND = "pipeline.sql"
"""Under which name a connection knows the session that has it."""


@implementer(ISynchronizer)
class Bound:
    """A session that is bound to a transaction manager."""

    committing = False
    """Whether COMMIT was sent, and no answer came yet."""

    def __init__(self, database: Database, tm: Manager) -> None:
        self.database = database
        self.tm = tm
        self.session = database.make_session()
        zope.sqlalchemy.register(self.session, transaction_manager=tm, keep_session=True)
        event.listen(self.session, "after_begin", self.after_begin)
        event.listen(self.session, "before_attach", self.before_attach)
        tm.registerSynch(self)
        tm.readers = (*tm.readers, SessionDataManager)
        tm.judges.append(is_transient)

    def after_begin(self, session: Session, transaction: object, connection: Connection) -> None:
        connection.info[BOUND] = self
        self.committing = False

    def before_attach(self, session: Session, instance: object) -> None:
        if reads_only(self.tm):
            raise refusal(self.tm, instance)

    def beforeCompletion(self, transaction: object) -> None:
        """Say what a body that is streamed has changed and not flushed: the flush would have been refused."""
        if reads_only(self.tm):
            session = self.session
            for changed in (*session.new, *filter(session.is_modified, session.dirty)):
                log.error("dropped: %s", refusal(self.tm, changed))

    def afterCompletion(self, transaction: object) -> None:
        """zope.sqlalchemy leaves the transaction of a session that is kept as it is, also when it aborts."""
        if not is_committed(transaction) and self.session.in_transaction():
            self.session.rollback()

    def newTransaction(self, transaction: object) -> None:
        """Part of ISynchronizer."""

    def leave(self) -> None:
        """Give back the connection. Objects that somebody still holds are detached."""
        self.session.close()


READS = re.compile(
    r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*"
    r"(?:(?:SELECT|VALUES|TABLE|SHOW|EXPLAIN|DESCRIBE|DESC|PRAGMA|SET|DECLARE|FETCH|CLOSE"
    r"|BEGIN|SAVEPOINT|RELEASE|ROLLBACK)\b"
    r"|WITH\b(?!.*\b(?:INSERT|UPDATE|DELETE|MERGE)\b))",
    re.IGNORECASE | re.DOTALL,
)
"""Statements that change nothing that is stored; of a function that does, ``mark_changed`` must be told."""


def before_statement(
    connection: Connection, cursor: Any, statement: str, parameters: Any, context: Any, many: bool
) -> None:
    """Refuse a statement that writes where only reading is allowed (R8); have any other one committed.

    zope.sqlalchemy alone commits only what goes through the unit of work, and drops the rest.
    """
    bound: Bound | None = connection.info.get(BOUND)
    if bound is not None and not READS.match(statement):
        if reads_only(bound.tm):
            raise refusal(bound.tm, statement)
        zope.sqlalchemy.mark_changed(bound.session, bound.tm, keep_session=True)


def before_commit(connection: Connection) -> None:
    bound: Bound | None = connection.info.get(BOUND)
    if bound is not None:
        bound.committing = True


def on_checkin(connection: Any, record: Any) -> None:
    record.info.pop(BOUND, None)


def leave_transactions_to_us(connection: Any, record: object) -> None:
    """SQLite's driver begins a transaction only when something is written: what was read is outside."""
    connection.isolation_level = None


def begin_in_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


TRANSIENT = frozenset(
    {
        *("40001", "40P01"),  # SQL standard: serialization failure; PostgreSQL: deadlock
        *(1213, 1205, 1020),  # MySQL: deadlock, lock wait timeout; MariaDB: changed since it was read
        *("SQLITE_BUSY", "SQLITE_LOCKED"),
    }
)


def is_transient(error: BaseException) -> bool:
    """Whether the same statements may succeed if they are executed again."""
    if isinstance(error, DBAPIError):
        return error.connection_invalidated or code_of(error.orig) in TRANSIENT
    return isinstance(error, StaleDataError)


def code_of(error: BaseException | None) -> str | int | None:
    """What the database calls an error: SQLSTATE, MySQL's number, or the name of SQLite's code."""
    number = getattr(error, "errno", None) or next(iter(getattr(error, "args", ())), None)
    name = getattr(error, "sqlite_errorname", None)
    if isinstance(name, str):
        return "_".join(name.split("_")[:2])  # SQLITE_BUSY_SNAPSHOT is a kind of SQLITE_BUSY
    if isinstance(number, int):
        return number
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state if isinstance(state, str) else None


def was_answered(error: BaseException) -> bool:
    """Whether an error comes from the database, rather than from the connection to it."""
    code = code_of(error)
    return not (code is None or (isinstance(code, int) and 2000 <= code < 3000))


def shown(url: URL) -> str:
    """A URL as it may stand in a log: without user, password and options."""
    place = f"{url.host}{f':{url.port}' if url.port else ''}" if url.host else ""
    return f"{url.drivername}://{place}/{url.database or ''}"


_databases: dict[object, Database] = {}
_databases_lock = Lock()


def database_of(url: str, twophase: bool, settings: dict[str, Any]) -> Database:
    """The database of a URL with these settings, one in a process."""
    key = (url, twophase, *sorted(settings.items()))
    with _databases_lock:
        database = _databases.get(key)
        if database is None:
            database = _databases[key] = Database(url, twophase, settings)
        return database


def close_all() -> None:
    """Close every connection that is not in use, for the end of a process and for tests."""
    for database in list(_databases.values()):
        database.engine.dispose()


def _after_fork() -> None:
    global _databases_lock
    _databases_lock = Lock()
    for database in _databases.values():
        database.forget()


atexit.register(close_all)
os.register_at_fork(after_in_child=_after_fork)
