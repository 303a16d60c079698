"""The WSGI edge: the one place that calls ``start_response``.

``Edge`` is what a server calls. It makes the request and the response, calls the outermost handler, and sends what
that has answered. Behind a foreign middleware ``resume`` takes up the request of the outer pipeline again.

``prepare`` makes an answered request ready to be sent. A body in memory (a list) is closed before the
server gets it; any other body streams through ``Body``, which closes the request when it is closed
itself. ``pipeline.foreign`` goes the other way: it makes a handler of a WSGI app that is not ours.

What holds here, whatever views and elements did: HEAD, 204 and 304 carry no body; ``Content-Length``
is right or absent; nothing with a control character is sent (S6); every ``close()`` is called
exactly once (R7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any

from pipeline.interfaces import Handler
from pipeline.options import on_demand
from pipeline.request import Request
from pipeline.response import HTML, KNOWN_NAMES, OK, HeaderList, Response, check_header

# What a plain page does not need is imported when a request first needs it.
check_body = on_demand("pipeline.http.bodies:check_body")
finish = on_demand("pipeline.http.finishing:finish")
log_failure = on_demand("pipeline.http.error_pages:log_failure")
put_error = on_demand("pipeline.http.error_pages:put_error")
put_last_resort = on_demand("pipeline.http.error_pages:put_last_resort")
check_redirect = on_demand("pipeline.http.redirects:check")

_new = object.__new__


class Edge:
    """A WSGI app that gives each request to a handler. The pipeline is one; all that it knows is made at load."""

    # None of these has a default here: Python reads an attribute of an object faster if its class has none.
    handler: Handler
    request_class: type[Request]
    fields: Mapping[str, Any]
    """First values of fields of the request, which the elements offer."""
    begin: Callable[[type[Request], dict[str, Any]], Request]
    """Makes a request with these fields."""
    finished: bool
    """Whether the pipeline is known to be complete, and ``request_class`` is what its elements need."""

    def finish(self) -> None:
        """Check that the pipeline is complete, and make the class of its requests."""
        raise NotImplementedError

    def behind(self, outer: Edge) -> Edge:
        """Return this pipeline as it is for the requests of an outer one, which come through a middleware."""
        raise NotImplementedError

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if "pipeline.request" in environ:
            return resume(self, environ, start_response)
        begin = self.begin  # read, then called: Python does not keep in mind where it found what it calls
        request = environ["pipeline.request"] = begin(self.request_class, environ)
        request.pipeline = self
        response = environ["pipeline.response"] = _new(Response)
        # What Response() has from its class: read from the object itself in half of the time.
        response._status = OK
        response._own_headers = None
        response._app_iter = response.filters = response.transports = ()
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
        except BaseException:  # the server will not close what it was not given
            close(request)
            raise
        return body  # type: ignore[no-any-return]


def resume(edge: Edge, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Take up the request of an outer pipeline again, behind a foreign middleware.

    It is the same request, on the environ that the middleware handed us, and a new response. Errors pass through
    the middleware to the outer elements. A middleware that asks again, the same inner pipeline or another one,
    finds the request as it was when it asked first.
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
    for name, value in inner.fields.items():
        setattr(request, name, value)
    request.environ = environ
    request.pipeline = inner
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


_BARE: tuple[Any, ...] = (OK, [], [], False, ())
"""What a response is restored to that nobody took a snapshot of."""


def answer(request: Request, response: Response, error: Exception) -> Any:
    """The body that answers an exception which no element answered, or which came of making the body."""
    try:
        try:
            answer_escaped(request, response, error)
            body = prepare(request, response)
            return body if type(body) is list else stream(request, response, body)
        except Exception as failure:  # of an error view that streams, or of an output filter, say
            response.restore(_BARE)
            put_last_resort(request, response, failure)
            return prepare(request, response)
    except BaseException:
        close(request)
        raise


def close(request: Request) -> None:
    """Close the request, and leave no reference to it in the environ."""
    environ = request.environ
    try:
        del environ["pipeline.request"], environ["pipeline.response"]
    except KeyError:  # somebody emptied the environ, or this is the second call
        pass
    if request._closers or request.verdict is not None:
        request.close()


def prepare(request: Request, response: Response) -> Any:
    """Make the headers on the response final; return the body: a list if it is in memory."""
    body = response._app_iter
    if type(body) is not list or response.filters or response.transports or response.conditional_response:
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
        # a view may say the length to a HEAD, and make no body
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
    """Refuse headers that must not be sent (S6); take out and return the Content-Length that was put there."""
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
"""The header ``Content-Length`` by its value: to look it up takes half of the time that it takes to make it."""


def _content_length(length: int) -> tuple[str, str]:
    header = ("Content-Length", str(length))
    if len(_LENGTHS) < 4096:
        _LENGTHS[length] = header
    return header


def _length(block: Any) -> int:
    if not isinstance(block, bytes):
        raise TypeError(f"the body has the block {block!r:.80}, which is no bytes")
    return len(block)


def close_with(request: Request, body: Any) -> None:
    """Close ``body`` when the request is closed, if it can be closed and is not known yet (R7)."""
    closer = getattr(body, "close", None)
    if closer is not None and closer not in (request._closers or ()):
        request.on_close(closer)


class InnerBody:
    """A streamed body as the foreign middleware around an inner pipeline sees it.

    PEP 3333 has the middleware close it, and the request would close it too: the first of them does (R7).
    """

    def __init__(self, request: Request, body: Any) -> None:
        self.request = request
        self.closer = getattr(body, "close", None)
        self.blocks: Iterator[bytes] = iter(body)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self.blocks)

    def close(self) -> None:
        closers, closer = self.request._closers, self.closer
        if closers and closer in closers:
            closers.remove(closer)
            closer()


def stream(request: Request, response: Response, body: Any) -> Any:
    """Return what the server gets for a body that is not in memory.

    A plain file that no filter touched goes to the server as a file, where it takes that; and what was
    opened to find the answer is given back before a slow client reads the first byte.
    """
    if not getattr(body, "is_plain_file", False):
        return Body(request, response, body)

    def close_sent(size: int | None) -> None:
        request.bytes_sent = size
        close(request)

    sent = body.sent_by(request.environ.get("wsgi.file_wrapper"), close_sent)
    if sent is None:
        sent = Body(request, response, body)
    request.release(body.close)
    return sent


class Body:
    """A body on its way to the server, in blocks. Closing it, or an error in it, closes the request.

    The first block is made before ``start_response`` is called, so that a view that fails before its
    first block is an error answer. A view that fails later is logged and raised to the server, which
    breaks the connection: the client sees that the answer is not complete.
    """

    def __init__(self, request: Request, response: Response, chunks: Any) -> None:
        self.request = request
        self.sent = 0
        length = response.headers.get("Content-Length")
        blocks = blocks_of(chunks, None if length is None else int(length))
        self.blocks = chain([block] if (block := next(blocks, None)) else [], blocks)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            chunk = next(self.blocks)
        except StopIteration:
            raise
        except BaseException as error:
            if isinstance(error, Exception):
                log_failure(self.request, error, f"in mid-stream, after {self.sent} bytes")
            self.close()
            raise
        self.sent += len(chunk)
        return chunk

    def close(self) -> None:
        self.request.bytes_sent = self.sent
        close(self.request)


def blocks_of(chunks: Any, length: int | None) -> Iterator[bytes]:
    """The blocks of a body that are not empty; an error if they are not as long as its Content-Length says.

    The last block is held back until nothing follows it: a body that is too long, or that fails at
    its very end, would else have looked complete.
    """
    left = length
    iterator = iter(chunks)
    for block in iterator:
        if not isinstance(block, bytes):
            raise TypeError(f"a streamed body yielded {block!r:.80}, which is no bytes")
        if not block:
            continue
        if left is not None:
            left -= len(block)
            if left < 0 or (left == 0 and any(iterator)):
                raise ValueError(f"a streamed body is longer than its Content-Length, {length} bytes")
        yield block
    if left:
        raise ValueError(f"a streamed body is {left} bytes shorter than its Content-Length, {length} bytes")


def answer_escaped(request: Request, response: Response, error: Exception) -> None:
    """Answer an exception that no element answered: as ``errors`` does, if the request has met it."""
    if request.answer_error is not None and request.response_before is not None:
        request.answer_error(request, response, error)
    else:
        response.restore(_BARE)
        put_error(request, response, error)
