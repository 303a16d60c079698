"""``events`` on a real site: which events there are, in which order, and what a subscriber may do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import zope.event
from transaction.interfaces import TransientError
from webob import Request
from webob.exc import HTTPForbidden
from zope.interface.interfaces import IObjectEvent
from zope.interface.verify import verifyObject

from pipeline import Pipeline, view
from pipeline.elements.errors import errors
from pipeline.elements.events import BeforeTraverse, EndRequest, IBeforeTraverse, IEndRequest, events
from pipeline.elements.retry import retry
from pipeline.elements.traverse import traverse
from pipeline.interfaces import OrderError
from pipeline.publisher import publisher

said: list[str] = []


class Folder(dict[str, Any]):
    def __init__(self, name: str, **items: Any) -> None:
        super().__init__(items)
        self.name = name


ROOT = Folder("root", a=Folder("a", b=Folder("b")), closed=Folder("closed", inner=Folder("inner")))


@view(context=Folder)
def show(folder: Folder, request: Any) -> str:
    said.append(f"view of {folder.name}")
    return folder.name


@view(context=Folder, name="stream")
def stream(folder: Folder, request: Any) -> Iterator[bytes]:
    for number in range(2):
        said.append(f"block {number}")
        yield b"x"


@view(context=Folder, name="fail")
def fail(folder: Folder, request: Any) -> str:
    raise RuntimeError("broken")


@view(context=Folder, name="again")
def again(folder: Folder, request: Any) -> str:
    if request.attempt == 1:
        raise TransientError
    return "done"


@view(context=RuntimeError)
def failed(error: RuntimeError, request: Any) -> str:
    said.append("error view")
    return "failed"


def subscriber(event: Any) -> None:
    if IBeforeTraverse.providedBy(event):
        said.append(f"before {event.object.name}")
        if event.object.name == "closed":
            raise HTTPForbidden("closed today")
    elif IEndRequest.providedBy(event):
        said.append(f"end at {getattr(event.object, 'name', None)}")


@pytest.fixture(autouse=True)
def subscribed() -> Iterator[None]:
    said.clear()
    zope.event.subscribers.append(subscriber)
    yield
    zope.event.subscribers.remove(subscriber)


@pytest.fixture(scope="module")
def app() -> Pipeline:
    return Pipeline(
        retry(delay=0), errors(), events(), traverse(root=lambda: ROOT), publisher(scan=(__name__,))
    )


@pytest.mark.parametrize(
    ("path", "status", "order"),
    [
        ("/", 200, ["before root", "view of root", "end at root"]),
        ("/a/b/", 200, ["before root", "before a", "before b", "view of b", "end at b"]),
        ("/a/@@stream", 200, ["before root", "before a", "block 0", "block 1", "end at a"]),
        ("/a/fail", 500, ["before root", "before a", "error view", "end at a"]),
        ("/a/nothing", 404, ["before root", "before a", "end at a"]),
        ("/_x", 404, ["end at None"]),
        ("/closed/inner/", 403, ["before root", "before closed", "end at None"]),
        ("/a/again", 200, ["before root", "before a", "end at a"] * 2),
    ],
)
def test_the_order(app: Pipeline, path: str, status: int, order: list[str]) -> None:
    answer = Request.blank(path).get_response(app)
    assert answer.body  # it is read to its end
    assert (answer.status_int, said) == (status, order)


def test_the_end_of_a_stream_is_that_of_the_client(app: Pipeline) -> None:
    body = app(Request.blank("/a/stream").environ, lambda status, headers, exc_info=None: None)
    next(iter(body))
    assert said[-1] == "block 0"
    body.close()  # type: ignore[attr-defined]
    assert said[-1] == "end at a"


def test_a_subscriber_that_fails_at_the_end_stops_nothing(
    app: Pipeline, caplog: pytest.LogCaptureFixture
) -> None:
    """R6"""

    def broken(event: Any) -> None:
        if IEndRequest.providedBy(event):
            raise RuntimeError("too late")

    zope.event.subscribers.append(broken)
    try:
        assert Request.blank("/a/").get_response(app).text == "a"
    finally:
        zope.event.subscribers.remove(broken)
    assert "too late" in caplog.text


def test_what_the_events_are() -> None:
    for made, interface in ((BeforeTraverse, IBeforeTraverse), (EndRequest, IEndRequest)):
        event = made("an object", Request.blank("/"))  # type: ignore[arg-type]
        assert verifyObject(interface, event) and IObjectEvent.providedBy(event)


def test_it_stands_outside_of_traverse() -> None:
    with pytest.raises(OrderError, match="notifies at each step"):
        Pipeline(errors(), traverse(root=dict), events(), publisher())
