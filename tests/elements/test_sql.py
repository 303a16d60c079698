"""``sql``: a session for each request, in the transaction of the request (R1, R3 to R5, R8)."""

from __future__ import annotations

import gc
import logging
import os
import re
import sqlite3
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
import sqlalchemy
import webob
from psycopg2 import errorcodes
from pymysql.constants import ER
from sqlalchemy import String, create_engine, delete, event, insert, select, text, update
from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidRequestError, OperationalError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship
from sqlalchemy.orm.exc import StaleDataError
from sqlalchemy.schema import ForeignKey
from transaction.interfaces import NoTransaction
from ZODB.POSException import ConflictError

from around_a_view import View, ask, end, start
from pipeline import Pipeline, Request, Response, element
from pipeline.database import pools, sql_sessions, zodb_pools
from pipeline.database import sql_databases as module
from pipeline.database.outages import Outage
from pipeline.database.places import loggable_uri, sqlite_file, without_secrets
from pipeline.database.pools import Usage
from pipeline.database.sql_databases import Database, close_all
from pipeline.database.sql_dialects import MYSQL, POSTGRESQL, SQLITE, Dialect
from pipeline.database.sql_errors import Judge, code_of
from pipeline.database.sql_sessions import Bound
from pipeline.elements import transaction as transaction_module
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.sql import sql
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import zodb
from pipeline.interfaces import ConfigurationError, ReadOnlyTransaction
from pipeline.testing import FakeDataManager, fault


class Base(DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "author"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(50))
    books: Mapped[list[Book]] = relationship(back_populates="author")


class Book(Base):
    __tablename__ = "book"
    id: Mapped[int] = mapped_column(primary_key=True)
    author_id: Mapped[int | None] = mapped_column(ForeignKey("author.id"))
    title: Mapped[str] = mapped_column(String(50))
    author: Mapped[Author | None] = relationship(back_populates="books")


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A database with an author of three books; afterwards every connection is back in the pool."""
    url = f"sqlite:///{tmp_path}/test.sqlite"
    engine = create_engine(url)
    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        session.add(Author(name="Stifter", books=[Book(title=title) for title in ("a", "b", "c")]))
    engine.dispose()
    yield url
    used = [one for one in module._databases.values() if one.engine.url.database]
    close_all()
    module._databases.clear()
    zodb_pools.close_all()
    zodb_pools._pools.clear()
    for one in used:
        pool: Any = one.engine.pool
        assert pool.checkedout() == 0, "no connection is missing from the pool"


def site(url: str, view: View, **options: Any) -> Pipeline:
    """In the default order."""
    return Pipeline(retry(delay=0), sql(url=url, **options), errors(), transaction(), end(view=view))


def database(url: str) -> Database:
    return next(database for key, database in module._databases.items() if key[0] == url)  # type: ignore[index]


def titles(url: str) -> list[str]:
    """What is stored, read without any element."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    try:
        return [title for (title,) in connection.execute("SELECT title FROM book ORDER BY id")]
    finally:
        connection.close()


def add(request: Request, response: Response) -> None:
    request.sql.add(Book(title="new"))


# The session


def test_what_is_written_is_committed(url: str) -> None:
    assert ask(site(url, add)).status_int == 200
    assert titles(url) == ["a", "b", "c", "new"]


@pytest.mark.parametrize(
    ("options", "limit"), [({}, 18), ({"pool_size": 2, "max_overflow": 1}, 3), ({"max_overflow": -1}, None)]
)
def test_the_usage_of_the_pool(url: str, options: dict[str, Any], limit: int | None) -> None:
    during: list[Usage] = []

    def view(request: Request, response: Response) -> None:
        request.sql.execute(text("SELECT 1"))
        during.append(database(url).usage())

    app = site(url, view, **options)
    assert database(url).usage()[1:] == (0, 0, limit), "nothing is opened"
    assert ask(app).status_int == 200
    assert during == [Usage(database(url).shown, 1, 0, limit)]
    assert database(url).usage()[1:] == (0, 1, limit)
    assert database(url).usage() in pools.usages(), "the counters of the inspector and the metrics have it"


def test_as_many_connections_are_kept_as_a_server_has_threads(url: str) -> None:
    """``deploy`` writes eight threads for one process. Requests that come together again open no connection."""
    together = threading.Barrier(8, timeout=20)
    opened: list[Any] = []

    def view(request: Request, response: Response) -> None:
        request.sql.execute(text("SELECT 1"))
        together.wait()

    app = site(url, view)
    event.listen(database(url).engine, "connect", lambda *arguments: opened.append(arguments))
    with ThreadPoolExecutor(8) as threads:
        for _ in range(2):
            assert {answer.status_int for answer in threads.map(ask, [app] * 8)} == {200}
    assert len(opened) == 8


@pytest.mark.parametrize("status", [400, 404, 500])
def test_r3_an_error_aborts(url: str, status: int) -> None:
    def view(request: Request, response: Response) -> None:
        add(request, response)
        request.sql.flush()
        response.status = status

    assert ask(site(url, view)).status_int == status
    assert titles(url) == ["a", "b", "c"]


def test_r1_it_is_committed_before_it_is_sent(url: str) -> None:
    seen: list[Any] = []
    app = site(url, add)
    app(webob.Request.blank("/").environ, lambda *arguments: seen.append(titles(url)[3:]))
    assert seen == [["new"]]


def insert_core(session: Session) -> None:
    session.execute(insert(Book.__table__).values(title="new"))


def insert_text(session: Session) -> None:
    session.execute(text("INSERT INTO book (title) VALUES ('new')"))


def insert_with(session: Session) -> None:
    session.execute(text("WITH x AS (SELECT 'new' AS title) INSERT INTO book (title) SELECT title FROM x"))


def insert_connection(session: Session) -> None:
    session.connection().exec_driver_sql("/* by hand */ insert into book (title) values ('new')")


def insert_orm(session: Session) -> None:
    session.execute(insert(Book), [{"title": "new"}])


def insert_unit(session: Session) -> None:
    session.add(Book(title="new"))
    session.flush()


def insert_bulk(session: Session) -> None:
    session.bulk_save_objects([Book(title="new")])


INSERTS = [
    insert_core,
    insert_text,
    insert_with,
    insert_connection,
    insert_orm,
    insert_unit,
    insert_bulk,
]


@pytest.mark.parametrize("statement", INSERTS)
def test_nothing_that_is_written_is_dropped(url: str, statement: Callable[[Session], None]) -> None:
    """zope.sqlalchemy alone commits only what goes through the unit of work."""
    assert ask(site(url, lambda request, response: statement(request.sql))).status_int == 200
    assert titles(url) == ["a", "b", "c", "new"]


