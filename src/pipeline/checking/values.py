"""Values of options that are taken, and do not do what they seem to, by a table of patterns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pipeline.telling.words import texts_of

VALUES = texts_of(Path(__file__).with_name("values.toml"))["value"]


def slips_in(kinds: set[str], text: str) -> Iterator[tuple[str, str, str]]:
    """Yield what a value seems to do and does not: the part of it, what that part does, and the remedy.

    kinds  the option, as element.option, and the name of its type, or one of both
    """
    for slip in VALUES:
        if kinds & {*slip["options"]} and (found := re.search(slip["pattern"], text)):
            yield found[0], slip["what"], slip["remedy"]
