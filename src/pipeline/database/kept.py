"""Finished pages in memory, by all that a request has said to their making."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Set
from dataclasses import dataclass
from threading import Event, Lock
from typing import Any, TypeAlias

from pipeline.cookies import cookies_of
from pipeline.database import forks
from pipeline.database.changes import Changes
from pipeline.http.noting import Name
from pipeline.response import HeaderList

BESIDE = 1_000
"""Bytes of an entry beside its text, as measured."""
OF_AN_OBJECT = 120
"""Bytes of the id of an object in an entry."""
MOST_NAMES = 30
"""Headers and cookies that the pages of one address may depend on."""

Key: TypeAlias = tuple[Any, ...]


@dataclass(slots=True)
class Kept:
    """An answer, with what it was made of."""

    body: bytes
    headers: HeaderList
    names: frozenset[str]
    """The names of the headers that take the place of those of outer elements, in small letters."""
    checked: Set[tuple[str, str]]
    """These headers, and those that were checked at load: none of them is checked again (S6)."""
    oids: frozenset[bytes]
    """The objects that were read."""
    until: float
    seen: int
    """The place among the changes up to which the objects are known to be unchanged (``Changes``)."""
    size: int = 0
    was_asked: bool = False
    """True if it was looked up since its turn to leave came last."""


class Names:
    """The names of all that was read of requests for one address. The keys of its pages begin with this object."""

    def __init__(self, address: Key, read: Set[Name]) -> None:
        self.address = address
        self.read = read
        self.keys = [name for name in read if isinstance(name, str)]
        self.cookies = [name[1] for name in read if not isinstance(name, str)]
        self.size = BESIDE + 2 * len(repr((address, read)))
        self.was_asked = False
        self.kept = self.sent = 0
        """How many of its pages were kept, and how often they were sent again."""
        self.may_wait = True
        """False if the last page of the address was not kept, so that a request does not wait for the next one."""

    def key_of(self, environ: dict[str, Any]) -> Key:
        """Return the key of the page for a request: these names, and their values."""
        named = self.cookies if "HTTP_COOKIE" in environ else ()
        cookies = [(name, value) for name in named for value in cookies_of(environ, name)]
        return (self, *map(environ.get, self.keys), *cookies)


class Pages:
    """The kept pages of one pipeline, in this process. ``counts`` has what happened, by words.

    An attack by new addresses or queries only makes those pages leave that are not asked for in the meantime.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.counts: Counter[str] = Counter()
        """Numbers of the answers that were sent again, made, or not kept, with the reason."""
        self.forget()
        forks.own(forget=self.forget)

    def forget(self) -> None:
        """Return to the state before the first request, also in a process that was forked (R12)."""
        self.lock = Lock()
        self.bytes = 0
        self.changes: Changes | None = None
        self.entries: OrderedDict[Key, Any] = OrderedDict()
        """The names by address, and the pages by names and values."""
        self.making: dict[Key, Event] = {}
        """An event for each page that is being made. It is set when that has ended."""

    def clear(self, changes: Changes | None = None) -> None:
        """Drop all pages, as after a change outside of the database. The next ones depend on these changes."""
        with self.lock:
            for key in [key for key, entry in self.entries.items() if isinstance(entry, Kept)]:
                self._drop(key)
            self.changes = changes

    def look_up(
        self, address: Key, environ: dict[str, Any], changes: Changes
    ) -> tuple[Key | None, Kept | None]:
        """Return the key of the page for a request, and the page if a transaction that begins now would find all
        that it was made of unchanged. There is no key if no page of the address was ever to be kept."""
        if changes is not self.changes:  # the database was opened again: what changed meanwhile is not known
            self.clear(changes)
        names = self.entries.get(address)
        if names is None:
            return None, None
        names.was_asked = True
        key = names.key_of(environ)
        kept = self.entries.get(key)
        if kept is not None:
            now = changes.now()
            if kept.seen != now and changes.touch(kept.oids, kept.seen):
                reason = "changed"
            elif time.monotonic() > kept.until:
                reason = "too old"
            else:
                kept.seen, kept.was_asked = now, True
                names.sent += 1
                return key, kept
            self.counts[reason] += 1
            with self.lock:
                self._drop(key)
        return key, None

    def want(self, address: Key, read: Set[Name] = frozenset()) -> Names | None:
        """Add names that were read to those of an address. Pages under fewer names are not found any more. None if
        there are too many: each request for the address would look at all of them."""
        with self.lock:
            names: Names | None = self.entries.get(address)
            if names is not None and read <= names.read:
                return names
            names = Names(address, read if names is None else read | names.read)
            if len(names.read) > MOST_NAMES:
                return None
            self._put(address, names)
            return names

    def put(self, key: Key, kept: Kept, changes: Changes) -> None:
        """Keep a page, unless the database was opened again in the meantime."""
        text = len(repr((key[1:], kept.headers)))
        kept.size = key[0].size + 2 * text + len(kept.body) + OF_AN_OBJECT * len(kept.oids)
        with self.lock:
            if changes is self.changes:
                key[0].kept += 1
                self._put(key, kept)

    def _put(self, key: Key, entry: Names | Kept) -> None:
        self._drop(key)
        if entry.size > self.limit:  # it would drop all others
            return
        while self.bytes + entry.size > self.limit:
            oldest, old = self.entries.popitem(last=False)
            if old.was_asked:
                old.was_asked = False
                self.entries[oldest] = old
            else:
                self.bytes -= old.size
        self.entries[key] = entry
        self.bytes += entry.size

    def _drop(self, key: Key) -> None:
        if (gone := self.entries.pop(key, None)) is not None:
            self.bytes -= gone.size
