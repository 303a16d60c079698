"""The axes of the table, their product, and the reasons why some combinations are not rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import NamedTuple

# Who touches the database.
VIEW = "the view"
WAITED = "a thread that the view waits for"
INNER = "an element inside transaction"
OUTER_IN = "an element outside transaction, on the way in"
OUTER_OUT = "an element outside transaction, on the way out"
ERROR_VIEW = "an error view"
STREAM = "the generator of a stream"
ON_CLOSE = "a callback of on_close"
LEFTOVER = "a thread that outlives the request"
BETWEEN = "code between requests"
LATER = "the next request, through a global, before it takes a connection"
HOLDING = "the next request, through a global, after it has taken the same connection"
"""It holds the objects of its own connection. So does, at that moment, a thread of the first request that was not
waited for. Nothing tells this thread from one that the later request waits for, so it must not be left running."""
FORK = "a child of os.fork"
PROCESS = "a child of multiprocessing"
GOING_ON = "a child of os.fork that goes on with the request"
IDLE_FORK = "a child that is forked between requests"

WITHIN = (VIEW, WAITED, INNER, OUTER_IN)
"""They act while the transaction of the request can be committed."""
AFTERWARDS = (OUTER_OUT, ERROR_VIEW, STREAM, ON_CLOSE)
"""They belong to the request, and act when ``transaction`` has ended its transaction."""
STRANGERS = (LEFTOVER, BETWEEN, LATER)
"""They act when the request has given back its connection."""
CHILDREN = (FORK, PROCESS, GOING_ON, IDLE_FORK)
WHO = (*WITHIN, *AFTERWARDS, *STRANGERS, HOLDING, *CHILDREN)

# When: what the request has done with the database before.
UNTOUCHED = "before any use"
READ = "after reading"
WRITTEN = "after writing"
ABORTED = "after tm.abort()"
COMMITTED = "after tm.commit()"
BEGUN = "after tm.abort() and tm.begin()"
SAVEPOINT_FAILED = "after a savepoint that failed"
COMMIT_FAILED = "after a commit that failed"
ROLLED_BACK = "after sql.rollback()"
CLOSED = "after sql.close()"
RESET = "after sql.reset()"
INVALIDATED = "after sql.invalidate()"

FAILED = (SAVEPOINT_FAILED, COMMIT_FAILED)
GOING_WELL = (READ, WRITTEN, CLOSED, RESET, INVALIDATED)
"""The transaction goes on. The view must not close its session: that raises, and does nothing."""
STILL_WRITES = (*GOING_WELL, BEGUN, ROLLED_BACK)
"""The transaction that is open can write."""
WHEN = {
    "zodb": (UNTOUCHED, READ, WRITTEN, ABORTED, COMMITTED, BEGUN, *FAILED),
    "sql": (UNTOUCHED, READ, WRITTEN, ABORTED, COMMITTED, BEGUN, *FAILED, ROLLED_BACK, CLOSED, RESET, INVALIDATED),
}

# By what means.
LOOK = "reads what is loaded"
LOAD = "loads an object"
COMMIT = "commits"
ABORT = "aborts"
OWN = "writes in a transaction of its own"
REGISTER = "registers a synchronizer"
SET = "sets an attribute"
REMOVE = "deletes"
ADD = "adds an object"
# of a ZODB
SAVEPOINT = "makes a savepoint"
GET = "asks the connection for an object"
DELETE_ATTRIBUTE = "deletes an attribute"
MAPPING = "sets an item of a PersistentMapping"
LIST = "sets an item of a PersistentList"
TREE = "sets an item of a BTree"
CLOSE = "closes the connection"
# of an SQL database
NESTED = "inserts in a savepoint"
SELECT = "selects"
PENDING = "adds an object and does not flush"
CORE = "inserts by Core"
CONNECTION = "inserts through a connection that it has kept"
COMMIT_STATEMENT = "inserts and executes COMMIT"
DRIVER_COMMIT = "inserts and commits by the driver"
AUTOCOMMIT = "inserts by a connection with AUTOCOMMIT"
CURSOR = "inserts through a cursor of the driver that it has kept"
ROLLBACK = "rolls back"
SESSION_COMMIT = "calls sql.commit()"
SESSION_CLOSE = "closes the session"

MEANS = {
    "zodb": (
        *(LOOK, LOAD, GET, SET, DELETE_ATTRIBUTE, MAPPING, LIST, TREE, REMOVE, ADD),
        *(SAVEPOINT, COMMIT, ABORT, OWN, REGISTER, CLOSE),
    ),
    "sql": (
        *(LOOK, LOAD, SELECT, ADD, PENDING, SET, REMOVE, CORE, CONNECTION, CURSOR),
        *(NESTED, COMMIT, SESSION_COMMIT, ABORT, ROLLBACK, SESSION_CLOSE, OWN, REGISTER),
        *(COMMIT_STATEMENT, DRIVER_COMMIT, AUTOCOMMIT),
    ),
}

# How the request goes on.
ANSWERS = "answers, and swallows an error"
RAISES = "lets the error out, or raises one"
CONFLICTS = "meets a conflict"
GOES_ON = (ANSWERS, RAISES, CONFLICTS)


class Row(NamedTuple):
    """One combination."""

    kind: str
    """"zodb" or "sql"."""
    who: str
    when: str
    means: str
    goes_on: str

    def __str__(self) -> str:
        return f"{self.who} {self.means} {self.when}, and {self.goes_on}"


def why_left_out(row: Row) -> str:
    """Return the reason why a combination is not a row: it cannot happen, or another row is the same. Otherwise
    return ""."""
    who, when, means = row.who, row.when, row.means
    if row.goes_on != ANSWERS and who != VIEW:
        return "the view has this row" if who in (*WITHIN, OUTER_OUT) else "the answer does not depend on it"
    if who in CHILDREN and when == UNTOUCHED:
        return "a child that is the first to use the database has a connection of its own"
    if who in CHILDREN and who != FORK and when not in (READ, WRITTEN, ABORTED):
        return "a child of os.fork has this row"
    if who == HOLDING and when != READ:
        return "it is the transaction of the next request, whatever the first one did"
    if who in (LEFTOVER, LATER) and when not in (UNTOUCHED, READ, WRITTEN):
        return "code between requests has this row"
    if when in (RESET, INVALIDATED) and who != VIEW:
        return "the view has this row, and the others have it with sql.close()"
    if who == STREAM and when in FAILED:
        return "the answer is an error, so the stream is not read"
    if means in (CONNECTION, CURSOR) and when == UNTOUCHED:
        return "there is nothing that was kept"
    if means == AUTOCOMMIT and when in (UNTOUCHED, *GOING_WELL, SAVEPOINT_FAILED):
        return "SQLAlchemy ignores the option for a session that has a connection"
    return ""


def product_of(kind: str) -> Iterator[Row]:
    """Yield every combination of the axes."""
    for values in product(WHO, WHEN[kind], MEANS[kind], GOES_ON):
        yield Row(kind, *values)


@cache
def rows_of(kind: str) -> list[Row]:
    """Return the rows of the table."""
    return [row for row in product_of(kind) if not why_left_out(row)]
