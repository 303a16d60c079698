"""A model that is made of a query or of a form reads the texts as other parameters do, whatever its library."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from enum import Enum
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Literal
from urllib.parse import urlencode
from uuid import UUID

import pytest

from asking import ask
from pipeline import Pipeline, Request, view
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.traverse import traverse
from pipeline.publisher import publisher

pydantic = pytest.importorskip("pydantic")
msgspec = pytest.importorskip("msgspec")
pydantic_core = pytest.importorskip("pydantic_core")

ONE = "1" * 32
Number = Enum("Number", {"one": 1, "two": 2})
Number.__module__ = __name__

MEMBERS: dict[str, tuple[Any, Any]] = {
    "tags": (list[str], ["old"]),
    "numbers": (set[int], {0}),
    "choices": (list[Literal[1, 2]], [2]),
    "choice": (Literal[1, 2], 2),
    "number": (Number, Number.two),
    "limit": (int, 10),
    "some": (int | None, 10),
    "flag": (bool, True),
    "when": (date | None, None),
    "id": (UUID, UUID(ONE)),
    "text": (str, "old"),
    "note": (str | None, "old"),
    "word": (Literal["", "a"], "a"),
}
ofPydantic = pydantic.create_model("ofPydantic", **MEMBERS)
ofMsgspec = msgspec.defstruct(
    "ofMsgspec",
    [
        (name, kind, msgspec.field(default_factory=default.copy) if isinstance(default, (list, set)) else default)
        for name, (kind, default) in MEMBERS.items()
    ],
)
LIBRARIES = {"pydantic": ofPydantic, "msgspec": ofMsgspec}


class Root(dict[str, Any]):
    """The root of the site."""


got: list[Any] = []


def app_of(
    library: str, annotation: Any, module: Callable[..., str], name: str = "value", default: Any = Parameter.empty
) -> Pipeline:
    """Return a site with a view whose parameter has a name, an annotation and a default."""

    def shows(context: Any, request: Request, **fields: Any) -> str:
        got.extend(fields.values())
        return "read"

    leading = list(signature(shows).parameters.values())[:2]
    parameter = Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
    shows.__signature__ = Signature([*leading, parameter])  # type: ignore[attr-defined]
    views = module(view(context=Root, methods=("GET", "POST"))(shows))
    scan = (views, f"pipeline.publishing.{library}")
    return Pipeline(errors(), forms(), traverse(root=Root), publisher(scan=scan))


def read(app: Pipeline, way: str, fields: Any) -> Any:
    """Return what the view has got; the status if it was refused."""
    got.clear()
    if way == "query":
        answer = ask(app, "/", QUERY_STRING=urlencode(fields))
    elif way == "form":
        kind = "application/x-www-form-urlencoded"
        answer = ask(app, "/", "POST", urlencode(fields).encode(), CONTENT_TYPE=kind)
    else:
        body = fields if isinstance(fields, str) else json.dumps(fields)
        answer = ask(app, "/", "POST", body.encode(), CONTENT_TYPE="application/json")
    return got[0] if answer.status_int == 200 else answer.status_int


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("way", ["query", "form"])
@pytest.mark.parametrize(
    ("name", "texts", "value"),
    [
        ("tags", ["a"], ["a"]),
        ("tags", ["a", "b"], ["a", "b"]),
        ("tags", ["a\r\nb "], ["a\r\nb "]),
        ("tags", [""], ["old"]),
        ("numbers", ["1"], {1}),
        ("choices", ["1"], [1]),
        ("choices", ["1", "2"], [1, 2]),
        ("choices", ["3"], 400),
        ("choice", ["1"], 1),
        ("choice", ["3"], 400),
        ("number", ["1"], Number.one),
        ("limit", ["7"], 7),
        ("limit", [""], 10),
        ("limit", ["x"], 400),
        ("limit", ["1", "2"], 400),
        ("some", [""], 10),
        ("flag", ["on"], True),
        ("flag", ["no"], False),
        ("flag", [""], True),
        ("flag", ["x"], 400),
        ("when", ["2026-11-29"], date(2026, 11, 29)),
        ("when", [""], None),
        ("id", [""], UUID(ONE)),
        ("text", [""], ""),
        ("text", [" a\r\n"], " a\r\n"),
        ("note", [""], ""),
        ("word", [""], ""),
    ],
)
def test_a_member_is_read_as_a_parameter_is(
    name: str, texts: list[str], value: Any, way: str, library: str, module: Callable[..., str]
) -> None:
    """A list of one was a 400, and so was an input that a browser sends empty, and a number that is a choice."""
    fields = [(name, text) for text in texts]
    kind, default = MEMBERS[name]
    assert read(app_of(library, kind, module, name, default), way, fields) == value, "a parameter of its own"
    found = read(app_of(library, LIBRARIES[library], module), way, fields)
    if value == 400:
        assert found == 400
    else:
        defaults = {other: default for other, (_, default) in MEMBERS.items()}
        assert {other: getattr(found, other) for other in MEMBERS} == defaults | {name: value}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("member", [{"tags": "a"}, {"limit": ""}, {"choices": 1}, {"id": ""}])
def test_json_has_its_types(member: dict[str, Any], library: str, module: Callable[..., str]) -> None:
    """A member of JSON that has another type is refused, and not taken for one that is missing (R11)."""
    assert read(app_of(library, LIBRARIES[library], module), "json", member) == 400


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("annotation", "texts", "value"),
    [
        (list[UUID], [ONE], [UUID(ONE)]),
        (list[UUID], [ONE, ONE], [UUID(ONE), UUID(ONE)]),
        (list[UUID] | None, [ONE], [UUID(ONE)]),
        (list[UUID], [], []),
        (list[Number], ["1"], [Number.one]),
        (set[Number], ["1", "2"], {Number.one, Number.two}),
        (Literal[1, 2], ["2"], 2),
        (Literal[1, 2], ["3"], 400),
        (Number, ["2"], Number.two),
        (tuple[int, str], ["1", "a"], (1, "a")),
    ],
)
def test_a_field_is_read(
    annotation: Any, texts: list[str], value: Any, library: str, module: Callable[..., str]
) -> None:
    """One box of several that is ticked was a 400 for a ``list[UUID]``."""
    assert read(app_of(library, annotation, module), "query", [("value", text) for text in texts]) == value


def test_what_a_library_says_in_its_own_way(module: Callable[..., str]) -> None:
    """A name for the form alone, defaults that are made, limits of texts, secrets, and classes without a schema."""

    class Size:
        def __init__(self, text: str) -> None:
            self.text = text

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Size) and other.text == self.text

        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            return pydantic_core.core_schema.no_info_plain_validator_function(cls)

    Asked = pydantic.create_model(
        "Asked",
        __config__=pydantic.ConfigDict(extra="forbid"),
        since=(date, pydantic.Field(alias="from", default_factory=lambda: date(2026, 1, 1))),
        code=(Annotated[str, pydantic.Field(pattern="^[a-z]+$")], "abc"),
        secret=(pydantic.SecretStr, pydantic.SecretStr("old")),
        text=(Annotated[str, pydantic.Field(json_schema_extra={"format": "textarea"})], "old"),
        boxes=(list[Number], []),
        until=(date | None, None),
    )
    app = app_of("pydantic", Asked, module)
    fields = {"from": "", "code": "", "secret": "", "text": "", "until": ""}
    found = read(app, "form", list(fields.items()))
    assert (found.since, found.code, found.text) == (date(2026, 1, 1), "abc", "")
    assert (found.secret.get_secret_value(), found.boxes, found.until) == ("", [], None)
    found = read(app, "query", [("from", "2026-02-03"), ("boxes", "2"), ("until", "2026-02-04")])
    assert (found.since, found.boxes, found.until) == (date(2026, 2, 3), [Number.two], date(2026, 2, 4))
    assert read(app, "query", [("boxes", "2"), ("until", ""), ("form", "")]) == 400, "no such field"
    assert read(app, "json", {"until": ""}) == 400, "JSON says that a value is missing"
    sized = pydantic.create_model("Sized", size=(Size, ...), tags=(list[str], ...))
    assert read(app_of("pydantic", sized, module), "query", [("size", "1"), ("tags", "a"), ("tags", "b")]).tags == [
        "a", "b",
    ]  # fmt: skip
    assert read(app_of("pydantic", list[Size], module), "query", [("value", "1")]) == [Size("1")]


LONG = "12345678901234567.890123456789"


class Price(pydantic.BaseModel):  # type: ignore[name-defined, misc]
    amount: Decimal
    prices: tuple[Decimal, ...] = ()
    about: dict[str, float] | None = None


class StructOfPrice(msgspec.Struct):  # type: ignore[name-defined, misc]
    amount: Decimal
    prices: tuple[Decimal, ...] = ()
    about: dict[str, float] | None = None


@pytest.mark.parametrize(("library", "model"), [("pydantic", Price), ("msgspec", StructOfPrice)])
def test_a_decimal_has_all_digits_of_json(library: str, model: Any, module: Callable[..., str]) -> None:
    """A number of JSON went through a float, which has 16 digits: a price was another one, without a word (R11)."""
    app = app_of(library, model, module)
    found = read(app, "json", f'{{"amount": {LONG}, "prices": [1e-400, 0.10, {LONG}], "about": {{"a": {LONG}}}}}')
    assert (found.amount, found.prices) == (Decimal(LONG), (Decimal("1e-400"), Decimal("0.1"), Decimal(LONG)))
    assert found.about == {"a": float(LONG)} and type(found.about["a"]) is float
    assert read(app_of(library, Decimal, module), "json", f'{{"value": {LONG}}}') == Decimal(LONG)
    assert read(app_of(library, list[Decimal], module), "json", f'{{"value": [{LONG}]}}') == [Decimal(LONG)]
    for refused in ("NaN", "Infinity", "1e400", "1" * 5000 + "x"):
        assert read(app, "json", f'{{"amount": {refused}}}') == 400


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("annotation", [float, Any, dict[str, Any], list[Any], float | str])
def test_a_float_stays_a_float(library: str, annotation: Any, module: Callable[..., str]) -> None:
    """Only what a library makes a Decimal of is one: a view may hand all others to a database, or to json.dumps."""
    sent, number = LONG, float(LONG)
    value: Any = number
    if "dict" in str(annotation):
        sent, value = f'{{"a": {LONG}}}', {"a": number}
    elif "list" in str(annotation):
        sent, value = f"[{LONG}]", [number]
    found = read(app_of(library, annotation, module), "json", f'{{"value": {sent}}}')
    assert repr(found) == repr(value)


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_empty_body_of_json_is_an_empty_object(library: str, module: Callable[..., str]) -> None:
    app = app_of(library, LIBRARIES[library], module)
    assert (read(app, "json", "").tags, read(app, "json", "{}").tags) == (["old"], ["old"])


Ticked = pydantic.create_model("Ticked", tags=(list[str], ...), more=(list[str], ["old"]))
TickedStruct = msgspec.defstruct(
    "TickedStruct", [("tags", list[str]), ("more", list[str], msgspec.field(default_factory=lambda: ["old"]))]
)


@pytest.mark.parametrize(("library", "model"), [("pydantic", Ticked), ("msgspec", TickedStruct)])
def test_a_list_without_a_ticked_box_is_empty(library: str, model: Any, module: Callable[..., str]) -> None:
    """A browser sends nothing for boxes that are not ticked. A parameter with a list read that as an empty list. A
    model that needs a list answered with a 400."""
    app = app_of(library, model, module)
    for sent in ([], [("tags", "")]):
        for kind in ("form", "query"):
            found = read(app, kind, [*sent, ("other", "x")])
            assert (found.tags, found.more) == ([], ["old"])
    assert read(app, "form", [("tags", "a")]).tags == ["a"]
    assert read(app, "json", {}) == 400, "JSON says what it has"
    read(app, "form", [("other", "x")]).tags.append("a")
    assert read(app, "form", [("other", "x")]).tags == [], "each request has a list of its own"


@pytest.mark.parametrize("library", ["pydantic", "msgspec"])
def test_a_rule_judges_a_list_without_a_ticked_box(library: str, module: Callable[..., str]) -> None:
    rules: Any = pydantic.Field if library == "pydantic" else msgspec.Meta
    at_most = app_of(library, Annotated[list[int], rules(max_length=2)], module)
    assert read(at_most, "form", [("other", "x")]) == []
    at_least = app_of(library, Annotated[list[int], rules(min_length=1)], module)
    assert read(at_least, "form", [("other", "x")]) == 400
    if library == "pydantic":
        model = pydantic.create_model("OneOf", tags=(list[str], pydantic.Field(min_length=1)))
        assert read(app_of(library, model, module), "form", [("other", "x")]) == 400
