"""``sql``: a SQLAlchemy session for each request, in the transaction of the request.

A session is bound to a transaction manager by seven event listeners. To register them takes longer than a request,
so the session is kept with the manager and used again. It holds a connection only while a request uses it.
"""

from __future__ import annotations

import logging
from collections import deque
from threading import Lock
from typing import Any

import zope.sqlalchemy
from sqlalchemy import URL, Connection, create_engine, event
from sqlalchemy.engine import ExceptionContext, make_url
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session
from sqlalchemy.pool import PoolProxiedConnection, QueuePool
from transaction import TransactionManager
from transaction.interfaces import ISynchronizer
from zope.interface import implementer
from zope.sqlalchemy.datamanager import STATUS_CHANGED, SessionDataManager

from pipeline.composition import Offers, element
from pipeline.database import forks, pools
from pipeline.database.outages import Outage
from pipeline.database.sql_dialects import (
    BEGIN_READING,
    END_READING,
    FAILED,
    IDLE,
    OPEN,
    UNKNOWN,
    state_of,
    time_outs,
)
from pipeline.database.sql_errors import (
    NOT_NOW,
    READ_ONLY,
    ROLLS_BACK,
    TRANSIENT,
    TransactionFailed,
    code_of,
    is_lost,
    is_transient,
    was_answered,
)
from pipeline.database.statements import is_plain_read
from pipeline.database.transactions import (
    OFFERED,
    DatabaseRequest,
    Manager,
    begin,
    is_committed,
    is_committing,
    joined,
    reads_only,
    refusal,
)
from pipeline.interfaces import CommitUncertain, ConfigurationError, Handler, Unavailable
from pipeline.request import on_first_use

log = logging.getLogger("pipeline.sql")


