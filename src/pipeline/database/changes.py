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

import ctypes
from collections.abc import Iterator
from itertools import takewhile
from threading import Lock
from types import SimpleNamespace
from typing import Any

from persistent import Persistent, PickleCache
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
        self.polls: list[tuple[bytes, frozenset[bytes] | None]] = []
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
                self._note(instance._start, None if oids is None else frozenset(oids))
            return self.place

    def _note(self, start: bytes, oids: frozenset[bytes] | None) -> None:
        self.polls.append((start, oids))
        self.place += 1
        if len(self.polls) > LONGEST:
            del self.polls[: LONGEST // 2]

    def seen_by(self, connection: Connection, before: int) -> int:
        """Return the place of the first change that the transaction of a connection may not see.

        before  the place of a poll before the transaction began
        """
        start = snapshot_of(connection)
        with self.lock:
            first = self.place - len(self.polls)
            while before > first and self.polls[before - first - 1][0] > start:
                before -= 1
        return before

    def touch(self, oids: frozenset[bytes], since: int) -> bool:
        """Return whether one of the objects may have changed from the place ``since`` on, as polls have told."""
        with self.lock:
            first = self.place - len(self.polls)
            told = self.polls[max(since - first, 0) :]
        return since < first or any(changed is None or not oids.isdisjoint(changed) for _, changed in told)

    def close(self) -> None:
        """Have the storage forget the instance. It is told no changes from now on, so all objects may change."""
        with self.lock:
            self._note(NEVER, None)
        self.instance.release()


def can_tell(db: DB) -> bool:
    """Return whether ``Changes`` is known to be right for the storage of a database.

    It is for the storages of ZODB and ZEO. With RelStorage one more instance that is polled brought out torn pages.
    """
    return type(db._mvcc_storage) is MVCCAdapter


def snapshot_of(connection: Connection) -> bytes:
    """Return the start of the snapshot of a connection: the first transaction id that it does not see."""
    start: bytes = connection._storage._start
    return start


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
        return connection._cache.cache_non_ghost_count - connection._load_count, snapshot_of(connection)

    @property
    def are_complete(self) -> bool:
        """True if no object that was read may have left the ring: an object that is deactivated leaves it, and
        changes the number of objects without being loaded."""
        return self._state() == self.before

    def oids(self) -> list[bytes]:
        """Return the ids of the objects that were read, the last one first."""
        mark: bytes = self.mark._p_oid
        return list(takewhile(lambda oid: oid != mark, last_first(self.connection._cache)))

    def end(self) -> None:
        """Take the marker out of the ring."""
        cache = self.connection._cache
        if cache.get(self.mark._p_oid) is self.mark:
            del cache[self.mark._p_oid]


_WORD = ctypes.sizeof(ctypes.c_void_p)
_HOME = object.__basicsize__
"""Place of the ring's home in a cache that is written in C: at its beginning."""
_RING = object.__basicsize__ + 3 * _WORD
"""Place of an object's link in the ring: behind its jar, its oid and its cache."""
_FROM_LINK_TO_OID = -2 * _WORD
_SIZE = _RING + 2 * _WORD + 16
"""Bytes of such an object: behind the link stand its serial, its state and its estimated size."""


def last_first(cache: PickleCache) -> Iterator[bytes]:
    """Yield the ids of the objects in the ring of a cache, the last one first, as C code would: by the link of each
    to the one before it. An object in the ring is not freed."""
    if not HAS_KNOWN_LAYOUT:
        yield from (oid for oid, _ in reversed(cache.lru_items()))  # of all: 3.5 milliseconds for 12,800 objects
        return
    home = id(cache) + _HOME
    link = _before(home)
    while link != home:
        oid: Any = ctypes.py_object.from_address(link + _FROM_LINK_TO_OID).value
        yield oid
        link = _before(link)


def _before(link: int) -> int:
    return ctypes.c_void_p.from_address(link).value or 0


def has_known_layout() -> bool:
    """Return whether the objects in the ring have the known layout. Two objects in a cache of our own are looked
    at, and no memory but theirs."""
    if Persistent.__basicsize__ != _SIZE:
        return False
    jar = SimpleNamespace(setstate=None)  # stands for a connection
    cache = PickleCache(jar)
    first, second = Persistent(), Persistent()
    for number, obj in enumerate((first, second)):
        obj._p_oid, obj._p_jar = bytes((number,) * 8), jar
        cache[obj._p_oid] = obj
    home = id(cache) + _HOME
    links = [id(obj) + _RING for obj in (first, second)]
    return [_before(link) for link in (*links, home)] == [home, *links] and [
        ctypes.py_object.from_address(link + _FROM_LINK_TO_OID).value for link in links
    ] == [first._p_oid, second._p_oid]


HAS_KNOWN_LAYOUT = has_known_layout()
