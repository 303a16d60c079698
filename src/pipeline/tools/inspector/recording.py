"""What the inspector notes of a request: the parts that it passed, with times and with what each changed.

``between`` links a watcher in outside of each part. A watcher notes what is different since the part outside of it,
as text, so that a record keeps no object of the request. Everything is noted within limits.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from itertools import count
from time import perf_counter
from typing import Any, NamedTuple

from webob.exc import HTTPException, WSGIHTTPException

from pipeline.composition import Offers
from pipeline.http.error_pages import text_of, traceback_of
from pipeline.paste import Step
from pipeline.request import OF_AN_ATTEMPT
from pipeline.tools.between import openers
from pipeline.tools.candidates import Look, look_up
from pipeline.tools.inspector.databases import watch_connection
from pipeline.tools.inspector.secrets import masked_query, masked_text, told, told_header, told_variable, value_of
from pipeline.tools.walking import Walk, walk_again, walked_fields
from pipeline.tools.watching import UNTOLD, is_traverse

MOST_PARTS = 300
"""Parts of one request that are noted: a request that is tried a hundred times passes a thousand."""
MOST_NOTES = 100
"""Statements, objects and lines of the log that are kept for one request, of each."""

LINKED: list[Step] = []
"""The parts that watchers were linked in around, innermost first, since an inspector was made."""

current: ContextVar[Record | None] = ContextVar("record", default=None)
"""The record of the request that this thread is at work for."""

_FIELDS = [(number, name) for number, name in enumerate(OF_AN_ATTEMPT) if name not in UNTOLD]
_ADDED = len(OF_AN_ATTEMPT)
_HIDDEN = {*UNTOLD, "inspected"}
_numbers = count(1)


class Note(NamedTuple):
    """A statement, an object or a line of the log."""

    kind: str
    """"sql", "load", "change", "open" or "log"."""
    part: str
    text: str
    at: float
    """Seconds since the request came in."""
    seconds: float


class Part:
    """One part of the pipeline at work for one attempt."""

    __slots__ = ("answered", "attempt", "began", "changed", "depth", "ended", "error", "fields", "inner", "look")
    __slots__ += ("raised", "status", "step", "views", "waited", "walk")

    def __init__(self, step: Step, depth: int, attempt: int) -> None:
        self.step = step
        self.depth = depth
        self.attempt = attempt
        self.inner = self.waited = self.began = self.ended = 0.0
        """Seconds within the parts inside of it, and seconds of its own that it waited for a database."""
        self.changed: dict[str, str] = {}
        """What the parts outside of it have changed on the request since the part before."""
        self.answered: dict[str, str] = {}
        self.status = self.raised = ""
        self.error: BaseException | None = None
        self.fields: Any = {}
        self.views: Any = None
        self.walk: Walk | None = None
        self.look: Look | None = None

    @property
    def name(self) -> str:
        """The name of the element, the app or the middleware."""
        return str(self.step)

    @property
    def seconds(self) -> float:
        """Seconds within the part and all that is inside of it."""
        return self.ended - self.began

    @property
    def own(self) -> float:
        """Seconds that the part itself took, with its waiting for a database."""
        return max(0.0, self.seconds - self.inner)


class Record:
    """One request."""

    def __init__(self, request: Any) -> None:
        environ = request.environ
        self.number = next(_numbers)
        self.when = time.time()
        self.began = perf_counter()
        self.answered = self.closed = 0.0
        self.method: str = environ["REQUEST_METHOD"]
        self.path = told(f"{environ.get('SCRIPT_NAME', '')}{environ.get('PATH_INFO', '')}")
        self.query = masked_query(environ.get("QUERY_STRING", ""))
        self.environ = environ.copy()
        """The environ as it came in, as text once the request is closed."""
        self.parts: list[Part] = []
        self.dropped = 0
        """Parts beyond the limit."""
        self.notes: list[Note] = []
        self.counts: dict[str, int] = {}
        self.waited = 0.0
        self.attempts = 1
        self.status = ""
        self.headers: list[tuple[str, str]] = []
        self.bytes_sent: int | None = 0
        self.principal: str | None = None
        self.error = self.traceback = ""
        self.causes: list[Any] = []
        """Why it failed (``pipeline.tools.causes.Cause``)."""
        self.pools: dict[int, Any] = {}
        """The pools of connections that requests have used, shared with the inspector."""
        self.again: Any = None
        """What is needed to walk again: the pipeline, the environ and the fields before traversal."""
        self.stack: list[Part] = []
        self.seen: tuple[Any, Any] = (self.environ, request.snapshot())
        self.left: tuple[Any, ...] = ()

    @property
    def seconds(self) -> float:
        """Seconds until the request was closed."""
        return (self.closed or self.answered or perf_counter()) - self.began

    @property
    def code(self) -> int:
        """The status of the answer as a number; 0 if there is no answer."""
        return int(self.status[:3] or 0)

    @property
    def is_open(self) -> bool:
        """Whether the body is still being sent."""
        return not self.closed

    def watch(self, step: Step, next: Callable[[Any, Any], None], request: Any, response: Any) -> None:
        """Call the handler of a part, and note what it does."""
        if len(self.parts) >= MOST_PARTS:
            self.dropped += 1
            next(request, response)
            return
        stack = self.stack
        attempt = getattr(request, "attempt", 1)
        part = Part(step, len(stack), attempt)
        self.attempts = max(self.attempts, attempt)
        self.parts.append(part)
        part.changed = self.changes(request)
        if is_traverse(step):
            part.fields = self.keep_for_walk(step, request)
        stack.append(part)
        part.began = perf_counter()
        try:
            next(request, response)
        except BaseException as error:
            part.ended = perf_counter()
            self.failed(part, request, error)
            raise
        else:
            part.ended = perf_counter()
            part.answered = self.answers(response)
            part.status = response._status
        finally:
            stack.pop()
            if stack:
                stack[-1].inner += part.ended - part.began

    def changes(self, request: Any) -> dict[str, str]:
        """Return what is different on the request since the last part."""
        environ_before, fields_before = self.seen
        environ, fields = request.environ, request.snapshot()
        changed: dict[str, str] = {}
        if environ != environ_before:
            for name, value in environ.items():
                if environ_before.get(name) is not value and not name.startswith(("pipeline.", "webob.")):
                    changed[name] = told_variable(name, value)
            changed |= {name: "(gone)" for name in environ_before if name not in environ}
            environ_before = environ.copy()
        for number, name in _FIELDS:
            if fields[number] is not fields_before[number] and fields[number] != fields_before[number]:
                changed[f"request.{name}"] = value_of(name, fields[number])
        added, before = fields[_ADDED] or {}, fields_before[_ADDED] or {}
        for name, value in added.items():
            if before.get(name, self) is not value and name not in _HIDDEN and name[0] != "_":
                changed[f"request.{name}"] = value_of(name, value)
        self.seen = (environ_before, fields)
        return changed

    def answers(self, response: Any) -> dict[str, str]:
        """Return what is different on the response since the part inside has answered."""
        status, headers, body, _, filters = left = response.snapshot()
        before = self.left
        self.left = left
        if before and before[0] is status and before[2] is body and before[1] == headers and before[4] is filters:
            return {}
        changed: dict[str, str] = {}
        if not before or before[0] != status:
            changed["status"] = status
        was = before[1] or () if before else ()
        changed |= {name: told_header(name, value) for name, value in headers or () if (name, value) not in was}
        now = {name for name, _ in headers or ()}
        changed |= {name: "(gone)" for name, _ in was if name not in now}
        if not before or before[2] is not body:
            changed["body"] = f"{sum(map(len, body))} bytes" if type(body) is list else told(body)
        if filters and (not before or before[4] is not filters):
            changed["output filters"] = ", ".join(map(told, filters))
        return changed

    def failed(self, part: Part, request: Any, error: BaseException) -> None:
        """Note that a part has raised an error: why, while the objects of the request are there."""
        part.raised = f"{type(error).__name__}: {masked_text(text_of(error))[:300]}"
        part.error = error
        self.left = ()
        if not isinstance(error, Exception) or request.attempts_left and request.judge(error).transient:
            return
        if isinstance(error, HTTPException) and not is_error(error):
            return
        step = part.step
        try:
            if step.element is not None and step.element.is_end and request.views is not None:
                part.look = look_up(request)
                part.views = request.views
            elif part.fields and step.element is not None:
                part.walk = walk_again(request, part.fields, step.element.options)
        except Exception:
            logging.getLogger("pipeline").debug("the inspector could not look again", exc_info=True)

    def keep_for_walk(self, step: Step, request: Any) -> Any:
        """Keep what it takes to walk the path again when the page of this request is opened. Return the fields of
        the request before traversal."""
        fields = walked_fields(request)
        kept = {**fields, "traversal_hooks": tuple(filter(is_kept, fields["traversal_hooks"]))}
        environ = {name: request.environ[name] for name in OF_THE_PATH if name in request.environ}
        self.again = Again(step, request.pipeline, request.views, environ, kept)
        return fields

    def note(self, kind: str, text: str, seconds: float = 0.0) -> None:
        """Note a statement, an object or a line of the log, within the limits."""
        if self.closed:
            return
        counted = self.counts.get(kind, 0)
        self.counts[kind] = counted + 1
        stack = self.stack
        if kind != "log":
            self.waited += seconds
            if stack:
                stack[-1].waited += seconds
        if counted < MOST_NOTES:
            part = stack[-1].name if stack else ""
            text = text if len(text) <= 2_000 else f"{text[:2_000]}..."
            self.notes.append(Note(kind, part, text, perf_counter() - self.began - seconds, seconds))

    def close(self, request: Any, response: Any) -> None:
        """Note the answer as it was sent, and forget all objects of the request."""
        self.closed = perf_counter()
        self.status = response._status
        self.headers = [(name, told_header(name, value)) for name, value in response._own_headers or ()]
        self.bytes_sent = request.bytes_sent
        self.principal = request.principal
        current.set(None)
        self.forget()

    def forget(self) -> None:
        """Forget the objects of the request."""
        self.environ = {
            name: told_variable(name, value)
            for name, value in self.environ.items()
            if not name.startswith(("pipeline.", "webob.", "wsgi.errors"))
        }
        for part in self.parts:
            part.error, part.views, part.fields = None, None, {}
        self.stack = []
        self.seen = ({}, ())
        self.left = ()

    def failed_parts(self) -> Iterator[Part]:
        """Yield the parts of the last attempt that raised an error, innermost first."""
        last = [part for part in self.parts if part.attempt == self.attempts]
        yield from (part for part in reversed(last) if part.error is not None)

    def explain(self, error: BaseException) -> None:
        """Note the traceback of an error that is not an HTTP exception."""
        self.error = f"{type(error).__name__}: {masked_text(text_of(error))}"
        if not isinstance(error, HTTPException):
            self.traceback = masked_text(traceback_of(error))


OF_THE_PATH = ("REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "HTTP_HOST", "HTTP_ACCEPT", "wsgi.url_scheme")
OF_THE_PATH += ("SERVER_NAME", "SERVER_PORT", "REMOTE_ADDR")
"""What traversal and the look-up of the view read of the environ, and that is not a secret."""


class Again(NamedTuple):
    """What it takes to walk the path of a request again."""

    step: Step
    pipeline: Any
    views: Any
    environ: dict[str, str]
    fields: Any


def is_kept(hook: Any) -> bool:
    """Return whether a traversal hook can be kept: not one that was made for the request, which it may refer to."""
    return getattr(hook, "__self__", None) is None and not getattr(hook, "__closure__", None)


def is_error(error: BaseException) -> bool:
    """Return whether an HTTP exception is an error, and not a redirect."""
    return isinstance(error, WSGIHTTPException) and error.status_int >= 400


def between(step: Step, offers: Offers) -> Offers:
    """Link a watcher in outside of a part, and one around what opens its database."""
    LINKED.append(step)
    next = offers.handler

    def watched(request: Any, response: Any) -> None:
        record = getattr(request, "inspected", None)
        if record is None:
            next(request, response)
        else:
            record.watch(step, next, request, response)

    opened = {name: _opening(step, name, opener) for name, opener in openers(step, offers).items()}
    return Offers(watched, **{**offers.attributes, **opened})


def _opening(step: Step, name: str, opener: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def open_watched(request: Any) -> Any:
        record = getattr(request, "inspected", None)
        if record is None:
            return opener(request)
        began = perf_counter()
        value = opener(request)
        record.note("open", f"request.{name} of {step}", perf_counter() - began)
        watch_connection(record, request)
        return value

    return open_watched


def linked() -> list[Step]:
    """Return the parts that were linked since the last call, innermost first."""
    found = LINKED[:]
    LINKED.clear()
    return found
