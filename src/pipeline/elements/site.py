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

    A site provides ``zope.component.interfaces.ISite``. From then on ``zope.component.getUtility`` and the like ask
    its site manager. The site before is set again when the request is closed, so error views and streamed bodies
    have the local site.
    """
    setHooks()  # without the hooks zope.component ignores the local site
    sites: dict[type, bool] = {}
    """For each class, True if its objects may be sites, because the class has ``getSiteManager``. Objects that are
    not sites cost one dictionary look-up; asking for their interfaces would take ten times as long."""

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
