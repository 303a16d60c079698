"""The pools of connections of this process. They are closed at its end, left alone in a forked process (R12), and
measured, as long as they live."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakSet

from pipeline.database import forks


class Usage(NamedTuple):
    """How full a pool is."""

    database: str
    """The database, without its password."""
    used: int
    """Connections that requests use."""
    idle: int
    """Connections that are open and wait for a request."""
    limit: int | None
    """Upper limit of the connections that are open at the same time; None if there is no limit."""


_pools: WeakSet[Any] = WeakSet()
lock = Lock()
"""Held while the pool of a database is looked for, and made."""


def add(pool: Any) -> None:
    """Add a pool. It has ``close()``, ``leave_to_parent()``, and ``usage()``, which opens nothing."""
    _pools.add(pool)


def usages() -> Iterator[Usage]:
    """Yield how full each pool is."""
    for pool in list(_pools):
        yield pool.usage()


def close_all() -> None:
    """Close every pool, at the end of the process and in tests. The next request opens it again."""
    with ExitStack() as stack:  # one that fails does not stop the others (R6)
        for pool in list(_pools):
            stack.callback(pool.close)


def _leave_to_parent() -> None:
    global lock
    lock = Lock()
    with ExitStack() as stack:
        for pool in list(_pools):
            stack.callback(pool.leave_to_parent)


forks.own(forget=_leave_to_parent, close=close_all)
