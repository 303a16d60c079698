"""A description of the views of a site by OpenAPI 3.1, made of their annotations alone.

The paths come from walking the classes: from that of the root, by the annotation of what ``__getitem__`` or
``publishTraverse`` returns. Parameters, bodies and results come from the annotations of the views. What has no
annotation is told, and not guessed::

    [composite:main]
    use = egg:wsgi-pipeline#switch
    branches = openapi path=/openapi.json
    default = site

    [app:openapi]
    use = egg:wsgi-pipeline#openapi
    scan = mysite.api pipeline.publishing.pydantic
    root = mysite.api:root
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from zope.interface import implementedBy

from pipeline.composition import element
from pipeline.forms.arguments import Argument, arguments_of, choices_in
from pipeline.forms.models import model_of
from pipeline.forms.upload import Upload
from pipeline.http.encodings import accepted
from pipeline.interfaces import PUBLIC, Facts, Handler, IRequest, OptionError
from pipeline.options import resolve
from pipeline.publishing.items import IItems
from pipeline.publishing.json import plain
from pipeline.request import Request
from pipeline.response import HTML, NOSNIFF, OK, Response
from pipeline.telling.styling import HAS_TEMPLATES, environment, policy
from pipeline.views import ERROR, View, Views

PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    date: {"type": "string", "format": "date"},
    datetime: {"type": "string", "format": "date-time"},
    type(None): {"type": "null"},
    Upload: {"type": "string", "format": "binary"},
}
"""Schemas of what ``forms`` reads by itself."""
STRING = PLAIN[str]
REFERENCE = re.compile('"#/components/schemas/[^"]+')
"""A reference to a part of a description, up to the quote behind it."""
JSON = "application/json"
COMMON = Path(__file__).with_suffix(".json").read_text("utf-8")
"""The parts of a description that are the same for all sites."""
TOLD = {
    "400": "What was sent is not valid.",
    "404": "There is nothing at this address.",
    "412": "There is another version by now.",
    "428": "The header If-Match is missing.",
}
REFUSED = {"401": "A login is needed.", "403": "This is not permitted."}


def describe(views: Views, root: type, title: str = "API", version: str = "1") -> Description:
    """Return the description of the views of all objects that the root leads to.

    root  class of the object where traversal starts
    """
    described = Description(views)
    paths = described.document["paths"]
    for cls, path, steps in described.places(root):
        for method, name, view in described.views_of(cls):
            if method not in ("GET", "PUT", "POST", "DELETE", "PATCH", "TRACE"):
                described.left_out.append(f"{view} is left out: OpenAPI 3.1 has no method {method}")
                continue
            where = f"{path}/{name}" if name or stepping(cls) else path or "/"
            item = paths.setdefault(where, {})
            if steps:
                item["parameters"] = [
                    {"name": step, "in": "path", "required": True, "schema": STRING} for step in steps
                ]
            item[method.lower()] = described.operation(view, method, bool(steps))
    described.document["info"] = {"title": title, "version": version}
    return described


class Description:
    """A description, and what it leaves out."""

    def __init__(self, views: Views) -> None:
        self.views = views
        self.document: dict[str, Any] = json.loads(COMMON)
        self.parts: dict[str, Any] = self.document["components"]["schemas"]
        self.left_out: list[str] = []
        """A line for each class and view that lacks an annotation."""
        self.ids: set[str] = set()

    def places(self, root: type) -> Iterator[tuple[type, str, tuple[str, ...]]]:
        """Yield each class that the root leads to, with the path to its objects and the steps in it."""
        todo: list[tuple[type, str, tuple[str, ...]]] = [(root, "", ())]
        seen: set[type] = set()
        for cls, path, steps in todo:
            if cls in seen:
                continue
            seen.add(cls)
            yield cls, path, steps
            taken = [*steps]
            for child in self.children(cls):
                name = child.__name__.lower()
                name = f"{name}{len(taken) + 1}" if name in taken else name
                taken.append(name)
                todo.append((child, f"{path}/{{{name}}}", (*steps, name)))

    def children(self, cls: type) -> list[type]:
        """Return the classes of the objects that a step from an object leads to."""
        step = stepping(cls)
        if step is None:
            return []
        kinds = [one for one in choices_in(hints_of(step).get("return")) if isinstance(one, type)]
        if not kinds and (item := self.views.lookup1(implementedBy(cls), IItems)):  # type: ignore[no-untyped-call]
            return [item]
        if not kinds:
            what = f"{cls.__module__}.{cls.__qualname__}.{getattr(step, '__name__', '__getitem__')}"
            self.left_out.append(f"{what} has no annotation of what it returns: what is below is left out")
        return [kind for kind in kinds if kind is not type(None)]

    def views_of(self, cls: type) -> list[tuple[str, str, View]]:
        """Return the views of the objects of a class: method, name, and view."""
        provided = list(implementedBy(cls).__sro__)  # type: ignore[no-untyped-call]
        found: dict[tuple[str, str], tuple[int, View]] = {}
        for context, request_type, key, view in self.views:
            method, _, name = key.partition(" ")
            if context in provided and request_type is IRequest and method not in (ERROR, "HEAD", "OPTIONS"):
                near = provided.index(context)
                if near < found.get((method, name), (len(provided), view))[0]:
                    found[method, name] = near, view
        return [(method, name, view) for (method, name), (_, view) in sorted(found.items(), key=lambda one: one[0])]

    def operation(self, view: View, method: str, has_steps: bool) -> dict[str, Any]:
        """Return the description of one view at one path."""
        hints = hints_of(view.called)
        said = (inspect.getdoc(view.function) or "").partition("\n")[0]
        told = {"404": TOLD["404"]} if has_steps else {}
        if view.fill is not None:
            told["400"] = TOLD["400"]
        operation: dict[str, Any] = {"operationId": self.id_of(view, method)}
        if said:
            operation["summary"] = said
        if view.permission not in (None, PUBLIC):
            operation["security"] = [{"bearer": []}, {"basic": []}]
            told |= REFUSED
        self.add_fields(operation, getattr(view.fill, "arguments", ()), method)
        headers = {}
        if (needed := getattr(view.call, "version_required", None)) is not None:
            is_get = method == "GET"
            told |= {} if is_get else {"412": TOLD["412"], **({"428": TOLD["428"]} if needed else {})}
            headers = {"headers": {"ETag": {"description": "Its version.", "schema": STRING}}} if is_get else {}
            name, required = ("If-None-Match", False) if is_get else ("If-Match", needed)
            asked = {"name": name, "in": "header", "required": required, "schema": STRING}
            operation.setdefault("parameters", []).append(asked)
        result = {} if hints.get("return", type(None)) is type(None) else self.schema(hints["return"])
        if "return" not in hints:
            self.left_out.append(f"{view} has no annotation of what it returns: its result is left out")
        kinds = {*choices_in(hints.get("return"))}
        is_text = str in kinds and kinds <= {str, type(None)}
        content = {"text/html": {"schema": STRING}} if is_text else {JSON: {"schema": result}}
        problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
        problem |= {kind: {"schema": STRING} for kind in ("text/plain", "text/html")}  # as the client accepts
        operation["responses"] = {
            "2XX": {"description": "Done.", **headers, **({"content": content} if result else {})},
            **({"304": {"description": "The client has this version."}} if headers else {}),
            **{status: {"description": why, "content": problem} for status, why in sorted(told.items())},
            "default": {"description": "A problem.", "content": problem},
        }
        return operation

    def add_fields(self, operation: dict[str, Any], arguments: Sequence[Argument], method: str) -> None:
        """Add the fields that a view takes: those of the query of a GET or DELETE, and of the body otherwise."""
        if not arguments:
            return
        fields = {one.name: self.schema(one.annotation) for one in arguments}
        required = [one.name for one in arguments if one.is_required]
        whole = next((one.name for one in arguments if one.is_whole), None)
        for one in arguments:
            if one.default not in (inspect.Parameter.empty, None) and "$ref" not in fields[one.name]:
                fields[one.name] = {**fields[one.name], "default": as_sent(one.default)}
        if method in ("GET", "DELETE"):
            if whole is not None:
                schema = fields.pop(whole)
                part = self.parts.get(schema.get("$ref", "").rpartition("/")[2], schema)
                fields = part.get("properties", {}) | fields
                required += part.get("required", [])
            operation["parameters"] = [
                {"name": name, "in": "query", "required": name in required, "schema": schema}
                for name, schema in fields.items()
            ]
            return
        parts: list[dict[str, Any]] = [] if whole is None else [fields.pop(whole)]
        if fields:
            needed = {"required": names} if (names := [name for name in required if name in fields]) else {}
            parts.append({"type": "object", "properties": fields, **needed})
        kinds = [JSON, "application/x-www-form-urlencoded"]
        if '"binary"' in json.dumps(parts):
            kinds = ["multipart/form-data"]
        content = {kind: {"schema": parts[0] if len(parts) == 1 else {"allOf": parts}} for kind in kinds}
        operation["requestBody"] = {"required": bool(required), "content": content}

    def id_of(self, view: View, method: str) -> str:
        """Return an id of an operation that no other has."""
        name = re.sub(r"\W", "_", getattr(view.function, "__qualname__", "view"))
        free = (one for one in (name, f"{method.lower()}_{name}", *(f"{name}_{n}" for n in range(2, 9_999))))
        found = next(one for one in free if one not in self.ids)
        self.ids.add(found)
        return found

    def schema(self, annotation: Any) -> dict[str, Any]:
        """Return the JSON schema of an annotation; {} if nothing is known of it."""
        origin, inner = get_origin(annotation), get_args(annotation)
        if annotation in PLAIN:
            return PLAIN[annotation]
        if len(choices := choices_in(annotation)) > 1:
            return {"anyOf": [self.schema(one) for one in choices]}
        if origin is Literal:
            return {"enum": list(inner)}
        if list in (annotation, origin):
            return {"type": "array", **({"items": self.schema(inner[0])} if inner else {})}
        if dict in (annotation, origin):
            return {"type": "object", **({"additionalProperties": self.schema(inner[1])} if inner else {})}
        if (model := model_of(annotation, self.views)) is None:
            return {}
        schema = model.schema()
        parts = schema.pop("$defs", {})
        if "$ref" not in schema and model.is_object:
            name = re.sub(r"[^\w.-]", "_", annotation.__name__, flags=re.ASCII)
            parts[name], schema = schema, {"$ref": f"#/components/schemas/{name}"}
        text = json.dumps([schema, parts], default=str)
        for number in ("", *map(str, range(2, 9_999))):  # another model may have the name
            schema, parts = json.loads(REFERENCE.sub(rf"\g<0>{number}", text))
            parts = {f"{name}{number}": part for name, part in parts.items()}
            if all(self.parts.get(name, part) == part for name, part in parts.items()):
                break
        self.parts.update(parts)
        return schema


def stepping(cls: type) -> Any:
    """Return the method of a class that takes a step, or None."""
    return getattr(cls, "publishTraverse", None) or getattr(cls, "__getitem__", None)


def hints_of(function: Any) -> dict[str, Any]:
    """Return the annotations of a function; none if they cannot be read."""
    try:
        return get_type_hints(inspect.unwrap(function), include_extras=True)
    except Exception:  # such as a name that only type checkers import
        return {}


def root_class(root: Any) -> type:
    """Return the class of the root, given that, or the function that returns the root."""
    found = root if isinstance(root, type) else hints_of(root).get("return")
    if not isinstance(found, type):
        raise OptionError(f"openapi: {root!r} is not a class, and has no annotation of the class that it returns")
    return found


def _facts(*, scan: tuple[str, ...], root: Any, **options: Any) -> Facts:
    left_out = describe(Views(scan, arguments_of), root_class(root)).left_out
    remedy = "Annotate it, so that programs know of it."
    return Facts(packages=scan, advice=[(f"openapi: {line}", remedy) for line in left_out])


@element(facts=_facts)
def openapi(*, scan: tuple[str, ...], root: Callable[..., Any], title: str = "API", version: str = "1") -> Handler:
    """Describe the views of a site by OpenAPI 3.1, as JSON, or as a page for a browser (extra "jinja").

    scan     the modules that ``publisher`` scans
    root     dotted name of the class of the root, or of the function that returns it, with its annotation
    title    title of the description; default API
    version  version of the site; default 1
    """
    document = describe(Views(scan, arguments_of), root_class(root), title, version).document
    shared = [("Cache-Control", "no-cache"), ("Vary", "Accept"), NOSNIFF]
    answers = {JSON: ([("Content-Type", JSON), *shared], written(document))}
    if HAS_TEMPLATES:
        answers["text/html"] = [HTML, *shared, policy()], page_of(document).encode()

    def openapi(request: Request, response: Response) -> None:
        best = accepted(request.environ.get("HTTP_ACCEPT"), tuple(answers))
        kind = best[0][0] if best and request.environ.get("QUERY_STRING") != "format=json" else JSON
        headers, body = answers[kind]
        response.adopt(OK, headers.copy(), [body])

    return openapi


def written(document: dict[str, Any]) -> bytes:
    """Return a description as JSON."""
    return json.dumps(document, indent=1, ensure_ascii=False, default=str).encode()


def as_sent(default: Any) -> Any:
    """Return the default of a parameter as JSON has it: that of the scanned library, or else its text."""
    try:
        return json.loads(json.dumps(default, default=plain))
    except TypeError:
        return str(default)


def defaults_in(steps: Iterable[Any]) -> Iterator[Any]:
    """Yield the roots that the elements of a pipeline name by the option ``root``."""
    for step in steps:
        root = getattr(step.element, "options", {}).get("root")
        if callable(root) or (isinstance(root, str) and ":" in root):
            yield resolve(root) if isinstance(root, str) else root


def page_of(document: Mapping[str, Any]) -> str:
    """Return the page of a description, for a reader. It has no script."""
    return environment().get_template("api.html").render(api=document)
