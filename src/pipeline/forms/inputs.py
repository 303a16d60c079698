"""Inputs of a form, one for each member of a model, by the model's JSON schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pipeline.forms.converters import BOOLEANS
from pipeline.forms.models import Model

LONG = 200
"""A text that may have more characters is typed into several lines."""
KINDS = {"integer": "number", "number": "number", "decimal": "number", "boolean": "checkbox", "array": "textarea"}
KINDS |= {"date-time": "datetime-local", "uri": "url"} | {one: one for one in ("date", "time", "email", "textarea")}
"""Kinds of inputs by the format or the type of a value; any other is text."""
LIMITS = {"minLength": "minlength", "maxLength": "maxlength", "minimum": "min", "maximum": "max"}
LIMITS |= {"exclusiveMinimum": "min", "exclusiveMaximum": "max"}
"""Attributes of HTML. A browser accepts more than the library at a limit that is exclusive."""
_READ_ALIKE = re.compile(r"(?:[^\\(]|\\[^A-Za-z]|\((?!\?))*")
"""Patterns that a browser reads as a library does. To a browser, \\w has fewer letters, for example."""
_DATE, _TIME = "[0-9]{4}-[0-9]{2}-[0-9]{2}", r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,3})?)?"
SHOWN = {"date": re.compile(_DATE), "time": re.compile(_TIME), "datetime-local": re.compile(f"{_DATE}T{_TIME}")}
SHOWN["number"] = re.compile(r"-?[0-9]{1,200}(\.[0-9]{1,200})?([eE][-+]?[0-9]{1,2})?")
"""Patterns of the values that a browser shows in inputs of these kinds. It drops any other value."""
MISSING: Any = object()
"""The value of a field that was not sent, or is empty and cannot be: the library takes its default, or refuses."""


class Input(NamedTuple):
    """One input of a form."""

    name: str
    label: str
    hint: str
    kind: str
    """The type of an ``<input>``, or "select" or "textarea"."""
    attributes: dict[str, Any]
    """Attributes of HTML by which a browser judges a value before it is sent."""
    choices: dict[str, Any]
    """Values by their texts. Empty if the value is not one of several."""
    may_be_none: bool
    is_list: bool
    """True for a list of values, one in each line."""
    default: Any

    def value_in(self, form: Mapping[str, Any]) -> Any:
        """Return the value of a form for the library, or MISSING. A value of JSON that is not text is kept."""
        sent = form.get(self.name, MISSING)
        if not isinstance(sent, str) or self.kind == "checkbox":
            return False if self.kind == "checkbox" and sent == "" else sent
        sent = sent.replace("\r\n", "\n")  # as browsers end a line
        if self.is_list:
            return [line.strip() for line in sent.split("\n") if line.strip()]
        if sent == "" and (self.may_be_none or self.kind not in ("text", "textarea")):
            return None if self.may_be_none else MISSING
        if self.kind in ("time", "datetime-local") and re.search("(?:T|^)[0-9]{2}:[0-9]{2}$", sent):
            return f"{sent}:00"  # browsers leave out seconds that are 0, RFC 3339 does not
        return self.choices.get(sent, sent)

    def text_of(self, value: Any) -> str:
        """Return the text that stands for a value of JSON in the form."""
        if self.choices and not isinstance(value, str):
            return next((text for text, choice in self.choices.items() if choice == value), "")
        if isinstance(value, list):
            return "\n".join(map(str, value))
        return "" if value is None or value is False else str(value)

    def shown_as(self, text: str, is_wrong: bool) -> str:
        """Return the kind of input that shows a text as it is, so that it can be corrected."""
        if self.kind in SHOWN and text and (is_wrong or not SHOWN[self.kind].fullmatch(text)):
            return "text"
        return "textarea" if self.kind == "text" and ("\n" in text or len(text) > LONG) else self.kind


def inputs_of(schema: Mapping[str, Any]) -> list[Input]:
    """Return the inputs for the members of an object. Raise TypeError for a member that no input is for.

    schema  JSON schema of the object, with the schemas that it refers to in ``$defs``
    """
    parts = schema.get("$defs", {})
    whole, _ = without_null(schema, parts)
    return [_input(name, member, parts) for name, member in whole.get("properties", {}).items()]


class Shape(NamedTuple):
    """Shape of a value for a model, made of texts of a query or a form: a list, or a choice that is not a text."""

    is_list: bool
    choices: Mapping[str, Any]

    def of(self, sent: Any) -> Any:
        """Return texts in this shape."""
        if isinstance(sent, (list, tuple)):
            return [self._chosen(one) for one in sent] if self.is_list else sent
        return [self._chosen(sent)] if self.is_list and sent not in ("", None) else self._chosen(sent)

    def _chosen(self, sent: Any) -> Any:
        return self.choices.get(sent, sent) if isinstance(sent, str) and sent else sent


def shapes_of(model: Model) -> tuple[dict[str, Shape], list[str]]:
    """Return the shapes of the members of a model by their names, or by "" that of a value without members. Return
    also the names of the lists that the model needs: a browser sends nothing for boxes of which none is ticked."""
    try:
        schema = model.schema()
    except Exception:  # a library may have no schema for a class that it reads
        return {}, []
    parts = schema.get("$defs", {})
    whole = without_null(schema, parts)[0] if model.is_object else {"properties": {"": schema}}
    shapes, lists = dict[str, Shape](), list[str]()
    for name, member in whole.get("properties", {}).items():
        one, may_be_null = without_null(member, parts)
        is_list, item = _items_of(one, parts)
        shapes[name] = Shape(is_list, BOOLEANS if item.get("type") == "boolean" else choices_of(item))
        if is_list and not may_be_null and name in whole.get("required", ()):
            lists.append(name)
    return shapes, lists


def _items_of(schema: Mapping[str, Any], parts: Mapping[str, Any]) -> tuple[bool, Mapping[str, Any]]:
    """Return whether a schema is that of a list, and the schema of its items, or else the schema itself."""
    is_list = schema.get("type") == "array"
    return is_list, without_null(schema.get("items") or {}, parts)[0] if is_list else schema


def choices_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that a schema allows, by their texts; none if it allows all of a type."""
    allowed = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return {str(choice): choice for choice in allowed if choice is not None}


