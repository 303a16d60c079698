"""The record of a request: the parts that it passed, with the time and the changes of each.

``between`` links a watcher in outside of each part. A watcher notes what is different since the part outside of it,
as text, so that a record keeps no object of the request. Everything is noted within limits.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from itertools import count
from operator import attrgetter
from time import perf_counter
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from webob.exc import HTTPException, WSGIHTTPException

from pipeline.between import openers
from pipeline.composition import Offers
from pipeline.explaining.candidates import Look, look_up
from pipeline.explaining.noticed import BODY, bytes_read
from pipeline.explaining.walking import FIELDS, Walk, walk_again
from pipeline.explaining.watching import has_zodb, is_traverse
from pipeline.http.error_pages import text_of, traceback_of
from pipeline.inspector.changes import (
    GONE,
    NO_ANSWER,
    State,
    changed_request,
    changed_response,
    kept_environ,
    kept_headers,
    state_of,
)
from pipeline.inspector.databases import watch_connection
from pipeline.interfaces import Handler
from pipeline.options import on_demand
from pipeline.paste import Step
from pipeline.telling.secrets import LONGEST, masked_text, told_variable

if TYPE_CHECKING:
    from pipeline.explaining.made_of import MadeOf, Making
else:  # only a site with a ZODB has its packages
    Making = on_demand("pipeline.explaining.made_of:Making")

MOST_PARTS = 300
"""Parts of one request that are noted: a request that is tried a hundred times passes a thousand."""
MOST_NOTES = 100
"""Statements, objects and lines of the log that are kept for one request, of each."""
LONGEST_NOTE = 2_000
LINKED: list[Step] = []
"""The parts that watchers were linked in around, innermost first, since an inspector was made."""

current: ContextVar[Record | None] = ContextVar("record", default=None)
"""The record of the request that this thread is at work for."""

_walked_of = attrgetter(*FIELDS)
_new = object.__new__
_UNCHANGED: dict[str, str] = {}
_numbers = count(1)


class Note(NamedTuple):
    """A statement, an object or a line of the log."""

    kind: str
    """"statement", "load", "change", "open" or "log"."""
    part: str
    text: str
    at: float
    """Seconds since the request came in."""
    seconds: float


class Again(NamedTuple):
    """Everything that is needed to walk the path of a request again."""

    part: Part
    """The part that walks."""
    pipeline: Any
    views: Any
    fields: tuple[Any, ...]
    """The fields of the request before traversal, as ``pipeline.explaining.walking.FIELDS`` names them."""


class Part:
    """One part of the pipeline at work for one attempt."""

    # Defaults stand in the class: making one object for each part is a good share of what the inspector costs.
    waited = 0.0
    """Seconds of its own that it waited for a database."""
    began = ended = 0.0
    changed = _UNCHANGED
    """The changes of the part outside of it to the request, on the way in."""
    answered = _UNCHANGED
    """Its changes to the response."""
    raised = ""
    error: BaseException | None = None
    fields: tuple[Any, ...] | None = None
    """The fields of the request before traversal, if this is the part that walks."""
    views: Any = None
    walk: Walk | None = None
    look: Look | None = None

    attempt = 1
    step: Step
    outer: Part | None
    """The part outside of it. The watcher sets both: a call of ``__init__`` takes longer than all of the rest."""

    @property
    def depth(self) -> int:
        """The number of parts that it is inside of."""
        return 0 if self.outer is None else self.outer.depth + 1

    @property
    def name(self) -> str:
        """The name of the element, the app or the middleware."""
        return str(self.step)

    @property
    def seconds(self) -> float:
        """Seconds within the part and all that is inside of it."""
        return self.ended - self.began


class Record:
    """One request."""

    answered = closed = 0.0
    dropped = 0
    """Parts beyond the limit."""
    waited = 0.0
    """Seconds that it waited for databases."""
    attempts = 1
    status = ""
    headers: Sequence[tuple[str, str]] = ()
    bytes_sent: int | None = 0
    principal: str | None = None
    has_failed = False
    """True if a part has raised an error."""
    error = traceback = ""
    causes: Sequence[Any] = ()
    """Why it failed (``pipeline.explaining.causes.Cause``)."""
    made_of: MadeOf | None = None
    kept = ""
    """How the answer was made, if an element keeps pages."""
    late_headers: Sequence[str] = ()
    """Headers that were set when the body had begun to be sent."""
    again: Again | None = None
    """Everything that is needed to walk again."""
    zope_walk: Walk | None = None
    """The steps of a request to a Zope site, as texts."""

    def __init__(self, request: Any) -> None:
        self.number = next(_numbers)
        self.came = kept_environ(request.environ)
        """The environ as it came in."""
        self.parts: list[Part] = []
        self.part: Part | None = None
        """The part that is at work."""
        self.noted: list[tuple[str, Part | None, str, float, float]] = []
        self.counts: dict[str, int] = {}
        """Notes of each kind, with those beyond the limit."""
        request.inspected = self
        if hasattr(request, "zope_walk"):
            if request.zope_walk is None:  # ``pipeline explain`` may have one
                request.zope_walk = Walk()
            self.zope_walk = request.zope_walk
        # The request and the response as the last part has left them.
        self.state: State | None = None
        self.seen: list[Any] = []
        """The values of the state. They are compared for each part, and the state only if they differ."""
        self.left = NO_ANSWER
        self.when = time.time()
        self.began = perf_counter()

    @property
    def environ(self) -> dict[str, str]:
        """The environ as it came in, as text."""
        names, values = self.came
        return {name: told_variable(name, value) for name, value in zip(names, values, strict=True)}

    def variable(self, name: str) -> str:
        """Return a variable of the environ as it came in; "" if it was not there."""
        names, values = self.came
        return values[names.index(name)] if name in names else ""

    @property
    def method(self) -> str:
        """The method of the request."""
        return self.variable("REQUEST_METHOD")

    @property
    def path(self) -> str:
        """The path as the server has decoded it."""
        path = self.variable("SCRIPT_NAME") + self.variable("PATH_INFO")
        return path.encode("latin-1", "replace").decode("utf-8", "replace")

    @property
    def query(self) -> str:
        """The query without secrets."""
        return self.variable("QUERY_STRING")

    @property
    def seconds(self) -> float:
        """Seconds until the request was closed."""
        return (self.closed or self.answered or perf_counter()) - self.began

    @property
    def vary_lacks(self) -> list[str]:
        """The headers that ``Vary`` should name, and does not; of an answer that caches may keep."""
        return self.made_of.lacking_in(self.headers) if self.made_of is not None and self.code == 200 else []

    @property
    def code(self) -> int:
        """The status of the answer as a number; 0 if there is no answer."""
        return int(self.status[:3] or 0)

    @property
    def is_open(self) -> bool:
        """True if the body is still being sent."""
        return not self.closed

    def entered(self, request: Any, seen: list[Any]) -> dict[str, str]:
        """Return what is different on the request since the last part was entered."""
        before = self.state
        self.state = now = state_of(request)
        self.seen = seen
        self.attempts = now.added.get("attempt", 1)
        return changed_request(before, now) if before is not None else _UNCHANGED

    def failed(self, part: Part, request: Any, error: BaseException) -> None:
        """Note that a part has raised an error: why, while the objects of the request are there."""
        part.raised = f"{type(error).__name__}: {masked_text(text_of(error))[:LONGEST]}"
        part.error = error
        self.has_failed = True
        self.left = NO_ANSWER
        if not isinstance(error, Exception) or (request.attempts_left and request.judge(error).transient):
            return
        if isinstance(error, HTTPException) and not is_error(error):
            return
        step = part.step
        try:
            if step.element is not None and step.element.is_end and request.views is not None:
                part.look = look_up(request)
                part.views = request.views
            elif part.fields is not None and step.element is not None:
                part.walk = walk_again(request, named(part.fields), step.element.options)
        except Exception:  # what cannot be told must not change the answer
            logging.getLogger("pipeline").debug("the inspector could not look again", exc_info=True)

    def note(self, kind: str, text: str, seconds: float = 0.0) -> None:
        """Note a statement, an object or a line of the log, within the limits."""
        if self.closed:
            return
        counted = self.counts.get(kind, 0)
        self.counts[kind] = counted + 1
        at_work = self.part
        if kind != "log":
            self.waited += seconds
            if at_work is not None:
                at_work.waited += seconds
        if counted < MOST_NOTES:
            text = text if len(text) <= LONGEST_NOTE else f"{text[:LONGEST_NOTE]}..."
            self.noted.append((kind, at_work, text, perf_counter() - self.began - seconds, seconds))

    @property
    def notes(self) -> list[Note]:
        """What was noted, in the order of time."""
        return [
            Note(kind, part.name if part else "", text, at, seconds) for kind, part, text, at, seconds in self.noted
        ]

    def close(self, request: Any, response: Any) -> None:
        """Note the answer as it was sent, and forget all objects of the request."""
        self.closed = perf_counter()
        self.status = response.status_line
        self.headers = kept_headers(response.headerlist)
        self.bytes_sent = request.bytes_sent
        self.principal = request.principal
        self.kept = request.__dict__.get("kept", "")
        current.set(None)
        if self.has_failed or self.attempts > 1:
            for part in self.parts:
                part.error = part.views = part.fields = None
        elif self.again is not None:
            self.again.part.fields = None
        if self.again is not None and self.again.fields[_HOOKS]:
            self.again = self.again._replace(fields=without_closures(self.again.fields))
        del self.state, self.seen, self.left

    def inside(self, part: Part) -> float:
        """Return the seconds within the parts that are right inside of a part."""
        return sum(one.seconds for one in self.parts if one.outer is part and one.ended)

    def own(self, part: Part) -> float:
        """Return the seconds that a part itself took, with its waiting for a database."""
        return max(0.0, part.seconds - self.inside(part))

    def failed_parts(self) -> Iterator[Part]:
        """Yield the parts of the last attempt that raised an error, innermost first."""
        last = [part for part in self.parts if part.attempt == self.attempts]
        yield from (part for part in reversed(last) if part.error is not None)

    def explain(self, error: BaseException) -> None:
        """Note the text of an error, and the traceback of one that is not an HTTP exception."""
        self.error = f"{type(error).__name__}: {masked_text(text_of(error))}"
        if not isinstance(error, HTTPException):
            self.traceback = masked_text(traceback_of(error))

    def environ_at(self, part: Part) -> dict[str, str]:
        """Return the environ as a part found it, as text."""
        state = self.environ
        for one in self.parts:
            if one.attempt == part.attempt:
                for name, value in one.changed.items():
                    if value == GONE:
                        state.pop(name, None)
                    elif not name.startswith("request.") and name != BODY:
                        state[name] = value
            if one is part:
                break
        return state


_HOOKS = FIELDS.index("traversal_hooks")


def named(fields: tuple[Any, ...]) -> dict[str, Any]:
    """Return the fields of the request before traversal, by name."""
    return dict(zip(FIELDS, fields, strict=True))


def without_closures(fields: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the fields without traversal hooks that were made for the request, which may refer to it."""
    hooks = [hook for hook in fields[_HOOKS] if type(hook) is FunctionType and hook.__closure__ is None]
    return (*fields[:_HOOKS], tuple(hooks), *fields[_HOOKS + 1 :])


