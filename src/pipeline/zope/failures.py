"""Exceptions of an attempt: an exception view answers, or another attempt is made, or the exception is raised."""

from __future__ import annotations

from typing import Any, NamedTuple

from transaction.interfaces import TransientError
from zExceptions import Unauthorized, upgradeException
from ZPublisher import WSGIPublisher, pubevents
from ZPublisher.HTTPRequest import HTTPRequest

from pipeline.toolkit.events import tell


class Failure(NamedTuple):
    """The outcome of an exception."""

    exc_info: Any
    again: bool
    """True if another attempt is made."""
    is_raised: bool
    """True if no exception view has answered, so that the exception itself is the answer."""
    is_thrown: bool = False
    """True if a test wants to see the exception, so that no subscriber is told."""


def fail(request: Any, error: Exception) -> Failure:
    """Do what ``transaction_pubevents`` does with an exception, up to the abort."""
    zope, answer = request.zope, request.zope_response
    again = may_try_again(request, error)
    exc_type, _ = upgradeException(error.__class__, None)
    exc = error if isinstance(error, exc_type) else exc_type(str(error)).with_traceback(error.__traceback__)
    exc_info = (exc_type, exc, exc.__traceback__)
    if request.zope_watcher is not None:
        request.zope_watcher.failed(exc)
    if zope.environ.get("x-wsgiorg.throw_errors", False):
        request.attempts_left = 0
        return Failure(exc_info, False, True, True)
    unauthorized = isinstance(exc, Unauthorized)
    made = False
    if not again:
        request.attempts_left = 0
        try:
            made = WSGIPublisher._exc_view_created_response(exc, zope, answer)
        except Exception:
            made = False
        if unauthorized:
            exc.setRealm(answer.realm)
            answer._unauthorized()
            answer.setStatus(exc.getStatus())
    tell(pubevents.PubBeforeAbort, zope, exc_info, again)
    shown = made and not getattr(answer, "debug_exceptions", False)
    return Failure(exc_info, again, again or not (unauthorized or shown))


def may_try_again(request: Any, error: Exception) -> bool:
    """Return whether another attempt is made. A request with an answer of its own is asked, too."""
    if not request.judge(error).transient or not request.attempts_left:
        return False
    zope = request.zope
    if (
        request.call is not None
        or type(zope).supports_retry is not HTTPRequest.supports_retry
        or "retry_max_count" in vars(zope)
    ):
        return bool(isinstance(error, TransientError) and zope.supports_retry())
    return True
