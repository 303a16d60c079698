"""Spans: what OpenTelemetry's own SDK receives from a running pipeline."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import pairwise
from pkgutil import iter_modules
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode
from transaction.interfaces import TransientError
from webob.exc import HTTPNotFound, HTTPSeeOther

from asking import ask
from pipeline import Pipeline, element, view
from pipeline.elements.errors import errors
from pipeline.elements.log import log
from pipeline.elements.retry import retry
from pipeline.elements.timing import timing
from pipeline.elements.traverse import traverse
from pipeline.elements.vhost import vhost
from pipeline.measuring import spans as module_of_spans
from pipeline.publisher import publisher

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[ReadableSpan]]]:
    """``received()``: the spans that the exporter has got, in the order of their start."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(module_of_spans, "tracer", provider.get_tracer("wsgi-pipeline"))
    yield lambda: sorted(exporter.get_finished_spans(), key=lambda span: span.start_time or 0)
    provider.shutdown()


@view(context=dict)
def index(context: Any, request: Any) -> str:
    return "index"


@view(context=dict, name="fails")
def fails(context: Any, request: Any) -> str:
    raise ZeroDivisionError("by zero")


@view(context=dict, name="refuses")
def refuses(context: Any, request: Any) -> str:
    raise HTTPNotFound


@view(context=dict, name="moves")
def moves(context: Any, request: Any) -> str:
    raise HTTPSeeOther(location="/")


@view(context=dict, name="streams")
def streams(context: Any, request: Any) -> Iterator[bytes]:
    yield b"a"
    yield b"b"
    if "fail" in request.GET:
        raise ZeroDivisionError("in mid-stream")


@view(context=dict, name="meets")
def meets(context: Any, request: Any) -> str:
    if request.attempt < 3:
        raise TransientError("a conflict")
    return "met"


@view(context=dict, name="asks")
def asks(context: Any, request: Any) -> str:
    """Make a span of its own, as a library does that is instrumented."""
    with module_of_spans.tracer.start_as_current_span("SELECT"):
        return "asked"


@pytest.fixture
def site(module: Callable[..., str]) -> Callable[..., Any]:
    """``site(path, method, ...)`` sends a request to a pipeline that is traced."""
    name = module(index, fails, refuses, moves, streams, meets, asks)
    parts = timing(spans=True), retry(delay=0.0), errors(), traverse(root=dict), publisher(scan=(name,))
    app = Pipeline(*parts)

    def site(path: str = "/", method: str = "GET", **options: Any) -> Any:
        return ask(app, path, method, **options)

    site.app, site.module = app, name  # type: ignore[attr-defined]
    return site


def parent_of(span: ReadableSpan, spans: list[ReadableSpan]) -> str:
    """Return the name of the parent of a span; "" for a root."""
    named = {one.context.span_id: one.name for one in spans}
    return "" if span.parent is None else named.get(span.parent.span_id, "?")


def test_a_request_is_a_span_with_a_child_for_each_element(site: Any, received: Any) -> None:
    assert site("/").text == "index"
    spans = received()
    root = f"GET {site.module}.index"
    assert [(span.name, parent_of(span, spans)) for span in spans] == [
        (root, ""),
        ("retry", root),
        ("errors", "retry"),
        ("traverse", "errors"),
        ("publisher", "traverse"),
    ]
    assert len({span.context.trace_id for span in spans}) == 1
    assert [span.kind for span in spans] == [SpanKind.SERVER, *[SpanKind.INTERNAL] * 4]
    for outer, inner in pairwise(spans):
        assert outer.start_time <= inner.start_time <= inner.end_time <= outer.end_time
    assert dict(spans[0].attributes) == {
        "http.request.method": "GET",
        "http.response.status_code": 200,
        "url.scheme": "http",
        "url.path": "/",
        "server.address": "127.0.0.1",
        "server.port": 80,
        "network.protocol.version": "1.0",
        "code.function.name": f"{site.module}.index",
    }
    assert spans[0].status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("path", ["/missing", "/missing-2", "/%FF"])
def test_a_path_is_never_a_name(site: Any, received: Any, path: str) -> None:
    site(path)
    assert received()[0].name == "GET"


def test_a_method_that_a_client_invents_is_not_a_name(site: Any, received: Any) -> None:
    site("/", "INVENTED", valid=False)
    assert received()[0].name == "HTTP"
    assert received()[0].attributes["http.request.method"] == "_OTHER"


