"""What a request has stored, so that two sites can be compared by it."""

from __future__ import annotations

import pickletools
import re
from io import BytesIO
from typing import Any

RANDOM = re.compile(r"\b[0-9a-f]{32}\b|\d{6,}(\.\d+)?")
"""Names by chance, and times."""


def stored(db: Any, since: bytes) -> list[Any]:
    """Return the transactions that a database has stored: description, user, and each object."""
    found = []
    for one in db.storage.iterator(since):
        if one.tid > since:
            found.append((one.description, one.user, sorted((record.oid, state_of(record.data)) for record in one)))
    return found


def state_of(data: bytes) -> list[Any]:
    """Return what a record stores: the class, and the state. Equal strings may be one object or two, and times
    differ. A record without data, such as that of an object whose creation was undone, stores nothing."""
    if not data:
        return []
    file = BytesIO(data)
    memo: dict[Any, Any] = {}
    return [*told(file, memo), "its state", *told(file, memo)]


def told(pickle: BytesIO, memo: dict[Any, Any]) -> list[Any]:
    """Return the values of the next pickle of a file, in the order in which it builds them.

    memo  the pickles of a record share it: ZODB writes both with one pickler
    """
    found: list[Any] = []
    last: Any = None
    for opcode, argument, _ in pickletools.genops(pickle):
        if opcode.name == "MEMOIZE":
            memo[len(memo)] = last
        elif "PUT" in opcode.name:
            memo[argument] = last
        elif "GET" in opcode.name:
            found.append(memo[argument])
        elif opcode.name not in ("STOP", "MARK", "FRAME", "PROTO", "BINFLOAT"):
            last = argument if argument is not None else opcode.name
            if isinstance(last, str):
                last = RANDOM.sub("-", last)
            found.append(last)
    return found
