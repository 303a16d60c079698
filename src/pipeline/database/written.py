"""The last commits of a visitor: the position of each database after them.

A position is a number that grows with each commit: the id of a transaction of a ZODB. The element ``causal`` keeps
the positions in the visitor's browser. A pool of connections that is behind them asks its server before it begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

Positions = Mapping[str, int]
"""The position of each database, by a name that is the same in each process of the site."""


class Pool(Protocol):
    """A pool of connections to a database whose state another process may be ahead of."""

    def positions(self) -> Positions:
        """Return the positions of what this process has seen, its own commits included."""


class Written:
    """The last commits of the visitor of one request, as the browser tells them."""

    def __init__(self, seen: Positions) -> None:
        self.seen = seen
        self.pools: list[Pool] = []
        """The pools that the request has used."""

    def positions(self) -> dict[str, int]:
        """Return the positions that an answer has to tell: of the databases in use what is seen there now."""
        found = dict(self.seen)
        for pool in self.pools:
            found.update(pool.positions())
        return found
