"""Pages to edit, from a model: each kind of field, judged by the library and by the database, read afresh."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from typing_extensions import TypedDict

import recipes
import stored_things
from asking import ask, served
from inis import ini_of
from pipeline import Pipeline, element
from pipeline.database.storages import database_at
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.shield import shield
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import close_all
from pipeline.interfaces import ViewError
from pipeline.proving.proof import Proof
from pipeline.publishing.editing import BOXES, VERSION, Editing
from pipeline.publishing.items import SIZE
from pipeline.testing import site
from pipeline.testing.plugin import prove as prove
from stored_things import Folder, Thing, ann_of, database_of, inner_of, module_with

pydantic = pytest.importorskip("pydantic")
msgspec = pytest.importorskip("msgspec")
html5lib = pytest.importorskip("html5lib")

Color = Enum("Color", {"red": "r", "blue": "b"})
Size = IntEnum("Size", {"small": 1, "large": 2})
Color.__module__ = Size.__module__ = __name__
LIBRARIES = ("pipeline.publishing.pydantic", "pipeline.publishing.msgspec")


@pytest.fixture
def uri(tmp_path: Path) -> Iterator[str]:
    yield f"file://{tmp_path}/Data.fs"
    close_all()


def pages_of(model: Any, monkeypatch: pytest.MonkeyPatch, container: Any = Folder, **options: Any) -> str:
    """Return the name of a new module with an Editing for a model."""
    return module_with(Editing, model, monkeypatch, container, **options)


def app_of(module: str, uri: str, *further: Any, root: Any = Folder) -> Pipeline:
    outer = retry(), database_of(uri, root), errors(), transaction()
    return Pipeline(*outer, *further, *inner_of(module, LIBRARIES))


def stored(uri: str) -> list[Any]:
    """The items of the database, as another process finds them."""
    return [SimpleNamespace(**one) for one in stored_things.stored(uri)]


HTML = "<script>alert(1)</script>\"'&amp;<b>"
HUGE = "9" * 5_000
REFUSED = object()

KINDS: dict[str, tuple[Any, str, Any, str, Any]] = {
    # annotation, a good text, its value, a bad text, the value of an empty field
    "str": (str, " Tea & cake ", " Tea & cake ", "\x00", ""),
    "short": (Annotated[str, pydantic.Field(min_length=1, max_length=3)], "tea", "tea", "four", REFUSED),
    "long": (Annotated[str, pydantic.Field(max_length=4_000)], "\na\r\nb\n", "\na\nb\n", "x" * 4_001, ""),
    "pattern": (Annotated[str, pydantic.Field(pattern="^[A-Z]{2}$")], "AB", "AB", "ab", REFUSED),
    "str | None": (str | None, "tea", "tea", "\x00", None),
    "int": (int, "-7", -7, "7.5", REFUSED),
    "int | None": (int | None, "7", 7, "seven", None),
    "ge le": (Annotated[int, pydantic.Field(ge=1, le=9)], "9", 9, "10", REFUSED),
    "gt": (Annotated[int, pydantic.Field(gt=0)], "1", 1, "0", REFUSED),
    "float": (float, "1.5e-3", 0.0015, "1,5", REFUSED),
    "Decimal": (Decimal, "1.50", Decimal("1.50"), "1,50", REFUSED),
    "Decimal | None": (Decimal | None, "1e3", Decimal("1e3"), "x", None),
    "bool": (bool, "true", True, "maybe", False),
    "bool | None": (bool | None, "yes", True, "maybe", None),
    "Literal": (Literal["novel", "essay"], "essay", "essay", "poem", REFUSED),
    "Literal of one": (Literal["novel"], "novel", "novel", "poem", REFUSED),
    "Literal of numbers": (Literal[1, 2], "2", 2, "3", REFUSED),
    "Literal | None": (Literal["novel", None], "novel", "novel", "poem", None),
    "Enum": (Color, "b", Color("b"), "blue", REFUSED),
    "Enum | None": (Color | None, "b", Color("b"), "blue", None),
    "IntEnum": (Size, "2", Size(2), "3", REFUSED),
    "date": (date, "2026-11-20", date(2026, 11, 20), "20.11.2026", REFUSED),
    "date | None": (date | None, "2026-11-20", date(2026, 11, 20), "2026-11-31", None),
    "datetime": (datetime, "2026-11-20T08:30", datetime(2026, 11, 20, 8, 30), "soon", REFUSED),
    "aware": (
        pydantic.AwareDatetime, "2026-11-20T08:30:01Z", datetime(2026, 11, 20, 8, 30, 1, tzinfo=UTC),
        "2026-11-20T08:30", REFUSED,
    ),
    "time": (time, "08:30", time(8, 30), "25:00", REFUSED),
    "UUID": (UUID, "12345678" * 4, UUID("12345678" * 4), "1", REFUSED),
    "url": (pydantic.HttpUrl, "http://a.example/", pydantic.HttpUrl("http://a.example/"), "a.example", REFUSED),
    "list[str]": (list[str], "a\r\n\r\n b <i> \r\n", ["a", "b <i>"], "\x00", []),
    "list[int]": (list[int], "1\n2", [1, 2], "1\ntwo", []),
    "list, not empty": (Annotated[list[str], pydantic.Field(min_length=1)], "a", ["a"], "", REFUSED),
    "set[Literal]": (set[Literal["a", "b"]], "a\nb", {"a", "b"}, "c", set()),
    "list | None": (list[str] | None, "a", ["a"], "\x00", []),
    "int | str": (int | str, "tea", "tea", "\x00", ""),
}  # fmt: skip
ALWAYS_GOOD = {"str", "str | None", "list[str]", "list | None", "int | str"}
"""Kinds that take any text, so that there is not a bad one."""


def judged(model: Any, sent: Any) -> Any:
    """Return the value that the library makes of a value, or REFUSED, without our reading of forms."""
    try:
        return model.model_validate({"value": sent}).value
    except pydantic.ValidationError:
        return REFUSED


def is_of_lines(annotation: Any) -> bool:
    return "list" in str(annotation) or "set" in str(annotation)


CASES = [
    (kind, case)
    for kind in KINDS
    for case in ("good", "bad", "empty", "absent", "html", "huge")
    if not (case == "bad" and kind in ALWAYS_GOOD)
]


def text_shown(form: Any) -> str:
    shown = form["value"]
    return ("true" if shown.checked else "") if hasattr(shown, "checked") else str(shown.value or "")


@pytest.mark.parametrize(("kind", "case"), CASES)
def test_what_is_sent_is_stored_or_shown_again(
    kind: str, case: str, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    annotation, good, value, bad, of_empty = KINDS[kind]
    model = pydantic.create_model("Model", value=(annotation, ...), second=(str, "-"))
    app = app_of(pages_of(model, monkeypatch), uri)
    visitor = site(app)
    sent = {"good": good, "bad": bad, "empty": "", "absent": "", "html": HTML, "huge": HUGE}[case]
    fields = {BOXES: "value", "second": "kept"} if case == "absent" else {"value": sent, "second": "kept"}
    fields = fields if kind == "bool" or case != "absent" else {"second": "kept"}
    if case in ("good", "bad"):
        expected = value if case == "good" else REFUSED
    elif case == "absent":
        expected = False if kind == "bool" else REFUSED
    elif case == "empty":
        expected = of_empty
    else:
        expected = judged(model, [sent] if is_of_lines(annotation) else sent)
    answer = visitor.post("/@@add", fields, status=422 if expected is REFUSED else 303)
    if expected is REFUSED:
        kept = "true" if kind == "bool" else sent.replace("\r\n", "\n")
        assert text_shown(answer.form) == kept, "the value is kept, or the checkbox is checked"
        assert answer.form["second"].value == "kept"
        tree = html5lib.parse(answer.text, namespaceHTMLElements=False)
        shown = tree.find(".//*[@id='field-value']")
        assert shown.get("aria-invalid") == "true"
        assert tree.find(".//label[@for='field-value']").text == "Value"
        told = [tree.find(f".//*[@id='{one}']") for one in shown.get("aria-describedby").split()]
        assert all(one is not None and one.text.strip() for one in told)
        assert told[-1].get("id") == "field-value-problem"
        assert tree.find(".//*[@id='field-second']").get("aria-invalid") is None
        assert [one.text for one in tree.iter("p") if one.get("role") == "alert"] != []
        assert [*tree.iter("script"), *tree.iter("b"), *tree.iter("i")] == []
        assert stored(uri) == []
        return
    listed = answer.follow()
    form = listed.click(href="/edit").form
    tree = html5lib.parse(listed.text + form.text, namespaceHTMLElements=False)
    assert [*tree.iter("script"), *tree.iter("b"), *tree.iter("i")] == []
    form.submit(status=303)  # what is not changed in the form stays as it is
    [found] = stored(uri)
    assert (found.value, found.second) == (expected, "kept")
    assert type(found.value) is type(expected)


def test_a_form_that_is_too_large_is_refused(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = pydantic.create_model("Model", value=(str, ...))
    site(app_of(pages_of(model, monkeypatch), uri)).post("/@@add", {"value": "x" * 3_000_000}, status=413)
    assert stored(uri) == []


@dataclass
class Plain:
    name: str
    color: Color = Color.red
    tags: list[str] = field(default_factory=list)
    count: int | None = None


class Typed(TypedDict):
    name: str
    color: Color
    tags: list[str]
    count: int | None


class Struct(msgspec.Struct):  # type: ignore[name-defined, misc]
    name: Annotated[str, msgspec.Meta(title="The name", min_length=1)]
    color: Color = Color("r")
    tags: list[str] = msgspec.field(default_factory=list)
    count: Annotated[int, msgspec.Meta(title="How many")] | None = None
    at: time = time(8)
    price: Decimal = Decimal("1.5")


def with_attrs() -> Any:
    attrs = pytest.importorskip("attrs")
    return attrs.define(type("Attrs", (), {"__annotations__": dict(Plain.__annotations__), "__module__": __name__}))


@pytest.mark.parametrize("model", [Plain, Typed, Struct, "attrs"], ids=str)
def test_models_of_each_library(model: Any, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = with_attrs() if model == "attrs" else model
    visitor = site(app_of(pages_of(model, monkeypatch), uri))
    page = visitor.get("/@@add")
    page.form["name"], page.form["tags"], page.form["color"], page.form["count"] = "Ann", "a\nb", "b", "many"
    page = page.form.submit(status=422)
    assert page.form["count"].value == "many" and 'id="field-count-problem"' in page.text
    page.form["count"] = ""
    if model is Struct:
        page.mustcontain(">The name</label>", ">How many</label>")
        page.form["at"], page.form["price"] = "09:30:00", "2.50"
    page.form.submit(status=303).follow().click("Ann").form.submit(status=303)
    [found] = stored(uri)
    assert (found.name, found.tags, found.color, found.count) == ("Ann", ["a", "b"], Color("b"), None)
    if model is Struct:
        assert (found.at, found.price) == (time(9, 30), Decimal("2.50"))


class Book(pydantic.BaseModel):  # type: ignore[name-defined, misc]
    title: Annotated[str, pydantic.Field(min_length=1, max_length=100, description="As on the <cover>.")]
    code: Annotated[str, pydantic.Field(pattern="^[A-Z]+$")] = "A"
    word: Annotated[str, pydantic.Field(pattern=r"^\w+$")] = "a"
    year: Annotated[int, pydantic.Field(ge=1450, lt=2100)] | None = None
    price: Decimal = Decimal("1.5")
    text: Annotated[str, pydantic.Field(json_schema_extra={"format": "textarea"})] = ""
    tags: list[str] = pydantic.Field(default=[])
    is_lent: Annotated[bool, pydantic.Field(title="Lent & gone")] = True

    @pydantic.model_validator(mode="after")
    def not_both(self) -> Any:
        if self.title == self.text:
            raise ValueError("title and text are <alike>")
        return self


@pytest.fixture
def books(monkeypatch: pytest.MonkeyPatch) -> str:
    return pages_of(Book, monkeypatch, permission="edit", read="public", title="Books")


@pytest.fixture
def app(books: str, uri: str) -> Pipeline:
    return app_of(books, uri)


@pytest.fixture
def ann(app: Pipeline) -> Any:
    """An editor."""
    return ann_of(app)


def add(visitor: Any, title: str) -> Any:
    """Add a book, and return the list."""
    page = visitor.get("/@@add")
    page.form["title"] = title
    return page.form.submit(status=303).follow()


def test_constraints_are_attributes(ann: Any) -> None:
    page = ann.get("/@@add")
    tree = html5lib.parse(page.text, namespaceHTMLElements=False)
    found = {one.get("name"): dict(one.attrib) for kind in ("input", "textarea") for one in tree.iter(kind)}
    assert found["title"]["maxlength"] == "100" and "required" in found["title"]
    assert found["title"]["aria-describedby"] == "field-title-hint"
    assert tree.find(".//*[@id='field-title-hint']").text == "As on the <cover>."
    assert found["code"]["pattern"] == ".*(?:^[A-Z]+$).*" and "pattern" not in found["word"]
    assert (found["year"]["type"], found["year"]["min"], found["year"]["max"]) == ("number", "1450", "2100")
    assert "required" not in found["year"] and "required" in found["price"] and found["price"]["step"] == "any"
    assert page.form["is_lent"].checked and page.form["price"].value == "1.5"
    assert "type" not in found["text"] and "type" not in found["tags"]
    assert "Lent &amp; gone" in page.text


def test_what_is_wrong_with_the_whole_stands_above(ann: Any, uri: str) -> None:
    answer = ann.post("/@@add", {"title": "a", "text": "a", "is_lent": "true"}, status=422)
    answer.mustcontain("title and text are &lt;alike&gt;", no="aria-invalid=")
    assert stored(uri) == []


def test_add_edit_and_delete(ann: Any, uri: str) -> None:
    listed = add(ann, "Emma")
    listed.mustcontain("<h1>Books</h1>", ">Emma</a>")
    page = listed.click("Emma")
    page.mustcontain("<h1>Emma</h1>")
    page.form["is_lent"], page.form["year"] = False, "1815"
    page.form.submit(status=303)
    [found] = stored(uri)
    assert (found.title, found.year, found.is_lent, found.price) == ("Emma", 1815, False, Decimal("1.5"))
    asked = ann.get("/").click(href="/delete")
    asked.mustcontain("Delete Emma?")
    asked.form.submit(status=303).follow().mustcontain("Nothing is here yet.")
    assert stored(uri) == []
    ann.get(page.request.path, status=404)


def test_a_get_changes_nothing(ann: Any, uri: str) -> None:
    delete = add(ann, "Emma").click(href="/delete").request
    for query in ("", f"?{VERSION}={ann.get(delete.path).form[VERSION].value}", "?title=x"):
        ann.get(delete.path + query)
        ann.get(delete.path.replace("/delete", "/edit") + query)
        ann.get(f"/@@add{query}")
    ann.delete(delete.path, status=405)
    assert [one.title for one in stored(uri)] == ["Emma"]


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}], ids=str)
def test_a_request_of_another_site_is_refused__S23(ann: Any, uri: str, headers: dict[str, str]) -> None:
    listed = add(ann, "Emma")
    for href in ("/edit", "/delete"):
        page = listed.click(href=href)
        ann.post(page.request.path, dict(page.form.submit_fields()), headers=headers, status=403)
    ann.post("/@@add", {"title": "Forged"}, headers=headers, status=403)
    assert [one.title for one in stored(uri)] == ["Emma"]


def test_a_visitor_without_the_permission_is_refused(app: Pipeline, ann: Any, uri: str) -> None:
    listed = add(ann, "Emma")
    anonymous = site(app)
    anonymous.get("/").mustcontain("Emma")
    for href in ("/edit", "/delete"):
        page = listed.click(href=href)
        anonymous.get(page.request.path, status=401)
        anonymous.post(page.request.path, dict(page.form.submit_fields()), status=401)
    anonymous.get("/@@add", status=401)
    anonymous.post("/@@add", {"title": "Mine"}, status=401)
    assert [one.title for one in stored(uri)] == ["Emma"]


def test_the_list_may_need_a_permission(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_of(pages_of(Book, monkeypatch, permission="edit", read="see", index="books"), uri)
    ann = ann_of(app)
    assert add(ann, "Emma").request.path == "/books"
    site(app).get("/books", status=401)
    ann.get("/", status=404)


def test_no_change_is_lost(ann: Any, uri: str) -> None:
    listed = add(ann, "Emma")
    first, second, deleting = (listed.click(href=href) for href in ("/edit", "/edit", "/delete"))
    first.form["title"] = "Emma & Co"
    first.form.submit(status=303)
    second.form["title"], second.form["year"] = "<i>Emma", "1"
    again = second.form.submit(status=409)
    assert (again.form["title"].value, again.form["year"].value) == ("<i>Emma", "1")
    again.mustcontain("Stored now: Emma &amp; Co", "Stored now: nothing", "greater than or equal to 1450", no="<i>")
    assert "field-title-stored" in again.html.find(id="field-title")["aria-describedby"]
    assert "aria-describedby" not in again.html.find(id="field-price").attrs
    deleting.form.submit(status=409).mustcontain("Delete Emma &amp; Co?", "Nothing is deleted yet")
    assert [one.title for one in stored(uri)] == ["Emma & Co"]
    again.form["year"] = "1815"
    again.form.submit(status=303)
    assert [(one.title, one.year) for one in stored(uri)] == [("<i>Emma", 1815)]


@pytest.mark.parametrize("shown", Book.model_fields)
def test_a_field_that_the_form_does_not_have_stays(shown: str, ann: Any, uri: str) -> None:
    """A template of the site shows one field, or a release has added the others since the page was loaded."""
    page = ann.get("/@@add")
    ours = {"title": "Emma", "code": "B", "word": "b", "year": "1815", "price": "2", "text": "x", "tags": "y"}
    for name, value in ours.items():
        page.form[name] = value
    edit = page.form.submit(status=303).follow().click(href="/edit")
    before = vars(stored(uri)[0])
    changed = {"title": "Persuasion", "code": "C", "word": "c", "year": "", "price": "3", "text": "", "tags": ""}
    changed |= {BOXES: "is_lent"}
    field = BOXES if shown == "is_lent" else shown
    box = {} if shown == "is_lent" else {"is_lent": "true"}
    sent = {VERSION: edit.form[VERSION].value, field: changed[field], **box}
    ann.post(edit.request.path, sent, status=303)
    after = vars(stored(uri)[0])
    assert {name for name in after if after[name] != before[name]} == {shown}


@pytest.mark.parametrize("library", ["pydantic", "msgspec"])
def test_a_box_that_the_form_does_not_have_is_not_turned_off(
    library: str, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser sends nothing for a box that is off, so a form that left out the box has turned it off."""
    model: Any = pydantic.create_model("Model", title=(str, "a"), on=(bool, True), off=(bool, False))
    if library == "msgspec":
        model = msgspec.defstruct("Model", [("title", str, "a"), ("on", bool, True), ("off", bool, False)])
    visitor = site(app_of(pages_of(model, monkeypatch), uri))
    found = lambda: [(one.title, one.on, one.off) for one in stored(uri)]  # noqa: E731
    visitor.post("/@@add", {"title": "b"}, status=422).mustcontain('id="field-on-problem"', no="field-off-problem")
    assert found() == []
    page = visitor.get("/@@add")
    assert sorted(one.value for one in page.form.fields[BOXES]) == ["off", "on"]
    edit = page.form.submit(status=303).follow().click(href="/edit")
    assert found() == [("a", True, False)]
    seen = {VERSION: edit.form[VERSION].value}
    edit.form["title"] = "c"
    visitor.post(edit.request.path, {**seen, "title": "c"}, status=422).mustcontain('value="c"', "field-on-problem")
    visitor.post(edit.request.path, {**seen, "title": "c", BOXES: "off"}, status=422)
    visitor.post_json(edit.request.path, {**seen, "title": "c", BOXES: [{"on": 1}]}, status=422)
    assert found() == [("a", True, False)]
    edit.form["on"] = False
    edit = edit.form.submit(status=303).follow().click(href="/edit")
    assert found() == [("c", False, False)]
    edit.form["off"] = True
    edit.form.submit(status=303)
    assert found() == [("c", False, True)]


