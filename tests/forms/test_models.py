"""Models of pydantic and msgspec as parameters and results of views."""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any, Literal
from urllib.parse import urlencode
from uuid import UUID

import pytest

pydantic = pytest.importorskip("pydantic")
msgspec = pytest.importorskip("msgspec")

from typing_extensions import TypedDict  # noqa: E402

from asking import Answer, ask  # noqa: E402
from pipeline import Pipeline, view  # noqa: E402
from pipeline.elements.errors import errors  # noqa: E402
from pipeline.elements.forms import forms  # noqa: E402
from pipeline.elements.traverse import traverse  # noqa: E402
from pipeline.interfaces import ResultError, ViewError  # noqa: E402
from pipeline.publisher import publisher  # noqa: E402
from pipeline.publishing import json as publishing_json  # noqa: E402

Color = Enum("Color", {"red": "red", "blue": "blue"})
JSON = {"CONTENT_TYPE": "application/json", "HTTP_ACCEPT": "application/json"}
FORM = {"CONTENT_TYPE": "application/x-www-form-urlencoded", "HTTP_ACCEPT": "application/json"}
ID = "12345678-1234-5678-1234-567812345678"


class Pydantic:
    name = "pydantic"

    class Address(pydantic.BaseModel):  # type: ignore[name-defined, misc]
        street: str
        number: int = 1

    class Person(pydantic.BaseModel):  # type: ignore[name-defined, misc]
        name: str
        age: Annotated[int, pydantic.Field(ge=0)]
        color: Color = Color.red
        addresses: list[Pydantic.Address] = pydantic.Field(default_factory=list)

    positive = Annotated[int, pydantic.Field(gt=0)]
    short = Annotated[str, pydantic.Field(max_length=3)]


class Msgspec:
    name = "msgspec"

    class Address(msgspec.Struct):  # type: ignore[name-defined, misc]
        street: str
        number: int = 1

    class Person(msgspec.Struct):  # type: ignore[name-defined, misc]
        name: str
        age: Annotated[int, msgspec.Meta(ge=0)]
        color: Color = Color.red
        addresses: list[Msgspec.Address] = msgspec.field(default_factory=list)

    positive = Annotated[int, msgspec.Meta(gt=0)]
    short = Annotated[str, msgspec.Meta(max_length=3)]


Pydantic.Person.model_rebuild()
LIBRARIES: list[Any] = [Pydantic, Msgspec]


@dataclass
class Point:
    x: int
    y: int = 0


class Size(TypedDict):
    width: int


def site(library: Any, annotation: Any, method: str = "POST", default: Any = ...) -> Pipeline:
    """A view whose parameter ``value`` has the annotation, and that returns it."""

    def show(context: Any, request: Any, value: Any) -> Any:
        return {"value": value, "type": type(value).__name__}

    show.__annotations__["value"] = annotation
    if default is not ...:
        show.__defaults__ = (default,)
    return published(library, show, method)


def published(library: Any, show: Any, method: str = "POST") -> Pipeline:
    module = ModuleType(f"{__name__}_of_one_test")
    module.show = view(methods=(method,))(show)  # type: ignore[attr-defined]
    show.__module__ = module.__name__
    sys.modules[module.__name__] = module
    try:
        scan = (f"pipeline.publishing.{library.name}", "pipeline.publishing.json", module.__name__)
        return Pipeline(errors(), forms(), traverse(root=dict), publisher(scan=scan))
    finally:
        del sys.modules[module.__name__]


def send(app: Pipeline, value: Any, **environ: str) -> Answer:
    return ask(app, "/", "POST", json.dumps(value).encode(), **{**JSON, **environ})


PERSON = {"name": "Ann", "age": 3, "color": "blue", "addresses": [{"street": "Main"}]}


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_model_is_the_whole_body(library: Any) -> None:
    app = site(library, library.Person)
    full = {**PERSON, "addresses": [{"street": "Main", "number": 1}]}
    assert send(app, PERSON).json == {"value": full, "type": "Person"}
    got = ask(app, "/", "POST", urlencode({"name": "Ann", "age": "3"}).encode(), **FORM)
    assert got.json["value"] == {"name": "Ann", "age": 3, "color": "red", "addresses": []}
    asked = ask(site(library, library.Person, "GET"), "/?name=Ann&age=3", "GET")
    assert asked.json["value"]["age"] == 3


