"""For applications of other frameworks at the end of a pipeline: the request that it brings, and its transaction.

``request_of(environ)`` has what the elements outside of a WSGI application have made. A Pyramid application with
pyramid_tm needs two settings. Then ``request.tm`` is the transaction manager of the pipeline, and the element
``transaction`` commits::

    tm.manager_hook = pipeline.mounting.manager_of
    tm.activate_hook = pipeline.mounting.commits_itself
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transaction import TransactionManager

from pipeline.request import Request


def request_of(environ: Mapping[str, Any]) -> Any:
    """Return the request of the pipeline that an application stands in, with all that elements add to it.

    Raises LookupError if the application does not stand in a pipeline.
    """
    request = environ.get("pipeline.request")
    if not isinstance(request, Request):
        raise LookupError(
            "the environ has no request of a pipeline: the application stands in no pipeline, the request is "
            "closed, or a middleware has made a new environ"
        )
    return request


def manager_of(request: Any) -> TransactionManager:
    """Return the transaction manager of the pipeline, for a request with an ``environ``, such as that of Pyramid.

    An application that runs alone gets a manager of its own, which it commits itself.
    """
    return TransactionManager(explicit=True) if commits_itself(request) else request_of(request.environ).tm


def commits_itself(request: Any) -> bool:
    """Return whether the application must commit its changes, since no element ``transaction`` does."""
    outer = request.environ.get("pipeline.request")
    return not (isinstance(outer, Request) and "transaction" in outer.pipeline.names)
