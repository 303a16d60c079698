"""The WSGI edge: the one place that calls ``start_response``.

The server calls ``Edge``. It makes the request and the response, calls the outermost handler, and sends the answer.
Behind a foreign middleware, ``resume`` continues the request of the outer pipeline.

``pipeline.sending`` makes an answer ready to be sent. With a body in memory (a list), the request is closed before
the server gets the body. Any other body is streamed (``pipeline.http.streaming``), and the request is closed with
it. ``pipeline.foreign`` is the opposite: it makes a handler of a foreign WSGI app.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from zope.interface import directlyProvidedBy, directlyProvides

from pipeline.fields import assignments, compiled
from pipeline.interfaces import Handler
from pipeline.options import on_demand
from pipeline.request import OF_ALL_ATTEMPTS, OF_AN_ATTEMPT, Request, close
from pipeline.response import FIELDS, Response
from pipeline.sending import prepare

if TYPE_CHECKING:
    from pipeline.answering import answer_at_edge
    from pipeline.http.bodies import check_body
    from pipeline.http.streaming import InnerBody, stream
else:  # for cost alone: a plain page does not need these functions
    answer_at_edge = on_demand("pipeline.answering:answer_at_edge")
    check_body = on_demand("pipeline.http.bodies:check_body")
    InnerBody = on_demand("pipeline.http.streaming:InnerBody")
    stream = on_demand("pipeline.http.streaming:stream")


class Edge:
    """A WSGI app that gives each request to a handler. ``Pipeline`` is its subclass, and sets everything at
    load."""

    # These have no default here: Python reads an attribute of an object faster if its class does not have it.
    handler: Handler
    request_class: type[Request]
    fields: Mapping[str, Any]
    """First values of fields of the request: the pipeline itself, and what the elements offer."""
    begin: Callable[[type[Request], dict[str, Any]], Request]
    """Function that makes a request with these fields, and a response."""
    finished: bool
    """True if the pipeline is known to be complete, so that ``request_class`` is final."""

    def finish(self) -> None:
        """Check that the pipeline is complete, and make the class of its requests."""
        raise NotImplementedError

    def continuing(self, outer: Edge) -> Edge:
        """Return this pipeline for the requests of an outer pipeline, which come through a foreign middleware."""
        raise NotImplementedError

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if "pipeline.request" in environ:
            return resume(self, environ, start_response)
        finished, begin = self.finished, self.begin  # Python caches the reading, but not the lookup of a call
        request = begin(self.request_class, environ)
        response = environ["pipeline.response"]
        try:
            if not finished:  # read before the class was: another thread may have finished it since
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
            body = answer_at_edge(request, response, error)
        except BaseException:
            close(request)
            raise
        if type(body) is list:
            if request.closers is not None:
                request.bytes_sent = sum(map(len, body))
            close(request)
        try:
            start_response(response._status, response._own_headers)
        except BaseException:  # the server does not close a body that it did not get
            close(request)
            raise
        return body  # type: ignore[no-any-return]


def beginning(values: Mapping[str, Any]) -> Callable[[type[Request], dict[str, Any]], Any]:
    """Return a function ``(cls, environ)`` that puts a request and a response in the environ. They are as
    ``cls(environ)`` and ``Response()`` make them, but with these values for some fields of the request."""
    of_request = OF_ALL_ATTEMPTS | OF_AN_ATTEMPT
    given = {name: value for name, value in values.items() if name in of_request}
    lines = [
        "request = environ['pipeline.request'] = new(cls)",
        "request.environ = environ",
        *assignments("request", of_request, given),
        "response = environ['pipeline.response'] = new(Response)",
        *assignments("response", FIELDS),
        "return request",
    ]
    scope = {"new": object.__new__, "Response": Response, **of_request, **FIELDS, **given}
    return compiled("begin", "cls, environ", lines, scope)  # type: ignore[no-any-return]


def resume(edge: Edge, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Continue the request of an outer pipeline, behind a foreign middleware.

    The request is the same, with the environ of the middleware and a new response. Errors pass through the
    middleware to the outer elements. If the middleware calls an inner pipeline a second time, the request is
    restored to its state before the first call.
    """
    request: Request = environ["pipeline.request"]
    outer, outer_environ, outer_response = request.pipeline, request.environ, environ["pipeline.response"]
    inner = edge.continuing(outer)
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
        return body if type(body) is list else InnerBody(request, body)
    finally:
        environ["pipeline.response"] = outer_response
        request.environ = outer_environ
        request.pipeline = outer
