"""``--cover`` counts the views that do what they are for, and not those that refuse every request."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from inis import ini_of
from pipeline import Pipeline
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.keep import KeepRequest
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import zodb
from pipeline.proving.proof import Proof
from pipeline.publisher import publisher
from pipeline.staging.asked import asked, numbered

POST = "@view(context=object, methods=('POST',))\n"
LINKED = """
from pipeline import view
class Room: pass
class House:
    rooms = {"kitchen": Room(), "hall": Room()}
    def __getitem__(self, name): return self.rooms[name]
@view(context=House)
def front(house, request): return "<a href='/kitchen/@@edit'>the kitchen</a>"
@view(context=Room)
def room(room, request): return "a room"
@view(context=Room, name="edit")
def edit(room, request): return "a form"
"""
VIEWS = {
    "front": "@view(context=object)\ndef front(context, request): return 'a page'",
    "save": f"{POST}def save(context, request, title): return 'saved'",
    "full": f"{POST}def full(context, request, response): response.status = 400; return 'it is full'",
    "enter": f"{POST}def enter(context, request, response, password): response.status = 422; return 'wrong'",
}


Proven = Callable[..., Proof]


@pytest.fixture
def proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proven:
    """``proven(module, text, *elements)``: the proof of a site whose views are in a module with this text."""

    def proven(module: str, text: str, *elements: Any) -> Proof:
        (tmp_path / f"{module}.py").write_text(text)
        return Proof(Pipeline(*elements, publisher(scan=(module,))))

    monkeypatch.syspath_prepend(tmp_path)
    return proven


@pytest.mark.parametrize(
    ("names", "succeeded"), [(["front", "save"], 2), (["front", "full"], 1), (["front", "enter"], 2)]
)
def test_a_view_that_only_refuses_is_not_covered_unless_it_asks_for_a_password(
    names: list[str], succeeded: int, proven: Proven
) -> None:
    text = "\n".join(["from pipeline import view", *(VIEWS[name] for name in names)])
    proof = proven(f"covered_{'_'.join(names)}", text, errors(), forms(), traverse(root=lambda request: {}))
    with proof.loaded():
        assert proof.report.tried == 2
        proof.sequences(3)
        assert proof.report.is_covered is (succeeded == 2)
        assert f"{succeeded} of 2 views are tried with success" in (proof.report.coverage, proof.report.text())


def test_objects_of_a_container_without_names_are_found_by_the_links_of_the_first_page(proven: Proven) -> None:
    root = traverse(root=lambda request: import_module("linked_house").House())
    proof = proven("linked_house", LINKED, errors(), root)
    with proof.loaded():
        assert proof.report.untried == []
        assert [str(one) for one in proof.requests] == ["GET /", "GET /kitchen", "GET /kitchen/@@edit"]


LENT = """
from pipeline import view
@view(context=object)
def front(context, request):
    return "<form method='post' action='/@@lend'></form><form method='post' action='/@@bring'></form>"
@view(context=object, name="lend", methods=("POST",))
def lend(context, request, response):
    request.root["lent"] = True
    return "lent"
@view(context=object, name="bring", methods=("POST",))
def bring(context, request, response):
    if not request.root.get("lent"):
        response.status = 400
    return "brought"
"""


def test_a_view_that_succeeds_behind_another_one_is_covered(proven: Proven) -> None:
    proof = proven("lent_books", LENT, zodb(uri="memory://lent"), errors(), transaction(), traverse())
    with proof.loaded():
        assert ("bring" in proof.report.refused[0], proof.report.succeeded) == (True, 2)
        proof.sequences()
        assert (proof.report.refused, proof.report.succeeded) == ([], 3)


NUMBERED = """
from pipeline import view
@view(context=object)
def front(context, request):
    return '<form method="post"><input name="title"><input name="born"></form>'
@view(context=object, methods=("POST",))
def save(context, request, response, title: str, born: str):
    if not born.isdigit():
        response.status = 422
    return "saved"
"""


def test_a_form_whose_text_has_to_be_a_number_is_sent_with_one(proven: Proven) -> None:
    proof = proven("numbered", NUMBERED, errors(), forms(), traverse(root=lambda request: {}))
    with proof.loaded():
        assert proof.report.refused == []
        assert proof.requests[-1].body == b"title=2009&born=2009"


GROWING = """
from persistent.mapping import PersistentMapping
from pipeline import redirect, view
class House(PersistentMapping): __name__ = __parent__ = None
class Room(House): pass
class Bed(House): pass
def root(database):
    if "house" not in database:
        database["house"] = House(kitchen=Room())
    return database["house"]
