"""Finished pages in memory, by all that a request has said to their making."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Set
from contextlib import suppress
from threading import Event, Lock
from typing import Any, TypeAlias

from pipeline.database.changes import Changes
from pipeline.http.cookies import cookies_of
from pipeline.http.noting import Name
from pipeline.response import HeaderList

BESIDE = 1_000
"""Bytes of an entry beside its text, as measured."""
OF_AN_OBJECT = 120
"""Bytes of the id of an object in an entry."""

Key: TypeAlias = tuple[Any, ...]


class Kept:
    """An answer, with what it was made of."""

    __slots__ = ("body", "headers", "oids", "seen", "size", "until", "used")

    headers: HeaderList
    body: bytes
    oids: frozenset[bytes]
    """The objects that were read."""
    seen: int
    """The place among the changes up to which they are known to be unchanged (``Changes``)."""
    used: tuple[str, ...]
    """The attributes of outer elements that were used. They are used for each sending, since these elements may do
    something to an answer that has used them."""
    until: float
    size: int


class Names(tuple[Name, ...]):
    """The names of all that was read of requests for one address."""

    size = 0
    may_wait = True
    """False if the last page of the address was not kept, so that a request does not wait for the next one."""

    def values_in(self, environ: dict[str, Any]) -> list[Any]:
        """Return what a request has under the names."""
        return [value_of(environ, name) for name in self]


Entry: TypeAlias = "Kept | Names"


class Pages:
    """The kept pages of one pipeline, in this process. ``counts`` has what happened, by words.

    An attack by new addresses or queries only makes the least recently used pages leave.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.lock = Lock()
        self.counts: Counter[str] = Counter()
        """Numbers of the answers that were sent again, made, or not kept, with the reason."""
        self.bytes = 0
        self.changes: Changes | None = None
        self.entries: OrderedDict[Key, Entry] = OrderedDict()
        """The names by address, and the pages by address, names and values."""
        self.making: dict[Key, Event] = {}

    def clear(self) -> None:
        """Drop all pages, as after a change outside of the database."""
        with self.lock:
            self.entries.clear()
            self.bytes = 0

    def _follow(self, changes: Changes) -> None:
        """Drop all pages if the database was opened again: the changes in the meantime are not known."""
        with self.lock:
            for key in [key for key, entry in self.entries.items() if isinstance(entry, Kept)]:
                self.bytes -= self.entries.pop(key).size
            self.changes = changes

    def look_up(
        self, address: Key, environ: dict[str, Any], changes: Changes
    ) -> tuple[Key | None, Kept | None]:
        """Return the key of the page for a request, and the page if it is kept and unchanged. There is no key if no
        page of the address was ever to be kept."""
        if changes is not self.changes:
            self._follow(changes)
        names = self.names_of(address)
        if names is None:
            return None, None
        self._use(address)
        key = (address, names, *names.values_in(environ))
        return key, self.find(key, changes)

    def names_of(self, address: Key) -> Names | None:
        """Return the names of an address; None if no page of it was ever wanted."""
        names = self.entries.get(address)
        return names if isinstance(names, Names) else None

    def find(self, key: Key, changes: Changes) -> Kept | None:
        """Return the page if a transaction that begins now would find all that it was made of unchanged."""
        kept = self.entries.get(key)
        if not isinstance(kept, Kept):
            return None
        now = changes.now()
        if kept.seen != now:
            if changes.touch(kept.oids, kept.seen):
                self.counts["changed"] += 1
                self.drop(key)
                return None
            kept.seen = now
        if time.monotonic() > kept.until:
            self.counts["too old"] += 1
            self.drop(key)
            return None
        self._use(key)
        return kept

    def _use(self, key: Key) -> None:
        with suppress(KeyError):  # another thread has dropped it
            self.entries.move_to_end(key)

    def drop(self, key: Key) -> None:
        """Drop one entry."""
        with self.lock:
            gone = self.entries.pop(key, None)
            self.bytes -= gone.size if gone is not None else 0

    def want(self, address: Key, read: Set[Name] = frozenset()) -> Names:
        """Add names that were read to those of an address. The pages under fewer names leave."""
        with self.lock:
            before = self.names_of(address)
            if before is not None and read <= set(before):
                return before
            if before:
                for key in [key for key in self.entries if key[0] == address]:
                    self.bytes -= self.entries.pop(key).size
            names = Names(sorted({*read, *(before or ())}, key=repr))
            names.size = BESIDE + 2 * len(repr((address, names)))
            self._put(address, names)
            return names

    def put(self, key: Key, kept: Kept, changes: Changes) -> None:
        """Keep a page, unless the database was opened again in the meantime."""
        text = len(repr(key)) + len(repr(kept.headers))
        kept.size = BESIDE + 2 * text + len(kept.body) + OF_AN_OBJECT * len(kept.oids)
        with self.lock:
            if changes is self.changes:
                self._put(key, kept)

    def _put(self, key: Key, entry: Entry) -> None:
        gone = self.entries.pop(key, None)
        self.bytes += entry.size - (gone.size if gone is not None else 0)
        self.entries[key] = entry
        while self.bytes > self.limit:
            self.bytes -= self.entries.popitem(last=False)[1].size


def value_of(environ: dict[str, Any], name: Name) -> Any:
    """Return what the request has under a name."""
    return environ.get(name) if isinstance(name, str) else tuple(cookies_of(environ, name[1]))
