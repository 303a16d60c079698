"""The queue of jobs in the root of a ZODB."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

from BTrees.LOBTree import LOBTree

from pipeline.jobs import Stored

KEY = "pipeline.jobs"
"""The key of the queue: a BTree of tuples by random ids, so that two requests rarely conflict."""


class InZodb:
    """The queue in the root, by the connection of a request."""

    def __init__(self, connection: Any) -> None:
        self.root = connection.root()
        is_shared = not connection.isReadOnly()
        self.refusal = "" if is_shared else "workers need a database that several processes share, such as zeo://"

    def create(self) -> None:
        if KEY not in self.root:
            self.root[KEY] = LOBTree()

    def add(self, stored: Stored) -> None:
        self.create()
        values = (stored.name, stored.arguments, stored.due, stored.failed, stored.error)
        self.root[KEY][stored.id or secrets.randbits(63)] = values

    def due(self, now: float, most: int) -> list[int]:
        found = sorted((one.due, one.id) for one in self.all() if one.due is not None and one.due <= now)
        return [id for _, id in found[:most]]

    def take(self, id: int) -> Stored | None:
        found = self.root.get(KEY, {}).get(id)
        if found is None:
            return None
        del self.root[KEY][id]
        return Stored(id, *found)

    def all(self) -> Iterator[Stored]:
        return (Stored(id, *values) for id, values in self.root.get(KEY, {}).items())
