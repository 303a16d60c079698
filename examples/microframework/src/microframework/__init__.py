"""A small framework of routes on wsgi-pipeline: its own request, its own end, its own error pages, its own ini.

An application is a set of routes, and ``site(app)`` is its pipeline::

    app = Routes()

    @app.route("/hello/{name}")
    def hello(request, name):
        return f"Hello {name}"
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

import webob
from webob.exc import HTTPInternalServerError, HTTPMethodNotAllowed, HTTPNotFound, WSGIHTTPException

from pipeline import Pipeline, Request, Response, element
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.interfaces import Handler
from pipeline.options import resolve

logger = logging.getLogger("microframework")

Function = Callable[..., Any]


class Routes:
    """The routes of an application, and its error pages by status."""

    def __init__(self) -> None:
        self.routes: list[tuple[re.Pattern[str], tuple[str, ...], Function]] = []
        self.errors: dict[int, Function] = {}

    def route(self, path: str, *methods: str) -> Callable[[Function], Function]:
        """Register a function for a path. ``{name}`` stands for one segment, and is an argument of the function."""
        parts = re.split(r"\{(\w+)\}", path)
        pattern = "".join(f"(?P<{part}>[^/]+)" if odd % 2 else re.escape(part) for odd, part in enumerate(parts))

        def register(function: Function) -> Function:
            self.routes.append((re.compile(pattern), methods or ("GET", "HEAD"), function))
            return function

        return register

    def error(self, status: int) -> Callable[[Function], Function]:
        """Register a function ``(request, error)`` for the answers of a status."""
        return lambda function: self.errors.setdefault(status, function)

    def find(self, path: str, method: str) -> tuple[Function, dict[str, str]]:
        """Return the function of a request with its arguments. Raise an HTTP exception if there is no route."""
        allowed: set[str] = set()
        for pattern, methods, function in self.routes:
            if found := pattern.fullmatch(path):
                if method in methods:
                    return function, found.groupdict()
                allowed.update(methods)
        if allowed:
            raise HTTPMethodNotAllowed(headers={"Allow": ", ".join(sorted(allowed))})
        raise HTTPNotFound()


class MicroRequest(Request):
    """The request that the functions of an application see."""

    function: Function | None = None
    """The function of the route, once it is found."""
    arguments: Any = None
    """The arguments from the path, a dict."""


@element(
    adds=MicroRequest,
    provides=("route",),
    inside={"error_pages": "a path without a route gets an error page"},
)
def routing(next: Handler, *, app: Any) -> Any:
    """Find the route of the request among those of ``app``, which an ini gives by its dotted name."""

    def routing(request: MicroRequest, response: Response) -> None:
        request.function, request.arguments = app.find(request.path_info, request.method)
        next(request, response)

    return routing


@element(inside={"retry": "it lets a transient error pass"}, outside={"transaction": "a failed commit gets a page"})
def error_pages(next: Handler, *, app: Any) -> Any:
    """Answer errors by the functions that ``app`` has registered, which an ini gives by its dotted name."""

    def error_pages(request: Request, response: Response) -> None:
        before = response.snapshot()
        try:
            next(request, response)
        except Exception as error:
            if request.attempts_left and request.judge(error).transient:
                raise  # retry tries again
            response.restore(before)
            answer = error if isinstance(error, WSGIHTTPException) else HTTPInternalServerError()
            if answer is not error:
                logger.exception("%s %s failed", request.method, request.path_info_safe)
            put(response, webob.Request(request.environ).get_response(answer))
            if page := app.errors.get(answer.status_int):
                put(response, page(request, error))

    return error_pages


@element(adds=MicroRequest, requires=("route",))
def calling() -> Any:
    """Call the function of the route. It is the end of the pipeline."""

    def calling(request: Any, response: Response) -> None:
        put(response, request.function(request, **request.arguments))

    return calling


def put(response: Response, result: Any) -> None:
    """Put the result of a function on the response: text, a JSON value, or a response of WebOb."""
    if isinstance(result, str):
        response.content_type, response.text = "text/html", result
    elif isinstance(result, webob.Response):
        response.adopt(result.status, list(result.headerlist), result.app_iter)
    elif result is not None:
        response.content_type, response.json = "application/json", result


def site(app: Routes) -> Pipeline:
    """Return the pipeline of an application. An ini may put ``log`` and ``vhost`` around it."""
    return Pipeline(retry(), error_pages(app=app), transaction(), routing(app=app), calling())


def make_site(global_conf: Mapping[str, str], app: str) -> Pipeline:
    """Make the pipeline of an ini: ``use = egg:microframework``, and ``app`` is the dotted name of the routes."""
    return site(resolve(app))
