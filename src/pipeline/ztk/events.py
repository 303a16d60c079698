"""Events, without an event object if they have no subscriber."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import zope.event
from zope.component import getSiteManager
from zope.component.event import dispatch, objectEventNotify
from zope.interface import implementedBy, providedBy
from zope.traversing.interfaces import BeforeTraverseEvent


def tell(kind: Callable[..., Any], *arguments: Any) -> None:
    """Notify the subscribers of ``kind(*arguments)``, if there are any."""
    if zope.event.subscribers == [dispatch]:
        spec: Any = implementedBy(kind)  # type: ignore[no-untyped-call]
        handlers = getSiteManager().adapters.subscriptions((spec,), None)
        if not handlers:
            return
        event = kind(*arguments)
        for handler in handlers:
            handler(event)
    else:
        zope.event.notify(kind(*arguments))


BEFORE_TRAVERSE: Any = implementedBy(BeforeTraverseEvent)  # type: ignore[no-untyped-call]


def hears_all(adapters: Any) -> bool:
    """Return whether an event before each step has a subscriber that does not depend on the object."""
    if zope.event.subscribers != [dispatch]:
        return True
    handlers = adapters.subscriptions((BEFORE_TRAVERSE,), None)
    return len(handlers) != 1 or handlers[0] is not objectEventNotify


def tell_before_step(ob: Any, request: Any, adapters: Any, to_all: bool) -> None:
    """Notify the subscribers of a BeforeTraverseEvent, if there are any."""
    if to_all or adapters.subscriptions((providedBy(ob), BEFORE_TRAVERSE), None):
        zope.event.notify(BeforeTraverseEvent(ob, request))