@pytest.mark.parametrize("library", LIBRARIES)
def test_all_that_is_wrong_is_told_with_pointers(library: Any) -> None:
    answer = send(site(library, library.Person), {"age": -1, "addresses": [{"street": 5}]})
    assert (answer.status, answer.content_type) == (400, "application/problem+json")
    pointers = [error["pointer"] for error in answer.json["errors"]]
    if library is Pydantic:  # msgspec tells the first one
        assert pointers == ["#/name", "#/age", "#/addresses/0/street"]
    else:
        assert len(pointers) == 1 and pointers[0] in ("#/age", "#/addresses/0/street", "#")
    assert all(error["detail"] for error in answer.json["errors"])
    assert "Traceback" not in answer.text
    html = send(site(library, library.Person), {}, HTTP_ACCEPT="text/html")
    assert html.status == 400 and "What was sent is not valid." in html.text


@pytest.mark.parametrize("library", LIBRARIES)
def test_several_parameters_tell_all_of_their_errors(library: Any) -> None:
    def show(context: Any, request: Any, count: Any, size: int, when: Any) -> str:
        return "shown"

    show.__annotations__.update(count=library.positive, when=UUID)
    app = published(library, show)
    answer = send(app, {"count": 0, "size": "x", "when": "y"})
    assert [error["pointer"] for error in answer.json["errors"]] == ["#/count", "#/size", "#/when"]
    assert send(app, {"count": 1, "size": 2, "when": ID}).text == "shown"


VALUES: list[tuple[str, Any, Any, Any, Any]] = [
    ("an Enum", Color, "red", "red", "green"),
    ("a UUID", UUID, ID, ID, "1234"),
    ("a Decimal", Decimal, "1.50", "1.50", "x"),
    ("a time", time, "10:30:00", "10:30:00", "25:00"),
    ("a date", date, "2026-11-25", "2026-11-25", "x"),
    ("a datetime", datetime, "2026-11-25T10:30:00", "2026-11-25T10:30:00", "x"),
    ("a set", set[int], [1, 2, 2], [1, 2], ["x"]),
    ("a frozenset", frozenset[str], ["a"], ["a"], [1]),
    ("a tuple", tuple[int, str], [1, "a"], [1, "a"], [1]),
    ("a list of Enums", list[Color], ["red", "blue"], ["red", "blue"], ["green"]),
    ("a dict of Decimals", dict[str, Decimal], {"a": "1.5"}, {"a": "1.5"}, {"a": "x"}),
    ("a UUID or None", UUID | None, ID, ID, "x"),
    ("a Literal of numbers", Literal[1, 2], 1, 1, 3),
]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("annotation", "sent", "shown", "wrong"), [one[1:] for one in VALUES], ids=[v[0] for v in VALUES]
)
def test_values(library: Any, annotation: Any, sent: Any, shown: Any, wrong: Any) -> None:
    app = site(library, annotation)
    answer = send(app, {"value": sent})
    assert (answer.status, answer.json["value"] if answer.status == 200 else answer.text) == (200, shown)
    assert send(app, {"value": wrong}).status == 400
    may_lack = annotation == list[Color] or type(None) in getattr(annotation, "__args__", ())
    assert send(app, {}).status == (200 if may_lack else 400)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("annotation", "good", "bad"), [("positive", "1", "0"), ("short", "abc", "abcd")])
def test_constraints_of_a_field(library: Any, annotation: str, good: str, bad: str) -> None:
    app = site(library, getattr(library, annotation), "GET")
    assert ask(app, f"/?value={good}", "GET").status == 200
    answer = ask(app, f"/?value={bad}", "GET", HTTP_ACCEPT="application/json")
    assert answer.status == 400 and [error["pointer"] for error in answer.json["errors"]] == ["#/value"]
    assert ask(app, "/", "GET").status == 400
    assert ask(site(library, getattr(library, annotation), "GET", "d"), "/", "GET").json["value"] == "d"


class Mood(Enum):
    none = ""
    good = "good"


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("annotation", "value"),
    [("short", ""), (Mood, ""), ("positive", 7), (UUID, 7), (Decimal, 7), (set[str], 7), (date, 7), (bool, 7)],
)
def test_an_empty_field_is_a_value_if_the_model_takes_it(library: Any, annotation: Any, value: Any) -> None:
    """A text that the visitor has emptied does not come back as the default. Others count as missing."""
    annotation = getattr(library, annotation) if isinstance(annotation, str) else annotation
    app = site(library, annotation, "GET", 7)
    assert ask(app, "/?value=", "GET").json["value"] == value


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("annotation", "sent"), [(Point, {"x": 1}), (Size, {"width": 2})])
def test_dataclasses_and_typed_dicts(library: Any, annotation: Any, sent: Any) -> None:
    app = site(library, annotation)
    assert send(app, sent).json["value"].items() >= sent.items()
    assert send(app, {"x": "z", "width": "z"}).status == 400


