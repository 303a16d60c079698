"""The pools of connections of this process, for programs that measure how full they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from weakref import WeakSet


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


def add(pool: Any) -> None:
    """Have a pool measured as long as it lives. Its method ``usage()`` tells how full it is, and opens nothing."""
    _pools.add(pool)


def usages() -> Iterator[Usage]:
    """Yield how full each pool is."""
    for pool in list(_pools):
        yield pool.usage()
