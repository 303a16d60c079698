"""A sum that two requests compute at once: the notice of it is judged by whether the database loses one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import asking
from pipeline import Pipeline, view
from pipeline.database.sql_databases import close_all
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.sql import sql
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.publisher import publisher

pytestmark = [pytest.mark.servers, pytest.mark.timeout(120)]


class Base(DeclarativeBase):
    """The tables."""


class Counter(Base):
    __tablename__ = "counters"
    id: Mapped[int] = mapped_column(primary_key=True)
    count: Mapped[int]


class Site:
    """What is published."""


@view(context=Site, methods=("POST",))
def add(site: Site, request: Any) -> str:
    counter = request.sql.get(Counter, 1)
    counter.count += 1
    return "<p>counted"


@pytest.fixture(autouse=True)
def databases() -> Iterator[None]:
    yield
    close_all()


def is_lost(url: str, level: str | None) -> bool:
    """Return whether the database loses one of two sums: both read the row before one of them has stored it."""
    engine = create_engine(url) if level is None else create_engine(url, isolation_level=level)
    with Session(engine) as first, Session(engine) as second:
        done = 0
        both = [(session, session.get_one(Counter, 1)) for session in (first, second)]
        before = both[0][1].count
        for session, counter in both:
            with suppress(DBAPIError):
                if level == "SERIALIZABLE" and "mysql" in url:
                    session.connection().exec_driver_sql("SET innodb_lock_wait_timeout = 1")
                counter.count += 1
                session.commit()
                done += 1
            session.rollback()
        after = first.get_one(Counter, 1).count
    engine.dispose()
    return after - before < done


@pytest.mark.parametrize("level", [None, "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_sum_is_told_where_one_of_two_is_lost(
    kind: str, level: str | None, request: pytest.FixtureRequest, new_name: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = request.getfixturevalue(kind)
    server.create(name := new_name())
    url = server.url(name)
    engine = create_engine(url)
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(Counter(id=1, count=0))
        session.commit()
    engine.dispose()
    site = Pipeline(
        *(retry(delay=0), sql(url=url, isolation_level=level), errors(debug=True), transaction()),
        *(traverse(root=Site), publisher(scan=(__name__,))),
    )
    assert asking.ask(site, "/", "POST").status == 200
    told = [record for record in caplog.records if "is read, computed and stored" in record.getMessage()]
    assert bool(told) is is_lost(url, level)
    assert bool(told) is (level in (None, "READ COMMITTED") or (kind == "mariadb" and level == "REPEATABLE READ"))
