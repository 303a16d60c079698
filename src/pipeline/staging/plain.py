"""The record of an object as plain values, to compare what two runs have stored."""

from __future__ import annotations

import io
import pickle
from decimal import Decimal
from typing import Any

LONGEST = 200
"""Characters of a text that are compared."""
SHORT = 8
"""Bytes of a value that is not random: longer ones are compared by their length, since a run may have made them
by chance."""
DEPTH = 40


class WithoutReferences(pickle.Unpickler):
    """Loads one word in the place of another object."""

    def persistent_load(self, reference: Any) -> Any:
        return ("reference",)


def plain(data: bytes) -> Any:
    """Return class and state of a record. A reference to another object is one word, since ids differ from run
    to run."""
    unpickler = WithoutReferences(io.BytesIO(data))
    kind = unpickler.load()
    kind = kind[0] if isinstance(kind, tuple) else kind
    return getattr(kind, "__name__", kind), _value(unpickler.load(), 0)


def _value(value: Any, depth: int) -> Any:
    """Return a value without times of day and random bytes."""
    if depth > DEPTH:
        return "..."
    if isinstance(value, (bool, int, Decimal, type(None))):
        return value
    if isinstance(value, float):  # an amount has two decimals; a time, or a random number, has more
        return value if value == round(value, 2) else "a number"
    if isinstance(value, str):
        return value[:LONGEST]
    if isinstance(value, bytes):
        return value if len(value) <= SHORT else f"{len(value)} bytes"
    if isinstance(value, (tuple, list)):
        return [_value(one, depth + 1) for one in value]
    if isinstance(value, (set, frozenset)):
        return sorted(repr(_value(one, depth + 1)) for one in value)
    if isinstance(value, dict):
        return sorted((repr(key), repr(_value(one, depth + 1))) for key, one in value.items())
    inner = getattr(value, "__dict__", None)
    return type(value).__name__, _value(inner, depth + 1) if inner else ""
