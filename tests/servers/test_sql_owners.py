"""``sql``: a session, its connection and its transaction belong to one request in one process (R13, R12, R2a).

Every driver runs every test, SQLite without a server.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import Pool
from transaction.interfaces import NoTransaction, TransientError

from around_a_view import ask
from pipeline import Request, Response
from pipeline.database import sql_databases as module
from pipeline.elements.sql import sql
from pipeline.interfaces import ConfigurationError, ReadOnlyTransaction
from pipeline.testing import FakeDataManager
from servers.sql_places import (
    EVERY_DRIVER,
    MARIADB,
    OTHER_DRIVERS,
    POSTGRES,
    Place,
    do,
    fail,
    on_each_driver,
    on_mariadb,
    place,
    raw,
    site,
)

__all__ = ["place"]

Work = Callable[[Request], object]

PSYCOPG, PG8000, PYMYSQL = OTHER_DRIVERS
ON_POSTGRES = [POSTGRES, PSYCOPG, PG8000]
ON_MARIADB = [MARIADB, PYMYSQL]
NEW = "INSERT INTO t VALUES ('new')"


def name_of(work: object) -> str:
    return getattr(work, "__name__", str(work))


# A commit that the pipeline does not see (R2a)


def insert(request: Request, value: str = "a") -> None:
    do(f"INSERT INTO t VALUES ('{value}{request.attempt}')")(request)


def by_statement(request: Request) -> None:
    insert(request)
    do("COMMIT")(request)


def by_statement_and_on(request: Request) -> None:
    by_statement(request)
    insert(request, "b")


def by_driver(request: Request) -> None:
    insert(request)
    request.sql.connection().connection.commit()


def by_driver_and_on(request: Request) -> None:
    by_driver(request)
    insert(request, "b")


def by_driver_unseen(request: Request) -> None:
    """All that the pipeline sees is an open transaction, before and after."""
    connection = request.sql.connection().connection
    cursor = connection.cursor()
    cursor.execute(f"INSERT INTO t VALUES ('a{request.attempt}')")
    connection.commit()
    if request.sql.get_bind().dialect.name == "sqlite":  # other drivers begin by themselves
        cursor.execute("BEGIN")
    cursor.execute(f"INSERT INTO t VALUES ('b{request.attempt}')")
    cursor.close()


def by_driver_in_a_savepoint(request: Request) -> None:
    with request.sql.begin_nested():
        connection = request.sql.connection().connection
    insert(request)
    connection.commit()
    insert(request, "b")


def by_driver_before_a_rollback(request: Request) -> None:
    by_driver_and_on(request)
    request.sql.rollback()
    insert(request, "c")


def by_engine(request: Request) -> None:
    with request.sql.get_bind().begin() as connection:
        connection.exec_driver_sql(f"INSERT INTO t VALUES ('a{request.attempt}')")


def in_one_string(request: Request) -> None:
    request.sql.connection().exec_driver_sql(f"INSERT INTO t VALUES ('a{request.attempt}'); COMMIT; BEGIN")


def in_one_string_alone(request: Request) -> None:
    request.sql.connection().exec_driver_sql(f"INSERT INTO t VALUES ('a{request.attempt}'); COMMIT")


def in_one_string_that_fails(request: Request) -> None:
    sql = request.sql.connection().exec_driver_sql
    with pytest.raises(DBAPIError):
        sql(f"INSERT INTO t VALUES ('a{request.attempt}'); COMMIT; BEGIN; SELECT nothing FROM nowhere")


def in_one_string_of_the_driver(request: Request) -> None:
    raw(f"INSERT INTO t VALUES ('a{request.attempt}'); COMMIT; BEGIN")(request)


def and_chain(request: Request) -> None:
    insert(request)
    do("COMMIT AND CHAIN")(request)


def begin(request: Request) -> None:
    insert(request)
    do("START TRANSACTION")(request)


def ddl(request: Request) -> None:
    insert(request)
    do(f"CREATE TABLE made{request.attempt} (v int)")(request)


def ddl_first(request: Request) -> None:
    do(f"CREATE TABLE a{request.attempt} (v int)")(request)


def procedure(request: Request) -> None:
    do(f"CALL p('a{request.attempt}')")(request)


def immediate(request: Request) -> None:
    insert(request)
    do("EXECUTE IMMEDIATE 'COMMIT AND CHAIN'")(request)


EVERYWHERE_UNSEEN = [
    *(by_statement, by_statement_and_on, by_driver, by_driver_and_on, by_driver_unseen),
    *(by_driver_in_a_savepoint, by_driver_before_a_rollback, by_engine),
]
IN_STRINGS = [in_one_string, in_one_string_alone, in_one_string_that_fails, in_one_string_of_the_driver]
UNSEEN: list[tuple[list[Any], list[Work]]] = [
    (EVERY_DRIVER, EVERYWHERE_UNSEEN),
    (ON_POSTGRES, [*IN_STRINGS, and_chain]),
    (ON_MARIADB, [and_chain, begin, ddl, ddl_first, procedure, immediate]),
]


def cases(table: list[tuple[list[Any], list[Work]]]) -> list[Any]:
    return [
        pytest.param(kind.values[0], work, marks=kind.marks, id=f"{kind.id}: {name_of(work)}")
        for kinds, works in table
        for kind in kinds
        for work in works
    ]


@pytest.mark.parametrize(("place", "work"), cases(UNSEEN), indirect=["place"])
@pytest.mark.parametrize("conflict", ["in the view", "at the commit"])
def test_r2a_a_commit_that_the_pipeline_does_not_see_is_not_made_twice(
    place: Place, work: Work, conflict: str
) -> None:
    if place.kind == "mariadb":
        place.do(
            "CREATE PROCEDURE p(IN x varchar(50)) BEGIN INSERT INTO t VALUES (x); COMMIT; START TRANSACTION; "
            "INSERT INTO t VALUES (concat('b', x)); END"
        )
    attempts: list[int] = []

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        work(request)
        if conflict == "in the view":
            fail(request)
        FakeDataManager(request.tm, fails={"tpc_vote": TransientError("no")}, key="a").join()

    answer = ask(site(place, view))
    assert attempts == [1]
    assert answer.status_int in (500, 503)
    assert answer.headers["X-Outcome"] in ("committed", "unknown")
    if work is ddl_first:
        assert place.look("SELECT count(*) FROM a1") == [0]
    else:
        assert place.look() == ["a1", "was"], "once, and nothing of what followed it"


@pytest.mark.parametrize(
    ("place", "query"),
    [
        pytest.param(of.values[0], query, marks=of.marks, id=f"{of.id}: {query}")
        for of, queries in (
            (POSTGRES, ("SELECT v FROM seen", "SELECT total()", "SELECT t.of_row FROM t")),
            (MARIADB, ("SELECT v FROM seen", "SELECT total()")),
        )
        for query in queries
    ],
    indirect=["place"],
)
def test_r2a_a_query_that_changes_something_unseen_is_not_made_twice(place: Place, query: str) -> None:
    how = {
        "postgres": "int LANGUAGE sql AS $$ INSERT INTO t VALUES ('a' || random()) RETURNING 1 $$",
        "mariadb": "int MODIFIES SQL DATA BEGIN INSERT INTO t VALUES (CONCAT('a', RAND())); RETURN 1; END",
    }[place.kind]
    place.do(f"CREATE FUNCTION total() RETURNS {how}", "CREATE VIEW seen AS SELECT total() AS v")
    if "of_row" in query:
        place.do(f"CREATE FUNCTION of_row(t) RETURNS {how}", "DROP VIEW seen", "DROP FUNCTION total")
    attempts: list[int] = []

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        do(query)(request)
        request.tm.commit()
        fail(request)

    answer = ask(site(place, view))
    assert (answer.headers.get("X-Outcome"), attempts, len(place.look())) == ("committed", [1], 2)


@pytest.mark.parametrize("engine", ["InnoDB", "MyISAM", "Aria"])
@on_mariadb
def test_r2a_what_a_rollback_leaves_stored_is_not_made_twice(place: Place, engine: str) -> None:
    """A table of MyISAM, or of Aria, has no transactions."""
    place.do(f"CREATE TABLE log (v text) ENGINE={engine}")
    attempts: list[int] = []

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        do("INSERT INTO log VALUES ('a')")(request)
        if request.attempt == 1:
            fail(request)

    answer = ask(site(place, view))
    assert (answer.status_int, attempts) == ((200, [1, 2]) if engine == "InnoDB" else (500, [1]))
    assert answer.headers.get("X-Outcome") == (None if engine == "InnoDB" else "committed")
    assert place.look("SELECT v FROM log") == ["a"]


def case_expression(request: Request) -> None:
    request.sql.execute(text("SELECT CASE WHEN 1 = 1 THEN 'commit' ELSE 'begin' END")).all()
    insert(request)


def isolation(request: Request) -> None:
    """SQLAlchemy asks the driver."""
    insert(request)
    assert request.sql.connection().get_isolation_level()


def two_in_one_string(request: Request) -> None:
    number = request.attempt
    request.sql.connection().exec_driver_sql(
        f"INSERT INTO t VALUES ('a{number}'); INSERT INTO t VALUES ('b{number}')"
    )
    do(f"DELETE FROM t WHERE v = 'b{number}'")(request)


def block(request: Request) -> None:
    request.sql.connection().exec_driver_sql(f"DO $$ BEGIN INSERT INTO t VALUES ('a{request.attempt}'); END $$")


def failing_block(request: Request) -> None:
    with request.sql.begin_nested() as nested:
        with pytest.raises(DBAPIError):
            request.sql.connection().exec_driver_sql("DO $$ BEGIN PERFORM nothing(); END $$")
        nested.rollback()
    insert(request)


def driver(request: Request) -> None:
    raw(f"INSERT INTO t VALUES ('a{request.attempt}')")(request)


def driver_and_savepoints(request: Request) -> None:
    with request.sql.begin_nested():
        driver(request)
        with request.sql.begin_nested() as nested:
            insert(request, "b")
            raw("SELECT 1")(request)
            nested.rollback()


def call(request: Request) -> None:
    do(f"CALL q('a{request.attempt}')")(request)


SAME: list[tuple[list[Any], list[Work]]] = [
    (EVERY_DRIVER, [insert, case_expression, isolation]),
    (ON_POSTGRES, [two_in_one_string, block, failing_block]),
    (ON_MARIADB, [call]),
]


@pytest.mark.parametrize(("place", "work"), cases(SAME), indirect=["place"])
def test_r2_what_commits_nothing_is_tried_again(place: Place, work: Work) -> None:
    if place.kind == "mariadb":
        place.do("CREATE PROCEDURE q(IN x varchar(50)) INSERT INTO t VALUES (x)")
    attempts: list[int] = []

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        work(request)
        if request.attempt == 1:
            fail(request)

    answer = ask(site(place, view, driver_connection=False))
    assert (answer.status_int, attempts) == (200, [1, 2])
    assert place.look() == ["a2", "was"]


# The connection of the driver, where nothing is seen


@on_each_driver
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_connection_of_the_driver_is_refused(place: Place, method: str, caplog: Any) -> None:
    errors: list[str] = []

    def view(request: Request, response: Response) -> None:
        do(NEW if method == "POST" else "SELECT 1")(request)
        with pytest.raises(RuntimeError) as raised:
            raw("ROLLBACK")(request)
        errors.append(str(raised.value))

    assert ask(site(place, view, driver_connection=False), method=method).status_int == 200
    assert place.look() == (["new", "was"] if method == "POST" else ["was"])
    [said] = errors
    for what in ("sql: request.sql.connection().connection", "option driver_connection = true", "not tried again"):
        assert what in said


@on_each_driver
@pytest.mark.parametrize("work", [driver, driver_and_savepoints], ids=name_of)
@pytest.mark.parametrize("fails", [False, True])
def test_r2a_a_request_that_may_take_it_is_not_tried_again(place: Place, work: Work, fails: bool) -> None:
    attempts: list[int] = []

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        work(request)
        if fails:
            fail(request)

    answer = ask(site(place, view))
    assert attempts == [1]
    assert (answer.status_int, answer.headers.get("X-Outcome")) == ((500, "unknown") if fails else (200, None))
    assert place.look() == (["was"] if fails else ["a1", "was"])


def by_rollback(request: Request) -> None:
    request.sql.connection().connection.rollback()


def by_rollback_of_the_driver(request: Request) -> None:
    request.sql.connection().connection.driver_connection.rollback()


@on_each_driver
@pytest.mark.parametrize("end", [by_rollback, by_rollback_of_the_driver, raw("ROLLBACK")], ids=name_of)
@pytest.mark.parametrize("more", [False, True])
def test_r16_a_driver_that_takes_changes_back_is_told(place: Place, end: Work, more: bool, caplog: Any) -> None:
    """By the state of its transaction, at the next statement and at the end."""

    def view(request: Request, response: Response) -> None:
        do(NEW)(request)
        end(request)
        if more:
            do("INSERT INTO t VALUES ('more')")(request)

    answer = ask(site(place, view))
    assert (answer.status_int, answer.headers.get("X-Outcome"), place.look()) == (500, "unknown", ["was"])
    assert "its changes may be lost" in caplog.text


@on_each_driver
def test_a_savepoint_does_not_hide_what_was_changed_before_it(place: Place) -> None:
    """The error of a stream says that its view has stored something."""

    def view(request: Request, response: Response) -> Iterator[bytes]:
        do(NEW)(request)
        with request.sql.begin_nested():
            request.sql.execute(text("SELECT 1")).all()
        return (bytes(1 // zero) for zero in [0])

    answer = ask(site(place, view))
    assert (answer.status_int, answer.headers.get("X-Outcome")) == (500, "committed")
    assert place.look() == ["new", "was"]


# A view that ends the session, and not by rollback()


def using(request: Request) -> None:
    with request.sql as session:
        session.execute(text(NEW))


def using_connection(request: Request) -> None:
    with request.sql.connection() as connection:
        connection.exec_driver_sql(NEW)


def using_begin(request: Request) -> None:
    with request.sql.begin():
        do(NEW)(request)


def after_writing(end: Work, name: str) -> Work:
    def work(request: Request) -> None:
        do(NEW)(request)
        end(request)

    work.__name__ = name
    return work


ENDS: list[Work] = [
    after_writing(lambda request: request.sql.close(), "close"),
    after_writing(lambda request: request.sql.reset(), "reset"),
    after_writing(lambda request: request.sql.invalidate(), "invalidate"),
    after_writing(lambda request: request.sql.commit(), "commit"),
    after_writing(lambda request: request.sql.connection().commit(), "commit of the connection"),
    after_writing(lambda request: (request.sql.begin_nested(), request.sql.commit()), "commit in a savepoint"),
    after_writing(lambda request: request.sql.get_transaction().close(), "close of the transaction"),
    after_writing(lambda request: request.sql.connection().close(), "close of the connection"),
    after_writing(do("ROLLBACK"), "ROLLBACK"),
    after_writing(do("/* so */ -- and so\n rollback work"), "rollback in a comment"),
    after_writing(lambda request: request.sql.connection().connection.rollback(), "rollback of the driver"),
    *(using, using_connection, using_begin),
]


@on_each_driver
@pytest.mark.parametrize("work", ENDS, ids=name_of)
def test_only_a_rollback_ends_a_session_without_its_changes(place: Place, work: Work) -> None:
    answer = ask(site(place, lambda request, response: work(request)))
    assert answer.status_int == 500
    assert place.look() == ["was"]
    assert ask(site(place, lambda request, response: do(NEW)(request))).status_int == 200
    assert place.look() == ["new", "was"]


@on_each_driver
@pytest.mark.parametrize("name", ["close", "reset", "invalidate"])
def test_a_view_that_catches_that_error_has_lost_nothing(place: Place, name: str) -> None:
    def view(request: Request, response: Response) -> None:
        do(NEW)(request)
        with pytest.raises(RuntimeError, match=r"request\.sql\.rollback\(\) takes back"):
            getattr(request.sql, name)()

    assert ask(site(place, view)).status_int == 200
    assert place.look() == ["new", "was"]


@on_each_driver
@pytest.mark.parametrize("first", ["SELECT 1", "INSERT INTO t VALUES ('old')"])
@pytest.mark.parametrize("then", [do(NEW), raw(NEW)], ids=["a statement", "the driver"])
def test_r16_a_savepoint_from_before_the_session_takes_back_what_followed_it(
    place: Place, first: str, then: Work
) -> None:
    """And nothing else: what is written afterwards was lost under a 200."""

    def view(request: Request, response: Response) -> None:
        for _ in range(2):
            savepoint = request.tm.savepoint()
            do(first)(request)
            savepoint.rollback()
        then(request)

    for twophase in {False, place.kind != "sqlite"}:
        assert ask(site(place, view, twophase=twophase)).status_int == 200
        assert place.look() == ["new", "was"]
        place.do("DELETE FROM t WHERE v = 'new'")


# AUTOCOMMIT


@pytest.mark.parametrize(
    "url",
    [
        *("sqlite:///x?autocommit=true", "postgresql+psycopg2://h/x?autocommit=1", "postgresql+psycopg://h/x?autocommit=1"),
        *("mysql+pymysql://h/x?autocommit=true", "mysql+mysqlconnector://h/x?autocommit=true"),
    ],
)
def test_autocommit_in_the_url_is_refused_at_load(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"option 'url': with autocommit .* leave it out"):
        sql(url=url)(lambda environ, start_response: [])


def by_connection(request: Request) -> None:
    request.sql.connection(execution_options={"isolation_level": "AUTOCOMMIT"})


def by_engine(request: Request) -> None:
    engine = request.sql.get_bind().execution_options(isolation_level="autocommit")
    request.sql.connection(bind_arguments={"bind": engine})


def by_execute(request: Request) -> None:
    request.sql.execute(text("SELECT 1"), execution_options={"isolation_level": "AUTOCOMMIT"})


def by_text(request: Request) -> None:
    request.sql.execute(text("SELECT 1").execution_options(isolation_level="AUTOCOMMIT"))


def by_set(request: Request) -> None:
    do("SET @x = 1, autocommit = 1")(request)


def by_set_in_a_string(request: Request) -> None:
    do("/* so */ SET SESSION autocommit:= on")(request)


AUTOCOMMITS: list[tuple[list[Any], list[Work]]] = [
    (EVERY_DRIVER, [by_connection, by_engine, by_execute, by_text]),
    (ON_MARIADB, [by_set, by_set_in_a_string]),
]


@pytest.mark.parametrize(("place", "work"), cases(AUTOCOMMITS), indirect=["place"])
def test_autocommit_is_refused_where_the_connection_is_known(place: Place, work: Work, caplog: Any) -> None:
    attempts: list[int] = []

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        work(request)
        do(NEW)(request)
        fail(request)

    assert ask(site(place, view)).status_int == 500
    assert "AUTOCOMMIT" in caplog.text or "isolation_level" in caplog.text
    assert (attempts, place.look()) == ([1], ["was"])


def set_autocommit(connection: Any, record: object = None) -> None:
    if callable(connection.autocommit):  # of PyMySQL
        connection.autocommit(True)
    else:
        connection.autocommit = True


@pytest.mark.parametrize("place", [POSTGRES, MARIADB, *OTHER_DRIVERS], indirect=True)
def test_autocommit_that_a_listener_sets_is_refused(place: Place, caplog: Any) -> None:
    """It stands in no option that is seen, nor does that of ``init_command`` in a URL."""
    event.listen(Pool, "connect", set_autocommit)
    try:
        assert ask(site(place, lambda request, response: do(NEW)(request))).status_int == 500
    finally:
        event.remove(Pool, "connect", set_autocommit)
    assert "AUTOCOMMIT" in caplog.text
    assert place.look() == ["was"]


@on_each_driver
def test_autocommit_that_a_view_sets_by_the_driver_ends_with_its_request(place: Place) -> None:
    def view(request: Request, response: Response) -> None:
        connection = request.sql.connection().connection.driver_connection
        connection.rollback()
        if place.kind != "sqlite":
            set_autocommit(connection)

    def plain(request: Request, response: Response) -> None:
        do(NEW)(request)
        response.status = 500

    assert ask(site(place, view)).status_int == 200
    assert ask(site(place, plain)).status_int == 500
    assert place.look() == ["was"]


@pytest.mark.parametrize("url", ["mysql://h/x", "mysql+mysqldb://h/x", "mysql+mariadbconnector://h/x"])
def test_a_driver_that_cannot_be_asked_is_refused_at_load(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"'url': the driver \w+ .* Use one of mysqlconnector, pg8000"):
        sql(url=url)(lambda environ, start_response: [])


# What outlives its request, or its transaction


STALE: list[tuple[str, Callable[[Any], object]]] = [
    ("execute", lambda kept: kept["session"].execute(text(NEW))),
    ("connection", lambda kept: kept["session"].connection()),
    ("connection that was kept", lambda kept: kept["connection"].exec_driver_sql(NEW)),
    ("begin", lambda kept: kept["session"].begin()),
    ("driver", lambda kept: kept["driver"].cursor().execute(NEW)),
    ("proxy", lambda kept: kept["proxy"].cursor().execute(NEW)),
]


@on_each_driver
@pytest.mark.parametrize("when", ["between", "during the next"])
@pytest.mark.parametrize("use", [use for _, use in STALE], ids=[name for name, _ in STALE])
def test_r13_what_is_kept_of_a_request_raises_afterwards(place: Place, use: Any, when: str) -> None:
    kept: dict[str, Any] = {}

    def keep(request: Request, response: Response) -> None:
        kept["session"], kept["connection"] = request.sql, request.sql.connection()
        kept["proxy"] = request.sql.connection().connection
        kept["driver"] = kept["proxy"].driver_connection

    def next_one(request: Request, response: Response) -> None:
        do("INSERT INTO t VALUES ('next')")(request)
        if when != "between":
            with pytest.raises(Exception):  # noqa: B017  # each driver has its own
                use(kept)

    app = site(place, lambda request, response: (keep if request.path == "/keep" else next_one)(request, response))
    assert ask(app, "/keep").status_int == 200
    if when == "between":
        with pytest.raises(Exception):  # noqa: B017
            use(kept)
    assert ask(app, "/next").status_int == 200
    assert place.look() == ["next", "was"]


@on_each_driver
@pytest.mark.parametrize("end", ["abort", "commit"])
@pytest.mark.parametrize("then", ["nothing", "begin"])
def test_r13_the_session_is_not_used_without_a_transaction(place: Place, end: str, then: str) -> None:
    def view(request: Request, response: Response) -> None:
        do("INSERT INTO t VALUES ('first')")(request)
        getattr(request.tm, end)()
        for _ in range(2):
            with pytest.raises(NoTransaction):
                do(NEW)(request)
            with pytest.raises(NoTransaction):
                request.sql.connection()
        if then == "begin":
            request.tm.begin()
            do("INSERT INTO t VALUES ('second')")(request)

    assert ask(site(place, view)).status_int == 200
    first = ["first"] if end == "commit" else []
    assert place.look() == [*first, *(["second"] if then == "begin" else []), "was"]


@on_each_driver
@pytest.mark.parametrize("fails", ["savepoint", "commit"])
def test_r13_a_failure_of_the_transaction_that_the_view_swallows(place: Place, fails: str) -> None:
    """What is written after it is refused, and nobody else stores it."""

    def view(request: Request, response: Response) -> None:
        do("INSERT INTO t VALUES ('before')")(request)
        if fails == "savepoint":
            FakeDataManager(request.tm).join()  # has no savepoints
        else:
            FakeDataManager(request.tm, fails={"tpc_vote": ValueError("no")}, key="a").join()
        with pytest.raises(Exception):  # noqa: B017
            getattr(request.tm, fails)()
        do(NEW)(request)

    def other(request: Request, response: Response) -> None:
        do("INSERT INTO t VALUES ('other')")(request)

    app = site(place, lambda request, response: (other if request.path == "/other" else view)(request, response))
    assert ask(app).status_int == 500
    assert ask(app, "/other").status_int == 200
    assert place.look() == ["other", "was"]


# A fork inside of a view (R12)


def uses(request: Request) -> dict[str, Callable[[], object]]:
    """What a child process may try with what its parent has open."""
    session, connection = request.sql, request.sql.connection()
    transaction, proxy = connection.get_transaction(), connection.connection
    driver = proxy.driver_connection
    return {
        "execute": lambda: session.execute(text("SELECT v FROM t")).all(),
        "write": lambda: session.execute(text(NEW)),
        "connection": lambda: session.connection(),
        "commit": lambda: session.commit(),
        "rollback": lambda: session.rollback(),
        "close": lambda: session.close(),
        "begin_nested": lambda: session.begin_nested(),
        "iterate": lambda: list(session),
        "the connection": lambda: connection.exec_driver_sql("SELECT v FROM t"),
        "commit of the transaction": lambda: transaction.commit(),
        "rollback of the transaction": lambda: transaction.rollback(),
        "close of the connection": lambda: connection.close(),
        "the driver": lambda: driver.cursor().execute("SELECT v FROM t"),
        "a write of the driver": lambda: driver.cursor().execute(NEW),
        "commit of the driver": lambda: driver.commit(),
    }


def run_child(work: Callable[[], object], seconds: float = 20) -> Callable[[], int]:
    """Run a function in a forked process. Return a function that waits for its end, and kills it after a time."""
    child = os.fork()
    if child == 0:  # pragma: no cover
        status = 1
        try:
            signal.alarm(int(seconds))
            work()
            status = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(status)
    return lambda: os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@on_each_driver
@pytest.mark.timeout(120)
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_r12_a_child_that_a_view_forks_uses_nothing_of_its_parent(place: Place) -> None:
    """While both read and write: each use raises at once, and the answers of the parent are its own."""
    place.do("CREATE TABLE n (i int)", "INSERT INTO n VALUES (0)", "INSERT INTO t VALUES ('1'), ('2'), ('3')")

    def view(request: Request, response: Response) -> None:
        do("INSERT INTO t VALUES ('mine')")(request)
        cursor = request.sql.connection().connection.cursor()
        cursor.execute("SELECT v FROM t")
        tried = uses(request)

        def in_child() -> None:
            if place.kind == "sqlite":  # other drivers have read it all before
                with pytest.raises(sqlite3.OperationalError):
                    cursor.fetchall()
            for _ in range(3):
                for name, use in tried.items():
                    began = time.monotonic()
                    try:
                        use()
                    except Exception:
                        pass
                    else:
                        raise AssertionError(f"{name} did not raise")
                    assert time.monotonic() - began < 1, name
            assert ask(site(place, count)).text == "0", "a connection of its own"

        wait = run_child(in_child)
        cursor.fetchall()
        for number in range(300):
            assert request.sql.execute(text(f"SELECT {number}")).scalar() == number
            do("UPDATE n SET i = i + 1")(request)
        assert wait() == 0
        assert request.sql.execute(text("SELECT i FROM n")).scalar() == 300

    def count(request: Request, response: Response) -> Iterator[bytes]:
        return iter([str(request.sql.execute(text("SELECT i FROM n")).scalar()).encode()])

    if place.kind == "sqlite":
        place.do("PRAGMA journal_mode = WAL")
    answer = ask(site(place, view))
    assert answer.status_int == 200
    assert place.look("SELECT i FROM n") == [300]
    assert "mine" in place.look() and "new" not in place.look()


# Where only reading is allowed (R8)


@pytest.mark.parametrize("place", ON_POSTGRES, indirect=True)
@pytest.mark.parametrize(
    "statement",
    ["NOTIFY x", "SELECT pg_notify('x', 'y')", "DO $$ BEGIN PERFORM pg_notify('x', 'y'); END $$", "COMMIT", "END"],
)
def test_r8_a_stream_does_not_drop_silently_what_postgresql_does_not_refuse(place: Place, statement: str) -> None:
    caught: list[Exception] = []

    def view(request: Request, response: Response) -> Iterator[bytes]:
        def body() -> Iterator[bytes]:
            try:
                request.sql.connection().exec_driver_sql(statement)
            except ReadOnlyTransaction as error:
                caught.append(error)
            yield b"sent"

        return body()

    assert ask(site(place, view)).text == "sent"
    assert len(caught) == 1


# Two phases


@pytest.mark.parametrize("place", [*ON_POSTGRES, *ON_MARIADB], indirect=True)
def test_r4_transactions_in_doubt_are_named_at_start(place: Place, caplog: Any) -> None:
    both = {"postgres": ("COMMIT PREPARED", "ROLLBACK PREPARED"), "mariadb": ("XA COMMIT", "XA ROLLBACK")}
    ends = both[place.kind]
    name = f"_sa_{place.name}"
    engine = module.create_engine(place.url)
    with engine.connect() as connection:
        doubtful = connection.begin_twophase(name)
        connection.exec_driver_sql(NEW)
        doubtful.prepare()
        connection.connection.driver_connection.close()  # the process is gone
        connection.invalidate()
    engine.dispose()

    def view(request: Request, response: Response) -> None:
        request.sql.execute(text("SELECT 1"))

    app = site(place, view, twophase=True)
    assert [ask(app).status_int for _ in range(2)] == [200, 200]
    lines = [record.getMessage() for record in caplog.records if name in record.getMessage()]
    assert len(lines) == 1
    assert f"{ends[0]} '{name}'" in lines[0] and f"{ends[1]} '{name}'" in lines[0]
    assert "secret" not in lines[0]
    if place.kind == "postgres":
        place.server.ask(f"{ends[0]} '{name}'", place.name)
    else:
        place.server.ask(f"{ends[0]} '{name}'")
    assert place.look() == ["new", "was"]
