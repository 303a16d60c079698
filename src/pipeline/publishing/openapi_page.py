"""The page of an API for a reader, made of its description by OpenAPI 3.1. It has no script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.telling.styling import environment

METHODS = ("get", "post", "put", "patch", "delete", "head", "options")
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
    schemas = document.get("components", {}).get("schemas", {})
    values = {"api": document, "operations": list(operations(document)), "schemas": list(models(schemas))}
    return environment().get_template("api.html").render(**values)


def operations(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what each method of each path takes and answers."""
    for path, item in document["paths"].items():
        for method in METHODS:
            if (found := item.get(method)) is not None:
                given = [*item.get("parameters", ()), *found.get("parameters", ())]
                yield {
                    "id": found["operationId"],
                    "method": method.upper(),
                    "path": path,
                    "summary": found.get("summary", ""),
                    "security": " or ".join(name for one in found.get("security", ()) for name in one),
                    "parameters": [{**one, "type": type_of(one.get("schema", {}))} for one in given],
                    "bodies": list(bodies(found)),
                }


def bodies(operation: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the bodies that are taken, and the answers, each with its type. Those of errors are all alike."""
    yield from ((f"Body, {kind}", type) for kind, type in contents(operation.get("requestBody", {})))
    for status, answer in operation["responses"].items():
        types = [f"{kind}: {type}" for kind, type in contents(answer)] if status.startswith("2") else []
        yield f"Answer {status}", " ".join(filter(None, [answer.get("description", ""), "; ".join(types)]))


def contents(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the content types of a body, each with its schema in words."""
    return ((kind, type_of(content.get("schema", {}))) for kind, content in body.get("content", {}).items())


def models(schemas: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the fields of each model."""
    for name, schema in schemas.items():
        needed = schema.get("required", ())
        fields = [
            {"name": field, "type": type_of(found), "required": field in needed}
            for field, found in schema.get("properties", {}).items()
        ]
        fields = fields or [{"name": "", "type": type_of(schema), "required": False}]
        yield {"name": name, "description": schema.get("description", ""), "fields": fields}


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
