"""Fixtures of the tests of the core and its packages: a client that checks every answer, sites of a few views."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import count
from types import ModuleType
from typing import Any

import pytest

from asking import Answer, ask, environ_of
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
            request.closers = None  # its body is read later
            raise Enough

        return end

    with pytest.raises(Enough):
        Pipeline(end())(environ, None)
    return made[0], made[1]


@pytest.fixture(scope="session")
def call() -> Callable[..., Answer]:
    return ask


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
