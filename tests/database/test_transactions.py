"""The transaction manager of a request, whose transaction is made when somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from transaction import Transaction
from transaction.interfaces import AlreadyInTransaction, NoTransaction
from ZODB.Connection import Connection
from ZODB.DB import DB

from pipeline.database.transactions import (
    Manager,
    RequestTransaction,
    abort_quietly,
    begin_to_read,
    end_unchanged,
    is_open,
    reads_only,
)


class Told:
    """A synchronizer that notes what it is told, and of which transaction."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, Any]] = []

    def newTransaction(self, transaction: Any) -> None:
        self.notes.append(("new", transaction))

    def beforeCompletion(self, transaction: Any) -> None:
        self.notes.append(("before", transaction))

    def afterCompletion(self, transaction: Any) -> None:
        self.notes.append(("after", transaction))


class Unaware(Told):
    """One that does not look at the transaction."""


@pytest.fixture
def manager() -> Manager:
    manager = Manager()
    manager.unaware = (Unaware,)
    return manager


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The transactions that were made."""
    made: list[Any] = []

    def make(*arguments: Any) -> Any:
        made.append(RequestTransaction(*arguments))
        return made[-1]

    monkeypatch.setattr("pipeline.database.transactions.RequestTransaction", make)
    return made


def test_none_is_made_for_whom_nobody_asks(manager: Manager, made: list[Any]) -> None:
    manager.registerSynch(unaware := Unaware())
    for _ in range(2):
        manager.start()
        assert is_open(manager) and not reads_only(manager)
        assert end_unchanged(manager) and not is_open(manager)
    manager.start()
    manager.abort()
    manager.start()
    abort_quietly(manager)
    assert (made, unaware.notes) == ([], 4 * [("new", None), ("after", None)])


def test_who_asks_gets_the_one_that_was_begun(manager: Manager, made: list[Any]) -> None:
    manager.registerSynch(unaware := Unaware())
    manager.start()
    transaction = manager.get()
    assert manager.get() is transaction and made == [transaction] and is_open(manager)
    manager.commit()
    assert not is_open(manager)
    assert unaware.notes == [("new", None), ("before", transaction), ("after", transaction)]


@pytest.mark.parametrize(
    "ask",
    [
        lambda manager: manager.get().note("x"),
        lambda manager: manager.doom(),
        lambda manager: manager.isDoomed(),
        lambda manager: manager.savepoint(optimistic=True),
        lambda manager: manager.commit(),
    ],
)
def test_whatever_needs_one_makes_it(manager: Manager, made: list[Any], ask: Callable[[Manager], Any]) -> None:
    manager.start()
    ask(manager)
    assert len(made) == 1


def test_one_transaction_at_a_time(manager: Manager) -> None:
    for begin in (manager.start, manager.begin, manager.__enter__, lambda: begin_to_read(manager)):
        manager.start()
        with pytest.raises(AlreadyInTransaction):
            begin()
        manager.get()
        with pytest.raises(AlreadyInTransaction):
            begin()
        manager.abort()
    for after in (manager.get, manager.commit, manager.abort, manager.doom):
        with pytest.raises(NoTransaction):
            after()


def test_who_looks_at_the_transaction_gets_one(manager: Manager, made: list[Any]) -> None:
    """Whether such a synchronizer was there before or comes in the middle."""
    manager.registerSynch(unaware := Unaware())
    manager.start()
    manager.registerSynch(late := Unaware())
    assert late.notes == [("new", None)] and made == []
    manager.registerSynch(told := Told())
    assert told.notes == [("new", made[0])] and manager.get() is made[0]
    assert not end_unchanged(manager) and is_open(manager), "it may join before the end"
    manager.commit()
    manager.start()
    assert [what for what, _ in told.notes] == ["new", "before", "after", "new"]
    assert told.notes[-1] == unaware.notes[-1] == ("new", made[1]) and len(made) == 2


def test_synchronizers_are_kept_once_and_let_go(manager: Manager) -> None:
    told = Told()
    manager.registerSynch(told)
    manager.registerSynch(told)
    assert manager.registeredSynchs()
    manager.begin()
    assert len(told.notes) == 1
    manager.abort()
    manager.unregisterSynch(told)
    with pytest.raises(KeyError):
        manager.unregisterSynch(told)
    manager.begin()
    assert len(told.notes) == 3 and not manager.registeredSynchs()
    manager.abort()
    manager.registerSynch(told)
    manager.clearSynchs()
    assert not manager.registeredSynchs()


def test_synchronizers_are_held_weakly(manager: Manager) -> None:
    """As the package ``transaction`` does: a site must not keep them alive by mistake."""
    told = Told()
    notes = told.notes
    manager.registerSynch(told)
    del told
    manager.begin()
    assert notes == [] and len(manager._synchs) == 0


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_manager_is_discarded_if_a_data_manager_cannot_join(
    error: type[BaseException], manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any data manager may join for an object that has changed already, not only the connection of a ZODB (R13)."""

    def fail(transaction: Any, resource: Any) -> None:
        raise error

    monkeypatch.setattr(Transaction, "join", fail)
    with pytest.raises(error):
        manager.begin().join(object())
    assert manager.must_discard


def test_a_connection_sees_what_was_stored_and_stores_without_one_being_made_before(made: list[Any]) -> None:
    db = DB(None)
    first, second = Manager(), Manager()
    for manager in (first, second):
        manager.unaware = (Connection,)
    writer, reader = (db.open(transaction_manager=manager) for manager in (first, second))
    made.clear()
    for number in range(3):
        first.start()
        assert made == []
        writer.root()["number"] = number
        assert len(made) == 1, "the connection has asked for it, to join"
        assert not end_unchanged(first)
        first.commit()
        second.start()
        assert reader.root()["number"] == number
        assert end_unchanged(second)
        made.clear()
    writer.close()
    reader.close()
    db.close()
