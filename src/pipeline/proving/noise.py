"""Noise: what differs between two runs of the same requests, such as a random token. It is not compared."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from typing import Any

WORD = re.compile(r"'[^']*'|[\w.+-]+")
PART = re.compile(r"'[^']*'|[\w.+-]+|.", re.DOTALL)
Places = tuple[int, ...]
"""The numbers of the parts of a text that differ."""


class Noise:
    """The texts that differ from run to run, known by their parts that do not."""

    def __init__(self) -> None:
        self.known: dict[Places, set[str]] = {}

    def learn(self, one: Any, other: Any) -> None:
        """Note what differs between two runs that should be the same."""
        first, second = Counter(texts(one)), Counter(texts(other))
        others = [PART.findall(text) for text in second - first]

        @cache
        def shapes(places: Places) -> set[str]:
            return {shape(parts, places) for parts in others}

        for left in map(PART.findall, first - second):
            fitting = (places for places in self.known if shape(left, places) in shapes(places))
            places = next(fitting, None) or differing(left, others)
            if places:
                self.known.setdefault(places, set()).add(shape(left, places))

    def without(self, value: Any) -> Any:
        """Return a value in which each text that is known as noise is one word, in the order of what is left."""
        if isinstance(value, tuple):
            parts = [self.without(one) for one in value]
            return tuple(sorted(parts) if parts and all(isinstance(one, str) for one in parts) else parts)
        if isinstance(value, str) and self.known:
            split = PART.findall(value)
            found = ((shape(split, places), shapes) for places, shapes in self.known.items())
            return next((one for one, shapes in found if one in shapes), value)
        return value


def texts(value: Any) -> Iterator[str]:
    """Yield the texts in nested tuples."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from texts(one)


def shape(parts: Sequence[str], places: Places) -> str:
    """Return a text in which the words at some places are one."""
    found = enumerate(parts)
    return "\0".join("NOISE" if number in places and WORD.match(part) else part for number, part in found)


def differing(left: Sequence[str], others: Collection[Sequence[str]]) -> Places:
    """Return the fewest places at which a text differs from another one with as many parts, at least one of them a
    word that is the same; else ()."""
    found = []
    for right in others:
        pairs = list(zip(left, right, strict=False))
        if len(left) == len(right) and any(a == b and a.strip("'").isalnum() for a, b in pairs):
            found.append(tuple(number for number, (a, b) in enumerate(pairs) if a != b))
    return min(found, key=len, default=())
