"""How the elements of databases share one transaction, and how it is begun to read.

Every request that uses a database has one transaction manager, ``request.tm``, for all of them. It is
explicit: nothing begins by itself, and what comes when the transaction is over finds none. It is made by
the element of the outermost database and used by one request at a time.

The package ``transaction`` has no public way to tell whether a data manager has joined, and how far a commit
got before it failed. The private attributes that tell are read here, and but for ``_txn`` nowhere else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from transaction import Transaction, TransactionManager
from transaction._transaction import Status
from transaction.interfaces import AlreadyInTransaction, NoTransaction, TransientError

from pipeline.interfaces import CommitUncertain, ReadOnlyTransaction
from pipeline.request import Request

log = logging.getLogger("pipeline.database")


class Synchronizers:
    """What is told of each begin and end of a transaction, for a manager that keeps it anyway: the package's weak
    set makes three lists of references in each transaction (0.9 microseconds)."""

    def __init__(self) -> None:
        self.all: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return len(self.all)

    def add(self, synchronizer: Any) -> None:
        self.all = (*(one for one in self.all if one is not synchronizer), synchronizer)

    def remove(self, synchronizer: Any) -> None:
        """KeyError if it is not there."""
        if not any(one is synchronizer for one in self.all):
            raise KeyError(synchronizer)
        self.all = tuple(one for one in self.all if one is not synchronizer)

    def clear(self) -> None:
        self.all = ()

    def map(self, function: Callable[[Any], object]) -> None:
        for synchronizer in self.all:
            function(synchronizer)


class RequestTransaction(Transaction):  # type: ignore[misc]
    """A transaction that tells its manager what came of it, whoever commits it (R2a, R4)."""

    def commit(self) -> None:
        try:
            super().commit()
        except BaseException as error:
            if self._manager is not None and is_uncertain(self, error):
                self._manager.outcome = "unknown"
            raise

    def _free(self) -> None:
        if self._manager is not None and is_committed(self) and any(map(has_stored, self._resources)):
            self._manager.outcome = "committed"
        super()._free()


class Manager(TransactionManager):  # type: ignore[misc]
    """The transaction manager of one request at a time, kept by its owner between requests."""

    readers: tuple[type, ...] = ()
    """Classes of data managers that join to read as well, and see to it that nothing is written."""

    unaware: tuple[type, ...] = ()
    """Classes of synchronizers that do not look at the transaction that they are told of, nor act on its completion
    before it: for them none need be made."""

    def __init__(self) -> None:
        super().__init__(explicit=True)
        self._synchs = Synchronizers()
        self._txn: Any = None
        self.deferred = False
        """A transaction has begun, and nobody has asked for it yet."""
        self.must_discard = False
        """What is in memory may differ from what is stored: the owner throws away what hangs on this."""
        self.outcome = ""
        """What is known of the changes of this request: "committed", "unknown" (R4), or "" if none was stored."""
        self.transient_checks: list[Callable[[BaseException], bool]] = []
        """Each says of an error whether the same request may succeed if it is tried again."""
        self.kept: dict[object, Any] = {}
        """What elements keep with this manager from one request to the next, by an object of theirs."""
        self.leave_callbacks: list[Callable[[], object]] = []
        """Called when the request is done with this manager, last in, first out."""

    def start(self) -> None:
        """Begin a transaction, as ``begin`` does, that is made when somebody asks for it.

        A request that only reads from a ZODB never does: no data manager joins. To make and to abort one takes a
        quarter of such a request.
        """
        synchronizers = self._synchs.all
        for one in synchronizers:
            if type(one) not in self.unaware:
                self.begin()
                return
        if self._txn is not None or self.deferred:
            raise AlreadyInTransaction
        self.deferred = True
        for one in synchronizers:
            one.newTransaction(None)

    def begin(self) -> Any:
        if self.deferred or self._txn is not None:
            raise AlreadyInTransaction
        transaction = self._txn = RequestTransaction(self._synchs, self)
        for one in self._synchs.all:
            one.newTransaction(transaction)
        return transaction

    def get(self) -> Any:
        if self._txn is None:
            if not self.deferred:
                raise NoTransaction("the transaction of this request is over, and no other was begun")
            self.deferred = False
            self._txn = RequestTransaction(self._synchs, self)
        return self._txn

    def registerSynch(self, synch: Any) -> None:
        if self.deferred:
            if type(synch) in self.unaware:
                synch.newTransaction(None)
            else:
                self.get()
        super().registerSynch(synch)

    def abort(self) -> None:
        if self.deferred:
            self.end_deferred()
        else:
            super().abort()

    def end_deferred(self) -> None:
        """End a transaction that nobody has asked for."""
        self.deferred = False
        for one in self._synchs.all:
            one.afterCompletion(None)

    def disown(self) -> None:
        """Drop what is open without a word to the databases: it is another process's (R12)."""
        self._txn = None
        self.deferred = False
        self.must_discard = True
        self._synchs.clear()
        self.leave_callbacks.clear()

    def leave(self) -> None:
        """Abort what is open and let go of what was used. An error is logged and stops nothing (R6)."""
        abort_quietly(self)
        while self.leave_callbacks:
            callback = self.leave_callbacks.pop()
            try:
                callback()
            except Exception:
                self.must_discard = True
                log.exception("%r failed after a request", callback)


