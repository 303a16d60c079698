"""``absoluteURL`` in one pass tells what zope.traversing tells, and leaves what is not Zope's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from zope.component import getGlobalSiteManager
from zope.interface import Interface, alsoProvides
from zope.location import Location, LocationProxy
from zope.location.interfaces import IRoot
from zope.publisher.browser import BrowserRequest
from zope.publisher.interfaces.http import IHTTPRequest
from zope.security.checker import NamesChecker, ProxyFactory
from zope.traversing.browser import AbsoluteURL, absoluteURL
from zope.traversing.browser.interfaces import IAbsoluteURL

from pipeline.ztk import urls
from ztk.compared_site import make_db

pytestmark = pytest.mark.usefixtures("registered")


class IElsewhere(Interface):
    """An object with a URL of its own."""


class INamed(Interface):
    """An object whose URL is told by a subclass."""


class Elsewhere(AbsoluteURL):
    def __str__(self) -> str:
        return "http://elsewhere.example"


class Named(AbsoluteURL):
    def __str__(self) -> str:
        return super().__str__() + "!"


class Bare:
    """An object that does not know where it is."""


@pytest.fixture(scope="module")
def registered() -> Iterator[None]:
    db = make_db()
    registry = getGlobalSiteManager()
    classes = {IElsewhere: Elsewhere, INamed: Named}
    for kind, cls in classes.items():
        registry.registerAdapter(cls, (kind, IHTTPRequest), IAbsoluteURL)
    yield
    for kind, cls in classes.items():
        registry.unregisterAdapter(cls, (kind, IHTTPRequest), IAbsoluteURL)
    db.close()


CHECKERS = (None, *(NamesChecker(names) for names in (["__parent__", "__name__"], ["__name__"], ["__parent__"])))
STEPS = st.tuples(
    st.sampled_from(["a", "page-1", "b c", "ü/@+~", "", None, 1]),
    st.sampled_from([Location, Location, LocationProxy, Bare]),
    st.sampled_from([None, None, None, IElsewhere, INamed, IRoot]),
    st.sampled_from(CHECKERS),
)


ENVIRON = {"HTTP_HOST": "localhost", "PATH_INFO": "/"}


def told(ob: Any, request: Any) -> tuple[type, str]:
    try:
        return str, absoluteURL(ob, request)
    except Exception as error:
        return type(error), ""


@pytest.mark.parametrize("marked", [False, True], ids=["an object of no kind", "a root"])
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, min_size=1, max_size=6), host=st.integers(-1, 5), script=st.sampled_from(["", "/app"]))
def test_a_url_is_the_same(marked: bool, steps: list[Any], host: int, script: str) -> None:
    ob: Any = Location() if marked else None
    if marked:
        alsoProvides(ob, IRoot)
    request = BrowserRequest(None, {**ENVIRON, "SCRIPT_NAME": script})
    for number, (name, cls, kind, checker) in enumerate(steps):
        parent = ob
        ob = LocationProxy(Bare(), parent, name) if cls is LocationProxy else cls()
        if cls is Location:
            ob.__parent__, ob.__name__ = parent, name
        if kind is not None:
            alsoProvides(ob, kind)
        if checker is not None:
            ob = ProxyFactory(ob, checker)
        if number == host:
            request._vh_root = ob
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AbsoluteURL, "__str__", urls.ZOPES)
        theirs = told(ob, request)
        patch.setattr(AbsoluteURL, "__str__", urls.one_pass)
        assert told(ob, request) == theirs


def test_the_method_of_this_version_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AbsoluteURL, "__str__", urls.ZOPES)
    urls.shorten()
    assert vars(AbsoluteURL)["__str__"] is urls.one_pass


def test_a_method_that_is_not_known_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_another_version(self: Any) -> str:
        return "http://localhost"

    monkeypatch.setattr(AbsoluteURL, "__str__", of_another_version)
    urls.shorten()
    assert vars(AbsoluteURL)["__str__"] is of_another_version


def test_parents_in_a_circle_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AbsoluteURL, "__str__", urls.one_pass)
    ob = Location()
    ob.__parent__, ob.__name__ = ob, "itself"
    with pytest.raises(RecursionError):
        absoluteURL(ob, BrowserRequest(None, ENVIRON))
