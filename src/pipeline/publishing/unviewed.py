"""Requests without a view: a PUT that makes an object, OPTIONS, and the errors 404 and 405."""

from __future__ import annotations

from webob.exc import HTTPMethodNotAllowed, HTTPNotFound

from pipeline.http.exceptions import make_exception
from pipeline.interfaces import INullResource, Unavailable
from pipeline.names import is_name
from pipeline.publishing.steps import has_item
from pipeline.request import Request
from pipeline.response import Response
from pipeline.views import View, Views


def null_view(views: Views, request: Request) -> View | None:
    """Return the view that makes the object of a PUT, if there is no object of that name yet. The context becomes
    the null resource.

    The name is checked here, too. It may not come from the path, since a form may name a view.
    """
    name = request.view_name
    if request.environ["REQUEST_METHOD"] != "PUT" or not name or request.subpath or not is_name(name):
        return None
    null = views.adapt(request.context, INullResource)
    view = views.find(null, request, "PUT", "") if null is not None else None
    if view is None or has_item(request, request.context, name):
        return None
    null.__name__, request.context, request.view_name = name, null, ""
    return view


def no_view(views: Views, request: Request, response: Response) -> None:
    """Answer a request without a view: with 404 or 405, or with the methods for OPTIONS.

    Raise Unavailable, a 503, for an object whose class cannot be imported: a 404 would say that it was deleted.
    """
    cls = type(request.context)
    if hasattr(cls, "__Broken_state__"):  # ZODB has it in the place of a class that is gone
        name = f"{cls.__module__}.{cls.__name__}"
        raise Unavailable(f"class {name} of stored objects cannot be imported: was it renamed or removed?")
    allowed = views.allowed(request.context, request, request.view_name)
    if not allowed:
        raise make_exception(HTTPNotFound, "There is nothing at this address.")
    allow = ", ".join(sorted({*allowed, "OPTIONS"}))
    if request.environ["REQUEST_METHOD"] != "OPTIONS":
        raise HTTPMethodNotAllowed("This address does not accept that method.", headers={"Allow": allow})
    response.headers["Allow"] = allow
    response.blocks = []