class SqlRequest(DatabaseRequest):
    """The attributes that ``sql`` adds to a request."""

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
    statement_timeout: float | None = None,
    lock_timeout: float | None = None,
) -> Offers:
    """Provide an SQLAlchemy session.

    url                URL of the database for SQLAlchemy: sqlite:///path, postgresql://...
    pool_size          upper limit of the connections that are kept open; default 5
    max_overflow       further connections that are opened if they are needed at the same time; default 10
    pool_timeout       seconds that a request waits for a connection, before it is a 503; default 30
    pool_recycle       age in seconds at which a connection is replaced before its next use; default never
    pool_pre_ping      whether a connection is tested before a request gets it, and replaced if it is dead;
                       default true
    isolation_level    isolation level, such as SERIALIZABLE; default the database's own
    twophase           whether to commit in two phases, with another database beside this one. Both commit or
                       neither does, unless one is lost after all have voted. Then the answer says so (R4), and the
                       prepared transaction of the other waits until an operator decides; default false
    statement_timeout  seconds that a statement may take, on PostgreSQL and MariaDB. After this time the request is
                       a 503 and is not tried again; default the database's own, usually unlimited
    lock_timeout       seconds that a statement may wait for a lock, on PostgreSQL, MariaDB (whole seconds) and
                       SQLite. After this time the request is tried again; default the database's own: no limit on
                       PostgreSQL, 50 on MariaDB, 5 on SQLite

    Provides ``request.sql``, opened on first use and joined to ``request.tm`` by zope.sqlalchemy. The database can
    only be changed inside ``transaction``, which commits all changes of the session. Elsewhere, and in a streamed
    body, the session reads one state of the database (R8).

    Refuses, at load, an invalid URL, AUTOCOMMIT, ``twophase`` for a database without two-phase commit, and a
    time-out that the database does not support. A database that cannot be reached is a 503 with ``Retry-After``.
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
    time_limits = {"statement_timeout": statement_timeout, "lock_timeout": lock_timeout}
    database = database_of(url, twophase, given, time_limits)
    return Offers(next, tm=database.open_tm, sql=database.open_session, **OFFERED)


class Database:
    """The database of one URL in this process: its engine, and idle transaction managers with their sessions."""

    def __init__(
        self, url: str, twophase: bool, settings: dict[str, Any], time_limits: dict[str, float | None]
    ) -> None:
        if settings.get("isolation_level") == "AUTOCOMMIT":
            raise ConfigurationError("sql: with AUTOCOMMIT no statement can be rolled back; leave it out")
        try:
            parsed = make_url(url)
            if parsed.get_dialect()().get_dialect_pool_class(parsed) is QueuePool:
                settings = {**settings, "poolclass": Connections}
            self.engine = create_engine(parsed, **settings)
        except (SQLAlchemyError, ImportError, TypeError, ValueError) as error:
            raise ConfigurationError(f"sql: {type(error).__name__}: {error}") from error
        dialect = self.engine.dialect
        if twophase and type(dialect).do_begin_twophase is DefaultDialect.do_begin_twophase:
            raise ConfigurationError(f"sql: {dialect.name} has no two-phase commit")
        self.twophase = twophase
        self.begin_reading = BEGIN_READING.get(dialect.name, ())
        self.end_reading = END_READING.get(dialect.name)
        self.at_connect = time_outs(dialect.name, **time_limits)
        self.shown = loggable_url(parsed)
        self.outage = Outage(f"the database {self.shown}")
        self.managers: deque[Manager] = deque()
        self.in_use: set[Manager] = set()
        self._listen(dialect.name)
        pools.add(self)

    def usage(self) -> pools.Usage:
        """Return how full the pool of the engine is."""
        pool = self.engine.pool
        if not isinstance(pool, QueuePool):  # it keeps no connections, or one for each thread
            return pools.Usage(self.shown, len(self.in_use), 0, None)
        limit = None if pool._max_overflow < 0 else pool.size() + pool._max_overflow
        return pools.Usage(self.shown, pool.checkedout(), pool.checkedin(), limit)

    def _listen(self, dialect: str) -> None:
        event.listen(self.engine, "before_cursor_execute", before_statement)
        event.listen(self.engine, "after_cursor_execute", after_statement)
        event.listen(self.engine, "commit", before_commit)
        event.listen(self.engine, "handle_error", self.on_error)
        event.listen(self.engine, "checkin", on_checkin)
        if self.at_connect:
            event.listen(self.engine, "connect", self.on_connect)
        if dialect == "sqlite":
            event.listen(self.engine, "connect", leave_transactions_to_us)
            event.listen(self.engine, "begin", begin_in_sqlite)

    def on_connect(self, connection: Any, record: object) -> None:
        execute(connection, *self.at_connect)
        connection.commit()  # otherwise PostgreSQL undoes the settings with the first rollback

    def open_tm(self, request: DatabaseRequest) -> TransactionManager:
        """Take a transaction manager, for a pipeline without ``zodb``."""
        forks.check()
        try:
            tm = self.managers.pop()
        except IndexError:
            tm = Manager()
        self.in_use.add(tm)

        def give_back() -> None:
            tm.leave()
            self.in_use.discard(tm)
            if not tm.must_discard:
                self.managers.append(tm)

        request.on_close(give_back, last=True)
        begin(request, tm)
        return tm

    def open_session(self, request: SqlRequest) -> Session:
        forks.check()
        if self.outage.since is not None:
            self.outage.check()
            with self.engine.connect():  # raises Unavailable again, or ends the outage
                self.outage.end()
        tm = request.tm
        bound: Bound | None = tm.kept.get(self)
        if bound is None:
            bound = tm.kept[self] = Bound(self, tm)
        tm.leave_callbacks.append(bound.leave)
        return bound.session

    def on_error(self, context: ExceptionContext) -> None:
        """Raise or mark an error of the driver whose meaning is only known here."""
        if context.is_pre_ping:
            return
        error = context.original_exception
        connection = context.connection
        if connection is None:
            raise self.outage.begin(error) from error
        if connection.closed or connection.invalidated:
            return
        bound: Bound | None = connection.info.get(BOUND)
        if bound is not None and reads_only(bound.tm) and code_of(error) in READ_ONLY:
            raise refusal(bound.tm, context.statement) from error
        if is_lost(error):
            context.is_disconnect = True
        if bound is not None:
            if bound.committing and bound.changed and (context.is_disconnect or not was_answered(error)):
                lost = f"the connection was lost during COMMIT: {type(error).__name__}"
                raise CommitUncertain(lost) from error
            bound.note(context)
        if code_of(error) in NOT_NOW and context.sqlalchemy_exception is not None:
            make_unavailable(context.sqlalchemy_exception)

    def leave_to_parent(self) -> None:
        """Leave alone the connections of a parent process (R12)."""
        forks.keep(self.engine.pool, list(self.managers))
        for tm in self.in_use:
            forks.keep(tm, tm._txn)
            tm.disown()
        self.in_use.clear()
        self.managers.clear()
        self.engine.dispose(close=False)
        self.outage = Outage(self.outage.name)


class Connections(QueuePool):
    """The pool of an engine. It raises Unavailable if no connection becomes free in time."""

    def connect(self) -> PoolProxiedConnection:
        try:
            return super().connect()
        except PoolTimeout as error:
            raise Unavailable(f"every connection to the database is in use: {error}") from error


BOUND = "pipeline.sql"
"""The key of the session in the ``info`` of a connection."""
END_READING_BY = "pipeline.sql.end_reading"
"""The key of the statement that lets the connection write again, when it is given back."""


class RequestSession(Session):
    """The session of one request at a time."""

    bound: Bound
    _twophase = False

    @property
    def twophase(self) -> bool:
        """True to commit in two phases. A transaction that only reads does not need it."""
        return self._twophase and not reads_only(self.bound.tm)

    @twophase.setter
    def twophase(self, twophase: bool) -> None:
        self._twophase = twophase

    def connection(self, *arguments: Any, **options: Any) -> Connection:
        """Return the connection. The view may use a cursor of the driver, unseen, so this counts as a change."""
        connection = super().connection(*arguments, **options)
        self.bound.changed = True
        return connection


@implementer(ISynchronizer)
class Bound:
    """A session that is bound to a transaction manager."""

    connection: Connection | None = None
    """The connection of the session, or its last one."""
    committing = False
    """True if COMMIT was sent, and the database has not answered yet."""
    changed = False
    """True if the transaction of the database has had a statement that is not known to be a plain read."""
    open = False
    """True if the driver has reported, after a change, that its transaction is open."""
    failure = ""
    """The last error of the database in this transaction."""
    failure_is_transient = False
    rolled_back = False
    """True if the database has rolled back the transaction because of that error."""
    resource: Any = None
    """The data manager of the session, while a transaction is being completed."""

    def __init__(self, database: Database, tm: Manager) -> None:
        self.database = database
        self.tm = tm
        self.session = RequestSession(database.engine, twophase=database.twophase)
        self.session.bound = self
        event.listen(self.session, "before_commit", self.before_commit)
        zope.sqlalchemy.register(self.session, STATUS_CHANGED, tm, keep_session=True)
        event.listen(self.session, "after_begin", self.after_begin)
        event.listen(self.session, "before_attach", self.before_attach)
        tm.registerSynch(self)
        tm.readers = (*tm.readers, SessionDataManager)
        tm.transient_checks.append(is_transient)

    def after_begin(self, session: Session, transaction: object, connection: Connection) -> None:
        connection.info[BOUND] = self
        self.connection = connection
        self.committing = self.changed = self.open = self.rolled_back = False
        self.failure = ""
        if reads_only(self.tm):
            connection.info[END_READING_BY] = self.database.end_reading
            for statement in self.database.begin_reading:
                connection.exec_driver_sql(statement)

    def before_attach(self, session: Session, instance: object) -> None:
        if reads_only(self.tm):
            raise refusal(self.tm, instance)

    def before_commit(self, session: Session) -> None:
        """Refuse to commit a failed transaction. The database would roll it back without an error."""
        if not session.in_nested_transaction() and not is_committing(self.tm):
            raise RuntimeError("sql: request.tm.commit() commits the session; request.sql.commit() must not")
        if self.rolled_back or self.state() == FAILED:
            raise TransactionFailed(
                f"the transaction failed with an error that the view has swallowed, so it cannot be committed: "
                f"{self.failure}. Put a statement that may fail inside request.sql.begin_nested()",
                self.failure_is_transient,
            )

    def state(self) -> str:
        """Return the state of the transaction of the database."""
        connection = self.connection
        if connection is None or connection.closed or connection.invalidated:
            return UNKNOWN
        return state_of(connection.connection.driver_connection)

    def look(self) -> None:
        """Notice that the view has ended the transaction: by COMMIT in a statement, or by DDL on MariaDB."""
        if self.changed:
            state = self.state()
            if self.open and state == IDLE:
                self.tm.outcome = "committed"
            self.open = state == OPEN

    def note(self, context: ExceptionContext) -> None:
        """Note an error of a statement, which the view may swallow."""
        error = context.original_exception
        self.failure = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        self.failure_is_transient = context.is_disconnect or code_of(error) in TRANSIENT
        ended = self.open and self.state() == IDLE  # SQLite on a full disk
        self.rolled_back = ended or context.is_disconnect or code_of(error) in ROLLS_BACK
        self.open = False

    def beforeCompletion(self, transaction: object) -> None:
        """Log the changes that a streamed body has made and not flushed, since they are dropped.

        After a rollback by the view, let zope.sqlalchemy commit the changes that followed it.
        """
        session = self.session
        if not reads_only(self.tm):
            self.look()
            sessions = [one for one in joined(self.tm) if isinstance(one, SessionDataManager)]
            self.resource = next((one for one in sessions if one.session is session), None)
            if self.resource is not None:
                if session.get_transaction() is None:
                    session.begin()
                    self.changed = self.rolled_back = False
                self.resource.tx = session.get_transaction()
        else:
            for changed in (*session.new, *filter(session.is_modified, session.dirty)):
                log.error("dropped: %s", refusal(self.tm, changed))

    def afterCompletion(self, transaction: object) -> None:
        """Roll back a transaction that zope.sqlalchemy left open. Mark a commit that has stored nothing."""
        if not is_committed(transaction):
            if self.session.in_transaction():
                self.session.rollback()
        elif not self.changed and self.resource is not None:
            self.resource.state = "no work"
        self.resource = None

    def newTransaction(self, transaction: object) -> None:
        """Part of ISynchronizer."""

    def leave(self) -> None:
        """Give back the connection. Objects of the session that are still in use are detached."""
        self.connection = None
        self.session.close()


def before_statement(
    connection: Connection, cursor: Any, statement: str, parameters: Any, context: Any, many: bool
) -> None:
    """Note a statement that may change something. Refuse it (R8) if the database itself would not."""
    bound: Bound | None = connection.info.get(BOUND)
    if bound is None:
        return
    if not is_plain_read(statement):
        if not bound.database.begin_reading and reads_only(bound.tm):
            raise refusal(bound.tm, statement)
        bound.changed = True
    bound.look()


def after_statement(
    connection: Connection, cursor: Any, statement: str, parameters: Any, context: Any, many: bool
) -> None:
    bound: Bound | None = connection.info.get(BOUND)
    if bound is not None:
        bound.look()


def before_commit(connection: Connection) -> None:
    bound: Bound | None = connection.info.get(BOUND)
    if bound is not None:
        bound.committing = True


def on_checkin(connection: Any, record: Any) -> None:
    record.info.pop(BOUND, None)
    end_reading = record.info.pop(END_READING_BY, None)
    if end_reading is not None and connection is not None:
        try:
            execute(connection, end_reading)
        except Exception as error:  # most likely the connection is lost; it must not be used again
            record.invalidate(error)


def execute(connection: Any, *statements: str) -> None:
    """Execute statements on a connection of the driver."""
    cursor = connection.cursor()
    for statement in statements:
        cursor.execute(statement)
    cursor.close()


def leave_transactions_to_us(connection: Any, record: object) -> None:
    """Turn off the transactions of SQLite's driver. They begin with the first write, after the reads before it."""
    connection.isolation_level = None


