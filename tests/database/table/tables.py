"""The kit for an SQL database: what a request takes from it, and how it is touched by each of the means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import insert, select, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from database.table import axes as a
from database.table.kits import (
    GONE,
    MARK,
    WAS,
    Kit,
    State,
    Synchronizer,
    check,
    in_own_transaction,
    nothing,
    register,
)
from pipeline.composition import Element
from pipeline.elements.sql import sql

NAMES = ("thing", "own", "parent", "visitor", "victim", "loaded", "unloaded")
INSERT = "INSERT INTO thing VALUES ('added', 'changed')"
READ_ALL = "SELECT name, value FROM thing"


Read = Callable[[str], list[tuple[str, str]]]


class Base(DeclarativeBase):
    pass


class Thing(Base):
    """A row with one value."""

    __tablename__ = "thing"
    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]


CREATE = "CREATE TABLE thing (name VARCHAR(20) PRIMARY KEY, value VARCHAR(20) NOT NULL)"


class Taken:
    """What a request has taken from the database, as a global or a thread would keep it."""

    connection: Any = None
    cursor: Any = None

    def __init__(self, request: Any) -> None:
        self.session = session = request.sql
        self.tm = request.tm
        self.synchronizer = Synchronizer()
        self.things = {thing.name: thing for thing in session.scalars(select(Thing))}
        session.expire(self.things["unloaded"])

    def __getitem__(self, name: str) -> Any:
        return self.things[name]


class Tables(Kit):
    """The kit for the database of a URL. ``reader`` executes a query without the pipeline."""

    kind = "sql"
    take = Taken

    def __init__(self, url: str, reader: Read, close: Callable[[], object] = nothing) -> None:
        self.url = url
        self.reader = reader
        self.close = close

    def element(self) -> Element:
        return sql(url=self.url, lock_timeout=0.1, driver_connection=True)

    def create(self, request: Any) -> None:
        connection = request.sql.connection()
        for name in NAMES:
            connection.exec_driver_sql(f"INSERT INTO thing VALUES ('{name}', '{WAS}')")

    def put_back(self, request: Any) -> None:
        request.sql.connection().exec_driver_sql("DELETE FROM thing")
        self.create(request)

    def state(self, request: Any) -> State:
        return state_of([(thing.name, thing.value) for thing in request.sql.scalars(select(Thing))])

    def stored(self) -> State:
        return state_of(self.reader(READ_ALL))

    def keep(self, taken: Any, means: str) -> None:
        if means in (a.CONNECTION, a.CURSOR):
            taken.connection = taken.session.connection()
        if means == a.CURSOR:
            taken.cursor = taken.connection.connection.driver_connection.cursor()

    def write(self, taken: Any, name: str, value: str) -> None:
        taken[name].value = value
        taken.session.flush()

    def go_on(self, taken: Any) -> None:
        taken.session.expire(taken["unloaded"])
        check(taken["unloaded"].value)
        check(len(taken.session.execute(select(Thing.name)).all()), len(NAMES))


def state_of(rows: list[tuple[str, str]]) -> State:
    return {"added": GONE} | dict.fromkeys(NAMES, GONE) | dict(rows)


def look(taken: Any) -> None:
    check(taken["loaded"].value)


def load(taken: Any) -> None:
    check(taken["unloaded"].value)


def find(taken: Any) -> None:
    check(taken.session.execute(select(Thing.value).where(Thing.name == "loaded")).scalar_one())


def add(taken: Any) -> None:
    taken.session.add(Thing(name="added", value=MARK))
    taken.session.flush()


def add_pending(taken: Any) -> None:
    taken.session.add(Thing(name="added", value=MARK))


def set_attribute(taken: Any) -> None:
    taken["thing"].value = MARK


def remove(taken: Any) -> None:
    taken.session.delete(taken["victim"])
    taken.session.flush()


def insert_by_core(taken: Any) -> None:
    taken.session.execute(insert(Thing.__table__).values(name="added", value=MARK))


def insert_in_savepoint(taken: Any) -> None:
    with taken.session.begin_nested():
        insert_by_core(taken)


def commit_by_statement(taken: Any) -> None:
    insert_by_core(taken)
    taken.session.execute(text("COMMIT"))


def commit_by_driver(taken: Any) -> None:
    insert_by_core(taken)
    taken.session.connection().connection.driver_connection.cursor().execute("COMMIT")


def insert_by_autocommit(taken: Any) -> None:
    taken.session.connection(execution_options={"isolation_level": "AUTOCOMMIT"}).exec_driver_sql(INSERT)


Tables.means = {
    a.COMMIT_STATEMENT: (commit_by_statement, {"added": MARK}),
    a.DRIVER_COMMIT: (commit_by_driver, {"added": MARK}),
    a.AUTOCOMMIT: (insert_by_autocommit, {"added": MARK}),
    a.LOOK: (look, {}),
    a.LOAD: (load, {}),
    a.SELECT: (find, {}),
    a.ADD: (add, {"added": MARK}),
    a.PENDING: (add_pending, {"added": MARK}),
    a.SET: (set_attribute, {"thing": MARK}),
    a.REMOVE: (remove, {"victim": GONE}),
    a.CORE: (insert_by_core, {"added": MARK}),
    a.CONNECTION: (lambda taken: taken.connection.exec_driver_sql(INSERT), {"added": MARK}),
    a.CURSOR: (lambda taken: taken.cursor.execute(INSERT), {"added": MARK}),
    a.NESTED: (insert_in_savepoint, {"added": MARK}),
    a.COMMIT: (lambda taken: taken.tm.commit(), {}),
    a.SESSION_COMMIT: (lambda taken: taken.session.commit(), {}),
    a.ABORT: (lambda taken: taken.tm.abort(), {}),
    a.ROLLBACK: (lambda taken: taken.session.rollback(), {}),
    a.SESSION_CLOSE: (lambda taken: taken.session.close(), {}),
    a.REGISTER: (register, {}),
    a.OWN: (lambda taken: in_own_transaction(taken, insert_by_core), {"added": MARK}),
}
