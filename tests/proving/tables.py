"""A small site that is proved: a list in an SQL database, changed in each way that HTTP and SQL know."""

from __future__ import annotations

import datetime
from typing import Any

from sqlalchemy import ForeignKey, String, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from filestore import StoreRequest
from pipeline import Request, redirect, view
from pipeline.elements.sql import SqlRequest
from pipeline.interfaces import PUBLIC


class Base(DeclarativeBase):
    pass


class Entry(Base):
    __tablename__ = "entry"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str] = mapped_column(String(50))
    made: Mapped[datetime.datetime] = mapped_column(default=datetime.datetime.now)


class Remark(Base):
    """A remark on an entry, which the database gives a number of its own."""

    __tablename__ = "remark"
    id: Mapped[int] = mapped_column(primary_key=True)
    entry_id: Mapped[int] = mapped_column(ForeignKey(Entry.id))
    text: Mapped[str] = mapped_column(String(50))


class Root:
    __parent__ = None
    __name__ = None


ROOT = Root()


def root(request: Request) -> Root:
    return ROOT


def swallow(app: Any, conf: object) -> Any:
    """A middleware of others, which does nothing of note."""

    def middleware(environ: Any, start_response: Any) -> Any:
        return app(dict(environ), start_response)

    return middleware


@view(context=Root)
def index(root: Root, request: SqlRequest) -> str:
    titles = request.sql.execute(text("SELECT title FROM entry ORDER BY id")).scalars().all()
    return f"<p>{len(titles)}</p><form action='/@@add' method='post'><input name='title'></form>"


@view(context=Root, name="add", methods=("POST",), permission=PUBLIC)
def add(root: Root, request: SqlRequest, title: str = "") -> Any:
    """By the ORM: a row, and one that refers to it."""
    entry = Entry(title=title[:50])
    request.sql.add(entry)
    request.sql.flush()
    request.sql.add(Remark(entry_id=entry.id, text="new"))
    return redirect("/")


@view(context=Root, name="raw", methods=("POST",), permission=PUBLIC)
def raw(root: Root, request: SqlRequest) -> str:
    """By a cursor of the driver, where nothing is seen by SQLAlchemy."""
    cursor = request.sql.connection().connection.cursor()
    cursor.execute("UPDATE entry SET title = 'raw' WHERE id = 1")
    cursor.execute("INSERT INTO remark (entry_id, text) VALUES (1, 'raw')")
    cursor.close()
    return "written"


@view(context=Root, name="title", methods=("PUT",), permission=PUBLIC)
def title(root: Root, request: SqlRequest) -> str:
    request.sql.execute(text("UPDATE entry SET title = 'put' WHERE id = 1"))
    return "put"


@view(context=Root, name="last", methods=("DELETE",), permission=PUBLIC)
def last(root: Root, request: SqlRequest) -> str:
    request.sql.execute(text("DELETE FROM remark"))
    return "deleted"


@view(context=Root, name="keep", methods=("POST",), permission=PUBLIC)
def keep(root: Root, request: StoreRequest) -> str:
    """In the store of an element of others."""
    request.store["kept"] = 1
    return "kept"
