"""Noise: what differs between two runs of the same requests, such as a random token. It is not compared."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

TOKEN = re.compile(r"'[^']*'|[\w.+-]+|.", re.DOTALL)


class Noise:
    """The texts that differ from run to run, as patterns."""

    def __init__(self, *others: Noise) -> None:
        self.patterns: dict[str, re.Pattern[str]] = {}
        for other in others:
            self.patterns |= other.patterns

    def learn(self, one: Any, other: Any) -> None:
        """Note what differs between two runs that should be the same. A text is known by its parts that do not."""
        first, second = Counter(texts(one)), Counter(texts(other))
        others = list((second - first).elements())
        for left in (first - second).elements():
            fitting = filter(None, (common(left, right) for right in others))
            for pattern in sorted(fitting, key=lambda one: one.count("|"))[:1]:
                self.patterns[pattern] = re.compile(pattern, re.DOTALL)

    def without(self, value: Any) -> Any:
        """Return a value in which each text that is known as noise is one word, in the order of what is left."""
        if isinstance(value, tuple):
            parts = [self.without(one) for one in value]
            return tuple(sorted(parts) if parts and all(isinstance(one, str) for one in parts) else parts)
        if isinstance(value, str):
            return next((name for name, pattern in self.patterns.items() if pattern.fullmatch(value)), value)
        return value


def texts(value: Any) -> Iterator[str]:
    """Yield the texts in nested tuples."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from texts(one)


def common(left: str, right: str) -> str:
    """Return the expression that both match, if they have the same parts and at least one is the same; else ""."""
    first, second = TOKEN.findall(left), TOKEN.findall(right)
    pairs = list(zip(first, second, strict=False))
    if len(first) != len(second) or not any(a == b and a.strip("'").isalnum() for a, b in pairs):
        return ""
    return "".join(re.escape(a) if a == b else r"('[^']*'|[\w.+-]+)" for a, b in pairs)
