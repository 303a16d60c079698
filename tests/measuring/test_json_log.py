"""The line of the access log as JSON."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from asking import ask
from pipeline import Pipeline, element
from pipeline.elements.errors import errors
from pipeline.elements.log import LONGEST, log
from pipeline.elements.timing import timing


def hello(environ: Any, start_response: Any) -> list[bytes]:
    start_response("201 Created", [("Content-Type", "text/plain")])
    return [b"hello"]


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[..., dict[str, Any]]:
    """``logged(app, path, ...)``: the fields of the one line that a request leaves."""
    caplog.set_level(logging.INFO, logger="pipeline.access")

    def logged(app: Any = None, path: str = "/", **options: Any) -> dict[str, Any]:
        caplog.clear()
        ask(log(format="json")(hello) if app is None else app, path, **options)
        [line] = [record.getMessage() for record in caplog.records if record.name == "pipeline.access"]
        assert line.isascii() and line.isprintable(), "one line, whatever the client sent"
        fields: dict[str, Any] = json.loads(line)
        return fields

    return logged


def test_the_fields(logged: Any) -> None:
    before = time.time()
    fields = logged(
        path="/a/b?c=d",
        REMOTE_ADDR="192.0.2.1",
        HTTP_REFERER="http://example.org/",
        HTTP_USER_AGENT="tests/1 (x)",
        SERVER_PROTOCOL="HTTP/1.1",
    )
    stamp = fields.pop("time")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", stamp)
    assert before - 1 < datetime.fromisoformat(stamp).timestamp() < time.time() + 1
    assert fields.pop("seconds") >= 0
    assert fields == {
        "host": "192.0.2.1",
        "user": None,
        "method": "GET",
        "url": "/a/b?c=d",
        "protocol": "HTTP/1.1",
        "status": 201,
        "bytes": 5,
        "referrer": "http://example.org/",
        "agent": "tests/1 (x)",
    }


@pytest.mark.parametrize("sent", ['"', "\\", '", "status": 200, "x": "', "\x7f", "\u2028", "\xe9\xff", "a\tb"])
def test_no_client_writes_fields_of_its_own(logged: Any, sent: str) -> None:
    fields = logged(HTTP_USER_AGENT=sent, HTTP_REFERER=sent, valid=False)
    assert (fields["agent"], fields["referrer"], fields["status"]) == (sent, sent, 201)


def test_a_field_is_not_longer_than_in_the_other_format(logged: Any) -> None:
    assert len(logged(HTTP_USER_AGENT="x" * 100_000)["agent"]) == LONGEST


def test_it_may_be_written_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    app = log(format="json", file=str(path))(hello)
    ask(app)
    ask(app)
    assert [json.loads(line)["status"] for line in path.read_text().splitlines()] == [201, 201]


def test_another_format_is_refused() -> None:
    from pipeline.interfaces import OptionError

    with pytest.raises(OptionError, match="'xml' is not one of combined, json"):
        log({"__file__": "", "here": ""}, format="xml")


@element
def end(*, streams: bool = False) -> Any:
    def end(request: Any, response: Any) -> None:
        request.principal = "ann"
        response.app_iter = blocks() if streams else [b"hello"]

    return end


def blocks() -> Iterator[bytes]:
    yield b"a"
    time.sleep(0.02)
    yield b"bc"


@pytest.mark.parametrize("order", [(log(format="json"), timing()), (timing(), log(format="json"))])
def test_the_times_of_the_elements_are_in_it(logged: Any, order: Any) -> None:
    fields = logged(Pipeline(*order, errors(), end()))
    assert (fields["user"], fields["attempts"], fields["view"]) == ("ann", 1, None)
    assert {"errors", "end"} <= fields["elements"].keys() <= {"errors", "end", "log"}
    assert sum(fields["elements"].values()) <= fields["seconds"] + 0.001
    assert "trace_id" not in fields


def test_a_stream_is_measured_until_it_is_closed(logged: Any) -> None:
    fields = logged(Pipeline(log(format="json"), timing(), end(streams=True)))
    assert fields["seconds"] - fields["elements"]["end"] >= 0.02
    assert fields["bytes"] == 3


def test_the_trace_is_in_it(logged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry.sdk.trace import TracerProvider

    from pipeline.measuring import spans

    monkeypatch.setattr(spans, "tracer", TracerProvider().get_tracer("tests"))
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    app = Pipeline(log(format="json"), timing(spans=True), errors(), end())
    fields = logged(app, HTTP_TRACEPARENT=f"00-{trace_id}-00f067aa0ba902b7-01")
    assert fields["trace_id"] == trace_id
    assert re.fullmatch("[0-9a-f]{16}", fields["span_id"]) and fields["span_id"] != "00f067aa0ba902b7"
