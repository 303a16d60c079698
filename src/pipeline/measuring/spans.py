"""Spans of OpenTelemetry: one for each request, and a child for each element. Needs the extra ``opentelemetry``.

The span of a request is the current one while the elements run. So spans that a view makes are its children, and
calls that the view makes to other servers continue the trace. The spans of the elements are made when the request
is closed, and only if the trace is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from time import perf_counter as clock
from time import time_ns
from typing import Any

from opentelemetry import context, propagate, trace
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import Span, SpanKind, StatusCode

from pipeline.interfaces import Handler
from pipeline.measuring.measures import Measures, attempts, broken_stream, is_failure, view_name
from pipeline.request import Request
from pipeline.response import Response

METHODS = {"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"}
"""The methods that may stand in the name of a span. Clients invent others."""

tracer = trace.get_tracer("wsgi-pipeline", version("wsgi-pipeline"))


class Headers(Getter[Mapping[str, Any]]):
    """Reads the headers of a request for the propagators."""

    def get(self, carrier: Mapping[str, Any], key: str) -> list[str] | None:
        value = carrier.get(f"HTTP_{key.upper().replace('-', '_')}")
        return None if value is None else [value]

    def keys(self, carrier: Mapping[str, Any]) -> list[str]:
        return [key[5:].lower().replace("_", "-") for key in carrier if key.startswith("HTTP_")]


HEADERS = Headers()


def traced(next: Handler) -> Handler:
    """Return a handler that begins the span of a request. ``end`` ends it, when the request is closed."""

    def traced(request: Request, response: Response) -> None:
        environ, measures = request.environ, request.measures
        if trace.get_current_span().get_span_context().is_valid:  # of a middleware outside, or of the server
            outer, kind = context.get_current(), SpanKind.INTERNAL
        else:
            outer, kind = propagate.extract(environ, getter=HEADERS), SpanKind.SERVER
        method = method_of(environ)
        attributes = {
            "http.request.method": method or "_OTHER",
            "url.scheme": environ["wsgi.url_scheme"],
            "url.path": request.path_info_safe,
        }
        measures.epoch = time_ns()
        span = tracer.start_span(method or "HTTP", outer, kind, attributes, start_time=measures.epoch)
        measures.span = span
        token = context.attach(trace.set_span_in_context(span, outer))
        try:
            next(request, response)
        finally:
            context.detach(token)

    return traced


def method_of(environ: Mapping[str, Any]) -> str:
    """Return the method of a request, or "" for one that a client has invented."""
    method: str = environ["REQUEST_METHOD"]
    return method if method in METHODS else ""


def end(request: Request, response: Response, measures: Measures) -> None:
    """End the span of a request that is being closed. Make those of the elements first."""
    span: Span | None = measures.span
    if span is None:
        return
    try:
        if span.is_recording():
            describe(span, request, response, measures)
            add_elements(span, measures)
    finally:  # also if str() of an exception raises
        span.end(nanoseconds(measures, clock()))


def nanoseconds(measures: Measures, moment: float) -> int:
    """Return a time of ``time.perf_counter`` as OpenTelemetry counts: in nanoseconds since 1970."""
    return measures.epoch + int((moment - measures.started) * 1e9)


def describe(span: Span, request: Request, response: Response, measures: Measures) -> None:
    """Name the span of a request by its view, and say how the request was answered. A path is never a name: there
    would be as many names as clients invent paths."""
    view = view_name(measures.view)
    span.set_attribute("http.response.status_code", int(response.status[:3]))
    if view:
        span.update_name(f"{method_of(request.environ) or 'HTTP'} {view}")
        span.set_attribute("code.function.name", view)
    if attempts(request) > 1:
        span.set_attribute("pipeline.attempts", attempts(request))
    broken = broken_stream()
    if broken is not None or response.status >= "500":
        error = broken or measures.failure()
        span.set_status(StatusCode.ERROR, type(error).__qualname__ if error else None)
        if error is not None:
            span.record_exception(error)


def add_elements(span: Span, measures: Measures) -> None:
    """Make a child for each stay in an element. An exception is recorded where it arose."""
    errors = {index: error for index, error in (measures.errors or {}).items() if is_failure(error)}
    arose = {id(error): index for index, error in sorted(errors.items(), reverse=True)}
    outer = [(trace.set_span_in_context(span), float("-inf"))]
    for index in range(len(measures.stays) - 1, -1, -1):  # the outer part was left last
        part, started, ended = measures.stays[index]
        while started < outer[-1][1]:
            outer.pop()
        child = tracer.start_span(part, outer[-1][0], start_time=nanoseconds(measures, started))
        if (error := errors.get(index)) is not None:
            child.set_status(StatusCode.ERROR, type(error).__qualname__)
            if arose[id(error)] == index:
                child.record_exception(error, timestamp=nanoseconds(measures, ended))
        child.end(nanoseconds(measures, ended))
        outer.append((trace.set_span_in_context(child), started))
