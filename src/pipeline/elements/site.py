"""``site``: zope.component's local site, set while traversal passes an object that has a site manager."""

from __future__ import annotations

from typing import Any

from zope.component.hooks import getSite, setSite  # type: ignore[import-untyped]
from zope.component.interfaces import ISite  # type: ignore[import-untyped]

from pipeline.composition import element
from pipeline.interfaces import Handler
from pipeline.request import Request
from pipeline.response import Response


@element(outside={"traverse": "the site is set by a hook at each step of traversal"})
def site(next: Handler) -> Handler:
    """Set the local site of zope.component to the innermost object on the path that is a site.

    A site provides ``zope.component.interfaces.ISite``. The site that was set before is set again when the
    request is closed.
    """

    def enter(request: Request, obj: Any) -> None:
        if ISite.providedBy(obj):
            setSite(obj)

    def site(request: Request, response: Response) -> None:
        before = getSite()
        request.on_close(lambda: setSite(before))
        request.add_traversal_hook(enter)
        next(request, response)

    return site
