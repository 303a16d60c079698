"""``timing``: what each element took, for the browser, the log, Prometheus and OpenTelemetry."""

from __future__ import annotations

import re
from collections.abc import Callable
from time import perf_counter as clock
from typing import Any

from pipeline.composition import element
from pipeline.interfaces import ConfigurationError, Handler
from pipeline.measuring.measures import Measures, between
from pipeline.options import resolve
from pipeline.request import Request
from pipeline.response import Response

_new = object.__new__

End = Callable[[Request, Response, Measures], object]
"""A function that is called when a measured request is closed."""


@element(
    outside=dict.fromkeys(
        ("retry", "database", "errors"),
        "each request is measured once, with all its attempts and the answer that the visitor gets",
    ),
    between=between,
)
def timing(next: Handler, *, header: bool = False, metrics: bool = False, spans: bool = False) -> Handler:
    """Measure what each element inside of this one takes.

    header   whether each answer has a ``Server-Timing`` header with the milliseconds of each element. Browsers show
             it to every visitor; default false
    metrics  whether requests are counted for Prometheus. The app egg:wsgi-pipeline#metrics shows them. Needs the
             extra ``prometheus``; default false
    spans    whether each request is a span of OpenTelemetry, with a child for each element. Continues the trace of
             the header ``traceparent``. Needs the extra ``opentelemetry``; default false

    With the option ``format = json`` of ``log``, the times are in the line of each request. The time of an element
    ends when it has answered. The time of a request, in the log, metrics and spans, ends when its body is sent.
    """
    ends: list[End] = []
    if metrics:
        ends.append(_of_an_extra("metrics", "prometheus", "pipeline.measuring.metrics:observe"))
    if spans:
        next = _of_an_extra("spans", "opentelemetry", "pipeline.measuring.spans:traced")(next)
        ends.append(resolve("pipeline.measuring.spans:end"))

    def timing(request: Request, response: Response) -> None:
        measures = request.measures = _new(Measures)
        measures.stays = []
        measures.started = clock()
        if ends:
            measures.errors = {}
            request.on_close(lambda: _close(request, response, measures))
        try:
            next(request, response)
        finally:
            if request.verdict is not None:
                measures.is_conflict = request.verdict.transient
        if header:
            response.headerlist.append(("Server-Timing", server_timing(measures)))

    def _close(request: Request, response: Response, measures: Measures) -> None:
        try:
            for end in ends:
                end(request, response, measures)
        finally:
            measures.errors = None  # their tracebacks refer to the request: no cycle is left

    return timing


def _of_an_extra(option: str, extra: str, dotted: str) -> Any:
    try:
        return resolve(dotted)
    except ImportError as error:
        raise ConfigurationError(
            f"timing: option {option!r} needs {error.name}. Install it: pip install 'wsgi-pipeline[{extra}]'"
        ) from error


_NOT_OF_A_TOKEN = re.compile(r"[^\w!#$%&'*+.^`|~-]", re.ASCII)


def server_timing(measures: Measures) -> str:
    """Return the value of the header ``Server-Timing``, in milliseconds."""
    times = {**measures.own_times(), "total": clock() - measures.started}
    return ", ".join(f"{_NOT_OF_A_TOKEN.sub('_', part)};dur={1000 * took:.3f}" for part, took in times.items())
