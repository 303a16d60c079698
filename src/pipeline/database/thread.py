"""``transaction.manager`` in a view: that of its request. ZODB's own documentation, and libraries, write
``transaction.abort()`` and ``transaction.get()``, which would do nothing to ``request.tm``, without a word."""

from __future__ import annotations

from typing import Any


class OfRequest:
    """Stands for the transaction manager of a thread while a request runs there: that of the request.

    A foreign application is called with the thread's own (``pipeline.foreign``): it ends its transactions itself.
    """

    __slots__ = ("outer", "request")

    request: Any
    outer: Any
    """The manager that was there before."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.request.tm, name)


def of_all(manager: Any) -> Any:
    """Return a thread's own manager, by the one that stands there now."""
    while type(manager) is OfRequest:
        manager = manager.outer
    return manager
