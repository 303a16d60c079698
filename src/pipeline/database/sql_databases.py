"""The SQL databases of this process: the engine of each, and the sessions that requests use.

The element ``sql`` opens one by its URL and settings. A process has one for each.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import ReferenceType, ref

from sqlalchemy import create_engine, event
from sqlalchemy.engine import ExceptionContext, make_url
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.exc import InvalidatePoolError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection, QueuePool
from sqlalchemy.util.queue import Empty

from pipeline.database import forks, pools
from pipeline.database.outages import Outage
from pipeline.database.places import hosts_of, is_at, loggable_uri, make_file, sqlite_file, without_secrets
from pipeline.database.pools import close_all as close_all
from pipeline.database.sql_dialects import SQLITE, dialect_of, refuse_unknown_level, time_outs
from pipeline.database.sql_drivers import CONNECTING, begin_in_sqlite, execute, leave_transactions_to_us
from pipeline.database.sql_errors import Judge, hide_values, make_unavailable
from pipeline.database.sql_sessions import (
    BOUND,
    CLOSE_AT_END,
    END_READING_BY,
    READ,
    Bound,
    RequestConnection,
    commit,
    refuse_autocommit_option,
    set_isolation_level,
    watch_statement,
)
from pipeline.database.statements import CHANGES, COMPUTING, READS
from pipeline.database.transactions import manager_here, note_own_commit
from pipeline.database.written import short_name
from pipeline.interfaces import CommitUncertain, ConfigurationError, Unavailable

log = logging.getLogger("pipeline.sql")

UNSEEN = frozenset({READS})
"""The functions that count as called by each request."""
KNOWN_FOR = 60.0
"""Seconds for which it is known what a function and the triggers of a database leave in a session."""


class Database:
    """The database of one URL in this process: its engine, and the sessions that requests use."""

    def __init__(
        self, url: str, twophase: bool, settings: dict[str, Any], time_limits: dict[str, float | None]
    ) -> None:
        if str(settings.get("isolation_level")).upper() == "AUTOCOMMIT":
            raise ConfigurationError("sql: with AUTOCOMMIT no statement can be rolled back; leave it out")
        try:
            parsed = make_url(url)
            if "@" in (parsed.host or ""):
                raise ConfigurationError("sql: option 'url': an '@' in a user or a password is written %40")
            if "autocommit" in parsed.query:
                raise ConfigurationError(
                    "sql: option 'url': with autocommit no statement can be rolled back; leave it out of the URL"
                )
            own, self.driver = dialect_of(parsed.get_backend_name(), parsed.get_driver_name())
            hosts = [] if self.driver.knows_hosts else hosts_of(parsed)
            parsed = parsed.difference_update_query(["host"]) if hosts else parsed
            given = {name: int(str(parsed.query[name])) for name, _ in self.driver.sure if name in parsed.query}
            self.connect_args = {**dict(self.driver.sure), **given}
            settings = {**settings, "connect_args": self.connect_args}
            self.driver_connection = settings.pop("driver_connection", False)
            if own is SQLITE:
                settings["pool_pre_ping"] = False  # its connections die with their file, which is compared
            parsed = parsed.difference_update_query(given)
            if parsed.get_dialect()().get_dialect_pool_class(parsed) is QueuePool:
                settings = {"pool_size": 8, **settings, "poolclass": Connections}
            self.engine = create_engine(parsed, **settings)
        except (SQLAlchemyError, ImportError, TypeError, ValueError) as error:
            said = without_secrets(f"{type(error).__name__}: {error}", url)
            raise ConfigurationError(f"sql: {said}") from None
        self.hosts = hosts or [{}]
        """Arguments of connecting to each host. The first one answered last. A new list takes the place of this."""
        self.file = sqlite_file(url)
        """The file, if it is one of SQLite."""
        dialect = self.engine.dialect
        refuse_unknown_level(dialect, str(settings.get("isolation_level") or ""))
        self.dialect = own
        self.judge = Judge(own.errors, dialect.loaded_dbapi.Error)
        self.is_pooled = isinstance(self.engine.pool, Connections)
        if twophase and type(dialect).do_begin_twophase is DefaultDialect.do_begin_twophase:
            raise ConfigurationError(f"sql: {dialect.name} has no two-phase commit")
        self.twophase = twophase
        self.at_connect = list(time_outs(own, dialect.name, **time_limits))
        self.shown = loggable_uri(url)
        self.short_name = short_name(self.shown)
        self.replica: Any = None
        """The ``pipeline.database.replicas.Replica`` if it is one."""
        self.tells = False
        """True if ``causal`` has to know the position after each commit."""
        self.outage = Outage(f"the database {self.shown}")
        meanwhile = "requests wait for those that are open, or are answered 503"
        self.refusals = Outage(f"one more connection to the database {self.shown}", meanwhile)
        self.writes = Outage(f"the database {self.shown}", "requests that only read are answered")
        self.bounds: set[Bound] = set()
        """The sessions that requests use."""
        self.functions: dict[str, bool] = {}
        """The functions that were called, and whether they may leave something in their session."""
        self.functions_until = 0.0
        """When the database is asked for them again, in the time of ``time.monotonic``."""
        self.reads_change = False
        """True if what looks like a read may change something, by a view or a function of the database."""
        self.records: set[ReferenceType[Any]] = set()
        """The connections to the database, each as the pool keeps it. Other threads add some at any time."""
        self._listen()
        pools.add(self)

    def usage(self) -> pools.Usage:
        """Return how full the pool of the engine is."""
        pool = self.engine.pool
        if not isinstance(pool, QueuePool):  # it keeps no connections, or one for each thread
            return pools.Usage(self.shown, len(self.bounds), 0, None)
        limit = None if pool._max_overflow < 0 else pool.size() + pool._max_overflow
        return pools.Usage(self.shown, pool.checkedout(), pool.checkedin(), limit)

    def _listen(self) -> None:
        """Listen to the events of the dialect and the pool. Those of the engine would make objects for each of a
        request's connections, 12 % of a request that reads one row: ``RequestConnection`` has methods for them."""
        dialect: Any = self.engine.dialect
        for name in ("do_execute", "do_executemany", "do_execute_no_params"):
            event.listen(self.engine, name, partial(watch_statement, dialect, name))
        event.listen(self.engine, "handle_error", self.on_error)
        dialect.set_isolation_level = partial(set_isolation_level, dialect.set_isolation_level)
        dialect.do_commit = partial(commit, dialect.do_commit)
        event.listen(self.engine, "set_engine_execution_options", refuse_autocommit_option)
        vars(self.engine).pop("_has_events", None)  # this one is called in any case
        event.listen(self.engine, "checkin", self.on_checkin)
        event.listen(self.engine, "connect", self.on_connect)
        if self.twophase:
            event.listen(self.engine, "first_connect", self.tell_in_doubt)
        if self.dialect is SQLITE:
            event.listen(self.engine, "connect", leave_transactions_to_us)
            dialect.do_begin = begin_in_sqlite
            if self.file is not None:
                event.listen(self.engine, "checkout", self.refuse_other_file)
        event.listen(self.engine, "do_connect", self.connect)

    def connect(self, dialect: Any, record: Any, arguments: Any, options: dict[str, Any]) -> Any:
        """Return a connection of the driver to the first of the hosts that takes statements."""
        limit = self.driver.answers
        limited = {} if limit is None or limit[0] in options else {limit[0]: CONNECTING}
        if self.file is not None:
            with suppress(OSError):  # SQLite says why it cannot be made
                make_file(self.file)
        hosts = self.hosts  # other threads change their order
        for number, host in enumerate(hosts, 1):
            connection = None
            try:
                connection = dialect.connect(*arguments, **options | limited | host)
                if self.dialect.ready:
                    execute(connection, self.dialect.ready)
                if limit is not None and limited:
                    limit[1](connection)
                self.writes.end()
                self.hosts = [*hosts[number - 1 :], *hosts[: number - 1]]
                return connection
            except (self.judge.of_driver, OSError) as error:  # pg8000 raises what the socket raises
                if connection is not None:
                    connection.close()
                if options.get("target_session_attrs") in ("read-write", "primary"):
                    connection = dialect.connect(*arguments, **options | {"target_session_attrs": "any"})
                    self.writes.begin(error, "takes no writes")
                    record.info[CLOSE_AT_END] = True  # the next request looks again for a host that does
                    return connection
                if number == len(hosts):
                    if self.has_connections():  # the request may get one of them
                        self.refusals.begin(error)
                    if isinstance(error, self.judge.of_driver):
                        raise
                    raise self.judge.of_driver(f"{type(error).__name__}: {error}") from error
        return None

    def on_connect(self, connection: Any, record: Any) -> None:
        self.refusals.end()
        self.records.add(ref(record, self.records.discard))
        if self.file is not None:
            record.info[FILE] = os.stat(self.file)
        if self.at_connect:
            execute(connection, *self.at_connect)
            connection.commit()  # otherwise PostgreSQL undoes the settings with the first rollback
        self.leaves(connection, UNSEEN)
        record.record_info.pop(READ, None)  # SQLAlchemy has asked the first one for the server

    def on_checkin(self, connection: Any, record: Any) -> None:
        """Return a connection to the state in which the next request takes it, or close it."""
        bound = record.info.pop(BOUND, None)
        if bound is not None and bound.changed:
            bound.note_end(connection)
        is_own = bound is None and self.replica is None  # a view has asked the engine for it
        if not record.record_info.pop(READ, False) and is_own and connection is not None:
            note_own_commit("unknown")  # by COMMIT in a statement, or by the driver
            if self.tells and (tm := manager_here()) is not None and self in tm.kept:
                tm.kept[self].note_end(connection)
        end_reading = record.info.pop(END_READING_BY, None)
        called = UNSEEN if bound is None else bound.called
        is_unseen = is_own and self.is_pooled
        if record.info.pop(CLOSE_AT_END, is_unseen) or (connection and self.leaves(connection, called)):
            record.invalidate()
        elif end_reading is not None and connection is not None:
            try:
                execute(connection, end_reading)
            except Exception as error:  # most likely the connection is lost; it must not be used again
                record.invalidate(error)

    def tell_in_doubt(self, connection: Any, record: object) -> None:
        """Log the transactions that another process has prepared, and how an operator ends them (R4)."""
        if self.dialect.in_doubt is None:
            return
        query, commit, rollback, _ = self.dialect.in_doubt
        names = []
        try:
            names = [row[-1] for row in execute(connection, query)]
        except Exception as error:
            log.warning("%s: the prepared transactions cannot be read: %s", self.shown, error)
        finally:
            connection.rollback()
        for name in names:
            name = name if isinstance(name, str) else bytes(name).decode("utf-8", "backslashreplace")
            log.warning(
                "%s: the transaction '%s' is prepared and holds its locks. If no running process is committing it, "
                "end it as the other database has ended: %s '%s' stores its changes, %s '%s' drops them",
                *(self.shown, name, commit, name, rollback, name),
            )

    def drop_prepared(self, id: str) -> None:
        """Roll back a prepared transaction, if its connection was lost before it could be: it would keep its locks
        until an operator comes. No commit of it was sent."""
        words = self.dialect.in_doubt
        try:
            with self.engine.connect() as connection:
                found = connection.recover_twophase()
                if words is not None and (id in found or id.encode() in found):
                    connection.exec_driver_sql(words.alone)
                    connection.rollback_prepared(id, recover=True)
                connection.invalidate()
        except Exception:
            log.warning("the transaction '%s' may be prepared, and hold its locks: roll it back", id, exc_info=True)

    def open_session(self, request: Any) -> Session:
        """Open the session of a request, or return the one that its transaction manager has already."""
        forks.check()
        tm = request.tm
        bound: Bound | None = tm.kept.get(self)
        if bound is None:
            if self.outage.since is not None and not self.has_connections(idle=True):
                self.outage.check()
                with self.engine.connect() as connection:  # raises Unavailable again, or ends the outage
                    connection.invalidate()
                self.outage.end()
            bound = tm.kept[self] = Bound(self, tm, self)
            if self.tells:
                bound.positions = vars(request).setdefault("_sql_positions", {})
        session: Session = bound.session
        return session

    def on_error(self, context: ExceptionContext) -> None:
        """Raise or mark an error of the driver whose meaning is only known here."""
        if context.is_pre_ping:
            return
        error = context.original_exception
        if self.engine.hide_parameters:
            hide_values(error, context.sqlalchemy_exception, context.parameters)
        connection = context.connection
        if connection is None:  # one refused connection says nothing of those that are open (R15)
            outage = self.refusals if self.has_connections() else self.outage
            raise outage.begin(error) from error
        if connection.closed or connection.invalidated:
            return
        bound = connection.bound if isinstance(connection, RequestConnection) else None
        if bound is not None and bound.only_reads() and self.judge.means(error, "read_only"):
            raise bound.refusal(context.statement) from error
        if bound is not None and bound.on_replica and bound.failure:  # the view has swallowed the first error
            raise bound.need_primary("what follows an error") from error
        if self.judge.is_lost(error):
            context.is_disconnect = True
            if isinstance(error, OSError) and not (bound is not None and bound.committing):
                statement, values = context.statement, context.parameters
                raise OperationalError(statement, values, error, connection_invalidated=True) from error
        if bound is not None:
            if bound.committing and bound.changed:
                if context.is_disconnect or not self.judge.was_refused(error):
                    what = "COMMIT failed with an error that does not say that nothing is stored"
                    raise CommitUncertain(f"{what}: {type(error).__name__}") from error
                bound.note_refusal()
            bound.note(context)
        if self.judge.means(error, "not_now") and context.sqlalchemy_exception is not None:
            make_unavailable(context.sqlalchemy_exception)

    def has_connections(self, idle: bool = False) -> bool:
        """Return whether connections are open that were not found dead.

        idle  whether one must be free
        """
        since = getattr(self.engine.pool, "_invalidate_time", 0.0)
        return any(
            record.dbapi_connection is not None
            and record.starttime >= since
            and not (idle and record.fairy_ref is not None)
            for record in self.open_records()
        )

    def leaves(self, connection: Any, called: frozenset[str]) -> bool:
        """Return whether one of these functions, or one that any statement calls unseen, may leave something in its
        session, such as a setting or a lock. The database is asked for each once in a while, on the driver's
        connection, which has no transaction."""
        if not self.dialect.leaving:
            return False
        now = time.monotonic()
        if now >= self.functions_until:  # one may have been replaced, and a trigger made
            self.functions, self.functions_until = {}, now + KNOWN_FOR
        known = self.functions
        unknown = (called | UNSEEN) - known.keys()
        if unknown:
            lists = {"names": unknown, "computing": COMPUTING}
            quoted = {name: ", ".join(f"'{one}'" for one in names) for name, names in lists.items()}
            asked = (*self.dialect.before_leaving, self.dialect.leaving.format(**quoted))
            try:
                found = {str(row[0]).lower() for row in execute(connection, *asked)}
            except Exception:  # most likely the connection is lost
                return True
            finally:
                with suppress(Exception):
                    connection.rollback()
            known.update((name, name in found) for name in unknown)
            self.reads_change = CHANGES in found
        return known[READS] or any(known.get(name, False) for name in called)

    def open_records(self) -> list[Any]:
        return [record for one in list(self.records) if (record := one()) is not None]

    def connections_in_use(self) -> list[Any]:
        """Return the driver's connections that requests have taken."""
        return [record.driver_connection for record in self.open_records() if record.fairy_ref is not None]

    def has_same_file(self, info: Mapping[Any, Any]) -> bool:
        """Return whether the file of a connection is still the one at the path: no other process would find what
        is stored in another. True without a file."""
        return self.file is None or is_at(info[FILE], self.file)

    def refuse_other_file(self, connection: Any, record: Any, proxy: object) -> None:
        """Have a connection replaced if its file was."""
        if not self.has_same_file(record.info):
            raise InvalidatePoolError(f"{self.file} was replaced, moved or removed")

    def leave_to_parent(self) -> None:
        """Leave alone the connections of a parent process (R12). Have every use of them raise here (R13)."""
        forks.keep(self.engine.pool)
        if self.replica is not None:
            self.replica.forget()
        for bound in self.bounds:
            bound.leave_to_parent()
        for record in self.open_records():
            forks.keep(record, record.fairy_ref and record.fairy_ref())
            if record.dbapi_connection is not None:
                forks.keep(record.dbapi_connection)
                try:
                    self.driver.cut_off(record.driver_connection)
                except Exception:  # most likely the parent has closed it
                    log.debug("a connection of the parent process is not cut off", exc_info=True)
        self.bounds.clear()
        self.records.clear()
        self.engine.dispose(close=False)
        self.forget_outages()

    def close(self) -> None:
        """Close the idle connections."""
        if self.replica is not None:
            self.replica.stop()
        self.engine.dispose()
        self.forget_outages()

    def forget_outages(self) -> None:
        for outage in (self.outage, self.refusals, self.writes):
            outage.forget()


