"""Jobs: work that is stored with the changes that it belongs to, and done after the answer by ``pipeline work``.

    @job
    def make_small(request, name):
        ...

    make_small.later(request, "sea")    # in a view: stored when the request is, or not at all

The queue is in the database of the site: in the root of a ZODB, or in the table ``pipeline_jobs`` of ``sql``. A
worker takes a job out of the queue and does it in one transaction. So what a job changes in this database is stored
once, whatever is killed and whenever. What it does outside of the database may be done again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import update_wrapper
from inspect import signature
from typing import Any, Concatenate, Generic, ParamSpec, Protocol

from pipeline.declared import runs_nothing
from pipeline.interfaces import ConfigurationError
from pipeline.options import resolve
from pipeline.request import Request, on_first_use

Parameters = ParamSpec("Parameters")
TRIES = 8
"""Times that a job is tried, before it waits for a person."""
FIRST_WAIT, LONGEST_WAIT = 10.0, 3600.0
"""Seconds until a job that has failed is tried again; each time twice as long, up to the longest."""


class JobRequest(Request):
    """The attribute that an element of a database adds, if jobs can be stored there."""

    job_queue: Queue = on_first_use(dropped=True)
    """The stored jobs, in the transaction of the request: in the database of the outermost element that has one."""


class Job(Generic[Parameters]):
    """A function ``(request, *arguments)`` that a worker can do later; called, it is that function."""

    def __init__(self, function: Callable[Concatenate[Any, Parameters], object]) -> None:
        self.function = function
        self.name = f"{function.__module__}:{function.__qualname__}"
        self.signature = signature(function)
        update_wrapper(self, function)

    def __call__(self, request: Any, *given: Parameters.args, **named: Parameters.kwargs) -> object:
        return self.function(request, *given, **named)

    def later(self, request: Any, *given: Parameters.args, **named: Parameters.kwargs) -> None:
        """Store a call of the job, in the transaction of the request.

        The arguments are stored as JSON, so they are texts, numbers, None, lists and dicts: names of objects, and
        not objects. Raises TypeError for others, and for those with which the function cannot be called, and
        AttributeError in a pipeline without a database.
        """
        try:
            self.signature.bind(request, *given, **named)
        except TypeError as error:
            raise TypeError(f"the job {self.name} could not be done: {error}") from None
        text = json.dumps([given, named])
        if json.loads(text) != [list(given), named]:
            raise TypeError(f"the arguments of the job {self.name} change on their way through JSON: {text:.200}")
        request.job_queue.add(Stored(0, self.name, text, time.time()))


def job(function: Callable[Concatenate[Any, Parameters], object]) -> Job[Parameters]:
    """Make a job of a function of a module. It is found again by its module and name, so keep both."""
    if "<locals>" in function.__qualname__:
        raise ConfigurationError(f"job {function.__qualname__} is a local function, which no worker finds again")
    if reason := runs_nothing(function):
        raise ConfigurationError(f"job {function.__qualname__} {reason}")
    return Job(function)


@dataclass(frozen=True)
class Stored:
    """A job in the queue."""

    id: int
    name: str
    """``module:function``."""
    arguments: str
    """A JSON list: the positional arguments, and those by name."""
    due: float | None
    """Seconds since the epoch; None if it has failed so often that it waits for a person."""
    failed: int = 0
    error: str = ""
    """The class of the last error. Its text may have values of a visitor, so only the log has it (S25)."""

    def run(self, request: Any) -> None:
        """Call the function. Raise ConfigurationError if the name does not lead to a job any more."""
        try:
            found = resolve(self.name)
        except (ImportError, AttributeError, ValueError) as error:
            raise ConfigurationError(f"the job {self.name} cannot be found: {error}") from error
        if not isinstance(found, Job):
            raise ConfigurationError(f"{self.name} is not a job: write @job above it")
        given, named = json.loads(self.arguments)
        found.function(request, *given, **named)

    def after(self, error: BaseException) -> Stored:
        """Return the job as it waits after an error."""
        failed = self.failed + 1
        wait = min(FIRST_WAIT * 2 ** (failed - 1), LONGEST_WAIT)
        due = None if failed >= TRIES else time.time() + wait
        return replace(self, failed=failed, due=due, error=type(error).__name__)


class Queue(Protocol):
    """``request.job_queue``: the stored jobs, in the transaction of the request."""

    refusal: str
    """Reason why no worker can store anything, or ""."""

    def create(self) -> None:
        """Make what the queue is stored in, unless it is there."""

    def add(self, stored: Stored) -> None:
        """Store a job, by a new id if it has none."""

    def due(self, now: float, most: int) -> list[int]:
        """Return the ids of jobs that may be done now, the oldest first."""

    def take(self, id: int) -> Stored | None:
        """Take a job out of the queue. Return None if another worker has it."""

    def all(self) -> Iterator[Stored]:
        """Yield the jobs, also those that wait."""
