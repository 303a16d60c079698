"""Pyramid with its usual packages at the end of a pipeline: pyramid_tm is left alone, or given the two settings."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pyramid_tm
import pytest
import transaction
from persistent import Persistent
from pyramid.config import Configurator
from pyramid.httpexceptions import HTTPSeeOther
from pyramid.request import Request
from pyramid.response import Response
from pyramid.threadlocal import get_current_request
from pyramid_zodbconn import get_connection
from sqlalchemy import Column, Integer, Text, create_engine, event, select
from sqlalchemy.orm import declarative_base, scoped_session, sessionmaker
from sqlalchemy.orm.exc import StaleDataError
from transaction.interfaces import TransientError
from zope.sqlalchemy import register

from asking import ask
from pipeline import element
from pipeline.elements.zodb import close_all
from pipeline.paste import load
from pipeline.testing import FakeDataManager
from pipeline.tools.check import main

# -- The applications ----------------------------------------------------------------------------------------------


class Site(NamedTuple):
    """An application with a database of its own. It knows nothing of the pipeline."""

    app: Any
    stored: Callable[[], str]
    """Function that returns the text of the page, as another connection reads it."""
    close: Callable[[], object]


made: list[Site] = []
"""The application that the ini has made."""


class Page(Persistent):
    """A page in the ZODB."""

    text = "first"


def wiki(global_conf: Any, **settings: str) -> Any:
    """Pages in a ZODB, with the packages of Pyramid's tutorial for the ZODB."""
    with Configurator(settings=settings, root_factory=lambda request: get_connection(request).root()) as config:
        for package in ("pyramid_retry", "pyramid_tm", "pyramid_zodbconn"):
            config.include(package)
        app = with_views(config, lambda request: request.context["page"])
    database = app.registry._zodb_databases[""]
    with database.transaction() as connection:
        connection.root()["page"] = Page()

    def stored() -> str:
        with database.transaction() as connection:
            return str(connection.root()["page"].text)

    made.append(Site(app, stored, database.close))
    return app


def guest(global_conf: Any, **settings: str) -> Any:
    """The wiki without a database of its own: its pages are in that of the pipeline."""

    def root(request: Request) -> Any:
        return get_connection(request).root()

    with Configurator(settings=settings, root_factory=root) as config:
        for package in ("pyramid_retry", "pyramid_tm", "pyramid_zodbconn"):
            config.include(package)
        return with_views(config, lambda request: request.context.setdefault("page", Page()))


Base: Any = declarative_base()


class Entry(Base):
    """A page in an SQL database."""

    __tablename__ = "entry"
    id = Column(Integer, primary_key=True)
    text = Column(Text, default="first")


flushed: list[Any] = []
"""The request of Pyramid that an event of SQLAlchemy has found, for each flush of the blog."""


def blog(global_conf: Any, url: str, **settings: str) -> Any:
    """Pages in an SQL database, whose session joins the transaction manager of the thread, as Kotti's does."""
    factory, close = sessions(url)
    session = scoped_session(factory)
    register(session)
    event.listen(session, "before_flush", lambda *arguments: flushed.append(get_current_request()))
    return of_sql(settings, url, lambda request: session, lambda: (session.remove(), close()))


def shop(global_conf: Any, url: str, **settings: str) -> Any:
    """Pages in an SQL database, whose session joins ``request.tm``, as in Pyramid's tutorial for SQLAlchemy."""
    factory, close = sessions(url)

    def open_session(request: Request) -> Any:
        session = factory()
        register(session, transaction_manager=request.tm)
        return session

    return of_sql(settings, url, open_session, close)


def sessions(url: str) -> tuple[Any, Callable[[], object]]:
    """Return what makes sessions of a new database with one page, and what closes it."""
    engine = create_engine(url)
    Base.metadata.create_all(engine)
    factory = sessionmaker(bind=engine)
    with factory.begin() as session:
        session.add(Entry())
    return factory, engine.dispose


