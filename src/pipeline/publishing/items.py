"""Items of a container with the fields of a model: what the pages of ``editing`` and the views of ``api`` share."""

from __future__ import annotations

import json
from collections.abc import Set
from hashlib import blake2b
from inspect import get_annotations
from itertools import islice
from time import time_ns
from typing import Any

from webob.exc import HTTPNotFound
from zope.interface import Interface

from pipeline.forms.inputs import without_null
from pipeline.forms.models import model_of
from pipeline.interfaces import ViewError
from pipeline.publishing.json import plain
from pipeline.views import Views

SIZE = 50
"""Items on one page of a list."""


class IItems(Interface):
    """The class of the items of a container, for a description of what the container leads to."""


class Items:
    """The items of a container. Their attributes have the names of the fields of a model."""

    def __init__(self, views: Views, target: type, container: Any, item: type, model: type) -> None:
        self.views, self.target, self.container, self.item, self.model = views, target, container, item, model
        self.who = f"{target.__module__}.{target.__qualname__}: {model.__qualname__}"
        found = model_of(model, views)
        if found is None or not found.is_object:
            raise ViewError(f"{self.who} is not a model of a scanned library, such as pipeline.publishing.pydantic")
        self.read, self.schema, self.has_decimals = found.read, found.schema(), found.has_decimals
        self.parts = self.schema.get("$defs", {})
        self.whole, _ = without_null(self.schema, self.parts)
        attributes = [name for cls in reversed(model.__mro__) for name in get_annotations(cls)]
        members = self.whole.get("properties", {})
        if strange := [name for name in members if name not in attributes]:
            raise ViewError(f"{self.who} has other names for the fields {strange}. Use those of the attributes")
        self.members = {name: members[name] for name in sorted(members, key=attributes.index)}
        self.defaults = {name: one["default"] for name, one in self.members.items() if "default" in one}
        views.add_adapter(item, container, IItems)

    def listed(self, container: Any, page: int) -> tuple[list[Any], bool]:
        """Return the items of a page of the list, and whether there are further ones."""
        if not 1 <= page <= 1_000_000:
            raise HTTPNotFound("There is no such page.")
        found = list(islice(container.values(), (page - 1) * SIZE, page * SIZE + 1))
        return found[:SIZE], len(found) > SIZE

    def add(self, container: Any, value: Any) -> Any:
        """Return a new item of a container with the fields of a value of the model."""
        item = self.item()
        self.set(item, value)
        if hasattr(container, "add"):
            container.add(item)
        else:
            while (name := f"{time_ns():x}") in container:  # in the order of time, and never used again
                pass
            item.__parent__, item.__name__ = container, name
            container[name] = item
        return item

    def remove(self, item: Any) -> None:
        """Delete an item from its container."""
        del item.__parent__[item.__name__]
        if hasattr(item, "_p_jar"):  # of a ZODB: a change at the same time meets a conflict, and then a 404
            item.__parent__ = None

    def set(self, item: Any, value: Any) -> None:
        """Set the attributes of an item."""
        for name, one in (value if isinstance(value, dict) else self.fields(value)).items():
            if name in self.members:
                setattr(item, name, one)

    def fields(self, item: Any) -> dict[str, Any]:
        """Return the fields that an item has. It may be older than a field."""
        return {name: getattr(item, name) for name in self.members if hasattr(item, name)}

    def values(self, item: Any) -> dict[str, Any]:
        """Return the fields of an item as JSON has them. An attribute that it does not have yet has its default."""
        found = self.defaults | self.fields(item)
        ordered = {name: found[name] for name in self.members if name in found}
        return {name: plain(sorted(one, key=str) if isinstance(one, Set) else one) for name, one in ordered.items()}

    def version(self, item: Any) -> str:
        """Return a text that differs whenever the fields of an item do."""
        return blake2b(json.dumps(self.values(item), sort_keys=True).encode(), digest_size=16).hexdigest()
