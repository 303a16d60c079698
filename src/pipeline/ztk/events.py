"""Events without an event object where nobody listens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import zope.event
from zope.component import getSiteManager
from zope.component.event import dispatch, objectEventNotify
from zope.interface import implementedBy, providedBy



def tell(kind: Callable[..., Any], *arguments: Any) -> None:
    """Notify the subscribers of ``kind(*arguments)``, if there are any."""
    if zope.event.subscribers == [dispatch]:
        handlers = getSiteManager().adapters.subscriptions((implementedBy(kind),), None)
        if not handlers:
            return
        event = kind(*arguments)
        for handler in handlers:
            handler(event)
    else:
        zope.event.notify(kind(*arguments))


def tell_of_object(kind: Callable[..., Any], ob: Any, request: Any) -> None:
    """Notify the subscribers of ``kind(ob, request)``, an object event, if there are any."""
    if zope.event.subscribers == [dispatch]:
        adapters = getSiteManager().adapters
        spec = implementedBy(kind)
        handlers = adapters.subscriptions((spec,), None)
        if (
            len(handlers) == 1
            and handlers[0] is objectEventNotify
            and not adapters.subscriptions((providedBy(ob), spec), None)
        ):
            return
    zope.event.notify(kind(ob, request))
