"""Requests to both kinds of Zope sites: their answers are put on ours, and their steps are noted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.elements.transaction import TransactionRequest
from pipeline.http.redirects import of_foreign
from pipeline.options import on_demand
from pipeline.response import HeaderList, Response

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


def put(response: Response, status: str, headers: HeaderList, body: Any) -> None:
    """Have our response answer as Zope does. The site itself judges its redirects, as behind any server."""
    response.adopt(status, of_foreign(headers) if status[:1] == "3" else headers, body)


def hide_pipeline(copy: dict[str, Any], environ: dict[str, Any]) -> None:
    """Take our objects out of the copy of an environ that a request of Zope has made: they refer to it."""
    if copy is not environ:
        copy.pop("pipeline.request", None)
        copy.pop("pipeline.response", None)
