"""Commands that only look at a site open a Data.fs read-only if another process, such as its server, has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Tell = Callable[[str], None]
"""``(path)`` is called with the path of a file that was opened read-only."""

_tell: ContextVar[Tell | None] = ContextVar("tell", default=None)


@contextmanager
def if_locked(tell: Tell) -> Iterator[None]:
    """Have this thread open databases in files that other processes have open, read-only, and tell which."""
    token = _tell.set(tell)
    try:
        yield
    finally:
        _tell.reset(token)


def wanted() -> Tell | None:
    """Return the function to tell if a file that is locked shall be opened read-only, or else None."""
    return _tell.get()
