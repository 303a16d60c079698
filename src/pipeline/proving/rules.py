"""The rules for a run that meets faults. A rule is a function of a ``Record``, which yields one sentence for each
way in which the run breaks it. Behind them stands what holds after any request: the memory of a connection is what
is stored (R8, R13), and the invariants and owners that the author of a site has declared.

Other rules are added by an entry point of the group ``wsgi_pipeline.rules``. This module and
``pipeline.explaining.notices`` alone use private attributes of ZODB: the cache of a connection.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from operator import attrgetter
from typing import Any, NamedTuple

from transaction import TransactionManager
from transaction.interfaces import TransactionError
from ZODB.POSException import POSKeyError

from pipeline.database import pools
from pipeline.database.stored import comparable
from pipeline.staging.asked import Asked
from pipeline.staging.copies import Stored
from pipeline.staging.runs import LONGEST, Run
from pipeline.staging.site import Site

NOBODY = ""
"""The user of an anonymous visitor, in the place of the user of the site."""
REFUSED = (401, 403, 404)
"""Statuses by which a user is sent away, who is then seldom the one to ask again."""
GIVEN: dict[str, Callable[[Any], Any]] = {
    "root": attrgetter("root"),
    "session": attrgetter("sql"),
    "request": lambda request: request,
}
"""Functions of a request that return what an invariant may ask for, by the names of its parameters."""


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


def stored_as_told(record: Record) -> Iterator[str]:
    """R1 to R4: a request is stored as a whole and once, or not at all, and the answer says which."""
    run, stored, whole = record.run, record.stored, record.whole
    transactions, usual = len(stored.transactions), len(whole.transactions)
    if transactions > usual:
        yield f"R2: {transactions} transactions are stored, and {usual} without a fault"
    if stored != whole and not stored.is_nothing and run.outcome != "unknown":
        yield "R3: a part is stored"
    if run.hits and not run.is_acknowledged and not run.commits_errors and not stored.is_nothing:
        before = run.trace[: run.trace.index(run.hits[-1].point)]
        if not any(".tpc_begin:" in point for point in before):
            yield "R3: it failed before the commit, and is stored"
    if run.is_acknowledged and stored != whole:
        yield f"R1: it is answered {run.status}, and not stored"
    if run.finished_before_start is not None and len(run.finished) > run.finished_before_start:
        yield "R1: it is stored after the first byte of the answer"
    is_error = run.status is not None and run.status >= 400 and run.status != record.status
    if is_error and not run.outcome and not run.commits_errors and not stored.is_nothing:
        yield f"R4: it is answered {run.status} and is stored, and the answer does not say so (X-Outcome)"
    if run.outcome == "committed" and stored.is_nothing and not whole.is_nothing:
        yield "R4: the answer says that it is committed, and nothing is stored"


def all_is_ended(record: Record) -> Iterator[str]:
    """R5 to R8 and R13: an exception reaches no server, transactions end, what was to be closed with the request is
    closed, connections come back, and the next request sees what is stored and nothing else."""
    run = record.run
    at_the_end = any(hit.point.partition("#")[0] in ("start_response", "block") for hit in run.hits)
    if isinstance(run.escaped, Exception) and run.status is None and not at_the_end:
        yield f"R5: {type(run.escaped).__name__} reaches the server"
    for joined in run.joined:
        if not joined.has_ended:
            yield f"R5: {type(joined.resource).__name__} is not told the end of the transaction"
    registered, called = run.closers
    if registered != called:
        yield f"R6: {called} of {registered} functions of request.on_close are called"
    if any(getattr(body, "gi_frame", None) is not None for body in run.bodies):
        yield "R7: a body that a view has returned is not closed"
    if run.keeps_request:
        yield "R6: the environ keeps the request"
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
    elif run.status in range(400, 500) and run.finished and not run.commits_errors:
        yield f"R3: it is answered {run.status}, and something is stored"
    elif run.returns_none and run.status == 200 and not run.body and "html" in run.header("Content-Type"):
        yield "the view has returned None, and the page is empty"


RULES: tuple[Rule, ...] = (stored_as_told, all_is_ended, answers)
"""The rules of this package."""


def differences() -> tuple[str, ...]:
    """Return what the next request would see that is not stored, each kind once."""
    zodb = sys.modules.get("pipeline.database.zodb_pools")
    found: set[str] = set()
    try:
        for connection in zodb.idle_connections() if zodb is not None else ():
            with closing(connection.db().open(TransactionManager())) as other:
                for oid, obj in connection._cache.lru_items():
                    if not isinstance(obj, type):
                        found.update(_difference(other, oid, obj))
                other.transaction_manager.abort()
    except TransactionError as error:
        name = type(error).__name__
        found.add(f"a connection waits for the next request, and its transaction has not ended ({name})")
    return tuple(sorted(found))


def _difference(other: Any, oid: bytes, obj: Any) -> Iterator[str]:
    name = type(obj).__name__
    if obj._p_changed:
        yield f"a changed {name} is in memory after the request"
        return
    try:
        loaded = other.get(oid)
        loaded._p_activate()
    except POSKeyError:
        yield f"a {name} that is not stored is in memory after the request"
        return
    if loaded._p_serial != obj._p_serial:
        yield f"a {name} in memory is older than what is stored"
    elif comparable(obj.__getstate__()) != comparable(loaded.__getstate__()):
        yield f"a {name} in memory differs from what is stored"


def broken_invariants(site: Site) -> Iterator[str]:
    """Yield the invariants that do not hold of what is stored now."""
    said = dict.fromkeys(site.invariants, "cannot be asked: the page / is not traversed")
    if said:
        site.look(Asked("GET", "/"), lambda request: said.update((one, told_of(one, request)) for one in said))
    yield from (f"the invariant {one.__name__} {what}" for one, what in said.items() if what)


def told_of(invariant: Callable[..., object], request: Any) -> str:
    """Return what an invariant says of the databases of a request, or "" if it holds."""
    names = inspect.signature(invariant).parameters
    if not names.keys() <= GIVEN.keys():
        return f"asks for {', '.join(names)}, and it can have {', '.join(GIVEN)}"
    try:
        said = invariant(*(GIVEN[name](request) for name in names))
    except Exception as error:
        return f"cannot be asked: {type(error).__name__}: {error}"
    return "" if said is True else f"does not hold, it is {said!r}"


def is_open(owners: set[str], run: Run) -> str:
    """Return how what belongs to others has been open to the user of a run, or "" if he was refused."""
    is_reached = bool(run.owners & owners) and run.status in range(200, 300)
    does = "changes" if run.finished else "sees" if is_reached else ""
    return does and f"S1: {run.user or 'an anonymous visitor'} {does} what belongs to {', '.join(sorted(owners))}"
