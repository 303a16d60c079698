"""The states of stored objects as bytes that can be compared, without loading the objects that they refer to."""

from __future__ import annotations

import pickle
from io import BytesIO
from typing import Any


class ByReference(pickle.Pickler):
    """Writes the id of another object in its place, and sets in one order: two that are equal may have two."""

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) in (set, frozenset):
            return type(obj).__name__, sorted(map(comparable, obj), key=repr)
        oid = getattr(obj, "_p_oid", None)
        return oid if isinstance(oid, bytes) else None


def comparable(state: Any) -> bytes | str:
    """Return a state as bytes that are equal for equal states, with references to other objects left out."""
    file = BytesIO()
    pickler = ByReference(file, 3)
    pickler.fast = True
    try:
        pickler.dump(state)
    except Exception as error:  # it could not be stored either
        return repr(error)
    return file.getvalue()
