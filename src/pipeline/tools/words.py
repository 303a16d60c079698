"""An element and its options in words."""

from __future__ import annotations

import inspect


def sentence(element: object) -> str:
    """Return the first sentence that a thing says of itself."""
    text = inspect.cleandoc(getattr(element, "__doc__", None) or "")
    return " ".join(text.partition("\n\n")[0].split())


def written(value: object) -> str:
    """Return a value as an ini has it."""
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}:{value.__qualname__}"
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return str(value)