BY_OTHERS: list[tuple[Any, Any]] = [
    # annotation, and a value that an API or the code of the site has stored and no form can say
    (list[str], ["New\nYork", " a ", ""]),
    (list[str] | None, []),
    (str | None, ""),
    (str, "a\rb"),
    (set[str], {"a\nb"}),
]


@pytest.mark.parametrize(("annotation", "value"), BY_OTHERS, ids=str)
def test_a_field_that_comes_back_as_it_was_shown_stays_as_it_is(
    annotation: Any, value: Any, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = pydantic.create_model("Model", title=(str, "-"), value=(annotation, ...))
    app = app_of(pages_of(model, monkeypatch), uri)
    visitor = site(app)
    visitor.post("/@@add", {"title": "a", "value": "x"}, status=303)
    close_all()
    database = database_at(uri)
    with database.transaction() as connection:
        [thing] = connection.root()["things"].values()
        thing.value = value
    database.close()
    form = visitor.get("/").click(href="/edit").form
    form["title"] = "b"
    form.submit(status=303)
    [found] = stored(uri)
    assert (found.title, found.value) == ("b", value)
    edit = visitor.get("/").click(href="/edit")
    twice = {VERSION: edit.form[VERSION].value, "title": "c", "value": ["x", "y"]}
    visitor.post(edit.request.path, twice, status=303 if "[" in str(annotation) else 422)


@pytest.mark.parametrize("version", [None, "", "0"])
def test_a_change_names_the_version_that_was_seen(ann: Any, uri: str, version: str | None) -> None:
    listed = add(ann, "Emma")
    fields = {"title": "Changed"} if version is None else {"title": "Changed", VERSION: version}
    ann.post(listed.click(href="/edit").request.path, fields, status=409)
    ann.post(listed.click(href="/delete").request.path, fields, status=409)
    assert [one.title for one in stored(uri)] == ["Emma"]


def test_the_version_of_a_set_is_the_same_in_each_process(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of a set of texts differs from process to process."""
    model = pydantic.create_model("Model", words=(set[str], ...))
    visitor = site(app_of(pages_of(model, monkeypatch), uri))
    words = [f"word {number:02}" for number in range(40)]
    visitor.post("/@@add", {"words": "\n".join(reversed(words))}, status=303)
    page = visitor.get("/").click(href="/edit")
    assert page.form["words"].value.split("\n") == words
    page.form.submit(status=303)


def test_a_visitor_does_not_choose_what_a_page_says(ann: Any) -> None:
    asked = add(ann, "Emma").click(href="/delete").request
    ann.get(f"{asked.path}?is_late=1&title=x").mustcontain(no="Nothing is deleted yet")


@pytest.mark.parametrize(("href", "status"), [("/edit", 409), ("/delete", 404)])
def test_a_change_at_the_same_time_is_not_lost(href: str, status: int, books: str, uri: str) -> None:
    """While one visitor saves, and before that is stored, another one saves or deletes the same book."""
    others: list[Callable[[], Any]] = []

    @element(inside={"transaction": "what the view has changed is not stored yet"})
    def racing(next: Any) -> Any:
        def racing(request: Any, response: Any) -> None:
            next(request, response)
            while request.environ["REQUEST_METHOD"] == "POST" and others:
                others.pop()()

        return racing

    app = app_of(books, uri, racing())
    ann, bob = ann_of(app), ann_of(app)
    listed = add(ann, "Emma")
    first, second = listed.click(href="/edit"), listed.click(href=href)
    first.form["title"] = "Hers"
    if href == "/edit":
        second.form["title"] = "His"
    others.append(lambda: bob.post(second.request.path, dict(second.form.submit_fields()), status=303))
    first.form.submit(status=status)
    assert others == []
    assert [one.title for one in stored(uri)] == (["His"] if href == "/edit" else [])


def test_a_long_list_has_pages(ann: Any) -> None:
    for number in range(SIZE + 2):
        ann.post("/@@add", {"title": f"Book {number:03}", BOXES: "is_lent"})
    first = ann.get("/")
    first.mustcontain("Book 000", "Book 049", "Page 1", no=["Book 050", "Previous"])
    second = first.click("Next")
    second.mustcontain("Book 050", "Book 051", "Page 2", no=["Book 049", "Next"])
    second.click("Previous").mustcontain("Book 000")
    ann.get("/?page=3").mustcontain("Nothing is here yet.")
    for page in ("0", "-1", "9" * 30):
        ann.get(f"/?page={page}", status=404)
    ann.get("/?page=two", status=400)


class Counting(Folder):
    """A container that names its items by itself."""

    def add(self, item: Any) -> None:
        item.__parent__, item.__name__ = self, f"book-{len(self) + 1}"
        self[item.__name__] = item


def test_a_container_may_name_its_items(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = pages_of(Book, monkeypatch, container=Counting)
    listed = add(site(app_of(module, uri, root=Counting)), "Emma")
    assert listed.click("Emma").request.path == "/book-1/edit"


def test_an_item_that_is_older_than_a_field_has_its_default(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old = pydantic.create_model("Old", title=(str, ...))
    add(site(app_of(pages_of(old, monkeypatch), uri)), "Emma")
    close_all()
    page = site(app_of(pages_of(Book, monkeypatch), uri)).get("/").click("Emma")
    assert page.form["price"].value == "1.5"
    page.form.submit(status=303)
    assert [(one.title, one.price) for one in stored(uri)] == [("Emma", Decimal("1.5"))]


def test_values_of_json_are_judged_too(ann: Any, uri: str) -> None:
    ann.post_json("/@@add", {"title": "Emma", "year": 1815, "tags": ["a"], "is_lent": False})
    ann.post_json("/@@add", {"title": {"a": ["<b>"]}, "tags": [1]}, status=422).mustcontain("&lt;b&gt;", no="<b>")
    ann.post("/@@add", {"title:int": "7"}, status=422)
    ann.post("/@@add", "title=a&title=b", status=422)
    ann.post("/@@add", upload_files=[("title", "a.txt", b"x")], status=422)
    assert [(one.title, one.year, one.tags) for one in stored(uri)] == [("Emma", 1815, ["a"])]


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        (Book, "no input for 'value'"),
        (list[Book], "no input for 'value'"),
        (list[list[str]], "no input for 'value'"),
        (dict[str, int], "no input for 'value'"),
        (pydantic.SecretStr, "a secret"),
        (Annotated[int, pydantic.Field(alias="other")], "other names for the fields ['other']"),
    ],
    ids=str,
)
def test_a_field_without_an_input_is_refused_at_load(
    annotation: Any, said: str, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = pydantic.create_model("Model", value=(annotation, ...))
    with pytest.raises(ViewError) as caught:
        app_of(pages_of(model, monkeypatch), uri)
    assert said in str(caught.value) and "Things: Model" in str(caught.value)


@pytest.mark.parametrize("model", [int, Folder])
def test_a_class_that_is_not_a_model_is_refused_at_load(
    model: Any, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ViewError, match="is not a model of a scanned library"):
        app_of(pages_of(model, monkeypatch), uri)


FILES = {
    "__init__.py": "",
    "pages.py": """
from publishing.test_editing import Book, Folder, Thing
from pipeline.publishing.editing import Editing

class Books(Editing, container=Folder, item=Thing, model=Book, permission="public", read="public"):
    "The pages."
""",
    "templates/page.html": (
        "<title>{% block title %}{% endblock %}</title><p>Ours</p>{% block body %}{% endblock %}"
    ),
    "templates/editing/page.html": '{% extends "page.html" %}',
    "templates/editing/field.html": "<label>{{ input.label|upper }}<input name={{ input.name }}></label>",
}


def test_a_site_has_its_own_templates(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        path = tmp_path / "site_with_own_pages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "publishing.test_editing", sys.modules[__name__])
    visitor = site(app_of("site_with_own_pages", uri))
    visitor.get("/").mustcontain("<title>Book</title><p>Ours</p>", "Nothing is here yet.", no="<style")
    visitor.get("/@@add").mustcontain("<label>LENT &amp; GONE<input name=is_lent></label>", "<p>Ours</p>")


# The recipe.

PAGE = "editing.rst"
ROOT = """

def root(database):
    return database.setdefault("library", Library())

def check(request, login, password):
    return login if password == "right" else None
"""


def text_of_the_recipe() -> str:
    text = (recipes.HOWTO / PAGE).read_text("utf-8").partition(":caption: lending/site.py\n\n")[2]
    lines = text.partition("\n``scan``")[0].splitlines()
    return "\n".join(line[4:] for line in lines) + "\n"


def test_the_site_of_the_recipe_is_short() -> None:
    lines = [line for line in text_of_the_recipe().splitlines() if line.strip()]
    assert 10 < len(lines) < 20


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch, uri: str) -> Pipeline:
    name = "lending_of_the_recipe"
    module = recipes.module_of(PAGE, "lending/site.py", monkeypatch, name)
    return app_of(name, uri, root=module.Library)


def test_the_recipe(recipe: Pipeline, uri: str) -> None:
    ann = ann_of(recipe)
    page = ann.get("/").click("Add")
    assert page.form["genre"].value == "novel" and not page.form["is_lent"].checked
    page.form["title"], page.form["year"], page.form["genre"] = "Emma", "1815", "essay"
    page.form.submit(status=303)
    ann.post("/@@add", {"title": "", "year": "18150"}, status=422).mustcontain(
        "field-title-problem", "field-year-problem"
    )
    site(recipe).post("/@@add", {"title": "Mine"}, status=401)
    assert [vars(one) for one in stored(uri)] == [
        {"title": "Emma", "year": 1815, "genre": "essay", "is_lent": False}
    ]


def write_site(directory: Path, text: str) -> str:
    """Write the site of the recipe with an ini, and return its path."""
    (directory / "lending_of_an_ini.py").write_text(text)
    order = ("shield", "retry", "zodb", "errors", "transaction", "forms", "authenticate", "traverse")
    of_zodb = f"uri = file://{directory}/Data.fs\nroot = lending_of_an_ini:root"
    scan = "lending_of_an_ini pipeline.publishing.pydantic"
    ini = ini_of(order, scan, zodb=of_zodb, authenticate="check = lending_of_an_ini:check")
    (directory / "site.ini").write_text(ini)
    return str(directory / "site.ini")


@pytest.fixture
def of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", sys.path[:])
    yield
    close_all()
    sys.modules.pop("lending_of_an_ini", None)


NUMBERED = """
def add(self, book):
    book.__parent__, book.__name__ = self, str(len(self) + 1)
    self[book.__name__] = book

Library.add = add
"""
"""Names for the books that are the same in each run, as the proof of pairs needs them."""


@pytest.mark.usefixtures("of_its_own")
def test_the_site_of_the_recipe_is_proved(tmp_path: Path, prove: Callable[..., Proof]) -> None:
    ini = write_site(tmp_path, text_of_the_recipe() + ROOT)
    proof = prove(ini, user="ann").faults().attack().links()
    assert (proof.report.tried, proof.report.found) == (7, [])


@pytest.mark.usefixtures("of_its_own")
def test_two_requests_at_the_same_time_are_proved(tmp_path: Path, prove: Callable[..., Proof]) -> None:
    proof = prove(write_site(tmp_path, text_of_the_recipe() + ROOT + NUMBERED), user="ann").pairs(40)
    assert (proof.report.tried, proof.report.found) == (7, [])


@pytest.mark.once
@pytest.mark.timeout(300)
def test_mypy_finds_nothing_in_the_recipe(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "lending_of_an_ini.py").write_text(text_of_the_recipe())
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\nstrict = true\n[mypy-BTrees.*,persistent.*]\nignore_missing_imports = true\n"
        "[mypy-lending_of_an_ini]\ndisallow_subclassing_any = false\n"
    )
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "lending_of_an_ini.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


class Odd(pydantic.BaseModel):  # type: ignore[name-defined, misc]
    """Values that a browser does not show in the input of their kind."""

    text: str
    lines: Annotated[str, pydantic.Field(max_length=1_000)]
    number: int
    price: Decimal
    exact: datetime
    aware: datetime
    at: time
    day: date | None
    tags: list[str]
    is_open: bool | None


ODD = {
    "text": "two\nlines",
    "lines": "\n\nthe first two are empty\n",
    "number": 10**400,
    "price": Decimal("1E+400"),
    "exact": datetime(2026, 11, 20, 8, 30, 1, 123456),
    "aware": datetime(2026, 11, 20, 8, 30, 1, tzinfo=UTC),
    "at": time(8, 30, 1),
    "day": date(987, 1, 2),
    "tags": ["</textarea><b>", "c"],
    "is_open": False,
}


@pytest.mark.browser
@pytest.mark.timeout(300)
def test_a_browser_drops_no_value(
    uri: str, browser: Any, faults: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Odd values are the same after a save of the form that shows them."""
    from browsing import press, text_of

    def root() -> Folder:
        folder = Folder()
        item = folder["odd"] = Thing()
        vars(item).update(ODD, __parent__=folder, __name__="odd")
        item._p_changed = True
        return folder

    app = app_of(pages_of(Odd, monkeypatch), uri, root=root)
    with served(app) as address:
        browser.get(f"{address}/odd/edit")
        assert faults() == []
        press(browser, "Save")
        assert text_of(browser, "h1") == "Odd"
    assert [vars(one) for one in stored(uri)] == [ODD]


@pytest.mark.browser
@pytest.mark.timeout(300)
def test_each_page_in_a_browser(
    uri: str, browser: Any, faults: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each page is accessible, on a phone in the dark and on a desk, also with mistakes and after another's change.
    A page of another site cannot send a form."""
    from browsing import DESK, PHONE, follow, press, show_on, text_of, type_in

    app = Pipeline(shield(), app_of(pages_of(Book, monkeypatch), uri))
    with served(app) as address:
        found: dict[str, list[str]] = {}
        for size, scheme in ((PHONE, "dark"), (DESK, "light")):
            show_on(browser, size, scheme)

            def judge(page: str, size: Any = size) -> None:
                found[f"{page} {size}"] = faults()

            browser.get(f"{address}/@@add")
            judge("add")
            type_in(browser, title="alike", text="alike", year="1815")
            press(browser, "Save")
            judge("the whole is wrong")
            type_in(browser, title="<b>Emma</b>", tags="a\nb")
            browser.execute_script("document.forms[0].noValidate = true")
            type_in(browser, year="1")
            press(browser, "Save")
            assert text_of(browser, "#field-year-problem") == "Input should be greater than or equal to 1450"
            judge("a field is wrong")
            type_in(browser, year="1815")
            press(browser, "Save")
            judge("list")
            assert text_of(browser, "li a") == "<b>Emma</b>"
            press(browser, "<b>Emma</b>")
            judge("edit")
            edit = browser.current_url
            other = ann_of(app).get(edit.removeprefix(address))
            other.form["title"] = "Emma"
            other.form.submit(status=303)
            type_in(browser, title="His")
            press(browser, "Save")
            assert text_of(browser, "#field-title-stored") == "Stored now: Emma"
            judge("late")
            press(browser, "Save")
            assert text_of(browser, "li a") == "His"
            follow(browser, "//li/a[@aria-label='Delete His']")
            judge("delete")
            press(browser, "Delete")
            assert "Nothing is here yet." in text_of(browser, "main")
        assert {page: faults for page, faults in found.items() if faults} == {}
        said = [entry["message"] for entry in browser.get_log("browser") if entry["source"] != "network"]
        assert said == [], "the policy of shield has refused nothing"
        forged = f"<form method=post action='{address}/@@add'><input name=title value=Forged><button>Go</button>"
        browser.get(f"data:text/html,<main>{forged}</form></main>")
        press(browser, "Go")
        assert "another site" in browser.page_source
    assert stored(uri) == []


def test_each_answer_is_valid(app: Pipeline) -> None:
    """The validator of WSGI, and the checks of the edge, see each kind of answer."""
    login = {"HTTP_AUTHORIZATION": "Basic YW5uOnJpZ2h0"}
    form = {**login, "CONTENT_TYPE": "application/x-www-form-urlencoded"}
    assert ask(app, "/", **login).status == 200
    assert ask(app, "/@@add", "HEAD", **login).status == 200
    assert ask(app, "/@@add", "POST", b"title=", **form).status == 422
    assert ask(app, "/@@add", "POST", b"title=a&form-boxes=is_lent", **form).status == 303
