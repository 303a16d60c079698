"""``prove``: links and forms that lead to nothing are found, and those that lead somewhere are followed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from secrets import token_hex
from typing import Any
from urllib.parse import quote

import pytest
from webob.exc import HTTPBadRequest, HTTPNotFound

from pipeline import Pipeline, redirect, view
from pipeline.database import forks
from pipeline.elements.base import base
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import zodb
from pipeline.proving.links import paged
from pipeline.proving.proof import Proof
from pipeline.proving.report import Found, Report
from pipeline.publisher import publisher
from pipeline.staging.asked import Asked, asked

PAGE = ""
"""The page at /."""
REGISTERED: Callable[[str], str] = quote
"""What the page ``register`` makes of a title in an address."""


@view(context=dict)
@view(context=object, name="front")
def front(context: Any, request: Any) -> str:
    return PAGE


@view(context=object, name="deep")
def deep(context: Any, request: Any) -> str:
    return '<a href="@@deeper">further</a>'


@view(context=object, name="deeper")
def deeper(context: Any, request: Any) -> str:
    return '<a href="@@missing">dead</a>'


@view(context=object, name="moved")
def moved(context: Any, request: Any) -> Any:
    return redirect("/@@gone")


@view(context=object, name="album")
def album(context: Any, request: Any) -> str:
    """A page that makes the picture that it shows, as Plone does."""
    request.zodb.root()["picture"] = True
    return '<img src="@@picture"><img src="@@missing">'


@view(context=object, name="picture")
def picture(context: Any, request: Any) -> str:
    if "picture" not in request.zodb.root():
        raise HTTPNotFound
    return "a picture"


@view(context=object, name="gallery")
def gallery(context: Any, request: Any) -> str:
    """A page that names its pictures anew each time: one by chance, one by a number. A third one is missing."""
    count = request.zodb.root()["count"] = request.zodb.root().get("count", 0) + 1
    chance = request.zodb.root()["chance"] = token_hex(8)
    names = (chance, count, f"missing{token_hex(8)}")
    return "".join(f'<img src="@@shown?name={name}">' for name in names)


@view(context=object, name="shown")
def shown(context: Any, request: Any, name: str) -> str:
    root = request.zodb.root()
    if name not in (root.get("chance"), str(root.get("count"))):
        raise HTTPNotFound
    return "a picture"


@view(context=object, name="save", methods=("POST",))
def save(context: Any, request: Any, title: str) -> str:
    return "saved"


@view(context=object, name="drop", methods=("POST",))
def drop(context: Any, request: Any) -> Any:
    request.zodb.root()["dropped"] = True
    return redirect("/")


@view(context=object, name="name", methods=("POST",))
def name(context: Any, request: Any, title: str) -> Any:
    request.zodb.root()["title"] = title
    return redirect("/")


@view(context=object, name="register")
def register(context: Any, request: Any) -> str:
    """A page that is not told of what was dropped, and has what was named as a part of an address."""
    title = escape(REGISTERED(request.zodb.root().get("title", "")))
    return f'<a href="@@entry">x</a> <a href="@@titled?title={title}">x</a>'


@view(context=object, name="entry")
def entry(context: Any, request: Any) -> str:
    if "dropped" in request.zodb.root():
        raise HTTPNotFound
    return "an entry"


@view(context=object, name="titled")
def titled(context: Any, request: Any, title: str = "") -> str:
    if title != request.zodb.root().get("title", ""):
        raise HTTPBadRequest
    return "an entry"


@view(context=object, name="listed")
def listed(context: Any, request: Any, start: int = 0) -> str:
    """A list of two pages, whose link leaves out the signs before the name of the view."""
    return '<a href="/@@deep">two</a>' if start else '<a href="/@@front">one</a> <a href="/listed?start=1">more</a>'


@view(context=object, name="fails")
def fails(context: Any, request: Any) -> str:
    raise RuntimeError("a fault of the site")


@view(context=object, name="secret", permission="read")
def secret(context: Any, request: Any) -> str:
    return "secret"


DEAD = {
    "a link": ('<a href="/@@missing">x</a>', "GET /@@missing", "answered 404"),
    "a relative link": ('<a href="missing">x</a>', "GET /missing", "answered 404"),
    "a link of a page behind a page": ('<a href="@@deep">x</a>', "GET /@@missing", "answered 404"),
    "what a redirect leads to": ('<a href="@@moved">x</a>', "GET /@@gone", "answered 404"),
    "a form": ('<form method="post" action="@@delete"><button>x</button></form>', "POST /@@delete", "answered 404"),
    "a form for another method": ('<form action="@@save"><button>x</button></form>', "GET /@@save", "answered 405"),
    "a picture": ('<img src="/static/logo.png">', "GET /static/logo.png", "answered 404"),
    "a style sheet": ('<link rel="stylesheet" href="/site.css">', "GET /site.css", "answered 404"),
    "a script": ('<script src="site.js"></script>', "GET /site.js", "answered 404"),
    "an error": ('<a href="@@fails">x</a>', "GET /@@fails", "it is answered 500"),
    "a link behind <base>": (
        '<base href="/nowhere/"><a href="@@front">x</a>',
        "GET /nowhere/@@front",
        "answered 404",
    ),
    "letters that no address has": ('<a href="ž x">x</a>', "GET /%C5%BE%20x", "answered 404"),
    "the address of the site": ('<a href="http://localhost/@@missing">x</a>', "GET /@@missing", "answered 404"),
}
ALIVE = {
    "a link": '<a href="@@front">x</a>',
    "a form": '<form method="post" action="@@save"><input name="title"><button>x</button></form>',
    "a form of its own page": '<form method="get"><input name="q"></form>',
    "another site": '<a href="https://elsewhere.example/missing">x</a><img src="//elsewhere.example/x.png">',
    "no address": '<a name="here">x</a><a href="#here">x</a><a href="mailto:ann@example.com">x</a><a href="">x</a>',
    "a page for others": '<a href="@@secret">x</a>',
}


@pytest.fixture(autouse=True)
def databases() -> Iterator[None]:
    yield
    forks.close_all()


def reported(page: str, monkeypatch: pytest.MonkeyPatch, corpus: Sequence[Asked] = ()) -> Report:
    monkeypatch.setitem(globals(), "PAGE", f"<!doctype html><title>A page</title>{page}")
    elements = (zodb(uri="memory://links"), errors(), transaction(), forms(), traverse(root=dict), base())
    view = "" if corpus else "GET /$"
    proof = Proof(Pipeline(*elements, publisher(scan=(__name__,))), view=view, cover=0.0, corpus=corpus)
    with proof.loaded():
        return proof.links().report


def found(page: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    return [(one.request, one.what) for one in reported(page, monkeypatch).found]


@pytest.mark.parametrize("name", DEAD)
def test_what_leads_to_nothing_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    page, request, what = DEAD[name]
    ((asked, told),) = found(page, monkeypatch)
    assert asked == request and what in told


@pytest.mark.parametrize("name", ALIVE)
def test_what_leads_somewhere_is_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(ALIVE[name], monkeypatch) == []


def test_what_a_page_has_made_is_there_when_its_links_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    told = found('<a href="@@album">x</a>', monkeypatch)
    assert told == [
        ("GET /@@album", "a GET changes the database"),
        ("GET /@@missing", "a link or a form of a page is answered 404"),
    ]


def test_pictures_that_a_page_names_anew_are_followed_in_the_state_of_their_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changed, missing = reported('<a href="@@gallery">x</a>', monkeypatch).found
    assert (changed.request, changed.what) == ("GET /@@gallery", "a GET changes the database")
    assert missing.request.startswith("GET /@@shown?name=missing") and missing.count == 1


def test_a_get_that_changes_the_database_is_told_once_for_each_view(monkeypatch: pytest.MonkeyPatch) -> None:
    links = "".join(f'<a href="@@album?{number}">x</a>' for number in range(3))
    report = reported(f'{links}<a href="@@gallery">x</a>', monkeypatch)
    told = [(one.where, one.count) for one in report.found if one.what == "a GET changes the database"]
    assert [(where.partition(" ")[0].rpartition(".")[2], count) for where, count in told] == [
        ("album", 3),
        ("gallery", 1),
    ]


def test_dead_links_are_told_once_for_each_view_and_name(monkeypatch: pytest.MonkeyPatch) -> None:
    links = "".join(f'<a href="/{number}/@@edit">x</a>' for number in range(3))
    told = [(one.request, one.count) for one in reported(f'{links}<a href="/away">x</a>', monkeypatch).found]
    assert told == [("GET /0/@@edit", 3), ("GET /away", 1)]


NAMING, DROPPING = asked("POST", "/@@name", [("title", "prove")]), asked("POST", "/@@drop")


def dead_links(monkeypatch: pytest.MonkeyPatch, change: Asked) -> list[Found]:
    """Return the dead links that are found. The first page that asks for the new database stores its root, too."""
    found = reported('<a href="@@register">x</a>', monkeypatch, [change]).found
    return [one for one in found if "a link or a form" in one.what]


@pytest.mark.parametrize(
    ("change", "dead", "status", "after"),
    [(DROPPING, "/@@entry", 404, "POST /@@drop"), (NAMING, "/@@titled", 400, "forms with")],
)
def test_a_link_that_a_change_has_left_behind_is_found(
    change: Asked, dead: str, status: int, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "REGISTERED", str)
    (found,) = dead_links(monkeypatch, change)
    assert found.request.startswith(f"GET {dead}")
    assert found.what == f"a link or a form of a page is answered {status}"
    assert f", after {after}" in found.where


def test_links_that_are_quoted_lead_somewhere_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dead_links(monkeypatch, NAMING) == []


@pytest.mark.parametrize(("name", "told"), [("password", ["S25: a form has a password in its address"]), ("q", [])])
def test_a_form_whose_address_has_a_secret_is_found(
    name: str, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = f'<form action="@@front"><input type="password" name="{name}"><button>x</button></form>'
    assert [what for _, what in found(page, monkeypatch)] == told


def test_the_pages_of_a_list_are_found_by_either_name_of_its_view() -> None:
    elements = (zodb(uri="memory://links"), errors(), transaction(), forms(), traverse(root=dict))
    proof = Proof(Pipeline(*elements, publisher(scan=(__name__,))), corpus=[asked("GET", "/@@listed")])
    with proof.loaded():
        assert [len(paged(proof, asked("GET", url))) for url in ("/@@listed", "/listed")] == [2, 2]


def mounted(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """An application of another framework, which has no views of ours."""
    pages = {"/": b'<a href="/one">x</a><form method="post" action="/add"><input name="a"></form>', "/one": b"one"}
    is_known = environ["PATH_INFO"] in pages or environ["REQUEST_METHOD"] == "POST"
    start_response("200 OK" if is_known else "404 Not Found", [("Content-Type", "text/html")])
    return [pages.get(environ["PATH_INFO"], b"")]


def test_a_site_without_views_is_asked_by_its_links() -> None:
    proof = Proof(Pipeline(errors(), transaction(), mounted))
    with proof.loaded():
        assert [str(request) for request in proof.requests] == ["GET /", "GET /one", "POST /add"]
        report = proof.faults().links().report
    assert report.runs > 10 and report.exit_status == 0


def test_which_requests_store_something_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    elements = (zodb(uri="memory://links"), errors(), transaction(), forms(), traverse(root=dict))
    corpus = [asked("GET", "/@@front"), DROPPING]
    proof = Proof(Pipeline(*elements, publisher(scan=(__name__,))), corpus=corpus)
    with proof.loaded():
        storing = proof.storing
        assert storing == [DROPPING]
        monkeypatch.setattr(Proof, "ask", None)
        assert proof.storing is storing
