"""``site``: zope.component's local site, set while traversal passes an object that has a site manager."""

from __future__ import annotations

from functools import partial
from typing import Any

from zope.component.hooks import getSite, setHooks, setSite
from zope.component.interfaces import ISite

from pipeline.composition import element
from pipeline.interfaces import Handler
from pipeline.request import Request
from pipeline.response import Response


@element(outside={"traverse": "the site is set by a hook at each step of traversal"})
def site(next: Handler) -> Handler:
    """Set the local site of zope.component to the innermost object on the path that is a site.

    A site provides ``zope.component.interfaces.ISite``. ``zope.component.getUtility`` and the like ask its site
    manager then. The site that was set before is set again when the request is closed: error views and
    streamed bodies have the local one.
    """
    setHooks()  # without them zope.component asks nobody for the local site
    sites: dict[type, bool] = {}
    """Whether objects of a class may be sites: whether they have the method of one. What is none, costs no more
    than this; to ask what an object provides takes ten times as long."""

    def enter(request: Request, obj: Any) -> None:
        try:
            may_be = sites[type(obj)]
        except KeyError:
            may_be = sites[type(obj)] = hasattr(type(obj), "getSiteManager")
        if may_be and ISite.providedBy(obj):
            request.on_close(partial(setSite, getSite()))
            setSite(obj)

    def site(request: Request, response: Response) -> None:
        request.add_traversal_hook(enter)
        next(request, response)

    return site
