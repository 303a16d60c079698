"""The audit events of Python, for tools that note what code opens, writes and starts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

Listener = Callable[[str, tuple[Any, ...]], None]
"""``(event, arguments)``. An exception that it raises ends what the event announces."""

_listeners: list[Listener] = []
_add_once = cache(sys.addaudithook)
"""Adds a hook, for ever: Python has no way to take it back."""


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have a function called with each audit event of this process."""
    _add_once(_hook)
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    for listener in _listeners:
        listener(event, arguments)
