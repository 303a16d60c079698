"""Retries where an application overrides a part of zope.publisher's protocol: the same here and there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zope.app.wsgi
from grokcore.view.publication import GrokBrowserPublication
from ZODB.DB import DB
from ZODB.POSException import ConflictError
from zope.publisher.browser import BrowserRequest
from zope.publisher.interfaces import Retry
from zope.publisher.skinnable import setDefaultSkin

from pipeline.elements.zodb import close_all
from pipeline.ztk import WSGIPublisherApplication
from ztk.asking import Answer, ask
from ztk.compared_site import Index, make_db

CONFLICT = ConflictError("a conflict")
PATH = "/folder/note/index"


@pytest.fixture
def db() -> Iterator[DB]:
    logging.disable(logging.CRITICAL)
    db = make_db()
    yield db
    logging.disable(logging.NOTSET)
    close_all()
    db.close()


class Told(list[Any]):
    """What the overridden members were asked, in order."""

    def publication(self) -> dict[str, Any]:
        def handleException(
            publication: Any, ob: Any, request: Any, exc_info: Any, retry_allowed: bool = True
        ) -> None:
            self.append(("handleException", type(ob).__name__, exc_info[0].__name__, retry_allowed))
            GrokBrowserPublication.handleException(publication, ob, request, exc_info, retry_allowed)

        return {"handleException": handleException}

    def request(self, most: int = 3) -> dict[str, Any]:
        def supportsRetry(request: Any) -> bool:
            self.append("supportsRetry")
            return bool(BrowserRequest.supportsRetry(request))

        def retry(request: Any) -> Any:
            self.append("retry")
            again = BrowserRequest.retry(request)
            again.number = getattr(request, "number", 1) + 1
            return again

        return {"supportsRetry": supportsRetry, "retry": retry, "retry_max_count": most}


def application(
    made: Callable[..., Any], db: DB, publication: dict[str, Any], request: dict[str, Any], **options: Any
) -> Any:
    """Make an application whose publication and request override these members."""
    request_class = type("Request", (BrowserRequest,), request)
    publication_class = type("Publication", (GrokBrowserPublication,), publication)

    class Factory:
        def __init__(self, db: Any) -> None:
            self.publication = publication_class(db)

        def __call__(self, stream: Any, environ: dict[str, Any]) -> Any:
            made = request_class(stream, environ)
            made.setPublication(self.publication)
            setDefaultSkin(made)
            return made

    return made(db, Factory, **options)


def fails(monkeypatch: pytest.MonkeyPatch, times: int, error: Exception) -> None:
    """Have the view fail some times."""
    left = [times]

    def answer(view: Any) -> str:
        left[0] -= 1
        if left[0] >= 0:
            raise error
        return f"attempt {getattr(view.request, 'number', 1)}, {getattr(view.request, '_retry_count', 0)}"

    monkeypatch.setattr(Index, "answer", answer)


CASES = {
    "no error": (0, CONFLICT, 3),
    "a conflict": (1, CONFLICT, 3),
    "two conflicts": (2, CONFLICT, 3),
    "a conflict too many": (2, CONFLICT, 1),
    "many conflicts": (6, CONFLICT, 6),
    "many and one conflicts": (7, CONFLICT, 6),
    "a request that is not tried again": (1, CONFLICT, 0),
    "an application that asks for it": (2, Retry((RuntimeError, RuntimeError("again"), None)), 3),
    "an application that asks too often": (2, Retry((RuntimeError, RuntimeError("again"), None)), 1),
    "an error": (1, RuntimeError("It failed."), 3),
}
OVERRIDDEN = {
    "handler": (True, False),
    "request": (False, True),
    "both": (True, True),
}


def answers(
    db: DB, monkeypatch: pytest.MonkeyPatch, case: str, overridden: str, headers: dict[str, Any]
) -> list[tuple[Any, list[Any]]]:
    """Return the answer and what was asked, on Zope and here."""
    times, error, most = CASES[case]
    by_publication, by_request = OVERRIDDEN[overridden]
    found: list[tuple[Any, list[Any]]] = []
    for made in (zope.app.wsgi.WSGIPublisherApplication, WSGIPublisherApplication):
        told = Told()
        fails(monkeypatch, times, error)
        members = told.request(most) if by_request else {"retry_max_count": most}
        app = application(made, db, told.publication() if by_publication else {}, members)
        answer: Any
        try:
            answer = ask(app, "GET", PATH, headers)
        except Exception as raised:
            answer = raised
        found.append((answer, told))
    return found


@pytest.mark.parametrize("overridden", OVERRIDDEN)
@pytest.mark.parametrize("case", CASES)
def test_what_is_overridden_is_asked_as_zope_asks_it(
    case: str, overridden: str, db: DB, monkeypatch: pytest.MonkeyPatch
) -> None:
    (theirs, asked), (ours, told) = answers(db, monkeypatch, case, overridden, {})
    if overridden != "request":  # Zope's own handler raises Retry, which ours does not need
        assert told == asked
    assert isinstance(ours, Answer)
    assert isinstance(theirs, Answer)
    if theirs.status.startswith("500") and CASES[case][1] is not CASES["an error"][1]:
        assert ours.status == "503 Service Unavailable"
    else:
        assert (ours.status, ours.body) == (theirs.status, theirs.body)


@pytest.mark.parametrize("overridden", OVERRIDDEN)
@pytest.mark.parametrize("case", CASES)
def test_errors_that_are_not_handled_leave_the_application(
    case: str, overridden: str, db: DB, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"wsgi.handleErrors": False}
    (theirs, asked), (ours, told) = answers(db, monkeypatch, case, overridden, headers)
    if overridden != "request":
        assert told == asked
    assert type(ours) is type(theirs)


def test_a_handler_that_answers_a_conflict_has_the_last_word(db: DB, monkeypatch: pytest.MonkeyPatch) -> None:
    def handleException(publication: Any, ob: Any, request: Any, exc_info: Any, retry_allowed: bool) -> None:
        request.response.setStatus(409)
        request.response.setResult(b"taken")

    for made in (zope.app.wsgi.WSGIPublisherApplication, WSGIPublisherApplication):
        fails(monkeypatch, 1, CONFLICT)
        answer = ask(application(made, db, {"handleException": handleException}, {}), "GET", PATH)
        assert (answer.status, answer.body) == ("409 Conflict", b"taken")


def test_a_body_is_read_again_by_the_request_that_retry_returns(db: DB, monkeypatch: pytest.MonkeyPatch) -> None:
    left = [2]

    def answer(view: Any) -> str:
        left[0] -= 1
        if left[0]:
            raise CONFLICT
        return repr(view.request.form)

    monkeypatch.setattr(Index, "answer", answer)
    app = application(WSGIPublisherApplication, db, {}, Told().request())
    form = {"CONTENT_TYPE": "application/x-www-form-urlencoded"}
    assert ask(app, "POST", PATH, form, b"a=b").text == "{'a': 'b'}"


def test_attempts_1_tries_nothing_again(db: DB, monkeypatch: pytest.MonkeyPatch) -> None:
    fails(monkeypatch, 1, CONFLICT)
    app = application(WSGIPublisherApplication, db, {}, Told().request(), attempts=1)
    assert ask(app, "GET", PATH).status == "503 Service Unavailable"
