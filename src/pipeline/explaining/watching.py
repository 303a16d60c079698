"""Watching one request: what each part of the pipeline was given, what it did, and how long it took.

``Recorder.watch`` is linked in outside each part (``pipeline.loading.building``). A recorder watches one request at
a time. Traversal and the look-up of the view are explained when they are over, by running again
(``pipeline.explaining.walking``, ``pipeline.explaining.candidates``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pipeline.explaining.candidates import Look, look_up
from pipeline.explaining.noticed import BODY, bytes_read, header_key, watch_stream
from pipeline.explaining.walking import Walk, walk_again, walked_fields
from pipeline.http.noting import unnoted
from pipeline.interfaces import Handler
from pipeline.options import on_demand, resolve
from pipeline.paste import Step
from pipeline.telling.words import short

State = Mapping[str, str]

if TYPE_CHECKING:
    from pipeline.explaining.made_of import MadeOf, Making
else:  # only a site with a ZODB has its packages
    Making = on_demand("pipeline.explaining.made_of:Making")

TOLD = ("context", "view_name", "virtual_root_path")
"""The fields of the core that tell a reader something."""
UNTOLD = {
    *("zodb_pooled", "zodb_slot", "zodb_asked", "zope_walk", "zope_watcher", "ways", "asked", "logged"),
    "closers_before",
}
"""The attributes that elements add for themselves."""


class Visit:
    """One part of the pipeline at work for one attempt at the request."""

    def __init__(self, step: Step, request: Any, response: Any) -> None:
        self.step = step
        self.request = state_of_request(request)
        self.begun = self.response = state_of_response(response)
        """The response as it was at first, and as it was left."""
        self.fields = walked_fields(request) if is_traverse(step) else {}
        self.inner: list[Visit] = []
        self.error: BaseException | None = None
        self.walk: Walk | None = None
        self.look: Look | None = None
        self.views: Any = None
        self.seconds = 0.0
        """Time within the part and all that is inside of it."""
        self.outside = 0.0
        """Time that watching the inner parts took, with these parts."""

    @property
    def name(self) -> str:
        """The name of the element, or of the foreign middleware."""
        return str(self.step)

    @property
    def own(self) -> float:
        """Seconds that the part itself took."""
        return max(0.0, self.seconds - self.outside)

    def changed(self) -> dict[str, str]:
        """Return what the part changed on the request on its way in."""
        return changes(self.request, self.inner[0].request) if self.inner else {}

    def answered(self) -> dict[str, str]:
        """Return what the part changed on the response, on its way in and out."""
        if self.error is not None:
            return {}
        inner = self.inner[-1] if self.inner else None
        before = inner.response if inner is not None and inner.error is None else self.begun
        set_first = changes(self.begun, inner.begun) if inner is not None and inner.error is None else {}
        return {**set_first, **changes(before, self.response)}


class Recorder:
    """Watches one request."""

    def __init__(self, user: str | None = None, commit: bool = False) -> None:
        self.user = user
        self.commit = commit
        self.visits: list[Visit] = []
        """The outermost part; more than one if the request was given to the pipeline more than once."""
        self.attempts = 1
        self.loads = self.stores = 0
        self.changed = 0
        """Objects that were changed when a transaction ended."""
        self.statements: list[str] = []
        self.late_headers: list[str] = []
        """Headers that were set when the body had begun to be sent."""
        self.made_of: MadeOf | None = None
        self.kept = ""
        """How the answer was made, if an element keeps pages."""
        self._stack: list[Visit] = []
        self._connections: list[Any] = []

    def watch(self, step: Step, handler: Handler, request: Any, response: Any) -> None:
        """Call the handler of a step, and note what it does."""
        began = perf_counter()
        outer = self._stack[-1] if self._stack else None
        if outer is None:
            self._identify(request, outermost=True)
        elif outer.step.element is not None:
            if "principal" in outer.step.element.contract.provides:
                self._identify(request)
            if outer.fields and not outer.inner:
                outer.walk = walk_again(request, outer.fields, outer.step.element.options)
        visit = Visit(step, request, response)
        (self.visits if outer is None else outer.inner).append(visit)
        if step.element is not None and step.element.is_end and request.views is not None:
            visit.look = look_up(request)
            visit.views = request.views
        self._stack.append(visit)
        if getattr(request, "zope_walk", visit) is None:  # the outermost part whose request has this attribute
            request.zope_walk = visit.walk = Walk()
        making = Making(request) if visit.fields and has_zodb(request) else None
        started = perf_counter()
        try:
            handler(request, response)
        except BaseException as error:
            visit.error = error
            raise
        finally:
            ended = perf_counter()
            self._stack.pop()
            self.made_of = self.made_of if making is None else making.end()
            self.attempts = max(self.attempts, getattr(request, "attempt", 1))
            if visit.error is not None and visit.fields and not visit.inner and step.element is not None:
                visit.walk = walk_again(request, visit.fields, step.element.options)
            visit.response = state_of_response(response)
            visit.seconds = ended - started
            if outer is not None:
                outer.outside += perf_counter() - began
            else:
                self.kept = request.__dict__.get("kept", "")
                watch_stream(response, self.late_headers.extend)

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
        if not hasattr(manager, "registerSynch") or manager in self._connections:
            return
        kept = getattr(request, "zodb_pooled", None)
        if kept is not None and kept.connection not in self._connections:
            self._connections.append(kept.connection)
            kept.connection.getTransferCounts(True)
            request.on_close(lambda: self._count(kept.connection))
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


def has_zodb(request: Any) -> bool:
    """Return whether the pipeline of a request has an object database."""
    return "zodb_connection" in request.pipeline.names


def is_traverse(step: Step) -> bool:
    """Return whether a step walks the path."""
    return step.facts.walks


def state_of_request(request: Any) -> State:
    """Return what stands on a request, as text."""
    state = {name: getattr(request, name) for name in TOLD}
    state |= {name: value for name, value in request.__dict__.items() if name not in UNTOLD and name[:1] != "_"}
    told = {f"request.{name}": short(value) for name, value in state.items()}
    for key, value in unnoted(request.environ).items():
        if not key.startswith(("pipeline.", "webob.", "wsgi.errors")):
            told[f"environ[{key!r}]"] = short(value)
    if read := bytes_read(request):
        told[BODY] = f"{read} bytes read"
    return told


def state_of_response(response: Any) -> State:
    """Return what stands on a response, as text."""
    body = response.blocks
    state = {"status": response.status, "filters": ", ".join(_called(one) for one in response.filters)}
    if response.delivery_filters:
        state["encodings"] = ", ".join(_called(one) for one, _ in response.delivery_filters)
    state["body"] = f"{sum(map(len, body))} bytes" if response.in_memory else type(body).__name__
    for name, value in response.headerlist:
        key = f"header {header_key(name, value)}"
        state[key] = f"{state[key]}, {short(value)}" if key in state else short(value)
    return state


def _called(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)


def changes(before: State, after: State) -> dict[str, str]:
    """Return what is new or different, and as "(gone)" what is no longer there."""
    new = {name: value for name, value in after.items() if before.get(name) != value}
    return new | {name: "(gone)" for name in before if name not in after}
