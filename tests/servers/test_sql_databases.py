"""``sql`` on SQLite, PostgreSQL and MariaDB: what is committed, refused, tried again and answered 503.

What is stored is read by a connection of its own, without the element.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.schema import CreateTable

from around_a_view import ask, end, start
from pipeline import Pipeline, Request, Response, element
from pipeline.database import sql_databases as module
from pipeline.database.sql_jobs import TABLE
from pipeline.database.transactions import read_afresh
from pipeline.elements.sql import sql
from pipeline.elements.transaction import transaction
from pipeline.interfaces import ReadOnlyTransaction
from servers.sql_places import (
    EVERYWHERE,
    MARIADB,
    OTHER_DRIVERS,
    POSTGRES,
    SQLITE,
    Place,
    do,
    fail,
    on_each,
    on_mariadb,
    on_postgres,
    on_sqlite,
    place,
    raw,
    site,
)

__all__ = ["place"]

*_, PYMYSQL = OTHER_DRIVERS


def raw_of_a_result(statement: str) -> Callable[[Request], None]:
    """Execute a statement by the cursor of the driver that a plain read has left."""

    def work(request: Request) -> None:
        connection = request.sql.execute(text("SELECT 1")).context.root_connection
        connection.connection.cursor().execute(statement)

    return work


def copy(request: Request) -> None:
    import io

    cursor = request.sql.connection().connection.cursor()
    cursor.copy_expert("COPY t FROM STDIN", io.StringIO("new\n"))


NEW = "INSERT INTO t VALUES ('new')"
MADE = "SELECT v FROM t2"
SETUP_OF_POSTGRES = (
    "CREATE SEQUENCE s",
    "CREATE FUNCTION f() RETURNS text LANGUAGE sql VOLATILE AS $$ INSERT INTO t VALUES ('new') RETURNING v $$",
    "CREATE PROCEDURE p() LANGUAGE sql AS $$ INSERT INTO t VALUES ('new') $$",
    "CREATE VIEW sly AS SELECT f() AS v",
)
SETUP_OF_MARIADB = (
    "CREATE SEQUENCE s",
    "CREATE FUNCTION f() RETURNS int MODIFIES SQL DATA BEGIN INSERT INTO t VALUES ('new'); RETURN 1; END",
    "CREATE PROCEDURE p() INSERT INTO t VALUES ('new')",
    "CREATE VIEW sly AS SELECT f() AS v",
)

CHANGES: list[Any] = []
"""Database, what a view does, a query, and what it finds afterwards."""


def changes(place: Any, query: str, found: Any, *works: Any) -> None:
    for number, work in enumerate(works):
        done = do(work) if isinstance(work, str) else work
        name = work if isinstance(work, str) else f"{getattr(work, '__name__', work)} {number}"
        identity = f"{place.id}: {name:.60}"
        CHANGES.append(pytest.param(place.values[0], done, query, found, marks=place.marks, id=identity))


ALL = "SELECT v FROM t ORDER BY v"
for each in EVERYWHERE:
    changes(each, ALL, ["new", "was"], NEW, raw(NEW), raw_of_a_result(NEW), f"/* a comment */ {NEW}")
    changes(each, ALL, ["new", "was"], do("SELECT 1", NEW, "SELECT 1"), f"-- SELECT\n{NEW}")
    changes(each, ALL, ["WAS"], "UPDATE t SET v = 'WAS'", raw("UPDATE t SET v = 'WAS'"))
    changes(each, ALL, [], "DELETE FROM t")
    changes(each, MADE, ["was"], "CREATE TABLE t2 AS SELECT v FROM t")
for each in [SQLITE, POSTGRES]:
    changes(
        each, ALL, ["new", "was"], "WITH x AS (SELECT 'new') INSERT INTO t SELECT * FROM x", f"{NEW} RETURNING v"
    )
for each in [SQLITE, MARIADB]:
    changes(each, ALL, ["new", "was"], "REPLACE INTO t VALUES ('new')")
changes(
    POSTGRES,
    ALL,
    ["new", "was"],
    f"SELECT 1; {NEW}",
    f"SET LOCAL work_mem = '1MB'; {NEW}",
    do("SET LOCAL work_mem = '1MB'", NEW),
    f"EXPLAIN ANALYZE {NEW}",
    f"EXPLAIN (ANALYZE, COSTS off) {NEW}",
    f"/* a /* nested */ comment */ {NEW}",
    f"WITH x AS ({NEW} RETURNING v) SELECT v FROM x",
    f"DO $$ BEGIN {NEW}; END $$",
    do(f"PREPARE one AS {NEW}", "EXECUTE one"),
    "SELECT f()",
    "SELECT v FROM sly",
    "CALL p()",
    "COPY t FROM PROGRAM 'echo new'",
    copy,
    "MERGE INTO t USING (VALUES ('new')) AS n (v) ON t.v = n.v WHEN NOT MATCHED THEN INSERT VALUES (n.v)",
)
changes(POSTGRES, MADE, ["was"], "SELECT * INTO t2 FROM t")
changes(
    POSTGRES,
    "SELECT last_value FROM s",
    [41],
    "SELECT setval('s', 41)",
    do("SELECT setval('s', 40)", "SELECT nextval('s')"),
)
changes(POSTGRES, "SELECT count(*) FROM pg_largeobject_metadata WHERE oid = 4711", [1], "SELECT lo_create(4711)")
changes(
    MARIADB,
    ALL,
    ["new", "was"],
    f"SET STATEMENT max_statement_time = 5 FOR {NEW}",
    f"BEGIN NOT ATOMIC {NEW}; END",
    f"/*! {NEW} */",
    f"/*M! {NEW} */",
    do(f"PREPARE one FROM '{NEW.replace(chr(39), chr(34))}'", "EXECUTE one"),
    do(f"EXECUTE IMMEDIATE '{NEW.replace(chr(39), chr(34))}'"),
    "SELECT f()",
    "SELECT v FROM sly",
    "CALL p()",
    do("HANDLER t OPEN", "HANDLER t READ FIRST", "HANDLER t CLOSE", NEW),
)
changes(MARIADB, "SELECT NEXT VALUE FOR s > 40", [1], "SELECT setval(s, 40)")
changes(SQLITE, ALL, ["new", "was"], "WITH x AS (SELECT 'new' AS v) REPLACE INTO t SELECT v FROM x")
changes(SQLITE, "PRAGMA user_version", [7], "PRAGMA user_version = 7", raw("PRAGMA user_version = 7"))


def set_up(place: Place) -> None:
    place.do(*{"sqlite": (), "postgres": SETUP_OF_POSTGRES, "mariadb": SETUP_OF_MARIADB}[place.kind])


@pytest.mark.parametrize(("place", "work", "query", "found"), CHANGES, indirect=["place"])
def test_whatever_changes_something_is_committed(
    place: Place, work: Callable[[Request], None], query: str, found: Any
) -> None:
    set_up(place)
    answer = ask(site(place, lambda request, response: work(request)))
    assert answer.status_int == 200
    assert place.look(query) == found


@pytest.mark.parametrize(("place", "work", "query", "found"), CHANGES, indirect=["place"])
@pytest.mark.parametrize("where", ["while sending", "error view", "without transaction"])
def test_r8_where_only_reading_is_allowed_it_is_refused(
    place: Place, work: Callable[[Request], None], query: str, found: Any, where: str, request: Any
) -> None:
    """PostgreSQL 15 lets a transaction that only reads make large objects: these are dropped."""
    set_up(place)
    caught: list[Any] = []

    def attempt(request: Request) -> None:
        request.sql.execute(text("SELECT v FROM t")).all()
        try:
            work(request)
        except Exception as error:
            caught.append(error)
            request.tm.abort()

    def while_sending(request: Request, response: Response) -> Iterator[bytes]:
        return (attempt(request) or b"a block" for _ in range(1))

    def failing(request: Request, response: Response) -> None:
        request.sql.execute(text("SELECT v FROM t")).all()
        raise ValueError

    @element
    def error_view(next: Any) -> Any:
        """Does what ``errors`` does around an error view."""

        def error_view(request: Request, response: Response) -> None:
            try:
                next(request, response)
            except ValueError:
                read_afresh(request)
                attempt(request)
                response.app_iter = [b"sorry"]

        return error_view

    if where == "while sending":
        assert ask(site(place, while_sending)).text == "a block"
    elif where == "error view":
        ask(Pipeline(sql(url=place.url), error_view(), transaction(), end(view=failing)))
    else:
        ask(Pipeline(sql(url=place.url), end(view=lambda request, response: attempt(request))))
    try:
        stored = place.look(query)
    except DBAPIError:  # there is no such table
        stored = []
        assert query == MADE
    assert stored != found
    assert len(caught) == 1 or "lo_create" in request.node.name


@on_each
def test_what_is_refused_says_r8(place: Place) -> None:
    def view(request: Request, response: Response) -> None:
        with pytest.raises(ReadOnlyTransaction, match=r"a write to \"INSERT.*\(R8\)"):
            do(NEW)(request)

    assert ask(Pipeline(sql(url=place.url), end(view=view))).status_int == 200
    assert place.look() == ["was"]
    assert ask(site(place, lambda request, response: do(NEW)(request))).status_int == 200, "it writes again"


@on_each
@pytest.mark.parametrize("between", ["nothing", "a write"])
def test_a_stream_sees_one_state(place: Place, between: str) -> None:
    """Though another client commits meanwhile, and though the view had read before."""
    if place.kind == "sqlite":
        place.do("PRAGMA journal_mode = WAL")

    def view(request: Request, response: Response) -> Iterator[bytes]:
        request.sql.execute(text("SELECT count(*) FROM t")).all()
        if between == "a write":
            do("INSERT INTO t VALUES ('mine')")(request)

        def body() -> Iterator[bytes]:
            for _ in range(3):
                yield str(request.sql.execute(text("SELECT count(*) FROM t")).scalar()).encode()

        return body()

    body = start(site(place, view))
    first = next(body)
    place.do("INSERT INTO t VALUES ('theirs')")
    assert [first, *body] == 3 * [b"1" if between == "nothing" else b"2"]
    body.close()
    assert len(place.look()) == (2 if between == "nothing" else 3)


# Errors that the view swallows


def insert_twice(request: Request) -> None:
    do("INSERT INTO t VALUES ('a')")(request)
    try:
        do("INSERT INTO t VALUES ('was')")(request)
    except DBAPIError:
        pass


@on_postgres
@pytest.mark.parametrize("twophase", [False, True])
def test_r1_a_transaction_that_has_failed_is_no_success(place: Place, twophase: bool, caplog: Any) -> None:
    """COMMIT of it is a rollback that PostgreSQL does not report as an error."""
    app = site(place, lambda request, response: insert_twice(request), twophase=twophase)
    answer = ask(app)
    assert answer.status_int == 500
    assert "X-Outcome" not in answer.headers
    assert "duplicate key" in caplog.text and "begin_nested" in caplog.text, "it says why, and what to do"
    assert place.look() == ["was"]
    assert ask(site(place, lambda request, response: do(NEW)(request))).status_int == 200


@pytest.mark.parametrize("place", [SQLITE, MARIADB], indirect=True)
def test_elsewhere_only_the_statement_has_failed(place: Place) -> None:
    assert ask(site(place, lambda request, response: insert_twice(request))).status_int == 200
    assert place.look() == ["a", "was"]


@on_each
def test_what_may_fail_inside_of_a_savepoint(place: Place) -> None:
    def view(request: Request, response: Response) -> None:
        do("INSERT INTO t VALUES ('a')")(request)
        try:
            with request.sql.begin_nested():
                do("INSERT INTO t VALUES ('was')")(request)
        except DBAPIError:
            pass
        do("INSERT INTO t VALUES ('b')")(request)

    assert ask(site(place, view)).status_int == 200
    assert place.look() == ["a", "b", "was"]


@on_each
def test_a_view_may_take_back_what_it_did(place: Place) -> None:
    def view(request: Request, response: Response) -> None:
        insert_twice(request)
        request.sql.rollback()
        do("INSERT INTO t VALUES ('b')")(request)

    assert ask(site(place, view)).status_int == 200
    assert place.look() == ["b", "was"]


@on_each
def test_a_view_may_take_back_everything(place: Place) -> None:
    """And then the answer of a stream that fails does not say that anything is stored."""

    def view(request: Request, response: Response) -> Iterator[bytes]:
        insert_twice(request)
        request.sql.rollback()
        return (bytes(1 // zero) for zero in [0])

    answer = ask(site(place, view))
    assert (answer.status_int, answer.headers.get("X-Outcome")) == (500, None)
    assert place.look() == ["was"]


@on_mariadb
@pytest.mark.parametrize("then", ["nothing", "another error", "in a savepoint"])
def test_r1_a_deadlock_that_the_view_swallows_is_tried_again(place: Place, then: str) -> None:
    """MariaDB has rolled back all that was done before it, and would commit the rest. The savepoint is gone, too,
    which is a second error."""
    place.do("INSERT INTO t VALUES ('b')")
    attempts: list[int] = []
    ready = threading.Barrier(2, timeout=20)

    def other() -> None:
        engine = create_engine(place.url)
        with engine.connect() as connection:
            connection.exec_driver_sql("INSERT INTO t VALUES ('x1'), ('x2'), ('x3'), ('x4'), ('x5')")
            connection.exec_driver_sql("SELECT v FROM t WHERE v = 'b' FOR UPDATE")
            ready.wait()
            connection.exec_driver_sql("SELECT v FROM t WHERE v = 'was' FOR UPDATE")
            connection.commit()
        engine.dispose()

    thread = threading.Thread(target=other)

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        do("INSERT INTO t VALUES ('first')")(request)
        if request.attempt == 1:
            do("SELECT v FROM t WHERE v = 'was' FOR UPDATE")(request)
            thread.start()
            ready.wait()
            time.sleep(0.2)
            with suppress(DBAPIError), request.sql.begin_nested() if then == "in a savepoint" else nullcontext():
                do("SELECT v FROM t WHERE v = 'b' FOR UPDATE")(request)
            if then == "another error":
                with suppress(DBAPIError):
                    do("SELECT nothing FROM nowhere")(request)
        do("INSERT INTO t VALUES ('second')")(request)

    answer = ask(site(place, view))
    thread.join()
    assert answer.status_int == 200
    assert {"first", "second"} <= set(place.look())
    assert attempts == [1, 2]


@pytest.mark.parametrize("place", [MARIADB, PYMYSQL], indirect=True)
def test_r1_a_row_that_has_changed_since_it_was_read_is_tried_again(place: Place) -> None:
    """MariaDB rolls back all then, from 11.6 on by default."""
    attempts: list[int] = []

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        do("SELECT v FROM t", "INSERT INTO t VALUES ('first')")(request)
        if request.attempt == 1:
            place.do("UPDATE t SET v = 'other' WHERE v = 'was'")
            with pytest.raises(DBAPIError, match="Record has changed"):
                do("UPDATE t SET v = 'mine' WHERE v = 'was'")(request)
        do("INSERT INTO t VALUES ('second')")(request)

    place.server.ask("SET GLOBAL innodb_snapshot_isolation = ON")
    try:
        assert ask(site(place, view)).status_int == 200
    finally:
        place.server.ask("SET GLOBAL innodb_snapshot_isolation = OFF")
    assert (attempts, place.look()) == ([1, 2], ["first", "other", "second"])


@pytest.mark.parametrize("place", [MARIADB, PYMYSQL], indirect=True)
def test_a_lock_that_was_not_free_takes_back_its_statement_alone(place: Place) -> None:
    """The server may be set to take back all: it is asked after each error."""

    def view(request: Request, response: Response) -> None:
        do("INSERT INTO t VALUES ('first')")(request)
        with pytest.raises(DBAPIError, match="1205"):
            do("SELECT v FROM t WHERE v = 'was' FOR UPDATE NOWAIT")(request)
        do("INSERT INTO t VALUES ('second')")(request)

    engine = create_engine(place.url)
    with engine.begin() as other:
        other.execute(text("SELECT v FROM t WHERE v = 'was' FOR UPDATE"))
        assert ask(site(place, view)).status_int == 200
    engine.dispose()
    assert place.look() == ["first", "second", "was"]


@on_sqlite
@pytest.mark.parametrize("then", ["nothing", "another error", "in a savepoint"])
def test_r1_a_statement_that_rolls_back_all_and_is_swallowed_is_no_success(place: Place, then: str) -> None:
    """SQLite would store what follows at once, without a transaction."""

    def view(request: Request, response: Response) -> None:
        do("INSERT INTO t VALUES ('first')")(request)
        with suppress(DBAPIError), request.sql.begin_nested() if then == "in a savepoint" else nullcontext():
            do("INSERT OR ROLLBACK INTO t VALUES ('was')")(request)
        if then == "another error":
            with suppress(DBAPIError):
                do("SELECT nothing FROM nowhere")(request)
        do("INSERT INTO t VALUES ('second')")(request)

    answer = ask(site(place, view))
    assert (answer.status_int, answer.headers.get("X-Outcome"), place.look()) == (500, None, ["was"])
    assert ask(site(place, lambda request, response: do(NEW)(request))).status_int == 200


# A view that commits by itself (R2a)


COMMITS: list[tuple[str, str, Callable[[Request], object]]] = [
    ("the manager", "committed", lambda request: (request.tm.commit(), request.tm.begin())),
    ("COMMIT", "committed", do("COMMIT")),
    ("the driver", "unknown", lambda request: request.sql.connection().connection.commit()),
]


@on_each
@pytest.mark.parametrize(("told", "commit"), [told for _, *told in COMMITS], ids=[name for name, *_ in COMMITS])
@pytest.mark.parametrize("more", [False, True])
def test_r2a_a_view_that_has_committed_by_itself_is_not_run_again(
    place: Place, told: str, commit: Callable[[Request], object], more: bool
) -> None:
    attempts: list[int] = []

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        do(f"INSERT INTO t VALUES ('a{request.attempt}')")(request)
        commit(request)
        if more:
            do("SELECT 1")(request)
        fail(request)

    answer = ask(site(place, view))
    assert (attempts, place.look()) == ([1], ["a1", "was"])
    assert (answer.status_int, answer.headers["X-Outcome"]) == (500, told)


@on_mariadb
def test_r2a_nor_is_one_whose_ddl_has_committed(place: Place) -> None:
    def view(request: Request, response: Response) -> None:
        do(f"INSERT INTO t VALUES ('a{request.attempt}')", f"CREATE TABLE t{request.attempt} (a int)")(request)
        fail(request)

    answer = ask(site(place, view))
    assert place.look() == ["a1", "was"]
    assert (answer.status_int, answer.headers["X-Outcome"]) == (500, "committed")


@on_each
def test_the_session_is_not_committed_by_itself(place: Place) -> None:
    """Nor under ``python -O``, which drops the assertion of zope.sqlalchemy."""

    def view(request: Request, response: Response) -> None:
        do(NEW)(request)
        with pytest.raises(RuntimeError, match=r"request\.tm\.commit\(\)"):
            request.sql.commit()
        request.tm.abort()
        request.tm.begin()

    assert ask(site(place, view)).status_int == 200
    assert place.look() == ["was"]


# Errors that are another attempt, or a 503


def own_id(request: Request) -> int:
    """The number by which the server knows the connection, found without use of the driver's connection."""
    connection = request.sql.execute(text("SELECT 1")).context.root_connection._dbapi_connection.driver_connection
    number: int = connection.info.backend_pid if hasattr(connection, "info") else connection.connection_id
    return number