def of_sql(settings: Any, url: str, session: Callable[[Any], Any], close: Callable[[], object]) -> Any:
    with Configurator(settings=settings) as config:
        config.include("pyramid_retry")
        config.include("pyramid_tm")
        app = with_views(config, lambda request: session(request).scalars(select(Entry)).one())

    def stored() -> str:
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database:
            return str(database.execute("select text from entry").fetchone()[0])

    made.append(Site(app, stored, close))
    return app


def with_views(config: Configurator, page_of: Callable[[Request], Any]) -> Any:
    """Return an application with two views: one shows the page, the other changes it and answers 303."""
    refused: list[Request] = []

    def show(request: Request) -> Response:
        return Response(page_of(request).text)

    def edit(request: Request) -> Any:
        page_of(request).text = request.params["text"] or page_of(request).text
        match request.params.get("then"):
            case "refuse":
                return Response(status=409)
            case "fail":
                raise ZeroDivisionError
            case "doom":
                transaction.doom()
            case "hook":  # of the application itself, as indexes that are written at the end have one
                transaction.get().addBeforeCommitHook(lambda: flushed.append(get_current_request()))
            case "late":  # a hook of the commit that fails behind all others
                add = transaction.get().addBeforeCommitHook
                add(add, (divmod, (1, 0)))
            case "add":
                page_of(request).text += "a"
            case "conflict" | "stale" as kind if not refused:
                refused.append(request)
                raise (TransientError if kind == "conflict" else StaleDataError)("another request was first")
        return HTTPSeeOther(location=request.application_url)

    config.add_view(show)
    config.add_view(edit, name="edit", request_method="POST")
    return config.make_wsgi_app()


# -- The pipelines -------------------------------------------------------------------------------------------------

APPS = ["wiki", "blog", "shop"]
AROUND = {
    "with all elements": "retry zodb errors transaction",
    "without a database of the pipeline": "retry errors transaction",
    "without transaction": "retry errors",
    "behind middleware": "retry zodb copying errors copying transaction copying",
    "below a path": "retry zodb errors transaction apps",
}
MANAGER = "tm.manager_hook = pipeline.mounting.manager_of\n"
ACTIVATE = "tm.activate_hook = pipeline.mounting.commits_itself\n"
BOTH = MANAGER + ACTIVATE
OPTIONS = {"retry": "delay = 0\n", "zodb": "uri = memory://test_pyramid\n"}


@element
def refusing(next: Any) -> Any:
    """Have a further data manager vote against the commit of each POST."""

    def refusing(request: Any, response: Any) -> None:
        if request.method == "POST":
            FakeDataManager(request.tm, fails={"tpc_vote": ValueError("refused")}).join()
        next(request, response)

    return refusing


def copying(global_conf: Any) -> Any:
    return lambda app: lambda environ, start_response: app({**environ}, start_response)


