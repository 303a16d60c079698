"""Events, without an event object if they have no subscriber."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import zope.event
from zope.component import getSiteManager
from zope.component.event import dispatch
from zope.interface import implementedBy


def tell(kind: Callable[..., Any], *arguments: Any) -> None:
    """Notify the subscribers of ``kind(*arguments)``, if there are any."""
    if are_usual():
        spec: Any = implementedBy(kind)  # type: ignore[no-untyped-call]
        handlers = getSiteManager().adapters.subscriptions((spec,), None)
        if not handlers:
            return
        event = kind(*arguments)
        for handler in handlers:
            handler(event)
    else:
        zope.event.notify(kind(*arguments))


def are_usual() -> bool:
    """Return whether events have no subscribers but those that are registered as components."""
    return bool(zope.event.subscribers == [dispatch])
