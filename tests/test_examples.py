"""The examples, as far as their own tests cannot tell: they need public names alone."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
FILES = [path for name in ("element", "microframework") for path in sorted((EXAMPLES / name).rglob("*.py"))]


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
def test_an_example_uses_no_private_name(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert any("pipeline" in ast.unparse(node) for node in tree.body), "it uses the pipeline"
    assert list(private_names(tree)) == []


@pytest.mark.parametrize(
    "text",
    ["from pipeline.request import _compiled", "import pipeline._x", "request._closers_last", "edge._new(1)"],
)
def test_a_private_name_would_be_found(text: str) -> None:
    assert len(list(private_names(ast.parse(text)))) == 1


def test_a_framework_fits_on_a_few_pages() -> None:
    source = EXAMPLES / "microframework" / "src" / "microframework" / "__init__.py"
    assert len(source.read_text("utf-8").splitlines()) < 150


@pytest.mark.parametrize("name", ["element", "microframework", "mount"])
def test_an_example_is_a_package_of_its_own(name: str) -> None:
    """Its entry points lead to what its own files define."""
    project = tomllib.loads((EXAMPLES / name / "pyproject.toml").read_text("utf-8"))["project"]
    assert any(package.startswith("wsgi-pipeline") for package in project["dependencies"])
    for points in project["entry-points"].values():
        for dotted in points.values():
            module, _, function = dotted.partition(":")
            path = EXAMPLES / name / "src" / Path(*module.split("."))
            path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            defined = [getattr(node, "name", "") for node in ast.parse(path.read_text("utf-8")).body]
            assert function in defined, dotted
