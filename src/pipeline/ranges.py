"""Ranges of options: what a number or a word of an ini may be, before a request meets it."""

from __future__ import annotations

import math
import re

from pipeline.interfaces import OptionError

MEDIA_TYPE = re.compile(r"\A[!#$&+.^_0-9A-Za-z-]*+[*/][!#$&*+.^_0-9A-Za-z/-]*+")
"""A content type, or one with ``*`` for any characters."""


def at_least(least: float, **options: float | None) -> None:
    """Raise OptionError for an option that is smaller, or infinite, or ``nan``. None sets no limit."""
    for name, value in options.items():
        if value is not None and not least <= value < math.inf:
            raise OptionError(f"the option {name} must be a number of at least {least}, not {value}")


def words_of(option: str, words: tuple[str, ...], kind: re.Pattern[str], meaning: str) -> tuple[str, ...]:
    """Return the words of an option. Raise OptionError if one is not of that kind, such as one with a comma."""
    for word in words:
        if not kind.fullmatch(word):
            raise OptionError(f"option {option!r}: {word!r} is not the name of {meaning}. Separate names by blanks")
    return words
