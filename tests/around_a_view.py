"""Elements of tests: the end of a pipeline that calls a plain function, and one that only looks at the request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import asking
from pipeline import Request, Response, element
from pipeline.composition import Element

View = Callable[[Request, Response], object]
Look = Callable[[Any], object]


@element
def end(*, view: View) -> Any:
    """The end of a pipeline: calls ``view``, which may return a body."""

    def end(request: Request, response: Response) -> None:
        body = view(request, response)
        response.app_iter = [b"done"] if body is None else body

    return end


def looking(look: Look, *, named: str = "looking") -> Element:
    """Return an element that calls ``look`` with each request, on the way in."""

    def factory(next: Any) -> Any:
        def looking(request: Any, response: Any) -> None:
            look(request)
            next(request, response)

        return looking

    factory.__name__ = named
    return element(factory)


def ask(app: Any, path: str = "/", method: str = "POST", **options: Any) -> asking.Answer:
    """Send a request that may write, unless another method is named."""
    return asking.ask(app, path, method, **options)


def start(app: Any) -> Any:
    """Return the body of a request that is not read yet."""
    return app(asking.environ_of("/", "GET", b"", {}), lambda *arguments: None)
