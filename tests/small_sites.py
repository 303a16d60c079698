"""Fixtures of the tests of the core and its packages: a client that checks every answer, sites of a few views."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from itertools import count
from types import ModuleType
from typing import Any
from urllib.parse import unquote_to_bytes
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest
from webob.headers import ResponseHeaders

from pipeline import Pipeline, Request, Response, element
from pipeline.elements.errors import errors
from pipeline.elements.traverse import traverse
from pipeline.publisher import publisher


class Enough(BaseException):
    """Nothing more is to happen to this request."""


def made_by_the_edge(environ: dict[str, Any]) -> tuple[Request, Response]:
    """A request and a response as a pipeline makes them, and as no element has seen them yet."""
    made: list[Any] = []

    @element
    def end() -> Any:
        def end(request: Request, response: Response) -> None:
            made.extend((request, response))
            raise Enough

        return end

    with pytest.raises(Enough):
        Pipeline(end())(environ, None)
    return made[0], made[1]


class Answer:
    """An answer, read to its end and closed."""

    def __init__(self, status: str, headers: list[tuple[str, str]], body: bytes) -> None:
        self.line = status
        self.status = int(status[:3])
        self.headers = ResponseHeaders(headers)
        self.body = body

    @property
    def text(self) -> str:
        return self.body.decode()

    def __repr__(self) -> str:
        return f"<{self.line} {self.headers!r} {self.body!r:.200}>"


def environ_of(path: str, method: str, body: bytes, extra: dict[str, Any]) -> dict[str, Any]:
    """The environ of a request for `path`, percent-encoded, with a query or without."""
    path, _, query = path.partition("?")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query,
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": io.StringIO(),
    }
    if body or method in ("POST", "PUT"):
        environ["CONTENT_LENGTH"] = str(len(body))
    environ.update(extra)
    setup_testing_defaults(environ)
    return environ


def call_app(
    app: Any, path: str = "/", method: str = "GET", body: bytes = b"", *, valid: bool = True, **extra: Any
) -> Answer:
    """One request, under wsgiref's validator. Whatever is asked for, the answer keeps HTTP's rules and
    the environ is left without a trace. ``valid=False`` is for an environ that breaks PEP 3333 itself.
    """
    environ = environ_of(path, method, body, extra)
    errors = environ["wsgi.errors"]
    started: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        started.append((status, headers))
        return lambda block: pytest.fail("write() was used")

    iterable = (validator(app) if valid else app)(environ, start_response)
    try:
        blocks = list(iterable)
    finally:
        if hasattr(iterable, "close"):
            iterable.close()
    [(status, headers)] = started
    answer = Answer(status, headers, b"".join(blocks))
    assert not [key for key in environ if key.startswith("pipeline.")], "the environ was left clean"
    assert errors.getvalue() == ""
    lengths = answer.headers.getall("Content-Length")
    assert len(lengths) <= 1
    if method == "HEAD" or answer.status in (204, 304) or answer.status < 200:
        assert answer.body == b"", "no body where HTTP has none"
    elif lengths:
        assert lengths == [str(len(answer.body))], "Content-Length is right or absent"
    return answer


@pytest.fixture(scope="session")
def call() -> Callable[..., Answer]:
    return call_app


@pytest.fixture(scope="session")
def environ() -> Callable[..., dict[str, Any]]:
    """``environ("/path", method="POST", body=b"", KEY="value")``"""

    def environ(path: str = "/", method: str = "GET", body: bytes = b"", **extra: Any) -> dict[str, Any]:
        return environ_of(path, method, body, extra)

    return environ


_numbers = count()


@pytest.fixture
def module() -> Iterator[Callable[..., str]]:
    """``module(view, adapter, ..., name=value)`` is the name of a module with these in it."""
    made: list[str] = []

    def module(*targets: Any, **members: Any) -> str:
        name = f"site_of_a_test_{next(_numbers)}"
        made.append(name)
        sys.modules[name] = new = ModuleType(name)
        for target in targets:
            target.__module__ = name
            setattr(new, target.__name__, target)
        vars(new).update(members)
        return name

    yield module
    for name in made:
        del sys.modules[name]


@pytest.fixture
def publish(module: Callable[..., str]) -> Callable[..., Pipeline]:
    """``publish(view, ..., root=root)`` is a site of these views; ``outer`` are its elements, as far as
    they are not traverse and publisher."""

    def publish(*targets: Any, root: Any = None, outer: Any = None, **options: Any) -> Pipeline:
        outer = (errors(),) if outer is None else outer
        site = {} if root is None else root
        return Pipeline(*outer, traverse(root=lambda: site, **options), publisher(scan=(module(*targets),)))

    return publish