@pytest.mark.parametrize("place", [POSTGRES, MARIADB], indirect=True)
@pytest.mark.parametrize("when", ["read", "write", "savepoint", "swallowed", "commit of a read", "commit"])
def test_r2_a_connection_that_the_server_ends_is_replaced(place: Place, when: str) -> None:
    attempts: list[int] = []

    def kill(request: Request) -> None:
        number = own_id(request)
        if place.kind == "postgres":
            place.server.ask(f"SELECT pg_terminate_backend({number})")
        else:
            place.server.ask(f"KILL {number}")
        time.sleep(0.1)

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        if when == "commit":
            do(NEW)(request)
        if request.attempt == 1:
            kill(request)
            if when == "savepoint":
                request.sql.begin_nested()
            elif when == "swallowed":
                with pytest.raises(DBAPIError):
                    do(NEW)(request)
                return
            elif not when.startswith("commit"):
                do(NEW if when == "write" else "SELECT v FROM t")(request)
        if not when.startswith("commit"):
            do(NEW)(request)

    answer = ask(site(place, view))
    if when == "commit":
        assert (answer.status_int, answer.headers["X-Outcome"], attempts) == (500, "unknown", [1])
    else:
        assert (answer.status_int, attempts) == (200, [1, 2])
        assert place.look() == (["was"] if when == "commit of a read" else ["new", "was"])