@pytest.mark.parametrize(
    ("host", "address", "port"),
    [
        ("a.example:8080", "a.example", 8080),
        ("a.example", "a.example", 443),
        ("[::1]:8443", "::1", 8443),
        ("[::1]", "::1", 443),
        ("a.example:x", "a.example:x", 443),
        ("", "b.example", 8000),
    ],
)
def test_the_address_that_was_asked_for(host: str, address: str, port: int) -> None:
    environ = {"wsgi.url_scheme": "https", "HTTP_HOST": host, "SERVER_NAME": "b.example", "SERVER_PORT": "8000"}
    found = module_of_spans.of_the_client(environ)
    assert (found["server.address"], found["server.port"]) == (address, port)


# The trace


def test_the_trace_of_the_client_goes_on(site: Any, received: Any) -> None:
    site("/", HTTP_TRACEPARENT=TRACEPARENT, HTTP_TRACESTATE="vendor=1")
    root, *children = received()
    assert (f"{root.context.trace_id:032x}", f"{root.parent.span_id:016x}") == (TRACE, PARENT)
    assert root.parent.is_remote
    assert root.context.trace_state.get("vendor") == "1"
    assert {child.context.trace_id for child in children} == {root.context.trace_id}


@pytest.mark.parametrize("sent", ["", "00-0-0-01", f"00-{'0' * 32}-{PARENT}-01", "x" * 5000])
def test_a_malformed_header_begins_a_new_trace(site: Any, received: Any, sent: str) -> None:
    assert site("/", HTTP_TRACEPARENT=sent).status_int == 200
    assert received()[0].parent is None


def test_a_client_that_does_not_record_is_not_recorded(site: Any, received: Any) -> None:
    """The default sampler follows the flag of the parent."""
    assert site("/", HTTP_TRACEPARENT=f"{TRACEPARENT[:-2]}00").status_int == 200
    assert received() == []


def test_a_span_of_a_view_is_a_child_of_the_request(site: Any, received: Any) -> None:
    site("/asks")
    spans = received()
    [inner] = [span for span in spans if span.name == "SELECT"]
    assert parent_of(inner, spans) == f"GET {site.module}.asks"
    assert not trace.get_current_span().get_span_context().is_valid, "the span is current during the request only"


def test_inside_another_span_it_is_its_child(site: Any, received: Any) -> None:
    with module_of_spans.tracer.start_as_current_span("middleware"):
        site("/", HTTP_TRACEPARENT=TRACEPARENT)
    spans = received()
    assert parent_of(spans[1], spans) == "middleware" and spans[1].kind is SpanKind.INTERNAL


def test_without_a_recorder_the_page_is_answered(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_of_spans, "tracer", TracerProvider(sampler=ALWAYS_OFF).get_tracer("off"))
    assert site("/").text == "index"
    monkeypatch.setattr(module_of_spans, "tracer", trace.get_tracer("no SDK"))
    assert site("/").text == "index"


# The end


def test_a_stream_ends_its_span_when_it_is_closed(site: Any, received: Any, environ: Any) -> None:
    body = site.app(environ("/streams"), lambda *arguments: None)
    assert next(iter(body)) == b"a"
    assert received() == []
    body.close()
    root = received()[0]
    assert root.name == f"GET {site.module}.streams"
    assert root.status.status_code is StatusCode.UNSET, "the client went away"


def exceptions(span: ReadableSpan) -> list[Any]:
    return [event.attributes["exception.type"] for event in span.events if event.name == "exception"]


def test_an_exception_is_recorded_where_it_arose_and_on_the_request(site: Any, received: Any) -> None:
    assert site("/fails").status_int == 500
    spans = {span.name: span for span in received()}
    root = spans[f"GET {site.module}.fails"]
    assert exceptions(root) == ["ZeroDivisionError"] == exceptions(spans["publisher"])
    assert "by zero" in str(root.events[0].attributes["exception.stacktrace"])
    assert root.attributes["http.response.status_code"] == 500
    for name in (root.name, "publisher", "traverse"):
        assert spans[name].status.status_code is StatusCode.ERROR
    assert exceptions(spans["traverse"]) == [], "it has only passed"
    assert spans["errors"].status.status_code is StatusCode.UNSET, "it has answered the error"


@pytest.mark.parametrize(("path", "status"), [("/refuses", 404), ("/moves", 303), ("/missing", 404)])
def test_an_answer_that_is_raised_is_not_an_error(site: Any, received: Any, path: str, status: int) -> None:
    assert site(path).status_int == status
    assert [exceptions(span) for span in received()] == [[]] * 5
    assert {span.status.status_code for span in received()} == {StatusCode.UNSET}


