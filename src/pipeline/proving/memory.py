"""The memory of a connection between two requests, compared with what is stored (R8, R13).

This module and ``pipeline.explaining.notices`` alone use private attributes of ZODB: the cache of a connection, its
storage and its reader.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from transaction import TransactionManager
from transaction.interfaces import TransactionError
from ZODB.POSException import POSKeyError

from pipeline.database.stored import comparable


def differences() -> tuple[str, ...]:
    """Return what the next request would see that is not stored, each kind once."""
    zodb = sys.modules.get("pipeline.database.zodb_pools")
    found: set[str] = set()
    try:
        for connection in zodb.idle_connections() if zodb is not None else ():
            for oid, obj in connection._cache.lru_items():
                if not isinstance(obj, type):
                    found.update(_difference(connection, oid, obj))
    except TransactionError as error:
        name = type(error).__name__
        found.add(f"a connection waits for the next request, and its transaction has not ended ({name})")
    return tuple(sorted(found))


def _difference(connection: Any, oid: bytes, obj: Any) -> Iterator[str]:
    name = type(obj).__name__
    if obj._p_changed:
        yield f"a changed {name} is in memory after the request"
        return
    try:
        data, serial = connection._storage.load(oid)
    except POSKeyError:
        yield f"a {name} that is not stored is in memory after the request"
        return
    if serial != obj._p_serial:
        yield f"a {name} in memory is older than what is stored"
        return
    state = comparable(obj.__getstate__())
    if state != comparable(connection._reader.getState(data)) and state != _afresh(obj):
        yield f"a {name} in memory differs from what is stored"


def _afresh(obj: Any) -> bytes | str:
    """Return the state of an object as another connection loads it: some classes change it when it is loaded."""
    other = obj._p_jar.db().open(TransactionManager())
    try:
        loaded = other.get(obj._p_oid)
        loaded._p_activate()
        return comparable(loaded.__getstate__())
    finally:
        other.transaction_manager.abort()
        other.close()