def lock(place: Place) -> Any:
    """Hold a lock that the view of the test waits for, until ``rollback()``."""
    connection = create_engine(place.url).connect()
    if place.kind == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    connection.exec_driver_sql("UPDATE t SET v = 'theirs' WHERE v = 'was'")
    return connection


@on_each
@pytest.mark.parametrize("freed", [True, False])
def test_a_lock_that_is_not_free_in_time_is_waited_for_again(place: Place, freed: bool) -> None:
    attempts: list[int] = []
    holder = lock(place)

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        if freed and request.attempt == 2:
            holder.rollback()
        do("UPDATE t SET v = 'mine' WHERE v = 'was'")(request)

    try:
        answer = ask(site(place, view, attempts=2, lock_timeout=0.2))
    finally:
        holder.rollback()
        holder.close()
        holder.engine.dispose()
    assert attempts == [1, 2]
    if freed:
        assert (answer.status_int, place.look()) == (200, ["mine"])
    else:
        assert (answer.status_int, answer.headers["Retry-After"], place.look()) == (503, "1", ["was"])


SLEEPS = {
    "postgres": "SELECT pg_sleep(20)",
    "mariadb": "SELECT count(*) FROM seq_1_to_100000 a, seq_1_to_100000 b, t",
}


@pytest.mark.parametrize("place", [POSTGRES, MARIADB], indirect=True)
def test_a_statement_that_takes_too_long_is_a_503_and_not_tried_again(place: Place, caplog: Any) -> None:
    attempts: list[int] = []

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        do(NEW)(request)
        with pytest.raises(DBAPIError) as caught:
            do(SLEEPS[place.kind])(request)
        raise caught.value

    began = time.monotonic()
    answer = ask(site(place, view, statement_timeout=0.3))
    assert time.monotonic() - began < 10
    assert (answer.status_int, answer.headers["Retry-After"], attempts) == (503, "1", [1])
    assert place.look() == ["was"]
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@on_postgres
def test_a_statement_that_takes_too_long_may_be_handled_by_the_view(place: Place) -> None:
    def view(request: Request, response: Response) -> None:
        do(NEW)(request)
        try:
            with request.sql.begin_nested():
                do(SLEEPS[place.kind])(request)
        except OperationalError:
            do("INSERT INTO t VALUES ('slow')")(request)

    assert ask(site(place, view, statement_timeout=0.3)).status_int == 200
    assert place.look() == ["new", "slow", "was"]


