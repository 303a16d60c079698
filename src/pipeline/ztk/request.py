"""``ztk_request``: the request and the response that a Zope site sees, and what begins and ends with them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from webob.exc import HTTPBadRequest
from zope.app.publication.httpfactory import HTTPPublicationRequestFactory
from zope.publisher.http import DirectResult
from zope.publisher.interfaces.logginginfo import ILoggingInfo

from pipeline.composition import Offers, element
from pipeline.database.transactions import OFFERED, open_tm
from pipeline.interfaces import Handler
from pipeline.options import on_demand
from pipeline.response import Response
from pipeline.toolkit.manager import ImplicitManager, end_use, give_back_thread, take_thread
from pipeline.toolkit.requests import WalkedRequest, hide_pipeline, put, walk_of
from pipeline.toolkit.site import loaded
from pipeline.ztk.known import Ways, ways_of
from pipeline.ztk.urls import shorten

if TYPE_CHECKING:
    from pipeline.ztk.explaining import watch
else:  # only a request that is explained needs it
    watch = on_demand("pipeline.ztk.explaining:watch")

CONNECTION = "ZODB.interfaces.IConnection"
"""Name of the annotation of a Zope request that has its connection."""


class ZopeRequest(WalkedRequest):
    """The attributes that the elements of Zope's publication add to a request."""

    zope: Any = None
    """The ``zope.publisher`` request of this attempt. Its response is ``zope.response``."""
    published: Any = None
    """The object that traversal found and that is called, or the last one that a hook has returned."""
    ways: Ways
    """Which hooks may take the short way."""


@element(
    adds=ZopeRequest,
    provides=("zope",),
    inside={
        "retry": "every attempt has a request of its own",
        "database": "the transaction of the request is the one of the thread while it runs",
    },
    outside={"transaction": "the request ends when its transaction has ended"},
)
def ztk_request(next: Handler, *, factory: Callable[[Any, Any], Any] | None = None, db: Any = None) -> Offers:
    """Make the request of Zope; end it, and put the response of Zope on ours.

    factory  ``IPublicationRequestFactory``, called for each attempt with input and environ. Default is that of
             zope.app.publication for ``db``, which chooses by method and content type among what ZCML registers.
             If the class of a request overrides ``retry``, ``supportsRetry`` or ``retry_max_count``, its ``retry``
             makes the request of the next attempt, and the other two say how many attempts are made
    db       database that publications see as ``publication.db``, or a function that returns it; a dotted name in
             an ini. Default is the main database of the zope.conf that was loaded

    Hooks of Zope that are kept here: the request factory with its skins, ``publication.endRequest`` (the
    interaction ends, EndRequestEvent), ``request.close`` (held objects are released), and, in the environ,
    ``wsgi.logging_info`` and ``REMOTE_USER``.
    """
    shorten()
    if factory is None:
        db = loaded() or object() if db is None else db
        factory = HTTPPublicationRequestFactory(db() if callable(db) else db)
    retried: WeakKeyDictionary[ZopeRequest, Any] = WeakKeyDictionary()

    def ztk_request(request: ZopeRequest, response: Response) -> None:
        environ = request.environ
        tm = request.tm
        outer = take_thread(tm, "ztk_request")
        try:
            attempt = getattr(request, "attempt", 1)
            zope = None if attempt == 1 else retried.pop(request, None)
            if zope is None:
                zope = make_zope_request(factory, environ)
                if attempt > 1:
                    zope._retry_count = attempt - 1
            request.zope = zope
            ways: Ways = frozenset()
            try:
                walk = walk_of(request)
                publication = zope.publication if walk is None else watch(walk, zope)
                ways = request.ways = ways_of(publication, zope)
                if "retries" not in ways and attempt == 1 and request.attempts_left:
                    request.attempts_left = sys.maxsize  # ztk_errors asks supportsRetry
                try:
                    next(request, response)
                finally:
                    publication.endRequest(zope, request.published)
                put_answer(request, response, zope)
            except Exception as error:
                if "retries" not in ways and request.attempts_left and request.judge(error).transient:
                    retried[request] = zope.retry()
                    hide_pipeline(getattr(retried[request], "_environ", environ), environ)
                raise
            finally:
                zope.close()
                end_use(zope.annotations.get(CONNECTION))
        finally:
            give_back_thread(tm, outer)

    return Offers(ztk_request, tm=partial(open_tm, ImplicitManager), **OFFERED)


def make_zope_request(factory: Any, environ: dict[str, Any]) -> Any:
    """Return the request that ``factory`` makes, with its publication and its skin.

    Raises HTTPBadRequest for a path that is not UTF-8, which Zope would raise to the server.
    """
    path = environ.get("PATH_INFO", "")
    if not path.isascii():
        try:
            path.encode("latin-1").decode()
        except UnicodeDecodeError:
            raise HTTPBadRequest("The path is not UTF-8.") from None
    request = factory(environ["wsgi.input"], environ)
    hide_pipeline(getattr(request, "_environ", environ), environ)
    return request


def put_answer(request: ZopeRequest, response: Response, zope: Any) -> None:
    """Put the response of Zope on ours, and the user in the environ for the log of the server."""
    answer = zope.response
    message = logged(zope.principal)
    environ = request.environ
    environ["wsgi.logging_info"] = message
    environ.setdefault("REMOTE_USER", message)
    if message != "-":
        request.principal = message
    body = answer.consumeBodyIter()
    if type(body) is tuple or (type(body) is DirectResult and isinstance(body.body, (bytes, tuple, list))):
        body = list(body)
    put(response, answer.getStatusString(), answer.getHeaders(), body)


def logged(principal: Any) -> str:
    """Return what the log of the server says of a principal."""
    info = ILoggingInfo(principal, None)
    message = "-" if info is None else info.getLogMessage()
    return message if isinstance(message, str) else message.decode("latin1")
