"""``zope_request``: the request and the response that a Zope site sees, and what begins and ends with them."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from io import BytesIO, IOBase
from typing import TYPE_CHECKING, Any, NamedTuple

import webob
from AccessControl.SecurityManagement import noSecurityManager
from transaction.interfaces import TransientError
from zExceptions import HTTPException, Unauthorized, upgradeException
from zope.globalrequest import clearRequest, setRequest
from zope.security.management import endInteraction
from ZPublisher import WSGIPublisher, pubevents
from ZPublisher.HTTPRequest import HTTPRequest, WSGIRequest
from ZPublisher.HTTPResponse import WSGIResponse
from ZPublisher.Iterators import IUnboundStreamIterator

from pipeline.composition import Offers, element
from pipeline.database.transactions import OFFERED, open_tm
from pipeline.http.files import FileBody
from pipeline.interfaces import Handler
from pipeline.options import on_demand
from pipeline.response import Response
from pipeline.toolkit.events import tell
from pipeline.toolkit.manager import ImplicitManager, end_use, give_back_thread, take_thread
from pipeline.toolkit.requests import WalkedRequest, hide_pipeline, put, walk_of

if TYPE_CHECKING:
    from pipeline.zope.explaining import Watcher
else:  # only a request that is explained needs it
    Watcher = on_demand("pipeline.zope.explaining:Watcher")


class Failure(NamedTuple):
    """The outcome of an exception."""

    exc_info: Any
    again: bool
    """True if another attempt is made."""
    is_raised: bool
    """True if no exception view has answered, so that the exception itself is the answer."""
    is_thrown: bool = False
    """True if a test wants to see the exception, so that no subscriber is told."""


class ZopeRequest(WalkedRequest):
    """The attributes that the elements of a Zope site add to a request."""

    zope: Any = None
    """The ZPublisher request of this attempt."""
    zope_response: Any = None
    """The ZPublisher response of this attempt."""
    published: Any = None
    """The object that traversal found, and that is called."""
    failure: Failure | None = None
    """The exception of this attempt, if it has raised one."""
    zope_watcher: Any = None
    """Notes the steps, if ``zope_walk`` is there."""
    call: Any = None
    """The arguments of ``publish_module``, if the request came through it."""


@element(
    adds=ZopeRequest,
    provides=("zope",),
    inside={
        "retry": "every attempt has a request of its own",
        "database": "the transaction of the request is the one of the thread while it runs",
    },
    outside={"transaction": "the request ends when its transaction has ended"},
)
def zope_request(next: Handler) -> Offers:
    """Make the request of Zope; end it, and put the response of Zope on ours.

    Hooks of Zope that are kept here: ``zope.globalrequest``, IPubSuccess, IPubFailure, the end of the interaction,
    EndRequestEvent, held objects, ``Connection.onCloseCallback``, ``response.after_list``; and what
    ``egg:Zope#httpexceptions`` does: an HTTP exception without an exception view is an answer.
    """

    def zope_request(request: ZopeRequest, response: Response) -> None:
        if request.call is not None:
            attempt(next, request, response)
            return
        noSecurityManager()  # that of the request before, which subscribers and the log must not see (S21)
        tm = request.tm
        outer = take_thread(tm, "zope_request")
        try:
            attempt(next, request, response)
        except HTTPException as error:
            if isinstance(error, TransientError):
                raise
            # As egg:Zope#httpexceptions does.
            status, headers, body = webob.Request(request.environ).call_application(error)
            put(response, status, headers, list(body))
        finally:
            pooled = getattr(request, "zodb_pooled", None)  # also if only the root was used
            end_use(pooled and pooled.connection)
            give_back_thread(tm, outer)

    return Offers(zope_request, tm=partial(open_tm, ImplicitManager), **OFFERED)


def attempt(next: Handler, request: ZopeRequest, response: Response) -> None:
    """Publish once."""
    zope = request.zope = new_request(request)
    walk = walk_of(request)
    if walk is not None:
        request.zope_watcher = Watcher(walk, zope)
    setRequest(zope)
    try:
        request.commit_on_error = True  # Zope commits whatever a view has returned
        failure: Failure | None = None
        try:
            next(request, response)
            tell(pubevents.PubSuccess, zope)
        except Exception as error:
            failure = request.failure
            if failure is None:  # a commit, or a subscriber of PubSuccess, has failed
                failure = fail(request, error)
            elif error is not failure.exc_info[1]:  # a subscriber of PubBeforeAbort has failed
                raise
        if failure is not None and not failure.is_thrown:
            tell(pubevents.PubFailure, zope, failure.exc_info, failure.again)
        if failure is not None and failure.again and request.call is not None:
            request.call.next_request = zope.retry()
    finally:
        request.failure = None
        endInteraction()
        zope.close()
        clearRequest()
    try:
        if failure is not None and failure.is_raised:
            raise failure.exc_info[1]
        put_answer(request, response)
    finally:
        del failure  # its traceback refers to this frame


def new_request(request: ZopeRequest) -> Any:
    """Make the request of Zope for this attempt, and its response."""
    environ = request.environ
    if request.call is not None:
        zope, request.zope_response = request.call.new_request(environ)
    else:
        zope = new_request_of(environ)
        request.zope_response = zope.response
        zope.retry_count = getattr(request, "attempt", 1) - 1
    hide_pipeline(getattr(zope, "environ", environ), environ)
    return zope


def new_request_of(environ: dict[str, Any]) -> Any:
    """Make the request of Zope for an environ, with its response."""
    answer = WSGIResponse(stdout=BytesIO(), stderr=BytesIO())
    set_server(answer, environ)
    return WSGIRequest(environ["wsgi.input"], environ, answer)


def set_server(answer: Any, environ: dict[str, Any]) -> None:
    """Tell a response who sends it."""
    answer._http_version = environ["SERVER_PROTOCOL"].split("/")[1]
    answer._server_version = environ.get("SERVER_SOFTWARE")


def fail(request: Any, error: Exception) -> Failure:
    """Do what ``transaction_pubevents`` does with an exception, up to the abort."""
    zope, answer = request.zope, request.zope_response
    again = may_try_again(request, error)
    exc_type, _ = upgradeException(error.__class__, None)
    exc = error if isinstance(error, exc_type) else exc_type(str(error)).with_traceback(error.__traceback__)
    exc_info = (exc_type, exc, exc.__traceback__)
    if request.zope_watcher is not None:
        request.zope_watcher.failed(exc)
    request.commit_on_error = False
    request._stands_for_error = True  # also if the exception is one of webob, which could be an answer
    if not again:
        request.attempts_left = 0
    if zope.environ.get("x-wsgiorg.throw_errors", False):
        failure = request.failure = Failure(exc_info, again, True, True)
        return failure
    unauthorized = isinstance(exc, Unauthorized)
    made = False
    if not again:
        with suppress(Exception):
            made = WSGIPublisher._exc_view_created_response(exc, zope, answer)
        if unauthorized:
            exc.setRealm(answer.realm)
            answer._unauthorized()
            answer.setStatus(exc.getStatus())
    shown = made and not getattr(answer, "debug_exceptions", False)
    failure = request.failure = Failure(exc_info, again, again or not (unauthorized or shown))
    tell(pubevents.PubBeforeAbort, zope, exc_info, again)
    return failure


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


def put_answer(request: Any, response: Response) -> None:
    """Put what Zope's response has on ours."""
    answer = request.zope_response
    is_stub = request.call is not None and request.call.is_stub
    status, headers = answer.finalize()
    body = answer.body
    if isinstance(body, IOBase) or IUnboundStreamIterator.providedBy(body):
        blocks = blocks_of(body, request)
    else:
        written = answer.stdout.getvalue()  # by response.write
        blocks = [written, body] if written else [body]
    if is_stub:
        request.call.answer = status, headers, blocks
        status, headers, blocks = "204 No Content", [], []
    put(response, status, headers, blocks)
    for function in answer.after_list:
        function()


def blocks_of(body: Any, request: Any) -> Any:
    """Return a file, or blocks, as a body. Blocks may be a part of a file that ``read`` does not end at."""
    if request.call is not None:  # a test that looks at the wrapper
        wrapper = request.environ.get("wsgi.file_wrapper")
        return wrapper(body) if wrapper is not None and hasattr(body, "read") else body
    return body if IUnboundStreamIterator.providedBy(body) else FileBody(body)
