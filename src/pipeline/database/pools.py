"""The pools of connections of this process, for programs that measure how full they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol
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


class Pool(Protocol):
    """A pool, of an element that provides a database."""

    def usage(self) -> Usage:
        """Return how full the pool is. Opens nothing."""


_pools: WeakSet[Pool] = WeakSet()


def add(pool: Pool) -> None:
    """Have a pool measured, as long as it lives."""
    _pools.add(pool)


def usages() -> Iterator[Usage]:
    """Yield how full each pool is."""
    for pool in list(_pools):
        yield pool.usage()
