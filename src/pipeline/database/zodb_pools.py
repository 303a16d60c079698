"""The connections to ZODBs that stay open between requests.

A connection has a transaction manager of its own, so that a request only pays for the begin and the end of a
transaction. One request at a time uses it.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from threading import RLock, Semaphore
from typing import Any
from weakref import WeakSet

from ZODB.Connection import Connection
from ZODB.DB import DB
from ZODB.POSException import ConflictError
from ZODB.utils import u64, z64

from pipeline.database import forks, pools
from pipeline.database.changes import Changes, can_tell
from pipeline.database.connections import keep, leave_to_parent
from pipeline.database.outages import Outage
from pipeline.database.places import loggable_uri
from pipeline.database.pools import close_all as close_all
from pipeline.database.sources import Given, Source, is_avoidable, lost_exceptions, note_statement
from pipeline.database.storages import ask_for_news
from pipeline.database.transactions import IDLE, IN_USE, INHERITED, DatabaseRequest, Manager, begin, begin_to_read
from pipeline.database.written import NOTHING, Positions
from pipeline.interfaces import ConfigurationError, Unavailable

log = logging.getLogger("pipeline.zodb")


class PooledRequest(DatabaseRequest):
    """The attributes of a request that uses a pool."""

    __unkept__: Any = tuple((name, lambda value: "") for name in ("zodb", "root", "zodb_pooled"))
    zodb_changes: Callable[[Any], Changes | None] | None = None
    """Given the request, returns what has changed in the database since this process has opened it, or None if it
    is not open or not connected. None if the storage cannot tell."""
    zodb_pooled: PooledConnection | None = None
    """The pooled connection with its transaction manager; None until the request uses it."""

    def __positions__(self) -> Positions:
        return NOTHING if self.zodb_pooled is None else self.zodb_pooled.pool.positions()


class PooledConnection:
    """A connection that stays open between requests, with a transaction manager of its own."""

    def __init__(self, pool: Pool, db: DB) -> None:
        self.pool = pool
        self.epoch = pool.epoch
        self.since = 0.0
        self.tm = pool.manager()
        self.tm.transient_checks.append(self._is_lost)
        self.connection = db.open(transaction_manager=self.tm)
        keep(self.connection, self.tm)
        self.root: Any = None
        """The root of the database; None before the first transaction."""
        with pool.lock:
            pool.all.add(self)

    def _is_lost(self, error: BaseException) -> bool:
        """Return whether a new connection may avoid this error."""
        is_lost = is_avoidable(error, self.pool.lost)
        if isinstance(error, ValueError) and "A different object already has the same oid" in error.args:
            # A ZEO server that was restarted has given our ids to other clients, so the rest must not be used.
            is_lost = True
            for db in list(self.pool.databases.values()):
                if isinstance(oids := getattr(db.storage, "_oids", None), list):
                    oids.clear()
        if is_lost:
            note_statement(error)
        self.tm.must_discard = self.tm.must_discard or is_lost
        return is_lost

    def give_back(self) -> None:
        """Take the connection back from a request: keep it for another request, or throw it away."""
        if self.tm.stage is INHERITED:
            return
        tm, pool = self.tm, self.pool
        if tm._txn is not None or tm.deferred or tm.leave_callbacks:
            try:
                tm.leave()
            except BaseException:
                self.throw_away()
                raise
        else:
            tm.stage = IDLE
        if tm.must_discard or self.epoch is not pool.epoch or len(pool.idle) >= pool.size:
            self.throw_away()
            if tm.must_discard:
                pool.close_if_dead()
            return
        if pool.timeout is not None:
            self.since = time.monotonic()
            with suppress(IndexError):
                while pool.idle[0].since < self.since - pool.timeout:
                    pool.idle.popleft().throw_away()
        pool.idle.append(self)

    def throw_away(self) -> None:
        """Close the connection finally. ``close()`` would return it to ZODB's own pool."""
        self.pool.all.discard(self)
        try:
            try:
                self.tm.leave()
            finally:
                self.connection._release_resources()
        except Exception:  # most likely it is thrown away because its server is gone
            log.debug("a connection could not be closed properly", exc_info=True)

    def leave_to_parent(self) -> None:
        """Keep this process from using or closing the connection of its parent (R12)."""
        tm = self.tm
        forks.keep(self, tm._txn)
        tm.disown()
        if isinstance(self.pool.main, Given):
            for connection in list(self.connection.connections.values()):
                leave_to_parent(connection)


