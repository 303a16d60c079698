"""A step that no key of a BTree can be is a 404; a mistake in a container of the site stays a 500."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from BTrees import OOBTree as of_objects
from BTrees.IOBTree import IOBTree
from BTrees.LOBTree import LOBTree
from BTrees.OOBTree import OOBTree

from asking import ask
from pipeline import Pipeline, view
from pipeline.elements.errors import errors
from pipeline.elements.traverse import traverse
from pipeline.interfaces import INamespace
from pipeline.publisher import publisher
from pipeline.views import adapter


class Own(OOBTree):  # type: ignore[misc]
    """A container of a site."""


class Wrong(dict[str, Any]):
    """A container with a mistake."""

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(name + 1)  # type: ignore[operator]


TREES: dict[str, Any] = {
    "tuples": OOBTree({("a", 1): "x"}),
    "dates": OOBTree({date(2026, 1, 1): "x"}),
    "bytes": OOBTree({b"a": "x"}),
    "numbers": OOBTree({1: "x"}),
    "integers": IOBTree({1: "x"}),
    "longs": LOBTree({1: "x"}),
    "own": Own({1: "x"}),
    "bucket": of_objects.OOBucket({1: "x"}),
    "empty": OOBTree(),
}
ROOT: dict[str, Any] = {**TREES, "wrong": Wrong(a="x")}


@view(context=object, name="look")
def look(context: Any, request: Any) -> str:
    return "looked"


@adapter(dict, INamespace, "none")
class Nothing:
    """A namespace, so that a path with a mark is walked step by step."""

    def __init__(self, context: Any) -> None:
        self.context = context

    def step(self, request: Any, value: str) -> Any:
        return self.context


SITE = Pipeline(errors(), traverse(root=lambda: ROOT), publisher(scan=(__name__,)))


@pytest.mark.parametrize("before", ["", "/++none++x"])
@pytest.mark.parametrize("name", TREES)
def test_a_step_that_cannot_be_a_key(name: str, before: str) -> None:
    for step in ("a", "1", "b/c", "2026-01-01"):
        assert ask(SITE, f"{before}/{name}/{step}").status == 404
    assert ask(SITE, f"{before}/{name}/look").text == "looked"


@pytest.mark.parametrize("before", ["", "/++none++x"])
def test_a_mistake_of_the_site(before: str) -> None:
    assert ask(SITE, f"{before}/wrong/a").status == 500
