"""A pipeline around one view that is a plain function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import asking
from pipeline import Request, Response, element

View = Callable[[Request, Response], object]


@element
def end(*, view: View) -> Any:
    """The end of a pipeline: calls ``view``, which may return a body."""

    def end(request: Request, response: Response) -> None:
        body = view(request, response)
        response.app_iter = [b"done"] if body is None else body

    return end


def ask(app: Any, path: str = "/", method: str = "POST", **options: Any) -> asking.Answer:
    """Send a request that may write, unless another method is named."""
    return asking.ask(app, path, method, **options)


def start(app: Any) -> Any:
    """Return the body of a request that is not read yet."""
    return app(asking.environ_of("/", "GET", b"", {}), lambda *arguments: None)
