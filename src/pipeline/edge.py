"""The WSGI edge: the one place that calls ``start_response``.

The server calls ``Edge``. It makes the request and the response, calls the outermost handler, and sends the answer.
Behind a foreign middleware, ``resume`` continues the request of the outer pipeline.

``prepare`` makes an answer ready to be sent. With a body in memory (a list), the request is closed before the
server gets the body. Any other body is streamed (``pipeline.http.streaming``), and the request is closed with it.
``pipeline.foreign`` is the opposite: it makes a handler of a foreign WSGI app.

The edge guarantees, whatever views and elements do: HEAD, 204 and 304 have no body; ``Content-Length`` is right or
absent; no header with a control character is sent (S6); every ``close()`` is called exactly once (R7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from zope.interface import directlyProvidedBy, directlyProvides

from pipeline.interfaces import Handler
from pipeline.options import on_demand
from pipeline.request import Request
from pipeline.response import HTML, KNOWN_NAMES, OK, HeaderList, Response, check_header

# A plain page does not need these functions. Each is imported when a request first needs it.
check_body = on_demand("pipeline.http.bodies:check_body")
finish = on_demand("pipeline.http.finishing:finish")
lets_out = on_demand("pipeline.http.error_pages:lets_out")
put_error = on_demand("pipeline.http.error_pages:put_error")
put_last_resort = on_demand("pipeline.http.error_pages:put_last_resort")
stream = on_demand("pipeline.http.streaming:stream")
inner_body = on_demand("pipeline.http.streaming:InnerBody")
check_redirect = on_demand("pipeline.http.redirects:check")

_new = object.__new__


class Edge:
    """A WSGI app that gives each request to a handler. ``Pipeline`` is its subclass, and sets everything at
    load."""

    # These have no default here: Python reads an attribute of an object faster if its class does not have it.
    handler: Handler
    request_class: type[Request]
    fields: Mapping[str, Any]
    """First values of fields of the request: the pipeline itself, and what the elements offer."""
    begin: Callable[[type[Request], dict[str, Any]], Request]
    """Function that makes a request with these fields."""
    finished: bool
    """True if the pipeline is known to be complete, so that ``request_class`` is final."""

    def finish(self) -> None:
        """Check that the pipeline is complete, and make the class of its requests."""
        raise NotImplementedError

    def behind(self, outer: Edge) -> Edge:
        """Return this pipeline for the requests of an outer pipeline, which come through a foreign middleware."""
        raise NotImplementedError

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if "pipeline.request" in environ:
            return resume(self, environ, start_response)
        begin = self.begin  # read, then called: Python caches the reading, but not the lookup of a call
        request = environ["pipeline.request"] = begin(self.request_class, environ)
        response = environ["pipeline.response"] = _new(Response)
        # As Response() does, without the call.
        response._status = OK
        response._own_headers = None
        response._app_iter = response.filters = response.delivery_filters = ()
        response.conditional_response = False
        try:
            if not self.finished:
                self.finish()
                request.__class__ = self.request_class
            if "CONTENT_LENGTH" in environ or "HTTP_TRANSFER_ENCODING" in environ:
                request.announces_body = True
                check_body(request)
            handler = self.handler
            handler(request, response)
            body = prepare(request, response)
            if type(body) is not list:
                body = stream(request, response, body)
        except Exception as error:
            body = answer(request, response, error)
        except BaseException:
            close(request)
            raise
        if type(body) is list:
            if request._closers is not None:
                request.bytes_sent = sum(map(len, body))
            close(request)
        try:
            start_response(response._status, response._own_headers)
        except BaseException:  # the server does not close a body that it did not get
            close(request)
            raise
        return body  # type: ignore[no-any-return]


def resume(edge: Edge, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Continue the request of an outer pipeline, behind a foreign middleware.

    The request is the same, with the environ of the middleware and a new response. Errors pass through the
    middleware to the outer elements. If the middleware calls an inner pipeline a second time, the request is
    restored to its state before the first call.
    """
    request: Request = environ["pipeline.request"]
    outer, outer_environ, outer_response = request.pipeline, request.environ, environ["pipeline.response"]
    inner = edge.behind(outer)
    before = outer_environ.get("pipeline.before")
    if before is None:
        outer_environ["pipeline.before"] = request.snapshot()
        request.on_close(partial(outer_environ.pop, "pipeline.before", None))
    else:
        request.restore(before)
    response = environ["pipeline.response"] = Response()
    request.__class__ = inner.request_class
    if "__provides__" in request.__dict__:  # made for the class before
        directlyProvides(request, directlyProvidedBy(request))
    for name, value in inner.fields.items():
        setattr(request, name, value)
    request.environ = environ
    request.announces_body = "CONTENT_LENGTH" in environ or "HTTP_TRANSFER_ENCODING" in environ
    try:
        inner.handler(request, response)
        body = prepare(request, response)
        start_response(response._status, response._own_headers)
        return body if type(body) is list else inner_body(request, body)
    finally:
        environ["pipeline.response"] = outer_response
        request.environ = outer_environ
        request.pipeline = outer


