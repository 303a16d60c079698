"""The last commits of a visitor: the position of each database after them.

A position is a number that grows with each commit: the id of a transaction of a ZODB, or a place in the
write-ahead log of PostgreSQL. The element ``causal`` keeps the positions in the visitor's browser. A pool of
connections that is behind them asks its server before it begins; a replica that is behind them is not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from zlib import crc32

Positions = Mapping[str, int]
"""The position of each database, by a name that is the same in each process of the site."""
NOTHING: Positions = MappingProxyType({})
"""The positions of a visitor who has written nothing."""


def short_name(*words: str) -> str:
    """Return a name of a database that is the same in each process, and tells a visitor nothing."""
    return f"{crc32(' '.join(words).encode()):08x}"


def seen_by(request: Any) -> dict[str, int]:
    """Return the positions that the answer to a request tells its visitor: of each database that the request has
    used, what this process has seen there, the request's own commits included."""
    found = dict(request.written)
    for cls in type(request).__mro__:  # the element of each database adds one to the class
        if "__positions__" in vars(cls):
            found.update(vars(cls)["__positions__"](request))
    for name, position in found.items():
        if type(position) is not int:
            raise TypeError(f"the position {position!r} of the database {name!r} is not an int (__positions__)")
    return found
