"""The session of one request, bound to the transaction of the request by zope.sqlalchemy (R13).

Each request gets a new session, which is closed for good at the end of the request. Whatever is kept of it, the
session or its connection, raises when it is used later. The listeners stand on the class, since registering them
for each session would take longer than a request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn

from sqlalchemy import Connection, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.orm import Session, SessionTransaction
from transaction.interfaces import ISynchronizer
from zope.interface import implementer
from zope.sqlalchemy.datamanager import STATUS_CHANGED, SessionDataManager, join_transaction

from pipeline.database import forks
from pipeline.database.sql_drivers import FAILED, IDLE, OPEN, UNKNOWN, execute, position_after
from pipeline.database.sql_errors import NeedsPrimary, TransactionFailed
from pipeline.database.statements import Statement, statement_of
from pipeline.database.transactions import (
    Manager,
    all_voted,
    is_committed,
    is_committing,
    joined,
    note_own_commit,
    reads_only,
    refusal,
)
from pipeline.interfaces import ReadOnlyTransaction, Unavailable

log = logging.getLogger("pipeline.sql")

CLOSE_AT_END = "pipeline.sql.close_at_end"
"""The key in the ``info`` of a connection that is closed when the request gives it back."""
BOUND = "pipeline.sql.bound"
"""The key of the ``Bound`` that has a connection, until the connection is given back."""
END_READING_BY = "pipeline.sql.end_reading"
"""The key of the statement that lets the connection write again, when it is given back."""
READ = "pipeline.sql.read"
"""The key in the ``record_info`` of a connection that a view has taken from the engine: True as long as all that it
has executed there, by SQLAlchemy, are plain reads."""
WATCHED = "pipeline_watched"
"""The savepoint that shows, if it is gone, that the transaction was ended, and another begun."""


class RequestSession(Session):
    """The session of one request."""

    bound: Bound

    def rollback(self) -> None:
        """Take back the changes of this transaction. Only this leads to a commit without them."""
        self.bound.look()
        super().rollback()
        self.bound.taken_back, self.bound.connection = True, None

    def close(self) -> NoReturn:
        """Refuse to end the session: its changes would be lost under an answer that says that all is well."""
        raise RuntimeError(
            "sql: request.sql is closed at the end of the request, and must not be closed by the view. Leave out "
            "close(), reset(), invalidate() and 'with request.sql'; request.sql.rollback() takes back the changes"
        )

    reset = invalidate = __enter__ = close


class RequestConnection(Connection):
    """The connection of a session, while a request uses it."""

    bound: Bound

    @property
    def connection(self) -> Any:
        """The connection of the pool. A view that takes it may use the driver, unseen."""
        if not self.bound.ending:
            self.bound.hand_out_driver()
        return super().connection

    def get_isolation_level(self) -> Any:
        """Return the level. SQLAlchemy asks the driver for it, which hands out nothing."""
        ending, self.bound.ending = self.bound.ending, True
        try:
            return super().get_isolation_level()
        finally:
            self.bound.ending = ending

    def _commit_impl(self) -> None:
        self.bound.begin_commit()
        self.bound.send_commit()
        super()._commit_impl()

    def _rollback_impl(self) -> None:
        self.bound.ending = True
        super()._rollback_impl()

    def _prepare_twophase_impl(self, xid: Any) -> None:
        self.bound.ending, self.bound.prepared = True, xid
        super()._prepare_twophase_impl(xid)

    def _commit_twophase_impl(self, xid: Any, is_prepared: bool) -> None:
        self.bound.begin_commit()
        super()._commit_twophase_impl(xid, is_prepared)

    def _rollback_twophase_impl(self, xid: Any, is_prepared: bool) -> None:
        self.bound.ending = True
        super()._rollback_twophase_impl(xid, is_prepared)

    @property
    def info(self) -> Any:
        """The ``info`` of the connection, for listeners of SQLAlchemy's events. To read it hands out nothing."""
        return self.bound.info


OVERRIDDEN = (
    Connection._commit_impl,
    Connection._rollback_impl,
    Connection._prepare_twophase_impl,
    Connection._commit_twophase_impl,
    Connection._rollback_twophase_impl,
)
"""Private methods of SQLAlchemy: with a version that lacks one the import fails here."""


