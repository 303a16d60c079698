"""``WSGIPublisherApplication`` and the elements: what they keep of Zope's hooks, and what they leave behind."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

import pytest
import transaction
import zope.component
from grokcore.view.publication import GrokBrowserPublication
from ZODB.DB import DB
from ZODB.MappingStorage import MappingStorage
from zope.app.publication.browser import BrowserPublication
from zope.app.publication.httpfactory import HTTPPublicationRequestFactory
from zope.app.wsgi.interfaces import IWSGIApplication
from zope.component import getGlobalSiteManager
from zope.component.hooks import getSite
from zope.component.interfaces import ISite
from zope.interface import Interface, classImplements
from zope.interface.verify import verifyObject
from zope.publisher.browser import BrowserPage, BrowserRequest
from zope.publisher.interfaces import EndRequestEvent, StartRequestEvent
from zope.publisher.interfaces.browser import IBrowserRequest
from zope.security.checker import NamesChecker, defineChecker
from zope.security.management import queryInteraction
from zope.traversing.interfaces import IBeforeTraverseEvent

from pipeline import Pipeline
from pipeline.elements.transaction import transaction as transaction_element
from pipeline.elements.zodb import close_all, zodb
from pipeline.interfaces import ConfigurationError
from pipeline.toolkit.manager import ImplicitManager
from pipeline.ztk import WSGIPublisherApplication
from pipeline.ztk.authenticate import ztk_authenticate
from pipeline.ztk.known import ways_of
from pipeline.ztk.publisher import ztk_publisher
from pipeline.ztk.request import ztk_request
from pipeline.ztk.traverse import kind, ztk_traverse
from ztk.asking import ask
from ztk.compared_site import Index, INote, Note, make_db


@pytest.fixture
def db() -> Iterator[DB]:
    db = make_db()
    yield db
    close_all()
    db.close()


def stock_ways() -> Any:
    return ways_of(BrowserPublication(None), BrowserRequest(None, {"PATH_INFO": "/"}))


def test_it_is_an_application_of_zope(db: DB) -> None:
    app = WSGIPublisherApplication(db)
    assert isinstance(app, zope.app.wsgi.WSGIPublisherApplication)
    assert verifyObject(IWSGIApplication, app)
    assert isinstance(app.requestFactory, HTTPPublicationRequestFactory)


def test_each_step_has_an_entry_point() -> None:
    found = {
        entry.name: entry.load()
        for group in ("paste.filter_factory", "paste.app_factory")
        for entry in entry_points(group=group)
        if entry.module.startswith("pipeline.ztk.")
    }
    steps = {"ztk_request", "ztk_errors", "ztk_authenticate", "ztk_traverse", "ztk_publisher"}
    assert found.keys() == {*steps, "ztk"}
    assert all(found[name].name == name for name in steps)


def test_nothing_is_left_behind(db: DB) -> None:
    app = WSGIPublisherApplication(db)
    before = transaction.manager.manager
    for path in ("/folder/note/index", "/site/note/index", "/folder/note/fails", "/none", "/folder/note/count"):
        answer = ask(app, "GET", path)
        assert answer.status
        assert transaction.manager.manager is before
        assert queryInteraction() is None
        assert getSite() is None
        assert not {"pipeline.request", "pipeline.response"} & answer.environ.keys()


def test_the_manager_of_the_thread_is_that_of_the_request_while_it_runs(
    db: DB, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(Index, "answer", lambda view: seen.append(transaction.manager.manager) or "x")
    app = WSGIPublisherApplication(db)
    ask(app, "GET", "/folder/note/index")
    assert isinstance(seen[0], ImplicitManager)
    assert not seen[0].running


def test_one_connection_serves_one_request_after_the_other(db: DB, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(Index, "answer", lambda view: seen.append(view.context._p_jar) or "x")
    app = WSGIPublisherApplication(db)
    for _ in range(3):
        ask(app, "GET", "/folder/note/index")
    assert len({*map(id, seen)}) == 1
    assert seen[0].transaction_manager.explicit


def test_two_applications_with_one_database_share_its_connections(db: DB, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Zope's do, so that volatile attributes live on: the next id of ``zope.intid`` is one."""

    def answer(view: Any) -> str:
        note = view.context
        note._v_next = getattr(note, "_v_next", 0) + 1
        return str(note._v_next)

    monkeypatch.setattr(Index, "answer", answer)
    apps = [WSGIPublisherApplication(db), WSGIPublisherApplication(db, attempts=2)]
    assert [ask(app, "GET", "/folder/note/index").text for app in apps * 2] == ["1", "2", "3", "4"]
    other = make_db()
    assert ask(WSGIPublisherApplication(other), "GET", "/folder/note/index").text == "1"
    other.close()


def test_a_conflict_is_tried_again_for_as_long_as_retry_does(db: DB) -> None:
    """Zope gives up after four attempts, which is too early for one hot object."""
    assert ask(WSGIPublisherApplication(db), "GET", "/folder/note/again?key=hot&times=9").text == "10 1"
    fewer = WSGIPublisherApplication(db, attempts=4)
    assert ask(fewer, "GET", "/folder/note/again?key=fewer&times=4").status == "503 Service Unavailable"


def test_a_manager_that_is_not_implicit_is_refused(db: DB) -> None:
    app = Pipeline(
        zodb(db=db), ztk_request(db=db), transaction_element(), ztk_authenticate(), ztk_traverse(), ztk_publisher()
    )
    with pytest.raises(ConfigurationError, match="needs the option manager"):
        ask(app, "GET", "/", {"wsgi.handleErrors": False})


