"""``site`` on a real site: whose utilities are found, and when the site that was set before is set again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from transaction.interfaces import TransientError
from webob import Request
from webob.exc import HTTPNotFound
from zope.component import getUtility, queryUtility
from zope.component.hooks import getSite, setSite
from zope.component.interfaces import ISite
from zope.interface import Interface, implementer
from zope.interface.registry import Components

from pipeline import Pipeline, view
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.site import site
from pipeline.elements.traverse import traverse
from pipeline.interfaces import OrderError
from pipeline.publisher import publisher


class IName(Interface):
    """Names the site whose utility it is."""


@implementer(ISite)
class Local(dict[str, Any]):
    """A folder with a site manager."""

    def __init__(self, name: str, **items: Any) -> None:
        super().__init__(items)
        self.manager = Components(name)
        self.manager.registerUtility(name, IName)

    def getSiteManager(self) -> Components:
        return self.manager

    def setSiteManager(self, manager: Components) -> None:
        self.manager = manager


class Folder(dict[str, Any]):
    """One without."""


seen: list[Any] = []


def here() -> Any:
    return queryUtility(IName, default="none")


@view(context=dict)
def show(context: Any, request: Any) -> str:
    return str(here())


@view(context=dict, name="stream")
def stream(context: Any, request: Any) -> Iterator[bytes]:
    for _ in range(2):
        yield str(here()).encode()


@view(context=dict, name="fail")
def fail(context: Any, request: Any) -> str:
    raise RuntimeError(getUtility(IName))


@view(context=dict, name="again")
def again(context: Any, request: Any) -> str:
    seen.append(here())
    if request.attempt < 3:
        raise TransientError
    return str(here())


@view(context=RuntimeError)
def failed(error: RuntimeError, request: Any, response: Any) -> str:
    return f"failed in {here()}"


@view(context=HTTPNotFound)
def missing(error: HTTPNotFound, request: Any) -> str:
    return f"missing in {here()}"


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    seen.clear()
    assert getSite() is None
    yield
    assert getSite() is None
    setSite(None)


ROOT = Folder(one=Local("one", plain=Folder(), two=Local("two", deep=Folder(deeper=Folder()))), plain=Folder())


@pytest.fixture(scope="module")
def app() -> Pipeline:
    return Pipeline(
        retry(delay=0), errors(), site(), traverse(root=lambda: ROOT), publisher(scan=(__name__,))
    )


def ask(app: Any, path: str) -> str:
    text: str = Request.blank(path).get_response(app).text
    return text


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/", "none"),
        ("/plain/", "none"),
        ("/one/", "one"),
        ("/one/plain/", "one"),
        ("/one/two/", "two"),
        ("/one/two/deep/deeper/", "two"),
        ("/one/two/deep/@@stream", "twotwo"),
        ("/one/plain/stream", "oneone"),
        ("/one/@@fail", "failed in one"),
        ("/one/two/nothing", "missing in two"),
        ("/one/two/_x", "missing in none"),  # refused ahead of the first step
        ("/one/@@again", "one"),
    ],
)
def test_whose_utilities_are_found(app: Pipeline, path: str, text: str) -> None:
    assert ask(app, path) == text
    assert getSite() is None


def test_each_attempt_begins_without(app: Pipeline) -> None:
    assert ask(app, "/one/again") == "one"
    assert seen == ["one"] * 3


def test_a_stream_has_it_until_it_is_closed(app: Pipeline) -> None:
    started: list[str] = []
    environ = Request.blank("/one/two/stream").environ
    body = app(environ, lambda status, headers, exc_info=None: started.append(status))
    blocks = iter(body)
    assert (next(blocks), getSite()) == (b"two", ROOT["one"]["two"])
    body.close()  # type: ignore[attr-defined]  # abandoned in the middle
    assert (started, getSite()) == (["200 OK"], None)


def test_the_site_that_was_set_before_is_set_again(app: Pipeline) -> None:
    outer = Local("outer")
    setSite(outer)
    try:
        assert ask(app, "/plain/") == "outer"
        assert ask(app, "/one/") == "one"
        assert ask(app, "/one/fail") == "failed in one"
        assert getSite() is outer
    finally:
        setSite(None)


def test_threads_have_each_their_own(app: Pipeline) -> None:
    both = threading.Barrier(2, timeout=10)

    class Meeting(Folder):
        def __getitem__(self, name: str) -> Any:
            both.wait()
            return super().__getitem__(name)

    meeting = Pipeline(
        errors(),
        site(),
        traverse(root=lambda: Meeting(a=Local("a", x=Meeting(y=Folder())), b=Local("b", x=Meeting(y=Folder())))),
        publisher(scan=(__name__,)),
    )
    found: dict[str, str] = {}

    def client(name: str) -> None:
        found[name] = ask(meeting, f"/{name}/x/y/")

    threads = [threading.Thread(target=client, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"a": "a", "b": "b"}


def test_it_stands_outside_of_traverse() -> None:
    with pytest.raises(OrderError, match="set by a hook"):
        Pipeline(errors(), traverse(root=dict), site(), publisher())
