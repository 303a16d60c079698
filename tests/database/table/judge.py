"""The judge: compares what happened in a row with the model."""

from __future__ import annotations

from collections.abc import Iterator

from database.table import axes as a
from database.table.axes import Row
from database.table.facts import Facts
from database.table.kits import MARK, Kit, State
from database.table.model import Expected, expected


def faults(kit: Kit, row: Row, first: State, facts: Facts, visited: str) -> list[str]:
    """Return what is wrong in a row: nothing if all is as the model says."""
    expect = expected(row)
    return [
        *of_the_act(row, expect, facts),
        *of_the_answer(row, expect, facts),
        *(() if expect.beyond else of_the_database(wanted(kit, row, expect, first, facts), facts)),
        *of_further_attempts(row, expect, facts),
        *of_the_others(facts, visited),
    ]


def of_the_act(row: Row, expect: Expected, facts: Facts) -> Iterator[str]:
    if facts.hung:
        yield "HUNG"
    if not facts.reached:
        yield "the row was not played to its end"
    elif expect.allowed and facts.raised:
        yield f"it is allowed and has raised {facts.raised}"
    elif expect.allowed is False and not facts.raised and not (expect.late and is_told(row, facts)):
        yield "it is refused and has not raised"


def is_told(row: Row, facts: Facts) -> bool:
    """Return whether a change that nothing has noticed before is at least answered as an error, or logged where
    the answer was already sent."""
    return facts.status >= 500 or (row.who not in a.WITHIN and facts.logged)


def of_the_answer(row: Row, expect: Expected, facts: Facts) -> Iterator[str]:
    """A request must be answered 200 if nothing is wrong with it, and 500 if its transaction was dropped."""
    failed = row.when in a.FAILED
    error = row.goes_on == a.RAISES or row.who == a.ERROR_VIEW
    if row.goes_on == a.CONFLICTS and (is_stored_at_once(row, expect) or may_be_stored(row)):
        error = True  # it is not tried again
    if error and facts.status < 400:
        yield f"an error was answered {facts.status}"
    if row.who in a.WITHIN and not expect.allowed:
        return  # refused, and perhaps swallowed: any answer will do
    if row.means in (a.COMMIT_STATEMENT, a.DRIVER_COMMIT):
        return  # it may have found that the transaction is gone
    if row.who in (a.LATER, a.HOLDING):
        failed = False
    ended = row.means in (a.ABORT, a.OWN, a.ROLLBACK) and row.who in a.WITHIN
    if not failed and not error and facts.status != 200:
        yield f"it was answered {facts.status}"
    if failed and not ended and facts.status < 500:
        yield f"changes were dropped, and it was answered {facts.status}"


def of_further_attempts(row: Row, expect: Expected, facts: Facts) -> Iterator[str]:
    """Nothing is tried again once something is stored (R2a)."""
    if row.goes_on == a.CONFLICTS and not expect.beyond:
        attempts = 1 if is_stored_at_once(row, expect) or may_be_stored(row) else 2
        if facts.attempts != attempts:
            yield f"{facts.attempts} attempts were made, and must be {attempts}"


def is_stored_at_once(row: Row, expect: Expected) -> bool:
    """Return whether something is stored before the answer."""
    return expect.stored == "at once" or is_own_committed(row)


def may_be_stored(row: Row) -> bool:
    """Return whether the pipeline cannot know that nothing is stored: the view has taken the connection of the
    driver, or the session a connection on which it could not begin."""
    has_begun = row.means != a.AUTOCOMMIT or row.when not in (a.BEGUN, a.ROLLED_BACK)
    return row.who in a.WITHIN and (row.means == a.CURSOR or not has_begun)


def is_own_committed(row: Row) -> bool:
    """Return whether the view has committed what it has written before, or has had it committed."""
    within = row.who in a.WITHIN and row.means in (a.COMMIT, a.COMMIT_STATEMENT, a.DRIVER_COMMIT)
    return row.when == a.COMMITTED or (within and row.when in a.GOING_WELL and row.when != a.READ)


def wanted(kit: Kit, row: Row, expect: Expected, first: State, facts: Facts) -> State:
    """Return what the database must have afterwards."""
    state = dict(first)
    if expect.stored == "at once" or (expect.stored and facts.status < 400):
        state.update(kit.means[row.means][1])
    if own_is_stored(row, facts):
        state["own"] = MARK
    if row.who in a.CHILDREN and row.who != a.IDLE_FORK and row.when in a.STILL_WRITES:
        state["parent"] = MARK
    return state


def own_is_stored(row: Row, facts: Facts) -> bool:
    """Return whether that must be stored which the view has written before."""
    if is_own_committed(row):
        return True
    if row.when not in a.GOING_WELL or row.when == a.READ:
        return False
    if row.who in a.WITHIN and row.means in (a.ABORT, a.OWN, a.ROLLBACK):
        return False
    if row.who == a.ERROR_VIEW:
        return False
    if row.who == a.LATER:
        return True
    return facts.status < 400


def of_the_database(wanted: State, facts: Facts) -> Iterator[str]:
    for name, value in facts.stored.items():
        if name != "visitor" and value != wanted[name]:
            yield f"{name!r} is {value!r} in the database, and must be {wanted[name]!r}"


def of_the_others(facts: Facts, visited: str) -> Iterator[str]:
    if facts.seen != facts.stored:
        yield f"SEEN BY ANOTHER: {difference(facts.seen, facts.stored)}"
    if facts.visit != 200:
        yield f"another visitor was answered {facts.visit}"
    if facts.stored_later != facts.stored | {"visitor": visited}:
        yield f"STORED BY ANOTHER: {difference(facts.stored_later, facts.stored | {'visitor': visited})}"
    if facts.called_later:
        yield f"CALLED BY ANOTHER {facts.called_later} times"
    if facts.in_use:
        yield f"{facts.in_use} connections are in use, and no request is"


def difference(state: State, other: State) -> State:
    return {name: value for name, value in state.items() if value != other.get(name)}
