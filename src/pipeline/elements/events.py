"""``events``: notifications by zope.event, for packages that listen to them."""

from __future__ import annotations

from typing import Any

from zope.event import notify, subscribers  # type: ignore[import-untyped]
from zope.interface import Attribute, implementer
from zope.interface.interfaces import IObjectEvent

from pipeline.composition import element
from pipeline.interfaces import Handler
from pipeline.request import Request
from pipeline.response import Response


class IBeforeTraverse(IObjectEvent):
    """Traversal has reached an object, before the next step or the call of the view."""

    request = Attribute("The request.")


class IEndRequest(IObjectEvent):
    """A request is being closed, or an attempt that is followed by another one. The object is the context, or None
    if traversal found none."""

    request = Attribute("The request.")


@implementer(IBeforeTraverse)
class BeforeTraverse:
    def __init__(self, object: Any, request: Request) -> None:
        self.object = object
        self.request = request


@implementer(IEndRequest)
class EndRequest:
    def __init__(self, object: Any, request: Request) -> None:
        self.object = object
        self.request = request


def _reached(request: Request, obj: Any) -> None:
    notify(BeforeTraverse(obj, request))


@element(outside={"traverse": "it notifies at each step of traversal"})
def events(next: Handler) -> Handler:
    """Notify ``zope.event`` of each object that traversal reaches, and of the end of the request.

    The events are ``IBeforeTraverse`` and ``IEndRequest``, which extend IObjectEvent of zope.interface. An error of
    a subscriber of the first is answered like an error of a view. An error of a subscriber of the second is logged.
    """

    def events(request: Request, response: Response) -> None:
        if subscribers:
            request.add_traversal_hook(_reached)
            request.on_close(lambda: notify(EndRequest(request.context, request)))
        next(request, response)

    return events
