"""``zodb``: an object database, opened by the first request that uses it.

A connection is kept open between requests with a transaction manager of its own, so that a request pays
for beginning a transaction and for ending it, and no more. One request at a time has it.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from threading import Lock, RLock
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakSet

import zodburi
from transaction import TransactionManager
from zc.lockfile import LockError
from ZODB.Connection import Connection
from ZODB.DB import DB
from ZODB.POSException import ConflictError
from ZODB.utils import z64

from pipeline.composition import Offers, element
from pipeline.database.outages import Outage
from pipeline.database.transactions import OFFERED, DatabaseRequest, Manager, begin
from pipeline.interfaces import ConfigurationError, Handler
from pipeline.options import resolve
from pipeline.request import on_first_use

log = logging.getLogger("pipeline.zodb")

POOL_SIZE = 16
"""More than most servers have threads: each of these keeps a cache warm."""
ZEO_TIMEOUT = 5
"""Seconds that a request waits for a ZEO server; ZEO's own default, 30, is more than a visitor waits."""


class ZodbRequest(DatabaseRequest):
    """What ``zodb`` adds to a request."""

    zodb: Connection = on_first_use(dropped=True)
    """The ZODB connection of this request; ``zodb.get_connection(name)`` is one to another named database."""
    zodb_kept: Kept | None = None
    """The connection with its transaction manager, once the request uses it."""


@element(
    adds=ZodbRequest,
    provides=("root", "database"),
    inside={"retry": "every attempt needs a fresh connection state"},
    outside={"errors": "error views may read the database"},
)
def zodb(
    next: Handler,
    *,
    uri: str,
    root: str = "",
    databases: dict[str, str] | None = None,
    cache_size: int | None = None,
    cache_size_bytes: int | None = None,
    pool_size: int | None = None,
    pool_timeout: float | None = None,
) -> Offers:
    """Provide the root out of a ZODB, and other databases beside it.

    uri               of the storage, as zodburi understands it: file://, memory://, zeo://, and through
                      RelStorage sqlite://, postgres://, mysql://
    root              where the application's root is in the database: keys separated by slashes, or the
                      dotted name (package.module:callable) of what makes it of the database's own root
    databases         more databases, one line "name = uri" for each
    cache_size        objects that each connection keeps in memory; default 10000
    cache_size_bytes  the same by their estimated size in bytes; default no limit
    pool_size         connections that are kept open between requests, at most; more are opened when more are
                      needed at the same time, and closed again; default 16
    pool_timeout      seconds after which a connection that was not used is closed; default never

    The last four may also stand in the URI (connection_cache_size=...). Provides ``request.root``,
    ``request.zodb`` (the connection; ``.get_connection(name)`` is one to another database) and
    ``request.tm``, all opened on first use. Only inside of ``transaction`` can the database be changed.

    Refuses, at load, a URI that is none, and a database that would be opened twice. One that cannot be
    reached is a 503 with ``Retry-After`` until it can.
    """
    settings = {
        "cache_size": cache_size,
        "cache_size_bytes": cache_size_bytes,
        "pool_size": pool_size,
        "pool_timeout": pool_timeout,
    }
    given = {name: value for name, value in settings.items() if value is not None}
    pool = pool_of(uri, databases or {}, given)
    find_root = _finder(root)
    use = pool.use

    def open_tm(request: ZodbRequest) -> TransactionManager:
        return use(request).tm

    def open_zodb(request: ZodbRequest) -> Any:
        return use(request).connection

    def open_root(request: ZodbRequest) -> Any:
        kept = use(request)
        if find_root is None:
            return kept.root
        found = find_root(kept.root)
        if getattr(found, "_p_jar", kept) is None:  # it was made now, and is nothing if it is aborted
            kept.tm.get().addAfterAbortHook(request.__dict__.pop, ("root", None))
        return found

    return Offers(next, tm=open_tm, zodb=open_zodb, root=open_root, **OFFERED)


def _finder(root: str) -> Callable[[Any], Any] | None:
    """What finds the application's root in the database's; None if it is the same."""
    if ":" in root:
        try:
            found: Callable[[Any], Any] = resolve(root)
        except ValueError as error:
            raise ConfigurationError(f"zodb: option 'root': {error}") from error
        return found
    keys = [key for key in root.split("/") if key]
    if not keys:
        return None

    def walk(mapping: Any) -> Any:
        for key in keys:
            try:
                mapping = mapping[key]
            except KeyError:
                raise RuntimeError(f"zodb: root = {root}, and there is no {key!r} in the database") from None
        return mapping

    return walk