class Connections(QueuePool):
    """The pool of an engine. It raises Unavailable if no connection becomes free in time."""

    def _do_get(self) -> ConnectionPoolEntry:
        begun = time.monotonic()
        try:
            return super()._do_get()
        except PoolTimeout as error:
            raise Unavailable(f"every connection to the database is in use: {error}") from error
        except Exception:  # one more was refused: as many as the server allows may be open
            while self.checkedout() and time.monotonic() < begun + CONNECTING:
                with suppress(Empty):
                    return self._pool.get(True, 0.1)
            raise

    def connect(self) -> PoolProxiedConnection:
        try:
            return super().connect()
        except OSError:  # the ping of pg8000 raises what the socket raises. The pool has dropped this connection
            return self.connect()


FILE = "pipeline.sql.file"
"""The key in the ``info`` of a connection to SQLite for its file: what ``os.stat`` says of it."""


_databases: dict[object, Database] = {}


def database_of(
    url: str, twophase: bool, settings: dict[str, Any], time_limits: dict[str, float | None]
) -> Database:
    """Return the database of a URL with these settings. A process has one."""
    key = (url, twophase, *sorted(settings.items()), *time_limits.values())
    with pools.lock:
        database = _databases.get(key)
        if database is None:
            database = _databases[key] = Database(url, twophase, settings, time_limits)
        return database
