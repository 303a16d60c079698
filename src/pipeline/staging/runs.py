"""One run of one request: the points that it passes, the fault that it meets there, and what is left of it.

A point is a place at which something can fail: the enter and the exit of each part and of the view, each call of
a data manager, each read of a storage, each statement, ``start_response``, each block, ``on_close``. A plan says
what happens at which point.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from traceback import walk_stack
from types import FrameType
from typing import Any, NamedTuple
from unittest import mock

from ZODB.POSException import ConflictError

from pipeline.interfaces import Unavailable
from pipeline.telling.words import is_of_the_site

Plan = Mapping[str, str]
"""The kind of the fault by point. The points of a name are numbered: ``load``, ``load#2``, and so on."""

SINCE = ", since "
"""Stands before the exception in the words of an answer."""
_local = threading.local()


class Gone(BaseException):
    """The client is gone."""


class Hangs(BaseException):
    """A request has not come to its end."""


FAULTS: dict[str, Callable[[str], BaseException]] = {
    "conflict": ConflictError,
    "error": lambda what: OSError(5, what),
    "exit": SystemExit,  # a server raises it in a thread that has to end
    "unavailable": Unavailable,
    "gone": Gone,
}
"""The kinds of faults. ``(text)`` makes the exception."""
AT_MOST = {"start_response": ("error", "exit"), "block": ("gone",), "on_close": ("error", "exit")}
"""The kinds at points where a server or a function for the close of a request can fail."""
ANYWHERE = ("conflict", "error", "exit", "unavailable")
"""Those at all other points."""


class Hit(NamedTuple):
    """A fault that a request has met."""

    kind: str
    point: str
    where: str
    """The part and its place in the ini, or the line of the site that was at work."""

    def __str__(self) -> str:
        return f"{self.kind}@{self.point}"


