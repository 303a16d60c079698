"""For the tests of what is built on this: a data manager and an element that fail when they are told to, and
the ledger by which loss is judged.

::

    app = Pipeline(retry(), transaction(), fault(error=ConflictError, at="exit", times=2), publisher(...))

    stored = []
    FakeDataManager(request.tm, stored, "a value", fails={"tpc_vote": ConflictError}).join()

    ledger = Ledger()
    id = ledger.send()
    answer = requests.post(url, params={"id": id})
    ledger.answered(id, answer.status_code, answer.headers.get("X-Outcome", ""))
    assert ledger.judge(ids_in_the_database) == []
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Any, Literal
from uuid import uuid4

from transaction import TransactionManager
from transaction.interfaces import IDataManager
from zope.interface import implementer

from pipeline.composition import element
from pipeline.interfaces import Handler
from pipeline.request import Request
from pipeline.response import Response

Fault = BaseException | Callable[[], BaseException]
"""An exception, or a class or function that makes one."""

STEPS = ("join", "tpc_begin", "commit", "tpc_vote", "tpc_finish", "tpc_abort", "abort")
"""Where a data manager can fail, in the order of a commit; the last two are those of giving up."""


def _raise(fault: Fault) -> None:
    raise fault if isinstance(fault, BaseException) else fault()


@implementer(IDataManager)
class FakeDataManager:
    """A data manager that adds a value to a list when its transaction is committed, or fails on the way.

    tm      the transaction manager, ``request.tm``
    stored  the list that stands for the database
    value   what is added to it
    fails   by step (one of STEPS) what is raised there
    key     its place among other data managers: they vote and finish in the order of their keys
    retry   what it says of an error when it is asked whether a new attempt is worthwhile

    ``steps`` are those that were taken, the failed one included.
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
            raise ValueError(f"{', '.join(sorted(unknown))}: no such step; there are {', '.join(STEPS)}")
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

    error  what is raised: an exception, or the dotted name of its class
    at     enter: in place of what is inside; exit: when that has answered; close: when the request is closed
    times  how often, and never after that; 0 is always
    when   dotted name of ``(request) -> bool``: for which requests
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


class Ledger:
    """What became of every write, as its client saw it; and whether the database agrees.

    Every write carries an id of its own, which is stored with it. It is entered as sent before it is sent,
    and as acknowledged, failed or unknown when the client knows; what stays sent counts as unknown.
    """

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        """By id: sent, acknowledged, failed or unknown."""

    def send(self) -> str:
        """A new id, entered as sent."""
        id = uuid4().hex
        self.sent(id)
        return id

    def sent(self, id: str) -> None:
        if id in self.states:
            raise ValueError(f"{id} was sent before: a write that is sent again is another one")
        self.states[id] = "sent"

    def acknowledged(self, id: str) -> None:
        """The client was told that it is stored."""
        self._enter(id, "acknowledged")

    def failed(self, id: str) -> None:
        """The client was told that it is not stored."""
        self._enter(id, "failed")

    def unknown(self, id: str) -> None:
        """The client was told nothing, or that nobody knows."""
        self._enter(id, "unknown")

    def answered(self, id: str, status: int, outcome: str = "") -> None:
        """Enter what an answer says: its status, and its header ``X-Outcome`` if it has one.

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
        """How many writes are in each state."""
        return Counter(self.states.values())

    def judge(self, stored: Mapping[str, int] | Iterable[str]) -> list[str]:
        """What is wrong with what is stored; nothing, if nothing was lost.

        stored  the ids found in the database: each as often as it is there, or how often by id
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