class DatabaseRequest(Request):
    """What every element that uses a transaction adds to a request."""

    reading_only: bool = False
    """Whether what begins a transaction from now on begins it to read: the changes of the request are committed or
    aborted (R8)."""


def begin(request: DatabaseRequest, tm: Manager) -> None:
    """Begin the transaction of a request: to write, if an element of the pipeline commits it."""
    tm.outcome = ""
    if "transaction" in request.pipeline.names and not request.reading_only:
        tm.start()
    else:
        begin_to_read(tm)


def read_afresh(request: DatabaseRequest) -> None:
    """End what the request has begun, so that it reads what is stored now and can write no more (R8)."""
    request.reading_only = True  # for a database that is only opened now
    tm = request.tm_in_use
    if tm is None:
        return
    abort_quietly(tm)
    request.drop()  # an attribute is made anew when it is read
    if not getattr(tm, "must_discard", False):
        try:
            begin_to_read(tm)
            return
        except Exception:  # the database is gone, most likely
            tm.must_discard = True
    request.tm_in_use = None


def is_transient(request: Request, error: BaseException) -> bool:
    """Whether the same request may succeed if it is tried again: asked while the transaction is open, since its
    data managers cannot tell afterwards (R2)."""
    tm = request.tm_in_use
    if getattr(tm, "outcome", ""):
        return False  # something is committed, or may be (R2a, R4)
    judged = [judge(error) for judge in getattr(tm, "transient_checks", ())]
    if isinstance(error, TransientError) or any(judged):
        return True
    return tm is not None and tm._txn is not None and bool(tm._txn.isRetryableError(error))


OFFERED: dict[str, Any] = {"read_afresh": read_afresh, "is_transient": is_transient}
"""What each element of a database offers to the core."""


def begin_to_read(tm: TransactionManager) -> None:
    """Begin a transaction in which no data manager can join to write (R8)."""
    transaction = tm.begin()
    transaction.reads_only = True
    transaction.join = partial(_join_to_read, tm)


def _join_to_read(tm: TransactionManager, resource: object) -> None:
    """``join`` of a transaction that was begun to read."""
    if not isinstance(resource, getattr(tm, "readers", ())):
        raise refusal(tm, resource)
    transaction = tm.get()
    type(transaction).join(transaction, resource)


def reads_only(tm: TransactionManager) -> bool:
    """Whether the transaction that is open was begun to read."""
    return getattr(tm._txn, "reads_only", False)


def refusal(tm: TransactionManager, what: object) -> ReadOnlyTransaction:
    """The error for a write in a transaction that was begun to read."""
    tm.must_discard = True  # the object is changed in memory before it says so
    return ReadOnlyTransaction(
        f"a write to {what!r:.200}, in a transaction that only reads (R8). What runs inside the element "
        f"'transaction' can write until the answer is complete; a pipeline without that element, an error "
        f"view, and a body that is made while it is sent can only read"
    )


def is_open(tm: TransactionManager) -> bool:
    """Whether a transaction is open."""
    return tm._txn is not None or getattr(tm, "deferred", False)


def joined(tm: TransactionManager) -> list[Any]:
    """The data managers that have joined the transaction that is open."""
    return list(tm._txn._resources)


def has_stored(resource: Any) -> bool:
    """Whether a data manager has had something to commit; zope.sqlalchemy says so of a session that has not."""
    return getattr(resource, "state", None) != "no work"


def end_unchanged(tm: TransactionManager) -> bool:
    """End the transaction, somehow, if nothing has joined it. Whether none is open then."""
    transaction = tm._txn
    if transaction is None:
        if getattr(tm, "deferred", False):
            tm.end_deferred()
        return True
    if transaction._resources or transaction._before_commit or transaction._after_commit:
        return False
    transaction.abort()
    return True


def is_uncertain(transaction: Any, error: BaseException) -> bool:
    """Return whether a part of a commit that failed may be stored, or all of it (R4): it had every vote."""
    resources = transaction._resources
    all_voted = bool(resources) and all(id(resource) in transaction._voted for resource in resources)
    return all_voted or isinstance(error, CommitUncertain)


def is_committing(tm: TransactionManager) -> bool:
    """Return whether the transaction that is open is being committed."""
    return tm._txn is not None and tm._txn.status == Status.COMMITTING


def is_committed(transaction: Any) -> bool:
    """Whether a transaction that has ended was committed."""
    return bool(transaction.status == Status.COMMITTED)


def abort_quietly(tm: TransactionManager) -> None:
    """Abort the transaction if one is open; an error is logged (R6)."""
    if is_open(tm):
        try:
            tm.abort()
        except Exception:
            tm.must_discard = True
            log.exception("a transaction could not be aborted properly")
