"""A handler for a foreign WSGI app. It captures ``start_response`` and takes over the answer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any

from pipeline.declared import ASYNC, runs_nothing
from pipeline.http.bodies import give_length
from pipeline.http.files import FileBody
from pipeline.http.origins import guard_end
from pipeline.http.redirects import of_foreign
from pipeline.interfaces import ConfigurationError, Handler, WSGIApp
from pipeline.options import on_demand
from pipeline.request import SAFE_METHODS, Request
from pipeline.response import HeaderList, Response

try:
    from transaction import manager as of_thread
except ImportError:  # then no application uses its transactions
    of_thread = None

if TYPE_CHECKING:
    from pipeline.database.transactions import abort_quietly, is_open, joined, of_all
else:  # for cost alone: an application that uses no transaction does not need these functions
    abort_quietly = on_demand("pipeline.database.transactions:abort_quietly")
    is_open = on_demand("pipeline.database.transactions:is_open")
    joined = on_demand("pipeline.database.transactions:joined")
    of_all = on_demand("pipeline.database.transactions:of_all")


IN_MEMORY = 1024 * 1024
"""Bytes that an app may write by ``write()`` before they go to a temporary file."""
BLOCK = 64 * 1024
"""Bytes that are read of it at once."""
REPEATABLE = "pipeline.repeatable"
"""The key of the environ that is true if the app stores nothing but what ``retry`` takes back."""


def foreign(app: WSGIApp) -> Handler:
    """Return a handler that calls a foreign WSGI app and takes over its answer.

    It refuses unsafe requests of other sites (S23). It cannot know whether the app is a middleware, with a view
    inside that would accept them.

    An app that answers below 400 although its changes are lost is an error (R3). A transaction of the thread that
    the app has left open is aborted: it belongs to no other request (R13).

    A request that an app has got by an unsafe method is not tried again, unless the app is known to be repeatable
    (``pipeline.mounting.repeatable``): the pipeline does not know whether the app has committed by itself (R2a).
    """
    if runs_nothing(app) == ASYNC:
        said = "is an ASGI app, and a pipeline takes a WSGI app: a2wsgi.ASGIMiddleware makes it one"
        raise ConfigurationError(f"{app!r:.200} {said}")
    take_over = taking_over(app)

    def foreign(request: Request, response: Response) -> None:
        guard_end(request)
        if type(request.environ) is not dict:  # it notes what is read, and an app takes a dict itself (PEP 3333)
            request.environ = dict(request.environ)
        environ = request.environ
        standing = getattr(of_thread, "manager", None)
        own = of_all(standing) if standing is not None else None
        if own is not standing:  # the app has the manager of the thread, and not that of the request
            of_thread.manager = own
        outer = environ.pop("pipeline.before", None)  # of an outer middleware that hands on its environ
        # If an outer party has begun a transaction in this thread, that party ends it.
        is_first = of_thread is not None and of_thread.manager._txn is None
        try:
            take_over(request, response)
            if "pipeline.before" not in environ:  # the app is an end, and no middleware around another pipeline
                refuse_loss(app, request, response.status, is_first)
                if is_first and not response.in_memory:
                    request.on_close(partial(end_in_thread, of_thread.manager), last=True)
        except BaseException:
            if is_first:
                end_in_thread(of_thread.manager)
            raise
        finally:
            repeatable = environ.pop(REPEATABLE, False) or environ["REQUEST_METHOD"] in SAFE_METHODS
            if not repeatable and "pipeline.before" not in environ:
                request.attempts_left = 0
            if outer is not None:
                environ["pipeline.before"] = outer
            if own is not standing:
                of_thread.manager = standing

    return foreign


def end_in_thread(manager: Any) -> None:
    """Abort the transaction that an app has left open in its thread. Do nothing in another thread: by then either
    thread may serve another request."""
    if manager is of_thread.manager and manager._txn is not None:
        abort_quietly(manager)


def refuse_loss(app: WSGIApp, request: Request, status: str, is_first: bool) -> None:
    """Raise an error if an app has answered below 400 although its changes are lost.

    is_first  whether no transaction was open in the thread when the app was called
    """
    lost = ""
    if is_first and of_thread.manager._txn is not None and "repoze.tm.active" not in request.environ:
        left = joined(of_thread.manager)
        end_in_thread(of_thread.manager)
        if left:
            lost = (
                f"left a transaction of its thread open, which no element commits: {left!r:.200}. The application "
                f"must end it before it answers"
            )
    tm = request.tm_in_use
    if getattr(tm, "undone", False) and not is_open(tm) and "commit" in request.pipeline.names:
        lost = (
            "aborted the transaction of the pipeline, with the changes in it. If they are not wanted, call doom() "
            "on the transaction"
        )
    if lost and status < "400":
        url = f"{request.environ.get('SCRIPT_NAME', '')}{request.path_info_safe}"
        raise RuntimeError(
            f"{app!r} answered {request.method} {url} with {status}, but it {lost}. If it is an application with "
            f"pyramid_tm, delete its settings tm.manager_hook and tm.activate_hook (docs/howto/mounting.rst)"
        )


def taking_over(app: WSGIApp) -> Handler:
    """Return a handler that calls a foreign WSGI app and takes over its answer."""

    def taking_over(request: Request, response: Response) -> None:
        started: list[tuple[str, HeaderList]] = []
        written = Written(request)

        def start_response(status: str, headers: HeaderList, exc_info: Any = None) -> Any:
            if exc_info and started and (written.bytes or answered):
                raise exc_info[1].with_traceback(exc_info[2])
            if started and not exc_info:
                raise RuntimeError(f"{app!r} called start_response twice (PEP 3333)")
            started[:] = [(status, list(headers))]
            return written.write

        answered = False
        environ = request.environ
        if "HTTP_TRANSFER_ENCODING" in environ:
            give_length(request)
        wrapper = environ.get("wsgi.file_wrapper")
        if wrapper is None:
            body = app(environ, start_response)
        else:  # a file stays a file for the filters and the edge, which hands it to the server's own wrapper
            environ["wsgi.file_wrapper"] = FileBody.wrap
            try:
                body = app(environ, start_response)
            finally:
                environ["wsgi.file_wrapper"] = wrapper
        request.close_with(body)
        body = _begun(body, started, written)
        if not started:
            raise RuntimeError(f"{app!r} returned without calling start_response (PEP 3333)")
        answered = True
        status, headers = started[0]
        response.adopt(status, of_foreign(headers) if str(status)[:1] == "3" else headers, body)

    return taking_over


class Written:
    """Blocks that an app has written by ``write()``: in memory, or in a temporary file if they are many (S15)."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.bytes = 0
        self.file: Any = None

    def __iter__(self) -> Iterator[bytes]:
        if self.file is not None:
            self.file.seek(0)
            yield from iter(partial(self.file.read, BLOCK), b"")

    def write(self, block: bytes) -> None:
        """Take a block of the body. The transaction is not committed yet, so nothing is sent (R1)."""
        self.bytes += len(block)
        if self.file is None:
            self.file = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115  # closed with the request
            self.request.on_close(self.file.close)
        self.file.write(block)


def _begun(body: Any, started: list[Any], written: Written) -> Any:
    """Return the body of an app, behind what it has written. PEP 3333 lets an app start when its first block is
    asked for, so blocks are taken until it has."""
    if started and not written.bytes and type(body) is FileBody:
        return body
    if started and type(body) in (list, tuple) and written.bytes <= IN_MEMORY:
        return [*written, *body]
    first: list[bytes] = []
    blocks = iter(body)
    while not started and (block := next(blocks, None)) is not None:
        first.append(block)
    return chain(written, filter(None, first), blocks)
