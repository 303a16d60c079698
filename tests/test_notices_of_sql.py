"""Notices of debug mode about ``sql``: what a session does not store, and statements that grow with the data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import JSON, DateTime, ForeignKey, String, create_engine, delete, insert, select, true, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.mutable import MutableDict
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, selectinload

from around_a_view import end
from asking import ask
from pipeline import Pipeline, Response
from pipeline.database.sql_databases import close_all
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.sql import sql
from pipeline.elements.transaction import transaction
from pipeline.explaining.notices_of_sql import MANY


class Base(DeclarativeBase):
    pass


class Book(Base):
    __tablename__ = "books"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    facts: Mapped[Any] = mapped_column(JSON)
    told: Mapped[Any] = mapped_column(MutableDict.as_mutable(JSON))
    pages: Mapped[list[Page]] = relationship()

    @property
    def shown(self) -> str:
        return self.title.upper()

    @shown.setter
    def shown(self, text: str) -> None:
        self.title = text.lower()


class Visit(Base):
    __tablename__ = "visits"
    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(default=datetime.now(UTC))
    seen: Mapped[datetime] = mapped_column(default=lambda: datetime.now(UTC))


class Meeting(Base):
    __tablename__ = "meetings"
    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime]
    zoned: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class Page(Base):
    __tablename__ = "pages"
    id: Mapped[int] = mapped_column(primary_key=True)
    book_id: Mapped[int] = mapped_column(ForeignKey("books.id"))


def book(request: Any) -> Book:
    return request.sql.get(Book, 1)  # type: ignore[no-any-return]


def assign_again(request: Any) -> None:
    book(request).facts = {**book(request).facts, "a": 2}


def add_a_book(request: Any) -> None:
    request.sql.add(Book(title="new", facts={"a": [1]}, told={}))


def add_a_strange_book(request: Any) -> None:
    new = Book(title="new", facts={}, told={})
    new.titel = "other"  # type: ignore[attr-defined]
    request.sql.add(new)


class Vote(Base):
    __tablename__ = "votes"
    id: Mapped[int] = mapped_column(primary_key=True)
    stars: Mapped[int]
    word: Mapped[str] = mapped_column(String(10))


def vote(stars: Any, word: str) -> Any:
    return lambda request: request.sql.add(Vote(stars=stars, word=word))


def add_a_book_and_its_page(request: Any) -> None:
    request.sql.add(Book(id=100, title="new", facts={}, told={}))
    request.sql.add(Page(book_id=100))


def delete_a_book_and_its_pages(request: Any) -> None:
    request.sql.execute(delete(Page).where(Page.book_id == 3))
    request.sql.execute(delete(Book).where(Book.id == 3))


def deletes_a_book(request: Any) -> None:
    request.sql.execute(delete(Book).where(Book.id == 3))


def updates_or_adds(request: Any) -> None:
    if not request.sql.execute(update(Book).where(Book.id == 999).values(title="x")).rowcount:
        request.sql.add(Book(id=999, title="x", facts={}, told={}))


def at(hours: int) -> Any:
    """A time that is stored, of a clock that many hours ahead."""
    when = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=hours)))
    return lambda request: request.sql.add(Meeting(at=when, zoned=when))


def with_its_own_session(*names: str) -> Any:
    """Add a book by a session that the view makes, and call its methods."""

    def work(request: Any) -> None:
        engine = create_engine(request.sql.get_bind().engine.url)
        session = Session(engine)
        session.add(Book(title="a", facts={}, told={}))
        for name in names:
            getattr(session, name)()
        session.close()
        engine.dispose()

    return work


def detached(change: bool) -> Any:
    def work(request: Any) -> None:
        one = book(request)
        request.sql.expunge(one)
        if change:
            one.title = "x"

    return work


def moves_a_new_book(request: Any) -> None:
    new = Book(title="a", facts={}, told={})
    with Session(create_engine("sqlite://")) as session:
        session.add(new)
        session.expunge(new)
    request.sql.add(new)


LOST: dict[str, tuple[Any, str]] = {
    "a session that is not committed": (
        with_its_own_session(),
        f"Book was changed or added, and left its session in {__file__}, line ",
    ),
    "a session that is flushed alone": (with_its_own_session("flush"), "Book was changed or added, and left its"),
    "a row that left its session": (detached(change=True), "Book was changed or added, and left its session in"),
    "an attribute without a column": (
        lambda r: setattr(book(r), "priority", 3),
        "Book.priority was set, and has no",
    ),
    "a misspelt column": (lambda r: setattr(book(r), "titel", "x"), "Did you mean title?"),
    "a misspelt column of a new object": (add_a_strange_book, "Did you mean title?"),
    "a JSON column": (lambda r: book(r).facts.update(a=2), "Book.facts was changed in place, and is not stored"),
    "a list in a JSON column": (lambda r: book(r).facts["tags"].append("b"), "Book.facts was changed in place"),
    "a time with an offset": (at(5), "Meeting.at loses its offset +0500, since its column has none"),
    "a text in a column of numbers": (vote("many", "tea"), "Vote.stars has a text that does not fit its column"),
    "a text that is too long": (vote(1, "a very long word"), "Vote.word has a text that does not fit its column"),
    "a foreign key to nothing": (lambda r: r.sql.add(Page(book_id=999)), "a row of pages names a row of books"),
    "a row whose parent is deleted": (
        deletes_a_book,
        f"a row of pages names a row of books that is not there, after the change in {__file__}, line ",
    ),
    "UPDATE for all rows": (
        lambda r: r.sql.execute(update(Book).values(title="x")),
        f"UPDATE without where() in {__file__}, line ",
    ),
    "DELETE for all rows": (lambda r: r.sql.execute(delete(Page)), "If all are meant, say .where(true())"),
    "UPDATE of a row that is gone": (
        lambda r: r.sql.execute(update(Book).where(Book.id == 999).values(title="x")),
        f"UPDATE in {__file__}, line ",
    ),
    "DELETE of a row that is gone": (lambda r: r.sql.execute(delete(Page).where(Page.id == 999)), "has met no row"),
    "a default that is made once": (lambda r: r.sql.add(Visit()), "the default of visits.at is the time of"),
}
STORED: dict[str, Any] = {
    "a session that is taken back": with_its_own_session("rollback"),
    "a flush that is taken back": with_its_own_session("flush", "rollback"),
    "a flush that is committed": with_its_own_session("flush", "commit"),
    "a row that is only shown": detached(change=False),
    "a new row for another session": moves_a_new_book,
    "a column": lambda r: setattr(book(r), "title", "x"),
    "a time of UTC": at(0),
    "UPDATE of a row": lambda r: r.sql.execute(update(Book).where(Book.id == 3).values(title="x")),
    "UPDATE of all rows that is meant": lambda r: r.sql.execute(update(Book).where(true()).values(title="x")),
    "DELETE of no row": lambda r: r.sql.execute(delete(Visit)),
    "DELETE of what is old": lambda r: r.sql.execute(delete(Book).where(Book.id > 999)),
    "DELETE of what is of a row": lambda r: r.sql.execute(delete(Page).where(Page.book_id == 999)),
    "UPDATE of a row that may be gone": updates_or_adds,
    "a row is deleted with its children": delete_a_book_and_its_pages,
    "values that fit": vote(1, "a word"),
    "a foreign key": lambda r: r.sql.add(Page(book_id=3)),
    "a foreign key to a new row": add_a_book_and_its_page,
    "a property": lambda r: setattr(book(r), "shown", "X"),
    "a private attribute": lambda r: setattr(book(r), "_shown", "X"),
    "a JSON column that is assigned": assign_again,
    "a JSON column that is told": lambda r: book(r).told.update(a=2),
    "a new object": add_a_book,
    "nothing": lambda r: book(r).facts["a"],
}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    url = f"sqlite:///{tmp_path}/site.db"
    engine = create_engine(url)
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        books = [Book(title=f"book {n}", facts={"a": 1, "tags": ["a"]}, told={}, pages=[Page()]) for n in range(60)]
        session.add_all(books)
        session.commit()
    engine.dispose()
    yield url
    close_all()


def notices(url: str, work: Any, method: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the notices of one request. Its title is changed, too, so that there is a COMMIT."""

    def view(request: Any, response: Response) -> None:
        work(request)
        if method == "POST":
            request.sql.get(Book, 2).title += "!"

    app = Pipeline(retry(delay=0), sql(url=url), errors(debug=True), transaction(), end(view=view))
    assert ask(app, "/", method).status == 200
    return [record.getMessage() for record in caplog.records if record.name == "pipeline.notices"]