def test_a_request_that_asks_nothing_opens_nothing(url: str) -> None:
    assert ask(site(url, lambda request, response: None)).status_int == 200
    assert database(url).bounds == set()
    pool: Any = database(url).engine.pool
    assert pool.checkedin() == 0


def test_each_request_has_a_session_and_a_manager_of_its_own(url: str) -> None:
    seen = []
    app = site(url, lambda request, response: seen.append((request.sql, request.tm)))
    ask(app)
    ask(app)
    assert seen[0][0] is not seen[1][0]
    assert seen[0][1] is not seen[1][1]
    assert database(url).bounds == set()


def test_no_cycle_of_references_is_left(url: str) -> None:
    seen = []

    def view(request: Request, response: Response) -> None:
        add(request, response)
        assert request.sql.scalars(select(Book)).all()
        seen.append(weakref.ref(request.sql))

    app = site(url, view)
    assert ask(app).status_int == 200  # what is made once
    gc.collect()
    gc.disable()
    try:
        assert ask(app).status_int == 200
        assert seen[-1]() is None and gc.collect() == 0
    finally:
        gc.enable()


# A session belongs to one request and its transactions (R13)


def modify(book: Book) -> None:
    book.title = "changed"


def bulk_save(session: Session, book: Book) -> None:
    session.bulk_save_objects([Book(title="changed")])


USES_OF_A_SESSION: list[Callable[[Session, Book], object]] = [
    lambda session, book: session.add(Book(title="changed")),
    lambda session, book: session.add_all([Book(title="changed")]),
    lambda session, book: session.merge(Book(id=1, title="changed")),
    lambda session, book: session.delete(book),
    lambda session, book: session.refresh(book),
    lambda session, book: session.get(Book, 2),
    bulk_save,
    lambda session, book: session.begin_nested(),
]


@pytest.mark.parametrize("use", [*USES_OF_A_SESSION, lambda session, book: modify(book)])
@pytest.mark.parametrize("swallow", [False, True])
def test_r13_without_a_transaction_every_use_raises(
    url: str, use: Callable[[Session, Book], object], swallow: bool
) -> None:
    """Also the change of an object; and nothing of it is in the next transaction."""

    def view(request: Request, response: Response) -> None:
        book = request.sql.get(Book, 1)
        request.tm.abort()
        if swallow:
            for _ in range(2):
                with pytest.raises(NoTransaction):
                    use(request.sql, book)
            request.tm.begin()
            add(request, response)
        else:
            use(request.sql, book)

    # A session of SQLAlchemy 2.0 takes it that this refused call still flushes, and can store no more.
    stored = swallow and not (use is bulk_save and sqlalchemy.__version__.startswith("2.0."))
    assert ask(site(url, view)).status_int == (200 if stored else 500)
    assert ask(site(url, add)).status_int == 200
    assert titles(url) == ["a", "b", "c", *(["new", "new"] if stored else ["new"])]


@pytest.mark.parametrize("use", USES_OF_A_SESSION)
@pytest.mark.parametrize("when", ["between", "during the next request", "in a stream"])
def test_r13_a_session_that_is_kept_raises(
    url: str, use: Callable[[Session, Book], object], when: str
) -> None:
    kept: list[Any] = []

    def keep(request: Request, response: Response) -> None:
        kept[:] = [request.sql, request.sql.get(Book, 1)]

    def late() -> None:
        with pytest.raises(InvalidRequestError):
            use(*kept)

    def view(request: Request, response: Response) -> Any:
        add(request, response)
        if when == "during the next request":
            late()
        return (late() or b"" for _ in range(1)) if when == "in a stream" else None

    assert ask(site(url, keep)).status_int == 200
    if when == "between":
        late()
    modify(kept[1])  # it is detached
    assert ask(site(url, view)).status_int == 200
    assert titles(url) == ["a", "b", "c", "new"]


def test_a_listener_may_keep_something_with_the_connection(url: str) -> None:
    """As the inspector does. It is kept open, though a connection whose driver is used would be closed."""
    seen: list[Any] = []

    def view(request: Request, response: Response) -> None:
        connection = request.sql.connection()
        connection.info["number"] = 1
        seen.append(connection._dbapi_connection.driver_connection)  # type: ignore[attr-defined]
        if request.path == "/driver":
            connection.connection.cursor().close()

    app = site(url, view, driver_connection=True)
    for path in ("/", "/", "/driver", "/"):
        assert ask(app, path).status_int == 200
    assert seen[0] is seen[1] is seen[2] is not seen[3]


@pytest.mark.parametrize("name", ["sql", "tm"])
@pytest.mark.parametrize("body", ["in memory", "a stream"])
def test_r13_a_request_that_has_ended_opens_nothing(url: str, name: str, body: str) -> None:
    """Nothing would give it back."""
    kept: list[Any] = []

    def view(request: Request, response: Response) -> Any:
        kept.append(request)
        return None if body == "in memory" else (b"a block" for _ in range(1))

    assert ask(site(url, view)).status_int == 200
    for _ in range(2):
        with pytest.raises(RuntimeError, match=rf"request\.{name} is first used after the end of the request"):
            getattr(kept[0], name)
    assert database(url).bounds == set()