@implementer(ISynchronizer)
class Bound:
    """A session that is bound to a transaction manager."""

    connection: Connection | None = None
    """The connection of the session, or its last one."""
    driver_connection: Any = None
    """The driver's part of it."""
    info: dict[str, Any]
    """The ``info`` of that connection."""
    ending = False
    """True if the transaction is being committed or rolled back."""
    committing = False
    """True if COMMIT was sent, and the database has not answered yet."""
    prepared = ""
    """The id of a transaction that was sent to be prepared, and not to be committed (two-phase commit)."""
    outcome_before = ""
    """The outcome of the request before COMMIT was sent."""
    changed = False
    """True if the transaction of the database has had a statement that is not known to be a plain read."""
    called: frozenset[str]
    """The functions that it has called, by which the next request could meet something in the session (R13)."""
    open = False
    """True if the driver has reported, after a change, that its transaction is open."""
    is_watched = False
    """True while ``WATCHED`` is set, during a statement that may replace the transaction."""
    failure = ""
    """The last error of the database in this transaction."""
    failure_is_transient = False
    rolled_back = False
    """True if the database has rolled back the transaction because of that error, or can only roll it back."""
    taken_back = lost = False
    """True if the view has rolled back the session; if it has ended the transaction in another way."""
    resource: Any = None
    """The data manager of the session, while a transaction is being completed."""
    positions: dict[str, int] | None = None
    """The positions that the visitor is told after the commits of the request, or None."""

    def __init__(self, database: Any, tm: Manager, primary: Any, replica: Connection | None = None) -> None:
        """
        database  the ``pipeline.database.sql_databases.Database`` that the session reads
        primary   the one that it writes
        replica   a connection to ``database``, if that is a replica
        """
        self.database = database
        self.primary = primary
        self.on_replica = replica
        self.tm = tm
        bind = database.engine if replica is None else replica
        self.session: Any = RequestSession(bind, close_resets_only=False)
        self.session.bound = self
        if SessionDataManager not in tm.readers:
            tm.readers = (*tm.readers, SessionDataManager)
        if database.judge.is_transient not in tm.transient_checks:
            tm.transient_checks.append(database.judge.is_transient)
        tm.registerSynch(self)
        tm.leave_callbacks.append(self.leave)
        database.bounds.add(self)

    def begin(self, connection: Connection) -> None:
        """Note the connection on which the session has begun a transaction of the database."""
        is_second = self.connection is not None and not self.connection.closed
        if is_second or connection.engine.pool is not self.database.engine.pool:
            raise RuntimeError(
                "sql: request.sql uses one connection, to the database of its element. For another database make a "
                "session, and give it to zope.sqlalchemy.register(session, transaction_manager=request.tm)"
            )
        self.connection = connection
        proxied = connection.connection
        self.driver_connection, self.info = proxied.driver_connection, proxied.info
        self.ending = self.committing = self.changed = self.open = self.rolled_back = self.is_watched = False
        self.failure, self.called = "", frozenset()
        self.info[BOUND] = self
        if self.only_reads():
            if self.on_replica is None:  # a connection to a replica never writes
                self.info[END_READING_BY] = self.database.dialect.end_reading
            for statement in self.database.dialect.begin_reading:
                connection.exec_driver_sql(statement)
        connection.__class__ = RequestConnection
        connection.bound = self  # type: ignore[attr-defined]
        if self.database.driver.is_autocommit(self.driver_connection):
            self.info[CLOSE_AT_END] = True
            refuse_autocommit()

    def only_reads(self) -> bool:
        return self.on_replica is not None or reads_only(self.tm)

    def refusal(self, what: object) -> ReadOnlyTransaction | NeedsPrimary:
        """Return the error for a write: R8's, or the one that has the request tried again on the primary."""
        return refusal(self.tm, what) if reads_only(self.tm) else self.need_primary(f"a write ({what!r:.200})")

    def need_primary(self, what: str) -> NeedsPrimary:
        """Return the error that has the request tried again on the primary. A view may swallow it: then the commit
        raises it."""
        self.failure = f"{what} needs the primary, and this attempt at the request reads from a replica"
        self.rolled_back = self.failure_is_transient = True
        return NeedsPrimary(f"sql: {self.failure}")

    def before_statement(self, text: str) -> None:
        """Note a statement that may change something. Refuse it (R8) if the database itself would not."""
        statement = statement_of(text)
        if not statement.is_plain_read or self.database.reads_change:
            if self.only_reads() and (
                not self.database.dialect.begin_reading or statement.is_unrefused or self.state() == IDLE
            ):
                raise self.refusal(text)
            if statement.sets_autocommit:
                refuse_autocommit()
            if statement.takes_back:
                raise RuntimeError("sql: request.sql.rollback() takes back changes; a statement must not")
            if statement.called is None:
                self.info[CLOSE_AT_END] = self.database.is_pooled
            else:
                self.called |= statement.called
            self.changed = self.on_replica is None
        self.look()
        is_settled = self.ending or self.only_reads()
        if statement.may_replace and not is_settled and self.state() in (IDLE, OPEN):
            execute(self.driver_connection, f"SAVEPOINT {WATCHED}")
            self.is_watched = True

    def after_statement(self, text: str) -> None:
        """Notice that the statement has ended the transaction."""
        if self.is_watched:
            self.check_savepoint()
        self.look(statement_of(text))

    def hand_out_driver(self) -> None:
        """Note that the view may use the connection of the driver, where no statement is seen: it may commit (R2a),
        and leave something in its session (R13). Refuse it unless the option allows it."""
        if not self.database.driver_connection:
            raise RuntimeError(
                "sql: request.sql.connection().connection: what a view does by the connection of the driver is not "
                "seen. Use request.sql, or allow it by the option driver_connection = true of sql: then a request "
                "that does so is not tried again, and its connection is closed"
            )
        self.info[CLOSE_AT_END] = self.database.is_pooled
        if self.on_replica is None:
            self.changed, self.tm.outcome = True, self.tm.outcome or "unknown"

    def refuse_or_commit(self) -> None:
        """Refuse to commit a failed transaction. The database would roll it back without an error."""
        connection = self.connection
        if self.lost or (connection is not None and connection.closed):
            raise RuntimeError(
                "sql: the view has ended the connection or the transaction of request.sql, so its changes may be "
                "lost. Only request.sql.rollback() takes back changes"
            )
        if self.rolled_back or self.state() == FAILED:
            raise TransactionFailed(
                f"the transaction failed with an error that the view has swallowed, so it cannot be committed: "
                f"{self.failure}. Put a statement that may fail inside request.sql.begin_nested()",
                self.failure_is_transient,
            )
        self.ending = True

    def has_only_read(self) -> bool:
        """Return whether the commit of this transaction has nothing to flush and nothing to refuse, and no listener
        waits for it."""
        session, connection = self.session, self.connection
        if self.changed or self.failure or connection is None or not connection.in_transaction():
            return False
        if session.new or session.deleted or session.identity_map.check_modified() or not session.is_active:
            return False
        is_awaited = len(session.dispatch.before_commit) > 1 or session.dispatch.after_commit
        return self.resource is not None and not is_awaited

    def commit_reads(self) -> None:
        """Commit a transaction that has only read, and give its connection back."""
        connection: Any = self.connection
        connection.get_transaction().commit()
        self.session.get_transaction().close()
        self.resource.abort(None)  # it lets go of the session, and the objects of the session are read afresh

    def abort(self, resource: Any, transaction: object) -> None:
        """Abort, and roll back: a view may return to a savepoint of ``request.tm`` that is older than what it has
        done with the session. Otherwise the session would go on with that, outside of the transaction."""
        type(resource).abort(resource, transaction)
        if self.session.in_transaction():
            Session.rollback(self.session)

    def begin_commit(self) -> None:
        """Refuse a commit by the view."""
        if not is_committing(self.tm):
            refuse_commit()
        self.ending, self.prepared = True, ""

    def send_commit(self) -> None:
        """Note that COMMIT is sent. From here on the outcome is unknown, whatever is raised and by whom, until the
        commit has come to its end or the database has refused it (R4). Refuse it if another process would not find
        what is stored."""
        if self.changed and not self.database.has_same_file(self.info):
            raise Unavailable("the file of the database was replaced, moved or removed, so nothing is stored in it")
        self.committing = True
        if self.changed:
            self.outcome_before, self.tm.outcome = self.tm.outcome, "unknown"

    def note_refusal(self) -> None:
        """Note that the database has refused COMMIT: nothing is stored."""
        self.committing = False
        self.tm.outcome = self.outcome_before

    def note_end(self, connection: Any) -> None:
        """Ask for the position of the database, and whether a rollback has left something stored (R2a).

        connection  the driver's, without a transaction; None if it is lost
        """
        database = self.database
        if self.positions is not None:
            position = position_after(database.driver, connection, database.dialect.position)
            self.positions[database.short_name] = position
        query, kept = database.dialect.kept
        if query and not self.tm.outcome and connection is not None:
            with suppress(Exception):  # most likely the connection is lost
                if any(code == kept for _, code, *_ in execute(connection, query)):
                    self.tm.outcome = "committed"

    def state(self) -> str:
        """Return the state of the transaction of the database."""
        connection = self.connection
        if connection is None or connection.closed or connection.invalidated:
            return UNKNOWN
        return str(self.database.driver.state(self.driver_connection))

    def has_ended(self) -> bool:
        """Return whether an error has rolled back the transaction: a deadlock does on MariaDB, a full disk on
        SQLite. Ask the database if its driver does not know (R15)."""
        if self.database.dialect.ready:
            with suppress(Exception):  # rows of another statement are unread, most likely
                execute(self.driver_connection, self.database.dialect.ready)
        return self.state() == IDLE

    def look(self, after: Statement | None = None) -> None:
        """Notice that the view has ended the transaction: by a statement, COMMIT or DDL on MariaDB, which may be
        the first one; or by the connection of the driver, which may have taken the changes back."""
        if self.changed and not self.ending:
            state = self.state()
            if state == IDLE and (self.open or (after is not None and not after.is_ordinary)):
                if after is None:
                    self.lost = True
                else:
                    self.tm.outcome = "committed"
                self.database.driver.begin_again(self.driver_connection)
            self.open = state == OPEN

    def check_savepoint(self) -> None:
        """Set the outcome if the savepoint is gone: then the transaction was ended, and another may be open."""
        self.is_watched = False
        failed = self.state() == FAILED
        statement = "ROLLBACK TO SAVEPOINT {name}" if failed else self.database.dialect.has_savepoint
        try:
            execute(self.driver_connection, statement.format(name=WATCHED))
        except Exception as error:
            known = self.database.judge.means(error, "no_savepoint")
            known = known and not self.rolled_back  # a deadlock takes savepoints, too
            self.tm.outcome = "committed" if known else "unknown"
            if not failed and self.state() == FAILED:
                execute(self.driver_connection, "ROLLBACK TO SAVEPOINT pipeline_now")
        if failed:
            self.rolled_back = not self.session.in_nested_transaction()

    def note(self, context: ExceptionContext) -> None:
        """Note an error of a statement, which the view may swallow."""
        error = context.original_exception
        if not self.rolled_back:  # what follows, such as a savepoint that is gone, brings no change back
            self.failure = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            self.failure_is_transient = context.is_disconnect or self.database.judge.means(error, "transient")
            ended = self.open and not context.is_disconnect and self.has_ended()
            self.rolled_back = ended or context.is_disconnect
            if ended:  # or SQLite would store what follows at once
                self.database.driver.begin_again(self.driver_connection)
        self.open = False
        if self.is_watched:
            self.check_savepoint()

    def beforeCompletion(self, transaction: object) -> None:
        """Log the changes that a streamed body has made and not flushed, since they are dropped.

        After a rollback by the view, let zope.sqlalchemy commit the changes that followed it.
        """
        session = self.session
        if not reads_only(self.tm):
            self.look()
            resources = joined(self.tm)
            self.resource = next((one for one in resources if getattr(one, "session", None) is session), None)
            if self.resource is not None:
                if session.get_transaction() is None:
                    session.begin()
                    self.changed = self.rolled_back = False
                    self.lost = not self.taken_back
                self.resource.tx = session.get_transaction()
        else:
            for changed in (*session.new, *filter(session.is_modified, session.dirty)):
                log.error("dropped: %s", refusal(self.tm, changed))

    def afterCompletion(self, transaction: object) -> None:
        """Roll back a transaction that zope.sqlalchemy left open. Mark a commit that has stored nothing."""
        if not is_committed(transaction):
            if self.session.in_transaction():
                Session.rollback(self.session)
            if self.prepared and not all_voted(transaction):
                self.database.drop_prepared(self.prepared)
                self.prepared = ""
        elif not self.changed and self.resource is not None:
            self.resource.state = "no work"
        self.resource = self.connection = None

    def newTransaction(self, transaction: object) -> None:
        self.taken_back = self.lost = False

    def leave(self) -> None:
        """End the session and give back the connection. Objects of the session that are in use are detached."""
        self.tm.kept.pop(self.primary, None)
        self.database.bounds.discard(self)
        session, self.session, self.connection = self.session, None, None  # no reference cycle is left
        try:
            self.tm.unregisterSynch(self)
        finally:
            Session.close(session)
            if self.on_replica is not None:
                self.on_replica.close()

    def leave_to_parent(self) -> None:
        """Have every use of the session, of its connection and of its transaction raise in this process (R13)."""
        forks.keep(self, self.session, self.connection, self.tm, self.tm._txn)
        self.tm.disown()
        forks.seal(self.session, "the session of a request")
        if self.connection is not None:
            forks.seal(self.connection, "the connection of a request")