def ini_of(directory: Path, name: str, around: str, settings: str) -> Path:
    """Write an ini with one of the applications."""
    others = ("copying", "apps", "refusing")
    elements = [part for part in OPTIONS | dict.fromkeys(around.split(), "") if part not in others]
    sections = [f"[filter:{part}]\nuse = egg:wsgi-pipeline#{part}\n{OPTIONS.get(part, '')}" for part in elements]
    database = "zodbconn.uri = memory://wiki" if name == "wiki" else f"url = sqlite:///{directory}/{name}.db"
    ini = directory / "site.ini"
    ini.write_text(
        f"[pipeline:main]\npipeline = {around}{'' if around.endswith('apps') else f' {name}'}\n"
        f"{''.join(sections)}[filter:copying]\npaste.filter_factory = {__name__}:copying\n"
        f"[filter:refusing]\npaste.filter_factory = {__name__}:refusing\n"
        f"[composite:apps]\nuse = egg:Paste#urlmap\n/ = {name}\n"
        f"[app:{name}]\npaste.app_factory = {__name__}:{name}\n{database}\n{settings}"
    )
    return ini


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Load an ini with one of the applications, as a server does."""
    transaction.abort()
    yield lambda *arguments: load(f"config:{ini_of(tmp_path, *arguments)}")
    assert transaction.manager.manager._txn is None, "no transaction is left in the thread"
    while made:
        made.pop().close()


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """Return the errors in the log."""
    caplog.set_level(logging.ERROR)
    return lambda: " ".join(repr(record.exc_info[1]) for record in caplog.records if record.exc_info)


def edit(app: Any, text: str, then: str = "") -> int:
    """Change the page. Return the status."""
    return int(ask(app, f"/edit?text={text}&then={then}", "POST").status)


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
@pytest.mark.parametrize("name", APPS)
def test_pyramid_tm_that_is_left_alone_commits(name: str, around: str, site: Any) -> None:
    """As ``docs/howto/mounting.rst`` says."""
    app = site(name, around, "")
    assert ask(app).text == "first"
    assert edit(app, "second") == 303
    assert made[0].stored() == ask(app).text == "second"
    assert edit(app, "third", "conflict") == 303
    assert made[0].stored() == ask(app).text == "third"
    assert edit(app, "fourth", "fail") == 500
    assert made[0].stored() == ask(app).text == "third"


LOST = {
    "wiki": "answered POST /edit with 303 See Other, but it aborted the transaction of the pipeline",
    "blog": "answered POST /edit with 303 See Other, but it left a transaction of its thread open",
}
"""The errors of the applications that lose their changes if they are given both settings."""


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
@pytest.mark.parametrize("name", APPS)
def test_with_both_settings_no_change_is_lost_without_an_error__R3(
    name: str, around: str, site: Any, said: Callable[[], str]
) -> None:
    app = site(name, around, BOTH)
    is_stored = name == "shop" or (name == "wiki" and "transaction" not in around)
    assert edit(app, "second") == (303 if is_stored else 500)
    assert made[0].stored() == ("second" if is_stored else "first")
    assert is_stored or LOST[name] in said()
    shown = ask(app)  # a query joins the transaction as a change does
    assert shown.text == made[0].stored() if name != "blog" else shown.status == 500


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
@pytest.mark.parametrize("name", APPS)
def test_the_second_setting_alone_changes_nothing(name: str, around: str, site: Any) -> None:
    """``request.tm`` is not that of the pipeline, so pyramid_tm commits it."""
    app = site(name, around, ACTIVATE)
    assert edit(app, "second") == 303
    assert made[0].stored() == ask(app).text == "second"


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
@pytest.mark.parametrize("name", APPS)
def test_with_the_first_setting_alone_no_change_is_lost_without_an_error__R3(
    name: str, around: str, site: Any, said: Callable[[], str]
) -> None:
    """pyramid_tm begins a transaction although the pipeline has begun one."""
    app = site(name, around, MANAGER)
    is_stored = "transaction" not in around and name != "blog"
    assert edit(app, "second") == (303 if is_stored else 500)
    assert made[0].stored() == ("second" if is_stored else "first")
    assert is_stored or ("AlreadyInTransaction" if "transaction" in around else LOST[name]) in said()


@pytest.mark.parametrize("name", APPS)
@pytest.mark.parametrize("settings", ["", BOTH], ids=["none", "both"])
def test_an_answer_from_400_on_is_sent_as_it_is(name: str, settings: str, site: Any) -> None:
    """pyramid_tm commits it all the same, if it is left alone: it vetoes nothing that it is not told to."""
    app = site(name, AROUND["with all elements"], settings)
    assert edit(app, "second", "refuse") == 409
    assert made[0].stored() == ("first" if settings else "second")


INCLUDES = "pyramid.includes = pipeline.mounting\n"


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: Any) -> Iterator[Callable[..., Any]]:
    """Load an ini whose application has its pages in the database of the pipeline."""
    monkeypatch.setitem(OPTIONS, "zodb", f"uri = file://{tmp_path}/Data.fs\n")
    yield lambda around: site("guest", around, INCLUDES)
    close_all()


def read_afresh(app: Any) -> str:
    """The text of the page, by a connection that has seen nothing of it."""
    close_all()
    return str(ask(app).text)


@pytest.mark.parametrize("around", [value for value in AROUND.values() if "zodb" in value])
def test_an_application_that_includes_us_shares_the_transaction__R1_R3(around: str, shared: Any) -> None:
    app = shared(around)
    assert ask(app).text == "first"
    for text, then, status, stored in (
        ("second", "", 303, "second"),
        ("third", "conflict", 303, "third"),
        ("fourth", "fail", 500, "third"),
        ("fifth", "refuse", 409, "third"),
        ("sixth", "", 303, "sixth"),
    ):
        assert (edit(app, text, then), read_afresh(app)) == (status, stored)


def test_its_conflicts_are_tried_again_by_the_pipeline_alone__R2(shared: Any) -> None:
    """Each of the threads adds letters to the page. pyramid_retry would try again in the same transaction."""
    app = shared("retry zodb errors transaction")
    edit(app, "-")
    lengths = []

    def add(number: int) -> None:
        for _ in range(20):
            lengths.append(edit(app, "", "add"))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, range(4)))
    assert lengths == [303] * 80
    assert len(read_afresh(app)) == 81


IMPLICIT = "manager = pipeline.toolkit.manager:ImplicitManager\n"


@pytest.mark.parametrize("then", ["fail", "refuse", "doom"])
def test_with_an_implicit_manager_the_transaction_of_the_thread_is_that_of_the_pipeline__R3(
    then: str, shared: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The view says ``transaction.doom()``, and a session of SQLAlchemy could join ``transaction.get()``."""
    monkeypatch.setitem(OPTIONS, "zodb", OPTIONS["zodb"] + IMPLICIT)
    app = shared("retry zodb errors transaction")
    assert edit(app, "second") == 303
    assert edit(app, "third", then) == {"fail": 500, "refuse": 409, "doom": 303}[then]
    assert read_afresh(app) == "second"
    assert edit(app, "fourth", "conflict") == 303
    assert read_afresh(app) == "fourth"


