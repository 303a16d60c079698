"""The examples, as far as their own tests cannot tell: an element of another package needs public names alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ELEMENT = Path(__file__).resolve().parent.parent / "examples" / "element"
FILES = sorted((ELEMENT / "src").rglob("*.py")) + sorted((ELEMENT / "tests").rglob("*.py"))


def private_names(tree: ast.AST) -> Iterator[str]:
    """The names with a leading underscore that are imported, or read from another object than ``self``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            dotted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            dotted = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            dotted = [node.attr]
        else:
            continue
        for name in dotted:
            parts = [part for part in name.split(".") if part.startswith("_")]
            yield from (part for part in parts if part not in ("__future__", "__name__"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_element_of_another_package_uses_no_private_name(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert any("pipeline" in ast.unparse(node) for node in tree.body), "it uses the pipeline"
    assert list(private_names(tree)) == []


@pytest.mark.parametrize(
    "text",
    ["from pipeline.request import _compiled", "import pipeline._x", "request._closers", "edge._new(1)"],
)
def test_a_private_name_would_be_found(text: str) -> None:
    assert len(list(private_names(ast.parse(text)))) == 1
