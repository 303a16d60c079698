"""Remedies for the exceptions that a user of the pipeline meets, and the words of notices: texts in TOML files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.telling.words import texts_of

NOTICES: dict[str, str] = texts_of(Path(__file__).with_name("notices.toml"))
"""The words of notices that take more than a line, by what they tell of."""
RULES: dict[str, Any] = texts_of(Path(__file__).with_name("rules.toml"))
"""The rules of notices that one pattern tells, by what is searched: source, text, input."""
REMEDIES: dict[str, str] = texts_of(Path(__file__).with_suffix(".toml"))
"""The remedy, by the name of a class of exceptions: the name, since the package of the class may be missing."""


def remedy_of(error: BaseException | None) -> str:
    """Return what to do about an exception, first of all about its cause; "" if that is not known."""
    if error is None:
        return ""
    noted = [note.partition(":")[0] for note in getattr(error, "__notes__", ())]  # of an outage that lasts
    names = [*noted, *(kind.__name__ for kind in type(error).__mro__)]
    obj = getattr(error, "obj", None)  # of an AttributeError: what is right depends on the object
    names += [f"{kind.__name__} lacks a name" for kind in (obj if isinstance(obj, type) else type(obj)).__mro__]
    return remedy_of(error.__cause__) or next((REMEDIES[name] for name in names if name in REMEDIES), "")
