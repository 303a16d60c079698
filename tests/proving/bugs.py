"""Bugs of the pipeline and its elements that are put back, so that the proof can be seen to find them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from pipeline import Request, Response, element
from pipeline.database import transactions, zodb_pools
from pipeline.interfaces import Handler

T, R = (import_module(f"pipeline.elements.{name}") for name in ("transaction", "retry"))
"""The modules: the elements have their names."""


def commit_after_the_first_byte(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(T, "_end", lambda request, answer, tm, veto: request.on_close(tm.commit))


def commit_on_error(patch: pytest.MonkeyPatch) -> None:
    def undo(request: Any, error: BaseException, tm: Any, veto: Any) -> None:
        if isinstance(error, Exception) and tm._txn is not None:
            tm.commit()
        else:
            tm.abort()

    patch.setattr(T, "_undo", undo)


def retry_after_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(R, "may_try_again", lambda request, failure, body: request.attempts_left > 0)


def connection_not_given_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(zodb_pools.PooledConnection, "give_back", lambda self: None)


def no_abort(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(T, "_undo", lambda request, error, tm, veto: None)
    patch.setattr(transactions.Manager, "leave", lambda self: setattr(self, "stage", transactions.IDLE))


def silent_uncertainty(patch: pytest.MonkeyPatch) -> None:
    for module in (T, transactions):
        patch.setattr(module, "is_uncertain", lambda transaction, error: False)
    bound = "pipeline.database.sql_sessions.Bound"
    patch.setattr(f"{bound}.send_commit", lambda self: setattr(self, "committing", True))


def must_discard_ignored(patch: pytest.MonkeyPatch) -> None:
    ignored = property(lambda self: False, lambda self, value: None)
    patch.setattr(transactions.Manager, "must_discard", ignored, raising=False)


def phantom_after_an_abort(patch: pytest.MonkeyPatch) -> None:
    def abort(self: Any, transaction: Any) -> None:
        for obj in self._registered_objects:
            obj._p_changed = False
        self._registered_objects = []
        self._tpc_cleanup()

    patch.setattr("pipeline.database.connections.RequestConnection.abort", abort)


@element
def swallow(next: Handler) -> Handler:
    """Answer as if nothing had failed."""

    def swallow(request: Request, response: Response) -> None:
        try:
            next(request, response)
        except Exception:
            response.text = "all is well"

    return swallow
