"""``zope_request``: the request and the response that a Zope site sees, and what begins and ends with them."""

from __future__ import annotations

from functools import partial
from io import BytesIO, IOBase
from typing import TYPE_CHECKING, Any

from zExceptions import HTTPException
from zope.globalrequest import clearRequest, setRequest
from zope.security.management import endInteraction
from ZPublisher import pubevents
from ZPublisher.HTTPResponse import WSGIResponse
from ZPublisher.Iterators import IUnboundStreamIterator

from pipeline.composition import Offers, element
from pipeline.database.transactions import OFFERED, open_tm
from pipeline.http.files import FileBody
from pipeline.interfaces import Handler
from pipeline.options import on_demand
from pipeline.response import Response
from pipeline.toolkit.events import tell
from pipeline.toolkit.manager import ImplicitManager, call_close_callbacks, give_back_thread, take_thread
from pipeline.toolkit.requests import WalkedRequest, hide_pipeline, put, walk_of
from pipeline.zope import short
from pipeline.zope.failures import Failure, fail

if TYPE_CHECKING:
    from pipeline.zope.explaining import Watcher
else:  # only a request that is explained needs it
    Watcher = on_demand("pipeline.zope.explaining:Watcher")


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
        tm = request.tm
        outer = take_thread(tm, "zope_request")
        try:
            attempt(next, request, response)
        finally:
            pooled = getattr(request, "zodb_pooled", None)  # also if only the root was used
            call_close_callbacks(pooled and pooled.connection)
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
        except Exception as error:
            failure = request.failure or fail(request, error)  # a commit has failed
        else:
            tell(pubevents.PubSuccess, zope)
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
        if failure is None or not failure.is_raised:
            put_answer(request, response)
        elif failure.again or failure.is_thrown or request.call is not None:
            raise failure.exc_info[1]
        else:
            put_exception(request, response, failure.exc_info[1])
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
    return short.new_request(environ["wsgi.input"], environ, answer)


def set_server(answer: Any, environ: dict[str, Any]) -> None:
    """Tell a response who sends it."""
    answer._http_version = environ["SERVER_PROTOCOL"].split("/")[1]
    answer._server_version = environ.get("SERVER_SOFTWARE")


def put_answer(request: Any, response: Response) -> None:
    """Put what Zope's response has on ours."""
    answer = request.zope_response
    is_stub = request.call is not None and request.call.is_stub
    status, headers = answer.finalize() if is_stub else short.finalize(answer)
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


def put_exception(request: Any, response: Response, error: Exception) -> None:
    """Answer with an HTTP exception as ``egg:Zope#httpexceptions`` does. Raise any other."""
    if not isinstance(error, HTTPException):
        raise error
    found: list[Any] = []

    def start_response(status: str, headers: Any, exc_info: Any = None) -> None:
        found.extend((status, headers))

    body = list(error(request.environ, start_response))
    status, headers = found
    put(response, status, headers, body)


def blocks_of(body: Any, request: Any) -> Any:
    """Return a file, or blocks, as a body. Blocks may be a part of a file that ``read`` does not end at."""
    if request.call is not None:  # a test that looks at the wrapper
        wrapper = request.environ.get("wsgi.file_wrapper")
        return wrapper(body) if wrapper is not None and hasattr(body, "read") else body
    return body if IUnboundStreamIterator.providedBy(body) else FileBody(body)
