"""The inspector of one pipeline: it records requests, and shows them to the developer."""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from time import perf_counter, time
from typing import Any

from webob.exc import HTTPException

from pipeline.between import openers
from pipeline.composition import Offers
from pipeline.explaining.recording import Record, current, is_error, watch_stream
from pipeline.inspector import pages
from pipeline.inspector.blocked import PATH, note_report
from pipeline.inspector.explaining import explain
from pipeline.interfaces import Handler
from pipeline.options import resolve
from pipeline.paste import Step
from pipeline.telling.secrets import masked_text

MINUTE = 60.0
LINKED: list[Step] = []
"""The parts that watchers were linked in around, innermost first, since an inspector was made."""


class Inspector:
    """Keeps what is noted of the last requests."""

    def __init__(self, next: Handler, keep: int, slow: float) -> None:
        self.next = next
        self.slow = slow
        self.records: deque[Record] = deque(maxlen=keep)
        self.lock = threading.Lock()
        self.steps = LINKED[:]
        LINKED.clear()
        listen()

    def record(self, request: Any, response: Any) -> None:
        """Have a request answered, and note the way that it takes."""
        record = request.inspected = Record(request)
        request.on_close(partial(record.close, request, response))
        with self.lock:
            self.records.append(record)
        current.set(record)  # until the request is closed: its body may write to the log
        try:
            self.next(request, response)
        except BaseException as escaped:
            record.ended = perf_counter()
            explain(record, escaped, 500)
            raise
        record.ended = perf_counter()
        watch_stream(response, record)
        last = [part for part in record.parts if part.attempt == record.attempts] if record.has_failed else []
        error = next((part.error for part in reversed(last) if part.error is not None), None)
        status = int(response.status_line[:3])
        is_expected = isinstance(error, HTTPException) and not is_error(error)
        if record.zope_walk is not None and record.zope_walk.cause is not None and status < 500:
            is_expected = True  # a Zope site raises redirects and refusals as well
        explain(record, None if is_expected else error, status, response.headers.get("Location", ""))

    def show(self, request: Any, response: Any) -> None:
        """Answer a request for a page of the inspector, or one that tells it something."""
        if request.environ["PATH_INFO"] == PATH and request.environ["REQUEST_METHOD"] == "POST":
            note_report(self, request, response)
        else:
            pages.show_page(self, request, response)

    def kept(self) -> list[Record]:
        """Return the records, the last request first."""
        with self.lock:
            return list(reversed(self.records))

    def find(self, number: int) -> Record | None:
        """Return the record with a number, or None."""
        return next((record for record in self.kept() if record.number == number), None)

    def counters(self) -> dict[str, float]:
        """Return numbers about the requests that are kept. Times are in seconds."""
        records = [record for record in self.kept() if record.closed]
        now = time()
        last = [record for record in records if now - record.when <= MINUTE]
        span = min(MINUTE, now - last[-1].when) if last else MINUTE
        times = sorted(record.seconds for record in records)
        return {
            "kept": len(records),
            "rate": len(last) / max(span, 1.0),  # a second, over the last minute or as long as requests are kept
            "median": share(times, 0.5),
            "p95": share(times, 0.95),
            "p99": share(times, 0.99),
            "errors": sum(record.code >= 500 for record in records),
            "repaired": sum(record.attempts > 1 and record.code != 503 for record in records),
            "failed": sum(record.code == 503 for record in records),  # no attempt was left, or no database served
        }


def share(times: list[float], of: float) -> float:
    """Return the time that a share of the requests took at most; ``times`` are sorted."""
    return times[min(len(times) - 1, int(len(times) * of))] if times else 0.0


def between(step: Step, offers: Offers) -> Offers:
    """Link a watcher in outside of a part, and one around what opens its database."""
    LINKED.append(step)
    opened = {name: _opening(f"request.{name}", opener) for name, opener in openers(step, offers).items()}
    walks, next = step.facts.walks, offers.handler

    def watched(request: Any, response: Any) -> None:
        record = request.__dict__.get("inspected")
        if record is None:
            next(request, response)
        else:
            record.watch(step, walks, next, request, response)

    return Offers(watched, **{**offers.attributes, **opened})


def _opening(name: str, opener: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def open_watched(request: Any) -> Any:
        record = getattr(request, "inspected", None)
        if record is None:
            return opener(request)
        waited = record.waited
        began = perf_counter()
        value = opener(request)
        record.note("open", name, perf_counter() - began - (record.waited - waited))  # one opener may use another
        watch_connection(request)
        return value

    return open_watched


def watch_connection(request: Any) -> None:
    """Have the objects noted that the ZODB connection of a request loads and registers as changed."""
    pooled = getattr(request, "zodb_pooled", None)
    if pooled is None or "setstate" in pooled.connection.__dict__:
        return
    connection = pooled.connection
    load, register = connection.setstate, connection.register

    def setstate(obj: Any) -> None:
        noted = current.get()
        began = perf_counter()
        load(obj)
        if noted is not None:
            noted.note("load", type(obj).__qualname__, perf_counter() - began)

    def note_change(obj: Any) -> None:
        register(obj)
        noted = current.get()
        if noted is not None:
            noted.note("change", type(obj).__qualname__)

    connection.setstate, connection.register = setstate, note_change


class LogHandler(logging.Handler):
    """Notes each line of the log on the record of the request that wrote it."""

    def emit(self, record: logging.LogRecord) -> None:
        noted = current.get()
        if noted is not None:
            try:
                text = record.getMessage()
            except Exception as error:
                text = f"{record.msg!r} ({type(error).__name__})"
            noted.note("log", masked_text(f"{record.levelname} {record.name}: {text}"))


_listening: list[str] = []
"""The names of the listeners that this process has installed. Each is installed once."""


def listen() -> None:
    """Note statements of SQLAlchemy and lines of the log from now on, if they are of a request with a record."""
    if "log" not in _listening:
        _listening.append("log")
        logging.getLogger().addHandler(LogHandler())
    if "sqlalchemy" in sys.modules and "sqlalchemy" not in _listening:
        _listening.append("sqlalchemy")
        engine = resolve("sqlalchemy.engine:Engine")
        listen: Callable[..., None] = resolve("sqlalchemy.event:listen")

        def before(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
            connection.info["began"] = perf_counter()

        def after(connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
            record = current.get()
            if record is not None:
                record.note("statement", statement, perf_counter() - connection.info["began"])

        listen(engine, "before_cursor_execute", before)
        listen(engine, "after_cursor_execute", after)
