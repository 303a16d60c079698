"""Rules of annotations (``Annotated[int, Field(gt=5)]``): each is enforced, or the site does not load.

All kinds of rules, by each set of scanned libraries. A library ignores a rule of another one without a word.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import ModuleType
from typing import Annotated, Any

import pytest

pydantic = pytest.importorskip("pydantic")
msgspec = pytest.importorskip("msgspec")

import annotated_types  # noqa: E402
from typing_extensions import TypedDict  # noqa: E402

from asking import ask  # noqa: E402
from pipeline import Pipeline, view  # noqa: E402
from pipeline.elements.errors import errors  # noqa: E402
from pipeline.elements.forms import forms  # noqa: E402
from pipeline.elements.traverse import traverse  # noqa: E402
from pipeline.interfaces import ViewError  # noqa: E402
from pipeline.publisher import publisher  # noqa: E402


def more(value: int) -> int:
    if value <= 5:
        raise ValueError("too small")
    return value


RULES = {
    "Field": pydantic.Field(gt=5),
    "Meta": msgspec.Meta(gt=5),
    "Gt": annotated_types.Gt(5),
    "Interval": annotated_types.Interval(gt=5),
    "Predicate": annotated_types.Predicate(lambda value: value > 5),
    "AfterValidator": pydantic.AfterValidator(more),
    "unknown": object(),
}


@dataclass
class Counted:
    number: Annotated[int, annotated_types.Gt(5)]


@dataclass
class CountedByMeta:
    number: Annotated[int, msgspec.Meta(gt=5)]


class Typed(TypedDict):
    number: Annotated[int, pydantic.Field(gt=5)]


@dataclass
class Nested:
    number: int
    inner: list[Counted]


@dataclass
class Linked:
    """One that leads to itself."""

    number: Annotated[int, annotated_types.Gt(5)]
    next: Linked | None = None


ANNOTATIONS = {
    **{name: Annotated[int, rule] for name, rule in RULES.items()},
    **{f"{name} or None": Annotated[int, rule] | None for name, rule in RULES.items()},
    **{f"list of {name}": list[Annotated[int, rule]] for name, rule in RULES.items()},  # type: ignore[valid-type]
    **{f"{name} behind text": Annotated[int, "a number", rule] for name, rule in RULES.items()},
    "dataclass": Counted,
    "dataclass by Meta": CountedByMeta,
    "TypedDict": Typed,
    "linked": Linked,
}
LIBRARIES = {
    "none": (),
    "pydantic": ("pipeline.publishing.pydantic",),
    "msgspec": ("pipeline.publishing.msgspec",),
    "both": ("pipeline.publishing.pydantic", "pipeline.publishing.msgspec"),
}


JSON = {"CONTENT_TYPE": "application/json"}


class Root(dict[str, Any]):
    """What is published."""


def published(show: Any, scan: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """A site with that view."""
    module = ModuleType("of_rules")
    monkeypatch.setitem(sys.modules, "of_rules", module)
    show.__module__ = "of_rules"
    module.show = view(context=Root, name="show", methods=("GET", "POST"))(show)  # type: ignore[attr-defined]
    named = ("of_rules", "pipeline.publishing.json", *scan)
    return Pipeline(errors(), forms(), traverse(root=Root), publisher(scan=named))


def loaded(annotation: Any, scan: tuple[str, ...], as_text: bool, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """A site with a view that takes such a parameter."""

    def show(context: Any, request: Any, number: Any) -> dict[str, str]:
        return {"number": repr(number)}

    show.__globals__["Asked"] = annotation
    show.__annotations__["number"] = "Asked" if as_text else annotation
    return published(show, scan, monkeypatch)


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("libraries", LIBRARIES)
@pytest.mark.parametrize("name", ANNOTATIONS)
def test_a_rule_is_enforced_or_the_site_does_not_load(
    name: str, libraries: str, as_text: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        app = loaded(ANNOTATIONS[name], LIBRARIES[libraries], as_text, monkeypatch)
    except ViewError:
        return
    body = b'{"number": 1}' if "list" not in name else b'{"number": [1]}'
    assert ask(app, "/show", "POST", body, environ=JSON).status_int == 400
    assert ask(app, "/show", "POST", body.replace(b"1", b"9"), environ=JSON).status_int == 200


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("libraries", ["pydantic", "msgspec", "both"])
def test_each_library_knows_its_own(libraries: str, as_text: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above does not pass because nothing loads."""
    if libraries != "msgspec":
        rules = ("Field", "Gt", "Interval", "Predicate", "AfterValidator")
        for name in (*rules, "list of Field", "dataclass", "TypedDict", "linked"):
            loaded(ANNOTATIONS[name], LIBRARIES[libraries], as_text, monkeypatch)
    if libraries != "pydantic":
        for name in ("Meta", "Meta or None", "list of Meta", "dataclass by Meta"):
            loaded(ANNOTATIONS[name], LIBRARIES[libraries], as_text, monkeypatch)


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("libraries", LIBRARIES)
def test_a_text_is_no_rule(libraries: str, as_text: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    app = loaded(Annotated[int, "how many"], LIBRARIES[libraries], as_text, monkeypatch)
    assert ask(app, "/show?number=1").status_int == 200


def test_the_message_names_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ViewError, match=r"parameter 'number'.*rule Gt\(gt=5\).*pipeline.publishing.pydantic"):
        loaded(ANNOTATIONS["Gt"], LIBRARIES["msgspec"], True, monkeypatch)


@pytest.mark.parametrize(
    "default", [pydantic.Field(5, ge=1), field(default=5), pydantic.Field(default_factory=list)]
)
@pytest.mark.parametrize("libraries", LIBRARIES)
def test_a_field_of_a_library_is_no_default(default: Any, libraries: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The view would get the field itself."""

    def show(context: Any, request: Any, number: int = default) -> str:
        return repr(number)

    with pytest.raises(ViewError, match=r"parameter 'number' would be .*Annotated"):
        published(show, LIBRARIES[libraries], monkeypatch)


# Results.


@dataclass
class Pair:
    left: int
    right: str = "r"


@pytest.mark.parametrize("libraries", ["pydantic", "msgspec", "both"])
def test_a_dataclass_is_a_result(libraries: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a list of them is, and as a parameter."""

    def show(context: Any, request: Any) -> Pair:
        return Pair(1)

    assert ask(published(show, LIBRARIES[libraries], monkeypatch), "/show").json == {"left": 1, "right": "r"}
