"""The record of a request: the parts that it passed, with the time and the changes of each.

The inspector makes one of each request. A command has a ``Recorder``, for one request that is noted completely.
``between`` links a watcher in outside of each part. A watcher notes what is different since the part outside of it,
as text, so that a record keeps no object of the request. Everything is noted within limits.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from copy import copy
from itertools import count
from time import perf_counter
from types import FunctionType, GeneratorType
from typing import TYPE_CHECKING, Any, NamedTuple

from webob.exc import HTTPException, WSGIHTTPException

from pipeline.explaining.changes import (
    BODY,
    NO_ANSWER,
    State,
    apply,
    changed_request,
    changed_response,
    header_key,
    kept_environ,
    kept_headers,
    state_of,
    told_state,
)
from pipeline.explaining.walking import FIELDS, Look, Walk, look_up, walk_again
from pipeline.http.error_pages import text_of
from pipeline.interfaces import Handler
from pipeline.options import on_demand, resolve
from pipeline.paste import Step
from pipeline.telling.secrets import LONGEST, masked_text
from pipeline.telling.words import place_of

if TYPE_CHECKING:
    from pipeline.explaining.made_of import MadeOf, Making
else:  # only a site with a ZODB has its packages
    Making = on_demand("pipeline.explaining.made_of:Making")

MOST_PARTS = 300
"""Parts of one request that are noted: a request that is tried a hundred times passes a thousand."""
MOST_NOTES = 100
"""Statements, objects and lines of the log that are kept for one request, of each."""
LONGEST_NOTE = 2_000
current: ContextVar[Record | None] = ContextVar("record", default=None)
"""The record of the request that this thread is at work for."""

_new = object.__new__
_UNCHANGED: dict[str, str] = {}
_numbers = count(1)


class Note(NamedTuple):
    """A statement, an object or a line of the log."""

    kind: str
    """"statement", "load", "change", "open" or "log"."""
    part: Part | None
    """The part that was at work."""
    text: str
    at: float
    """Seconds since the request came in."""
    seconds: float


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
    fields: Mapping[str, Any] | None = None
    """The fields of the request before traversal (``FIELDS``), if this is the part that walks."""
    pipeline: Any = None
    views: Any = None
    walk: Walk | None = None
    look: Look | None = None

    request: Mapping[str, str] = _UNCHANGED
    """The attributes of the request when it came in. ``path_of`` sets this and the next two, on copies."""
    inward: Mapping[str, str] = _UNCHANGED
    """The changes of the part itself to the request, on the way in."""
    response: Mapping[str, str] = _UNCHANGED
    """The changes of the part and of those inside of it to the response."""

    attempt = 1
    inside = 0.0
    """Seconds that the parts inside of it took."""
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
    def title(self) -> str:
        """Its name, and that it is foreign, if it is."""
        return self.name if self.step.element is not None else f"the foreign middleware {self.name}"

    @property
    def spot(self) -> str:
        """Its place in the ini; of foreign middleware also that of its code."""
        is_ours = self.step.element is not None
        return self.step.where if is_ours else f"{self.step.where} ({place_of(self.step.factory)})"

    @property
    def place(self) -> str:
        """The place of its view, or else of the part."""
        if self.look is not None and self.look.chosen is not None:
            return place_of(self.look.chosen.function)
        return self.step.where if self.step.element is not None else place_of(self.step.factory)

    @property
    def seconds(self) -> float:
        """Seconds within the part and all that is inside of it."""
        return self.ended - self.began

    @property
    def own(self) -> float:
        """Seconds that the part itself took, with its waiting for a database."""
        return max(0.0, self.seconds - self.inside)


class Record:
    """One request."""

    ended = closed = 0.0
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
    """The text of the error that was answered, and the traceback of one that is not an HTTP exception."""
    causes: Sequence[Any] = ()
    """Why it failed (``pipeline.explaining.causes.Cause``)."""
    made_of: MadeOf | None = None
    kept = ""
    """How the answer was made, as the element ``keep`` says it; or ""."""
    late_headers: Sequence[str] = ()
    """Headers that were set when the body had begun to be sent."""
    again: Part | None = None
    """The part that walks. It keeps what is needed to walk again: fields, pipeline and views."""
    zope_walk: Walk | None = None
    """The steps of a request to a Zope site, as texts."""

    def __init__(self, request: Any, complete: bool = False) -> None:
        self.number = next(_numbers)
        self.complete = complete
        """True if traversal and the look-up of the view are told of each request, and not of errors alone."""
        self.environ = told_state(request) if complete else kept_environ(request.environ)
        """The environ as it came in, as text; of a complete record with the attributes of the request."""
        self.parts: list[Part] = []
        self.part: Part | None = None
        """The part that is at work."""
        self.notes: list[Note] = []
        """The notes, in the order of time."""
        self.counts: dict[str, int] = {}
        """Notes of each kind, with those beyond the limit."""
        if hasattr(request, "zope_walk"):
            if request.zope_walk is None:  # ``pipeline explain``, outside of an inspector, may have made one
                request.zope_walk = Walk()
            self.zope_walk = request.zope_walk
        # The request and the response as the last part has left them.
        self.state: State | None = None
        self.left = NO_ANSWER
        """Status, body, output filters and headers of the response (``pipeline.explaining.changes.Answer``)."""
        self.response: Any = None
        self.when = time.time()
        self.began = perf_counter()

    @property
    def method(self) -> str:
        """The method of the request."""
        return self.environ["REQUEST_METHOD"]

    @property
    def path(self) -> str:
        """The path as the server has decoded it."""
        path = self.environ.get("SCRIPT_NAME", "") + self.environ.get("PATH_INFO", "")
        return path.encode("latin-1", "replace").decode("utf-8", "replace")

    @property
    def query(self) -> str:
        """The query without secrets."""
        return self.environ.get("QUERY_STRING", "")

    @property
    def seconds(self) -> float:
        """Seconds until the request was closed."""
        return (self.closed or self.ended or perf_counter()) - self.began

    @property
    def vary_lacks(self) -> list[str]:
        """The headers that ``Vary`` should name, and does not; of an answer that caches may keep."""
        return self.made_of.lacking_in(self.headers) if self.made_of is not None and self.code == 200 else []

    @property
    def code(self) -> int:
        """The status of the answer as a number; 0 if there is no answer."""
        return int(self.status[:3] or 0)

    def entered(self, request: Any) -> dict[str, str]:
        """Return what is different on the request since the last part was entered."""
        before = self.state
        self.state = now = state_of(request)
        self.attempts = now.added.get("attempt", 1)
        return changed_request(before, now) if before is not None else _UNCHANGED

    def watch(self, step: Step, walks: bool, handler: Handler, request: Any, response: Any) -> None:
        """Call the handler of a part, and note what it does.

        walks  ``step.facts.walks``, which is asked at load
        """
        if len(self.parts) >= MOST_PARTS:
            self.dropped += 1
            handler(request, response)
            return
        outer = self.part
        part = self.part = _new(Part)
        part.step = step
        part.outer = outer
        self.parts.append(part)
        part.changed = self.entered(request)
        part.attempt = self.attempts
        begun = self.going_in(outer, response)
        making = None
        if self.complete:
            look_again(part, request)
            look_again(outer, request)
        if walks:
            part.fields = {name: getattr(request, name) for name in FIELDS}
            part.pipeline, part.views = request.pipeline, request.views
            self.again = part
            making = Making(request) if "zodb_connection" in request.pipeline.names else None
        part.began = perf_counter()
        try:
            handler(request, response)
        except BaseException as error:
            part.ended = perf_counter()
            self.failed(part, request, error)
            raise
        else:
            part.ended = perf_counter()
            before = begun if self.left is NO_ANSWER else self.left
            status, body, filters = response.status_line, response.blocks, response.filters
            headers = response.headerlist
            if before[1] is not body or before[0] is not status or before[2] is not filters or before[3] != headers:
                self.left = status, body, filters, [*headers]
                part.answered = {**part.answered, **changed_response(before, self.left)}
        finally:
            self.part = outer
            if outer is not None:
                outer.inside += part.seconds
            if making is not None:
                self.made_of = making.end()

    def going_in(self, outer: Part | None, response: Any) -> tuple[Any, ...]:
        """Note the headers that the part outside has set before it went on. Return what stands on the response."""
        headers = response.headerlist
        if self.left is NO_ANSWER or response is not self.response:
            self.response = response
            self.left = None, None, response.filters, [*headers]
        elif self.left[3] != headers:
            before = self.left
            self.left = *before[:3], [*headers]
            if outer is not None:
                outer.answered = {**outer.answered, **changed_response(before, self.left)}
        return self.left

    def failed(self, part: Part, request: Any, error: BaseException) -> None:
        """Note that a part has raised an error: why, while the objects of the request are there."""
        part.raised = f"{type(error).__name__}: {masked_text(text_of(error))[:LONGEST]}"
        part.error = error
        self.has_failed = True
        self.left = NO_ANSWER
        if self.complete or is_worth_a_look(request, error):
            try:
                look_again(part, request)
            except Exception:  # what cannot be told must not change the answer
                logging.getLogger("pipeline").debug("the inspector could not look again", exc_info=True)

    def note(self, kind: str, text: str, seconds: float = 0.0) -> None:
        """Note a statement, an object or a line of the log, within the limits, until the request is closed."""
        if not self.closed:
            self.add(kind, text, seconds)

    def add(self, kind: str, text: str, seconds: float = 0.0) -> None:
        """Note something, also of a request that is closed."""
        counted = self.counts.get(kind, 0)
        self.counts[kind] = counted + 1
        at_work = self.part
        if kind != "log":
            self.waited += seconds
            if at_work is not None:
                at_work.waited += seconds
        if counted < MOST_NOTES:
            text = text if len(text) <= LONGEST_NOTE else f"{text[:LONGEST_NOTE]}..."
            self.notes.append(Note(kind, at_work, text, perf_counter() - self.began - seconds, seconds))

    def close(self, request: Any, response: Any) -> None:
        """Note the answer as it was sent, and forget all objects of the request."""
        self.closed = perf_counter()
        self.status = response.status_line
        self.headers = kept_headers(response.headerlist)
        self.bytes_sent = request.bytes_sent
        self.principal = request.principal
        self.kept = request.__dict__.get("kept", "")
        current.set(None)
        for part in self.parts if self.has_failed or self.attempts > 1 else ():
            part.error = None
            if part is not self.again:
                part.fields = part.pipeline = part.views = None
        if self.again is not None and self.again.fields is not None:  # a hook with a closure may keep the request
            hooks = self.again.fields["traversal_hooks"]
            plain = [hook for hook in hooks if type(hook) is FunctionType and hook.__closure__ is None]
            self.again.fields = {**self.again.fields, "traversal_hooks": tuple(plain)}
        del self.state, self.left, self.response

    def environ_at(self, part: Part) -> dict[str, str]:
        """Return the environ as a part found it, as text."""
        state = self.environ
        for one in self.parts:
            state = apply(state, one.changed)
            if one is part:
                break
        return {name: value for name, value in state.items() if name != BODY and name[:8] != "request."}


class Recorder:
    """Makes the record of one request, and counts what it does in databases."""

    def __init__(self, user: str | None = None, commit: bool = False) -> None:
        self.user = user
        self.commit = commit
        self.record: Record | None = None
        """None until a part of a pipeline sees the request."""
        self.loads = self.stores = 0
        self.changed = 0
        """Objects that were changed when a transaction ended."""
        self.statements: list[str] = []
        self._connections: list[Any] = []

    @property
    def attempts(self) -> int:
        """The number of attempts at the request."""
        return self.record.attempts if self.record is not None else 1

    def watch(self, step: Step, handler: Handler, request: Any, response: Any) -> None:
        """Call the handler of a step, and have ``Record.watch`` note what it does."""
        if self.record is None:
            self._identify(request, outermost=True)
            self.record = Record(request, complete=True)
        record = self.record
        outer = record.part
        element = outer.step.element if outer is not None else None
        if element is not None and "principal" in element.contract.provides:
            self._identify(request)
        if record.zope_walk is None and getattr(request, "zope_walk", False) is None:  # the outermost that has it
            request.zope_walk = record.zope_walk = Walk()
        try:
            record.watch(step, step.facts.walks, handler, request, response)
        finally:
            if outer is None:
                record.kept = request.__dict__.get("kept", "")
                watch_stream(response, record)

    def _identify(self, request: Any, outermost: bool = False) -> None:
        if self.user is not None:
            request.principal = self.user
            if not outermost:
                request.environ["REMOTE_USER"] = self.user.encode().decode("latin-1")

    # What a transaction manager asks of a synchronizer.

    def newTransaction(self, transaction: Any) -> None:
        """Have a transaction that can only be aborted, unless it is to be committed."""
        if not self.commit:
            transaction.doom()

    def beforeCompletion(self, transaction: Any) -> None:
        """Count the objects that were changed."""
        for connection in self._connections:
            self.changed += len(getattr(connection, "_registered_objects", ()))

    def afterCompletion(self, transaction: Any) -> None:
        """Do nothing."""

    def opened(self, request: Any, value: Any) -> None:
        """Watch a database that the request has opened."""
        manager = request.tm_in_use if request.tm_in_use is not None else value
        if not hasattr(manager, "registerSynch"):
            return
        pooled = getattr(request, "zodb_pooled", None)
        if pooled is not None and pooled.connection not in self._connections:
            self._connections.append(pooled.connection)
            pooled.connection.getTransferCounts(True)
            request.on_close(lambda: self._count(pooled.connection))
        if getattr(request, "_watched_by", None) is not manager:
            request._watched_by = manager
            manager.registerSynch(self)
            request.on_close(lambda: manager.unregisterSynch(self))

    def _count(self, connection: Any) -> None:
        loads, stores = connection.getTransferCounts(True)
        self.loads += loads
        self.stores += stores
        self._connections.remove(connection)

    def listen_to_sql(self) -> None:
        """Note each statement that SQLAlchemy executes from now on."""
        if "sqlalchemy" in sys.modules:
            engine = resolve("sqlalchemy.engine:Engine")
            listen: Callable[..., None] = resolve("sqlalchemy.event:listen")
            listen(engine, "before_cursor_execute", lambda *arguments: self.statements.append(arguments[2]))


def path_of(record: Record) -> list[Part]:
    """Return the parts that the last attempt has passed, outermost first: copies, with all that can be told."""
    last: dict[int, Part] = {}
    for part in record.parts:  # the last part that is inside of another one
        last[id(part.outer)] = part
    path: list[Part] = []
    state: Mapping[str, str] = record.environ
    states = {}
    for part in record.parts:
        states[id(part)] = state = apply(state, part.changed)
    following = last.get(id(None))
    while following is not None:
        path.append(copy(following))
        path[-1].request = states[id(following)]
        following = last.get(id(following))
    response: Mapping[str, str] = {}
    for number, part in reversed(list(enumerate(path))):
        part.inward = path[number + 1].changed if number + 1 < len(path) else {}
        part.response = response = apply(response, part.answered)
    return path


def look_again(part: Part | None, request: Any) -> None:
    """Note the look-up of the view if a part is the end of a pipeline, and the walk if it is the one that walks."""
    element = part.step.element if part is not None else None
    if part is None or element is None:
        return
    if element.is_end and request.views is not None:
        part.look, part.views = look_up(request), request.views
    elif part.fields is not None and part.walk is None:
        part.walk = walk_again(request, part.fields, element.options)


def watch_stream(response: Any, record: Record) -> None:
    """Have a streamed body watched, for the headers that are set behind its first block."""
    if type(response.app_iter) is GeneratorType:
        response.app_iter = _watched(response.app_iter, response, record)


def _watched(body: Any, response: Any, record: Record) -> Iterator[bytes]:
    sent: list[tuple[str, str]] | None = None
    try:
        for block in body:
            yield block
            if sent is None:
                sent = [*response.headerlist]
    finally:
        body.close()
        late = [pair for pair in response.headerlist if sent is not None and pair not in sent]
        record.late_headers = [header_key(*pair) for pair in late]


def is_worth_a_look(request: Any, error: BaseException) -> bool:
    """Return whether an error is worth telling: it becomes the answer, and it is not a redirect."""
    if not isinstance(error, Exception) or (request.attempts_left and request.judge(error).transient):
        return False
    return not isinstance(error, HTTPException) or is_error(error)


def is_error(error: BaseException) -> bool:
    """Return whether an HTTP exception is an error, and not a redirect."""
    return isinstance(error, WSGIHTTPException) and error.status_int >= 400