@pytest.mark.parametrize("then", ["conflict", "stale"])
def test_a_session_of_the_thread_is_committed_by_the_pipeline__R2_R3(
    then: str, site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``transaction`` has the implicit manager, as there is no ``zodb``. Only the session knows that StaleDataError
    is a conflict, so its transaction must be that of the pipeline. Events and hooks find Pyramid's request."""
    flushed.clear()
    monkeypatch.setitem(OPTIONS, "transaction", IMPLICIT)
    app = site("blog", "retry errors transaction", INCLUDES)
    for text, after, status, stored in (
        ("second", "", 303, "second"),
        ("third", then, 303, "third"),
        ("fourth", "fail", 500, "third"),
        ("fifth", "refuse", 409, "third"),
        ("sixth", "doom", 303, "third"),
        ("seventh", "hook", 303, "seventh"),
        ("eighth", "late", 500, "seventh"),
    ):
        assert (edit(app, text, after), made[0].stored(), ask(app).text) == (status, stored, stored)
        assert get_current_request() is None
    assert flushed and None not in flushed


def test_a_manager_that_the_code_sets_does_not_count__R3(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pyramid's cookiecutter sets it in its code, behind ``pyramid.includes``. pyramid_tm would commit a 409."""

    def own(config: Configurator) -> None:
        config.registry.settings["tm.manager_hook"] = "pyramid_tm.explicit_manager"

    monkeypatch.setattr("pyramid_tm.includeme", lambda config, add=pyramid_tm.includeme: (own(config), add(config)))
    app = site("shop", "retry errors transaction", INCLUDES)
    assert edit(app, "second") == 303
    assert edit(app, "third", "refuse") == 409
    assert made[0].stored() == "second"


def test_nothing_is_stored_if_another_part_of_the_pipeline_refuses(shared: Any) -> None:
    app = shared("retry zodb errors transaction refusing")
    assert edit(app, "second") == 500
    assert read_afresh(app) == "first"


def test_alone_it_works_as_before(site: Any) -> None:
    site("wiki", "retry errors transaction", INCLUDES)
    alone = made[0].app
    assert edit(alone, "second") == 303
    assert made[0].stored() == "second"
    assert edit(alone, "third", "conflict") == 303
    assert made[0].stored() == "third"


def test_the_check_does_not_say_to_leave_the_elements_out(tmp_path: Path, capsys: Any) -> None:
    ini = ini_of(tmp_path, "wiki", "retry errors transaction", "")
    assert main([str(ini)]) == 0
    assert "nothing to do" not in capsys.readouterr().out
    made.pop().close()
