"""The test kit, for tests of applications and elements.

``FakeDataManager`` and the element ``fault`` fail where a test wants it. The element ``guard_environ`` finds the
element that changes the environ in place. ``Ledger`` tells whether a write was lost::

    app = Pipeline(retry(), transaction(), fault(error=ConflictError, at="exit", times=2), publisher(...))

    stored = []
    FakeDataManager(request.tm, stored, "a value", fails={"tpc_vote": ConflictError}).join()

    ledger = Ledger()
    id = ledger.send()
    answer = requests.post(url, params={"id": id})
    ledger.answered(id, answer.status_code, answer.headers.get("X-Outcome", ""))
    assert ledger.judge(ids_in_the_database) == []

    app = Pipeline(retry(), guard_environ(), my_element(), publisher(...))
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from threading import Lock
from types import FrameType
from typing import Any, Literal
from uuid import uuid4
from weakref import WeakKeyDictionary

from transaction import TransactionManager
from transaction.interfaces import IDataManager
from zope.interface import implementer

from pipeline.composition import element
from pipeline.elements.retry import RetryRequest
from pipeline.interfaces import Handler
from pipeline.request import Request
from pipeline.response import Response

Fault = BaseException | Callable[[], BaseException]
"""An exception, or a class or function that makes one."""

STEPS = ("join", "tpc_begin", "commit", "tpc_vote", "tpc_finish", "tpc_abort", "abort")
"""The steps at which a data manager can fail, in the order of a commit. The last two belong to an abort."""


def _raise(fault: Fault) -> None:
    raise fault if isinstance(fault, BaseException) else fault()


@implementer(IDataManager)
class FakeDataManager:
    """A data manager that adds a value to a list when its transaction is committed, or fails before.

    tm      the transaction manager, ``request.tm``
    stored  the list that stands for the database
    value   the value that is added to the list
    fails   the exception to raise, by step (one of STEPS)
    key     its place among other data managers, which vote and finish in the order of their keys
    retry   its answer to the question whether an error is worth a new attempt

    ``steps`` has the steps that were taken, with the one that failed.
    """

    def __init__(
        self,
        tm: TransactionManager,
        stored: list[Any] | None = None,
        value: Any = None,
        *,
        fails: Mapping[str, Fault] | None = None,
        key: str = "fake",
        retry: bool = False,
    ) -> None:
        unknown = set(fails or ()).difference(STEPS)
        if unknown:
            raise ValueError(f"{', '.join(sorted(unknown))}: not a step; the steps are {', '.join(STEPS)}")
        self.transaction_manager = tm
        self.stored = [] if stored is None else stored
        self.value = value
        self.fails = dict(fails or ())
        self.key = key
        self.retry = retry
        self.steps: list[str] = []

    def join(self) -> FakeDataManager:
        """Join the transaction of the manager."""
        self._step("join")
        self.transaction_manager.get().join(self)
        return self

    def abort(self, transaction: Any) -> None:
        self._step("abort")

    def tpc_begin(self, transaction: Any) -> None:
        self._step("tpc_begin")

    def commit(self, transaction: Any) -> None:
        self._step("commit")

    def tpc_vote(self, transaction: Any) -> None:
        self._step("tpc_vote")

    def tpc_finish(self, transaction: Any) -> None:
        self._step("tpc_finish")
        self.stored.append(self.value)

    def tpc_abort(self, transaction: Any) -> None:
        self._step("tpc_abort")

    def sortKey(self) -> str:
        return self.key

    def should_retry(self, error: Exception) -> bool:
        return self.retry

    def _step(self, name: str) -> None:
        self.steps.append(name)
        if name in self.fails:
            _raise(self.fails[name])


@element
def fault(
    next: Handler,
    *,
    error: Fault,
    at: Literal["enter", "exit", "close"] = "enter",
    times: int = 0,
    when: Callable[[Request], bool] | None = None,
) -> Handler:
    """Raise an exception where this element stands.

    error  the exception, or the dotted name of its class
    at     enter: in place of calling the inner elements; exit: after they have answered; close: when the request is
           closed
    times  how often the exception is raised; 0 means always
    when   dotted name of ``(request) -> bool``, which chooses the requests; default: all
    """
    lock = Lock()
    raised = 0

    def is_due(request: Request) -> bool:
        nonlocal raised
        if when is not None and not when(request):
            return False
        with lock:
            raised += 1
            return not times or raised <= times

    def fault(request: Request, response: Response) -> None:
        due = is_due(request)
        if due and at == "enter":
            _raise(error)
        if due and at == "close":
            request.on_close(lambda: _raise(error))
        next(request, response)
        if due and at == "exit":
            _raise(error)

    return fault


class EnvironChanged(Exception):
    """A further attempt would start with another environ than the first."""


@element(inside={"retry": "it compares each attempt with the first"})
def guard_environ(next: Handler) -> Handler:
    """Find the element that makes a further attempt start with another environ than the first.

    Put it directly inside ``retry`` in a test. ``retry`` puts the environ back between two attempts, but not a
    change inside one of its values, such as an append to a list. EnvironChanged names the key and the element or
    view that changed the value. Slow: it uses the profiler of Python.
    """
    watches: WeakKeyDictionary[Request, EnvironWatch] = WeakKeyDictionary()

    def guard_environ(request: RetryRequest, response: Response) -> None:
        watch = watches.get(request)
        if watch is None:
            watch = watches[request] = EnvironWatch(request.environ)
        watch.call(next, request, response)

    return guard_environ


class EnvironWatch:
    """Finds the handler that changes a value of the environ in place.

    The environ is compared whenever a handler is entered or left. The handler that was entered last is blamed for a
    change since the comparison before. The watch keeps no reference to the environ, which refers to the request.
    """

    def __init__(self, environ: dict[str, Any]) -> None:
        self.first = self.last = _frozen(environ)
        self.inside: list[str] = ["retry"]
        self.blamed: dict[str, str] = {}
        self.seen: list[str] = []

    def call(self, next: Handler, request: RetryRequest, response: Response) -> None:
        """Call the next handler. Raise EnvironChanged if the environ is not that of the first attempt."""
        environ = request.environ
        now = _frozen(environ)
        for key in _changes(self.first, now):
            raise EnvironChanged(
                f"attempt {request.attempt} would start with another environ than the first: {key!r} was "
                f"changed in place by {self.blamed.get(key, 'an unknown caller')}, one of {', '.join(self.seen)}; "
                f"it is now {environ.get(key)!r:.200}"
            )
        self.last = now
        before = sys.getprofile()
        sys.setprofile(partial(self._profile, environ))
        try:
            next(request, response)
        finally:
            sys.setprofile(before)

    def _profile(self, environ: dict[str, Any], frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_varnames[code.co_argcount - 2 : code.co_argcount] != ("request", "response"):
            return
        if event in ("call", "return"):
            now = _frozen(environ)
            for key in _changes(self.last, now):
                self.blamed[key] = self.inside[-1]
            self.last = now
        if event == "call":
            self.inside.append(code.co_name)
            if code.co_name not in self.seen:
                self.seen.append(code.co_name)
        elif event == "return":
            self.inside.pop()


def _frozen(value: Any, depth: int = 5) -> Any:
    """Return an object that is equal only while ``value`` is unchanged. Other objects count by their identity."""
    if isinstance(value, dict) and depth:
        return {key: _frozen(value[key], depth - 1) for key in list(value)}
    if isinstance(value, (list, tuple)) and depth:
        return [_frozen(item, depth - 1) for item in value]
    if isinstance(value, (set, bytearray)):
        return type(value)(value)
    return value if isinstance(value, (str, bytes, int, float)) else id(value)


def _changes(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """Yield the keys by which two frozen environs differ. Each attempt has another reader for the body."""
    for key in [*before, *(key for key in after if key not in before)]:
        if key != "wsgi.input" and before.get(key, KeyError) != after.get(key, KeyError):
            yield key


class Ledger:
    """The outcome of every write, as its client saw it, to compare with the database.

    Every write carries an id of its own, which is stored with it. The client enters the write as sent before it
    sends it, and later as acknowledged, failed or unknown. A write that stays sent counts as unknown.
    """

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        """The state by id: sent, acknowledged, failed or unknown."""

    def send(self) -> str:
        """Enter a new write as sent, and return its id."""
        id = uuid4().hex
        self.sent(id)
        return id

    def sent(self, id: str) -> None:
        if id in self.states:
            raise ValueError(f"{id} was sent before: a write that is sent again needs a new id")
        self.states[id] = "sent"

    def acknowledged(self, id: str) -> None:
        """Enter that the client was told that the write is stored."""
        self._enter(id, "acknowledged")

    def failed(self, id: str) -> None:
        """Enter that the client was told that the write is not stored."""
        self._enter(id, "failed")

    def unknown(self, id: str) -> None:
        """Enter that the client got no answer, or one that says that the outcome is unknown."""
        self._enter(id, "unknown")

    def answered(self, id: str, status: int, outcome: str = "") -> None:
        """Enter the outcome that an answer tells by its status and its header ``X-Outcome``.

        A status of 0 is a connection that was cut, or that ended before the answer did.
        """
        if outcome == "unknown" or not status:
            self.unknown(id)
        elif outcome == "committed" or status < 400:
            self.acknowledged(id)
        else:
            self.failed(id)

    def _enter(self, id: str, state: str) -> None:
        before = self.states.get(id, "never sent")
        if before != "sent":
            raise ValueError(f"{id} is {state}, but it was {before}")
        self.states[id] = state

    def counts(self) -> Counter[str]:
        """Return the number of writes in each state."""
        return Counter(self.states.values())

    def judge(self, stored: Mapping[str, int] | Iterable[str]) -> list[str]:
        """Return a line for each write whose state does not match the database. Empty if nothing was lost.

        stored  the ids in the database: a list in which an id is repeated if it is stored repeatedly, or the counts
                by id
        """
        times = Counter(stored) if not isinstance(stored, Mapping) else stored
        problems = []
        for id, state in self.states.items():
            found = times.get(id, 0)
            if state == "acknowledged" and not found:
                problems.append(f"{id} was acknowledged and is not stored")
            if state == "failed" and found:
                problems.append(f"{id} failed and is stored")
            if found > 1:
                problems.append(f"{id}, {state}, is stored {found} times")
        strange = (id for id in times if times[id] and id not in self.states)
        problems += [f"{id} was never sent and is stored" for id in strange]
        return problems
