"""How long the experiments are: short in every run of the suite, full where ``PIPELINE_FAULTS=full``."""

from __future__ import annotations

import os
from typing import TypeVar

Amount = TypeVar("Amount")

FULL = os.environ.get("PIPELINE_FAULTS") == "full"


def length(short: Amount, full: Amount) -> Amount:
    """The amount that this run asks for."""
    return full if FULL else short
