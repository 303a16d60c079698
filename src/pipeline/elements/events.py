"""``events``: notifications by zope.event, for packages that listen to them."""

from __future__ import annotations

from typing import Any

from zope.event import notify  # type: ignore[import-untyped]
from zope.interface import Attribute, Interface, implementer

from pipeline.composition import element
from pipeline.interfaces import Handler
from pipeline.request import Request
from pipeline.response import Response


class IBeforeTraverse(Interface):
    """Traversal has reached an object, and will step on or call its view."""

    object = Attribute("The object.")
    request = Attribute("The request.")


class IEndRequest(Interface):
    """A request is being closed."""

    object = Attribute("The context, or None if traversal found none.")
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
    """Notify ``zope.event`` of each object that traversal reaches, and of the end of the request."""

    def events(request: Request, response: Response) -> None:
        request.add_traversal_hook(_reached)
        request.on_close(lambda: notify(EndRequest(request.context, request)))
        next(request, response)

    return events
