"""The steps of a request to a Zope site, noted for ``explain``, the inspector and the page of debug mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.elements.transaction import TransactionRequest
from pipeline.options import on_demand

if TYPE_CHECKING:
    from pipeline.explaining.walking import Walk
else:  # only a request that is explained needs it
    Walk = on_demand("pipeline.explaining.walking:Walk")


class WalkedRequest(TransactionRequest):
    """The attribute that has the steps of a request."""

    zope_walk: Walk | None = None
    """Has the steps of this request noted, for ``pipeline explain``, the inspector and the page of debug mode."""


def walk_of(request: Any) -> Walk | None:
    """Return where the steps of a request are to be noted, or None. For a visitor with the key of debug mode
    they are noted, for the page of an error."""
    if request.zope_walk is None and getattr(request, "debug", False):
        request.zope_walk = Walk()
    walk: Walk | None = request.zope_walk
    return walk