def begin_in_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def make_unavailable(error: BaseException) -> None:
    """Make an error also an Unavailable, which is answered 503. An ``except`` in a view still finds its class."""
    kind = type(error)
    error.__class__ = type(kind.__name__, (kind, Unavailable), {"__module__": kind.__module__})


def loggable_url(url: URL) -> str:
    """Return a URL as it may stand in a log: without user, password and options."""
    place = f"{url.host}{f':{url.port}' if url.port else ''}" if url.host else ""
    return f"{url.drivername}://{place}/{url.database or ''}"


_databases: dict[object, Database] = {}
_databases_lock = Lock()


def database_of(
    url: str, twophase: bool, settings: dict[str, Any], time_limits: dict[str, float | None]
) -> Database:
    """Return the database of a URL with these settings. A process has one."""
    key = (url, twophase, *sorted(settings.items()), *time_limits.values())
    with _databases_lock:
        database = _databases.get(key)
        if database is None:
            database = _databases[key] = Database(url, twophase, settings, time_limits)
        return database


def close_all() -> None:
    """Close every idle connection, at the end of a process and in tests."""
    for database in list(_databases.values()):
        database.engine.dispose()


def _leave_to_parent() -> None:
    global _databases_lock
    _databases_lock = Lock()
    for database in _databases.values():
        database.leave_to_parent()


forks.own(forget=_leave_to_parent, close=close_all)