@pytest.mark.parametrize("place", [POSTGRES, MARIADB], indirect=True)
def test_a_server_that_takes_no_writes_is_a_503_until_it_does(place: Place) -> None:
    """As one does that was demoted. Its connections are replaced, since a new one may lead to the new primary."""
    attempts: list[int] = []

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        do(NEW if request.path == "/write" else "SELECT v FROM t")(request)

    def demote(read_only: str) -> None:
        if place.kind == "postgres":
            place.server.ask(f'ALTER DATABASE "{place.name}" SET default_transaction_read_only = {read_only}')
        else:
            place.server.ask(f"SET GLOBAL read_only = {read_only}")

    app = site(place, view)
    demote("on")
    try:
        answer = ask(app, "/write")
        assert (answer.status_int, answer.headers["Retry-After"], attempts) == (503, "1", [1])
        assert ask(app, "/read").status_int == 200
    finally:
        demote("off")
    # the one that has only read is as it was; the one that was refused is replaced
    module.close_all()
    assert ask(app, "/write").status_int == 200
    assert place.look() == ["new", "was"]


@on_each
def test_time_outs_last_as_long_as_the_connection(place: Place) -> None:
    """Also after a transaction that was rolled back."""
    options = {"lock_timeout": 3.0} if place.kind == "sqlite" else {"lock_timeout": 3.0, "statement_timeout": 2.5}
    queries = {
        "sqlite": ["PRAGMA busy_timeout"],
        "postgres": ["SHOW lock_timeout", "SHOW statement_timeout"],
        "mariadb": [
            "SELECT @@innodb_lock_wait_timeout",
            "SELECT @@lock_wait_timeout",
            "SELECT @@max_statement_time",
        ],
    }
    expected = {"sqlite": ["3000"], "postgres": ["3s", "2500ms"], "mariadb": ["3", "3", "2.5"]}
    seen: list[str] = []

    def view(request: Request, response: Response) -> None:
        seen[:] = [str(request.sql.execute(text(query)).scalar()) for query in queries[place.kind]]
        response.status = 400

    app = site(place, view, **options)
    for _ in range(2):
        ask(app)
        assert seen == expected[place.kind]


@on_mariadb
def test_the_arguments_of_a_job_are_stored_whole(place: Place) -> None:
    """Without its strict mode MariaDB cuts what a column has no room for, and says nothing."""
    long = "x" * 100_000
    place.do(
        "SET sql_mode = ''",
        str(CreateTable(TABLE).compile(dialect=mysql.dialect())),
        f"INSERT INTO pipeline_jobs (name, arguments, failed, error) VALUES ('a', '{long}', 0, '')",
    )
    assert place.look("SELECT LENGTH(arguments) FROM pipeline_jobs") == [100_000]
