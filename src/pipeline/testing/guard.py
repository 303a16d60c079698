"""``guard_environ``: finds the element that changes the environ in place."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from pipeline.composition import element
from pipeline.elements.retry import RetryRequest
from pipeline.interfaces import Handler
from pipeline.request import Request
from pipeline.response import Response


class EnvironChanged(Exception):
    """A further attempt would start with another environ than the first."""


@element(inside={"retry": "it compares each attempt with the first"})
def guard_environ(next: Handler) -> Handler:
    """Find the element that makes a further attempt start with another environ than the first.

    Put it directly inside ``retry`` in a test. ``retry`` puts the environ back between two attempts, but not a
    change inside one of its values, such as an append to a list. EnvironChanged names the key and the element or
    view that changed the value. Slow: it uses the profiler of Python.
    """
    watches: WeakKeyDictionary[Request, EnvironWatch] = WeakKeyDictionary()

    def guard_environ(request: RetryRequest, response: Response) -> None:
        watch = watches.get(request)
        if watch is None:
            watch = watches[request] = EnvironWatch(request.environ)
        watch.call(next, request, response)

    return guard_environ


class EnvironWatch:
    """Finds the handler that changes a value of the environ in place.

    The environ is compared whenever a handler is entered or left. The handler that was entered last is blamed for a
    change since the comparison before. The watch keeps no reference to the environ, which refers to the request.
    """

    def __init__(self, environ: dict[str, Any]) -> None:
        self.first = self.last = _frozen(environ)
        self.inside: list[str] = ["retry"]
        self.blamed: dict[str, str] = {}
        self.seen: list[str] = []

    def call(self, next: Handler, request: RetryRequest, response: Response) -> None:
        """Call the next handler. Raise EnvironChanged if the environ is not that of the first attempt."""
        environ = request.environ
        now = _frozen(environ)
        for key in _changes(self.first, now):
            raise EnvironChanged(
                f"attempt {request.attempt} would start with another environ than the first: {key!r} was "
                f"changed in place by {self.blamed.get(key, 'an unknown caller')}, one of {', '.join(self.seen)}; "
                f"it is now {environ.get(key)!r:.200}"
            )
        self.last = now
        before = sys.getprofile()
        sys.setprofile(partial(self._profile, environ))
        try:
            next(request, response)
        finally:
            sys.setprofile(before)

    def _profile(self, environ: dict[str, Any], frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_varnames[code.co_argcount - 2 : code.co_argcount] != ("request", "response"):
            return
        if event in ("call", "return"):
            now = _frozen(environ)
            for key in _changes(self.last, now):
                self.blamed[key] = self.inside[-1]
            self.last = now
        if event == "call":
            self.inside.append(code.co_name)
            if code.co_name not in self.seen:
                self.seen.append(code.co_name)
        elif event == "return":
            self.inside.pop()


def _frozen(value: Any, depth: int = 5) -> Any:
    """Return an object that is equal only while ``value`` is unchanged. Other objects count by their identity."""
    if isinstance(value, dict) and depth:
        return {key: _frozen(value[key], depth - 1) for key in list(value)}
    if isinstance(value, (list, tuple)) and depth:
        return [_frozen(item, depth - 1) for item in value]
    if isinstance(value, (set, bytearray)):
        return type(value)(value)
    return value if isinstance(value, (str, bytes, int, float)) else id(value)


def _changes(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """Yield the keys by which two frozen environs differ. Each attempt has another reader for the body."""
    for key in [*before, *(key for key in after if key not in before)]:
        if key != "wsgi.input" and before.get(key, KeyError) != after.get(key, KeyError):
            yield key
