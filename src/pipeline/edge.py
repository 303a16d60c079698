"""The WSGI edge: the one place that calls ``start_response``, and the one that captures it.

``prepare`` makes an answered request ready to be sent. A body in memory (a list) is closed before the
server gets it; any other body streams through ``Body``, which closes the request when it is closed
itself. ``foreign`` goes the other way: it makes a handler of a WSGI app that is not ours.

What holds here, whatever views and elements did: HEAD, 204 and 304 carry no body; ``Content-Length``
is right or absent; nothing with a control character is sent (S6); every ``close()`` is called
exactly once (R7).
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, NoReturn

from webob.exc import WSGIHTTPException
from webob.response import EmptyResponse

from pipeline.interfaces import Handler, Unavailable, UnsafeHeader, WSGIApp
from pipeline.request import Request
from pipeline.response import HTML, OK, HeaderList, Response, adopt_exception, check_header

log = logging.getLogger("pipeline")

StartResponse = Callable[..., Any]


def answer(request: Request, response: Response, error: Exception) -> Any:
    """The body that answers an exception which no element answered."""
    answer_escaped(request, response, error)
    return prepare(request, response)


def close(request: Request) -> None:
    """Close the request, and leave no reference to it in the environ."""
    environ = request.environ
    try:
        del environ["pipeline.request"], environ["pipeline.response"]
    except KeyError:  # somebody emptied the environ, or this is the second call
        pass
    if request._closers:
        request.close()


def prepare(request: Request, response: Response) -> Any:
    """Make the headers on the response final; return the body: a list if it is in memory."""
    body = response._app_iter
    if type(body) is not list or response.filters or response.conditional_response:
        body = _unusual(request, response, body)
    headers = response._headerlist
    claimed: tuple[str, str] | None = None
    for pair in headers:
        if pair is not HTML:
            name, value = pair
            try:
                safe = name.isascii() and value.isascii() and name.isprintable() and value.isprintable()
            except AttributeError:
                safe = False
            if not safe:
                check_header(name, value)
            if len(name) == 14 and name.lower() == "content-length":
                claimed = pair
    if claimed is not None:
        headers[:] = [pair for pair in headers if pair[0].lower() != "content-length"]
    status = response._status
    if type(body) is list:
        length = len(body[0]) if len(body) == 1 else sum(map(len, body))
        if length or claimed is None:  # a HEAD view may say the length and make no body
            claimed = ("Content-Length", f"{length}")
    if status is not OK:
        check_header("Status", status)
        if status[:3] in ("204", "304") or status[0] == "1":
            headers[:] = [pair for pair in headers if pair[0].lower() != "content-type"]
            return []
    if claimed is not None:
        headers.append(claimed)
    return [] if request.environ["REQUEST_METHOD"] == "HEAD" else body


def _unusual(request: Request, response: Response, body: Any) -> Any:
    """The body, streamed, filtered or conditional, as what is to be sent."""
    if response.conditional_response:
        body = _conditional(request, response)
    if isinstance(body, tuple):
        body = list(body)
    in_memory = type(body) is list
    if not in_memory:
        close_with(request, body)
    for filter in response.filters:
        body = filter(iter(body))
        if not in_memory:
            close_with(request, body)
    if response.filters:
        response._headerlist = [p for p in response._headerlist if p[0].lower() != "content-length"]
        response._headers = None
        response.filters = ()
    return list(body) if in_memory else body


def _conditional(request: Request, response: Response) -> Any:
    """WebOb's conditional and range answer: 304, 206, 412, 416 where the request asks for it."""
    close_with(request, response._app_iter)
    answer: dict[str, Any] = {}

    def start_response(status: str, headers: HeaderList, exc_info: Any = None, /) -> Any:
        answer.update(status=status, headers=headers)

    location = response.headers.get("Location")
    body = response.conditional_response_app(request.environ, start_response)
    response._status, response._headerlist = answer["status"], answer["headers"]
    response._headers = None
    response.conditional_response = False
    if location is not None:
        response.headers["Location"] = location  # WebOb made it absolute; it may leave as it came
    return [] if isinstance(body, EmptyResponse) else body


