"""The Jinja templates beside the views of a site: mistakes that only their rendering would show, or nothing."""

from __future__ import annotations

import re
import sys
from collections.abc import Container, Iterable, Iterator
from inspect import getmembers_static, isfunction
from pathlib import Path
from typing import Any

from jinja2 import TemplateError, nodes

from pipeline.publishing.jinja import templates_of
from pipeline.telling.findings import Finding
from pipeline.telling.words import texts_of

SLIPS = texts_of(Path(__file__).with_suffix(".toml"))["slip"]
"""Mistakes that a browser shows or sends in another way than they were meant, with reasons and remedies."""


def of_templates(modules: Iterable[str]) -> Iterator[Finding]:
    """Yield what is wrong with the templates for these modules."""
    known = [one for module in modules for one in vars(sys.modules[module]).values() if isinstance(one, type)]
    methods = {f"{one.__name__.lower()}.{name}" for one in known for name, _ in getmembers_static(one, isfunction)}
    for environment, file in templates_of(modules):
        yield from of_template(environment, file, methods)


def of_template(environment: Any, file: Path, methods: Container[str]) -> Iterator[Finding]:
    """Yield why a template cannot be used, or its blocks that its parent lacks, so that they are never shown."""
    try:
        source = file.read_text("utf-8-sig")
        environment.compile(source, file.name, str(file))
        tree = environment.parse(source)
        known = blocks_of(environment, tree)
    except (TemplateError, UnicodeDecodeError) as error:
        line = getattr(error, "lineno", None)
        what = f"the template {file.name} cannot be used: {error}"
        remedy = "Correct it."
        if isinstance(error, UnicodeDecodeError):
            remedy = "Save it as UTF-8."
        elif "unknown tag" in what:
            remedy = "Jinja has no such tag. It calls a function in {{ ... }}."
        yield Finding("error", f"{file}, line {line}" if line else str(file), what, remedy)
        return
    for slip in SLIPS:
        for found in re.finditer(slip["pattern"], source):
            place = f"{file}, line {source.count(chr(10), 0, found.end()) + 1}"
            yield Finding("warning", place, f"{' '.join(found[0].split())}: {slip['what']}", slip["remedy"])
    for choice in tree.find_all((nodes.If, nodes.CondExpr)):
        asked = {id(one.node) for one in choice.find_all((nodes.Call, nodes.Test))}
        for one in (choice.test, *choice.test.find_all(nodes.Getattr)):
            name = f"{getattr(getattr(one, 'node', ''), 'name', '')}.{getattr(one, 'attr', '')}"
            if name in methods and id(one) not in asked:
                yield Finding.of("method as a condition", f"{file}, line {one.lineno}", name=name)
    for one in (one for loop in tree.find_all(nodes.For) for one in loop.find_all(nodes.Assign)):
        name = getattr(one.target, "name", "")
        if isinstance(one.target, nodes.Name) and name in {part.name for part in one.node.find_all(nodes.Name)}:
            yield Finding.of("set in a loop", f"{file}, line {one.lineno}", name=name)
    for block in tree.body:
        if known is not None and isinstance(block, nodes.Block) and block.name not in known:
            names = {"block": block.name, "file": file.name, "known": ", ".join(sorted(known)) or "none"}
            yield Finding.of("block that is not shown", f"{file}, line {block.lineno}", **names)


def blocks_of(environment: Any, tree: nodes.Template) -> set[str] | None:
    """Return the names of the blocks of the templates that one extends; None if there is none, or if that is
    only known when the page is rendered."""
    found: set[str] | None = None
    while (extends := tree.find(nodes.Extends)) is not None:
        if not isinstance(extends.template, nodes.Const):
            return None
        tree = environment.parse(environment.loader.get_source(environment, extends.template.value)[0])
        found = {block.name for block in tree.find_all(nodes.Block)} | (found or set())
    return found
