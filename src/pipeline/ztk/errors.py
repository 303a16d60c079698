"""``ztk_errors``: exceptions become the error views of the site."""

from __future__ import annotations

import sys
from typing import Any

from zope.component import queryAdapter
from zope.publisher.interfaces import IReRaiseException, Retry

from pipeline.composition import element
from pipeline.interfaces import Handler
from pipeline.response import Response
from pipeline.ztk.request import ZopeRequest

LATER = "1"
"""Seconds, as ``Retry-After`` has them."""


@element(
    requires=("zope",),
    provides=("error_pages",),
    inside={"retry": "it lets a transient error pass while attempts remain"},
    outside={"transaction": "an error view runs in a transaction of its own, which it commits"},
)
def ztk_errors(next: Handler, *, handle_errors: bool = True) -> Handler:
    """Answer exceptions by the error views of the site, with the interaction and the site of the request.

    handle_errors  whether exceptions become pages; ``wsgi.handleErrors`` in the environ counts before this

    Hooks of Zope that are kept here: ``publication.handleException`` (the error is reported, the error view is
    called and committed, IExceptionSideEffects), ``request.supportsRetry`` and ``IReRaiseException``. A transient
    error is left to ``retry``; when no attempt is left, its page is a 503 with ``Retry-After``. If an application
    overrides ``handleException``, that gets every error first, and raises ``Retry`` to ask for another attempt.
    """

    def ztk_errors(request: ZopeRequest, response: Response) -> None:
        before = response.snapshot()
        try:
            next(request, response)
        except Exception as error:
            handles = request.environ.get("wsgi.handleErrors", handle_errors)
            transient = request.judge(error).transient
            if transient and request.ways.errors and may_try_again(request):
                raise
            ask_publication(request, handles)
            put_outcome(request, transient)
            response.restore(before)  # without what the inner parts have put on it
            if not handles and is_raised(error):
                raise cause(error)[1] from None

    return ztk_errors


def ask_publication(request: ZopeRequest, handles: bool) -> None:
    """Have the publication answer an error, or raise Retry for another attempt.

    As in ``zope.publisher.publish`` it may raise Retry if no attempt is left, and is then given the original error.
    """
    zope = request.zope
    handle_exception = zope.publication.handleException
    try:
        handle_exception(request.published, zope, sys.exc_info(), True)
    except Retry as retry:
        if may_try_again(request):
            raise
        if handles:
            handle_exception(request.published, zope, cause(retry), False)


def may_try_again(request: ZopeRequest) -> bool:
    """Return whether another attempt may be made. A request class of the application is asked, too."""
    if not request.ways.retries and not request.zope.supportsRetry():
        request.attempts_left = 0
    return bool(request.attempts_left) and not request.outcome


def put_outcome(request: ZopeRequest, transient: bool) -> None:
    """Have the answer say that an error may pass (R2), and what is known of the changes (R4)."""
    response = request.zope.response
    if transient and response.getStatus() == 500:
        response.setStatus(503)
        response.setHeader("Retry-After", LATER)
    if request.outcome:
        response.setHeader("X-Outcome", request.outcome)


def cause(error: BaseException) -> Any:
    """The ``exc_info`` that a Retry was made of, or its own."""
    found = error.getOriginalException() if isinstance(error, Retry) else None
    if found is None:
        found = (type(error), error, error.__traceback__)
    return found


def is_raised(error: Exception) -> bool:
    """Return whether a test browser sees an exception: an adapter to IReRaiseException may say no."""
    reraise = queryAdapter(error, IReRaiseException, default=None)
    return reraise is None or bool(reraise())
