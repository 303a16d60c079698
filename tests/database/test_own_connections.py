"""What a view does by connections of its own to an object database: nothing is stored twice (R2a), and a connection
that it leaves open is met by no other request (R13). ``tests/servers`` has the same for SQL databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from transaction import ThreadTransactionManager, TransactionManager
from ZODB.DB import DB
from ZODB.FileStorage import FileStorage
from ZODB.POSException import ConflictError, ConnectionStateError

from around_a_view import ask, end
from failing_twice import fails_twice
from pipeline import Pipeline
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import close_all, zodb


class Objects:
    """Two databases of objects in files: opened by the element, or by the application."""

    def __init__(self, place: Path, is_given: bool) -> None:
        self.place = place
        self.opened: list[DB] = []
        if is_given:
            databases: dict[str, DB] = {}
            for name in ("main", "two"):
                storage = FileStorage(str(place / f"{name}.fs"))
                self.opened.append(DB(storage, databases=databases, database_name=name))
            self.element = zodb(db=self.opened[0])
        else:
            self.element = zodb(uri=f"file://{place}/main.fs", databases={"two": f"file://{place}/two.fs"})

    def ask(self, view: Any) -> Any:
        return ask(Pipeline(retry(attempts=5, delay=0), self.element, errors(), transaction(), end(view=view)))

    def stored(self) -> int:
        """Close the databases. Return how often a view has stored something in them, read afresh."""
        close_all()
        for db in self.opened:
            db.close()
        found = 0
        for file in self.place.glob("*.fs"):
            with closing(DB(FileStorage(str(file)))) as db, db.transaction() as connection:
                found += connection.root().get("own", 0)
        return found


@pytest.fixture(params=[False, True], ids=["opened by its URI", "opened by the application"])
def objects(request: Any, tmp_path: Path) -> Iterator[Objects]:
    objects = Objects(tmp_path, request.param)
    yield objects
    close_all()
    for db in objects.opened:
        db.close()


def add(connection: Any) -> None:
    connection.root()["own"] = connection.root().get("own", 0) + 1


def in_a_transaction_of_the_database(request: Any) -> None:
    with request.zodb.db().transaction() as connection:
        add(connection)


def by_a_manager(request: Any) -> None:
    manager = TransactionManager()
    with closing(request.zodb.db().open(manager)) as connection:
        add(connection)
        manager.commit()


def by_a_manager_of_threads(request: Any) -> None:
    manager = ThreadTransactionManager()
    with closing(request.zodb.db().open(manager)) as connection:
        add(connection)
        manager.commit()


def in_the_other_database(request: Any) -> None:
    manager = TransactionManager()
    with closing(request.zodb.db().databases["two"].open(manager)) as connection:
        add(connection)
        manager.commit()


@pytest.mark.parametrize(
    "work",
    [in_a_transaction_of_the_database, by_a_manager, by_a_manager_of_threads, in_the_other_database],
    ids=lambda work: work.__name__,
)
def test_a_view_that_commits_by_a_connection_of_its_own_is_not_run_again__R2a(
    objects: Objects, work: Callable[[Any], None]
) -> None:
    view, attempts = fails_twice(work, ConflictError("of the test"))
    answer = objects.ask(view)
    assert (answer.status, answer.headers["X-Outcome"], attempts) == (500, "committed", [1])
    assert objects.stored() == 1


def test_a_new_database_beside_the_first_counts_as_nothing_of_the_view(objects: Objects) -> None:
    view, attempts = fails_twice(
        lambda request: add(request.zodb.get_connection("two")), ConflictError("of the test")
    )
    assert (objects.ask(view).status, attempts, objects.stored()) == (200, [1, 2, 3], 1)


def test_a_connection_that_a_view_leaves_open_keeps_no_database_open(objects: Objects) -> None:
    left: list[Any] = []

    def view(request: Any, response: Any) -> None:
        left.append(request.zodb.db().open())
        add(left[0])

    assert objects.ask(view).status == 200
    assert objects.stored() == 1  # the file is free


def test_a_connection_that_is_left_open_is_of_no_other_request__R13(objects: Objects) -> None:
    left: list[Any] = []

    def leave(request: Any, response: Any) -> None:
        request.root["is"] = "there"
        left.append(request.zodb.db().open())
        left.append(left[0].root())
        left[1].get("own")

    def change(request: Any, response: Any) -> None:
        request.root["is"] = "changed"
        with pytest.raises(ConnectionStateError):
            left[1]["own"] = 1

    def read(request: Any, response: Any) -> None:
        left[1]._p_deactivate()
        with pytest.raises(ConnectionStateError):
            left[1].get("own")

    assert [objects.ask(view).status for view in (leave, change, read)] == [200, 200, 200]
    assert objects.stored() == 0


def test_a_connection_of_another_thread_keeps_no_database_open(tmp_path: Path) -> None:
    objects = Objects(tmp_path, is_given=False)
    left: list[Any] = []

    def work(db: DB) -> None:
        left.append(db.open())
        add(left[0])

    def view(request: Any, response: Any) -> None:
        thread = Thread(target=work, args=(request.zodb.db(),))
        thread.start()
        thread.join()

    assert objects.ask(view).status == 200
    assert objects.stored() == 0  # and the file is free
