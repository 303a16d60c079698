"""``transaction.manager`` in a view is ``request.tm``: the idioms of ZODB's and Pyramid's documentation hold.

What is stored is read from the databases afresh.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import transaction as package
import ZODB
from sqlalchemy import text

from around_a_view import ask, end
from pipeline import Pipeline, Request, Response
from pipeline.composition import Element
from pipeline.database.sql_databases import close_all as close_sql
from pipeline.elements.errors import errors
from pipeline.elements.sql import sql
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import close_all, zodb

Change = Callable[[Request], None]
IDIOMS: dict[str, tuple[Callable[[Change, Request], None], int, bool]] = {}
"""By name: what a view does with a change, the status of the answer, and whether the change is stored."""


def idiom(status: int, stored: bool) -> Callable[[Any], Any]:
    def note(function: Any) -> Any:
        IDIOMS[function.__name__] = (function, status, stored)
        return function

    return note


@idiom(200, True)
def nothing(change: Change, request: Request) -> None:
    change(request)


@idiom(200, False)
def abort(change: Change, request: Request) -> None:
    change(request)
    package.abort()


@idiom(200, False)
def doom(change: Change, request: Request) -> None:
    change(request)
    package.doom()


@idiom(200, False)
def doom_before_the_first_use(change: Change, request: Request) -> None:
    package.doom()
    change(request)


@idiom(200, False)
def abort_the_object(change: Change, request: Request) -> None:
    change(request)
    package.get().abort()


@idiom(200, True)
def commit(change: Change, request: Request) -> None:
    change(request)
    package.commit()


@idiom(500, False)
def begin(change: Change, request: Request) -> None:
    change(request)
    package.begin()


@idiom(500, False)
def with_a_manager(change: Change, request: Request) -> None:
    with package.manager:
        change(request)


@idiom(500, False)
def a_hook_that_fails(change: Change, request: Request) -> None:
    package.get().addBeforeCommitHook(lambda: 1 / 0)
    change(request)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The elements of each kind of database, and how it is changed and read afresh."""
    file, table = tmp_path / "Data.fs", tmp_path / "site.sqlite"
    with closing(sqlite3.connect(table)) as connection, connection:
        connection.execute("CREATE TABLE t (v text)")

    def in_zodb() -> bool:
        close_all()
        opened = ZODB.DB(str(file))
        try:
            with opened.transaction() as connection:
                return "key" in connection.root()
        finally:
            opened.close()

    def in_sql() -> bool:
        close_sql()
        with closing(sqlite3.connect(table)) as connection, connection:
            return bool(connection.execute("SELECT * FROM t").fetchall())

    elements: dict[str, Element] = {"zodb": zodb(uri=f"file://{file}"), "sql": sql(url=f"sqlite:///{table}")}
    changes = {
        "zodb": (lambda request: request.root.__setitem__("key", "value"), in_zodb),
        "sql": (lambda request: request.sql.execute(text("INSERT INTO t VALUES ('value')")), in_sql),
    }
    yield elements, changes
    close_all()
    close_sql()


@pytest.mark.parametrize("kind", ["zodb", "sql"])
@pytest.mark.parametrize("name", IDIOMS)
def test_an_idiom_means_the_transaction_of_the_request(name: str, kind: str, site: Any) -> None:
    elements, changes = site
    change, is_stored = changes[kind]
    does, status, stored = IDIOMS[name]

    def view(request: Request, response: Response) -> list[bytes]:
        does(change, request)
        return [b"done"]

    app = Pipeline(elements[kind], errors(), transaction(), end(view=view))
    assert ask(app).status == status
    assert is_stored() is stored
    assert package.manager.manager._txn is None


def test_a_savepoint_takes_back_a_part(site: Any) -> None:
    elements, (change, is_stored) = site[0], site[1]["zodb"]

    def view(request: Request, response: Response) -> list[bytes]:
        request.root["other"] = 1
        savepoint = package.savepoint()
        change(request)
        savepoint.rollback()
        return [b"done"]

    assert ask(Pipeline(elements["zodb"], transaction(), end(view=view))).status == 200
    assert not is_stored()


def test_a_hook_is_called_without_a_database() -> None:
    called: list[bool] = []

    def view(request: Request, response: Response) -> list[bytes]:
        package.get().addAfterCommitHook(called.append)
        return [b"done"]

    assert ask(Pipeline(errors(), transaction(), end(view=view))).status == 200
    assert called == [True]


def test_a_foreign_application_has_that_of_the_thread(site: Any) -> None:
    seen: list[Any] = []

    def app(environ: Any, start_response: Any) -> list[bytes]:
        seen.append(package.get())
        package.abort()
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"foreign"]

    def view(request: Request, response: Response) -> list[bytes]:
        seen.append(package.get())
        return [b"native"]

    assert ask(Pipeline(site[0]["zodb"], errors(), transaction(), app)).status == 200
    assert ask(Pipeline(site[0]["zodb"], errors(), transaction(), end(view=view))).status == 200
    assert [type(one).__name__ for one in seen] == ["Transaction", "RequestTransaction"]


def test_outside_of_requests_a_thread_has_its_own(site: Any) -> None:
    """After a request, in a thread of the view, and in an error view."""
    seen: dict[str, Any] = {}

    def view(request: Request, response: Response) -> list[bytes]:
        beside = Thread(target=lambda: seen.update(beside=package.get()))
        beside.start()
        beside.join()
        return [b"done"]

    assert ask(Pipeline(site[0]["zodb"], errors(), transaction(), end(view=view))).status == 200
    seen["after"] = package.get()
    package.abort()
    assert {type(one).__name__ for one in seen.values()} == {"Transaction"}
    assert type(package.manager.manager) is package.TransactionManager
