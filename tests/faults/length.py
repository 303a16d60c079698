"""How long the experiments are: short in every run of the suite, full where ``PIPELINE_FAULTS=full``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

Amount = TypeVar("Amount")
One = TypeVar("One")

FULL = os.environ.get("PIPELINE_FAULTS") == "full"


def length(short: Amount, full: Amount) -> Amount:
    """The amount that this run asks for."""
    return full if FULL else short


def by_turns(enumerated: Sequence[One], parts: int = 2) -> Sequence[One]:
    """All of an enumeration, or the part whose turn it is: PIPELINE_TURN is a number that ``.ci/run`` sets."""
    turn = os.environ.get("PIPELINE_TURN")
    return enumerated if FULL or not turn else enumerated[int(turn) % parts :: parts]
