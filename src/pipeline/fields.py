"""Functions over the fields of requests and responses, made at import from the one list of the fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def compiled(name: str, arguments: str, lines: Iterable[str], values: Mapping[str, Any] = {}) -> Any:
    """Return a function with one statement for each field, as ``dataclasses`` makes an ``__init__``. A loop over
    the fields would take 0.4 microseconds more for each request."""
    scope = dict(values)
    exec("\n    ".join([f"def {name}({arguments}):", *lines]), scope)
    return scope[name]


def assignments(variable: str, first: Mapping[str, Any], given: Iterable[str] = ()) -> list[str]:
    """Return the statements that give a new object its first values. The values of names in ``given``, and those
    that are not empty, are looked up in the scope of the function."""
    literals = {name: repr(value) for name, value in first.items() if not value and name not in given}
    return [f"{variable}.{name} = {literals.get(name, name)}" for name in first]
