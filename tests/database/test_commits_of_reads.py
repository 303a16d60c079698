"""A session that has only read is committed by itself, without two phases. Nothing else about the request differs:
asked in pairs of what a view may do, and compared with what the two phases make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from sqlalchemy import create_engine, event, func, select, text, update
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from around_a_view import ask, end
from pipeline import Pipeline
from pipeline.database import sql_databases
from pipeline.database.sql_sessions import Bound
from pipeline.database.transactions import watching_joins
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.sql import sql
from pipeline.elements.transaction import transaction
from pipeline.explaining import notices
from pipeline.staging.runs import Run, joining, started


class Base(DeclarativeBase):
    pass


class Note(Base):
    __tablename__ = "note"
    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str]


def read(request: Any) -> object:
    return request.sql.get(Note, 1).text


def connect(request: Any) -> object:
    return str(request.sql.connection().engine.name)


def add(request: Any) -> object:
    return request.sql.add(Note(text="new"))


def change(request: Any) -> object:
    request.sql.get(Note, 2).text += " changed"
    return None


def delete(request: Any) -> object:
    return request.sql.delete(request.sql.get(Note, 3))


def update_all(request: Any) -> object:
    return request.sql.execute(update(Note).values(text=Note.text + "."))


def write_as_text(request: Any) -> object:
    return request.sql.execute(text("INSERT INTO note (text) VALUES ('as text')"))


def write_by_driver(request: Any) -> object:
    cursor = request.sql.connection().connection.cursor()
    cursor.execute("INSERT INTO note (text) VALUES ('by the driver')")
    cursor.close()
    return None


def nested(request: Any) -> object:
    with request.sql.begin_nested():
        return add(request)


def nested_back(request: Any) -> object:
    with request.sql.begin_nested() as savepoint:
        add(request)
        request.sql.flush()
        savepoint.rollback()
    return None


def fail(request: Any) -> object:
    with suppress(Exception):
        request.sql.execute(text("SELECT missing FROM note"))
    return None


def fail_to_flush(request: Any) -> object:
    request.sql.add(Note(id=1, text="twice"))
    with suppress(Exception):
        request.sql.flush()
    return None


def fail_before_the_flush(request: Any) -> object:
    @event.listens_for(request.sql, "before_flush", once=True)
    def refuse(*arguments: object) -> None:
        raise ValueError

    note = request.sql.get(Note, 1)
    note.text = "changed"
    with suppress(ValueError):
        request.sql.flush()
    return request.sql.expire(note)


def take_back(request: Any) -> object:
    return request.sql.rollback()


def close(request: Any) -> object:
    return request.sql.connection().close()


def call(request: Any) -> object:
    return request.sql.scalar(select(func.random())) is not None


def commit(request: Any) -> object:
    request.tm.commit()
    return request.tm.begin() and None


def refuse(request: Any) -> object:
    return request.tm.doom()


def read_elsewhere(request: Any) -> object:
    return request.sql.scalar(text("SELECT 1"), bind_arguments={"bind": request.elsewhere})


def write_elsewhere(request: Any) -> object:
    session = request.sql
    return session.execute(text("INSERT INTO note (text) VALUES ('x')"), bind_arguments={"bind": request.elsewhere})


def hook(request: Any) -> object:
    return request.tm.get().addBeforeCommitHook(lambda: request.sql.add(Note(text="by a hook")))


def listen(request: Any) -> object:
    return event.listen(request.sql, "before_commit", lambda session: session.add(Note(text="by a listener")))


def count(request: Any) -> object:
    return event.listen(request.sql, "after_commit", lambda session: request.told.append("after_commit"))


STEPS = (
    *(read, connect, add, change, delete, update_all, write_as_text, write_by_driver, nested, nested_back, fail),
    *(fail_to_flush, fail_before_the_flush, take_back, close, call, commit, refuse, read_elsewhere),
    *(write_elsewhere, hook, listen, count),
)


class Site:
    """A site whose view takes the steps, on two databases."""

    def __init__(self, folder: Path) -> None:
        self.engines = [create_engine(f"sqlite:///{folder}/{name}.sqlite") for name in ("here", "elsewhere")]
        for engine in self.engines:
            Base.metadata.create_all(engine)
        self.steps: tuple[Callable[[Any], object], ...] = ()
        self.status, self.told = 200, list[object]()
        url = str(self.engines[0].url)
        database = sql(url=url, driver_connection=True)
        self.app = Pipeline(retry(delay=0), database, errors(), transaction(), end(view=self.view))
        for engine in (*self.engines, *(database.engine for database in sql_databases._databases.values())):
            event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous = OFF"))

    def view(self, request: Any, response: Any) -> None:
        request.elsewhere, request.told = self.engines[1], self.told
        self.told += [step(request) for step in self.steps if step is not None]
        response.status = self.status

    def ask(self, steps: tuple[Any, ...], status: int) -> tuple[object, ...]:
        """Return what was answered and told, and what is stored."""
        for engine in self.engines:
            with engine.begin() as connection:
                connection.execute(text("DELETE FROM note"))
                connection.execute(text("INSERT INTO note VALUES (1, 'a'), (2, 'b'), (3, 'c')"))
        self.steps, self.status, self.told = steps, status, []
        answer = ask(self.app)
        told = [one if isinstance(one, (str, int)) else type(one).__name__ for one in self.told]
        stored = []
        for engine in self.engines:
            with engine.connect() as connection:
                stored.append(connection.execute(text("SELECT text FROM note ORDER BY id")).scalars().all())
        return answer.status_int, answer.headers.get("X-Outcome"), told, stored


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    for engine in site.engines:
        engine.dispose()
    sql_databases.close_all()
    sql_databases._databases.clear()


def test_a_session_that_only_reads_ends_as_by_two_phases(site: Site) -> None:
    wrong, short = [], 0
    for first, second, status in (*product((None, *STEPS), STEPS, (200,)), *product((None,), STEPS, (404,))):
        with mock.patch.object(Bound, "has_only_read", lambda self: False):
            expected = site.ask((first, second), status)
        with mock.patch.object(Bound, "commit_reads", autospec=True, side_effect=Bound.commit_reads) as commits:
            found = site.ask((first, second), status)
        short += commits.called
        if found != expected:
            wrong.append((first and first.__name__, second.__name__, status, expected, found))
    assert not wrong, "\n".join(map(str, wrong))
    # In debug mode, which another test may have turned on, notices look at each commit.
    assert 10 < short < len(STEPS) ** 2 / 4 or notices._listening


@pytest.mark.parametrize("step", STEPS)
def test_a_session_ends_in_the_same_way_while_prove_watches(site: Site, step: Any) -> None:
    for steps in ((None, step), (step, add), (step, read)):
        expected = site.ask(steps, 200)
        with watching_joins(joining), started(Run()):
            assert site.ask(steps, 200) == expected
