"""The measures of a request: the time of each part of the pipeline, the view, and the exceptions on the way.

The element ``timing`` puts ``Measures`` on the request. ``between`` makes the watchers that fill them in. They are
linked in at load, outside of each part of a pipeline, if ``timing`` stands in it. The header, the log, the metrics
and the spans all read the same ``Measures``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter as clock
from typing import Any

from webob.exc import HTTPException

from pipeline.composition import Offers
from pipeline.http.streaming import SentBody
from pipeline.interfaces import Handler
from pipeline.request import Request, refuse_strangers
from pipeline.response import Response
from pipeline.views import View


class Measures:
    """The measures of one request. ``timing`` sets the first two attributes: a call of ``__init__`` would take a
    fifth of the time that ``timing`` takes itself."""

    stays: list[tuple[str, float, float]]
    """Each stay of the request in a part: the name of the part, and when the request entered and left it. The part
    that was left first stands first. The times are those of ``time.perf_counter``."""
    started: float
    """The time at which the request entered ``timing``."""
    view: View | None = None
    """The view that the publisher has found, or None."""
    is_conflict = False
    """True if the last attempt has failed with a transient error."""
    errors: dict[int, BaseException] | None = None
    """The exceptions that left a part, by the index of the stay. None if they are not kept."""
    span: Any = None
    """The span of OpenTelemetry, if there is one."""
    epoch = 0
    """Nanoseconds between 1970 and ``started``, if there is a span."""

    def own_times(self) -> dict[str, float]:
        """Return the seconds that each part took itself, over all attempts. The outermost part stands first."""
        found: dict[str, float] = {}
        inner: list[tuple[float, float]] = []
        for part, started, ended in self.stays:
            own = ended - started
            while inner and inner[-1][0] >= started:
                own -= inner.pop()[1]
            inner.append((started, ended - started))
            found[part] = found.pop(part, 0.0) + max(0.0, own)
        return dict(reversed(found.items()))

    def failure(self) -> BaseException | None:
        """Return the last exception that is an error of the program, or None. It is one that its own part has
        raised: further out, ``errors`` may have raised another one."""
        errors = self.errors or {}
        return next((error for _, error in sorted(errors.items(), reverse=True) if is_failure(error)), None)


def is_failure(error: BaseException) -> bool:
    """Return whether an exception is an error of the program, and not an answer such as a 404 or a redirect."""
    return not (isinstance(error, HTTPException) and error.wsgi_response.status_int < 500)


def view_name(view: View | None, none: str = "") -> str:
    """Return the dotted name of a view, or another text for None."""
    return none if view is None else f"{view.function.__module__}.{view.function.__qualname__}"


def attempts(request: Request) -> int:
    """Return the number of attempts at a request. It is 1 in a pipeline that makes no further attempts."""
    number: int = getattr(request, "attempt", 1)
    return number


def broken_stream() -> BaseException | None:
    """Return the exception that has ended a streamed body. To be called while the request is closed.

    A server may close a body while it handles an exception of its own, when the client has gone away. That is not
    an error of the program.
    """
    error = sys.exc_info()[1]
    traceback = None if error is None else error.__traceback__
    return error if traceback is not None and traceback.tb_frame.f_code is SentBody.__next__.__code__ else None


def between(step: Any, offers: Offers) -> Offers:
    """Return what is linked in the place of one part of a pipeline: its handler with a watcher around it.

    step  the ``pipeline.paste.Step`` of the part
    """
    offered = dict(offers.attributes)
    if "authorize" in offered or "views" in offered:
        offered["authorize"] = noting_the_view(offered.get("authorize", refuse_strangers))
    return Offers(watcher(str(step), offers.handler), **offered)


def watcher(part: str, next: Handler) -> Handler:
    """Return a handler that measures a part."""

    def watcher(request: Request, response: Response) -> None:
        measures = request.measures
        if measures is None:  # the request is outside of ``timing``, or in another pipeline of the ini
            next(request, response)
            return
        started = clock()
        try:
            next(request, response)
        except BaseException as error:
            if measures.errors is not None:
                measures.errors[len(measures.stays)] = error
            raise
        finally:
            measures.stays.append((part, started, clock()))

    return watcher


def noting_the_view(authorize: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Return a function in the place of ``request.authorize``, which a publisher calls for each view that it has
    found. It notes the first view: a view may ask about other views."""

    def noting_the_view(request: Request, view: View) -> None:
        measures = request.measures
        if measures is not None and measures.view is None:
            measures.view = view
        authorize(request, view)

    return noting_the_view