def _input(name: str, member: Mapping[str, Any], parts: Mapping[str, Any]) -> Input:
    schema, may_be_none = without_null(member, parts)
    kind_of_value = schema.get("type", "string")
    is_list, item = _items_of(schema, parts)
    if item.get("type") in ("object", "array", "null") or schema.get("writeOnly"):
        raise TypeError(f"a form has no input for {name!r}, which is an object, a list of lists, or a secret")
    choices = choices_of(schema)
    may_be_none = may_be_none or None in schema.get("enum", ())
    if kind_of_value == "boolean" and may_be_none:
        choices = {"yes": True, "no": False}
    kind = "select" if choices else KINDS.get(schema.get("format", ""), KINDS.get(kind_of_value, "text"))
    kind = "textarea" if kind == "text" and schema.get("maxLength", 0) > LONG else kind
    attributes = {LIMITS[limit]: schema[limit] for limit in LIMITS if limit in schema}
    if (pattern := schema.get("pattern")) is not None and _READ_ALIKE.fullmatch(pattern):
        attributes["pattern"] = f".*(?:{pattern}).*"
    if kind in SHOWN and kind_of_value != "integer":
        attributes["step"] = "any"
    may_be_empty = kind in ("text", "textarea") and not schema.get("minItems" if is_list else "minLength")
    if not (may_be_none or may_be_empty or kind == "checkbox"):
        attributes["required"] = ""
    titles = (one["title"] for one in (member, *member.get("anyOf", ())) if "title" in one)
    label, hint = next(titles, name.replace("_", " ").capitalize()), member.get("description", "")
    return Input(name, label, hint, kind, attributes, choices, may_be_none, is_list, member.get("default"))


def without_null(schema: Mapping[str, Any], parts: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return a schema without references and without null, and whether the value may be null."""
    found, may_be_null = dict(schema), False
    while key := next((key for key in ("$ref", "anyOf", "oneOf", "allOf") if key in found), None):
        several = found.pop(key)
        if key == "$ref":
            several = [parts[several.rpartition("/")[2]]]
        kinds = [kind for kind in several if kind.get("type") != "null"]
        may_be_null = may_be_null or len(kinds) < len(several)
        is_number = [kind.get("type") for kind in kinds] == ["number", "string"]  # a Decimal of pydantic
        found = {**(kinds[0] if len(kinds) == 1 or is_number else {"type": "string"}), **found}
    return found, may_be_null