def is_error(error: BaseException) -> bool:
    """Return whether an HTTP exception is an error, and not a redirect."""
    return isinstance(error, WSGIHTTPException) and error.status_int >= 400


def between(step: Step, offers: Offers) -> Offers:
    """Link a watcher in outside of a part, and one around what opens its database."""
    LINKED.append(step)
    opened = {name: _opening(f"request.{name}", opener) for name, opener in openers(step, offers).items()}
    return Offers(watcher(step, offers.handler), **{**offers.attributes, **opened})


def watcher(step: Step, next: Handler) -> Handler:
    """Return a handler that calls the handler of a part, and notes what the part does."""
    walks = is_traverse(step)

    def watched(request: Any, response: Any) -> None:
        added = request.__dict__
        record = added.get("inspected")
        if record is None or len(record.parts) >= MOST_PARTS:
            if record is not None:
                record.dropped += 1
            next(request, response)
            return
        outer = record.part
        part = record.part = _new(Part)
        part.step = step
        part.outer = outer
        record.parts.append(part)
        # To compare the values takes a third of the time that it takes to compare the dicts.
        seen = [*dict.values(request.environ), *added.values(), request.context, request.view_name]
        seen.append(request.virtual_root_path)
        if request.announces_body:
            seen.append(bytes_read(request))
        try:
            if seen != record.seen:
                part.changed = record.entered(request, seen)
        except Exception:  # an object of the site that cannot be compared
            part.changed = record.entered(request, seen)
        if record.attempts != 1:
            part.attempt = record.attempts
        making = None
        if walks:
            part.fields = _walked_of(request)
            record.again = Again(part, request.pipeline, request.views, part.fields)
            making = Making(request) if has_zodb(request) else None
        part.began = perf_counter()
        try:
            next(request, response)
        except BaseException as error:
            part.ended = perf_counter()
            record.failed(part, request, error)
            raise
        else:
            part.ended = perf_counter()
            before, status, body, filters = record.left, response.status_line, response.blocks, response.filters
            headers = response.headerlist
            if before[1] is not body or before[0] is not status or before[2] is not filters or before[3] != headers:
                record.left = status, body, filters, [*headers]
                part.answered = changed_response(before, record.left)
        finally:
            record.part = outer
            if making is not None:
                record.made_of = making.end()

    return watched


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


def linked() -> list[Step]:
    """Return the parts that were linked since the last call, innermost first."""
    found = LINKED[:]
    LINKED.clear()
    return found
