"""An API of JSON that lists, adds, shows, changes and deletes the items of a container, by a model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

from pipeline.forms.inputs import without_null
from pipeline.forms.models import BodyError, IModels, Model, ModelError, Place
from pipeline.http.versions import etag_of, versioned
from pipeline.interfaces import ViewError
from pipeline.publishing.items import Items
from pipeline.publishing.json import place_of_nan
from pipeline.request import Request
from pipeline.response import Response
from pipeline.views import noting

_URL = {"type": "string", "format": "uri"}
KINDS: dict[type, str] = {dict: "object", list: "array"}
_LINK = {"anyOf": [_URL, {"type": "null"}]}


class Api:
    """Views of JSON for the items of a container. A subclass in a module that is scanned names the classes::

        class TasksApi(Api, container=Tasks, item=Task, model=NewTask, permission="edit", read="public"):
            "The API of the tasks."

    ``container``, ``item``, ``model`` and ``permission`` are those of ``pipeline.publishing.editing``; ``read`` is
    the permission to see the list and the items. The container has GET, with pages of 50 items, and POST. An item
    has GET, PATCH and DELETE; the last two need ``If-Match``. ``pipeline.publishing.json`` is scanned, too. Raises
    ViewError at load if no scanned library knows the model, or if it has a secret or a field ``url``.
    """

    def __init_subclass__(
        cls, *, container: Any, item: type, model: type, permission: str | None, read: str | None = None
    ) -> None:
        noting(lambda views, target: _register(Items(views, target, container, item, model), permission, read))(cls)


def unknown_in(value: Any, schema: Mapping[str, Any], parts: Mapping[str, Any], place: Place = ()) -> list[Place]:
    """Return the places of members that a schema lacks. Of several schemas, the one with the fewest counts."""
    is_list, found = isinstance(value, list), list[list[Place]]()
    for one in schema.get("anyOf") or schema.get("oneOf") or [schema]:
        kind, _ = without_null(one, parts)
        if kind.get("type") != KINDS.get(type(value), ""):
            continue
        members = dict(enumerate(kind.get("prefixItems", ()))) if is_list else kind.get("properties", {})
        others = kind.get("items") if is_list else kind.get("additionalProperties", "properties" not in kind)
        found.append([])
        for key, part in enumerate(value) if is_list else value.items():
            rule = members.get(key, others)
            if isinstance(rule, dict):
                found[-1] += unknown_in(part, rule, parts, (*place, key))
            elif rule is False:
                found[-1].append((*place, key))
    return min(found, key=len, default=[])


def _register(items: Items, permission: str | None, read: str | None) -> None:
    """Register the views of an Api. Their annotations are for its description."""
    if "url" in items.members or '"writeOnly": true' in json.dumps(items.schema, default=str):
        raise ViewError(f"{items.who} has a secret, or a field 'url'. An API tells all fields, and url is its own")
    models: dict[Any, Model] = {}
    model_of = lambda annotation: models.get(annotation) if isinstance(annotation, type) else None  # noqa: E731
    items.views.add_named(SimpleNamespace(model_of=model_of), IModels, items.who)

    def annotation(
        suffix: str, parts: dict[str, Any], properties: dict[str, Any], required: Any,
        convert: Callable[[Any], Any] = dict, **rules: Any,
    ) -> type:
        """Return a new class that stands for the schema of an object."""
        made = type(f"{items.item.__name__}{suffix}", (), {})
        schema = {"type": "object", "title": made.__name__, "properties": properties, "required": list(required)}
        schema |= rules
        models[made] = Model(convert, True, {**schema, "$defs": parts}.copy, items.has_decimals)
        return made

    def known(value: dict[str, Any]) -> dict[str, Any]:
        """Refuse fields that the model, or one in it, does not have: it may leave them out without a word."""
        value = {name: one for name, one in value.items() if name != "url"}
        if strange := unknown_in(value, items.whole, items.parts):
            raise ModelError([(place, "there is no such field") for place in sorted(strange, key=str)])
        return value

    optional = {name: {key: one[key] for key in one if key != "default"} for name, one in items.members.items()}
    whole, required = {**items.members, "url": _URL}, items.whole.get("required", ())
    strict = {"additionalProperties": False}
    changed = annotation("Changes", items.parts, {**optional, "url": _URL}, (), known, **strict)
    new = annotation("New", items.parts, whole, required, lambda value: items.read(known(value)), **strict)
    single = annotation("At", items.parts, whole, (*required, "url"))
    listed = {"type": "array", "items": {"$ref": f"#/components/schemas/{single.__name__}"}}
    members = {"items": listed, "next": _LINK, "prev": _LINK}
    one = models[single].schema()
    paged = annotation("Page", {**one.pop("$defs"), single.__name__: one}, members, members)

    def told(item: Any, request: Request, changed: Response | None = None) -> dict[str, Any]:
        found = {**items.values(item), "url": request.absolute_url(item)}
        if changed is not None:
            if place_of_nan(found) is not None:
                raise BodyError([((), "JSON has no infinite number")])
            changed.headers["ETag"] = str(etag_of(items.version(item)))
        return found

    def index(container: Any, request: Request, page: int = 1) -> Any:
        """List the items, with links to the next and the previous page."""
        found, further = items.listed(container, page)
        next, prev = (f"{request.absolute_url(container)}?page={number}" for number in (page + 1, page - 1))
        links = {"next": next if further else None, "prev": prev if page > 1 else None}
        return {"items": [told(item, request) for item in found], **links}

    def add(container: Any, request: Request, response: Response, new: Any) -> Any:
        """Add an item."""
        item = items.add(container, new)
        response.status, response.location = 201, request.absolute_url(item)
        return told(item, request, response)

    def show(item: Any, request: Request) -> Any:
        """Show an item."""
        return told(item, request)

    def change(item: Any, request: Request, response: Response, changes: Any) -> Any:
        """Change the fields that are sent. The item as a whole must be valid then."""
        try:
            items.set(item, items.read({**items.fields(item), **changes}))
        except ModelError as error:
            raise BodyError(error.errors) from None
        return told(item, request, response)

    def delete(item: Any, request: Request, response: Response) -> None:
        """Delete an item."""
        items.remove(item)
        response.status = 204

    judged = partial(versioned, items.version, True)
    for view, context, method, needed, judge, types in (
        (index, items.container, "GET", read, None, {"return": paged}),
        (add, items.container, "POST", permission, None, {"new": new, "return": single}),
        (show, items.item, "GET", read, judged, {"return": single}),
        (change, items.item, "PATCH", permission, judged, {"changes": changed, "return": single}),
        (delete, items.item, "DELETE", permission, judged, {}),
    ):
        view.__module__, view.__qualname__ = items.target.__module__, f"{items.target.__name__}.{view.__name__}"
        view.__annotations__.update(types)
        items.views.add(view, context, "", (method,), None, needed, False, judge)