@view(context=House)
def front(house, request): return "<a href='/kitchen/'>the kitchen</a>"
@view(context=Room, name="furnish", methods=("POST",))
def furnish(room, request):
    room["bed"] = Bed()
    return redirect("/kitchen/bed/")
@view(context=Room, name="remove", methods=("POST",))
def remove(room, request):
    request.root.pop("kitchen", None)
    return redirect("/")
@view(context=Room, name="look")
def look(room, request): return "a room"
@view(context=Bed, name="make")
def make(bed, request): return "made"
"""


def test_a_site_grows_by_what_adds_something_and_not_by_what_removes_it(proven: Proven) -> None:
    """The form that removed the first object was one of them: all that was asked after it was a 404."""
    elements = (zodb(uri="memory://growing", root="growing_house:root"), errors(), transaction(), traverse())
    proof = proven("growing_house", GROWING, *elements)
    with proof.loaded():
        assert proof.report.untried == []
        assert {proof.afresh(request).is_acknowledged for request in proof.requests} == {True}


FURTHER = """
from pipeline import redirect, view
class Shop:
    def __getitem__(self, name): return {"orders": Orders()}[name]
class Orders:
    def __getitem__(self, name): return {"7": Order()}[name]
class Order: pass
@view(context=Shop)
def front(shop, request): return "<a href='/orders/'>orders</a>"
@view(context=Orders)
def orders(orders, request): return "<a href='/orders/7'>an order</a>"
@view(context=Order)
def order(order, request): return "<form action='/orders/7/@@note' method=post><input name=text></form>"
@view(context=Order, name="note", methods=("POST",))
def note(order, request, text: str): return redirect("/orders/7") if text else "nothing"
@view(context=Order, name="cancel", methods=("POST",))
def cancel(order, request): return redirect("/orders/")
@view(context=Order, name="bill")
def bill(order, request): return "a bill"
"""


def test_an_object_that_a_page_of_a_page_leads_to_has_its_views_tried(proven: Proven) -> None:
    """No folder tells its names, as in a database of SQL, and no request has made it."""
    root = traverse(root=lambda request: import_module("linked_shop").Shop())
    proof = proven("linked_shop", FURTHER, errors(), forms(), root)
    with proof.loaded():
        assert proof.report.untried == []
        assert [one.page for one in proof.requests if "note" in one.url] == ["/orders/7"]


CODES = """
from pipeline import view
from webob.exc import HTTPBadRequest
@view(context=object)
def front(context, request):
    return '<form method=post><input name="what" required><input name="code"><input name="note"></form>'
@view(context=object, methods=("POST",))
def save(context, request, what: str, code: str = "", note: str = ""):
    if code or not what or not note:
        raise HTTPBadRequest("a code that is not valid, or too little")
    return "saved"
"""


def test_a_form_is_sent_without_what_may_be_left_out(proven: Proven) -> None:
    """A code that is refused was sent with each order: not one order of the shop was tried."""
    proof = proven("coded", CODES, errors(), forms(), traverse(root=lambda request: {}))
    with proof.loaded():
        assert proof.report.refused == []
        assert proof.requests[-1].body == b"what=prove&code=&note=prove"


def test_a_form_that_fails_is_chosen_before_one_that_is_refused(proven: Proven) -> None:
    """What a view did outside of the databases made an error of the only form that was not refused."""
    text = CODES.replace('return "saved"', 'raise LookupError("at the end")')
    proof = proven("coded_wrongly", text, errors(), forms(), traverse(root=lambda request: {}))
    with proof.loaded():
        assert proof.requests[-1].body == b"what=prove&code=&note=prove"


def test_a_page_that_is_kept_hides_no_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The objects are looked for again when pages lead to more: what answers then may be the page that was kept."""
    monkeypatch.setattr(KeepRequest, "keep", 60)
    order = ("zodb", "errors", "transaction", "keep", "traverse")
    options = {"zodb": "uri = memory://kept\nroot = proving.any_site:stored"}
    (tmp_path / "site.ini").write_text(ini_of(order, "proving.any_site", **options))
    with Proof(str(tmp_path / "site.ini")).loaded() as proof:
        report = proof.faults(kinds=[]).report
        assert report.tried == report.views == 4, report.untried


@pytest.mark.parametrize(
    ("text", "expected"),
    [("prove", "prove3"), ("tea", "tea3"), ("prove1", "prove13"), ("2009", "2009"), ("", ""), ("a b", "a b")],
)
def test_a_word_gets_a_number_also_if_it_has_one_of_ours(text: str, expected: str) -> None:
    """A site whose "prove" and "2009" are taken is asked with "prove1". The next thing needs another name."""
    assert numbered(asked("POST", "/add", [("name", text)]), 3).fields == [("name", expected)]