class Kept:
    """A connection that stays open between requests, with a transaction manager of its own."""

    def __init__(self, pool: Pool, db: DB) -> None:
        self.pool = pool
        self.epoch = pool.epoch
        self.since = 0.0
        self.tm = Manager()
        self.tm.unaware = (Connection,)
        self.tm.judges.append(self._is_lost)
        self.connection = db.open(transaction_manager=self.tm)
        self.root: Any = None
        """The root of the database; from the first transaction on."""
        with pool.lock:
            pool.all.add(self)

    def _is_lost(self, error: BaseException) -> bool:
        if isinstance(error, self.pool.lost):
            self.tm.spoiled = True
            return True
        return False

    def give_back(self) -> None:
        """Have the request done with this connection: it is kept for another one, or thrown away."""
        tm, pool = self.tm, self.pool
        if tm._txn is not None or tm.unmade or tm.leavers:
            tm.leave()
        if tm.spoiled or self.epoch is not pool.epoch or len(pool.idle) >= pool.size:
            self.throw_away()
            if tm.spoiled:
                pool.close_if_dead()
            return
        if pool.timeout is not None:
            self.since = time.monotonic()
            pool.close_old(self.since - pool.timeout)
        pool.idle.append(self)

    def throw_away(self) -> None:
        """Close the connection for good: ``close()`` would give it to the ZODB's own pool."""
        try:
            self.tm.leave()
            self.connection._release_resources()
        except Exception:  # it is gone already, most likely: that is why it is thrown away
            log.debug("a connection could not be closed properly", exc_info=True)


class Pool:
    """One main database in this process, with those beside it, and the connections not in use."""

    def __init__(self, uri: str, others: Mapping[str, str], settings: Mapping[str, Any]) -> None:
        self.uri = uri
        self.others = dict(others)
        self.settings = dict(settings)
        self.main = _Source(uri, settings)
        self.beside = {name: _Source(uri, settings, name) for name, uri in self.others.items()}
        if self.main.name in self.beside:
            raise ConfigurationError(f"zodb: two databases are named {self.main.name!r}")
        self.size: int = self.main.options["pool_size"]
        self.timeout: float | None = self.main.options.get("pool_timeout")
        self.idle: deque[Kept] = deque()
        self.forget()

    def forget(self) -> None:
        """Be as before the first request."""
        self.idle.clear()
        self.epoch = object()
        self.lock = RLock()
        self.db: DB | None = None
        self.databases = _Databases(self)
        self.is_connected: Callable[[], bool] | None = None
        self.lost: tuple[type[BaseException], ...] = ()
        self.all: WeakSet[Kept] = WeakSet()
        for source in (self.main, *self.beside.values()):
            source.outage = Outage(f"the database {source.shown}")

    def use(self, request: ZodbRequest) -> Kept:
        """The connection of a request; the first time one is taken, and its transaction begun."""
        if request.tm_in_use is not None and request.zodb_kept is not None:
            return request.zodb_kept
        if self.is_connected is not None:
            self._check_connected(self.is_connected)
        kept = None
        try:
            kept = self.idle.pop()
            begin(request, kept.tm)
        except Exception:
            kept = self._take_another(request, kept)
        request.zodb_kept = kept
        request.tm_in_use = kept.tm
        request.on_close(kept.give_back, last=True)
        return kept

    def _take_another(self, request: ZodbRequest, dead: Kept | None) -> Kept:
        """Another connection than one that its server has closed: one of the others, or else a new one."""
        while dead is not None:
            dead.throw_away()
            try:
                dead = self.idle.pop()
            except IndexError:
                break
            try:
                begin(request, dead.tm)
                return dead
            except Exception:
                log.debug("a connection is dead", exc_info=True)
        return self._new(request)

    def _new(self, request: ZodbRequest) -> Kept:
        """A new connection."""
        outage = self.main.outage
        db = self.db
        if db is None:
            db = self.open(self.main)
        else:
            outage.check()
        kept = None
        try:
            kept = Kept(self, db)
            begin(request, kept.tm)
            kept.root = kept.connection.get(z64)
        except Exception as error:
            if kept is not None:
                kept.throw_away()
            if isinstance(error, ConflictError):
                raise
            raise outage.begin(error) from error
        if outage.since is not None:
            outage.end()
        return kept

    def _check_connected(self, is_connected: Callable[[], bool]) -> None:
        """Ask a storage that knows it, instead of waiting until a call to it times out."""
        outage = self.main.outage
        if not is_connected():
            raise outage.begin(ConnectionError("it is disconnected"))
        if outage.since is not None:
            outage.end()

    def open(self, source: _Source) -> DB:
        """One of the databases, opened if it is not; Unavailable if that fails."""
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
            except ConflictError:  # another process makes the root of a new database
                raise
            except LockError as error:
                hint = "another process has it open; for several there are ZEO and RelStorage"
                raise outage.begin(LockError(f"{error}: {hint}")) from error
            except Exception as error:
                raise outage.begin(error) from error
            outage.end()
            self.lost += _lost_exceptions(db.storage)
            if source is self.main:
                self.db = db
                self.is_connected = getattr(db.storage, "is_connected", None)
            return db

    def close_old(self, before: float) -> None:
        """Close connections that were not used since ``before``."""
        try:
            while self.idle[0].since < before:
                self.idle.popleft().throw_away()
        except IndexError:
            pass

    def close_if_dead(self) -> None:
        """A file storage that fails while it finishes a commit closes its file: it must be opened again."""
        file = getattr(self.db and self.db.storage, "_file", None)
        if getattr(file, "closed", False):
            self.close()

    def close(self) -> None:
        """Close the databases, with the connections in use; the next request opens them again."""
        with self.lock:
            kept, databases = list(self.all), list(self.databases.values())
            self.forget()
        for one in kept:
            one.throw_away()
        for db in databases:
            try:
                db.close()
            except Exception:
                log.exception("%s could not be closed properly", db.getName())