@pytest.mark.parametrize("name", LOST)
def test_what_a_session_does_not_store_is_told(name: str, url: str, caplog: pytest.LogCaptureFixture) -> None:
    work, told = LOST[name]
    (notice,) = notices(url, work, "POST", caplog)
    assert told in notice


@pytest.mark.parametrize("name", STORED)
def test_what_it_stores_is_not(name: str, url: str, caplog: pytest.LogCaptureFixture) -> None:
    assert notices(url, STORED[name], "POST", caplog) == []


def page(ordered: bool) -> Any:
    return lambda r: r.sql.scalars(select(Book).order_by(*[Book.id] * ordered).limit(3).offset(0)).all()


def test_pages_of_rows_without_an_order_are_told(url: str, caplog: pytest.LogCaptureFixture) -> None:
    (notice,) = notices(url, page(ordered=False), "GET", caplog)
    assert f"OFFSET without an order in {__file__}, line {page.__code__.co_firstlineno + 1}: a row" in notice


@pytest.mark.parametrize("read", [page(ordered=True), lambda r: r.sql.scalars(select(Book).limit(1)).all()])
def test_pages_with_an_order_are_not(read: Any, url: str, caplog: pytest.LogCaptureFixture) -> None:
    assert notices(url, read, "GET", caplog) == []