class Pool:
    """One main database of this process, the databases beside it, and the idle connections."""

    def __init__(
        self,
        main: Source | Given,
        others: Mapping[str, str],
        settings: Mapping[str, Any],
        manager: type[Manager],
    ) -> None:
        self.manager = manager
        self.others = dict(others)
        self.settings = dict(settings)
        self.max: int | None = settings.get("max_connections")
        self.wait: float = settings.get("connection_wait", 0.0)
        self.main = main
        self.beside = {name: Source(uri, settings, name) for name, uri in self.others.items()}
        if self.main.name in self.beside:
            raise ConfigurationError(f"zodb: two databases are named {self.main.name!r}")
        self.size: int = self.main.options["pool_size"]
        self.timeout: float | None = self.main.options.get("pool_timeout")
        self.idle: deque[PooledConnection] = deque()
        self.forget()
        pools.add(self)

    def made_of(self) -> tuple[object, ...]:
        """Return the database and the options. Another element with the same ones gets the same pool."""
        return self.main.made_of, self.others, self.settings, self.manager

    def usage(self) -> pools.Usage:
        """Return how full the pool is."""
        idle = len(self.idle)
        return pools.Usage(self.main.shown, max(0, len(self.all) - idle), idle, self.max)

    def forget(self) -> None:
        """Return to the state before the first request."""
        self.idle.clear()
        self.epoch = object()
        self.lock = RLock()
        self.db: DB | None = None
        self.databases = _Databases(self)
        self.told: Changes | None = None
        self.is_connected: Callable[[], bool] | None = None
        self.lost: tuple[type[BaseException], ...] = ()
        self.behind: dict[str, Any] = {}
        """The storages that learn of the commits of other processes late, by a short name of their URI."""
        self.all: set[PooledConnection] = set()
        self.slots = None if self.max is None else Semaphore(self.max)
        for source in (self.main, *self.beside.values()):
            source.outage = Outage(f"the database {source.shown}")

    def use(self, request: PooledRequest) -> PooledConnection:
        """Return the connection of a request. The first call takes one and begins its transaction."""
        if request.tm_in_use is not None and request.zodb_pooled is not None:
            return request.zodb_pooled
        forks.check()
        slots = self.slots if request.zodb_pooled is None else None  # it has one already, if it reads on afterwards
        if slots is not None and not slots.acquire(timeout=self.wait):
            raise Unavailable(
                f"zodb: all {self.max} connections (max_connections) were in use for {self.wait:g} seconds"
            )
        try:
            if self.is_connected is not None:  # to ask the storage is faster than a call that times out
                if not self.is_connected():
                    raise self.main.outage.begin(ConnectionError("it is disconnected"))
                if self.main.outage.since is not None:
                    self.main.outage.end()
            if self.behind and request.written:
                self._catch_up(request)
            pooled = self._take(request)
        except BaseException:
            if slots is not None:
                slots.release()
            raise
        request.zodb_pooled = pooled
        request.tm_in_use = pooled.tm
        request.on_close(pooled.give_back, last=True)
        if slots is not None:
            request.on_close(slots.release, last=True)  # runs after the connection is given back
        return pooled

    def changes(self, request: PooledRequest | None) -> Changes | None:
        """Return what has changed in the main database from the first call on. Return None if the database is not
        open, or not connected, or cannot tell.

        request  what its visitor has written is among the changes; None if it is for no request
        """
        forks.check()
        db = self.db
        if db is None or (self.is_connected is not None and not self.is_connected()):
            return None
        if request is not None and request.written:
            self._catch_up(request)
        if self.told is None and can_tell(db):
            with self.lock:
                if self.told is None and self.db is db:
                    self.told = Changes(db)
        return self.told

    def _take(self, request: PooledRequest) -> PooledConnection:
        """Take an idle connection, or open a new one, and begin its transaction."""
        while True:
            try:
                pooled = self.idle.pop()
            except IndexError:
                return self._new(request)
            try:
                begin(request, pooled.tm)
                if not pooled.tm.must_discard:  # else an object was changed between two requests
                    return pooled
            except BaseException as error:
                pooled.throw_away()
                if not isinstance(error, Exception):
                    raise
                log.debug("a connection is dead", exc_info=True)
            else:
                pooled.throw_away()

    def _new(self, request: PooledRequest) -> PooledConnection:
        """Open a new connection."""
        outage = self.main.outage
        db = self.db
        if db is None:
            db = self.open(self.main)
        else:
            outage.check()
        pooled = None
        try:
            pooled = PooledConnection(self, db)
            begin(request, pooled.tm)
            pooled.root = pooled.connection.get(z64)
        except BaseException as error:
            if pooled is not None:
                pooled.throw_away()
            if isinstance(error, ConflictError) or not isinstance(error, Exception):
                raise
            raise outage.begin(error) from error
        if outage.since is not None:
            outage.end()
        return pooled

    def _catch_up(self, request: PooledRequest) -> None:
        """Ask the servers for what other processes have committed, if the visitor has written some of it that is
        not here yet. What they do not know either is forgotten, so that they are asked once for a request."""
        for name, position in self.positions().items():
            if position < request.written.get(name, 0):
                try:
                    ask_for_news(self.behind[name])
                except Exception as error:
                    raise self.main.outage.begin(error) from error
                if (reached := self.positions()[name]) < request.written[name]:  # it was restored from a backup
                    request.written = {**request.written, name: reached}

    def positions(self) -> dict[str, int]:
        """Return the id of the last transaction that this process has seen, of each database on a ZEO server."""
        return {name: u64(storage.lastTransaction()) for name, storage in list(self.behind.items())}

    def open(self, source: Source | Given) -> DB:
        """Return one of the databases, and open it if necessary. Raise Unavailable if that fails."""
        outage = source.outage
        failures = outage.failures
        outage.check()
        with self.lock:
            if source.name in self.databases:
                return self.databases[source.name]
            if outage.failures != failures:  # another request has tried while this one waited
                raise outage.unavailable()
            try:
                db = source.open(self.databases)
            except ConflictError:  # other processes still make the root of a new database
                raise
            except Exception as error:
                raise outage.begin(*source.describe(error)) from error
            outage.end()
            self.lost += lost_exceptions(db.storage)
            if hasattr(db.storage, "ping"):
                self.behind[source.short_name] = db.storage
            if source is self.main:
                self.db = db
                self.is_connected = getattr(db.storage, "is_connected", None)
            return db

    def leave_to_parent(self) -> None:
        """Return to the state before the first request, and leave the connections of the parent alone (R12)."""
        databases = list(self.databases.values())
        forks.keep(self.db, *databases)
        for pooled in list(self.all):
            pooled.leave_to_parent()
        for db in () if isinstance(self.main, Given) else databases:
            for connection in (*db.pool, *db.historical_pool):  # also those that views have opened
                leave_to_parent(connection)
            forks.seal(db, f"the database {self.main.shown}")
        self.forget()

    def close_if_dead(self) -> None:
        """Close the databases if a file storage has closed its file, as it does when a commit fails at the end."""
        file = getattr(self.db and self.db.storage, "_file", None)
        if getattr(file, "closed", False):
            self.close()

    def close(self) -> None:
        """Close the databases, and the connections in use. The next request opens them again."""
        with self.lock:
            pooled, databases = list(self.all), list(self.databases.values())
            if self.told is not None:
                self.told.close()
            self.forget()
        for one in pooled:
            one.throw_away()
        for db in () if isinstance(self.main, Given) else databases:
            try:
                for connection in list(db.pool):  # a view has opened it, most likely in another thread
                    connection.abort(None)
                    connection.transaction_manager = None
                db.close()
            except Exception:
                log.exception("%s could not be closed properly", db.getName())


