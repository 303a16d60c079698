"""JSON for programs: ``scan = pipeline.publishing.json`` lets views return dicts and lists."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from zope.interface import Interface, implementedBy

from pipeline.interfaces import IResult, ResultError
from pipeline.response import CHECKED, Response
from pipeline.views import View, Views, adapter

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
    return sent(value) if encoders and _is_object(type(value)) else None


def _is_object(cls: type) -> bool:
    return is_dataclass(cls) or hasattr(cls, "__attrs_attrs__")


def answer_null(view: View, request: Any, response: Response) -> None:
    """Answer with ``null`` for a view that has returned None, if its annotation says ``X | None`` and an X would be
    sent as JSON."""
    try:
        kinds = {get_origin(one) or one for one in get_args(get_type_hints(view.called)["return"])}
    except Exception:  # such as a name that only type checkers import
        return
    if type(None) in kinds and all(_is_json(kind, request.views) for kind in kinds - {type(None)}):
        sent(None)(request, response)


def _is_json(cls: Any, views: Views) -> bool:
    """Return whether objects of a class are sent as JSON."""
    adapt = views.lookup1(implementedBy(cls), IResult) if isinstance(cls, type) else None  # type: ignore[no-untyped-call]
    is_ours = getattr(adapt, "__module__", "").startswith(f"{__package__}.")
    return is_ours and (adapt is not object_result or _is_object(cls))


def place_of_nan(value: Any, place: str = "the result") -> str | None:
    """Return the place of the first float in a value of JSON that is infinite or not a number."""
    if isinstance(value, float):
        return None if math.isfinite(value) else place
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = (place_of_nan(member, f"{place}[{key!r}]") for key, member in members)
    return next(filter(None, found), None)
