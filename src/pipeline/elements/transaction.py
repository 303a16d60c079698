"""``transaction``: the changes of a request are committed before the first byte is sent, or not at all."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from transaction import TransactionManager
from transaction import manager as of_thread
from transaction.interfaces import TransientError
from webob import Response as AnyResponse
from webob.exc import WSGIHTTPException

from pipeline.composition import Offers, element
from pipeline.database.transactions import (
    ENDED,
    IN_USE,
    OFFERED,
    DatabaseRequest,
    Manager,
    OfRequest,
    abort_quietly,
    begin_to_read,
    end_unchanged,
    is_open,
    is_uncertain,
    open_tm,
    reads_only,
)
from pipeline.declared import runs_nothing, takes
from pipeline.http.error_pages import log_failure
from pipeline.interfaces import CommitUncertain, Facts, Handler, ReadOnlyTransaction
from pipeline.request import Request
from pipeline.response import Response

log = logging.getLogger("pipeline.transaction")

Veto = Callable[[Request, AnyResponse], bool]

LONGEST_NOTE = 1_000
"""Characters of the path that are stored with a transaction. Some databases have room for 65,535 bytes."""
LONGEST_USER = 200
"""Characters of the user that are stored with a transaction."""


def annotate(request: Any) -> None:
    """Note the method and the path of a request on its transaction, and its user."""
    transaction = request.tm.get()
    transaction.note(f"{request.method[:20]} {request.path_info_safe}"[:LONGEST_NOTE])
    if request.principal is not None and not transaction.user:
        letters = request.principal[:LONGEST_USER]
        transaction.user = "".join(letter if letter.isprintable() else "?" for letter in letters)


class TransactionRequest(DatabaseRequest):
    """The attributes that ``transaction`` adds to a request."""

    commit_on_error: bool = False
    """Set to True by a view whose changes must be committed also if its answer is a 4xx or 5xx (R3)."""
    _stands_for_error: bool = False
    """True if the answer stands for an error, although its status is below 400. Its changes are aborted (R3)."""
    annotate: Callable[[Any], None] = staticmethod(annotate)
    """``(request)`` annotates the transaction that is about to be committed. Another element may offer another."""
    failed_after_commit: Exception | None = None
    """The last error of a function that was given to ``after_commit``."""

    def after_commit(self, function: Callable[..., object], *args: Any) -> None:
        """Have ``function(*args)`` called once, when the changes of this request are stored.

        It is not called if they are not: after an error, a conflict, an abort, a status from 400 on. It runs in
        this request, before the answer is sent: a longer task belongs into a queue. Its error is logged and
        counted, and the answer stays, since everything is stored. It can read the objects of the request, and
        cannot change them. Raises ReadOnlyTransaction if nothing can be stored any more, such as while a body is
        streamed (R8).
        """
        if not callable(function):
            raise TypeError(f"after_commit({function!r:.200}): give it a function, and behind it the arguments")
        if reason := runs_nothing(function):
            raise TypeError(f"after_commit({function!r:.200}): the function {reason}")
        if not takes(len(args), function):
            raise TypeError(f"after_commit({function!r:.200}): it cannot be called with {len(args)} arguments")
        transaction = self.tm.get()
        if reads_only(self.tm):
            raise ReadOnlyTransaction(f"after_commit({function!r:.200}) in a transaction that only reads (R8)")
        transaction.addAfterCommitHook(call_if_stored, (self, function, args))


def call_if_stored(is_stored: bool, request: TransactionRequest, function: Callable[..., Any], args: Any) -> None:
    """Call a function that was given to ``after_commit``."""
    if is_stored:
        try:
            done = function(*args)
            if hasattr(done, "add_done_callback"):  # a future, whose error is seen here alone of a job
                done.add_done_callback(lambda job: call_if_stored(True, request, job.result, ()))
        except Exception as error:
            request.failed_after_commit = error
            log_failure(request, error, f"after the commit, in {function!r:.200}")


@element(
    adds=TransactionRequest,
    provides=("commit",),
    inside={"database": "it commits what that connection changed, before the first byte"},
    facts=lambda **options: Facts(useless_without="database"),
)
def transaction(next: Handler, *, veto: Veto | None = None, manager: type[Manager] = Manager) -> Offers:
    """Commit when the request is answered. Abort on an exception, on doom, and on a status from 400 on (R1, R3,
    R5).

    veto     dotted name of ``(request, response) -> bool``, called before a commit; a true result aborts
    manager  class of the transaction managers that this element makes, in an ini its dotted name; default
             pipeline.database.transactions:Manager

    A view whose changes must be committed also if its answer is a 4xx or 5xx, returned or raised, sets
    ``request.commit_on_error = True``. A redirect is an answer, returned or raised.

    A transaction exists only if the request uses one (``request.tm``). If no database offers it, this element makes
    it, for data managers that a view joins. The transaction is annotated with method, path and principal. After its
    end the request can only read. A streamed body, but for a plain file, reads in a transaction of its own (R8).

    While a view runs, ``transaction.get()``, ``transaction.abort()`` and the like mean ``request.tm``. A foreign
    application, and what stands behind a foreign middleware, has the manager of the thread.

    A commit that fails raises its error, or CommitUncertain if some of it may be stored (R4). A view may commit by
    itself (``request.tm.commit()``). Then the request is not tried again, whatever error follows (R2a).
    """

    def transaction(request: TransactionRequest, response: Response) -> None:
        tm = request.tm_in_use
        if tm is not None and (reads_only(tm) or not is_open(tm)):  # an outer element has used it
            if is_open(tm):
                tm.abort()
            tm.stage = IN_USE
            tm.begin()
        thread = of_thread.__dict__  # once: this takes longer than the lines below
        outer = thread["manager"]
        if outer is not tm:
            here = thread["manager"] = OfRequest()
            here.request, here.outer = request, outer
        try:
            next(request, response)
            tm = request.tm_in_use
            if tm is not None:
                if not end_unchanged(tm):
                    _end(request, response, tm, veto)
                tm.stage = ENDED
                if getattr(tm, "outcome", ""):
                    request.outcome = tm.outcome  # also if the view has committed by itself (R2a)
            else:
                request.reading_only = True
        except BaseException as error:
            tm = request.tm_in_use
            if tm is None:
                request.reading_only = True
            else:
                try:
                    _undo(request, error, tm, veto)
                finally:
                    tm.stage = ENDED
                    request.outcome = request.outcome or getattr(tm, "outcome", "")
            raise
        finally:
            thread["manager"] = outer
        if request.outcome and response.status >= "400":
            response.headers["X-Outcome"] = request.outcome  # as on the page of an error
        if response.filters or not (response.in_memory or getattr(response.blocks, "is_plain_file", False)):
            request.reading_only = True
            if tm is not None:
                _read_on(tm)

    return Offers(transaction, tm=partial(open_tm, manager), **OFFERED)


def _end(request: TransactionRequest, answer: AnyResponse, tm: TransactionManager, veto: Veto | None) -> None:
    """Commit or abort, according to the answer (R3)."""
    if (
        ((answer.status >= "400" or request._stands_for_error) and not request.commit_on_error)
        or tm.isDoomed()
        or (veto is not None and veto(request, answer))
    ):
        tm.abort()
    else:
        request.annotate(request)
        try:
            tm.commit()
        except BaseException as error:
            if not isinstance(error, TransientError):
                tm.must_discard = True
            if getattr(tm, "outcome", "") == "unknown" or is_uncertain(tm.get(), error):
                request.outcome = "unknown"
                if isinstance(error, Exception) and not isinstance(error, CommitUncertain):
                    raise CommitUncertain(f"{type(error).__name__}, while the changes were committed") from error
            raise
        request.outcome = getattr(tm, "outcome", "committed")  # the manager of a foreign element has no outcome


def _undo(request: TransactionRequest, error: BaseException, tm: TransactionManager, veto: Veto | None) -> None:
    """End the transaction after an exception: abort, unless the exception is an answer. No error hides another
    (R6)."""
    if isinstance(error, WSGIHTTPException) and (is_open(tm) or not end_unchanged(tm)):
        try:
            _end(request, error, tm, veto)
        except BaseException as failure:
            _undo_all(request, tm, failure)
            raise
    else:
        _undo_all(request, tm, error)


def _undo_all(request: Request, tm: TransactionManager, error: BaseException) -> None:
    if isinstance(error, Exception):
        request.judge(error)  # while its data managers still know
    abort_quietly(tm)


def _read_on(tm: TransactionManager) -> None:
    """Begin a transaction for reading while the body is sent. An error is only logged: the changes are
    committed."""
    try:
        if is_open(tm):
            tm.abort()
        begin_to_read(tm)
    except Exception:
        tm.must_discard = True
        log.warning("there is no transaction for the body to read in", exc_info=True)
