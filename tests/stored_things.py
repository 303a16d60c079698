"""A folder of things with the fields of a model, for the tests of what is made of models."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest
from BTrees.OOBTree import OOBTree
from persistent import Persistent

from pipeline.composition import Element
from pipeline.database.storages import database_at
from pipeline.elements.authenticate import authenticate
from pipeline.elements.forms import forms
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import close_all, zodb
from pipeline.publisher import publisher
from pipeline.testing import site


class Thing(Persistent):  # type: ignore[misc]
    """A stored item."""


class Folder(OOBTree):  # type: ignore[misc]
    """The root: items by their names."""

    __parent__ = __name__ = None


def check(request: Any, login: str, password: str) -> str | None:
    return login if password == "right" else None


def module_with(
    base: Any, model: Any, monkeypatch: pytest.MonkeyPatch, container: Any = Folder, **options: Any
) -> str:
    """Return the name of a new module with a subclass of Editing or Api for a model."""
    name = f"{base.__name__.lower()}_of_one_test_{id(options)}"
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    options = {"item": Thing, "permission": "public", "read": "public", **options}

    class Things(base, container=container, model=model, **options):  # type: ignore[misc]
        """What is made of the model."""

    Things.__module__ = name
    module.Things = Things  # type: ignore[attr-defined]
    return name


def database_of(uri: str, root: Any = Folder) -> Element:
    return zodb(uri=uri, root=lambda database: database.setdefault("things", root()))


def inner_of(module: str, libraries: Sequence[str]) -> tuple[Element, ...]:
    """Return the elements inside of the transaction."""
    return forms(), authenticate(check=check), traverse(), publisher(scan=(module, *libraries))


def ann_of(app: Any) -> Any:
    """Return a visitor who is logged in as ann."""
    visitor = site(app)
    visitor.authorization = ("Basic", ("ann", "right"))
    return visitor


def stored(uri: str) -> list[dict[str, Any]]:
    """Return the fields of the items of the database, as another process finds them."""
    close_all()
    database = database_at(uri)
    try:
        with database.transaction() as connection:
            states = [one.__getstate__() for one in connection.root().get("things", {}).values()]
            return [{name: of[name] for name in of if name[0] != "_"} for of in states]
    finally:
        database.close()
