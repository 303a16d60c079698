"""Parts that fail where a test wants it: a data manager, and an element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Literal

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
