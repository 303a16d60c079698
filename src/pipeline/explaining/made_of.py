"""The things that a page is made of: the objects that were read, and what was looked at of the request.

It is noted from the element that walks the path inwards: traversal, the policy, the view and the filters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from persistent import Persistent

from pipeline.database.changes import Reads
from pipeline.http.noting import ALL, CONDITIONS, Noting, watched
from pipeline.telling.secrets import told_variable
from pipeline.telling.words import header_name, short

MOST_OBJECTS = 200
"""Objects that are listed."""
OF_EVERYBODY = frozenset(("HTTP_HOST", "HTTP_AUTHORIZATION", *CONDITIONS))
"""Headers that ``Vary`` need not name: a cache knows the host, keeps no answer to a request with credentials, and
judges the conditions of a request itself."""
PLAIN = (bool, int, float, str, bytes)
"""The types of attributes of a request that are told."""


class Read(NamedTuple):
    """One object that was read."""

    place: str
    """Its path from the root, or its oid."""
    kind: str
    size: int
    """Bytes in the database, about."""
    was_loaded: bool
    """True if it came from the database, and False if it was in memory."""


class MadeOf(NamedTuple):
    """The things that a page is made of."""

    objects: Sequence[Read]
    total: int
    is_complete: bool
    """False if objects may have been read that are not known, since some were deactivated meanwhile."""
    headers: Sequence[str]
    cookies: Sequence[str]
    variables: Sequence[str]
    """Other keys of the environ; "*" if it was read as a whole."""
    attributes: Sequence[str]
    """Attributes that outer elements have put on the request, which the page may have used."""

    def lines(self) -> Iterator[str]:
        """Yield it in words."""
        loaded = sum(one.was_loaded for one in self.objects)
        if self.total:
            yield f"{self.total} objects, {loaded} of them from the database and {self.total - loaded} from memory"
        width = max((len(one.place) for one in self.objects), default=0)
        for one in self.objects:
            where = "database" if one.was_loaded else "memory"
            yield f"  {one.place:{width}}  {one.kind}, {one.size} bytes, from {where}"
        if self.total > len(self.objects):
            yield f"  and {self.total - len(self.objects)} more"
        if not self.is_complete:
            yield "objects that were deactivated meanwhile are not listed"
        for what in ("headers", "cookies", "variables", "attributes"):
            if told := ", ".join(getattr(self, what)):
                yield f"{what:10}  {told}"

    def lacking_in(self, headers: Iterable[tuple[str, str]]) -> list[str]:
        """Return the headers of the request that the header ``Vary`` of an answer should name, and does not."""
        said = [(name.lower(), value.lower()) for name, value in headers]
        vary = {word.strip() for name, value in said if name == "vary" for word in value.split(",")}
        is_private = any(name == "cache-control" and ("private" in v or "no-store" in v) for name, v in said)
        used = [*self.headers, *(["Cookie"] if self.cookies and "Cookie" not in self.headers else [])]
        if "*" in vary:
            return []
        known = {*vary, "cookie", "accept-encoding"} if is_private else vary  # one browser sends the same ones
        return [name for name in used if name.lower() not in known]


class Making:
    """Notes what a page is made of, from now on until ``end``."""

    def __init__(self, request: Any) -> None:
        self.request = request
        self.outer = request.environ
        self.requests = request.__class__
        self.reads: Reads | None = None
        self.loaded: set[bytes] = set()
        plain = {name: value for name, value in request.__dict__.items() if isinstance(value, PLAIN)}
        told = {name: told_variable(name, short(value)) for name, value in plain.items() if name[:1] != "_"}
        self.attributes = [f"{name} = {text}" for name, text in told.items() if name != "closers_before"]
        self.noting = self.outer if isinstance(self.outer, Noting) else Noting(self.outer)
        try:
            connection: Any = getattr(request, "zodb", None)
            if hasattr(connection, "_cache"):
                request.__dict__.pop("root", None)
                self.loaded = {oid for oid, _ in connection._cache.lru_items()}
                self.reads = Reads(connection, b"tool")
        except Exception:  # traversal meets the same error, and is told of it
            self.reads = None
        if self.noting is not self.outer:
            request.__class__ = watched(self.requests)
        request.environ = self.noting

    def end(self) -> MadeOf:
        """Return what was noted. The request is as it was before."""
        found: list[bytes] = []
        objects: list[Read] = []
        is_complete, reads = True, self.reads
        if reads is not None:
            is_complete, found = reads.are_complete, reads.oids()[::-1]
            cache = reads.connection._cache
            objects = [told(cache[oid], oid not in self.loaded) for oid in found[:MOST_OBJECTS]]
            reads.end()
        if self.noting is not self.outer:
            self.request.environ = self.noting.put_back()
            if self.request.__class__ is watched(self.requests):
                self.request.__class__ = self.requests
        noted = self.noting.noted - OF_EVERYBODY
        keys = sorted(name for name in noted if isinstance(name, str) and name != "HTTP_COOKIE")
        headers = [header_name(key) for key in keys if key.startswith("HTTP_")]
        return MadeOf(
            objects,
            len(found),
            is_complete,
            [*headers, *(["Cookie"] if "HTTP_COOKIE" in noted else [])],
            sorted(name[1] for name in noted if isinstance(name, tuple)),
            ["the whole environ" if key == ALL else key for key in keys if not key.startswith("HTTP_")],
            self.attributes,
        )


def told(obj: Persistent, was_loaded: bool) -> Read:
    """Return an object in words."""
    kind = type(obj)
    return Read(place_of(obj), f"{kind.__module__}.{kind.__qualname__}", obj._p_estimated_size, was_loaded)


def place_of(obj: Any) -> str:
    """Return the path of an object from the root, by its parents as far as they are in memory; or else its oid."""
    names: list[str] = []
    place = obj
    while getattr(place, "_p_changed", False) is not None and len(names) < 100:
        parent = getattr(place, "__parent__", None)
        name = getattr(place, "__name__", None)
        if parent is None:
            break
        if not isinstance(name, str):
            names.clear()
            break
        names.append(name)
        place = parent
    return "/" + "/".join(reversed(names)) if names else f"oid {int.from_bytes(obj._p_oid, 'big'):#x}"
