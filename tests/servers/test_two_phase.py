"""``twophase`` on PostgreSQL, beside a ZODB: both are committed, or neither is; and what is left if not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import webob
from sqlalchemy import text
from transaction.interfaces import TransientError

from pipeline import Pipeline, Request, Response, element
from pipeline.database import sql_databases as sql_module
from pipeline.database import zodb_pools
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.sql import sql
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import zodb
from pipeline.testing import FakeDataManager
from pipeline.testing.faults import Fault
from servers.postgres import Postgres

pytestmark = pytest.mark.servers


@element
def end(*, fails: Any) -> Any:
    """Writes to both databases, beside a third that may fail at its first attempt, after the others' votes."""

    def end(request: Request, response: Response) -> None:
        request.root["written"] = request.root.get("written", 0) + 1
        request.sql.execute(text("INSERT INTO written VALUES (1)"))
        if request.attempt == 1:
            FakeDataManager(request.tm, fails=fails, key="~last").join()

    return end


@pytest.fixture
def ask(postgres: Postgres, new_name: Callable[[], str], tmp_path: Path) -> Iterator[Any]:
    """What is answered where something fails, and how much is stored then: objects, rows, and promises."""
    postgres.create(name := new_name())
    postgres.ask("CREATE TABLE written (one integer)", name)

    def ask(fails: dict[str, Fault]) -> tuple[int, str, int, int, int]:
        database = zodb(uri=f"file://{tmp_path}/Data.fs")
        inner = (sql(url=postgres.url(name), twophase=True), errors(), transaction())
        answer = webob.Request.blank("/", method="POST").get_response(
            Pipeline(retry(), database, *inner, end(fails=fails))
        )

        def look(request: Request, response: Response) -> None:
            response.text = str(request.root.get("written", 0))

        reader: Any = element(lambda: look)
        objects = webob.Request.blank("/").get_response(Pipeline(database, reader()))
        rows = postgres.ask("SELECT count(*) FROM written", name)
        promises = postgres.ask(f"SELECT count(*) FROM pg_prepared_xacts WHERE database = '{name}'")
        outcome = answer.headers.get("X-Outcome", "")
        return answer.status_int, outcome, int(objects.text), int(rows), int(promises)

    yield ask
    sql_module.close_all()
    sql_module._databases.clear()
    zodb_pools.close_all()
    zodb_pools._pools.clear()


def test_both_are_committed(ask: Any) -> None:
    assert ask({}) == (200, "", 1, 1, 0)


@pytest.mark.parametrize("step", ["commit", "tpc_vote"])
def test_neither_is_if_another_cannot(ask: Any, step: str) -> None:
    assert ask({step: OSError("no")}) == (500, "", 0, 0, 0)


def test_a_conflict_after_their_votes_is_tried_again_in_both(ask: Any) -> None:
    assert ask({"tpc_vote": TransientError("no")}) == (200, "", 1, 1, 0)


def test_r4_after_all_votes_nobody_knows(ask: Any) -> None:
    """The third fails when the two are done: they stay so, and the answer says that it is not known."""
    assert ask({"tpc_finish": OSError("no")}) == (500, "unknown", 1, 1, 0)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", ["postgres", "postgres+psycopg", "mariadb"])
def test_what_was_prepared_on_a_connection_that_is_lost_does_not_keep_its_locks(
    kind: str, when: str, request: pytest.FixtureRequest, new_name: Callable[[], str]
) -> None:
    """The row could not be changed any more, until an operator has come.

    when  whether the connection is lost before PREPARE is answered, or after all but the last have voted
    """
    server: Any = request.getfixturevalue(kind.partition("+")[0])
    server.create(name := new_name())
    server.ask("CREATE TABLE counted (id integer PRIMARY KEY, n integer)", name)
    server.ask("INSERT INTO counted VALUES (1, 0)", name)
    url = server.url(name)
    if kind == "postgres+psycopg":
        url = url.replace("psycopg2", "psycopg")
    if kind == "mariadb":
        url = url.replace("mysqlconnector", "pymysql")
    attempts: list[int] = []

    @element
    def view() -> Any:
        def view(request: Request, response: Response) -> None:
            attempts.append(request.attempt)
            request.sql.execute(text("UPDATE counted SET n = n + 1 WHERE id = 1"))
            fails = {"tpc_vote": TransientError("no")} if request.attempt == 1 and when == "after" else {}
            FakeDataManager(request.tm, fails=fails, key="~last").join()

        return view

    app = Pipeline(
        retry(patience=8.0), sql(url=url, twophase=True, lock_timeout=2.0), errors(), transaction(), view()
    )
    [database] = [one for one in sql_module._databases.values() if name in one.shown]
    dialect: Any = database.engine.dialect
    prepare = dialect.do_prepare_twophase

    def prepare_and_lose(connection: Any, id: str) -> None:
        if len(attempts) > 1:
            prepare(connection, id)
            return
        driver = connection.connection.driver_connection
        mine = driver.thread_id() if kind == "mariadb" else driver.info.backend_pid
        prepare(connection, id)
        server.ask(f"KILL {mine}" if kind == "mariadb" else f"SELECT pg_terminate_backend({mine})")
        if when == "before":
            connection.exec_driver_sql("SELECT 1")

    dialect.do_prepare_twophase = prepare_and_lose
    try:
        answer = webob.Request.blank("/", method="POST").get_response(app)
    finally:
        sql_module.close_all()
        sql_module._databases.clear()
    assert (answer.status_int, attempts) == (200, [1, 2])
    assert server.ask("SELECT n FROM counted", name) == "1"
    left = "XA RECOVER" if kind == "mariadb" else f"SELECT gid FROM pg_prepared_xacts WHERE database = '{name}'"
    assert server.ask(left) == ""


def test_what_all_have_voted_for_stays_with_the_operator(postgres: Any, new_name: Callable[[], str]) -> None:
    """Another database has failed at its commit, and the connection to this one is lost: whether the others have
    committed is not known here."""
    postgres.create(name := new_name())
    postgres.ask("CREATE TABLE counted (id integer PRIMARY KEY, n integer)", name)

    @element
    def view() -> Any:
        def view(request: Any, response: Response) -> None:
            request.sql.execute(text("INSERT INTO counted VALUES (1, 0)"))
            FakeDataManager(request.tm, fails={"tpc_finish": OSError("no")}, key="!first").join()

        return view

    app = Pipeline(sql(url=postgres.url(name), twophase=True), errors(), transaction(), view())
    [database] = [one for one in sql_module._databases.values() if name in one.shown]
    dialect: Any = database.engine.dialect
    prepare = dialect.do_prepare_twophase

    def prepare_and_lose(connection: Any, id: str) -> None:
        mine = connection.connection.driver_connection.info.backend_pid
        prepare(connection, id)
        postgres.ask(f"SELECT pg_terminate_backend({mine})")

    dialect.do_prepare_twophase = prepare_and_lose
    left = f"SELECT gid FROM pg_prepared_xacts WHERE database = '{name}'"
    try:
        assert webob.Request.blank("/", method="POST").get_response(app).status_int in (500, 503)
        gid = postgres.ask(left, name)
        assert gid != ""
        postgres.ask(f"ROLLBACK PREPARED '{gid}'", name)
    finally:
        sql_module.close_all()
        sql_module._databases.clear()