@event.listens_for(RequestSession, "after_transaction_create")
def _join(session: RequestSession, transaction: SessionTransaction) -> None:
    """Join the transaction of the request, at the first use of the session. Refuse it if that has ended."""
    if transaction.parent is None:
        bound = session.bound
        try:
            bound.tm.get()  # it begins one that only reads, after the answer; that needs no second phase
            session.twophase = bound.database.twophase and not bound.only_reads()
            join_transaction(session, STATUS_CHANGED, bound.tm, keep_session=True)
        except BaseException:
            session.expire_all()  # forgets that an object was about to change
            transaction.close()
            raise


@event.listens_for(RequestSession, "after_begin")
def _after_begin(session: RequestSession, transaction: SessionTransaction, connection: Connection) -> None:
    if not transaction.nested:
        session.bound.begin(connection)


@event.listens_for(RequestSession, "before_attach")
def _before_attach(session: RequestSession, instance: object) -> None:
    if session.bound.only_reads():
        raise session.bound.refusal(instance)


@event.listens_for(RequestSession, "before_commit")
def _before_commit(session: RequestSession) -> None:
    if not session.in_nested_transaction():
        if not is_committing(session.bound.tm):
            refuse_commit()
        session.bound.refuse_or_commit()


def refuse_commit() -> NoReturn:
    raise RuntimeError("sql: request.tm.commit() commits the session; request.sql.commit() must not")


