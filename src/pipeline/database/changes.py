"""Objects of a ZODB that a request has read, and changes of them since.

Two records of ZODB itself are read, so that nothing has to be declared:

* The ring of a connection's cache is a log of reads: each access moves an object to its end, also an access by the
  C code of BTrees, and of an object that was loaded before. ``Reads`` puts a marker there.
* A storage tells each of its instances which objects other instances have changed. ``Changes`` is one more
  instance, which is polled as that of a connection is when its transaction begins.

An object is read when one of its attributes is. ``vars(obj)``, ``copy(obj)`` and ``obj._p_serial`` are not seen if
the object is in memory already.
"""

from __future__ import annotations

from collections import deque
from itertools import islice, takewhile
from threading import Lock

from persistent import Persistent
from ZODB.Connection import Connection
from ZODB.DB import DB
from ZODB.mvccadapter import MVCCAdapter

LONGEST = 2_000
"""Polls with changes that are remembered. A page that was not asked for since is made anew."""
NEVER = b"\xff" * 8
"""A start later than that of any snapshot."""


class Changes:
    """The objects that were changed in a database, in the order in which this process was told.

    A place in that order is the number of polls that have found changes before. A storage tells its instances one
    after the other, so a poll may learn of a commit before a connection does, and the other way round. Both the
    poll before a transaction begins and the start of its snapshot decide about its place (``seen_by``).
    """

    def __init__(self, db: DB) -> None:
        self.lock = Lock()
        self.instance = db._mvcc_storage.new_instance()
        self.polls: deque[tuple[bytes, frozenset[bytes] | None]] = deque(maxlen=LONGEST)
        """For each poll that has found changes, the start that a snapshot would have had, and the changed objects.
        None stands for all objects: the storage no longer knows, as after a lost connection to a ZEO server."""
        self.place = 0
        """The place behind the last of these polls."""

    def now(self) -> int:
        """Ask as a transaction does that begins now. Return the place behind all changes that were told."""
        instance = self.instance
        instance.sync(True)
        with self.lock:
            told = instance._invalidations
            if told or told is None:  # else a poll has nothing to tell, in four times as long
                oids = instance.poll_invalidations()
                self.polls.append((instance._start, None if oids is None else frozenset(oids)))
                self.place += 1
            return self.place

    def seen_by(self, connection: Connection, before: int) -> int:
        """Return the place of the first change that the transaction of a connection may not see.

        before  the place of a poll before the transaction began
        """
        start = connection._storage._start  # the first transaction id that its snapshot does not see
        with self.lock:
            first = self.place - len(self.polls)
            while before > first and self.polls[before - first - 1][0] > start:
                before -= 1
        return before

    def touch(self, oids: frozenset[bytes], since: int) -> bool:
        """Return whether one of the objects may have changed from the place ``since`` on, as polls have told."""
        with self.lock:
            later = self.place - since
            told = list(islice(reversed(self.polls), later))
        return len(told) < later or any(changed is None or not oids.isdisjoint(changed) for _, changed in told)

    def close(self) -> None:
        """Have the storage forget the instance. It is told no changes from now on, so all objects may change."""
        with self.lock:
            self.polls.append((NEVER, None))
            self.place += 1
        self.instance.release()


def can_tell(db: DB) -> bool:
    """Return whether ``Changes`` is known to be right for the storage of a database.

    It is for the storages of ZODB and ZEO. With RelStorage one more instance that is polled brought out torn pages.
    """
    return type(db._mvcc_storage) is MVCCAdapter


class Reads:
    """The objects that are read through a connection from now on, in its open transaction."""

    def __init__(self, connection: Connection, name: bytes = b"keep") -> None:
        self.connection = connection
        self.mark = Persistent()
        self.mark._p_oid = b"\xff" * 4 + name
        self.mark._p_jar = connection
        connection._cache[self.mark._p_oid] = self.mark
        self.before = self._state()

    def _state(self) -> tuple[int, bytes]:
        connection = self.connection
        return connection._cache.cache_non_ghost_count - connection._load_count, connection._storage._start

    @property
    def are_complete(self) -> bool:
        """True if no object that was read may have left the ring: an object that is deactivated leaves it, and
        changes the number of objects without being loaded."""
        return self._state() == self.before

    def oids(self) -> list[bytes]:
        """Return the ids of the objects that were read, the last one first."""
        oids = (oid for oid, _ in reversed(self.connection._cache.lru_items()))
        return list(takewhile(self.mark._p_oid.__ne__, oids))

    def end(self) -> None:
        """Take the marker out of the ring."""
        cache = self.connection._cache
        if cache.get(self.mark._p_oid) is self.mark:
            del cache[self.mark._p_oid]
