"""Fields of a form, with Zope's converters in their names: ``age:int``, ``address.city:record``.

A name is followed by any number of these words, in any order, each with a colon:

=================================  ==================================================================
int long float bool boolean date   the value has that type. The application can add converters of its own
datetime string text lines tokens  (``IFieldConverter``)
list tuple                         a sequence, also of one value; the words above convert each item
record                             ``a.b:record`` is the item b of the dict a; the last dot counts
records                            the same, and a is a list: an item that is there begins a new dict
required                           a blank value is refused
ignore_empty                       an empty value is ignored
default                            the value counts if the form has no other for that name or item
method action                      ``name:method``, or ``:method`` with the name as value, names the view;
                                   the value of the first is in the form under the name
default_method default_action      the same, if no other field names one
=================================  ==================================================================

A field that is sent repeatedly has a list of values. Any other word behind a colon is part of the name. A value
that cannot be converted is a FieldError: a 400 that names the field, the value and the rule.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import Any, NamedTuple

from webob.exc import HTTPBadRequest
from zope.interface import Interface

Converter = Callable[[str], Any]

_INT = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
BOOLEANS = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0", ""), False)


class FieldError(HTTPBadRequest):
    """A 400 for a field whose value breaks a rule. It names the field, the value and the rule. The value of a
    missing field is None."""

    def __init__(self, field: str, value: Any, rule: str) -> None:
        self.field = field
        self.value = value
        self.rule = rule
        shown = repr(value[:80] if isinstance(value, str) else value)[:100]
        sent = "" if value is None else f", value {shown}"
        super().__init__(f"Field {field[:80]!r}{sent}: {rule}.")


class IFieldConverter(Interface):
    """A converter of the application's own, registered by ``@utility(IFieldConverter, name="word")``.

    It converts the fields whose names have that word, such as ``price:word``. If the annotation of ``__call__``
    says that it returns a class, it also fills the parameters of views that are annotated with this class.
    """

    def __call__(text: str) -> Any:
        """Return the value of ``text``. Raise ValueError if it is not valid, with the rule as its message."""


def to_int(text: str) -> int:
    if not _INT.fullmatch(text := text.strip()):
        raise ValueError("it is not a whole number")
    try:
        return int(text)
    except ValueError:  # Python's limit, since that conversion is not linear
        raise ValueError("it is too long a number") from None


def to_float(text: str) -> float:
    if not _FLOAT.fullmatch(text := text.strip()) or not math.isfinite(number := float(text)):
        raise ValueError("it is not a number")
    return number


def to_bool(text: str) -> bool:
    try:
        return BOOLEANS[text.strip().lower()]
    except KeyError:
        raise ValueError("it is neither true nor false, yes nor no, on nor off, 1 nor 0") from None


def to_date(text: str) -> date:
    with suppress(ValueError):
        if _DATE.fullmatch(text := text.strip()):
            return date.fromisoformat(text)
    raise ValueError("it is not a date such as 2026-01-31")


def to_datetime(text: str) -> datetime:
    with suppress(ValueError):
        if _DATE.fullmatch(text := text.strip(), 0, 10) and text[10:11] in ("T", "t", " "):  # "-" is of a zone
            return datetime.fromisoformat(text)
    raise ValueError("it is not a date and time such as 2026-01-31T12:00")


def to_text(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def to_lines(text: str) -> list[str]:
    lines = to_text(text).split("\n")
    return lines if lines[-1] else lines[:-1]


CONVERTERS: dict[str, Converter] = {
    "int": to_int,
    "long": to_int,
    "float": to_float,
    "bool": to_bool,
    "boolean": to_bool,
    "date": to_date,
    "datetime": to_datetime,
    "string": str,
    "text": to_text,
    "lines": to_lines,
    "tokens": str.split,
}
CONVERTERS |= {f"u{word}": CONVERTERS[word] for word in ("string", "text", "lines", "tokens")}
_SHAPES = frozenset(("list", "tuple", "record", "records"))
_ACTIONS = frozenset(("method", "action", "default_method", "default_action"))
_FILLED = 10_000
"""Upper limit of the items that the defaults of a form add to its records. Each record gets all of them, so that
without a limit the form could grow to the square of the bytes that were sent (S12)."""
WORDS = _SHAPES | _ACTIONS | {"required", "ignore_empty", "default"}
"""The words that do not convert."""


class Field(NamedTuple):
    """The name of a field, read."""

    name: str
    """The name without the words."""
    item: str | None = None
    """The item, if the field is an item of a record."""
    words: frozenset[str] = frozenset()
    convert: Converter | None = None

    @classmethod
    def read(cls, sent: str, value: Any, converters: Mapping[str, Converter] = CONVERTERS) -> Field:
        """Read the name of a field. Raise FieldError if its words contradict each other."""

        def refuse(rule: str) -> FieldError:
            return FieldError(sent, value, rule)

        name = sent
        if sent.endswith((":method.x", ":method.y", ":action.x", ":action.y")):
            name = sent[:-2]  # an <input type="image"> adds where it was clicked
        convert: Converter | None = None
        words: set[str] = set()
        while True:
            head, colon, word = name.rpartition(":")
            if not colon or not (word in WORDS or word in converters):
                break
            if word in words:
                raise refuse(f"its name has ':{word}' twice")
            if word in converters:
                if convert is not None:
                    raise refuse("its name has two converters")
                convert = converters[word]
            words.add(word)
            name = head
        if not words:
            return cls(sent)
        if words & _ACTIONS:
            if len(words) > 1:
                raise refuse("a field that names a view has no other word")
            return cls(name, None, frozenset(words))
        if {"list", "tuple"} <= words or {"record", "records"} <= words:
            raise refuse("its name has two shapes")
        item: str | None = None
        if "record" in words or "records" in words:
            name, _, item = name.rpartition(".")
        if not name and not item:
            raise refuse("it has no name")
        return cls(name, item, frozenset(words), convert)


def collect(
    fields: Iterable[tuple[str, Any]], converters: Mapping[str, Converter] = CONVERTERS
) -> tuple[dict[str, Any], str | None]:
    """Return the values of a form by name, and the name of the view if a field names one.

    fields  names as sent, each with its text or its Upload. Fields without a name are ignored
    """
    fields = [field for field in fields if field[0]]
    read = [
        (Field.read(sent, value, converters) if ":" in sent else Field(sent), sent, value) for sent, value in fields
    ]
    defaults, given = _Collection(), _Collection()
    for field, sent, value in read:
        if "default" in field.words:
            defaults.add(field, sent, _converted(field, sent, value))
    actions: dict[bool, str] = {}
    for field, sent, value in read:
        if field.words & _ACTIONS:
            name = field.name or value
            is_default = "default_method" in field.words or "default_action" in field.words
            if not isinstance(name, str) or actions.setdefault(is_default, name) != name:
                raise FieldError(sent, value, "another field names another view")
            if field.name:
                given.add(Field(field.name), sent, value)
        elif "default" not in field.words and not (value == "" and "ignore_empty" in field.words):
            try:
                value = _converted(field, sent, value)
            except FieldError:
                if not _blank(value) or not defaults.has(field):
                    raise
            else:
                given.add(field, sent, value)
    given.fill(defaults)
    return given.form(), actions.get(False, actions.get(True))


def values_of(fields: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the values by name; a list if a name was sent repeatedly."""
    values = dict(fields)
    if len(values) < len(fields):
        lists: dict[str, list[Any]] = {}
        for name, value in fields:
            lists.setdefault(name, []).append(value)
        values = {name: several if several[1:] else several[0] for name, several in lists.items()}
    return values


