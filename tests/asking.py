"""A client for tests of answers: it has wsgiref's validator with it, and reads and closes what it gets."""

from __future__ import annotations

from typing import Any
from wsgiref.validate import validator

from webob import Request, Response


def answer_of(
    app: Any, path: str = "/", *, method: str = "GET", environ: dict[str, Any] | None = None
) -> Response:
    """The answer to a request, read to its end and closed. `environ` is added to that of the request."""
    asked = Request.blank(path, method=method).environ
    asked.update(environ or {})
    started: list[Any] = []

    def start_response(status: str, headers: Any, exc_info: Any = None) -> Any:
        started[:] = status, headers
        return lambda block: None

    blocks = validator(app)(asked, start_response)
    try:
        body = b"".join(blocks)
    finally:
        blocks.close()
    status, headers = started
    return Response(status=status, headerlist=list(headers), app_iter=[body])