class Joined:
    """A data manager in a transaction, whose calls are points."""

    STEPS = ("tpc_begin", "commit", "tpc_vote", "tpc_finish", "tpc_abort", "abort")

    def __init__(self, resource: Any, run: Run) -> None:
        self.__dict__.update(resource=resource, run=run, told=set())

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.resource, name)
        return partial(self._step, name, found) if name in self.STEPS else found

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.resource, name, value)

    def _step(self, name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        who = type(self.resource).__name__
        self.told.add(name)
        if "abort" not in name:  # an abort that fails has let go of its locks
            point(f"{who}.{name}:before")
        result = call(*arguments)
        if name == "tpc_finish" and getattr(self.resource, "state", "") != "no work":
            self.run.finished.append(who)
        point(f"{who}.{name}:after")
        return result

    @property
    def has_ended(self) -> bool:
        """True if the data manager was told the end of the transaction: an ``abort`` does not end a commit."""
        ends = {"tpc_finish", "tpc_abort"} if "tpc_begin" in self.told else {"abort", "tpc_abort"}
        return not ends.isdisjoint(self.told)


class Run:
    """One run of one request."""

    def __init__(self, plan: Plan | None = None, gate: Callable[[str], None] | None = None) -> None:
        self.plan = dict(plan or {})
        self.gate = gate
        """Called at each point, so that two runs can be interleaved; None if no other one runs."""
        self.trace: list[str] = []
        """The points that were passed."""
        self.hits: list[Hit] = []
        self.joined: list[Joined] = []
        self.finished: list[str] = []
        """The names of the data managers that have stored."""
        self.finished_before_start: int | None = None
        """How many had stored when ``start_response`` was called."""
        self.closers = [0, 0]
        """The functions for the close of the request: registered, and called."""
        self.bodies: list[Any] = []
        """The bodies that views have returned, but for lists."""
        self.views: list[Any] = []
        """The views that were called."""
        self.reached = ""
        """The place of the innermost part that was reached, such as a mounted application."""
        self.returns_none = False
        """True if the last of them has returned None."""
        self.owners: set[str] = set()
        """The users to whom the objects of these views belong, as their declarations say (``belongs_to``)."""
        self.effects: list[str] = []
        """Effects outside of the databases, from before they were told to store."""
        self.hangs = ""
        """The line of the site that was at work after LONGEST seconds, or ""."""
        self.commits_errors = False
        self.status: int | None = None
        """The status that the server got; None if it got none."""
        self.headers: list[tuple[str, str]] = []
        self.body = b""
        self.escaped: BaseException | None = None
        """The exception that the server got in the place of the rest of the answer, or ``Gone``."""
        self.raised = ""
        """The exception that a part of the pipeline has raised last without a fault, and the line of the site."""
        self.keeps_request = False
        self.user: str | None = None
        self.depth = 0
        """How many parts of the pipeline are at work."""
        self.identify = False
        """True if the next part is to see the user."""
        self.seen: Counter[str] = Counter()
        """How often a point of each name was passed."""

    @property
    def is_error(self) -> bool:
        """True if the server got an error of the site, or no answer at all."""
        return self.status is None or self.status >= 500

    @property
    def answer(self) -> str:
        """The status in words, with the reason of an error of the site."""
        told = str(self.status or type(self.escaped).__name__)
        return f"{told}{SINCE}{self.raised}" if self.is_error and self.raised else told

    @property
    def answered_by(self) -> str:
        """The view that was asked, or the innermost part that was."""
        return str(self.views[0]) if self.views else self.reached

    def let_go(self) -> None:
        """Let go of what a server would have let go of: its locks and files end with it."""
        self.joined.clear()
        self.bodies.clear()
        self.escaped = None if self.escaped is None else self.escaped.with_traceback(None)

    def header(self, name: str) -> str:
        """Return the value of the first header of a name, or ""."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")

    @property
    def cookies(self) -> str:
        """Those that it sets, as a browser sends them."""
        sets = (value.partition(";")[0] for name, value in self.headers if name.lower() == "set-cookie")
        return "; ".join(one for one in sets if one.partition("=")[2].strip('"'))

    @property
    def outcome(self) -> str:
        """The value of ``X-Outcome``."""
        return self.header("X-Outcome")

    @property
    def is_acknowledged(self) -> bool:
        """True if the visitor must believe that the request has done what it asked for."""
        return self.status is not None and self.status < 400 and self.escaped is None


def point(name: str, where: str = "", kinds: Mapping[str, Callable[[str], BaseException]] = {}) -> None:
    """Pass a point of the run of this thread, and raise what its plan has for it.

    kinds  exceptions that differ from FAULTS there, such as those of a driver
    """
    run = running()
    if run is None:
        return
    if run.gate is not None:
        run.gate(name)
    run.seen[name] += 1
    numbered = name if run.seen[name] == 1 else f"{name}#{run.seen[name]}"
    run.trace.append(numbered)
    if kind := run.plan.get(numbered):
        run.hits.append(Hit(kind, numbered, where or place()))
        if kind == "crash":
            os._exit(0)
        raise kinds.get(kind, FAULTS[kind])(f"prove: {kind} at {numbered}")


def running() -> Run | None:
    """Return the run of this thread, or None."""
    return getattr(_local, "run", None)


def started(run: Run | None) -> AbstractContextManager[object]:
    """Have a run be that of this thread."""
    return mock.patch.object(_local, "run", run, create=True)


def joining(resource: Any) -> Any:
    """Return what joins a transaction in the place of a data manager."""
    run = running()
    if run is None or isinstance(resource, Joined):
        return resource
    if not type(resource).__module__.startswith("zope.sqlalchemy"):  # only a transaction that has failed refuses it
        point(f"{type(resource).__name__}.join")
    joined = Joined(resource, run)
    run.joined.append(joined)
    return joined


LONGEST = 20.0
"""Seconds after which a request hangs."""
LOOK = 1.0
"""Seconds between two looks at a request that is at work."""


class Patience:
    """Counts the seconds of something that may hang. Those in which a thread of this process waits for a processor
    do not count: on a busy machine others have it."""

    def __init__(self) -> None:
        self.spent, self.last, self.waits = 0.0, time.monotonic(), waits()

    def is_over(self) -> bool:
        """Return whether LONGEST seconds are over. It is to be asked at least every few seconds."""
        last, before = self.last, self.waits
        self.last, self.waits = time.monotonic(), waits()
        waited = max((now - before.get(thread, 0.0) for thread, now in self.waits.items()), default=0.0)
        self.spent += max(0.0, self.last - last - waited)
        return self.spent >= LONGEST


def waits() -> dict[str, float]:
    """Return the seconds that each thread of this process has waited for a processor, where the system tells it."""
    found = {}
    for file in Path("/proc/self/task").glob("*/schedstat"):  # of Linux
        with suppress(OSError):  # the thread has just ended
            found[file.parent.name] = int(file.read_text().split()[1]) / 1e9
    return found


@contextmanager
def watched(run: Run, request: str) -> Iterator[None]:
    """End a request that hangs. Print the request and the stack: a loop, a lock or a regular expression (S12)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def strike(number: int, frame: FrameType | None) -> None:
        if not patience.is_over():
            return
        if not run.hangs:
            run.hangs = place(frame) or "code of a library"
            said = "".join(traceback.format_stack(frame, limit=12))
            print(f"\n{request[:300]} has not answered after {LONGEST:.0f} s:\n{said}", file=sys.stderr, flush=True)
        raise Hangs

    patience = Patience()
    before, began = signal.signal(signal.SIGALRM, strike), time.monotonic()
    left, each = signal.setitimer(signal.ITIMER_REAL, LOOK, LOOK)  # again, for code that swallows any exception
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:  # the timer is also that of the caller, such as a runner of tests
            signal.setitimer(signal.ITIMER_REAL, max(left + began - time.monotonic(), 1e-6), each)


SLEEP = time.sleep
"""That of Python, while ``sleep`` stands in its place."""


def sleep(seconds: float) -> None:
    """Let no time pass, in the place of ``time.sleep``. A request that would sleep for too long hangs."""
    run = running()
    if run is None:  # a thread of the site that sleeps in a loop leaves the others their turn
        SLEEP(min(seconds, 0.001))
    elif seconds >= LONGEST:
        run.hangs = place() or "code of a library"
        raise Hangs


def place(begin: FrameType | None = None) -> str:
    """Return ``file, line N`` of the line of the site that is at work in this thread, or ""."""
    for frame, line in walk_stack(begin or sys._getframe(1)):
        if frame.f_globals.get("__name__") == "pipeline.proving.command":  # a script may have called it
            break
        if is_of_the_site(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}, line {line}"
    return ""