_BARE: tuple[Any, ...] = (OK, [], [], False, ())
"""The snapshot of a new response. A response without another snapshot is restored to it."""


def answer(request: Request, response: Response, error: Exception) -> Any:
    """Answer an exception that no element answered, or that was raised while the body was made. Return the body."""
    if lets_out(request.environ):
        close(request)
        raise error
    try:
        try:
            answer_escaped(request, response, error)
            body = prepare(request, response)
            return body if type(body) is list else stream(request, response, body)
        except Exception as failure:  # an error view that streams has failed, or an output filter
            response.restore(_BARE)
            put_last_resort(request, response, failure)
            return prepare(request, response)
    except BaseException:
        close(request)
        raise


def close(request: Request) -> None:
    """Close the request, and remove it from the environ. From then on it opens no database (R13)."""
    environ = request.environ
    environ.pop("pipeline.request", None)  # a middleware may have emptied the environ, or this is the second call
    environ.pop("pipeline.response", None)
    if request._closers or request.verdict is not None:
        request.close()
    request.pipeline = None


def prepare(request: Request, response: Response) -> Any:
    """Make the headers of the response final, and return the body. It is a list if it is in memory."""
    body = response._app_iter
    if type(body) is not list or response.filters or response.delivery_filters or response.conditional_response:
        body = finish(request, response, body)
    headers = response._own_headers
    status = response._status
    if status is not OK:
        check_header("Status", status)
        if headers is not None and status[:1] == "3":
            check_redirect(request, response)
    claimed = None if headers is None else _check_headers(headers)
    if type(body) is list:
        if len(body) == 1 and type(body[0]) is bytes:
            length = len(body[0])
        else:
            length = sum(map(_length, body))
        # A view may answer HEAD with a length, and without a body.
        if length or claimed is None or request.environ["REQUEST_METHOD"] != "HEAD":
            try:
                claimed = _LENGTHS[length]
            except KeyError:
                claimed = _content_length(length)
    if status is not OK and (status[:3] in ("204", "304") or status[0] == "1"):
        response._headerlist = [pair for pair in response._headerlist if pair[0].lower() != "content-type"]
        return []
    if headers is None:
        response._own_headers = [HTML] if claimed is None else [HTML, claimed]
    elif claimed is not None:
        headers.append(claimed)
    return [] if request.environ["REQUEST_METHOD"] == "HEAD" else body


def _check_headers(headers: HeaderList) -> tuple[str, str] | None:
    """Refuse headers that must not be sent (S6). Remove the Content-Length, and return it."""
    claimed: tuple[str, str] | None = None
    for pair in headers:
        if pair is not HTML:
            name, value = pair
            try:
                safe = name in KNOWN_NAMES and value.isascii() and value.isprintable()
            except (AttributeError, TypeError):
                safe = False
            if not safe:
                check_header(name, value)
            if len(name) == 14 and name.lower() == "content-length":
                claimed = pair
    if claimed is not None:
        headers[:] = [pair for pair in headers if pair[0].lower() != "content-length"]
    return claimed


_LENGTHS: dict[int, tuple[str, str]] = {}
"""The header ``Content-Length`` by its value. Looking it up takes half the time of making it."""


def _content_length(length: int) -> tuple[str, str]:
    header = ("Content-Length", str(length))
    if len(_LENGTHS) < 4096:
        _LENGTHS[length] = header
    return header


def _length(block: Any) -> int:
    if not isinstance(block, bytes):
        raise TypeError(f"the body has the block {block!r:.80}, which is not bytes")
    return len(block)


def close_with(request: Request, body: Any) -> None:
    """Close ``body`` when the request is closed, if it has a ``close`` that is not registered yet (R7)."""
    closer = getattr(body, "close", None)
    if closer is not None and closer not in (request._closers or ()):
        request.on_close(closer)


def answer_escaped(request: Request, response: Response, error: Exception) -> None:
    """Answer an exception that no element answered. If the request has met ``errors``, it answers as ``errors``
    does."""
    if request.answer_error is not None and request.response_before is not None:
        request.answer_error(request, response, error)
    else:
        response.restore(_BARE)
        put_error(request, response, error)
