"""The rules for a run that meets faults. A rule is a function of a ``Record``, which yields one sentence for each
way in which the run breaks it.

Others are added by an entry point of the group ``wsgi_pipeline.rules``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import entry_points
from typing import NamedTuple

from pipeline.database import pools
from pipeline.staging.copies import Stored
from pipeline.staging.runs import LONGEST, Run


class Record(NamedTuple):
    """One run, and what it has left."""

    run: Run
    stored: Stored
    memory: tuple[str, ...]
    """Differences between the memory of the connections and the databases."""
    whole: Stored
    """The same for a run without a fault."""
    status: int | None
    """Its status without a fault."""


Rule = Callable[[Record], Iterator[str]]


def nothing_twice(record: Record) -> Iterator[str]:
    """R2: a request is stored once."""
    transactions, whole = len(record.stored.transactions), len(record.whole.transactions)
    if transactions > whole:
        yield f"R2: {transactions} transactions are stored, and {whole} without a fault"


def all_or_nothing(record: Record) -> Iterator[str]:
    """R3: all that a request changes is stored, or nothing of it."""
    if record.stored != record.whole and not record.stored.is_nothing and record.run.outcome != "unknown":
        yield "R3: a part is stored"


def failed_is_not_stored(record: Record) -> Iterator[str]:
    """R3: a request that fails before its commit stores nothing."""
    run = record.run
    if run.hits and not run.is_acknowledged and not run.commits_errors and not record.stored.is_nothing:
        before = run.trace[: run.trace.index(run.hits[-1].point)]
        if not any(".tpc_begin:" in point for point in before):
            yield "R3: it failed before the commit, and is stored"


def acknowledged_is_stored(record: Record) -> Iterator[str]:
    """R1: what was acknowledged is stored, before the first byte of the answer."""
    run = record.run
    if run.is_acknowledged and record.stored != record.whole:
        yield f"R1: it is answered {run.status}, and not stored"
    if run.finished_before_start is not None and len(run.finished) > run.finished_before_start:
        yield "R1: it is stored after the first byte of the answer"


def refused_is_not_stored(record: Record) -> Iterator[str]:
    """R4: an error says that nothing is stored, unless it says otherwise."""
    run, stored = record.run, record.stored
    is_error = run.status is not None and run.status >= 400 and run.status != record.status
    if is_error and not run.outcome and not run.commits_errors and not stored.is_nothing:
        yield f"R4: it is answered {run.status} and is stored, and the answer does not say so (X-Outcome)"
    if run.outcome == "committed" and stored.is_nothing and not record.whole.is_nothing:
        yield "R4: the answer says that it is committed, and nothing is stored"


def all_is_ended(record: Record) -> Iterator[str]:
    """R5: an exception reaches no server, and transactions end."""
    run = record.run
    at_the_end = any(hit.point.partition("#")[0] in ("start_response", "block") for hit in run.hits)
    if isinstance(run.escaped, Exception) and run.status is None and not at_the_end:
        yield f"R5: {type(run.escaped).__name__} reaches the server"
    for joined in run.joined:
        if not joined.has_ended:
            yield f"R5: {type(joined.resource).__name__} is not told the end of the transaction"


def all_is_closed(record: Record) -> Iterator[str]:
    """R6 and R7: what was to be closed with the request is closed."""
    run = record.run
    registered, called = run.closers
    if registered != called:
        yield f"R6: {called} of {registered} functions of request.on_close are called"
    if any(getattr(body, "gi_frame", None) is not None for body in run.bodies):
        yield "R7: a body that a view has returned is not closed"
    if run.keeps_request:
        yield "R6: the environ keeps the request"


def nothing_left_behind(record: Record) -> Iterator[str]:
    """R5, R8 and R13: connections come back, and the next request sees what is stored and nothing else."""
    yield from left_behind(record.memory)


def left_behind(memory: Sequence[str]) -> Iterator[str]:
    """Yield what requests have left behind for the next ones. memory has the differences from what is stored."""
    for difference in memory:
        yield f"R13: {difference}"
    for usage in pools.usages():
        if usage.used:
            yield f"R5: {usage.used} connection of {usage.database} does not come back"


def answers(record: Record) -> Iterator[str]:
    """Without a fault, an answer comes (S12), it is not an error, and nothing was done outside before it (R2)."""
    if record.run.hangs or not record.run.hits:
        yield from failing(record.run, "without a fault ")


def failing(run: Run, when: str = "") -> Iterator[str]:
    """Yield that an answer is an error of the server, that none comes, or what was done outside of the databases
    before the commit: a retry does it again, and it stays after an abort."""
    yield from (f"R2: before the commit, a view does what no abort takes back: {one}" for one in run.effects)
    if run.hangs:
        yield f"S12: it has not answered after {LONGEST:.0f} s, at {run.hangs}"
    elif run.is_error and not run.effects:  # else it is one since they were refused
        yield f"{when}it is answered {run.answer}"
    elif run.returns_none and run.status == 200 and not run.body and "html" in run.header("Content-Type"):
        yield "the view has returned None, and the page is empty"


RULES: tuple[Rule, ...] = (
    nothing_twice,
    all_or_nothing,
    failed_is_not_stored,
    acknowledged_is_stored,
    refused_is_not_stored,
    all_is_ended,
    all_is_closed,
    nothing_left_behind,
    answers,
)


def all_rules() -> tuple[Rule, ...]:
    """Return the rules of this package, and those that others add."""
    return (*RULES, *(entry.load() for entry in entry_points(group="wsgi_pipeline.rules")))