def test_a_stream_that_fails_is_recorded(site: Any, received: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        site("/streams?fail")
    assert exceptions(received()[0]) == ["ZeroDivisionError"]
    assert received()[0].status.status_code is StatusCode.ERROR


def test_each_attempt_has_its_spans(site: Any, received: Any) -> None:
    assert site("/meets").text == "met"
    spans = received()
    assert spans[0].attributes["pipeline.attempts"] == 3
    assert spans[0].status.status_code is StatusCode.UNSET, "the conflict was repaired"
    publishers = [span for span in spans if span.name == "publisher"]
    assert [exceptions(span) for span in publishers] == [["transaction.interfaces.TransientError"]] * 2 + [[]]
    assert [parent_of(span, spans) for span in spans if span.name == "errors"] == ["retry"] * 3


def test_an_exception_whose_text_fails_ends_the_span(received: Any) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ZeroDivisionError

    @element
    def end() -> Any:
        def end(request: Any, response: Any) -> None:
            raise Mute

        return end

    assert ask(Pipeline(timing(spans=True), errors(), end())).status_int == 500
    assert received()[-1].name == "GET"


PROVIDED_LATER = """\
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pipeline import Pipeline, element
from pipeline.elements.timing import timing
from webob import Request

@element
def end():
    def end(request, response):
        response.app_iter = [b"hello"]
    return end

app = Pipeline(timing(spans=True), end())
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
Request.blank("/").get_response(app)
print(*(span.name for span in exporter.get_finished_spans()))
"""


def test_the_provider_of_the_process_may_be_set_after_the_site_is_loaded() -> None:
    command = [sys.executable, "-W", "ignore", "-c", PROVIDED_LATER]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.stdout.split(), ran.stderr) == (["end", "GET"], "")


# The conventions for HTTP servers, https://opentelemetry.io/docs/specs/semconv/http/, stable since 1.23.

OF_A_SERVER_SPAN = {
    *("http.request.method", "http.request.method_original", "http.response.status_code", "error.type"),
    *("url.scheme", "url.path", "url.query", "server.address", "server.port", "client.address"),
    *("network.protocol.version", "user_agent.original"),
}
OURS = {"code.function.name", "pipeline.attempts"}
OF_THE_DURATION = {
    *("http.request.method", "url.scheme", "http.response.status_code", "error.type", "network.protocol.version"),
}


def known_names() -> set[str]:
    """The names of attributes in the package of the conventions that comes with the SDK. What is stable today was
    not so in its oldest version."""
    modules = []
    for name in ("opentelemetry.semconv.attributes", "opentelemetry.semconv._incubating.attributes"):
        package = import_module(name)
        modules += [import_module(f"{name}.{found.name}") for found in iter_modules(package.__path__)]
    return {value for module in modules for value in vars(module).values() if isinstance(value, str)}


@pytest.mark.parametrize(
    ("path", "method", "sent", "expected"),
    [
        ("/?q=tea&token=hunter2&sig=s1", "GET", {}, {"url.query": "q=tea&token=(masked)&sig=(masked)"}),
        ("/", "GET", {"HTTP_HOST": "a.example:8080"}, {"server.address": "a.example", "server.port": 8080}),
        ("/", "GET", {"HTTP_HOST": "a.b", "wsgi.url_scheme": "https"}, {"server.port": 443, "url.scheme": "https"}),
        ("/", "GET", {"HTTP_HOST": "[::1]:81"}, {"server.address": "::1", "server.port": 81}),
        ("/", "GET", {"REMOTE_ADDR": "192.0.2.7"}, {"client.address": "192.0.2.7"}),
        ("/", "GET", {"HTTP_USER_AGENT": "curl/8"}, {"user_agent.original": "curl/8"}),
        ("/", "GET", {"SERVER_PROTOCOL": "HTTP/1.1"}, {"network.protocol.version": "1.1"}),
        ("/", "GET", {"SERVER_PROTOCOL": "HTTP/7.invented"}, {"network.protocol.version": None}),
        ("/", "BREW", {}, {"http.request.method": "_OTHER", "http.request.method_original": "BREW"}),
        ("/@@fails", "GET", {}, {"http.response.status_code": 500, "error.type": "ZeroDivisionError"}),
        ("/@@refuses", "GET", {}, {"http.response.status_code": 404, "error.type": None, "url.query": None}),
    ],
)  # fmt: skip
def test_the_conventions_for_servers(
    site: Any, received: Any, path: str, method: str, sent: Any, expected: dict[str, Any]
) -> None:
    site(path, method, environ=sent, valid=method != "BREW")
    attributes = dict(received()[0].attributes)
    assert {name: attributes.get(name) for name in expected} == expected
    assert set(attributes) <= OF_A_SERVER_SPAN | OURS
    assert "hunter2" not in str(received())


