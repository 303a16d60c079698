"""The public API does not change unannounced: docs/api.txt lists it, and the docs use no other names."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

import pipeline
from public_names import LIST, TOP, describe, listed, modules
from test_docs import blocks, documents

PUBLIC = {(module, name) for module, names in modules() for name in names}


def test_the_public_names_are_those_of_the_list() -> None:
    was, now = set(LIST.read_text("utf-8").splitlines()), set(listed().splitlines())
    assert now == was, (
        f"the public API has changed. If that is meant, run tests/public_names.py and add a file to changes/ "
        f"(docs/compatibility.rst)\nGone: {sorted(was - now)}\nNew: {sorted(now - was)}"
    )
    assert LIST.read_text("utf-8") == listed()


def test_the_public_names_are_few() -> None:
    """Each has one place from which it is imported: ``pipeline`` itself, or else its module."""
    assert len(PUBLIC) <= 122
    exported = {name for module, name in PUBLIC if module == "pipeline"}
    assert [(module, name) for module, name in PUBLIC if name in exported and module != "pipeline"] == []


NEED_ZOPE = ("pipeline.zope", "pipeline.ztk")


@pytest.mark.parametrize("module", sorted({module for module, _ in PUBLIC if module not in NEED_ZOPE}))
def test_the_public_names_can_be_imported(module: str) -> None:
    found = import_module(module)
    assert [name for where, name in PUBLIC if where == module and not hasattr(found, name)] == []


def imported(text: str) -> set[tuple[str, str]]:
    """The names of the pipeline that a Python text imports, with their modules."""
    return {
        (node.module, alias.name)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "pipeline"
        for alias in node.names
    }


def private(names: set[tuple[str, str]]) -> list[tuple[str, str]]:
    public = PUBLIC | {tuple(module.rpartition(".")[::2]) for module, _ in PUBLIC}  # a public module is public too
    return sorted(names - public)


EXAMPLES = [path for path in sorted((TOP / "examples").rglob("*.py")) if {"demo", "grok"}.isdisjoint(path.parts)]
"""Those that show how a package of others is made. The demo changes with the pipeline, and may use more of it."""
NEW = sorted((TOP / "src/pipeline/tools/site").rglob("*.py.txt"))
"""What ``pipeline new`` writes."""


@pytest.mark.parametrize("path", [*EXAMPLES, *NEW], ids=lambda path: str(path.relative_to(TOP)))
def test_the_examples_import_public_names_only(path: Path) -> None:
    assert len(NEW) > 3
    assert private(imported(path.read_text("utf-8"))) == []


WITH_SNIPPETS = [path for path in documents() if list(blocks(path, "python"))]


@pytest.mark.parametrize("path", WITH_SNIPPETS, ids=lambda path: str(path.relative_to(TOP)))
def test_the_docs_import_public_names_only(path: Path) -> None:
    used = set().union(*(imported(block.code) for block in blocks(path, "python") if block.excuse is None))
    assert private(used) == []


def test_a_name_that_is_not_public_would_be_found() -> None:
    assert private(imported("from pipeline.edge import prepare\nfrom pipeline.database import forks")) == [
        ("pipeline.edge", "prepare")
    ]
    with pytest.raises(LookupError, match=r"pipeline\.paste defines no lod"):
        list(describe("pipeline.paste", "lod"))


def test_a_change_of_a_signature_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = ast.parse((TOP / "src/pipeline/paste.py").read_text("utf-8").replace("name: str | None", "name: str"))
    before = listed()
    monkeypatch.setattr("public_names.body_of", lambda module: tree.body)
    assert not any(
        line in before.splitlines() for line in (f"pipeline.paste {one}" for one in describe("", "load"))
    )


def test_the_version_is_that_of_the_distribution() -> None:
    assert pipeline.__version__ == version("wsgi-pipeline")


def test_types_are_shipped() -> None:
    assert (Path(pipeline.__file__).parent / "py.typed").exists()