@pytest.mark.parametrize("library", LIBRARIES)
def test_results(library: Any) -> None:
    address = library.Address(street="Main")
    results = {"one": address, "list": [address], "dict": {"when": date(2026, 1, 2), "id": UUID(ID), "all": {1}}}

    def show(context: Any, request: Any, which: str) -> Any:
        return results[which]

    app = published(library, show, "GET")
    main = {"street": "Main", "number": 1}
    assert ask(app, "/?which=one", "GET").json == main
    assert ask(app, "/?which=list", "GET").json == [main]
    assert ask(app, "/?which=dict", "GET").json == {"when": "2026-01-02", "id": ID, "all": [1]}
    results["one"] = {"value": object()}
    assert ask(app, "/?which=one", "GET").status == 500


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_number_that_json_lacks_is_told_with_its_place(library: Any) -> None:
    """It was told for a dict. For a model the message of the error had no place."""
    import_module(f"pipeline.publishing.{library.name}")
    model = pydantic.create_model("Tall", size=(float, ...))
    if library is Msgspec:
        model = msgspec.defstruct("Tall", [("size", float)])
    for result, place in (
        (model(size=math.inf), "the result['size']"),
        ([{"it": model(size=math.nan)}], "the result[0]['it']['size']"),
        ([1.0, (math.nan,)], "the result[1][0]"),
    ):
        with pytest.raises(ResultError, match=re.escape(f"the value at {place} is not a number that JSON has")):
            publishing_json.sent(result)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_class_that_no_library_knows_is_refused_at_load(library: Any) -> None:
    class Strange:
        def __init__(self, *arguments: Any) -> None: ...

    with pytest.raises(ViewError, match="no converter makes a Strange"):
        site(library, Strange)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_body_of_another_shape(library: Any) -> None:
    app = site(library, library.Person)
    for body in (b"[1]", b"5", b"null", b'"x"', b"{", b'{"name": "\\ud800", "age": 1}'):
        assert ask(app, "/", "POST", body, **JSON).status in (200, 400), body
    deep = b'{"name": ' + b"[" * 200 + b"]" * 200 + b"}"
    assert ask(app, "/", "POST", deep, **JSON).status == 400
    many = {"name": 1, "age": 1, "addresses": [{} for _ in range(5000)]}
    assert len(send(app, many).text) < 20_000


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, "text/plain"),
        ("*/*", "application/problem+json"),
        ("text/plain", "text/plain"),
        ("text/html", "text/html"),
    ],
)
def test_who_sends_json_gets_problem_details(accept: str | None, expected: str) -> None:
    chosen = {} if accept is None else {"HTTP_ACCEPT": accept}
    app = site(Pydantic, Pydantic.Person)
    assert ask(app, "/", "POST", b"{}", CONTENT_TYPE="application/json", **chosen).content_type == expected
    assert ask(app, "/", "POST", b"", **chosen).content_type in (expected, "text/plain")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", ["model", "list", "dict", "dataclass", "class view"])
def test_none_in_place_of_a_model_is_null(library: Any, name: str) -> None:
    """The description says that it is null. It was an empty page of the type text/html."""
    kinds = {"list": list[library.Address], "dict": dict[str, Any], "dataclass": Point}

    def show(context: Any, request: Any) -> Any:
        return None

    class Show:
        def __init__(self, context: Any, request: Any) -> None: ...

        def __call__(self) -> Any:
            return None

    shown: Any = Show if name == "class view" else show
    annotated = Show.__call__ if name == "class view" else show
    annotated.__annotations__["return"] = kinds.get(name, library.Address) | None
    answer = ask(published(library, shown, "GET"), "/", "GET")
    assert (answer.status, answer.content_type, answer.json) == (200, "application/json", None)


@pytest.mark.parametrize("library", LIBRARIES)
def test_none_where_the_response_has_the_answer(library: Any) -> None:
    class Page:
        """No result of JSON."""

    def show(context: Any, request: Any, response: Any) -> Any:
        response.status, response.text = told

    for annotation in (None, str | None, Page | None, Any, "Missing | None", library.Address | str | None):
        show.__annotations__["return"] = annotation
        for told in ((200, ""), (200, "written")):
            answer = ask(published(library, show, "GET"), "/", "GET")
            assert (answer.status, answer.content_type, answer.text) == (200, "text/html", told[1]), annotation
    show.__annotations__["return"] = library.Address | None
    for told in ((200, "written"), (204, ""), (201, "")):
        answer = ask(published(library, show, "GET"), "/", "GET")
        assert (answer.status, answer.text) == told
