"""JSON for programs: ``scan = pipeline.publishing.json`` lets views return dicts and lists."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any

from zope.interface import Interface

from pipeline.interfaces import IResult, ResultError
from pipeline.response import CHECKED
from pipeline.views import adapter

_TYPE = ("Content-Type", "application/json")
CHECKED.add(_TYPE)
encoders: dict[str, Callable[[Any], Any]] = {}
"""Functions of the scanned libraries of models: each returns plain values for one that JSON does not have, or
raises."""


def plain(value: Any) -> Any:
    """Return plain values for one that JSON does not have. Raise TypeError if no scanned library knows it."""
    for encode in encoders.values():
        try:
            return encode(value)
        except Exception:  # the next library may know it
            continue
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


# A value that contains itself is an error in any case: a RecursionError, or a ValueError with the check.
_STRICT: dict[str, Any] = {"check_circular": False, "allow_nan": False}
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=plain, **_STRICT).encode


@adapter(list, IResult)
def list_result(value: list[Any]) -> Any:
    """Return the result that sends a list as a JSON array. A list of bytes is a body, as everywhere."""
    if value and all(isinstance(block, bytes) for block in value):
        return lambda request, response: iter(value)
    return sent(value)


@adapter(dict, IResult)
def sent(value: Any) -> Any:
    """Return the result that sends a value as JSON."""
    try:
        body = [_encode(value).encode()]
    except ValueError as error:
        if (place := place_of_nan(json.loads(json.dumps(value, default=plain)))) is None:
            raise
        raise ResultError(
            f"the value at {place} is not a number that JSON has; return None or text instead"
        ) from error
    return lambda request, response: response.adopt(response.status_line, [_TYPE], body)


@adapter(Interface, IResult)
def object_result(value: Any) -> Any:
    """Return the result that sends an object of a dataclass or of attrs as a JSON object, if the module of a
    library of models is scanned; None for any other."""
    is_known = encoders and (is_dataclass(value) or hasattr(type(value), "__attrs_attrs__"))
    return sent(value) if is_known and not isinstance(value, type) else None


def place_of_nan(value: Any, place: str = "the result") -> str | None:
    """Return the place of the first float in a value of JSON that is infinite or not a number."""
    if isinstance(value, float):
        return None if math.isfinite(value) else place
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = (place_of_nan(member, f"{place}[{key!r}]") for key, member in members)
    return next(filter(None, found), None)