def test_the_names_are_those_of_the_conventions() -> None:
    assert (OF_A_SERVER_SPAN | OF_THE_DURATION | OURS - {"pipeline.attempts"}) - known_names() == set()


def test_the_client_and_the_host_are_those_that_vhost_has_found(module: Any, received: Any) -> None:
    trusting = vhost(trusted=("10.0.0.1",), accept=("X-Forwarded",), allowed_hosts=("*",))
    name = module(index)
    app = Pipeline(timing(spans=True), trusting, errors(), traverse(root=dict), publisher(scan=(name,)))
    forwarded = {"HTTP_X_FORWARDED_FOR": "192.0.2.7", "HTTP_X_FORWARDED_HOST": "www.example.com"}
    ask(app, environ={"REMOTE_ADDR": "10.0.0.1", "HTTP_X_FORWARDED_PROTO": "https", **forwarded})
    attributes = received()[0].attributes
    assert (attributes["client.address"], attributes["server.address"]) == ("192.0.2.7", "www.example.com")
    assert (attributes["url.scheme"], attributes["server.port"]) == ("https", 443)


def test_the_duration_of_each_request_is_a_metric(
    site: Any, received: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    options = {"unit": "s", "explicit_bucket_boundaries_advisory": module_of_spans.BUCKETS}
    histogram = provider.get_meter("test").create_histogram("http.server.request.duration", **options)  # type: ignore[arg-type]
    monkeypatch.setattr(module_of_spans, "duration", histogram)
    for path, method in (("/", "GET"), ("/", "GET"), ("/@@fails", "GET"), ("/", "BREW")):
        site(path, method, valid=method != "BREW")
    [metric] = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
    assert (metric.name, metric.unit) == ("http.server.request.duration", "s")
    points = {tuple(sorted(point.attributes.items())): point for point in metric.data.data_points}
    assert all({name for name, _ in key} <= OF_THE_DURATION for key in points)
    kinds = [(dict(key)["http.request.method"], dict(key).get("error.type")) for key in points]
    counted = dict(zip(kinds, (point.count for point in points.values()), strict=True))
    assert counted == {("GET", None): 2, ("GET", "ZeroDivisionError"): 1, ("_OTHER", None): 1}
    assert next(iter(points.values())).explicit_bounds == module_of_spans.BUCKETS
    provider.shutdown()


def test_a_stack_names_the_site_first_and_leaves_the_watchers_out(site: Any, received: Any) -> None:
    site("/@@fails")
    stacks = [e.attributes["exception.stacktrace"] for span in received() for e in span.events]
    assert len(stacks) == 2, "on the request, and on the publisher"
    for stack in stacks:
        ours, _, whole = stack.partition("Traceback (most recent call last):\n")
        assert ours.startswith("In the site:\n") and "in fails" in ours and "/src/pipeline/" not in ours
        assert "in publisher" in whole and whole.endswith("ZeroDivisionError: by zero\n")
        assert "/measuring/" not in whole.replace("tests/measuring", "") and "elements/timing.py" not in whole


def test_the_line_and_the_traceback_of_a_500_can_be_joined(
    module: Any, received: Any, caplog: pytest.LogCaptureFixture
) -> None:
    name = module(index, fails)
    parts = [timing(spans=True), errors(), traverse(root=dict), publisher(scan=(name,))]
    for outer in (parts, parts[1:]):
        caplog.clear()
        with caplog.at_level(logging.INFO):
            ask(Pipeline(log(format="json"), *outer), "/@@fails")
        [line] = [json.loads(text) for text in caplog.messages if text.startswith("{")]
        [failed] = [text for text in caplog.messages if text.startswith("error ")]
        assert failed.startswith(f"error {line['error_id']}: GET /@@fails: ZeroDivisionError")
        assert failed.endswith(f", trace {line['trace_id']}" if outer is parts else "ZeroDivisionError")
    with caplog.at_level(logging.INFO):
        ask(Pipeline(log(format="json"), *parts), "/")
    assert "error_id" not in json.loads(caplog.messages[-1])