@pytest.mark.parametrize("options", [{}, {"uri": "memory://", "db": object()}])
def test_zodb_takes_one_database(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="one of the options uri and db"):
        Pipeline(zodb(**options), lambda environ, start_response: [])


def test_a_database_that_was_given_brings_its_own_options(db: DB) -> None:
    with pytest.raises(ConfigurationError, match="has its own options"):
        Pipeline(zodb(db=db, cache_size=3), lambda environ, start_response: [])


def test_events_are_told_to_their_subscribers(db: DB) -> None:
    seen: list[str] = []

    def started(event: Any) -> None:
        seen.append("start")

    def ended(event: Any) -> None:
        seen.append(f"end {event.object.__class__.__name__}")

    manager = zope.component.getGlobalSiteManager()
    manager.registerHandler(started, [zope.interface.implementedBy(StartRequestEvent)])
    manager.registerHandler(ended, [zope.interface.implementedBy(EndRequestEvent)])
    try:
        ask(WSGIPublisherApplication(db), "GET", "/folder/note/shown")
    finally:
        manager.unregisterHandler(started, [zope.interface.implementedBy(StartRequestEvent)])
        manager.unregisterHandler(ended, [zope.interface.implementedBy(EndRequestEvent)])
    assert seen == ["start", "end Shown"]


def test_the_short_ways_are_taken_where_nothing_is_overridden() -> None:
    ways = "begin application steps names browser after_call errors retries without_body"
    assert stock_ways() == set(ways.split())


@pytest.mark.parametrize(
    ("hook", "way"),
    [
        ("beforeTraversal", "begin"),
        ("getApplication", "application"),
        ("openedConnection", "application"),
        ("callTraversalHooks", "steps"),
        ("traverseName", "names"),
        ("proxy", "names"),
        ("afterCall", "after_call"),
        ("annotateTransaction", "after_call"),
    ],
)
def test_an_overridden_hook_is_called(hook: str, way: str, db: DB) -> None:
    called: list[str] = []

    def overridden(self: Any, *arguments: Any) -> Any:
        called.append(hook)
        return getattr(GrokBrowserPublication, hook)(self, *arguments)

    cls = type("Publication", (GrokBrowserPublication,), {hook: overridden})
    publication = cls(db)
    assert way not in ways_of(publication, BrowserRequest(None, {"PATH_INFO": "/"}))

    class Factory(HTTPPublicationRequestFactory):
        def __call__(self, stream: Any, environ: dict[str, Any]) -> Any:
            request = super().__call__(stream, environ)
            request.setPublication(publication)
            return request

    answer = ask(WSGIPublisherApplication(db, Factory), "GET", "/folder/note/index")
    assert answer.status == "200 Ok", answer.text
    if hook != "annotateTransaction":  # nothing was written
        assert called


def test_a_hook_on_a_publication_itself_is_called(db: DB) -> None:
    publication = BrowserPublication(db)
    publication.proxy = lambda ob: ob
    ways = ways_of(publication, BrowserRequest(None, {"PATH_INFO": "/"}))
    assert ways.isdisjoint({"application", "names", "errors"})


def test_close_callbacks_run_once_at_the_end_of_a_request(db: DB, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    def answer(self: Any) -> str:
        connection = self.context._p_jar
        connection.onCloseCallback(lambda: 1 / 0)  # logged, and the next one is called
        connection.onCloseCallback(lambda: called.append("closed"))
        return f"{len(called)}"

    monkeypatch.setattr(Index, "answer", answer)
    app = WSGIPublisherApplication(db)
    for number in range(3):
        assert ask(app, "GET", "/folder/note/index").text == f"{number}"
    assert called == ["closed"] * 3


def test_the_connection_of_a_mounted_database_is_told_of_the_end_of_a_request(
    db: DB, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    told: list[Any] = []
    mounted = DB(MappingStorage(), database_name="mounted", databases=db.databases)

    def answer(self: Any) -> str:
        connection = self.context._p_jar.get_connection("mounted")
        told.append(connection.getDebugInfo())
        connection.setDebugInfo(self.request)
        connection.onCloseCallback(lambda: called.append("closed"))
        return ""

    monkeypatch.setattr(Index, "answer", answer)
    app = WSGIPublisherApplication(db)
    for _ in range(3):
        ask(app, "GET", "/folder/note/index")
    assert called == ["closed"] * 3
    assert told == [()] * 3
    mounted.close()


def test_what_is_registered_later_counts_at_once(db: DB) -> None:
    """Answers about interfaces are kept; a registration and a declaration make them void."""
    app = WSGIPublisherApplication(db)
    request = BrowserRequest(None, {"PATH_INFO": "/"})
    components = getGlobalSiteManager()
    heard: list[Any] = []

    class Late(BrowserPage):  # type: ignore[misc]
        def __call__(self) -> str:
            return "late"

    def hear(ob: Any, event: Any) -> None:
        heard.append(ob)

    defineChecker(Late, NamesChecker(["__call__", "browserDefault"]))

    for _ in range(2):
        assert ask(app, "GET", "/folder/note/late").status == "404 Not Found"
        components.registerAdapter(Late, (INote, IBrowserRequest), Interface, "late")
        components.registerHandler(hear, (INote, IBeforeTraverseEvent))
        assert ask(app, "GET", "/folder/note/late").text == "late"
        assert [type(ob) for ob in heard] == [Note]
        components.unregisterAdapter(Late, (INote, IBrowserRequest), Interface, "late")
        components.unregisterHandler(hear, (INote, IBeforeTraverseEvent))
        heard.clear()

    class Place:
        pass

    assert not kind(Place(), request).is_site
    classImplements(Place, ISite)
    assert kind(Place(), request).is_site