def close_with(request: Request, body: Any) -> None:
    """Close ``body`` when the request is closed, if it can be closed and is not known yet (R7)."""
    closer = getattr(body, "close", None)
    if closer is not None and closer not in (request._closers or ()):
        request.on_close(closer)


class Body:
    """A body on its way to the server, in blocks. Closing it, or an error in it, closes the request.

    The first block is made before ``start_response`` is called, so that a view that fails before its
    first block is an error answer. A view that fails later is logged and raised to the server, which
    breaks the connection: the client sees that the answer is not complete.
    """

    def __init__(self, request: Request, chunks: Any) -> None:
        self.request = request
        self.sent = 0
        iterator = iter(chunks)
        first: list[bytes] = []
        for chunk in iterator:
            if chunk:
                first.append(_bytes(chunk))
                break
        self.chunks = chain(first, iterator)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            chunk = _bytes(next(self.chunks))
        except StopIteration:
            raise
        except BaseException as error:
            if isinstance(error, Exception):
                log_failure(self.request, error, "in mid-stream")
            self.close()
            raise
        self.sent += len(chunk)
        return chunk

    def close(self) -> None:
        self.request.bytes_sent = self.sent
        close(self.request)


def _bytes(chunk: Any) -> bytes:
    if isinstance(chunk, bytes):
        return chunk
    raise TypeError(f"a streamed body yielded {chunk!r:.80}, which is no bytes")


def log_failure(request: Request, error: BaseException, when: str = "") -> str:
    """Log an error with its traceback, under an id that is returned for the error page."""
    id = secrets.token_hex(6)
    environ = request.environ
    log.error(
        "error %s: %s %s%s: %s",
        id,
        environ.get("REQUEST_METHOD", ""),
        request.path_info_safe,
        f", {when}" if when else "",
        type(error).__name__,
        exc_info=error,
    )
    return id


def answer_escaped(request: Request, response: Response, error: Exception) -> None:
    """Answer an exception that no element answered, in plain text."""
    response.restore(("200 OK", [], [], False, ()))
    if isinstance(error, WSGIHTTPException):
        adopt_exception(response, error)
        try:
            for name, value in response._headerlist:
                check_header(name, value)
        except UnsafeHeader as unsafe:
            answer_escaped(request, response, unsafe)
    elif isinstance(error, Unavailable) or request.is_transient(error):
        log.warning("%s %s: 503: %s", request.method, request.path_info_safe, error)
        response.plain("503 Service Unavailable", "This cannot be done now. Please try again.")
        response._headerlist.append(("Retry-After", str(getattr(error, "retry_after", 1))))
    else:
        id = log_failure(request, error)
        response.plain("500 Internal Server Error", f"An error occurred. It was logged as {id}.")


def foreign(app: WSGIApp) -> Handler:
    """A handler that calls a WSGI app of others and takes over its answer."""

    def foreign(request: Request, response: Response) -> None:
        started: list[tuple[str, HeaderList]] = []
        written: list[bytes] = []

        def start_response(status: str, headers: HeaderList, exc_info: Any = None) -> Any:
            if exc_info and started and (written or answered):
                _reraise(exc_info)
            if started and not exc_info:
                raise RuntimeError(f"{app!r} called start_response twice (PEP 3333)")
            started[:] = [(status, list(headers))]
            return written.append

        answered = False
        body = app(request.environ, start_response)
        close_with(request, body)
        first: list[bytes] = []
        if not (started and type(body) in (list, tuple)):
            iterator = iter(body)
            if not started:  # PEP 3333 lets an app start when its first block is asked for
                for chunk in iterator:
                    if chunk:
                        first.append(chunk)
                    if started:
                        break
            body = chain(written, first, iterator)
        elif written:
            body = [*written, *body]
        else:
            body = list(body)
        if not started:
            raise RuntimeError(f"{app!r} returned without calling start_response (PEP 3333)")
        answered = True
        status, headers = started[0]
        response.adopt(status, headers, body)

    return foreign


def _reraise(exc_info: Any) -> NoReturn:
    raise exc_info[1].with_traceback(exc_info[2])
