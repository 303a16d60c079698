"""The page of an API for a reader, made of its description by OpenAPI 3.1. It has no script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.telling.styling import environment

LIMITS = {
    "exclusiveMinimum": "more than",
    "minimum": "at least",
    "exclusiveMaximum": "less than",
    "maximum": "at most",
    "minLength": "characters, at least",
    "maxLength": "characters, at most",
    "pattern": "of the form",
    "default": "else",
}
"""Words for the limits of a schema."""


def page_of(document: Mapping[str, Any]) -> str:
    """Return the page."""
    return environment().get_template("api.html").render(api=document, type_of=type_of)


def type_of(schema: Mapping[str, Any]) -> str:
    """Return a schema in words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    for either in ("anyOf", "oneOf"):
        if either in schema:
            return " or ".join(map(type_of, schema[either]))
    if "allOf" in schema:
        return " and ".join(map(type_of, schema["allOf"]))
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    kind = schema.get("type", "any")
    kind = schema.get("format") or (kind if isinstance(kind, str) else " or ".join(kind))
    limits = (f"{word} {schema[key]}" for key, word in LIMITS.items() if schema.get(key) is not None)
    return ", ".join([kind, *limits])
