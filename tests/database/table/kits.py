"""The base of the kits: one for each kind of database that the rows touch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from transaction.interfaces import NoTransaction

from database.table import axes as a
from database.table.axes import Row
from pipeline.composition import Element
from pipeline.testing import FakeDataManager

WAS = "as it was"
MARK = "changed"
"""The value that is written by the one who acts."""
GONE = "gone"

State = dict[str, str]
"""The names of everything that is written, with the values."""

Act = Callable[[Any], object]


class Wrong(Exception):
    """What was read is not what is stored."""


class Refused(Exception):
    """The data manager of a prelude refuses a commit."""


class Kit:
    """What a row does with a database, and the readings of the judge."""

    kind: ClassVar[str]
    take: ClassVar[Callable[[Any], Any]]
    """Takes from a request what the rows use."""
    close: Callable[[], object]
    """Closes what the judge has opened."""
    means: ClassVar[dict[str, tuple[Act, State]]]
    """What is done by each of the means, and what it changes."""

    def element(self) -> Element:
        """Return the element of the database."""
        raise NotImplementedError

    def create(self, request: Any) -> None:
        """Write the first state of everything."""
        raise NotImplementedError

    def put_back(self, request: Any) -> None:
        """Write the first state of everything that is not in its first state."""
        raise NotImplementedError

    def state(self, request: Any) -> State:
        """Return what a request sees."""
        raise NotImplementedError

    def stored(self) -> State:
        """Return what the database has. It is read without the pipeline."""
        raise NotImplementedError

    def write(self, taken: Any, name: str, value: str) -> None:
        """Write one value."""
        raise NotImplementedError

    def go_on(self, taken: Any) -> None:
        """Read through the connection, as the parent of a child does afterwards."""
        raise NotImplementedError

    def keep(self, taken: Any, means: str) -> None:
        """Keep what these means need, and others do not."""

    def prepare(self, request: Any, row: Row) -> Any:
        """Use the database as a row says. Return what was taken from it."""
        taken = self.take(request)
        self.keep(taken, row.means)
        if row.when != a.READ:
            self.write(taken, "own", MARK)
        prelude = PRELUDES.get(row.when)
        if prelude is not None:
            prelude(taken)
        return taken


def check(found: object, wanted: object = WAS) -> None:
    """Raise an error if something else was read than is stored."""
    if found != wanted:
        raise Wrong(f"{found!r} was read, and {wanted!r} is stored")


def nothing() -> None:
    """Have nothing to close."""


def begin_again(taken: Any) -> None:
    taken.tm.abort()
    taken.tm.begin()


def fail_savepoint(taken: Any) -> None:
    FakeDataManager(taken.tm).join()  # it has no savepoints
    try:
        taken.tm.savepoint()
    except TypeError:
        return
    raise Wrong("the savepoint has not failed")


def fail_commit(taken: Any) -> None:
    FakeDataManager(taken.tm, fails={"tpc_begin": Refused}, key="").join()
    try:
        taken.tm.commit()
    except Refused:
        return
    raise Wrong("the commit has not failed")


class Synchronizer:
    """Counts how often it is called."""

    def __init__(self) -> None:
        self.calls = 0

    def newTransaction(self, transaction: object) -> None:
        self.calls += 1

    beforeCompletion = afterCompletion = newTransaction


def register(taken: Any) -> None:
    """Register a synchronizer, and keep it as a global would."""
    taken.tm.registerSynch(taken.synchronizer)


def swallow(end: Callable[[], object]) -> None:
    """Call what must be refused, as a view does that does not heed the refusal."""
    try:
        end()
    except RuntimeError:
        pass


PRELUDES: dict[str, Act] = {
    a.ABORTED: lambda taken: taken.tm.abort(),
    a.COMMITTED: lambda taken: taken.tm.commit(),
    a.BEGUN: begin_again,
    a.SAVEPOINT_FAILED: fail_savepoint,
    a.COMMIT_FAILED: fail_commit,
    a.ROLLED_BACK: lambda taken: taken.session.rollback(),
    a.CLOSED: lambda taken: swallow(taken.session.close),
    a.RESET: lambda taken: swallow(taken.session.reset),
    a.INVALIDATED: lambda taken: swallow(taken.session.invalidate),
}


def in_own_transaction(taken: Any, act: Act) -> None:
    """Act in a transaction that is begun and committed for it."""
    try:
        taken.tm.abort()
    except NoTransaction:
        pass
    with taken.tm:
        act(taken)
