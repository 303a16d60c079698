"""The transaction that the elements of databases share.

Every request that uses a database has one transaction manager, ``request.tm``, for all its databases. The manager
is explicit: a transaction never begins by itself, also not when another one has ended. The element of the
outermost database makes the manager. One request at a time uses it.

The package ``transaction`` has no public way to tell whether a data manager has joined, or how far a commit got
before it failed. Only this module reads the private attributes that tell, except ``_txn``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from weakref import ref

from transaction import Transaction, TransactionManager
from transaction import manager as of_thread
from transaction._transaction import Status
from transaction.interfaces import AlreadyInTransaction, NoTransaction, TransientError
from transaction.weakset import WeakSet

from pipeline.database.written import NOTHING, Positions
from pipeline.interfaces import CommitUncertain, ReadOnlyTransaction
from pipeline.options import on_demand
from pipeline.request import Request

was_refused: Callable[[Any, BaseException], bool] = on_demand("pipeline.database.sql_errors:was_refused")

log = logging.getLogger("pipeline.database")


IN_USE = "in use"
"""Stage of a manager whose request begins and ends transactions itself."""
ENDED = "ended"
"""Stage of a manager whose request is answered: the next transaction begins on first use, and only reads (R8)."""
IDLE = "idle"
"""Stage of a manager that no request uses."""
INHERITED = "inherited"
"""Stage of a manager that a parent process uses."""

NO_TRANSACTION = {
    IN_USE: "the transaction of this request has ended, and no other has begun. Call request.tm.begin() first",
    IDLE: (
        "the request has ended. Its transaction manager, connections and objects belong to it alone (R13): wait "
        "for your own threads before the view returns, and keep ids in globals and caches, not objects"
    ),
    INHERITED: "the transaction manager belongs to the process from which this one was forked (R12)",
}
"""Reasons why a manager has no transaction, and begins none, by its stage."""


_joining: Callable[[Any], Any] | None = None
"""``(resource)`` returns what joins in the place of a data manager, or None."""


@contextmanager
def watching_joins(joining: Callable[[Any], Any]) -> Iterator[None]:
    """Have a tool see each data manager that joins a transaction of this process.

    joining  ``(resource)`` returns what joins in its place, such as a data manager that notes each call
    """
    global _joining
    _joining = joining
    try:
        yield
    finally:
        _joining = None


COMMITS_AT_VOTE = ("zope.sqlalchemy.datamanager", "SessionDataManager")
"""The class of the data manager of a session that the site has made itself. That of ``request.sql`` is one, too."""


def abort_session(made: ref[Any], owner: ref[Any], transaction: object) -> None:
    """Abort a data manager by its session, also if it has let go of that."""
    resource: Any = made()
    bound = owner()
    abort = type(resource).abort if bound is None else bound.abort
    abort(resource, transaction)


def vote(resource: Any, transaction: Any) -> None:
    """Have the session of a data manager commit. After an error that is not known as a refusal of the database the
    outcome is unknown (R4). The session is rolled back in any case: closed alone, it would give its connection to
    the next request with what was not committed (R13)."""
    session = resource.session
    try:
        type(resource).tpc_vote(resource, transaction)
    except BaseException as error:
        if transaction._manager is not None and not was_refused(session, error):
            transaction._manager.outcome = "unknown"
        with suppress(Exception):  # the connection is lost
            session.rollback()
        raise


class RequestTransaction(Transaction):  # type: ignore[misc]
    """A transaction that tells its manager the outcome, also if the view commits it (R2a, R4)."""

    def join(self, resource: Any) -> None:
        """Have a data manager take part. If it is refused, the object that it joins for has changed already."""
        kind = type(resource)
        if (bound := getattr(getattr(resource, "session", None), "bound", None)) is not None:
            # Without a cycle, which only the collector would end.
            resource.abort = partial(abort_session, ref(resource), ref(bound))
        elif (kind.__module__, kind.__name__) == COMMITS_AT_VOTE:
            resource.tpc_vote = partial(vote, resource)
        try:
            super().join(resource if _joining is None else _joining(resource))
        except BaseException:
            if self._manager is not None:
                self._manager.must_discard = True
            raise

    def commit(self) -> None:
        try:
            super().commit()
        except BaseException as error:
            if self._manager is not None and is_uncertain(self, error):
                self._manager.outcome = "unknown"
            raise

    def _commitResources(self) -> None:
        """Commit. Sessions of a request that have only read are ended by themselves: to be asked twice, to flush
        nothing and to vote would be 7 % of a request that reads one row."""
        sessions = (getattr(one, "session", None) for one in self._resources)
        bounds: list[Any] = [getattr(session, "bound", None) for session in sessions]
        if all(bound is not None and bound.has_only_read() for bound in bounds):
            for bound in bounds:
                bound.commit_reads()
        else:
            super()._commitResources()

    def _cleanup(self, resources: list[Any]) -> None:
        """Abort the data managers of a commit that has failed. All of them are told, also if one raises
        SystemExit and the like: otherwise it would keep its locks (R6)."""
        interrupt: BaseException | None = None
        aborts = [resource.abort for resource in resources if id(resource) not in self._voted]
        for call in (*aborts, *(resource.tpc_abort for resource in resources)):
            try:
                call(self)
            except BaseException as error:
                log.exception("%r failed after a commit that failed", call)
                if not isinstance(error, Exception):
                    interrupt = interrupt or error
        if interrupt is not None:
            if self._manager is not None:
                self._manager.must_discard = True
            raise interrupt

    def abort(self) -> None:
        if self._manager is not None:
            self._manager.undone = bool(self._resources)
        super().abort()

    def _callAfterCommitHooks(self, status: bool = True) -> None:
        """Call the functions that wait for the end of the commit. What they have done is not done again (R2a)."""
        if status and self._manager is not None:
            self._manager.undone = False
            if self._after_commit or any(map(has_stored, self._resources)):
                self._manager.outcome = "committed"
        super()._callAfterCommitHooks(status)


class Manager(TransactionManager):  # type: ignore[misc]
    """The transaction manager of one request at a time. The element that made it keeps it between requests."""

    readers: tuple[type, ...] = ()
    """Classes of data managers that may join a transaction that only reads. They refuse writes themselves."""

    unaware: tuple[type, ...] = ()
    """Classes of synchronizers that ignore their transaction argument and do nothing before the completion, so that
    no transaction is created for them."""

    def __init__(self) -> None:
        self.explicit = True
        self._synchs = WeakSet()
        self._txn: Any = None
        self.aware = False
        """True if a synchronizer looks at the transaction, so that it must be made at once."""
        self.stage = IN_USE
        """The part that the manager takes in a request: IN_USE, ENDED, IDLE or INHERITED (R13)."""
        self.deferred = False
        """True if a transaction has begun, but its object is not made yet. ``get`` makes the object."""
        self.must_discard = False
        """True if the objects in memory may differ from the database, so that this manager must not be used
        again."""
        self.outcome = ""
        """The outcome of the changes of this request: "committed", "unknown" (R4), or "" if none was stored."""
        self.undone = False
        """True if the last transaction to end was aborted after data managers had joined it."""
        self.transient_checks: list[Callable[[BaseException], bool]] = []
        """Functions that tell of an error whether the same request may succeed if it is tried again."""
        self.kept: dict[object, Any] = {}
        """Objects that elements keep with this manager from one request to the next, such as a session."""
        self.leave_callbacks: list[Callable[[], object]] = []
        """Functions that are called when the request no longer uses this manager, last in, first out."""

    def start(self) -> None:
        """Begin a transaction as ``begin`` does, but defer the making of its object until ``get`` is called.

        A request that only reads from a ZODB never calls it, since no data manager joins. Making and aborting the
        object would take a quarter of the time of such a request.
        """
        if self.aware:
            self.begin()
            return
        if self._txn is not None or self.deferred:
            raise AlreadyInTransaction
        self.deferred = True
        self._synchs.map(lambda one: one.newTransaction(None))

    def begin(self) -> Any:
        if self.deferred or self._txn is not None:
            raise AlreadyInTransaction
        self._check_in_use()
        if self.must_discard:
            raise NoTransaction(
                "a change was refused, but its objects have it in memory, and the next commit would store it. "
                "Change objects only in a transaction; this request cannot have another one"
            )
        transaction = self._txn = RequestTransaction(self._synchs, self)
        self._synchs.map(lambda one: one.newTransaction(transaction))
        return transaction

    def get(self) -> Any:
        if self._txn is None:
            if self.deferred:
                self.deferred = False
                self._txn = RequestTransaction(self._synchs, self)
            elif self.stage is ENDED:
                begin_to_read(self)
            else:
                raise NoTransaction(NO_TRANSACTION[self.stage])
        return self._txn

    def _check_in_use(self) -> None:
        """Raise NoTransaction if no request of this process uses the manager (R13)."""
        if self.stage is IDLE or self.stage is INHERITED:
            raise NoTransaction(NO_TRANSACTION[self.stage])

    def registerSynch(self, synch: Any) -> None:
        self._check_in_use()
        if self.deferred:
            if type(synch) in self.unaware:
                synch.newTransaction(None)
            else:
                self.get()
        super().registerSynch(synch)
        self._find_aware()
        self.leave_callbacks.append(self._let_go)

    def unregisterSynch(self, synch: Any) -> None:
        super().unregisterSynch(synch)
        self._find_aware()

    def clearSynchs(self) -> None:
        self._let_go()

    def _let_go(self) -> None:
        """Let go of the synchronizers that belong to the request, and not to an element."""
        kept = {id(one) for one in self.kept.values()}
        for one in self._synchs.as_weakref_list():
            if (synchronizer := one()) is not None and id(synchronizer) not in kept:
                self._synchs.remove(synchronizer)
                getattr(synchronizer, "left_open", bool)()
        self._find_aware()

    def ignore(self, kind: type) -> None:
        """Take synchronizers of a class for unaware."""
        self.unaware = (*self.unaware, kind)
        self._find_aware()

    def _find_aware(self) -> None:
        self.aware = any(type(one()) not in self.unaware for one in self._synchs.as_weakref_list())

    def abort(self) -> None:
        if self.deferred:
            self.undone = False
            self.end_deferred()
        elif self.stage is not IDLE:  # DB.close() aborts for each of its connections
            super().abort()

    def end_deferred(self) -> None:
        """End a transaction whose object was not made."""
        self.deferred = False
        self._synchs.map(lambda one: one.afterCompletion(None))

    def disown(self) -> None:
        """Drop the transaction without telling the databases: the connections belong to another process (R12)."""
        self._txn = None
        self.deferred = False
        self.stage = INHERITED
        self.must_discard = True
        self._synchs.clear()
        self.leave_callbacks.clear()

    def leave(self) -> None:
        """Abort an open transaction and run the ``leave_callbacks``. An error is logged, and the rest runs (R6)."""
        self.leave_callbacks.append(partial(abort_quietly, self))
        interrupt: BaseException | None = None
        while self.leave_callbacks:
            callback = self.leave_callbacks.pop()
            try:
                callback()
            except Exception:
                self.must_discard = True
                log.exception("%r failed after a request", callback)
            except BaseException as error:  # SystemExit and the like, after the others have run
                self.must_discard = True
                interrupt = interrupt or error
        self.stage = IDLE
        if interrupt is not None:
            raise interrupt


class DatabaseRequest(Request):
    """The attributes that every element that uses a transaction adds to a request."""

    __unkept__: Any = (("written", lambda written: ""),)  # it decides which changes are known, not what is sent
    reading_only: bool = False
    """True if further transactions of this request only read, since its changes are committed or aborted (R8)."""
    written: Positions = NOTHING
    """The last commits of the visitor, as the cookie of ``causal`` tells them."""


def begin(request: DatabaseRequest, tm: Manager) -> None:
    """Begin the transaction of a request. It can write if an element of the pipeline commits it."""
    tm.outcome = ""
    tm.stage = IN_USE
    if "commit" in request.pipeline.names and not request.reading_only:
        tm.start()
    else:
        begin_to_read(tm)


def open_tm(manager: type[Manager], request: DatabaseRequest) -> Manager:
    """Make a transaction manager for a request without a database, and begin."""
    tm = manager()
    request.on_close(tm.leave, last=True)
    begin(request, tm)
    return tm


def read_afresh(request: DatabaseRequest) -> None:
    """End the transaction of the request and begin one that only reads the current state (R8)."""
    request.reading_only = True  # also for a database that is not open yet
    tm = request.tm_in_use
    if tm is None:
        return
    abort_quietly(tm)
    request.drop()
    if not getattr(tm, "must_discard", False):
        try:
            begin_to_read(tm)
            return
        except Exception:  # the database cannot be reached, most likely
            tm.must_discard = True
    request.tm_in_use = None


def is_transient(request: Request, error: BaseException) -> bool:
    """Return whether the same request may succeed if it is tried again. This is called while the transaction is
    open, since its data managers cannot tell afterwards (R2)."""
    tm = request.tm_in_use
    if getattr(tm, "outcome", ""):
        return False  # some changes are committed, or may be (R2a, R4)
    found = [check(error) for check in getattr(tm, "transient_checks", ())]
    if isinstance(error, TransientError) or any(found):
        return True
    return tm is not None and tm._txn is not None and bool(tm._txn.isRetryableError(error))


OFFERED: dict[str, Any] = {"read_afresh": read_afresh, "is_transient": is_transient}
"""The attributes that each element of a database offers to the core."""


def begin_to_read(tm: TransactionManager) -> None:
    """Begin a transaction in which no data manager can join to write (R8)."""
    transaction = tm.begin()
    transaction.reads_only = True
    transaction.join = partial(_join_to_read, tm)


def _join_to_read(tm: TransactionManager, resource: object) -> None:
    """Replace the method ``join`` of a transaction that only reads."""
    if not isinstance(resource, getattr(tm, "readers", ())):
        raise refusal(tm, resource)
    transaction = tm.get()
    type(transaction).join(transaction, resource)


def reads_only(tm: TransactionManager) -> bool:
    """Return whether the open transaction only reads."""
    return getattr(tm._txn, "reads_only", False)


def refusal(tm: TransactionManager, what: object) -> ReadOnlyTransaction:
    """Return the error for a write in a transaction that only reads."""
    tm.must_discard = True  # an object joins after it was changed in memory
    return ReadOnlyTransaction(
        f"a write to {what!r:.200}, in a transaction that only reads (R8). Code inside the element 'transaction' "
        f"can write until the answer is complete. A pipeline without that element, an error view, and a body that "
        f"is made while it is sent can only read"
    )


def is_open(tm: TransactionManager) -> bool:
    """Return whether a transaction is open."""
    return tm._txn is not None or getattr(tm, "deferred", False)


def joined(tm: TransactionManager) -> list[Any]:
    """Return the data managers that have joined the open transaction."""
    return list(tm._txn._resources)


def has_stored(resource: Any) -> bool:
    """Return whether a data manager had changes to commit. zope.sqlalchemy marks a session without changes."""
    return getattr(resource, "state", None) != "no work"


def end_unchanged(tm: TransactionManager) -> bool:
    """End the transaction if nothing has joined it, and no synchronizer may join before its end. Return whether no
    transaction is open afterwards. Raise TransientError if another thread has ended it, with the changes in it."""
    transaction = tm._txn
    if transaction is None:
        if getattr(tm, "deferred", False):
            tm.end_deferred()
        elif getattr(tm, "stage", IN_USE) is IDLE and tm.undone:
            raise TransientError("the database was closed in this process, with the changes of this request")
        return True
    if transaction._resources or transaction._before_commit or transaction._after_commit:
        return False
    if transaction._before_abort or transaction._after_abort or getattr(tm, "aware", True):
        return False
    transaction.abort()
    return True


def is_uncertain(transaction: Any, error: BaseException) -> bool:
    """Return whether some or all of a failed commit may be stored (R4): all data managers had voted for it, or
    one that commits when it votes, as zope.sqlalchemy does without ``twophase``, has done so."""
    one_stored = any(getattr(resource, "state", None) == "committed" for resource in transaction._resources)
    return all_voted(transaction) or one_stored or isinstance(error, CommitUncertain)


def all_voted(transaction: Any) -> bool:
    """Return whether all data managers of a transaction have voted for its commit."""
    resources = transaction._resources
    return bool(resources) and all(id(resource) in transaction._voted for resource in resources)


def is_committing(tm: TransactionManager) -> bool:
    """Return whether the open transaction is being committed."""
    return tm._txn is not None and tm._txn.status == Status.COMMITTING


def is_committed(transaction: Any) -> bool:
    """Return whether a transaction that has ended was committed."""
    return bool(transaction.status == Status.COMMITTED)


class OfRequest:
    """Stands for the transaction manager of a thread while a request runs there: that of the request. ZODB's own
    documentation, and libraries, write ``transaction.abort()`` and ``transaction.get()``, which would do nothing to
    ``request.tm``, without a word.

    A foreign application is called with the thread's own (``pipeline.foreign``): it ends its transactions itself.
    """

    __slots__ = ("outer", "request")

    request: Any
    outer: Any
    """The manager that was there before."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.request.tm, name)


def of_all(manager: Any) -> Any:
    """Return a thread's own manager, by the one that stands there now."""
    while type(manager) is OfRequest:
        manager = manager.outer
    return manager


def manager_here() -> Manager | None:
    """Return the transaction manager of the request whose view runs in this thread."""
    here = of_thread.manager
    tm = getattr(here.request, "tm_in_use", None) if type(here) is OfRequest else here
    return tm if isinstance(tm, Manager) else None


def note_own_commit(outcome: str = "committed") -> None:
    """Note that the view has committed beside the transaction of its request: it must not run again (R2a).

    outcome  "unknown" if it may have done so
    """
    if (tm := manager_here()) is not None:
        tm.outcome = tm.outcome or outcome


def abort_quietly(tm: TransactionManager) -> None:
    """Abort the transaction if one is open. An error is logged (R6)."""
    if is_open(tm):
        try:
            tm.abort()
        except BaseException as error:
            tm.must_discard = True
            if not isinstance(error, Exception):
                raise
            log.exception("a transaction could not be aborted properly")
