"""Values for the fields of a form or of a JSON schema, and those that do harm where a site does not guard against
them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from math import ceil
from typing import Any

from pipeline.staging.asked import Tags
from pipeline.staging.runs import Run

EXAMPLES: dict[str, Any] = tomllib.loads(files("pipeline.proving").joinpath("examples.toml").read_text("utf-8"))
"""A value of each format of a schema, of each class of a parameter, and of each type of an input in a form."""

SHAPES: tuple[Any, ...] = ("prove", 1, ["prove"])
"""Values of a field of JSON, if its type is not known."""


def example_for(kind: Any) -> Any:
    """Return what a field of a form has for a parameter of a class, or None if that is not known."""
    return EXAMPLES.get(kind.__name__) if isinstance(kind, type) else None


def example_of(schema: Mapping[str, Any], parts: Mapping[str, Any] | None = None) -> Any:
    """Return a value that fits a schema. A text that must fit a pattern may not.

    parts  the schemas that it refers to; default those in its ``$defs``
    """
    parts = schema.get("$defs", {}) if parts is None else parts
    if "$ref" in schema:
        return example_of(parts[schema["$ref"].rpartition("/")[2]], parts)
    for value in (schema.get("const"), schema.get("default"), *schema.get("enum", ())):
        if value is not None:
            return value
    for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        if choice.get("type") != "null":
            return example_of(choice, parts)
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        return {name: example_of(of, parts) for name, of in schema.get("properties", {}).items()}
    if kind == "array":
        first = [example_of(item, parts) for item in schema.get("prefixItems", ())]
        items = [schema.get("items") or {}] * (schema.get("minItems", 1) - len(first))
        return [*first, *(example_of(item, parts) for item in items)]
    if kind in ("integer", "number"):
        least = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
        number = min(least, schema.get("maximum", schema.get("exclusiveMaximum", least + 1) - 1))
        step = schema.get("multipleOf")
        return number if step is None else ceil(number / step) * step
    if kind == "boolean":
        return True
    text = EXAMPLES.get(schema.get("format", ""), "prove")
    return text.ljust(schema.get("minLength", 0), "e")[: schema.get("maxLength")]


MARK = "'\" prove=1 </script><i prove>"
"""A value that is markup in a text, in an attribute with and without quotes, and in a script and its strings."""
SCRIPT = "javascript:prove()"
"""A value that is a script where it is an address."""
PATTERN = "{prove}%(prove)s${(["
"""A value that neither a format, a template nor a regular expression takes."""
HOSTILE = (MARK, SCRIPT, PATTERN, "ž\r\nprove", "", "0", "-1", "9" * 30)
"""The fourth one is what no header may have. The others are those of fields with a number, and of empty ones."""
FILE = ("prove.txt", "prove")
"""A file of a form: its name and its content."""
PICTURE = ("prove.png", "prove")
"""Another one, for a form that refuses texts."""
FILES = (
    *(("", ""), ("../prove.txt", "prove"), ("prove.txt", ""), ("ž.txt", "prove")),
    *(PICTURE, ("prove", "prove"), ("prove.html", MARK)),
)
"""Others. A browser sends the first one if no file was chosen. The last one is a page."""
VALUES: tuple[Any, ...] = (None, [], {}, "", "prove", "x" * 1500, -1, 1.5, 10**30, True)
"""Values of JSON, which has types that a form has not."""
ADDRESSES = ("href", "src", "action", "formaction", "data")
OPEN = re.compile(r"""(?<!\\)'" prove=1""")
"""The mark in a script, with quotes that are not escaped."""


def is_markup(run: Run) -> bool:
    """Return whether a value of a visitor is markup, or a script, on the page of an answer."""
    is_saved = "attachment" in run.header("Content-Disposition")
    if is_saved or "html" not in run.header("Content-Type") or not re.search(rb"prove(=1|\(\))", run.body):
        return False
    page = Tags(run.body)
    given = [pair for _, attributes in page.found for pair in attributes.items()]
    scripts = [page.scripts, *(value for name, value in given if name.startswith("on"))]
    return (
        MARK.encode() in run.body
        or any(map(OPEN.search, scripts))
        or any(name == "prove" or (name in ADDRESSES and value.strip().startswith(SCRIPT)) for name, value in given)
    )
