"""Converters in the names of fields: each one good, bad, repeated and combined."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime
from io import BytesIO
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from webob.exc import HTTPBadRequest

from pipeline.forms.converters import CONVERTERS, WORDS, FieldError, collect
from pipeline.forms.upload import Upload

FILE = Upload("a.txt", "text/plain", BytesIO(b"text"), 4)

GOOD: dict[str, list[tuple[str, Any]]] = {
    "int": [("0", 0), (" -12 ", -12), ("+7", 7), ("007", 7), ("9" * 100, int("9" * 100))],
    "long": [("5", 5)],
    "float": [("1.5", 1.5), (" .5", 0.5), ("5.", 5.0), ("-1e3", -1000.0), ("1E-3", 0.001), ("7", 7.0)],
    "bool": [("true", True), ("ON", True), ("1", True), ("False", False), ("0", False), ("", False)],
    "boolean": [("on", True), ("yes", True), ("off", False), ("no", False), (" ", False)],
    "date": [("2024-02-29", date(2024, 2, 29)), (" 1999-12-31 ", date(1999, 12, 31))],
    "datetime": [
        ("2024-02-29T12:30", datetime(2024, 2, 29, 12, 30)),
        ("2024-02-29t12:30", datetime(2024, 2, 29, 12, 30)),
        ("2024-02-29 12:30:01+00:00", datetime(2024, 2, 29, 12, 30, 1, tzinfo=UTC)),
    ],
    "string": [("", ""), (" a\r\n", " a\r\n")],
    "ustring": [("ü", "ü")],
    "text": [("a\r\nb\rc\n", "a\nb\nc\n"), ("", "")],
    "utext": [("a\r\n", "a\n")],
    "lines": [("a\r\n\r\nb", ["a", "", "b"]), ("a\n", ["a"]), ("", []), ("a\x0bb\u2028c", ["a\x0bb\u2028c"])],
    "ulines": [("a\rb", ["a", "b"])],
    "tokens": [(" a  b\tc\n", ["a", "b", "c"]), ("", [])],
    "utokens": [("a", ["a"])],
}
BAD: dict[str, list[str]] = {
    "int": ["", " ", "x", "1.0", "1_000", "0x10", "٣", "²", "--1", "1 2", "9" * 10_000],
    "long": ["5L"],
    "float": ["", "x", "nan", "inf", "-Infinity", "1e999", "1_0", "1,5", ".", "e5", "٣"],
    "bool": ["x", "2", "truee", "None"],
    "boolean": ["wahr"],
    "date": ["", "x", "2023-02-29", "20240229", "2024-2-9", "29.02.2024", "2024-02-29T12:00", "٢٠٢٤-01-01"],
    "datetime": ["", "x", "2024-02-29", "2024-02-29T25:00", "2024-02-30T12:00", "2024-02-29T", "12:00",
                 "2024-02-29-05:00", "2024-02-29+12:00", "2024-02-29x12:00"],  # a date with a zone (XML Schema)
}


@pytest.mark.parametrize(
    ("word", "text", "value"), [(word, *case) for word, cases in GOOD.items() for case in cases]
)
def test_good(word: str, text: str, value: Any) -> None:
    form, view = collect([(f"x:{word}", text)])
    assert form == {"x": value}
    assert type(form["x"]) is type(value)
    assert view is None


@pytest.mark.parametrize(("word", "text"), [(w, t) for w, cases in BAD.items() for t in cases])
def test_bad(word: str, text: str) -> None:
    with pytest.raises(FieldError) as caught:
        collect([(f"x:{word}", text)])
    error = caught.value
    assert isinstance(error, HTTPBadRequest)
    assert (error.field, error.value) == (f"x:{word}", text)
    assert error.rule.startswith("it is ")
    assert error.detail == f"Field 'x:{word}', value {text[:80]!r}: {error.rule}."


def test_every_converter_is_in_the_table() -> None:
    assert set(GOOD) == set(CONVERTERS)


@pytest.mark.parametrize("word", list(CONVERTERS))
def test_repeated(word: str) -> None:
    text, value = GOOD[word][0]
    assert collect([(f"x:{word}", text)] * 3)[0] == {"x": [value] * 3}
    if word in BAD:
        with pytest.raises(FieldError):
            collect([(f"x:{word}", text), (f"x:{word}", BAD[word][-1])])


@pytest.mark.parametrize("word", list(CONVERTERS))
@pytest.mark.parametrize(
    ("words", "shape"),
    [
        ("{}:list", lambda value: {"x": [value]}),
        ("list:{}", lambda value: {"x": [value]}),
        ("{}:tuple", lambda value: {"x": (value,)}),
        ("required:{}:list", lambda value: {"x": [value]}),
        ("{}:default", lambda value: {"x": value}),
        ("{}:list:default", lambda value: {"x": [value]}),
        ("{}:ignore_empty", lambda value: {"x": value}),
    ],
)
def test_combined(word: str, words: str, shape: Any) -> None:
    text, value = next(case for case in GOOD[word] if case[0])
    assert collect([("x:" + words.format(word), text)])[0] == shape(value)


SHAPES = ["x:{}:list", "x:tuple:{}", "x:{}:required", "x:{}:default", "x.a:{}:record", "x.a:records:{}:list"]


@pytest.mark.parametrize("word", list(CONVERTERS))
@pytest.mark.parametrize("shape", SHAPES)
def test_bad_and_combined(word: str, shape: str) -> None:
    """A bad value is refused in every shape, beside a good one too; and so is a file, by every converter."""
    name = shape.format(word)
    good = next(text for text, _ in GOOD[word] if text)
    for bad in (*BAD.get(word, ()), FILE):
        with pytest.raises(FieldError) as caught:
            collect([(name, good), (name, bad)])
        assert (caught.value.field, caught.value.value) == (name, bad)


@pytest.mark.parametrize("word", list(CONVERTERS))
def test_what_is_empty_can_be_ignored(word: str) -> None:
    text, value = next(case for case in GOOD[word] if case[0])
    name = f"x:{word}:ignore_empty"
    assert collect([(name, "")])[0] == {}
    assert collect([(name, ""), (name, text)])[0] == {"x": value}
    if word in BAD:
        with pytest.raises(FieldError):
            collect([(name, BAD[word][-1])])


@pytest.mark.parametrize("word", list(CONVERTERS))
@pytest.mark.parametrize("kind", ["record", "records"])
def test_combined_with_records(word: str, kind: str) -> None:
    text, value = next(case for case in GOOD[word] if case[0])
    names = f"x.a:{word}:{kind}", f"x.b:{kind}:{word}:list", f"x.c:tuple:{kind}:{word}"
    form = collect([(name, text) for name in names])
    record = {"a": value, "b": [value], "c": (value,)}
    assert form[0] == {"x": record if kind == "record" else [record]}


FIELDS: list[tuple[str, list[tuple[str, Any]], dict[str, Any]]] = [
    ("plain", [("a", "1"), ("b", "2"), ("a", "3")], {"a": ["1", "3"], "b": "2"}),
    ("nothing", [], {}),
    ("no name", [("", "1")], {}),
    ("empty", [("a", "")], {"a": ""}),
    ("unknown words", [("og:title", "1"), ("a:int:", "2"), ("a:b:int", "3"), ("a:int:b", "4")],
     {"og:title": "1", "a:int:": "2", "a:b": 3, "a:int:b": "4"}),
    ("a mixed list", [("a", "1"), ("a:int", "2")], {"a": ["1", 2]}),
    ("list of one", [("a:list", "1")], {"a": ["1"]}),
    ("list of some", [("a:list", "1"), ("a:int", "2")], {"a": ["1", 2]}),
    ("tuple", [("a:tuple:int", "1"), ("a:tuple:int", "2")], {"a": (1, 2)}),
    ("list of lists", [("a:lines:list", "1\n2"), ("a:lines:list", "3")], {"a": [["1", "2"], ["3"]]}),
    ("file", [("a", FILE), ("b:list", FILE)], {"a": FILE, "b": [FILE]}),
    ("file in a record", [("a.f:record", FILE)], {"a": {"f": FILE}}),
    ("file required", [("a:required", FILE)], {"a": FILE}),
    ("record", [("a.b:record", "1"), ("a.c:record", "2"), ("a.b:record", "3")], {"a": {"b": "3", "c": "2"}}),
    ("record with dots", [("a.b.c:record", "1")], {"a.b": {"c": "1"}}),
    ("record with list", [("a.b:list:record", "1"), ("a.b:list:record", "2")], {"a": {"b": ["1", "2"]}}),
    ("record of odd names", [("a.__class__:record", "1"), ("a.items:record", "2")],
     {"a": {"__class__": "1", "items": "2"}}),
    ("record without a dot", [("a:record", "1"), ("b:record", "2")], {"": {"a": "1", "b": "2"}}),
    ("records without a dot", [("a:records", "1"), ("a:int:records", "2")], {"": [{"a": "1"}, {"a": 2}]}),
    ("record with an empty item", [("a.:record", "1"), (".b:record", "2")], {"a": {"": "1"}, "": {"b": "2"}}),
    ("records", [("a.b:records", "1"), ("a.c:records", "2"), ("a.b:records", "3"), ("a.c:records:int", "4")],
     {"a": [{"b": "1", "c": "2"}, {"b": "3", "c": 4}]}),
    ("records with list",
     [("a.b:records", "1"), ("a.l:list:records", "x"), ("a.l:list:records", "y"), ("a.b:records", "2"),
      ("a.l:list:records", "z")],
     {"a": [{"b": "1", "l": ["x", "y"]}, {"b": "2", "l": ["z"]}]}),
    ("ignore_empty", [("a:ignore_empty", ""), ("b:int:ignore_empty", "")], {}),
    ("not empty", [("a:ignore_empty", " "), ("b:int:ignore_empty", "0")], {"a": " ", "b": 0}),
    ("ignored among others", [("a:list:ignore_empty", ""), ("a:list:ignore_empty", "1")], {"a": ["1"]}),
    ("default alone", [("a:int:default", "1")], {"a": 1}),
    ("default not used", [("a:int:default", "1"), ("a:int", "2")], {"a": 2}),
    ("default afterwards", [("a:int", "2"), ("a:int:default", "1")], {"a": 2}),
    ("default of a checkbox", [("a:bool:default", ""), ("b:bool:default", ""), ("b:bool", "on")],
     {"a": False, "b": True}),
    ("default for an empty one", [("a:int:default", "1"), ("a:int", "")], {"a": 1}),
    ("default for one that is required", [("a:default", "1"), ("a:required", " ")], {"a": "1"}),
    ("default list", [("a:list:default", "1"), ("a:list:default", "2")], {"a": ["1", "2"]}),
    ("default list not used", [("a:list:default", "1"), ("a:list", "2")], {"a": ["2"]}),
    ("default tuple", [("a:tuple:default", "1")], {"a": ("1",)}),
    ("default record", [("a.b:record:default", "1"), ("a.c:record:default", "2"), ("a.c:record", "3")],
     {"a": {"b": "1", "c": "3"}}),
    ("default record alone", [("a.b:record:default", "1")], {"a": {"b": "1"}}),
    ("default record for an empty one", [("a.b:int:record:default", "1"), ("a.b:int:record", "")],
     {"a": {"b": 1}}),
    ("default records",
     [("a.b:records:default", "0"), ("a.c:records", "1"), ("a.b:records", "2"), ("a.c:records", "3")],
     {"a": [{"c": "1", "b": "2"}, {"c": "3", "b": "0"}]}),
    ("default tuple in a record", [("a.b:tuple:record:default", "1"), ("a.c:record", "2")],
     {"a": {"b": ("1",), "c": "2"}}),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "form"), [case[1:] for case in FIELDS], ids=[case[0] for case in FIELDS])
def test_forms(fields: list[tuple[str, Any]], form: dict[str, Any]) -> None:
    assert collect(fields) == (form, None)


CONTRADICTIONS: list[tuple[list[tuple[str, Any]], str]] = [
    ([("a:int:float", "1")], "two converters"),
    ([("a:int:int", "1")], "':int' twice"),
    ([("a:list:int:list", "1")], "':list' twice"),
    ([("a:list:tuple", "1")], "two shapes"),
    ([("a.b:record:records", "1")], "two shapes"),
    ([(":record", "1")], "no name"),
    ([(":int", "1")], "no name"),
    ([("a:method:int", "1")], "no other word"),
    ([("a:method:action", "1")], "no other word"),
    ([("a", "1"), ("a.b:record", "1")], "not a record elsewhere"),
    ([("a.b:record", "1"), ("a", "1")], "a record elsewhere"),
    ([("a.b:record", "1"), ("a.b:records", "1")], "not a record elsewhere"),
    ([("a.b:record", "1"), ("a.b:list:record", "1")], "not a sequence elsewhere"),
    ([("a:required", "")], "it is required"),
    ([("a:required", " \n")], "it is required"),
    ([("a:required:int", "")], "it is required"),
    ([("a.b:required:record", "")], "it is required"),
    ([("a:required:ignore_empty", " ")], "it is required"),
    ([("a:int", FILE)], "it is a file, and text is expected"),
    ([("a:text", FILE)], "it is a file, and text is expected"),
    ([("a:int:default", "x")], "not a whole number"),
    ([("a:int:default", "1"), ("a:int", "x")], "not a whole number"),
    ([("edit:method", "1"), ("delete:method", "1")], "another view"),
    ([(":method", FILE)], "another view"),
]


@pytest.mark.parametrize(("fields", "rule"), CONTRADICTIONS)
def test_contradictions(fields: list[tuple[str, Any]], rule: str) -> None:
    with pytest.raises(FieldError, match=rule) as caught:
        collect(fields)
    assert (caught.value.field, caught.value.value) in fields


@pytest.mark.parametrize(
    ("fields", "form", "name"),
    [
        ([("edit:method", "Save")], {"edit": "Save"}, "edit"),
        ([("edit:action", "Save"), ("a", "1")], {"edit": "Save", "a": "1"}, "edit"),
        ([(":method", "edit")], {}, "edit"),
        ([(":action", "edit")], {}, "edit"),
        ([(":method", "")], {}, ""),
        ([("edit:method.x", "1"), ("edit:method.y", "2")], {"edit": ["1", "2"]}, "edit"),
        ([("edit:action.x", "1"), ("edit:action.y", "2")], {"edit": ["1", "2"]}, "edit"),
        ([("edit:default_method", "1")], {"edit": "1"}, "edit"),
        ([("edit:default_action", "1"), ("delete:method", "2")], {"edit": "1", "delete": "2"}, "delete"),
        ([("delete:action", "1"), ("edit:default_action", "2")], {"delete": "1", "edit": "2"}, "delete"),
        ([("edit:method", "1"), ("edit:action", "2")], {"edit": ["1", "2"]}, "edit"),
        ([("a:b:method", "1")], {"a:b": "1"}, "a:b"),
    ],
)
def test_fields_that_name_a_view(fields: list[tuple[str, Any]], form: dict[str, Any], name: str) -> None:
    assert collect(fields) == (form, name)


def test_converters_of_ones_own() -> None:
    def upper(text: str) -> str:
        if not text:
            raise ValueError("it says nothing")
        return text.upper()

    converters = {**CONVERTERS, "upper": upper}
    assert collect([("a:upper:list", "x")], converters) == ({"a": ["X"]}, None)
    assert collect([("a:upper", "x")]) == ({"a:upper": "x"}, None)
    with pytest.raises(FieldError, match="Field 'a:upper', value '': it says nothing"):
        collect([("a:upper", "")], converters)


def test_an_error_shows_only_the_beginning_of_what_was_sent() -> None:
    error = FieldError("n" * 1000, "v" * 1000, "it is long")
    assert len(str(error)) < 250


_words = st.sampled_from([*CONVERTERS, *WORDS, "x", "", "method.x", "int.y"])
_names = st.lists(_words, max_size=6).flatmap(
    lambda words: st.sampled_from(["a", "a.b", "b", ".", "", "a:b", "__class__"]).map(
        lambda name: ":".join([name, *words])
    )
)
_texts = st.sampled_from(["", " ", "1", "x", "on", "2024-01-01", "a\r\nb"]) | st.text(max_size=5)


@given(st.lists(st.tuples(_names | st.text(max_size=8), _texts | st.just(FILE)), max_size=8))
@example([("a.b:list:record:default", "1"), ("a.b:tuple:records", "1")])
@example([("a.b:lines:record", "1"), ("a.b:list:record", "1")])
def test_nothing_but_400_escapes(fields: list[tuple[str, Any]]) -> None:
    try:
        form, view = collect(fields)
    except FieldError as error:
        assert error.rule
    else:
        assert all(isinstance(name, str) for name in form)
        assert view is None or isinstance(view, str)


COUNT = 1000
"""As many fields as ``forms`` takes."""


@pytest.mark.parametrize(
    "fields",
    [
        [("a" + ":int" * 100_000, "1")],
        [(":" * 300_000, "1")],
        [("a" + ":x" * 100_000 + ":int", "1")],
        [("a" + "." * 300_000 + "b:record", "1")],
        [("a:int", "9" * 1_000_000)],
        [("a:int", " " * 1_000_000)],
        [("a:float", "1" * 1_000_000)],
        [("a:date", "2" * 1_000_000)],
        [("a:datetime", "2024-01-01T" + "0" * 1_000_000)],
        [("a:lines", "\r\n" * 500_000)],
        [(f"a.{n}:records:default", "") for n in range(COUNT // 2)] + [("a.x:records", "")] * (COUNT // 2),
    ],
    ids=lambda fields: f"{fields[0][0]:.20}",
)
def test_the_worst_is_read_in_linear_time(fields: list[tuple[str, Any]]) -> None:
    """S12."""
    start = time.process_time()
    try:
        collect(fields)
    except FieldError:
        pass
    assert time.process_time() - start < 1


MANY = 10_000
RECORDS = {
    # what it is, of 2 * MANY fields: the fields, and the number of records, or None if they are refused
    "defaults of one item": (
        [("a.x:records:default", "1")] * MANY + [("a.y:records", "2")] * MANY,
        MANY,
    ),
    "a default in the last record": (
        [("a.x:records:default", "1")] * MANY
        + [("a.y:records:default", "1")]
        + [("a.y:int:records", "")] * MANY
        + [("a.z:records", "1")],
        1,
    ),
    "tuples": (
        [(f"a.{number}:tuple:records", "1") for number in range(MANY)] + [("a.x:records", "2")] * MANY,
        MANY,
    ),
    "defaults of many items for many records": (
        [(f"a.{number}:records:default", "1") for number in range(MANY)] + [("a.x:records", "2")] * MANY,
        None,
    ),
}


@pytest.mark.parametrize("name", RECORDS)
def test_records_are_read_in_linear_time(name: str) -> None:
    """S12: these took seconds to minutes, each field with each record."""
    fields, count = RECORDS[name]
    start = time.process_time()
    try:
        form, _ = collect(fields)
    except FieldError as error:
        assert count is None and "defaults for more than 10000 items" in error.rule
    else:
        assert len(form["a"]) == count
    assert time.process_time() - start < 1
