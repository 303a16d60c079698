"""Connections to a ZODB that are used by requests alone (R13)."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from persistent import Persistent
from ZODB.Connection import Connection
from ZODB.DB import DB
from ZODB.POSException import ConnectionStateError

from pipeline.database import forks
from pipeline.database.transactions import Manager, note_own_commit
from pipeline.http.tracebacks import chain_of
from pipeline.interfaces import Unavailable

TAKES_NO_WRITES = frozenset({"0A000", "25006", 1290, 1836})
"""Errors of a server that was demoted or is set to read only: SQLSTATEs of PostgreSQL, numbers of MariaDB and
MySQL. RelStorage asks PostgreSQL for a mode that a replica does not have (0A000)."""


here = threading.local()
"""``is_collecting`` is True while the collector of garbage runs finalizers in this thread."""


def note_collection(phase: str, info: object) -> None:
    """Note that this thread begins or ends to collect garbage."""
    here.is_collecting = phase == "start"


gc.callbacks.append(note_collection)


class RequestConnection(Connection):  # type: ignore[misc]
    """A connection that is used only in a transaction.

    Without one, an object would be loaded as it was before the last commit, and stay so for the next request.
    """

    transaction_manager: Any

    def setstate(self, obj: Any) -> None:
        self._need_transaction()
        super().setstate(obj)

    def get(self, oid: bytes) -> Any:
        self._need_transaction()
        return super().get(oid)

    __getitem__ = get

    def oldstate(self, obj: Any, tid: bytes) -> Any:
        self._need_transaction()
        return super().oldstate(obj, tid)

    def new_oid(self) -> Any:
        self._need_transaction()
        with writing():
            return super().new_oid()

    def tpc_vote(self, transaction: Any) -> None:
        with writing():
            super().tpc_vote(transaction)

    def tpc_finish(self, transaction: Any) -> None:
        super().tpc_finish(transaction)
        if not isinstance(self.transaction_manager, Manager):  # a view has opened it, by DB.transaction() say
            note_own_commit()

    def _need_transaction(self) -> None:
        tm = self.transaction_manager
        if tm is None and self.opened:  # see left_open
            raise ConnectionStateError("a view has left this connection open, and its request has ended (R13)")
        if isinstance(tm, Manager) and tm._txn is None and not tm.deferred:
            tm.get()  # begins one that only reads, or raises

    def _register(self, obj: Any = None) -> None:
        """Register a changed object. If that is refused, the object differs from the database, so that the
        connection must not be used again."""
        tm = self.transaction_manager
        if tm is None:
            raise ConnectionStateError(f"{obj!r:.200} was changed, but its connection is closed")
        if getattr(here, "is_collecting", False):
            tm.must_discard = True
            raise ConnectionStateError(
                f"{type(obj).__qualname__} was changed by a finalizer (__del__, or the callback of a weak "
                f"reference), which Python runs at any time, in any request (R13)"
            )
        try:
            super()._register(obj)
        except BaseException:
            tm.must_discard = True
            raise

    def get_connection(self, database_name: str) -> Any:
        self._need_transaction()
        known = database_name in self.connections
        connection = super().get_connection(database_name)
        if not known and self._is_kept():
            keep(connection, self.transaction_manager)
        return connection

    def close(self, primary: bool = True) -> None:
        if primary and self._is_kept():
            raise ConnectionStateError("the element zodb closes the connection of a request; a view must not")
        super().close(primary)

    def left_open(self) -> None:
        """Have every later use raise: a view has opened the connection and not closed it, and the manager is going
        to be that of another request (R13)."""
        self.transaction_manager = None

    def _is_kept(self) -> bool:
        return self in getattr(self.transaction_manager, "kept", ())


@contextmanager
def writing() -> Iterator[None]:
    """Raise Unavailable, which is answered 503, if the server of RelStorage takes no writes."""
    try:
        yield
    except Exception as error:
        for cause in chain_of(error):  # RelStorage has errors of its own for some
            if not TAKES_NO_WRITES.isdisjoint((getattr(cause, "pgcode", None), getattr(cause, "errno", None))):
                raise Unavailable(f"the database takes no writes: {type(cause).__name__}: {cause}") from error
        raise


def keep(connection: Any, tm: Manager) -> None:
    """Keep a connection with its manager, from one request to the next."""
    connection.__class__ = kind = of_requests(type(connection))
    called = ("newTransaction", "beforeCompletion", "afterCompletion")
    if all(getattr(kind, name) is getattr(Connection, name) for name in called):
        tm.ignore(kind)
    if not hasattr(connection._storage, "afterCompletion"):  # ZODB would look in vain after each request: 4 %
        connection._storage.afterCompletion = bool
    tm.kept[connection] = connection


def _of_requests(kind: type) -> type:
    """Return the class of connections of a kind that are used only in a transaction."""
    if issubclass(RequestConnection, kind):
        return RequestConnection
    return kind if issubclass(kind, RequestConnection) else type(kind.__name__, (RequestConnection, kind), {})


of_requests: Callable[[Any], type] = cache(_of_requests)


def own(db: DB) -> None:
    """Have all connections of a database be those of requests: what a view commits by one of its own is noted."""
    db.klass = of_requests(db.klass)
    for connection in db.pool:
        connection.__class__ = of_requests(type(connection))


def leave_to_parent(connection: Any) -> None:
    """Keep this process from using a connection of its parent. Its loaded objects are made ghosts, changed ones
    too: each use of them asks the connection."""
    loaded = [*connection._cache.cache_data.values(), *connection._added.values()]
    objects = [obj for obj in loaded if isinstance(obj, Persistent)]  # and not a class
    forks.keep(connection, objects, [getattr(obj, "__dict__", {}).copy() for obj in objects])
    for obj in objects:
        Persistent._p_invalidate(obj)  # that of a blob would remove the file of the parent
    forks.seal(connection, "the ZODB connection of a request")