def _blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()


def _converted(field: Field, sent: str, value: Any) -> Any:
    if "required" in field.words and _blank(value):
        raise FieldError(sent, value, "it is required")
    if field.convert is None:
        return value
    if not isinstance(value, str):
        raise FieldError(sent, value, "it is a file, and text is expected")
    try:
        return field.convert(value)
    except ValueError as error:
        raise FieldError(sent, value, str(error)) from None


class _Collection:
    """The values of a form, collected field by field."""

    def __init__(self) -> None:
        self.values: dict[str, list[Any]] = {}
        self.records: dict[str, list[dict[str, Any]]] = {}
        self.items: set[tuple[str, str]] = set()
        """Names of records, each with the name of an item that one of them has."""
        self.shape: dict[str, str] = {}
        """By the name of a value, "list" or "tuple" if the name says so. By that of a record, its word."""
        self.tuples: dict[str, set[str]] = {}
        """By the name of a record, the items that are tuples."""

    def has(self, field: Field) -> bool:
        if field.item is None:
            return field.name in self.values
        return (field.name, field.item) in self.items

    def add(self, field: Field, sent: str, value: Any) -> None:
        name, item, words, _ = field
        sequence = "tuple" if "tuple" in words else "list" if "list" in words else ""
        if item is None:
            if name in self.records:
                raise FieldError(sent, value, "it is a record elsewhere in the form")
            self.values.setdefault(name, []).append(value)
            if sequence:
                self.shape[name] = sequence
            return
        shape = "record" if "record" in words else "records"
        if name in self.values or self.shape.setdefault(name, shape) != shape:
            raise FieldError(sent, value, f"it is not a {shape[:6]} elsewhere in the form")
        self.items.add((name, item))
        records = self.records.setdefault(name, [{}])
        record = records[-1]
        if sequence:
            items = record.setdefault(item, [])
            if not isinstance(items, list):
                raise FieldError(sent, value, "it is not a sequence elsewhere in the form")
            items.append(value)
            if sequence == "tuple":
                self.tuples.setdefault(name, set()).add(item)
        elif shape == "records" and item in record:
            records.append({item: value})
        else:
            record[item] = value

    def fill(self, defaults: _Collection) -> None:
        """Take the values that are missing here from ``defaults``."""
        here = self.values.keys() | self.records.keys()
        for name, values in defaults.values.items():
            if name not in here:
                self.values[name] = values
                self.shape.update({name: defaults.shape[name]} if name in defaults.shape else {})
        for name, records in defaults.records.items():
            if name not in here:
                self.records[name] = records
                self.shape[name] = defaults.shape[name]
                continue
            default = {item: value for record in reversed(records) for item, value in record.items()}
            if len(default) * len(self.records.get(name, ())) > _FILLED:
                rule = f"it has defaults for more than {_FILLED} items of records"
                raise FieldError(name, None, rule)
            for record in self.records.get(name, ()):
                for item, value in default.items():
                    record.setdefault(item, value)
        for name, items in defaults.tuples.items():
            self.tuples.setdefault(name, set()).update(items)

    def form(self) -> dict[str, Any]:
        form: dict[str, Any] = {}
        for name, values in self.values.items():
            shape = self.shape.get(name)
            form[name] = tuple(values) if shape == "tuple" else values if shape or values[1:] else values[0]
        for name, items in self.tuples.items():
            for record in self.records.get(name, ()):
                for item in record.keys() & items:
                    if isinstance(record[item], list):
                        record[item] = tuple(record[item])
        for name, records in self.records.items():
            form[name] = records if self.shape[name] == "records" else records[0]
        return form
