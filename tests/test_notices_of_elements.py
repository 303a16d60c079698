"""Notices of debug mode about a site's own elements, and what is stored in spite of an error."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest
from persistent import Persistent
from webob.exc import HTTPBadRequest
from zope.interface import implementer

import asking
from pipeline import Pipeline, element, view
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import close_all, zodb
from pipeline.interfaces import IAuthentication
from pipeline.publisher import publisher
from pipeline.views import adapter

PAGES: dict[str, str] = {}
LAST = ""
BACK: ContextVar[str] = ContextVar("back", default="")
FORM = "application/x-www-form-urlencoded"


class Thing(Persistent):
    __parent__ = __name__ = None
    count = 0

    def __getitem__(self, name: str) -> Folder:
        if name != "folder":
            raise KeyError(name)
        return Folder()


class Folder(Persistent):
    """A folder with users of its own."""

    __parent__ = __name__ = None

    def __getitem__(self, name: str) -> Folder:
        return Folder()


@element
def login(next: Any) -> Any:
    """Log anna in, by a header."""

    def login(request: Any, response: Any) -> None:
        request.principal = request.headers.get("X-Login")
        next(request, response)

    return login


@element
def renews_a_hash(next: Any) -> Any:
    def renews_a_hash(request: Any, response: Any) -> None:
        renew(request, "anna", "one")
        next(request, response)

    return renews_a_hash


def renew(request: Any, login: str, password: str) -> str:
    """Log a visitor in, whose hash has old parameters."""
    request.root.hashes = {login: password}
    return login


@adapter(Folder, IAuthentication)
@implementer(IAuthentication)
class Users:
    """The users of a folder."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def identify(self, request: Any) -> str:
        return renew(request, "ben", "two")

    def challenge(self, request: Any, error: Any) -> Any:
        return error


@element
def swallows(next: Any) -> Any:
    def swallows(request: Any, response: Any) -> None:
        try:
            next(request, response)
        except Exception:
            response.text = "<p>Something went wrong"

    return swallows


@element
def answers(next: Any) -> Any:
    def answers(request: Any, response: Any) -> None:
        try:
            next(request, response)
        except ValueError:
            response.status = 400
        except Exception as error:
            response.headers["X-Error"] = type(error).__name__
            raise

    return answers


@element
def calls_twice(next: Any) -> Any:
    def calls_twice(request: Any, response: Any) -> None:
        next(request, response)
        if response.status_int != 200:
            response.headers["X-Bad"] = "1"
        next(request, response)

    return calls_twice


@element
def calls_once(next: Any) -> Any:
    def calls_once(request: Any, response: Any) -> None:
        if request.headers.get("X-Skip"):
            response.headers["X-Skipped"] = "1"
            next(request, response)
        else:
            next(request, response)

    return calls_once


@element
def keeps_a_name(next: Any) -> Any:
    who: dict[str, Any] = {}

    def keeps_a_name(request: Any, response: Any) -> None:
        if request.principal:
            who["name"] = request.principal
        next(request, response)
        response.headers["X-Hello"] = who.get("name", "")

    return keeps_a_name


@element
def keeps_a_variable(next: Any) -> Any:
    last = None

    def keeps_a_variable(request: Any, response: Any) -> None:
        nonlocal last
        last = request.principal or last
        next(request, response)

    return keeps_a_variable


@element
def keeps_an_attribute(next: Any) -> Any:
    def keeps_an_attribute(request: Any, response: Any) -> None:
        vars(keeps_an_attribute)["last"] = request.principal
        next(request, response)

    return keeps_an_attribute


@element
def counts(next: Any) -> Any:
    by_name: dict[str, Any] = {}
    total = 0

    def counts(request: Any, response: Any) -> None:
        nonlocal total
        total += 1
        by_name[request.principal] = request.principal
        by_name["last"] = total
        next(request, response)

    return counts


@view(context=Folder)
@view(context=Thing, name="shows")
def shows(context: Any, request: Any) -> str:
    return "<p>a page"


@view(context=Thing, name="changes")
def changes(context: Any, request: Any) -> str:
    context.count += 1
    return "<p>counted"


@view(context=Thing, name="count", methods=("POST",))
def count(context: Any, request: Any) -> str:
    context.count += 1
    return "<p>counted"


@view(context=Thing, name="back")
def back(context: Any, request: Any) -> str:
    token = BACK.set(request.principal)
    try:
        return f"<p>{BACK.get()}"
    finally:
        BACK.reset(token)


@view(context=Thing, name="stays")
def stays(context: Any, request: Any) -> str:
    BACK.set(request.principal)
    return "<p>a page"


@view(context=Thing, name="page")
def page(context: Any, request: Any) -> str:
    PAGES["/page"] = f"<p>Hello {request.principal}"
    return PAGES["/page"]


@view(context=Thing, name="last")
def last(context: Any, request: Any) -> str:
    global LAST
    LAST = request.principal
    return f"<p>{LAST}"


@view(context=Thing, name="own-page")
def own_page(context: Any, request: Any) -> str:
    PAGES[request.principal] = f"<p>Hello {request.principal}"
    return PAGES[request.principal]


