"""The values of the headers of an answer, kept for headers that were checked at load: most answers have them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from pipeline.response import CHECKED

Headers: TypeAlias = Collection[tuple[str, str]]
OF_EVERY_ANSWER: set[str] = set()
"""Names of headers that elements put on each answer when it is complete. The page of an error that comes to light
after that, in the body, has them, too."""

MOST_KEPT = 2_000
"""Results of each function that are kept. Further ones are made each time."""


def of_headers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same function of headers. Nothing may change its results, which are kept if all of the headers are
    known: another one may be a secret."""
    kept: dict[Any, Any] = {}

    def call(headers: Headers, *more: Any) -> Any:
        try:
            found = kept.get(key := (*headers, *more))
        except TypeError:  # a header is not a pair of texts
            return function(headers, *more)
        if found is None:
            found = function(headers, *more)
            if len(kept) < MOST_KEPT and CHECKED.issuperset(headers):
                kept[key] = found
        return found

    return call


@of_headers
def values_in(headers: Headers) -> Mapping[str, str]:
    """Return the values by the names in small letters, as one value where a name stands repeatedly."""
    values: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        values[key] = f"{values[key]}, {value}" if key in values else value
    return values


@of_headers
def without(headers: Headers, *names: str) -> tuple[tuple[str, str], ...]:
    """Return the headers that have other names. The names are in small letters."""
    return tuple([pair for pair in headers if pair[0].lower() not in names])
