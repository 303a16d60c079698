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
from collections.abc import Iterator
from ctypes import Structure, c_void_p, py_object
from itertools import islice, takewhile
from threading import Lock
from types import SimpleNamespace

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
        return list(takewhile(self.mark._p_oid.__ne__, last_first(self.connection._cache)))

    def end(self) -> None:
        """Take the marker out of the ring."""
        cache = self.connection._cache
        if cache.get(self.mark._p_oid) is self.mark:
            del cache[self.mark._p_oid]


_HEAD = object.__basicsize__
"""Bytes of what each object begins with. The home of the ring comes next in a cache."""


class _Object(Structure):
    """An object in the ring behind these bytes, as C code has it, up to the first half of its link."""

    _fields_ = (("jar", c_void_p), ("oid", py_object), ("cache", c_void_p), ("before", c_void_p))


_LINK = _Object.before.offset


def last_first(cache: PickleCache) -> Iterator[bytes]:
    """Yield the ids of the objects in the ring of a cache, the last one first, as C code would: by the link of each
    to the one before it. An object in the ring is not freed."""
    if not HAS_KNOWN_LAYOUT:
        yield from (oid for oid, _ in reversed(cache.lru_items()))  # of all: 3.5 milliseconds for 12,800 objects
        return
    home = id(cache) + _HEAD
    one = _Object.from_address(home - _LINK)
    while one.before != home:
        one = _Object.from_address(one.before - _LINK)
        yield one.oid


def has_known_layout() -> bool:
    """Return whether the objects in the ring have the known layout. Two objects in a cache of our own are looked
    at, and no memory but theirs."""
    jar = SimpleNamespace(setstate=None)  # stands for a connection
    cache, objects = PickleCache(jar), [Persistent(), Persistent()]
    for number, obj in enumerate(objects):
        obj._p_oid, obj._p_jar = bytes((number,) * 8), jar
        cache[obj._p_oid] = obj
    links = [id(cache) + _HEAD, *(id(obj) + _HEAD + _LINK for obj in objects)]
    found = [_Object.from_address(link - _LINK) for link in links]
    return (
        Persistent.__basicsize__ > _HEAD + _LINK
        and [one.before for one in found] == [links[-1], *links[:-1]]
        and [one.oid for one in found[1:]] == [obj._p_oid for obj in objects]
    )


HAS_KNOWN_LAYOUT = has_known_layout()
