"""``transaction.manager`` in a view: that of its request. ZODB's own documentation, and libraries, write
``transaction.abort()`` and ``transaction.get()``, which would do nothing to ``request.tm``, without a word."""

from __future__ import annotations

from typing import Any

from transaction import manager


class OfThread:
    """Stands for the transaction manager of a thread: that of the request that runs there, or the thread's own.

    A foreign application is called with the thread's own: it ends its transactions itself.
    """

    def __init__(self, place: dict[str, Any]) -> None:
        self.place = place
        """The attributes of ``transaction.manager`` in this thread: to read one takes longer than all below."""
        self.own = place["manager"]
        self.request: Any = None
        """The request that runs inside ``transaction`` in this thread."""

    def leave(self) -> None:
        """Give back the own manager of the thread."""
        if self.place["manager"] is self:
            self.place["manager"] = self.own

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own if self.request is None else self.request.tm, name)


def of_thread(tm: Any, threads: Any = manager) -> OfThread:
    """Return what stands for the manager of this thread. It does not if that is ``tm``, the request's, already."""
    place = threads.__dict__
    found: OfThread | None = place.get("pipeline")
    if found is None:
        found = place["pipeline"] = OfThread(place)
    own = place["manager"]
    if own is not found and own is not tm:
        found.own, place["manager"] = own, found
    return found
