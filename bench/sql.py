"""The suite ``sql``: a row read, twenty listed, one stored, in a SQLite file in memory, beside Flask and Django.

This pipeline is that of etc/deploy.ini with ``sql`` in place of ``zodb``: it writes an access log (to /dev/null),
and has a session, forms and a login. Flask has SQLAlchemy as its own docs have it, a session that is removed at the
end of the request. Django has its own ORM, with ``ATOMIC_REQUESTS`` and a connection that stays open.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

from sqlalchemy import create_engine, insert, select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, scoped_session, sessionmaker

from bench.default import INI
from bench.measure import App, Contender, Result, Table, compare, environ
from pipeline import view
from pipeline.interfaces import PUBLIC

SENT = b"title=A+title&text=Some+text"


class Base(DeclarativeBase):
    pass


class Note(Base):
    __tablename__ = "notes"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    text: Mapped[str]


class Site:
    """The root."""

    __parent__ = __name__ = None


def root(request: Any) -> Site:
    return Site()


def page(note: Any) -> str:
    return f"<h1>{note.title}</h1><p>{note.text}</p>"


def table(notes: Iterable[Any]) -> str:
    return "".join(f"<li>{note.title}</li>" for note in notes)


def read_by(session: Any) -> str:
    return page(session.get(Note, 7))


def list_by(session: Any) -> str:
    return table(session.scalars(select(Note).order_by(Note.id).limit(20)))


def store_by(session: Any, title: str, text: str) -> str:
    note = Note(title=title, text=text)
    session.add(note)
    session.flush()
    return str(note.id)


@view(context=Site, name="read")
def read(site: Site, request: Any) -> str:
    return read_by(request.sql)


@view(context=Site, name="list")
def listed(site: Site, request: Any) -> str:
    return list_by(request.sql)


@view(context=Site, name="store", methods=("POST",), permission=PUBLIC)
def store(site: Site, request: Any, title: str, text: str) -> str:
    return store_by(request.sql, title, text)


def new_database() -> str:
    """Return the path of a SQLite file with a hundred notes."""
    memory = Path("/dev/shm")
    directory = tempfile.mkdtemp(prefix="bench-sql-", dir=memory if memory.is_dir() else None)
    engine = create_engine(f"sqlite:///{directory}/site.db")
    Base.metadata.create_all(engine)
    with engine.begin() as connection:
        notes = [{"title": f"Note {number}", "text": "A line of text. " * 12} for number in range(100)]
        connection.execute(insert(Note), notes)
    engine.dispose()
    return f"{directory}/site.db"


def pipeline(file: str) -> App:
    from pipeline.paste import load

    text = INI.read_text("utf-8").replace("retry zodb errors", "retry sql errors")
    start, end = text.index("[filter:zodb]"), text.index("[filter:errors]")
    text = f"{text[:start]}[filter:sql]\nuse = egg:wsgi-pipeline#sql\nurl = sqlite:///{file}\n\n{text[end:]}"
    for old, new in {
        "file = stdout": "file = /dev/null",
        "#traverse\n": "#traverse\nroot = bench.sql:root\n",
        "scan = pipeline_demo.views pipeline_demo.users": "scan = bench.sql",
        "check = pipeline_demo:check": "check = bench.request_site:user",
        "sessions = pipeline_demo:sessions\n": "",
        "%(here)s/../var": str(Path(file).parent),
    }.items():
        if old not in text:
            raise SystemExit(f"etc/deploy.ini has no {old!r}")
        text = text.replace(old, new)
    ini = Path(file).with_name("deploy.ini")
    ini.write_text(text, encoding="utf-8")
    made: App = load(f"config:{ini}")
    return made


def flask(file: str) -> App:
    import flask

    app: Any = flask.Flask("bench")
    session: Any = scoped_session(sessionmaker(create_engine(f"sqlite:///{file}")))

    def stored() -> str:
        answer = store_by(session, flask.request.form["title"], flask.request.form["text"])
        session.commit()
        return answer

    app.teardown_appcontext(lambda error: session.remove())
    app.add_url_rule("/read", "read", partial(read_by, session))
    app.add_url_rule("/list", "list", partial(list_by, session))
    app.add_url_rule("/store", "store", stored, methods=["POST"])
    made: App = app
    return made


def django(file: str) -> App:
    import django as framework
    from django.conf import settings
    from django.core.handlers.wsgi import WSGIHandler
    from django.http import HttpResponse
    from django.urls import path

    urls = ModuleType("bench_django_sql")
    sys.modules[urls.__name__] = urls
    settings.configure(
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF=urls.__name__,
        SECRET_KEY="x" * 50,
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": file,
                "ATOMIC_REQUESTS": True,
                "CONN_MAX_AGE": None,
            }
        },
        MIDDLEWARE=[
            "django.middleware.security.SecurityMiddleware",
            "django.middleware.common.CommonMiddleware",
            "django.middleware.clickjacking.XFrameOptionsMiddleware",
        ],
    )
    framework.setup()
    from django.db import models

    fields = {"title": models.TextField(), "text": models.TextField()}
    meta = type("Meta", (), {"app_label": "bench", "db_table": "notes"})
    notes: Any = type("DjangoNote", (models.Model,), {**fields, "Meta": meta, "__module__": __name__}).objects  # type: ignore[attr-defined]

    def stored(request: Any) -> Any:
        note = notes.create(title=request.POST["title"], text=request.POST["text"])
        return HttpResponse(str(note.id))

    views: dict[str, Callable[[Any], Any]] = {
        "read": lambda request: HttpResponse(page(notes.get(id=7))),
        "list": lambda request: HttpResponse(table(notes.order_by("id")[:20])),
        "store": stored,
    }
    vars(urls)["urlpatterns"] = [path(name, one) for name, one in views.items()]
    made: App = WSGIHandler()
    return made


def asked(name: str, app: App, row: str) -> Contender:
    request = environ(f"/{row}")
    del request["HTTP_ACCEPT_ENCODING"]  # this pipeline alone compresses
    if row == "store":
        request |= {"REQUEST_METHOD": "POST", "wsgi.input": BytesIO(SENT), "CONTENT_LENGTH": str(len(SENT))}
        request["CONTENT_TYPE"] = "application/x-www-form-urlencoded"
    return Contender(name, app, request, None)


ROWS = {"read": "one row read", "list": "twenty rows listed", "store": "one row stored"}


def sql(rounds: int = 100, seconds: float = 0.01) -> Result:
    apps = {make.__name__: make(new_database()) for make in (pipeline, flask, django)}
    names = {"pipeline": "pipeline", "flask": "Flask", "django": "Django"}
    rows = {
        text: compare([asked(names[name], app, row) for name, app in apps.items()], rounds, seconds)
        for row, text in ROWS.items()
    }
    return {"sql": Table("Rows of a SQLite file", "µs", rows)}
