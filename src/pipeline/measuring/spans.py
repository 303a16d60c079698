"""Spans of OpenTelemetry: one for each request, and a child for each element. Needs the extra ``opentelemetry``.

The span of a request is the current one while the elements run. So spans that a view makes are its children, and
calls that the view makes to other servers continue the trace. The spans of the elements are made when the request
is closed, and only if the trace is recorded.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from time import perf_counter as clock
from time import time_ns
from typing import Any

from opentelemetry import context, metrics, propagate, trace
from opentelemetry.trace import Span, SpanKind, StatusCode

from pipeline.http.tracebacks import LONGEST_TRACEBACK, shortened
from pipeline.interfaces import Handler
from pipeline.measuring.measures import Measures, attempts, broken_stream, is_failure, view_name
from pipeline.request import Request
from pipeline.response import Response
from pipeline.telling.secrets import masked_query
from pipeline.telling.words import WATCHERS, is_of_the_site

METHODS = {"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"}
"""The methods that may stand in the name of a span. Clients invent others."""

VERSIONS = {"HTTP/1.0": "1.0", "HTTP/1.1": "1.1", "HTTP/2": "2", "HTTP/2.0": "2", "HTTP/3": "3", "HTTP/3.0": "3"}
LONGEST = 256
"""Characters that are kept of what a client writes as it likes."""
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""Upper limits in seconds, as the conventions have them."""

duration = metrics.get_meter("wsgi-pipeline", version("wsgi-pipeline")).create_histogram(
    "http.server.request.duration",
    unit="s",
    description="Duration of HTTP server requests.",
    explicit_bucket_boundaries_advisory=BUCKETS,
)
tracer = trace.get_tracer("wsgi-pipeline", version("wsgi-pipeline"))


def traced(next: Handler) -> Handler:
    """Return a handler that begins the span of a request. ``end`` ends it, when the request is closed."""

    def traced(request: Request, response: Response) -> None:
        environ, measures = request.environ, request.measures
        if trace.get_current_span().get_span_context().is_valid:  # of a middleware outside, or of the server
            outer, kind = context.get_current(), SpanKind.INTERNAL
        else:
            sent = {key[5:].lower().replace("_", "-"): environ[key] for key in environ if key[:5] == "HTTP_"}
            outer, kind = propagate.extract(sent), SpanKind.SERVER
        method = method_of(environ)
        attributes = {**of_the_message(environ), **of_the_client(environ), "url.path": request.path_info_safe}
        measures.epoch = time_ns()
        span = tracer.start_span(method or "HTTP", outer, kind, attributes, start_time=measures.epoch)
        measures.span = span
        token = context.attach(trace.set_span_in_context(span, outer))
        try:
            next(request, response)
        finally:
            context.detach(token)

    return traced


def of_the_message(environ: Mapping[str, Any]) -> dict[str, str]:
    """Return the attributes that a client chooses, by the conventions for HTTP servers, with masks for secrets
    (S25)."""
    method = method_of(environ)
    found = {"http.request.method": method or "_OTHER"}
    if not method:
        found["http.request.method_original"] = str(environ["REQUEST_METHOD"])[:LONGEST]
    if query := environ.get("QUERY_STRING"):
        found["url.query"] = masked_query(query)
    if agent := environ.get("HTTP_USER_AGENT"):
        found["user_agent.original"] = agent[:LONGEST]
    if protocol := VERSIONS.get(environ.get("SERVER_PROTOCOL", "")):
        found["network.protocol.version"] = protocol
    return found


def of_the_client(environ: Mapping[str, Any]) -> dict[str, str | int]:
    """Return the attributes that ``vhost`` corrects: the address of the client, and what it has asked for."""
    scheme = environ["wsgi.url_scheme"]
    host, colon, number = environ.get("HTTP_HOST", "").rpartition(":")
    if not colon or not number.isdecimal():
        host, number = environ.get("HTTP_HOST", ""), "443" if scheme == "https" else "80"
    if not host:
        host, number = environ["SERVER_NAME"], environ["SERVER_PORT"]
    found: dict[str, str | int] = {"url.scheme": scheme}
    found |= {"server.address": host[:LONGEST].strip("[]"), "server.port": int(number[:9])}
    if client := environ.get("REMOTE_ADDR"):
        found["client.address"] = client
    return found


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
        broken = broken_stream()
        error = (broken or measures.failure()) if broken is not None or response.status >= "500" else None
        outcome: dict[str, str | int] = {"http.response.status_code": int(response.status[:3])}
        if error is not None or response.status >= "500":
            outcome["error.type"] = response.status[:3] if error is None else error_type(error)
        asked: dict[str, str | int] = {**of_the_message(request.environ), **of_the_client(request.environ)}
        labels = {name: asked[name] for name in LABELS if name in asked}
        duration.record(clock() - measures.started, {**labels, **outcome})
        if span.is_recording():
            span.set_attributes(outcome | of_the_client(request.environ))
            describe(span, request, measures, error, "error.type" in outcome)
            add_elements(span, measures)
    finally:  # also if str() of an exception raises
        span.end(nanoseconds(measures, clock()))


def nanoseconds(measures: Measures, moment: float) -> int:
    """Return a time of ``time.perf_counter`` as OpenTelemetry counts: in nanoseconds since 1970."""
    return measures.epoch + int((moment - measures.started) * 1e9)


LABELS = ("http.request.method", "url.scheme", "network.protocol.version")
"""The attributes of the metric, beside those of the answer. A client cannot invent values for them."""


def error_type(error: BaseException) -> str:
    """Return the name of the class of an exception, as OpenTelemetry writes it."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def describe(span: Span, request: Request, measures: Measures, error: BaseException | None, is_error: bool) -> None:
    """Name the span of a request by its view, and say what has failed. A path is never a name: there would be as
    many names as clients invent paths."""
    view = view_name(measures.view)
    if view:
        span.update_name(f"{method_of(request.environ) or 'HTTP'} {view}")
        span.set_attribute("code.function.name", view)
    if attempts(request) > 1:
        span.set_attribute("pipeline.attempts", attempts(request))
    if is_error:
        span.set_status(StatusCode.ERROR, type(error).__qualname__ if error else None)
        if error is not None:
            record(span, error)


def record(span: Span, error: BaseException, timestamp: int | None = None) -> None:
    """Record an exception on a span. Its stack names the frames of the site first, and leaves the watchers out."""
    text = shortened("".join(stack_of(error)), LONGEST_TRACEBACK)
    span.record_exception(error, {"exception.stacktrace": text}, timestamp)


def stack_of(error: BaseException) -> Iterator[str]:
    """Yield the lines of the traceback of an error."""
    told = traceback.TracebackException.from_exception(error)
    parts = [told]
    for part in parts:
        part.stack[:] = [frame for frame in part.stack if frame.filename not in WATCHERS]
        parts += filter(None, (part.__cause__, part.__context__))
    own = [frame for frame in told.stack if is_of_the_site(frame.filename)]
    if own:
        yield "In the site:\n"
        yield from traceback.StackSummary.from_list(own).format()
    yield from told.format()


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
                record(child, error, nanoseconds(measures, ended))
        child.end(nanoseconds(measures, ended))
        outer.append((trace.set_span_in_context(child), started))
