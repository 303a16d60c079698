"""``transaction``: what a request changed is committed before its first byte leaves, or not at all."""

from __future__ import annotations

import logging
from collections.abc import Callable

from transaction import TransactionManager
from transaction.interfaces import TransientError
from webob import Response as AnyResponse
from webob.exc import WSGIHTTPException

from pipeline.composition import Offers, element
from pipeline.database.transactions import (
    OFFERED,
    DatabaseRequest,
    Manager,
    abort_quietly,
    begin,
    begin_to_read,
    end_unchanged,
    is_open,
    is_uncertain,
    reads_only,
)
from pipeline.interfaces import CommitUncertain, Handler
from pipeline.request import Request
from pipeline.response import Response

log = logging.getLogger("pipeline.transaction")

Veto = Callable[[Request, AnyResponse], bool]

LONGEST_NOTE = 1_000
"""Characters of the path that the database keeps with a transaction; some have room for 65,535 bytes."""
LONGEST_USER = 200
"""Characters of the user likewise."""


class TransactionRequest(DatabaseRequest):
    """What ``transaction`` adds to a request."""

    commit_on_error: bool = False
    """Set by a view whose changes are to be committed also if its answer is a 4xx or 5xx (R3)."""


@element(
    adds=TransactionRequest,
    inside={"database": "it commits what that connection changed, before the first byte"},
)
def transaction(next: Handler, *, veto: Veto | None = None) -> Offers:
    """Commit when answered; abort on an exception, on doom, and on a status of 400 and above (R1, R3, R5).

    veto  dotted name of ``(request, response) -> bool``, asked when all else is well: true aborts

    A view whose changes are to be committed also if its answer is a 4xx or 5xx, returned or raised, sets
    ``request.commit_on_error = True``. A redirect is an answer, returned or raised.

    There is a transaction only if the request uses one (``request.tm``). Where no database makes it, this
    element does, for data managers that a view joins. It is annotated with method, path and principal. Once
    it is over, the request can only read: a body that is streamed does so in a transaction of its own (R8).

    A commit that fails raises what it failed with; if then a part of it may be stored, CommitUncertain (R4). A
    view may commit by itself (``request.tm.commit()``); then it is not tried again, whatever it meets (R2a).
    """

    def transaction(request: TransactionRequest, response: Response) -> None:
        tm = request.tm_in_use
        if tm is not None and reads_only(tm):  # begun outside, where there is nobody to commit it
            tm.abort()
            tm.begin()
        try:
            next(request, response)
            tm = request.tm_in_use
            if tm is not None:
                if not end_unchanged(tm):
                    _end(request, response, tm, veto)
                if getattr(tm, "outcome", ""):
                    request.outcome = tm.outcome  # also of what the view has committed by itself (R2a)
        except BaseException as error:
            tm = request.tm_in_use
            if tm is not None:
                try:
                    _undo(request, error, tm, veto)
                finally:
                    request.outcome = request.outcome or getattr(tm, "outcome", "")
            raise
        if not response.in_memory or response.filters:
            request.reading_only = True
            if tm is not None:
                _read_on(tm)

    return Offers(transaction, tm=_open_tm, **OFFERED)


def _open_tm(request: DatabaseRequest) -> TransactionManager:
    """A transaction manager for a pipeline without databases."""
    tm = Manager()
    request.on_close(tm.leave, last=True)
    begin(request, tm)
    return tm


def _end(request: TransactionRequest, answer: AnyResponse, tm: TransactionManager, veto: Veto | None) -> None:
    """Commit or abort, as the answer asks for (R3)."""
    if (
        (answer.status >= "400" and not request.commit_on_error)
        or tm.isDoomed()
        or (veto is not None and veto(request, answer))
    ):
        tm.abort()
    else:
        _annotate(request)
        try:
            tm.commit()
        except BaseException as error:
            if not isinstance(error, TransientError):
                tm.must_discard = True
            if is_uncertain(tm.get(), error):
                request.outcome = "unknown"
                if isinstance(error, Exception) and not isinstance(error, CommitUncertain):
                    raise CommitUncertain(f"{type(error).__name__}, after all had voted to commit") from error
            raise
        request.outcome = getattr(tm, "outcome", "committed")  # a manager of another element does not tell


def _annotate(request: Request) -> None:
    transaction = request.tm.get()
    transaction.note(f"{request.method[:20]} {request.path_info_safe}"[:LONGEST_NOTE])
    if request.principal is not None and not transaction.user:
        letters = request.principal[:LONGEST_USER]
        transaction.user = "".join(letter if letter.isprintable() else "?" for letter in letters)


def _undo(request: TransactionRequest, error: BaseException, tm: TransactionManager, veto: Veto | None) -> None:
    """End what an exception interrupted: by abort, if it is no answer. No error is hidden by another (R6)."""
    if isinstance(error, WSGIHTTPException) and is_open(tm):
        try:
            _end(request, error, tm, veto)
        except BaseException as failure:
            _undo_all(request, tm, failure)
            raise
    else:
        _undo_all(request, tm, error)


def _undo_all(request: Request, tm: TransactionManager, error: BaseException) -> None:
    if isinstance(error, Exception):
        request.judge(error)  # while its data managers can be asked
    abort_quietly(tm)


def _read_on(tm: TransactionManager) -> None:
    """Begin a transaction for what is read while the answer is sent. Nothing may fail: it is committed."""
    try:
        if is_open(tm):
            tm.abort()
        begin_to_read(tm)
    except Exception:
        tm.must_discard = True
        log.warning("there is no transaction for the body to read in", exc_info=True)
