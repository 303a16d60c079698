"""``--cover`` counts the views that do what they are for, and not those that refuse every request."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from pipeline import Pipeline
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import zodb
from pipeline.proving.proof import Proof
from pipeline.publisher import publisher

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


@pytest.mark.parametrize(
    ("names", "succeeded"), [(["front", "save"], 2), (["front", "full"], 1), (["front", "enter"], 2)]
)
def test_a_view_that_only_refuses_is_not_covered_unless_it_asks_for_a_password(
    names: list[str], succeeded: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"covered_{'_'.join(names)}"
    lines = ["from pipeline import view", *(VIEWS[name] for name in names)]
    (tmp_path / f"{module}.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    proof = Proof(Pipeline(errors(), forms(), traverse(root=lambda request: {}), publisher(scan=(module,))))
    with proof.loaded():
        assert proof.report.tried == 2
        proof.sequences(3)
        assert proof.report.is_covered is (succeeded == 2)
        assert f"{succeeded} of 2 views are tried with success" in (proof.report.coverage, proof.report.text())


def test_objects_of_a_container_without_names_are_found_by_the_links_of_the_first_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "linked_house.py").write_text(LINKED)
    monkeypatch.syspath_prepend(tmp_path)
    house = import_module("linked_house").House()
    proof = Proof(Pipeline(errors(), traverse(root=lambda request: house), publisher(scan=("linked_house",))))
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


def test_a_view_that_succeeds_behind_another_one_is_covered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lent_books.py").write_text(LENT)
    monkeypatch.syspath_prepend(tmp_path)
    elements = zodb(uri="memory://lent"), errors(), transaction(), traverse()
    proof = Proof(Pipeline(*elements, publisher(scan=("lent_books",))))
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


def test_a_form_whose_text_has_to_be_a_number_is_sent_with_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numbered.py").write_text(NUMBERED)
    monkeypatch.syspath_prepend(tmp_path)
    elements = errors(), forms(), traverse(root=lambda request: {})
    proof = Proof(Pipeline(*elements, publisher(scan=("numbered",))))
    with proof.loaded():
        assert proof.report.refused == []
        assert proof.requests[-1].body == b"title=2009&born=2009"
