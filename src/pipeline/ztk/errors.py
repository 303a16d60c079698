"""``ztk_errors``: exceptions become the error views of the site."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

from zope.app.publication.zopepublication import tryToLogException
from zope.browser.interfaces import ISystemErrorView
from zope.component import getUtility, queryAdapter, queryMultiAdapter
from zope.error.interfaces import IErrorReportingUtility
from zope.location import LocationProxy
from zope.publisher.defaultview import queryDefaultViewName
from zope.publisher.interfaces import IExceptionSideEffects, IReRaiseException, Retry
from zope.security.proxy import removeSecurityProxy

from pipeline.composition import element
from pipeline.database.transactions import is_open
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
            if "errors" in request.ways:
                if transient and may_try_again(request):
                    raise
                answer_as_zope(request, cause(error))
            else:
                ask_publication(request, handles)
            put_outcome(request, transient)
            response.restore(before)  # without what the inner parts have put on it
            if not handles and is_raised(error):
                raise cause(error)[1] from None

    return ztk_errors


def ask_publication(request: ZopeRequest, handles: bool) -> None:
    """Have a publication of the application answer an error, or raise Retry for another attempt.

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
    if "retries" not in request.ways and not request.zope.supportsRetry():
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


NOTE = "application error-handling"


def answer_as_zope(request: Any, exc_info: Any) -> None:
    """Have an error reported and answered by its view, as ``handleException`` does for one that is not retried.

    ``ZopePublication.handleException`` begins, annotates and commits a transaction for the report, the view and the
    side effects. Here each finds the transaction that began when the one of the request was aborted, and it is
    committed if something has joined it. That gains 25 % of a page that is not found.
    """
    zope = request.zope
    publication = zope.publication
    response = zope.response
    report(request, exc_info)
    response.reset()
    located = None
    view = None
    try:
        located = LocationProxy(exc_info[1], place_of(publication, request.published), "")
        name = queryDefaultViewName(located, zope)
        if name is not None:
            view = queryMultiAdapter((located, zope), name=name)
    except Exception:
        tryToLogException("Exception while getting view on exception")
    if view is None or not is_shown(request, view, exc_info):
        response.handleException(exc_info)
        undo(request)
    side_effects(request, located, exc_info)


def report(request: Any, exc_info: Any) -> None:
    """Tell the error reporting utility of an error; one that fails is logged."""
    try:
        getUtility(IErrorReportingUtility).raising(exc_info, request.zope)
        commit(request, "error reporting utility")
    except Exception:
        tryToLogException("Error while reporting an error to the Error Reporting utility")
        undo(request)


def place_of(publication: Any, ob: Any) -> Any:
    """Return where an error view stands: the object that was published, or the one that it is a method of."""
    if hasattr(ob, "__parent__"):
        return ob
    place = removeSecurityProxy(ob)
    place = getattr(place, "im_self", place)
    return publication.proxy(getattr(place, "__self__", place))


def is_shown(request: Any, view: Any, exc_info: Any) -> bool:
    """Call an error view and commit its changes. Return whether it has answered."""
    zope = request.zope
    try:
        zope.response.setResult(zope.publication.callErrorView(zope, view))
        commit(request, NOTE)
        if ISystemErrorView.providedBy(view) and view.isSystemError():
            logging.getLogger("SiteError").error(str(zope.URL), exc_info=exc_info)
    except Exception as failure:
        tryToLogException("Exception while rendering view on exception")
        report(request, (type(failure), failure, failure.__traceback__))
        return False
    return True


def side_effects(request: Any, located: Any, exc_info: Any) -> None:
    """Call the adapter of the error that does something besides."""
    try:
        effects: Callable[..., Any] | None = IExceptionSideEffects(located, None)
        if effects is not None:
            effects(request.published, request.zope, exc_info)
            commit(request, f"{NOTE} side-effect")
    except Exception:
        tryToLogException("Exception while calling IExceptionSideEffects adapter")
        undo(request)


def commit(request: Any, note: str) -> None:
    """Annotate and commit the transaction if something has joined it; abort it if it is doomed."""
    transaction = request.tm._txn
    if transaction is None:
        return
    if transaction.isDoomed():
        transaction.abort()
        return
    if transaction._resources or transaction._before_commit or transaction._after_commit:
        transaction.note(note)
        request.zope.publication.annotateTransaction(transaction, request.zope, request.published)
    transaction.commit()


def undo(request: Any) -> None:
    """Abort what was begun for an error."""
    if is_open(request.tm):
        request.tm.abort()