@view(context=Thing, name="commits", methods=("POST",))
def commits(context: Any, request: Any) -> str:
    context.count += 1
    request.tm.commit()
    if request.headers.get("X-Bad"):
        raise HTTPBadRequest("too short")
    return "<p>stored"


@view(context=Thing, name="means-it", methods=("POST",))
def means_it(context: Any, request: Any) -> str:
    request.commit_on_error = True
    context.count += 1
    request.tm.commit()
    raise HTTPBadRequest("too short")


@view(context=Thing, name="commits-and-says-so", methods=("POST",))
def commits_and_says_so(context: Any, request: Any, response: Any) -> str:
    context.count += 1
    request.tm.commit()
    response.status = 400
    return "<p>too short"


@view(context=Thing, name="refuses", methods=("POST",))
def refuses(context: Any, request: Any) -> str:
    context.count += 1
    raise HTTPBadRequest("too short")


@pytest.fixture(autouse=True)
def forgotten() -> Any:
    yield
    close_all()


def notices(
    path: str, method: str, inner: tuple[Any, ...], caplog: Any, outer: tuple[Any, ...] = ()
) -> list[str]:
    database = zodb(uri="memory://elements", root=lambda root: root.setdefault("thing", Thing()))
    within = (forms(), login(), traverse(), *inner)
    parts = (retry(delay=0), database, errors(debug=True), *outer, transaction(), *within)
    site = Pipeline(*parts, publisher(scan=(__name__,)))
    asking.ask(site, "/back", HTTP_X_LOGIN="first")
    caplog.clear()
    extra = {"CONTENT_TYPE": FORM, "HTTP_X_LOGIN": "anna", "HTTP_X_BAD": "1"}
    asking.ask(site, path, method, **extra)
    assert "could not be found out" not in caplog.text
    return [record.getMessage() for record in caplog.records if record.name == "pipeline.notices"]


@pytest.mark.parametrize(
    ("path", "part", "told"),
    [
        ("POST /count", swallows, "this element answers each exception of next(request, response)"),
        ("POST /count", calls_twice, "this element calls next(request, response) twice"),
        ("GET /back", keeps_a_name, "keeps what belongs to this visitor"),
        ("GET /back", keeps_a_variable, "keeps what belongs to this visitor"),
        ("GET /back", keeps_an_attribute, "keeps what belongs to this visitor"),
        ("GET /stays", calls_once, "test_notices_of_elements.BACK keeps what belongs to this visitor"),
        ("GET /last", calls_once, "test_notices_of_elements.LAST keeps what belongs to this visitor"),
        ("GET /page", calls_once, "test_notices_of_elements.PAGES keeps what belongs to this visitor"),
        ("POST /commits", calls_once, "the changes of this request were stored before the error"),
        ("POST /commits-and-says-so", calls_once, "the changes of this request were stored before the error"),
    ],
)
def test_a_mistake_is_told(path: str, part: Callable[[], Any], told: str, caplog: Any) -> None:
    method, _, path = path.partition(" ")
    [found] = notices(path, method, (part(),), caplog)
    assert told in found


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("POST /count", answers),
        ("POST /count", calls_once),
        ("POST /count", counts),
        ("GET /back", counts),
        ("GET /own-page", counts),
        ("POST /means-it", answers),
        ("POST /refuses", counts),
    ],
)
def test_right_code_is_quiet(path: str, part: Callable[[], Any], caplog: Any) -> None:
    method, _, path = path.partition(" ")
    assert notices(path, method, (part(),), caplog) == []


def test_an_element_outside_of_the_transaction_may_answer_each_error(caplog: Any) -> None:
    """Nothing is stored when it catches one."""
    assert notices("/count", "POST", (), caplog, (swallows(),)) == []


BASIC = "Basic YW5uYTpvbmU="


@pytest.mark.parametrize(
    ("path", "placeful", "header", "inner", "is_told"),
    [
        ("/shows", False, BASIC, (), False),
        ("/changes", False, "", (), True),
        ("/shows", False, BASIC, (renews_a_hash,), True),
        ("/folder/", True, "", (), False),
        ("/folder/further/", True, "", (), False),
        ("/changes", True, "", (), True),
    ],
)
def test_what_a_login_stores_is_no_change_of_a_view(
    path: str, placeful: bool, header: str, inner: tuple[Any, ...], is_told: bool, caplog: Any
) -> None:
    """A GET may renew the old hash of a password. What a view or an element of the site stores is told."""
    database = zodb(uri="memory://elements", root=lambda root: root.setdefault("thing", Thing()))
    who = authenticate(by=("basic",), check=renew, placeful=placeful)
    parts = (retry(delay=0), database, errors(debug=True), transaction(), *(one() for one in inner), who)
    site = Pipeline(*parts, traverse(), publisher(scan=(__name__,)))
    asking.ask(site, "/shows")
    caplog.clear()
    extra = {"HTTP_AUTHORIZATION": header} if header else {}
    assert asking.ask(site, path, environ=extra).status == 200
    told = [record.getMessage() for record in caplog.records if record.name == "pipeline.notices"]
    assert ["a GET has changed the database" in one for one in told] == [True] * is_told
