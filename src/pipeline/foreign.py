"""A handler for a foreign WSGI app. It captures ``start_response`` and takes over the answer."""

from __future__ import annotations

from itertools import chain
from typing import Any, NoReturn

from pipeline.edge import close_with
from pipeline.http.bodies import give_length
from pipeline.http.files import FileBody
from pipeline.http.redirects import of_foreign
from pipeline.interfaces import Handler, WSGIApp
from pipeline.request import Request
from pipeline.response import HeaderList, Response


def foreign(app: WSGIApp) -> Handler:
    """Return a handler that calls a foreign WSGI app and takes over its answer."""

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
        close_with(request, body)
        first: list[bytes] = []
        if started and not written and type(body) is FileBody:
            pass
        elif not (started and type(body) in (list, tuple)):
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
        response.adopt(status, of_foreign(headers) if str(status)[:1] == "3" else headers, body)

    return foreign


def _reraise(exc_info: Any) -> NoReturn:
    raise exc_info[1].with_traceback(exc_info[2])
