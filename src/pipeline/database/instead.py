"""Copies in the place of databases, for tools that must leave a site as it is, such as ``pipeline prove``; and
files that are opened read-only, for commands that only look at a site while another process, its server, has them.

Every storage is opened through ``storage`` here. Connections of SQLAlchemy have an event for this, ``do_connect``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pipeline.database import forks

Copy = Callable[[str, Callable[[], Any]], Any]
"""``(uri, open)`` returns the storage to use in the place of that which ``open()`` returns. The uri of a
database that the application has opened is ``given:`` and its name."""

_copy: Copy | None = None


def storage(uri: str, open: Callable[[], Any]) -> Any:
    """Return the storage of a database: its own, or the copy that stands for it."""
    return open() if _copy is None else _copy(uri, open)


@contextmanager
def of_databases(copy: Copy) -> Iterator[None]:
    """Have this process use copies. Its databases are closed at the beginning and at the end, so that the next
    request opens them again."""
    global _copy
    forks.close_all()
    _copy = copy
    try:
        yield
    finally:
        try:
            forks.close_all()
        finally:
            _copy = None


tell_locked: ContextVar[Callable[[str], None] | None] = ContextVar("tell_locked", default=None)
"""Called with the path of each file that is opened read-only since another process has it; None: none is."""


@contextmanager
def read_only_if_locked(tell: Callable[[str], None]) -> Iterator[None]:
    """Have this thread open files that other processes have open, read-only, and tell which."""
    token = tell_locked.set(tell)
    try:
        yield
    finally:
        tell_locked.reset(token)
