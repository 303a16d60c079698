"""Remedies for the exceptions that a user of the pipeline meets, by the name of their class."""

from __future__ import annotations

import tomllib
from pathlib import Path

TEXT = Path(__file__).with_suffix(".toml").read_text("utf-8")
REMEDIES = {name: " ".join(remedy.split()) for name, remedy in tomllib.loads(TEXT).items()}
"""The remedy, by the name of a class of exceptions: the name, since the package of the class may be missing."""


def remedy_of(error: BaseException | None) -> str:
    """Return what to do about an exception, first of all about its cause; "" if that is not known."""
    if error is None:
        return ""
    noted = [note.partition(":")[0] for note in getattr(error, "__notes__", ())]  # of an outage that lasts
    names = [*noted, *(kind.__name__ for kind in type(error).__mro__)]
    return remedy_of(error.__cause__) or next((REMEDIES[name] for name in names if name in REMEDIES), "")
