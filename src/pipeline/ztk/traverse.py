"""``ztk_traverse``: the path is walked, from the root folder to what is published."""

from __future__ import annotations

from typing import Any

from zope.component import getUtility
from zope.traversing.interfaces import IEtcNamespace

from pipeline.composition import element
from pipeline.interfaces import Handler
from pipeline.response import Response
from pipeline.ztk.request import ZopeRequest


@element(
    adds=ZopeRequest,
    requires=("zope", "interaction"),
    provides=("published",),
    inside={"ztk_authenticate": "a place finds a principal only for a request that has none yet"},
)
def ztk_traverse(next: Handler) -> Handler:
    """Walk the path of the request to the object that is published.

    Hooks of Zope that are kept here: ``publication.getApplication`` (the connection, ``openedConnection``, the
    root folder), ``request.traverse`` with ``publication.callTraversalHooks``, ``traverseName`` and
    ``getDefaultTraversal``, and ``publication.afterTraversal``.
    """

    def ztk_traverse(request: ZopeRequest, response: Response) -> None:
        zope = request.zope
        publication = zope.publication
        root = publication.getApplication(zope)
        request.published = root
        request.published = zope.traverse(root)
        publication.afterTraversal(zope, request.published)
        next(request, response)

    return ztk_traverse