class _Databases(dict[str, DB]):
    """The databases that refer to each other, by name; those beside the main one are opened on first use."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def __missing__(self, name: str) -> DB:
        if name not in self.pool.beside:
            raise KeyError(name)
        return self.pool.open(self.pool.beside[name])


class _Source:
    """What a URI says: the storage, and the options of its database."""

    def __init__(self, uri: str, settings: Mapping[str, Any], name: str | None = None) -> None:
        self.shown = shown(uri)
        self.outage: Outage
        if uri.startswith("zeo:") and "wait_timeout=" not in uri:
            uri += f"{'&' if '?' in uri else '?'}wait_timeout={ZEO_TIMEOUT}"
        try:
            self.storage, self.options = zodburi.resolve_uri(uri)
        except Exception as error:
            hint = "; RelStorage calls it postgres://" if uri.startswith("postgresql:") else ""
            what = f"{type(error).__name__}: {error}".replace(uri, self.shown)  # it may have a password in it
            raise ConfigurationError(f"zodb: {self.shown!r} is no URI of a database: {what}{hint}") from None
        if "connection_pool_size" not in uri:  # zodburi has a default of its own
            self.options["pool_size"] = POOL_SIZE
        self.options.update(settings)
        if name is not None:
            self.options["database_name"] = name
        self.name: str = self.options["database_name"]

    def open(self, databases: dict[str, DB]) -> DB:
        options = dict(self.options)
        # ZODB takes connections that we keep for ones in use, and would warn of them.
        options["pool_size"] = sys.maxsize
        options.pop("pool_timeout", None)
        storage = self.storage()
        try:
            return DB(storage, databases=databases, **options)
        except BaseException:
            databases.pop(self.name, None)
            storage.close()
            raise


def shown(uri: str) -> str:
    """A URI as it may stand in a log: without user, password and options."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _lost_exceptions(storage: Any) -> tuple[type[BaseException], ...]:
    """The exceptions of a storage that a new connection may not meet again."""
    found: list[type[BaseException]] = []
    if "ZEO.Exceptions" in sys.modules:
        found.append(sys.modules["ZEO.Exceptions"].ClientDisconnected)
    if "relstorage.adapters.interfaces" in sys.modules:
        found.append(sys.modules["relstorage.adapters.interfaces"].UnableToAcquireLockError)
    driver = getattr(getattr(storage, "_adapter", None), "driver", None)  # RelStorage
    return (*found, *getattr(driver, "disconnected_exceptions", ()))


_pools: dict[str, Pool] = {}
_pools_lock = Lock()
_inherited: list[Any] = []
"""What a parent process has open: kept, so that nothing closes it from here."""


def pool_of(uri: str, databases: Mapping[str, str], settings: Mapping[str, Any]) -> Pool:
    """The pool of a main database: one in a process, since a file storage can be opened only once."""
    uris = (uri, *databases.values())
    with _pools_lock:
        pool = _pools.get(uri)
        if pool is None:
            for number, other in enumerate(uris):
                if other in _pools or other in uris[:number]:
                    raise ConfigurationError(f"zodb: {shown(other)!r} would be opened twice in this process")
            pool = Pool(uri, databases, settings)
            _pools.update(dict.fromkeys(uris, pool))
        elif (pool.uri, pool.others, pool.settings) != (uri, dict(databases), dict(settings)):
            raise ConfigurationError(
                f"zodb: two elements open {shown(uri)!r} with different options; within one process it "
                f"can be opened in one way only"
            )
        return pool


def close_all() -> None:
    """Close every database of this process, for its end and for tests. The next request opens it again."""
    for pool in set(_pools.values()):
        pool.close()


def _after_fork() -> None:
    """Leave to the parent what is the parent's: two processes on one socket would mix their answers."""
    global _pools_lock
    _pools_lock = Lock()
    for pool in set(_pools.values()):
        _inherited.append((pool.db, list(pool.idle), list(pool.all), pool.databases))
        pool.forget()


atexit.register(close_all)
os.register_at_fork(after_in_child=_after_fork)
