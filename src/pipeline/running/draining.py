"""The mark of an instance that is about to stop: a file, which the variable ``PIPELINE_DRAINING`` names (R9)."""

from __future__ import annotations

import os

VARIABLE = "PIPELINE_DRAINING"
"""Set by what ``pipeline deploy`` writes, or else to the file ``draining`` in the directory of the option watch."""


def is_draining() -> bool:
    """Return whether the mark is there: ready no more, though each request is still answered."""
    return os.path.exists(os.environ.get(VARIABLE, ""))


def name_mark(directory: str) -> None:
    """Name the mark, if nothing else has."""
    os.environ.setdefault(VARIABLE, os.path.join(os.path.abspath(directory), "draining"))