def one_by_one(request: Any) -> None:
    for each in request.sql.scalars(select(Book)):
        list(each.pages)


def all_at_once(request: Any) -> None:
    for each in request.sql.scalars(select(Book).options(selectinload(Book.pages))):
        list(each.pages)


def test_a_statement_for_each_row_is_told_with_its_line(url: str, caplog: pytest.LogCaptureFixture) -> None:
    (notice,) = notices(url, one_by_one, "GET", caplog)
    line = one_by_one.__code__.co_firstlineno + 2
    assert f"executes the same statement more than {MANY} times in {__file__}, line {line}: SELECT pages." in notice


def test_one_statement_for_all_rows_is_not(url: str, caplog: pytest.LogCaptureFixture) -> None:
    assert notices(url, all_at_once, "GET", caplog) == []


def vote_twice(request: Any) -> None:
    """Store two votes of one id. The second is refused."""
    request.sql.add(Vote(id=1, stars=1, word="tea"))
    request.sql.flush()
    request.sql.execute(insert(Vote), {"id": 1, "stars": 2, "word": "tea"})


def takes_all_back(request: Any) -> None:
    with suppress(IntegrityError):
        vote_twice(request)
    request.sql.rollback()


def takes_all_back_after_a_flush(request: Any) -> None:
    request.sql.add(Vote(id=1, stars=1, word="tea"))
    request.sql.flush()
    request.sql.expunge_all()
    request.sql.add(Vote(id=1, stars=2, word="tea"))
    with suppress(IntegrityError):
        request.sql.flush()
    request.sql.rollback()


def takes_one_back(request: Any) -> None:
    with suppress(IntegrityError), request.sql.begin_nested():
        vote_twice(request)


def takes_back_the_first(request: Any) -> None:
    """Take back nothing but the statement that was refused."""
    with suppress(IntegrityError):
        request.sql.execute(insert(Book), {"id": 1, "title": "x", "facts": {}, "told": {}})
    request.sql.rollback()


def changes_its_mind(request: Any) -> None:
    request.sql.add(Vote(id=1, stars=1, word="tea"))
    request.sql.flush()
    request.sql.rollback()


@pytest.mark.parametrize("view", [takes_all_back, takes_all_back_after_a_flush])
def test_a_rollback_that_takes_back_more_than_what_failed(view: Any, url: str, caplog: Any) -> None:
    (notice,) = notices(url, view, "POST", caplog)
    assert f"the rollback in {__file__}, line " in notice and "begin_nested()" in notice


@pytest.mark.parametrize("view", [takes_one_back, takes_back_the_first, changes_its_mind])
def test_a_rollback_that_does_not(view: Any, url: str, caplog: Any) -> None:
    assert notices(url, view, "POST", caplog) == []


@pytest.mark.parametrize("status", ["200 OK", "303 See Other", "409 Conflict"])
def test_an_answer_that_says_that_nothing_is_stored(status: str, url: str, caplog: Any) -> None:
    """A page may say it, as a form with its errors does. A redirect cannot."""

    def view(request: Any, response: Response) -> None:
        takes_all_back(request)
        response.status = status
        response.location = "/"

    app = Pipeline(retry(delay=0), sql(url=url), errors(debug=True), transaction(), end(view=view))
    assert ask(app, "/", "POST").status == int(status[:3])
    found = [record.getMessage() for record in caplog.records if "rollback" in record.getMessage()]
    assert len(found) == (status[0] == "3")


def test_a_row_that_was_broken_before_is_told_once(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """It may be of another program. A new one is told beside it."""

    def add(number: int) -> Any:
        return lambda request: request.sql.add(Page(id=number, book_id=999))

    found = [notices(url, work, "POST", caplog) for work in (add(1000), STORED["a column"], add(1001))]
    assert [len(one) for one in found] == [1, 1, 2], "the log has all of them"
