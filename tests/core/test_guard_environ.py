"""``pipeline.testing.guard_environ``: it finds the handler that changes the environ in place."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import pytest
import webob
from transaction.interfaces import TransientError

from around_a_view import ask, end
from pipeline import Pipeline, Request, Response, element
from pipeline.elements.retry import retry
from pipeline.interfaces import OrderError
from pipeline.testing import fault, guard_environ

LONG = bytes(range(256)) * 1024
"""A body of 256 KiB, which is longer than the part of a body that ``retry`` keeps in memory."""


@element
def careless(next: Any) -> Any:
    """Adds to a list in the environ."""

    def careless(request: Request, response: Response) -> None:
        next(request, response)
        request.environ["test.seen"].append(request.attempt)
        raise TransientError

    return careless


@element
def forgetful(next: Any) -> Any:
    """Adds to the list before it calls the next handler."""

    def forgetful(request: Request, response: Response) -> None:
        request.environ["test.seen"].append(request.attempt)
        next(request, response)

    return forgetful


@element
def innocent(next: Any) -> Any:
    """Sets keys of the environ, which ``retry`` puts back."""

    def innocent(request: Request, response: Response) -> None:
        request.environ["test.other"] = request.attempt
        next(request, response)
        request.environ["test.another"] = [request.attempt]

    return innocent


@pytest.mark.parametrize(
    ("inner", "culprit"),
    [
        ((innocent(), careless()), "careless"),
        ((careless(), innocent()), "careless"),
        ((forgetful(), innocent(), fault(error=TransientError, at="exit")), "forgetful"),
        ((innocent(), forgetful(), fault(error=TransientError, at="exit")), "forgetful"),
    ],
)
def test_the_guard_names_the_key_and_the_element(inner: Any, culprit: str, caplog: Any) -> None:
    app = Pipeline(retry(delay=0), guard_environ(), *inner, end(view=lambda request, response: None))
    assert ask(app, **{"test.seen": []}).status_int == 500
    assert "EnvironChanged: attempt 2 would start with another environ than the first" in caplog.text
    assert f"'test.seen' was changed in place by {culprit}, one of" in caplog.text
    assert "innocent" in caplog.text.partition("one of")[2]


def test_the_guard_names_the_view(caplog: Any) -> None:
    def view(request: Request, response: Response) -> None:
        request.environ["test.seen"].append(1)
        raise TransientError

    app = Pipeline(retry(delay=0), guard_environ(), innocent(), end(view=view))
    assert ask(app, **{"test.seen": []}).status_int == 500
    assert "changed in place by view" in caplog.text


def test_the_guard_finds_nothing_where_nothing_is_wrong() -> None:
    seen: list[bytes] = []

    def failing(request: Request, response: Response) -> None:
        seen.append(request.environ["wsgi.input"].read())
        if len(seen) <= 3:
            raise TransientError

    app = Pipeline(retry(delay=0), guard_environ(), innocent(), end(view=failing))
    values = {"test.list": [[1], {"a": {2}}], "test.dict": {"x": (1, 2)}, "test.object": object()}
    assert ask(app, method="POST", body=LONG, **values).status_int == 200
    assert seen == 4 * [LONG]


def test_the_guard_leaves_the_profiler_alone() -> None:
    calls: list[str] = []
    tried: list[int] = []
    before = sys.getprofile()

    def profile(frame: Any, event: str, argument: Any) -> None:
        calls.append(event)

    def failing(request: Request, response: Response) -> None:
        tried.append(request.attempt)
        if len(tried) == 1:
            raise TransientError

    sys.setprofile(profile)
    try:
        app = Pipeline(retry(delay=0), guard_environ(), end(view=failing))
        app(webob.Request.blank("/").environ, lambda *arguments: None)
        assert sys.getprofile() is profile and tried == [1, 2]
    finally:
        sys.setprofile(before)


def test_the_guard_stands_inside_retry() -> None:
    with pytest.raises(OrderError, match="retry must be outside guard_environ"):
        Pipeline(guard_environ(), retry(), end(view=lambda request, response: None))


def test_the_guard_keeps_no_request() -> None:
    seen: list[weakref.ref[Request]] = []

    def view(request: Request, response: Response) -> None:
        seen.append(weakref.ref(request))

    app = Pipeline(retry(), guard_environ(), end(view=view))
    assert ask(app).status_int == 200
    gc.collect()
    assert seen[0]() is None