def refuse_autocommit() -> NoReturn:
    raise RuntimeError(
        "sql: AUTOCOMMIT: no statement could be rolled back, and a request that is tried again would store its "
        "changes twice. Leave it out of the URL, of execution_options and of SET"
    )


def refuse_autocommit_option(target: object, options: Mapping[str, Any]) -> None:
    """Refuse ``isolation_level="AUTOCOMMIT"`` in the execution options of an engine or statement."""
    if str(options.get("isolation_level", "")).upper() == "AUTOCOMMIT":
        refuse_autocommit()


def set_isolation_level(set_level: Callable[[Any, str], None], connection: Any, level: str) -> None:
    """Refuse AUTOCOMMIT in the execution options of a connection."""
    if level == "AUTOCOMMIT":
        refuse_autocommit()
    set_level(connection, level)


def watch_statement(dialect: Any, name: str, cursor: Any, statement: str, *arguments: Any) -> bool:
    """Execute a statement of a request, between what has to be noted of it. Return whether it is one.

    name       the method of the dialect that executes it
    arguments  its parameters, if it has any, and the context of its execution
    """
    context = arguments[-1]
    connection = getattr(context, "root_connection", None)
    if not isinstance(connection, RequestConnection):
        info = None if connection is None else connection.connection.record_info
        if info is not None:
            info[READ] = info.get(READ, True) and statement_of(statement).is_plain_read
        return False
    if context.execution_options:
        refuse_autocommit_option(connection, context.execution_options)
    connection.bound.before_statement(statement)
    getattr(dialect, name)(cursor, statement, *arguments)
    connection.bound.after_statement(statement)
    return True


def commit(send: Callable[[Any], object], connection: Any) -> None:
    """Commit. If it is a connection that a view has taken from the engine, its request is not tried again (R2a).

    send  the method of the dialect that commits
    """
    send(connection)
    if BOUND not in connection.info:
        note_own_commit()
