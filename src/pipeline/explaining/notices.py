"""Notices of debug mode: a request that is answered, and has lost something without an error.

Each says what is lost, where, and what to do. They are warnings of the logger ``pipeline.notices``, and headers
``X-Notice`` for visitors who have the key of debug mode. In production nothing looks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from pipeline.database.stored import comparable
from pipeline.request import SAFE_METHODS, Request
from pipeline.response import Response

log = logging.getLogger("pipeline.notices")

HEADER = "X-Notice"
REMEDY = (
    "The database is not told, and it will be lost. Assign it again, use PersistentList, PersistentMapping or a "
    "BTree, or set _p_changed = True"
)
MOST_OBJECTS = 2_000
"""Objects of a connection that are compared with the database, the last used first."""
MOST = 10
"""Notices of one request."""


def tell_notices(request: Any, response: Response) -> None:
    """Log the notices of a request that was answered. Raises nothing."""
    try:
        for number, notice in enumerate(notices_of(request, response)):
            if number == MOST:
                break
            log.warning("%s %s: %s", request.method, request.path_info_safe, notice)
            if request.debug:
                response.headers.add(HEADER, notice.encode("ascii", "backslashreplace").decode())
    except Exception:
        log.exception("%s: the notices could not be found out", request.path_info_safe)


def notices_of(request: Any, response: Response) -> Iterator[str]:
    """Yield the notices of a request, each in one line."""
    yield from misspelt(request)
    pooled = getattr(request, "zodb_pooled", None)
    connections = [] if pooled is None else list(pooled.connection.connections.values())
    if request.method not in SAFE_METHODS:
        for connection in connections:
            yield from unsaved(connection)
    elif request.outcome == "committed" and not any(map(made_root, connections)):
        yield (
            "a GET has changed the database. A crawler or a browser that loads pages ahead does so, too: change "
            "something in a view for POST"
        )


def made_root(connection: Any) -> bool:
    """Return whether the last commit has changed the root of the database, as the first request of a site does."""
    return bool(connection.root()._p_serial == connection.db().storage.lastTransaction())


def misspelt(request: Any) -> Iterator[str]:
    """Yield the attributes that were set on the request and that it does not have, if one has nearly that name."""
    requests: Any = type(request)
    known = names_of(requests)
    for name in request.__dict__:
        odd = not name.startswith("_") and name not in known
        if odd and (near := get_close_matches(name, list(known), 1, 0.85)):
            yield f"request.{name} was set, and nothing reads it. Did you mean request.{near[0]}?"


@lru_cache(maxsize=16)
def names_of(requests: type[Request]) -> frozenset[str]:
    """Return the names of the attributes of a class of requests."""
    return frozenset(name for name in dir(requests) if not name.startswith("_"))


def unsaved(connection: Any) -> Iterator[str]:
    """Yield the objects that were changed in place, so that the database was not told."""
    for oid, obj in reversed(connection._cache.lru_items()[-MOST_OBJECTS:]):
        if obj._p_changed is False and obj._p_jar is connection:
            stored = connection.db().storage.loadSerial(oid, obj._p_serial)
            if names := list(differing(connection._reader.getState(stored), obj.__getstate__())):
                kind = f"{type(obj).__module__}.{type(obj).__qualname__}"
                yield f"{', '.join(names)} of {kind} was changed in place. {REMEDY}"


def differing(before: Any, now: Any) -> Iterator[str]:
    """Yield what differs between two states of an object: names of attributes, or that its content does."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in sorted({*before, *now}, key=str):
            if name not in before or name not in now or not is_same(before[name], now[name]):
                yield "its content" if name == "data" else str(name)
    elif not is_same(before, now):
        yield "its content"


def is_same(before: Any, now: Any) -> bool:
    """Return whether two values would be stored alike. A persistent object in them counts by its id."""
    try:  # a set may have another order
        alike = before is now or (type(before) is type(now) and bool(before == now))
    except Exception:  # of an ``__eq__`` of the site
        return False
    return alike or comparable(before) == comparable(now)
