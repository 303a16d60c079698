"""Values of visitors that do harm are found where they stand on a page, and not where they are quoted."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from html import escape
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text as statement
from sqlalchemy.exc import IntegrityError
from webob.exc import HTTPConflict

from pipeline import Pipeline, redirect, view
from pipeline.database import forks
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.sql import sql
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import zodb
from pipeline.forms.upload import Upload
from pipeline.proving.proof import Proof
from pipeline.proving.values import MARK, SCRIPT, is_markup
from pipeline.publisher import publisher
from pipeline.staging.runs import Run

HARM: dict[str, Callable[[str], str]] = {
    "a text": lambda value: f"<p>{value}</p>",
    "an attribute without quotes": lambda value: f"<img alt={escape(value)}>",
    "an attribute with the other quotes": lambda value: f"<input value='{escape(value, quote=False)}'>",
    "an attribute with quotes that are not escaped": lambda value: f'<input value="{escape(value, quote=False)}">',
    "a string of a script": lambda value: f"<script>var q = '{escape(value, quote=False)}'</script>",
    "a string of a script in an attribute": lambda value: f'<a onclick="f(&#39;{escape(value)}&#39;)">x</a>',
    "a title": lambda value: f"<title>{value}</title>",
    "a comment": lambda value: f"<!-- {value} -->",
}
NONE: dict[str, Callable[[str], str]] = {
    "a text": lambda value: f"<p>{escape(value)}</p>",
    "an attribute": lambda value: f'<input value="{escape(value)}">',
    "JSON in a script": lambda value: f"<script>q = {json.dumps(value).replace('<', chr(92) + 'u003c')}</script>",
    "a string of a script": lambda value: f"<script>var q = '{value.translate(ESCAPED)}'</script>",
    "a text about it": lambda value: "<p>prove=1</p>",
}
ESCAPED = {ord(char): f"\\{char}" for char in "'\""} | {ord("<"): "\\u003c"}


def page(body: str, kind: str = "text/html; charset=UTF-8") -> Run:
    run = Run()
    run.status, run.headers, run.body = 200, [("Content-Type", kind)], body.encode()
    return run


@pytest.mark.parametrize("name", HARM)
def test_markup_is_found(name: str) -> None:
    assert is_markup(page(f"<!doctype html><body>{HARM[name](MARK)}</body>"))


@pytest.mark.parametrize("name", NONE)
def test_a_value_that_is_quoted_is_none(name: str) -> None:
    assert not is_markup(page(f"<!doctype html><body>{NONE[name](MARK)}</body>"))


def test_an_answer_that_is_no_page_has_none() -> None:
    assert not is_markup(page(MARK, "text/plain"))


def test_a_script_is_found_as_an_address_alone() -> None:
    assert is_markup(page(f'<a href=" {SCRIPT}">x</a>'))
    assert is_markup(page(f'<form action="{SCRIPT}"></form>'))
    assert not is_markup(page(f'<a href="/@@find?q={SCRIPT}">x</a><input value="{SCRIPT}"><p>{SCRIPT}</p>'))


def test_what_a_browser_saves_is_no_page() -> None:
    saved = page(f"<p>{MARK}</p>")
    saved.headers.append(("Content-Disposition", "attachment"))
    assert not is_markup(saved)


SHOWN = {"is_escaped": True}
"""Whether the site below shows texts and files as texts."""


@view(context=dict)
def front(context: Any, request: Any) -> str:
    """A page with a form for a text and one for a file."""
    text = "<form method=post action=/@@say><input name=text><button>x</button></form>"
    file = "<input type=file name=file><button>x</button></form><a href=/@@file>the file</a>"
    return f"{text}<form method=post action=/@@attach enctype=multipart/form-data>{file}"


@view(context=object, name="say", methods=("POST",))
def say(context: Any, request: Any, text: str) -> Any:
    request.zodb.root()["text"] = text
    return redirect("/@@moved")


@view(context=object, name="moved")
def moved(context: Any, request: Any) -> Any:
    return redirect("/@@said")


@view(context=object, name="said")
def said(context: Any, request: Any) -> str:
    text = request.zodb.root().get("text", "")
    return f"<p>{escape(text) if SHOWN['is_escaped'] else text}</p>"


@view(context=object, name="attach", methods=("POST",))
def attach(context: Any, request: Any, file: Upload) -> Any:
    request.zodb.root()["file"] = (file.type, file.file.read())
    return redirect("/")


@view(context=object, name="file")
def file(context: Any, request: Any, response: Any) -> bytes:
    kind, data = request.zodb.root().get("file", ("text/plain", b"a file"))
    response.content_type = "text/plain" if SHOWN["is_escaped"] else kind
    return bytes(data)


@pytest.mark.parametrize("is_escaped", [True, False])
def test_what_a_visitor_has_stored_is_found_behind_two_redirects_and_in_his_file(
    is_escaped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SHOWN, "is_escaped", is_escaped)
    elements = (zodb(uri="memory://hostile"), errors(), transaction(), forms(), traverse(root=dict))
    proof = Proof(Pipeline(*elements, publisher(scan=(__name__,))), view="POST", cover=0.0)
    with proof.loaded():
        found = [one.request for one in proof.attack().report.found if one.what.startswith("S7")]
    forks.close_all()
    assert found == ([] if is_escaped else ["POST /@@say", "POST /@@attach"])


EDITED: dict[str, Any] = {"limit": "", "title": str, "phone": str, "taken": ""}
"""The limit of a text in the form below, what is stored of its fields, and a title that is refused."""
LOST: dict[str, tuple[dict[str, Any], list[str]]] = {
    "whole": ({}, []),
    "in capitals": ({"title": str.upper}, []),
    "cut": ({"title": lambda text: text[:20]}, ["the field 'title' is cut"]),
    "without letters": (
        {"title": lambda text: text.encode("ascii", "ignore").decode()},
        ["the field 'title' is cut"],
    ),
    "cut, and the first title is taken": (
        {"title": lambda text: text[:20], "taken": "prove"},
        ["the field 'title' is cut"],
    ),
    "cut where no browser sends more": ({"limit": "maxlength=20", "title": lambda text: text[:20]}, []),
    "dropped": ({"phone": lambda text: ""}, ["the field 'phone' is dropped"]),
    "of no use here": ({"title": lambda text: "", "phone": lambda text: ""}, []),
}


@view(context=set)
def edit_form(context: Any, request: Any) -> str:
    title, phone = (escape(str(request.zodb.root().get(name, ""))) for name in ("title", "phone"))
    limit = EDITED["limit"]
    return f"<form method=post><input name=title {limit} value='{title}'><input name=phone value='{phone}'></form>"


@view(context=set, methods=("POST",))
def edit(context: Any, request: Any, title: str = "", phone: str = "") -> Any:
    if title == EDITED["taken"] != "":
        raise HTTPConflict
    root = request.zodb.root()
    root["title"], root["phone"] = EDITED["title"](title), EDITED["phone"](phone)
    root["saved"] = root.get("saved", 0) + 1
    return redirect("/")


@pytest.mark.parametrize("name", LOST)
def test_a_field_that_is_not_stored_whole_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changed, expected = LOST[name]
    for key, value in changed.items():
        monkeypatch.setitem(EDITED, key, value)
    elements = (zodb(uri="memory://edited"), errors(), transaction(), forms(), traverse(root=lambda: set()))
    proof = Proof(Pipeline(*elements, publisher(scan=(__name__,))), view="POST /$", cover=0.0)
    with proof.loaded():
        found = [one.what.partition(",")[0] for one in proof.attack().report.found]
    forks.close_all()
    assert found == expected


class Till:
    """The root of a shop whose form hides a price, and the version of its page."""


TRUSTED = {"price": 5}
"""What the shop takes for the price in the place of what is sent, if it is a number."""


@view(context=Till)
def order_form(context: Any, request: Any) -> str:
    hidden = "<input type=hidden name=price value=5><input type=hidden name=version value=1>"
    return f"<form method=post>{hidden}<input name=count value=2><button>Buy</button></form>"


@view(context=Till, methods=("POST",))
def order(context: Any, request: Any, price: float, version: int, count: int) -> Any:
    if version != 1:
        raise HTTPConflict
    request.zodb.root()["order"] = (TRUSTED["price"] or price, version, count)
    return redirect("/")


@pytest.mark.parametrize("price", [0, 5])
def test_a_hidden_price_that_is_trusted_is_found(price: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TRUSTED, "price", price)
    elements = (zodb(uri="memory://till"), errors(), transaction(), forms(), traverse(root=Till))
    proof = Proof(Pipeline(*elements, publisher(scan=(__name__,))), view="POST /$", cover=0.0)
    with proof.loaded():
        found = [one.what for one in proof.attack().report.found]
    forks.close_all()
    assert found == ["a number of a hidden field is stored as it is sent: a visitor may send another one"][price:]


class Hall:
    """The root of a site that gives each seat once."""


TAKEN = {"said": ""}
"""What is said of a seat that is taken."""


@view(context=Hall)
def seat_form(context: Any, request: Any) -> str:
    return "<form method=post><input name=seat><input name=note><button>Take</button></form>"


@view(context=Hall, methods=("POST",))
def take(context: Any, request: Any, seat: str, note: str) -> Any:
    said = "It is yours"
    try:
        request.sql.execute(statement("INSERT INTO taken VALUES (:seat, :note)"), {"seat": seat, "note": note})
    except IntegrityError:
        request.sql.rollback()
        said = TAKEN["said"] or said
    return f"<p>{said}"


@pytest.mark.parametrize("said", ["", "It is taken"])
def test_a_rollback_that_is_answered_as_a_success_is_found(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TAKEN, "said", said)
    with closing(sqlite3.connect(tmp_path / "hall.sqlite")) as database:
        database.execute("CREATE TABLE taken (seat TEXT PRIMARY KEY, note TEXT)")
    elements = (sql(url=f"sqlite:///{tmp_path}/hall.sqlite"), errors(), transaction(), forms(), traverse(root=Hall))
    proof = Proof(Pipeline(*elements, publisher(scan=(__name__,))), view=" /$", cover=0.0)
    with proof.loaded():
        found = [one.what for one in proof.sequences(40).report.found]
    forks.close_all()
    assert found == (
        [] if said else ["R1: the view takes back what it has changed, and answers as if it were stored"]
    )
