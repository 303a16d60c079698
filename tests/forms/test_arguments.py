"""Views are called with the fields of the form that they ask for, or it is said what is wrong with these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import wraps
from typing import Any, Literal

import pytest

from pipeline import Pipeline, Request, Response, view
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.forms.converters import FieldError, IFieldConverter
from pipeline.forms.upload import Upload
from pipeline.interfaces import ConfigurationError, ViewError
from pipeline.views import View, utility

JSON = "application/json"


@pytest.fixture
def ask(publish: Callable[..., Pipeline], call: Callable[..., Any]) -> Callable[..., Any]:
    """``ask(function, query, body, type)``: the answer of a view that is called with fields."""

    def ask(function: Any, query: str = "", body: bytes = b"", type: str = JSON) -> Any:
        app = publish(view(methods=("GET", "POST"))(function), outer=(errors(), forms()))
        return call(app, f"/?{query}", "POST" if body else "GET", body, CONTENT_TYPE=type)

    return ask


def test_fields_are_passed_by_name(ask: Any) -> None:
    def call(context: Any, request: Request, response: Response, a: int, b: str = "none", *, c: float) -> str:
        return repr((a, b, c, response.status_int))

    assert ask(call, "c=1.5&a=2&x=3").text == "(2, 'none', 1.5, 200)"
    assert ask(call, "c=1.5&a=2&b=").text == "(2, '', 1.5, 200)"


def test_fields_of_json_are_passed(ask: Any) -> None:
    def call(
        context: Any, request: Request, n: int, f: float, t: list[str], d: dict[str, Any], o: int | None
    ) -> str:
        return repr((n, f, t, d, o))

    body = b'{"n": 1, "f": 2, "t": ["a"], "d": {"x": []}, "o": null}'
    assert ask(call, body=body).text == "(1, 2.0, ['a'], {'x': []}, None)"


def test_a_class_is_called_with_fields(ask: Any) -> None:
    class Call:
        def __init__(self, context: Any, request: Request) -> None:
            self.request = request

        def __call__(self, a: int = 1) -> str:
            return f"{a} {sorted(self.request.form)}"

    assert ask(Call, "a=2&b").text == "2 ['a', 'b']"
    assert ask(Call).text == "1 []"


def test_a_wrapped_view_is_called_with_its_fields(ask: Any) -> None:
    def call(context: Any, request: Request, a: int) -> str:
        return repr(a)

    @wraps(call)
    def wrapped(*args: Any, **kwargs: Any) -> str:
        return "wrapped " + call(*args, **kwargs)

    wrapped.__qualname__ = wrapped.__name__ = "wrapped"
    assert ask(wrapped, "a=2").text == "wrapped 2"

    def bare(*args: Any, **kwargs: Any) -> str:
        return f"{len(args)} {kwargs}"

    assert ask(bare, "a=2").text == "2 {}"


VALUES: list[tuple[Any, str, Any]] = [
    # annotation, query, value or the rule that is broken
    (int, "a=1", 1),
    (int, "a:int=1", 1),
    (int, "a=x", "'x': it is not a whole number"),
    (int, "", "'a': it is missing"),
    (int, "a=", "'a': it is missing"),
    (int, "a=1&a=2", "it is not a whole number"),
    (float, "a=1", 1.0),
    (float, "a:int=1", 1.0),
    (float, "a=nan", "it is not a number"),
    (bool, "a=on", True),
    (bool, "a=no", False),
    (bool, "a=x", "neither true nor false"),
    (bool, "a:int=1", "it is not true"),
    (bool, "", "it is missing"),
    (str, "a=1", "1"),
    (str, "a=", ""),
    (str, "a:int=1", "value 1: it is not text"),
    (str, "a=1&a=2", "it is not text"),
    (date, "a=2024-01-02", date(2024, 1, 2)),
    (date, "a:date=2024-01-02", date(2024, 1, 2)),
    (date, "a:datetime=2024-01-02T03:04", "it is not a date"),
    (date, "a=x", "it is not a date"),
    (datetime, "a=2024-01-02T03:04", datetime(2024, 1, 2, 3, 4)),
    (datetime, "a=2024-01-02", "it is not a date and time"),
    (list[int], "a=1&a=2", [1, 2]),
    (list[int], "a=1", [1]),
    (list[int], "a:tuple:int=1", [1]),
    (list[int], "", []),
    (list[int], "a=", []),
    (list[int], "a=1&a=x", "it is not a whole number"),
    (list, "a=1", ["1"]),
    (list[date], "a=2024-01-02", [date(2024, 1, 2)]),
    (list[list[str]], "a:lines:list=1", [["1"]]),
    (dict, "a.b:record=1", {"b": "1"}),
    (dict[str, Any], "a.b:int:record=1", {"b": 1}),
    (dict, "a=1", "it is not a record"),
    (list[dict], "a.b:records=1&a.b:records=2", [{"b": "1"}, {"b": "2"}]),
    (int | None, "a=1", 1),
    (int | None, "", None),
    (int | None, "a=", None),
    (int | None, "a=x", "not a whole number"),
    (str | None, "", None),
    (str | None, "a=", ""),
    (int | str, "a=x", "x"),
    (int | str, "a=1", 1),
    (list[int] | None, "", None),
    (list[int] | None, "a=1", [1]),
    (Literal["x", "y"], "a=x", "x"),
    (Literal["x", "y"], "a=z", "it is not one of x, y"),
    (Literal["x"], "a=", "missing"),
    (Literal["", "x"], "a=", ""),
    (Literal["", "x"] | None, "a=", ""),
    (int | Literal[""], "a=", ""),
    (Upload, "a=1", "it is not a file"),
    (Upload | None, "", None),
    (Upload | None, "a=", None),
    (Any, "a=1", "1"),
    (Any, "a:int=1", 1),
    (object, "a=", ""),
    (Any, "", "it is missing"),
]


@pytest.mark.parametrize(("annotation", "query", "expected"), VALUES)
def test_values_by_annotation(ask: Any, annotation: Any, query: str, expected: Any) -> None:
    def call(context: Any, request: Request, a) -> str:  # type: ignore[no-untyped-def]
        return repr(a)

    call.__annotations__["a"] = annotation
    answer = ask(call, query)
    if answer.status == 200:
        assert answer.text == repr(expected)
    else:
        assert answer.status == 400
        assert expected and expected in answer.text
        assert answer.text.startswith("Field 'a'")


@pytest.mark.parametrize(
    ("default", "query", "value"),
    [(5, "", 5), (5, "a=", 5), (5, "a=6", 6), (None, "", None), (None, "a=", None), ("odd", "", "odd")],
)
def test_defaults(ask: Any, default: Any, query: str, value: Any) -> None:
    def call(context: Any, request: Request, a: int = default) -> str:
        return repr(a)

    assert ask(call, query).text == repr(value)
    assert ask(call, "a=x").status == 400


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (b'{"n": true, "f": 1}', "'n', value True: it is not a whole number"),
        (b'{"n": 1.0, "f": 1}', "'n', value 1.0: it is not a whole number"),
        (b'{"n": null, "f": 1}', "'n', value None"),
        (b'{"n": [], "f": 1}', "'n', value []: it is not a whole number"),
        (b'{"n": 1, "f": 1e999}', "not valid JSON"),
        (b'{"n": 1, "f": ' + b"9" * 400 + b"}", "it is not a number"),
    ],
)
def test_json_values_that_do_not_fit(ask: Any, body: bytes, rule: str) -> None:
    def call(context: Any, request: Request, n: int, f: float) -> str:
        return repr((n, f))

    answer = ask(call, body=body)
    assert answer.status == 400
    assert rule in answer.text or rule == "'n', value None"


@pytest.mark.parametrize(
    ("annotation", "body", "expected"),
    [
        (list | None, b'{"a": null}', None),
        (list[Any] | None, b'{"a": null}', None),
        (dict[str, list | None], b'{"a": {"b": null, "c": 1}}', {"b": None, "c": [1]}),
        (list[Any | None], b'{"a": [null]}', [None]),
        (list[Any], b'{"a": null}', "it is not a list"),
    ],
)
def test_a_null_of_json_is_not_a_list_with_a_null(ask: Any, annotation: Any, body: bytes, expected: Any) -> None:
    def call(context: Any, request: Request, a) -> str:  # type: ignore[no-untyped-def]
        return repr(a)

    call.__annotations__["a"] = annotation
    answer = ask(call, body=body)
    assert expected in answer.text if isinstance(expected, str) else answer.text == repr(expected)


def test_two_requests_share_no_list(publish: Any, call: Any) -> None:
    @view()
    def add(context: Any, request: Request, a: list[int]) -> str:
        a.append(1)
        return repr(a)

    app = publish(add, outer=(errors(), forms()))
    assert [call(app).text for _ in range(2)] == ["[1]", "[1]"]


def test_field_errors_have_an_error_view(publish: Any, call: Any) -> None:
    @view(context=FieldError)
    def wrong(error: FieldError, request: Request) -> str:
        return f"{error.field}|{error.value}|{error.rule}"

    @view()
    def add(context: Any, request: Request, a: int) -> str:
        return repr(a)

    app = publish(wrong, add, outer=(errors(), forms()))
    answer = call(app, "/?a=%3Cb%3E")
    assert (answer.status, answer.text) == (400, "a|<b>|it is not a whole number")
    assert call(app, "/?b:int=x").text == "b:int|x|it is not a whole number"
    plain = call(publish(add, outer=(errors(), forms())), "/?a=%3Cb%3E")
    assert plain.headers["Content-Type"].startswith("text/plain"), "S7"


def test_without_forms_it_is_said_what_is_missing(
    publish: Any, call: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """At load, or by the request if a view reads the form by itself."""

    @view()
    def add(context: Any, request: Request, a: int) -> str:
        return repr(a)

    @view(name="look")
    def look(context: Any, request: Request) -> str:
        return repr(request.form)

    with pytest.raises(ConfigurationError, match=r"add .* takes the fields a, .* add forms"):
        publish(add, look)
    assert call(publish(look), "/look").status == 500 and "has no attribute 'form'" in caplog.text
    assert not hasattr(Request({}), "form")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def call(context, request, a: Thing): ...", "no converter makes a Thing of a field"),
        ("def call(context, request, a: set[int]): ...", "no converter makes a set"),
        ("def call(context, request, a: Literal[1]): ...", "no converter makes a "),
        ("def call(context, request, a: list[Thing]): ...", "no converter makes a Thing of a field"),
        ("def call(context, request, a: 'Missing'): ...", "'Missing'. cannot be read"),
        ("def call(context, request, a, /): ...", "'a' comes from the form and is passed by name"),
        ("def call(context, request, a, response): ...", "'response' stands too late"),
        ("def call(context): ...", "takes context; a view must take"),
        ("def call(): ...", "takes nothing; a view must take"),
        (
            "class call:\n def __init__(self, c, r): ...\n def __call__(self, a: Thing): ...",
            "no converter makes a Thing of a field",
        ),
    ],
)
def test_views_that_cannot_be_called_are_refused_at_load(ask: Any, source: str, said: str) -> None:
    names: dict[str, Any] = {"Thing": type("Thing", (), {}), "Literal": Literal}
    exec(source, names)
    with pytest.raises(ViewError, match=said):
        ask(names["call"])


@utility(IFieldConverter, name="decimal")
class ToDecimal:
    def __call__(self, text: str) -> Decimal:
        try:
            return Decimal(text)
        except InvalidOperation:
            raise ValueError("it is not a price") from None


def price(context: Any, request: Request, price: Decimal, more: list[Decimal], none: Decimal | None = None) -> str:
    return repr((price, more, none))


PRICED: list[tuple[str, bytes, str]] = [
    ("price=1.50", b"", "(Decimal('1.50'), [], None)"),
    (
        "price:decimal=1.50&more=1&more=2&none=3",
        b"",
        "(Decimal('1.50'), [Decimal('1'), Decimal('2')], Decimal('3'))",
    ),
    ("none=", b'{"price": 12.5, "more": [3]}', "(Decimal('12.5'), [Decimal('3')], None)"),
    ("price=dear", b"", "Field 'price', value 'dear': it is not a price."),
    ("", b'{"price": true}', "Field 'price', value True: it is neither text nor a number."),
    ("more=1", b"", "Field 'price': it is missing."),
]


@pytest.mark.parametrize(("query", "body", "answer"), PRICED)
@pytest.mark.parametrize("order", [1, -1])
def test_a_converter_of_ones_own_makes_the_values_of_its_class(
    publish: Any, call: Any, query: str, body: bytes, answer: str, order: int
) -> None:
    """Wherever the view and the converter stand: the word in the name of a field and the annotation are one way."""
    parts = [view(methods=("GET", "POST"))(price), ToDecimal][::order]
    app = publish(*parts, outer=(errors(), forms()))
    sent = call(app, f"/?{query}", "POST" if body else "GET", body, CONTENT_TYPE=JSON)
    assert answer in sent.text


def test_two_converters_of_one_class_are_refused_for_a_view_that_needs_one(publish: Any) -> None:
    @utility(IFieldConverter, name="euro")
    class ToEuro(ToDecimal):
        pass

    publish(ToDecimal, ToEuro, outer=(errors(), forms()))
    with pytest.raises(ViewError, match=r"two converters make a Decimal: ToDecimal and .*ToEuro"):
        publish(view()(price), ToDecimal, ToEuro, outer=(errors(), forms()))


def test_error_views_take_no_fields(publish: Any) -> None:
    @view(context=FieldError)
    def wrong(error: FieldError, request: Request, a: int = 1) -> str:
        return ""

    with pytest.raises(ViewError, match="an error view cannot take fields"):
        publish(wrong)


def test_annotations_may_be_strings(ask: Any) -> None:
    names: dict[str, Any] = {"Upload": Upload}
    source = (
        "from __future__ import annotations\n"
        "def call(context, request: Missing, a: int, f: Upload | None):\n"
        "    return repr(a)"
    )
    exec(source, names)
    assert ask(names["call"], "a=1").text == "1"


def test_views_without_fields_are_called_as_they_are() -> None:
    """What is not used costs nothing."""

    def call(context: Any, request: Request) -> str:
        return ""

    found = View(call, "", ("GET",), None)
    assert found.call is call
    assert found.fill is None


@pytest.mark.parametrize(
    ("annotation", "body", "result"),
    [
        (dict[str, int], b'{"d": {"a": 1}}', "{'a': 1}"),
        (dict[str, int], b'{"d": {"a": "x"}}', "it is not a whole number"),
        (list[dict[str, int]], b'{"d": [{"a": 1}, {"b": 2.5}]}', "it is not a whole number"),
        (Mapping[str, float], b'{"d": {"a": true}}', "it is not a number"),
        (dict[str, list[int]] | None, b'{"d": {"a": [1, null]}}', "it is not a whole number"),
        (dict[str, Any], b'{"d": {"a": [1, null]}}', "{'a': [1, None]}"),
    ],
)
def test_the_members_of_a_record_have_the_type_of_its_annotation(
    ask: Any, annotation: Any, body: bytes, result: str
) -> None:
    def call(context: Any, request: Request, d: Any) -> str:
        return repr(d)

    call.__annotations__["d"] = annotation
    assert result in ask(call, body=body).text


@pytest.mark.parametrize(
    "annotation", [Mapping[int, float], dict[int, str], list[dict[bytes, int]], dict[str, bytes]]
)
def test_a_record_that_no_form_can_have_is_refused_at_load(ask: Any, annotation: Any) -> None:
    def call(context: Any, request: Request, d: Any) -> str:
        return repr(d)

    call.__annotations__["d"] = annotation
    with pytest.raises(ViewError, match=r"record are text|makes a bytes"):
        ask(call, body=b"{}")