class _Databases(dict[str, DB]):
    """The databases that refer to each other, by name. All but the main one are opened on first use."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def __missing__(self, name: str) -> DB:
        if name not in self.pool.beside:
            raise KeyError(name)
        return self.pool.open(self.pool.beside[name])


_pools: dict[str, Pool] = {}
_given: WeakSet[Pool] = WeakSet()
"""The pools of databases that the application has opened."""


def pool_of(
    uri: str, databases: Mapping[str, str], settings: Mapping[str, Any], manager: type[Manager] = Manager
) -> Pool:
    """Return the pool of a main database. A process has one pool for it, since a file storage can only be opened
    once."""
    uris = (uri, *databases.values())
    with pools.lock:
        pool = _pools.get(uri)
        if pool is None:
            for number, other in enumerate(uris):
                if other in _pools or other in uris[:number]:
                    raise ConfigurationError(f"zodb: {loggable_uri(other)!r} would be opened twice in this process")
            pool = Pool(Source(uri, settings), databases, settings, manager)
            _pools.update(dict.fromkeys(uris, pool))
        elif pool.made_of() != (uri, databases, settings, manager):
            raise ConfigurationError(
                f"zodb: two elements open {loggable_uri(uri)!r} with different options. Give them the same "
                f"options: a process opens a database once"
            )
        return pool


def pool_of_given(
    db: DB, databases: Mapping[str, str] | None, settings: Mapping[str, Any], manager: type[Manager]
) -> Pool:
    """Return the pool of connections to a database that the application has opened. Elements with the same database
    and options have the same one, so that volatile attributes of its objects are not lost between them."""
    if databases or not settings.keys() <= {"max_connections", "connection_wait"}:
        raise ConfigurationError(
            "zodb: a database that is given by db has its own options. Set them where it is made"
        )
    with pools.lock:
        pool = next((pool for pool in _given if pool.made_of() == (db, {}, settings, manager)), None)
        if pool is None:
            pool = Pool(Given(db), {}, settings, manager)
            _given.add(pool)
        return pool


def idle_connections() -> Iterator[Connection]:
    """Yield each connection that is kept for the next request, in a transaction that reads the current state,
    and those beside it to other databases."""
    for pool in {*_pools.values(), *_given}:
        for pooled in list(pool.idle):
            pooled.tm.stage = IN_USE
            begin_to_read(pooled.tm)
            try:
                yield from list(pooled.connection.connections.values())
            finally:
                pooled.tm.leave()
