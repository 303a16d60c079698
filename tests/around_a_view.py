"""A pipeline around one view that is a plain function, and questions to it under the validator of wsgiref."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from wsgiref.validate import validator

import webob

from pipeline import Request, Response, element

View = Callable[[Request, Response], object]


@element
def end(*, view: View) -> Any:
    """The end of a pipeline: calls ``view``, which may return a body."""

    def end(request: Request, response: Response) -> None:
        body = view(request, response)
        response.app_iter = [b"done"] if body is None else body

    return end


def ask(
    app: Any, path: str = "/", method: str = "POST", body: bytes | None = None, **environ: Any
) -> webob.Response:
    """One request under wsgiref's validator, read to its end and closed."""
    request = webob.Request.blank(path, environ, method=method)
    if body is not None:
        request.body = body
    status, headers, blocks = request.call_application(validator(app))
    try:
        return webob.Response(status=status, headerlist=headers, app_iter=list(blocks))
    finally:
        blocks.close()


def start(app: Any) -> Any:
    """The body of a request that is not read yet."""
    return app(webob.Request.blank("/").environ, lambda *arguments: None)
