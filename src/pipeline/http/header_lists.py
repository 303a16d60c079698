"""The values of the headers of an answer, kept for headers that were checked at load: most answers have them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from webob import Response as AnyResponse

from pipeline.response import CHECKED, HeaderList

Headers: TypeAlias = Collection[tuple[str, str]]


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


def make_private(response: AnyResponse, *, unless_public: bool = False) -> None:
    """Have no cache give an answer that is for one visitor to another visitor.

    unless_public  whether an answer stays as it is that allows shared caches, as RFC 9111 section 3.5 has it
    """
    headers = response.headerlist
    said = values_in(headers)
    control = said.get("cache-control", "")
    if not (unless_public and ("public" in control.lower() or "s-maxage" in control.lower())):
        headers[:] = *without(headers, "vary", "cache-control"), *_private(said.get("vary", ""), control)


@lru_cache(maxsize=64)
def _private(*said: str) -> HeaderList:
    """Return the headers that say so, given what Vary and Cache-Control say. Most answers say the same."""
    vary, control = ([part.strip() for part in text.split(",") if part.strip()] for text in said)
    if "*" not in vary and "cookie" not in map(str.lower, vary):
        vary.append("Cookie")
    control = [part for part in control if part.lower() != "public"]
    if not {"private", "no-store"}.intersection(map(str.lower, control)):
        control.insert(0, "private")
    return [("Vary", ", ".join(vary)), ("Cache-Control", ", ".join(control))]


CHECKED.update(_private("", ""))