def test_a_rollback_without_a_use_is_a_success(url: str) -> None:
    def view(request: Request, response: Response) -> None:
        if request.path == "/twice":
            add(request, response)
            request.sql.flush()
        request.sql.rollback()
        request.sql.rollback()

    app = site(url, view)
    assert [ask(app, path).status_int for path in ("/", "/twice")] == [200, 200]
    assert titles(url) == ["a", "b", "c"]


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_r5_an_error_of_the_last_rollback_leaves_nothing_in_use(
    url: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def view(request: Request, response: Response) -> None:
        request.sql.scalars(select(Book)).all()
        dialect = database(url).engine.dialect
        original = dialect.do_rollback

        def fails(connection: Any) -> None:
            monkeypatch.setattr(dialect, "do_rollback", original)
            raise error

        monkeypatch.setattr(dialect, "do_rollback", fails)

    logging.disable(logging.ERROR)
    try:
        ask(Pipeline(sql(url=url), end(view=view)))
    except BaseException as raised:
        assert isinstance(raised, error)
    finally:
        logging.disable(logging.NOTSET)
    one = database(url)
    assert (one.bounds, one.usage().used) == (set(), 0)
    assert ask(site(url, add)).status_int == 200


def test_nothing_of_one_request_is_in_the_session_of_the_next(url: str) -> None:
    kept = []

    def view(request: Request, response: Response) -> None:
        assert len(list(request.sql)) == 0
        assert not request.sql.in_transaction()
        kept.append(request.sql.scalars(select(Book)).all())
        request.sql.add(Book(title="not flushed"))
        response.status = 400

    app = site(url, view)
    for _ in range(3):
        assert ask(app).status_int == 400
    assert titles(url) == ["a", "b", "c"]


def test_two_requests_at_a_time_have_two_sessions(url: str) -> None:
    seen = []

    def view(request: Request, response: Response) -> Any:
        seen.append(request.sql)
        return (book.title.encode() for book in request.sql.scalars(select(Book)))

    app = site(url, view)
    bodies = [start(app), start(app)]
    assert seen[0] is not seen[1]
    assert [b"".join(body) for body in bodies] == [b"abc", b"abc"]
    for body in bodies:
        body.close()


def test_options_reach_the_engine(url: str) -> None:
    ask(site(url, add, pool_size=3, max_overflow=2, pool_timeout=7, pool_recycle=100, pool_pre_ping=False))
    pool: Any = database(url).engine.pool
    assert (pool.size(), pool._max_overflow, pool._timeout, pool._recycle) == (3, 2, 7, 100)
    assert pool._pre_ping is False


def test_elements_with_the_same_options_share_one_engine(url: str) -> None:
    ask(site(url, add))
    ask(site(url, add))
    ask(site(url, add, pool_size=1))
    assert len(module._databases) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "nonsense"}, "Could not parse"),
        ({"url": "nosuchdatabase://user:secret@host/x"}, "nosuchdatabase"),
        ({"url": "sqlite://", "isolation_level": "AUTOCOMMIT"}, "AUTOCOMMIT"),
        ({"url": "sqlite://", "isolation_level": "NONSENSE"}, "sqlite has READ UNCOMMITTED, SERIALIZABLE"),
        ({"url": "sqlite://", "twophase": True}, "sqlite has no two-phase commit"),
        ({"url": "sqlite://", "max_overflow": 3}, "max_overflow"),
    ],
)
def test_what_is_refused_at_load(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        sql(**options)(lambda environ, start_response: [])
    assert "secret" not in str(caught.value)


def test_it_can_be_written_in_an_ini() -> None:
    made = sql({}, url="sqlite://", pool_size="3", pool_pre_ping="no", twophase="true")
    assert made.options == {"url": "sqlite://", "pool_size": 3, "pool_pre_ping": False, "twophase": True}


# With a ZODB beside it: both commit, or neither does


def both(url: str, view: View, *inner: Any) -> Pipeline:
    database = zodb(uri="memory://test_sql")
    return Pipeline(retry(delay=0), database, sql(url=url), errors(), transaction(), *inner, end(view=view))


def write_both(request: Request, response: Response) -> None:
    request.root["count"] = request.root.get("count", 0) + 1
    add(request, response)


def count(url: str) -> int:
    found: list[int] = []
    ask(both(url, lambda request, response: found.append(request.root.get("count", 0))))
    return found[0]


def test_both_are_in_one_transaction(url: str) -> None:
    def view(request: Request, response: Response) -> None:
        write_both(request, response)
        assert request.tm is request.zodb.transaction_manager

    assert ask(both(url, view)).status_int == 200
    assert (titles(url)[3:], count(url)) == (["new"], 1)


@pytest.mark.parametrize("step", ["tpc_begin", "commit", "tpc_vote"])
def test_neither_commits_when_another_fails(url: str, step: str) -> None:
    def view(request: Request, response: Response) -> None:
        write_both(request, response)
        FakeDataManager(request.tm, fails={step: ValueError}).join()

    assert ask(both(url, view)).status_int == 500
    assert (titles(url)[3:], count(url)) == ([], 0)


@pytest.mark.parametrize("error", [ValueError, ConflictError])
def test_a_manager_that_fails_after_the_vote_of_sql__R4(url: str, error: type[Exception]) -> None:
    """The vote of SQL is its commit. So the answer does not say that nothing is stored, and nothing is tried
    again."""
    calls = []

    def view(request: Request, response: Response) -> None:
        calls.append(request)
        add(request, response)
        FakeDataManager(request.tm, fails={"tpc_vote": error}, key="\U0010ffff").join()

    answer = ask(site(url, view))
    assert (answer.status_int, answer.headers["X-Outcome"]) == (500, "unknown")
    assert (titles(url)[3:], len(calls)) == (["new"], 1)


def test_neither_commits_when_sql_cannot(url: str) -> None:
    """It votes last, since its vote is the commit."""
    fails = iter([True, False])

    def view(request: Request, response: Response) -> None:
        write_both(request, response)
        if next(fails):
            request.sql.connection().detach()
            event.listen(request.sql, "after_flush_postexec", lambda *arguments: 1 / 0, once=True)

    assert ask(both(url, view)).status_int == 500
    assert (titles(url)[3:], count(url)) == ([], 0)
    assert ask(both(url, view)).status_int == 200
    assert (titles(url)[3:], count(url)) == (["new"], 1)


def test_sql_votes_after_all_others(url: str) -> None:
    order: list[str] = []

    def view(request: Request, response: Response) -> None:
        write_both(request, response)
        for resource, vote in ((request.zodb, "zodb"), (FakeDataManager(request.tm, key="~last").join(), "other")):
            watch(resource, vote)
        request.sql.flush()
        [ours] = [one for one in request.tm.get()._resources if isinstance(one, sql_sessions.SessionDataManager)]
        watch(ours, "sql")

    def watch(resource: Any, name: str) -> None:
        vote = resource.tpc_vote
        resource.tpc_vote = lambda transaction: (order.append(name), vote(transaction))[1]

    assert ask(both(url, view)).status_int == 200
    assert order == ["zodb", "other", "sql"]


def test_a_conflict_in_the_zodb_is_repaired_in_both(url: str) -> None:
    app: Any = None

    def view(request: Request, response: Response) -> None:
        write_both(request, response)
        if request.path == "/slow" and request.attempt == 1:
            request.sql.rollback()  # SQLite has room for one writer
            assert ask(app, "/quick").status_int == 200
            add(request, response)

    app = both(url, view)
    assert ask(app, "/slow").status_int == 200
    assert (titles(url)[3:], count(url)) == (["new", "new"], 2)


# Where only reading is allowed (R8)


@pytest.mark.parametrize("statement", INSERTS)
def test_without_transaction_a_write_is_refused(url: str, statement: Callable[[Session], None]) -> None:
    seen = []

    def view(request: Request, response: Response) -> None:
        assert request.sql.scalars(select(Book)).first()
        with pytest.raises(ReadOnlyTransaction, match=r"only reads \(R8\)") as caught:
            statement(request.sql)
        seen.append(str(caught.value))

    assert ask(Pipeline(sql(url=url), end(view=view))).status_int == 200
    assert re.search("(?i)insert|Book", seen[0]), "it says what"
    assert titles(url) == ["a", "b", "c"]


def change_flush(session: Session) -> None:
    session.scalars(select(Book)).first().title = "changed"  # type: ignore[union-attr]
    session.flush()


def change_autoflush(session: Session) -> None:
    session.scalars(select(Book)).first().title = "changed"  # type: ignore[union-attr]
    session.scalars(select(Book)).all()


def change_delete(session: Session) -> None:
    session.delete(session.scalars(select(Book)).first())
    session.flush()


def change_update(session: Session) -> None:
    session.execute(update(Book).values(title="changed"))


@pytest.mark.parametrize("change", [*INSERTS, change_flush, change_autoflush, change_delete, change_update])
@pytest.mark.parametrize("opened", ["in the view", "while sending"])
def test_r8_a_write_while_the_body_is_sent_is_refused(
    url: str, change: Callable[[Session], None], opened: str
) -> None:
    def view(request: Request, response: Response) -> Iterator[bytes]:
        if opened == "in the view":
            add(request, response)

        def body() -> Iterator[bytes]:
            yield b"a block"
            yield b"another"
            change(request.sql)

        return body()

    body = start(site(url, view))
    with pytest.raises(ReadOnlyTransaction, match="R8"):
        list(body)
    body.close()
    assert titles(url) == (["a", "b", "c", "new"] if opened == "in the view" else ["a", "b", "c"])


def test_r8_a_change_that_a_stream_does_not_flush_is_in_the_log(url: str, caplog: Any) -> None:
    def view(request: Request, response: Response) -> Iterator[bytes]:
        def body() -> Iterator[bytes]:
            request.sql.scalars(select(Book)).first().title = "changed"  # type: ignore[union-attr]
            yield b"a block"

        return body()

    assert ask(site(url, view)).status_int == 200
    assert re.search(r"dropped: a write to <\S*Book .*only reads \(R8\)", caplog.text)
    assert titles(url) == ["a", "b", "c"]


def a_query(session: Session) -> Iterator[bytes]:
    """Begun by the view, read while it is sent."""
    return (book.title.encode() for book in session.scalars(select(Book).order_by(Book.id)))


def objects(session: Session) -> Iterator[bytes]:
    books = session.scalars(select(Book).order_by(Book.id)).all()
    return (book.title.encode() for book in books)


def related(session: Session) -> Iterator[bytes]:
    author = session.scalars(select(Author)).one()
    return (book.title.encode() for book in author.books)


def lazily(session: Session) -> Iterator[bytes]:
    def body() -> Iterator[bytes]:
        for book in session.scalars(select(Book).order_by(Book.id)):
            yield book.title.encode()

    return body()


STREAMS = [a_query, objects, related, lazily]


@pytest.mark.parametrize("stream", STREAMS)
def test_r8_a_stream_reads(url: str, stream: Callable[[Session], Iterator[bytes]]) -> None:
    assert ask(site(url, lambda request, response: stream(request.sql))).text == "abc"


@pytest.mark.parametrize(("view", "outcome"), [(a_query, None), (insert_text, "committed")])
def test_a_stream_that_fails_says_what_became_of_the_changes(url: str, view: Any, outcome: str | None) -> None:
    """If there were any."""

    def work(request: Request, response: Response) -> Iterator[bytes]:
        view(request.sql)
        return (bytes(1 // zero) for zero in [0])

    answer = ask(site(url, work))
    assert (answer.status_int, answer.headers.get("X-Outcome")) == (500, outcome)


@pytest.mark.parametrize("stream", [objects, related, lazily])
def test_r8_a_stream_reads_after_its_view_has_written(
    url: str, stream: Callable[[Session], Iterator[bytes]]
) -> None:
    """Objects are read anew. A query must be begun after the commit: the commit ends it."""

    def view(request: Request, response: Response) -> Any:
        request.sql.add(Book(title="z", author=request.sql.scalars(select(Author)).one()))
        request.sql.flush()
        return stream(request.sql)

    assert ask(site(url, view)).text == "abcz"
    assert titles(url) == ["a", "b", "c", "z"]


@pytest.mark.parametrize("stream", [objects, related, lazily])
@pytest.mark.parametrize("blocks", [0, 1, 2, 9])
def test_r5_a_stream_gives_the_connection_back(
    url: str, stream: Callable[[Session], Iterator[bytes]], blocks: int
) -> None:
    body = start(site(url, lambda request, response: stream(request.sql)))
    pool: Any = database(url).engine.pool
    assert pool.checkedout() == 1
    for _ in range(blocks):
        next(body, None)
    body.close()
    assert pool.checkedout() == 0
    assert database(url).bounds == set()


def test_a_body_in_memory_has_given_everything_back_before_it_is_sent(url: str) -> None:
    seen: list[int] = []

    def start_response(*arguments: Any) -> None:
        pool: Any = database(url).engine.pool
        seen.append(pool.checkedout())

    def view(request: Request, response: Response) -> Any:
        return [book.title.encode() for book in request.sql.scalars(select(Book))]

    site(url, view)(webob.Request.blank("/").environ, start_response)
    assert seen == [0]


@pytest.mark.parametrize("at", ["enter", "exit", "close"])
@pytest.mark.parametrize("error", [ValueError, MemoryError, GeneratorExit, SystemExit])
def test_r5_whatever_happens(url: str, at: str, error: type[BaseException]) -> None:
    """The fixture looks whether every connection is back."""

    def app(*, faulty: bool) -> Pipeline:
        between = fault(error=error, at=at, when=lambda request: faulty)
        return Pipeline(sql(url=url), errors(), transaction(), between, end(view=add))

    logging.disable(logging.ERROR)
    try:
        ask(app(faulty=True))
    except BaseException as raised:
        assert isinstance(raised, error)
    finally:
        logging.disable(logging.NOTSET)
    ask(app(faulty=False))
    assert titles(url)[3:] == (["new", "new"] if at == "close" else ["new"])


def test_an_error_view_reads_what_is_stored_and_not_what_was_aborted(url: str) -> None:
    @element
    def page(next: Any) -> Any:
        """Reads the database after an error, as an error view does."""

        def page(request: Request, response: Response) -> None:
            try:
                next(request, response)
            except ValueError:
                request.tm.begin()
                found = request.sql.scalars(select(Book.title).order_by(Book.id)).all()
                response.app_iter = ["".join(found).encode()]

        return page

    def view(request: Request, response: Response) -> None:
        add(request, response)
        request.sql.flush()
        raise ValueError

    assert ask(Pipeline(sql(url=url), page(), transaction(), end(view=view))).text == "abc"


# Errors that are worth another attempt


def test_a_locked_database_is_tried_again(url: str) -> None:
    """Two requests count: SQLite lets one of them read, and refuses what it writes then."""
    app: Any = None

    def view(request: Request, response: Response) -> None:
        book = request.sql.scalars(select(Book).where(Book.id == 1)).one()
        if request.path == "/slow" and request.attempt == 1:
            assert ask(app, "/quick").status_int == 200
        book.title += "+"

    app = site(f"{url}?timeout=0", view)
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    assert ask(app, "/slow").status_int == 200
    assert titles(url)[0] == "a++", "no increment is lost"


def test_many_writers_lose_nothing(url: str) -> None:
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    connection.close()

    def view(request: Request, response: Response) -> None:
        book = request.sql.get(Book, 1)
        book.title = str(int(book.title) + 1) if book.title.isdigit() else "1"

    app = Pipeline(retry(attempts=50, delay=0.001), sql(url=url), errors(), transaction(), end(view=view))
    done: list[int] = []
    threads = [
        threading.Thread(target=lambda: done.extend(ask(app).status_int for _ in range(10))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done.count(200) == int(titles(url)[0])
    assert done.count(200) == 40


def test_an_object_that_another_has_changed_is_tried_again(url: str) -> None:
    failing = iter([True, True, False])

    def view(request: Request, response: Response) -> None:
        request.sql.scalars(select(Book)).all()
        if next(failing):
            raise StaleDataError

    assert ask(site(url, view)).status_int == 200


def test_a_full_disk_is_a_503_until_there_is_room(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """SQLite says the same of a database that has reached the most pages that it may have."""
    calls: list[str] = []

    def view(request: Request, response: Response) -> None:
        calls.append(request.path)
        session = request.sql
        if request.path == "/full":
            session.execute(text(f"PRAGMA max_page_count = {session.scalar(text('PRAGMA page_count'))}"))
        session.add_all(Book(title="x" * 50) for _ in range(500))
        session.flush()

    app = site(url, view)
    answer = ask(app, "/full", method="POST")
    assert answer.status_int == 503 and "Retry-After" in answer.headers
    assert calls == ["/full"], "another attempt would find no room either"
    assert "Traceback" not in caplog.text
    assert titles(url) == ["a", "b", "c"]
    assert ask(app, "/", method="POST").status_int == 200


class DriverError(Exception):
    """The class ``Error`` of a driver."""


def driver_error(**attributes: Any) -> BaseException:
    attributes = dict(attributes)
    error: BaseException = attributes.pop("of", DriverError)(*attributes.pop("args", ()))
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


CODES = [
    (POSTGRESQL, "psycopg2 serialization", {"pgcode": "40001"}, "40001", True, True),
    (POSTGRESQL, "psycopg2 deadlock", {"pgcode": "40P01"}, "40P01", True, True),
    (POSTGRESQL, "psycopg serialization", {"sqlstate": "40001"}, "40001", True, True),
    (POSTGRESQL, "psycopg2 unique", {"pgcode": "23505"}, "23505", False, True),
    (POSTGRESQL, "a trigger", {"pgcode": "P0001"}, "P0001", False, True),
    (POSTGRESQL, "completion unknown", {"pgcode": "40003"}, "40003", False, False),
    (POSTGRESQL, "terminated", {"pgcode": "57P01"}, "57P01", False, False),
    (POSTGRESQL, "disk full", {"pgcode": "53100"}, "53100", False, False),
    (POSTGRESQL, "psycopg2 connection lost", {"pgcode": None}, None, False, False),
    (POSTGRESQL, "pg8000 deadlock", {"args": ({"S": "ERROR", "C": "40P01"},)}, "40P01", True, True),
    (MYSQL, "mysqlclient deadlock", {"args": (1213, "Deadlock found")}, 1213, True, True),
    (MYSQL, "mysqlclient lock wait", {"args": (1205, "Lock wait timeout")}, 1205, True, True),
    (MYSQL, "mysqlclient gone away", {"args": (2006, "gone away")}, 2006, False, False),
    (MYSQL, "connector deadlock", {"errno": 1213, "sqlstate": "40001"}, 1213, True, True),
    (MYSQL, "connector lost", {"errno": 2013, "sqlstate": None}, 2013, False, False),
    (MYSQL, "mariadb changed", {"args": (1020, "Record has changed")}, 1020, True, True),
    (MYSQL, "galera lost its quorum", {"args": (1180, "Got error 6 during COMMIT")}, 1180, False, False),
    (SQLITE, "sqlite busy", {"sqlite_errorname": "SQLITE_BUSY"}, "SQLITE_BUSY", True, True),
    (SQLITE, "sqlite snapshot", {"sqlite_errorname": "SQLITE_BUSY_SNAPSHOT"}, "SQLITE_BUSY", True, True),
    (SQLITE, "sqlite locked", {"sqlite_errorname": "SQLITE_LOCKED"}, "SQLITE_LOCKED", True, True),
    (SQLITE, "sqlite unique", {"sqlite_errorname": "SQLITE_CONSTRAINT_UNIQUE"}, "SQLITE_CONSTRAINT", False, True),
    (SQLITE, "sqlite disk", {"sqlite_errorname": "SQLITE_IOERR_WRITE"}, "SQLITE_IOERR", False, False),
    (SQLITE, "nothing known", {"args": ("oops",)}, None, False, False),
    # The number of another database means nothing: 1205 is a deadlock of SQL Server, which rolls back.
    (SQLITE, "another database", {"args": (1205, "lock wait")}, 1205, False, False),
]


@pytest.mark.parametrize(("dialect", "name", "attributes", "code", "transient", "refused"), CODES)
def test_what_databases_say(
    dialect: Dialect, name: str, attributes: dict[str, Any], code: Any, transient: bool, refused: bool
) -> None:
    error = driver_error(**attributes)
    judge = Judge(dialect.errors, DriverError)
    assert code_of(error) == code
    assert judge.is_transient(DBAPIError("SELECT", {}, error)) is transient
    assert judge.was_refused(error) is refused
    assert judge.is_transient(DBAPIError("SELECT", {}, error, connection_invalidated=True))
    assert not judge.is_transient(error), "nobody knows where it comes from"


@pytest.mark.parametrize("dialect", [POSTGRESQL, MYSQL, SQLITE])
def test_only_the_driver_speaks_for_the_database__R4(dialect: Dialect) -> None:
    """An exception of the site has no code, whatever its arguments look like."""

    class Limit(Exception):
        """The time limit of a site, in seconds."""

    judge = Judge(dialect.errors, DriverError)
    for code in (*dialect.errors.refused, *dialect.errors.transient):
        shapes = [{"args": (code,)}, {"errno": code}, {"pgcode": code}, {"sqlite_errorname": code}]
        for attributes in [*shapes, {"args": ({"C": code},)}]:
            error = driver_error(of=Limit, **attributes)
            assert not judge.was_refused(error)
            assert not judge.is_transient(DBAPIError("COMMIT", {}, error))


UNKNOWN_AFTER = {
    "postgresql": ["08", "53", "58", "57P", "XX", "F0", "HV", "40003", "00", "01", "02", "03", "0L", "20", "26"],
    "mysql": [1180, 1026, 1030, 1021, 1037, 1041, 1047, 1053, 1158, 1159, 1160, 1161, 1317, 1927, 1969, 3024],
}
"""Codes of errors at COMMIT after which the changes may be stored."""


def test_every_code_of_postgresql_has_a_class_at_commit__R4() -> None:
    """The list is the one that psycopg2 makes of the server's own errcodes.txt."""
    names = [name for name in vars(errorcodes) if name.isupper() and not name.startswith("CLASS")]
    codes = {name: getattr(errorcodes, name) for name in names}
    assert len(codes) > 200
    judge = Judge(POSTGRESQL.errors, DriverError)
    unknown = tuple(UNKNOWN_AFTER["postgresql"])
    for name, code in codes.items():
        refused = judge.was_refused(driver_error(pgcode=code))
        assert not (refused and code.startswith(unknown)), name
    refused_now = {code for code in codes.values() if judge.was_refused(driver_error(pgcode=code))}
    assert {"23505", "23503", "23514", "40001", "40P01", "P0001", "22003", "42501"} <= refused_now


def test_every_code_of_mariadb_but_a_few_is_unknown_at_commit__R4() -> None:
    """The list is the one of PyMySQL, which is the server's."""
    codes = {value for value in vars(ER).values() if isinstance(value, int)} | set(range(2000, 3000))
    assert len(codes) > 800
    judge = Judge(MYSQL.errors, DriverError)
    refused = {code for code in codes if judge.was_refused(driver_error(args=(code, "")))}
    assert refused == MYSQL.errors.refused & codes
    assert refused.isdisjoint(UNKNOWN_AFTER["mysql"])


@pytest.mark.parametrize("error", [sqlite3.OperationalError("disk I/O error"), TimeoutError(30), RuntimeError(30)])
def test_an_error_at_commit_that_is_no_answer_is_never_tried_again__R4(
    url: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = []

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        add(request, response)
        dialect = database(url).engine.dialect
        original = dialect.do_commit

        def stored_and_then(connection: Any) -> None:
            monkeypatch.setattr(dialect, "do_commit", original)
            original(connection)
            raise error

        monkeypatch.setattr(dialect, "do_commit", stored_and_then)

    answer = ask(site(url, view))
    assert (answer.status_int, answer.headers["X-Outcome"]) == (500, "unknown")
    assert attempts == [1] and titles(url)[3:] == ["new"]


@pytest.mark.parametrize("limit", [RuntimeError("a limit"), RuntimeError(30), ConflictError()])
def test_an_error_that_anything_raises_after_commit_tells_that_the_outcome_is_unknown__R4(
    url: str, limit: Exception
) -> None:
    """A limit that a signal raises may strike between the answer of the database and any note of it."""
    attempts = []

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        add(request, response)
        strike_after_commit(limit)

    answer = ask(site(url, view))
    assert answer.status_int >= 500 and answer.headers["X-Outcome"] == "unknown"
    assert attempts == [1] and titles(url)[3:] == ["new"]


def strike_after_commit(error: Exception) -> None:
    """Raise an error at the first line that runs once the driver has committed, as a signal may."""

    def trace(frame: Any, event: str, argument: object) -> Any:
        if frame.f_code.co_name == "do_commit" and event == "return":
            armed.append(True)
        elif armed and event == "line":
            sys.settrace(None)
            raise error
        return trace

    armed: list[bool] = []
    frame = sys._getframe()
    while frame is not None:
        frame.f_trace = trace
        frame = frame.f_back  # type: ignore[assignment]
    sys.settrace(trace)


def test_what_sqlite_really_says(url: str) -> None:
    path = url.removeprefix("sqlite:///")
    one, other = sqlite3.connect(path, timeout=0), sqlite3.connect(path, timeout=0)
    one.execute("INSERT INTO book (title) VALUES ('x')")
    with pytest.raises(sqlite3.OperationalError) as caught:
        other.execute("INSERT INTO book (title) VALUES ('y')")
    one.rollback()
    one.close()
    other.close()
    assert code_of(caught.value) == "SQLITE_BUSY"


def test_the_connection_is_lost_in_the_middle(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        request.sql.scalars(select(Book)).all()
        if request.attempt == 1:
            lose_connection(database(url), monkeypatch, "do_execute")
            request.sql.scalars(select(Author)).all()
        add(request, response)

    assert ask(site(url, view)).status_int == 200
    assert attempts == [1, 2]
    assert titles(url)[3:] == ["new"]


@pytest.mark.parametrize("where", ["connect", "do_execute"])
def test_what_a_socket_raises_is_a_lost_connection__R2(
    where: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pg8000 raises it as it is: in the middle it is tried again, and without a connection it is a 503."""
    attempts: list[int] = []

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        if request.attempt == 1:
            dialect = database(url).engine.dialect
            original = getattr(dialect, where)

            def reset(*arguments: Any, **more: Any) -> Any:
                if where == "do_execute":
                    monkeypatch.setattr(dialect, where, original)
                raise ConnectionResetError(104, "Connection reset by peer")

            monkeypatch.setattr(dialect, where, reset)
        request.sql.scalars(select(Book)).all()

    answer = ask(site(url, view))
    assert answer.status_int == (503 if where == "connect" else 200), answer.text
    assert attempts == ([1] if where == "connect" else [1, 2])
    close_all()


def lose_connection(database: Database, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """The connection to the server breaks, once, where the driver does something."""
    dialect = database.engine.dialect
    original = getattr(dialect, where)

    def broken(*arguments: Any, **more: Any) -> Any:
        monkeypatch.setattr(dialect, where, original)
        raise sqlite3.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(dialect, where, broken)
    monkeypatch.setattr(dialect, "is_disconnect", lambda error, *more: "closed the connection" in str(error))


@pytest.mark.parametrize("sure", [True, False])
def test_r4_the_connection_is_lost_during_commit(
    url: str, sure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows whether it is stored: it is not tried again, and the answer says so."""
    attempts = []

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        add(request, response)
        lose_connection(database(url), monkeypatch, "do_commit")
        if not sure:  # an error that SQLAlchemy does not know
            monkeypatch.setattr(database(url).engine.dialect, "is_disconnect", lambda *arguments: False)

    answer = ask(site(url, view))
    assert (answer.status_int, answer.headers["X-Outcome"]) == (500, "unknown")
    assert attempts == [1]


def test_r4_a_commit_that_the_database_refuses_is_tried_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []
    original: Any = None

    def refused(connection: Any) -> None:
        monkeypatch.setattr(database(url).engine.dialect, "do_commit", original)
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorname = "SQLITE_BUSY"
        raise error

    def view(request: Request, response: Response) -> None:
        nonlocal original
        attempts.append(request.attempt)
        add(request, response)
        if request.attempt == 1:
            original = database(url).engine.dialect.do_commit
            monkeypatch.setattr(database(url).engine.dialect, "do_commit", refused)

    assert ask(site(url, view)).status_int == 200
    assert attempts == [1, 2]
    assert titles(url)[3:] == ["new"]


def test_r4_what_is_lost_before_the_commit_is_tried_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        add(request, response)
        if request.attempt == 1:
            lose_connection(database(url), monkeypatch, "do_execute")  # the flush

    assert ask(site(url, view)).status_int == 200
    assert attempts == [1, 2]
    assert titles(url)[3:] == ["new"]


# A database that is not there


def lines_of(caplog: Any) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "pipeline.database"]


def test_a_database_that_is_down(tmp_path: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 with Retry-After and one line of log, and it comes back by itself."""
    monkeypatch.setattr(Outage, "PAUSE", 0.05)
    place = tmp_path / "later"
    url = f"sqlite:///{place}/test.sqlite"
    app = site(url, lambda request, response: request.sql.execute(text("SELECT 1")) and None)
    for _ in range(5):
        answer = ask(app)
        assert (answer.status_int, answer.headers["Retry-After"]) == (503, "1")
        time.sleep(0.02)
    place.mkdir()
    time.sleep(0.06)
    assert ask(app).status_int == 200
    down, up = lines_of(caplog)
    assert re.fullmatch(r"the database sqlite://\S+ cannot be reached; .* 503: OperationalError: .*", down)
    assert re.fullmatch(r"the database sqlite://\S+ is reached again, after \d+\.\d s", up)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == [
        record for record in caplog.records if record.name == "pipeline.database"
    ], "nothing else is logged but the outage"
    close_all()


@pytest.mark.parametrize("threads", [3, 8])
def test_a_refused_connection_does_not_close_those_that_are_open__R15(
    threads: int, url: str, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The role may have few connections, or may not log in any more. Requests wait for an open one, as ``health``
    does."""
    app = site(url, lambda request, response: request.sql.scalars(select(Book)).all() and time.sleep(0.002))
    statuses = Counter[int]()
    assert ask(app).status_int == 200
    dialect = database(url).engine.dialect
    original = dialect.connect

    def connect(*arguments: Any, **more: Any) -> Any:
        raise sqlite3.OperationalError("remaining connection slots are reserved")

    monkeypatch.setattr(dialect, "connect", connect)
    end = time.monotonic() + 20  # on a busy machine; an outage of a second each would let 20 through

    def visit() -> None:
        while statuses[200] <= 50 and time.monotonic() < end:
            status = ask(app).status_int
            statuses[status] += 1

    with ThreadPoolExecutor(threads) as pool:
        for _ in range(threads):
            pool.submit(visit)
    assert statuses[200] > 50 and statuses[503] <= threads, statuses
    said = [line for line in lines_of(caplog) if "cannot be reached" in line]
    assert len(said) == 1 and said[0].startswith("one more connection to the database"), said
    monkeypatch.setattr(dialect, "connect", original)
    close_all()


def test_a_database_that_goes_away_and_comes_back(
    url: str, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Outage, "PAUSE", 0.05)
    app = site(url, lambda request, response: request.sql.scalars(select(Book)).all() and None)
    assert ask(app).status_int == 200
    dialect = database(url).engine.dialect
    database(url).engine.dispose()
    with monkeypatch.context() as patch:
        patch.setattr(dialect, "connect", lambda *arguments, **more: raise_refused())
        for _ in range(5):
            assert ask(app).status_int == 503
    time.sleep(0.06)
    assert ask(app).status_int == 200
    assert len(lines_of(caplog)) == 2


def raise_refused() -> None:
    raise sqlite3.OperationalError("connection refused")


def test_close_all_ends_an_outage(url: str) -> None:
    """The next request tries at once whether the database is there."""
    app = site(url, add)
    assert ask(app).status_int == 200
    database(url).engine.dispose()
    database(url).outage.begin(ConnectionError())
    assert ask(app).status_int == 503
    close_all()
    assert ask(app).status_int == 200


def test_a_request_that_asks_for_the_session_only_ends_no_outage(url: str) -> None:
    app = site(url, lambda request, response: request.sql and None)
    assert ask(app).status_int == 200
    database(url).outage.begin(ConnectionError())
    database(url).outage._next_try = 0.0
    assert ask(app).status_int == 200
    assert database(url).outage.since is None


def test_where_every_connection_is_in_use(url: str, caplog: Any) -> None:
    """503 with Retry-After once the patience is over, and all is well when one comes back."""

    def view(request: Request, response: Response) -> Iterator[bytes]:
        return lazily(request.sql)

    app = site(url, view, pool_size=1, max_overflow=0, pool_timeout=0.01)
    body = start(app)
    answer = ask(app)
    assert (answer.status_int, answer.headers["Retry-After"]) == (503, "1")
    (line,) = (record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING)
    assert "503, Unavailable: every connection to the database is in use: QueuePool limit of size 1" in line
    assert b"".join(body) == b"abc"
    body.close()
    assert ask(app).body == b"abc"


def test_what_is_shown_of_a_url_has_no_secrets() -> None:
    for url, shown in [
        ("postgresql+psycopg2://user:secret@host:5432/db?x=y", "postgresql+psycopg2://host:5432/db"),
        ("sqlite:////srv/db.sqlite", "sqlite:////srv/db.sqlite"),
        ("mysql://user@host/db", "mysql://host/db"),
        ("postgres://site:se/cr@et?x#y@host/db", "postgres://host/db"),
        ("postgres://site:secret", "postgres://***"),
        ("secret", "***"),
        ("file:///srv/a@b/Data.fs?blobstorage_dir=x", "file:///srv/a@b/Data.fs"),
        ("zeo://[::1]:9991?storage=1", "zeo://[::1]:9991"),
    ]:
        assert loggable_uri(url) == shown


@pytest.mark.parametrize("is_hidden", [True, False])
def test_values_of_a_failed_statement_are_logged_if_the_site_says_so__S25(
    is_hidden: bool, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    value = "s3cret-7d1"

    def view(request: Any, response: Any) -> None:
        request.sql.execute(text("insert into missing values (:pw)"), {"pw": value})

    app = Pipeline(sql(url=url, hide_parameters=is_hidden), errors(), transaction(), end(view=view))
    assert ask(app).status_int == 500
    assert "insert into missing" in caplog.text and (value in caplog.text) is not is_hidden


def test_an_error_of_sqlalchemy_is_told_without_the_password__S25(monkeypatch: pytest.MonkeyPatch) -> None:
    """2.0 quotes a URL that it cannot parse."""
    uri = "postgresql://site:s3cret@host/db"

    def refuse(*given: Any, **options: Any) -> None:
        raise ArgumentError(f"Could not parse SQLAlchemy URL from string '{uri}'")

    monkeypatch.setattr(module, "create_engine", refuse)
    with pytest.raises(ConfigurationError, match="from string 'postgresql://host/db'"):
        Pipeline(sql(url=uri), end(view=print))


def test_a_message_says_how_the_signs_of_a_password_are_written() -> None:
    for sign in "/?#@:%":
        said = without_secrets("found 's3c'", f"postgres://site:s3c{sign}r3t@host/db")
        assert f"{sign} {quote(sign, safe='')}" in said and "in an ini each % is doubled" in said
        assert "s3c" not in said
    with pytest.raises(ConfigurationError, match="an '@' in a user or a password is written %40"):
        Pipeline(sql(url="postgresql://site:s3c@r3t@host/db"), end(view=print))  # drivers log the host, r3t@host


@pytest.mark.parametrize(
    "password", ["s3cr3t", "a/b", "a#b", "a?b", "a@b", "s3c/r3t", "s3c@r3t", "s3c:r3t", "a%b", "s3c%40r3t"]
)
@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "mysql+pymysql"])
def test_no_message_quotes_a_part_of_a_password__S25(password: str, scheme: str) -> None:
    """The judge knows the parts that parsers of URLs make of it."""
    uri = f"{scheme}://site:{password}@host/db"
    parts = {one for one in re.split("[/#?@:%]", password) if len(one) > 1} | {password}
    limits = partial(authenticate, check=print)
    of_redis = uri.replace(scheme, "redis")
    asked = (sql, "url", uri), (zodb, "uri", uri), (sql, "url", f"{uri}:x"), (limits, "limits", of_redis)
    for made, option, value in asked:
        try:
            Pipeline(made(**{option: value}), end(view=print))
        except ConfigurationError as error:
            assert not any(part in str(error) for part in parts), error
    assert not any(part in loggable_uri(uri) for part in parts)
    for said in (f"cannot parse {uri}", *(f"found {part!r}" for part in parts)):
        assert not any(part in without_secrets(said, uri) for part in parts)


# Processes


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_process_does_not_use_what_its_parent_has_open(url: str) -> None:
    app = site(url, add)
    ask(app)
    before = database(url).engine.pool
    child = os.fork()
    if child == 0:  # pragma: no cover
        status = 1
        try:
            own = database(url).engine.pool
            if own is not before and not database(url).bounds and ask(app).status_int == 200:
                status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert ask(app).status_int == 200
    assert titles(url)[3:] == ["new", "new", "new"]


# Positive controls


def test_control_close_is_forgotten(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Bound, "leave", lambda bound: None)
        patch.setattr(Bound, "afterCompletion", lambda bound, transaction: None)
        with pytest.raises(AssertionError):
            test_r5_a_stream_gives_the_connection_back(url, lazily, 1)
    for bound in list(database(url).bounds):
        bound.leave()


def test_control_only_the_unit_of_work_is_committed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_sessions, "STATUS_CHANGED", "active")
    with pytest.raises(AssertionError):
        test_nothing_that_is_written_is_dropped(url, insert_text)


def test_control_an_abort_leaves_the_session_as_it_is(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bound, "afterCompletion", lambda bound, transaction: None)
    monkeypatch.setattr(Bound, "abort", lambda bound, resource, given: type(resource).abort(resource, given))
    with pytest.raises(AssertionError):
        test_an_error_view_reads_what_is_stored_and_not_what_was_aborted(url)


def test_control_a_stream_may_write(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_module, "begin_to_read", lambda tm: tm.begin())
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_r8_a_write_while_the_body_is_sent_is_refused(url, insert_text, "in the view")


def test_control_sqlite_reads_outside_of_the_transaction(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "leave_transactions_to_us", lambda *arguments: None)
    monkeypatch.setattr(module, "begin_in_sqlite", lambda *arguments: None)
    with pytest.raises(AssertionError):
        test_a_locked_database_is_tried_again(url)


def test_no_connection_makes_objects_for_the_events_of_the_engine(url: str) -> None:
    """They took 12 % of a request that reads one row. A listener of the site still hears of each statement."""
    seen = []

    def view(request: Request, response: Response) -> None:
        request.sql.scalars(select(Author)).all()
        assert "_has_events" not in vars(request.sql.get_bind())
        event.listen(request.sql.connection(), "before_cursor_execute", lambda *said: seen.append(said[2]))
        request.sql.scalars(select(Book)).all()
        event.listen(request.sql.connection(), "commit", lambda connection: seen.append("COMMIT"))

    assert ask(site(url, view)).status_int == 200
    assert [statement.split()[0] for statement in seen] == ["SELECT", "COMMIT"]


def test_the_visitor_is_told_of_what_a_connection_of_the_engine_commits(url: str) -> None:
    """Otherwise a replica without it is read next."""
    told = []

    def view(request: Any, response: Response) -> None:
        with request.sql.get_bind().begin() as connection:
            connection.execute(delete(Book))
        told.append(dict(request._sql_positions))

    app = site(url, view)
    place = database(url)
    place.tells, place.dialect = True, replace(place.dialect, position="SELECT 7")
    assert ask(app).status_int == 200
    assert told == [{place.short_name: 7}]


def test_control_a_lost_commit_is_tried_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_sessions.Bound, "send_commit", lambda bound: None)
    with pytest.raises((AssertionError, KeyError)):
        test_r4_the_connection_is_lost_during_commit(url, True, monkeypatch)


def test_the_error_for_a_lost_connection_is_what_sqlalchemy_makes_of_it() -> None:
    assert issubclass(OperationalError, DBAPIError)
    assert SimpleNamespace(connection_invalidated=True)


@pytest.mark.parametrize("way", ["{}", "file:{}?uri=true", "file://{}?uri=true", "file:{}?mode=rwc&uri=true"])
def test_a_new_file_is_private_however_the_url_names_it__S26(tmp_path: Path, way: str) -> None:
    file = tmp_path / "new.sqlite"
    url = f"sqlite:///{way.format(file)}"
    app = site(url, lambda request, response: [str(request.sql.scalar(text("SELECT 1"))).encode()])
    assert (ask(app).body, file.stat().st_mode & 0o777) == (b"1", 0o600)
    assert sqlite_file(url) == str(file)
    file.rename(tmp_path / "moved")
    assert ask(app).body == b"1"
    assert file.exists(), "a connection to the file that was moved is not used again"
