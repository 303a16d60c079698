"""The Jinja templates beside the views of a site: mistakes that only their rendering would show, or nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from jinja2 import TemplateError, nodes

from pipeline.publishing.jinja import templates_of
from pipeline.telling.findings import Finding

SLIPS = {
    re.compile(r"<\w[^<>]*[\w-]={{"): ("a value without quotes ends at its first blank", 'Write ="{{ ... }}".'),
    re.compile(r"<textarea[^<>]*>\s+{{"): ("the blanks before the value are sent with it", "Write >{{ ... }}<."),
    re.compile(r"(?<![{$])\{ ?\w+\.\w+ ?\}(?!})"): ("one brace is text, and no value", "Write {{ ... }}."),
}
"""Mistakes that a browser shows or sends in another way than they were meant, each with its reason and remedy."""


def of_templates(modules: Iterable[str]) -> Iterator[Finding]:
    """Yield what is wrong with the templates for these modules."""
    for environment, file in templates_of(modules):
        yield from of_template(environment, file)


def of_template(environment: Any, file: Path) -> Iterator[Finding]:
    """Yield why a template cannot be used, or its blocks that its parent lacks, so that they are never shown."""
    try:
        source = file.read_text("utf-8-sig")
        environment.compile(source, file.name, str(file))
        tree = environment.parse(source)
        known = blocks_of(environment, parent_of(tree))
    except (TemplateError, UnicodeDecodeError) as error:
        line = getattr(error, "lineno", None)
        what = f"the template {file.name} cannot be used: {error}"
        remedy = "Save it as UTF-8." if isinstance(error, UnicodeDecodeError) else "Correct it."
        yield Finding("error", f"{file}, line {line}" if line else str(file), what, remedy)
        return
    for slip, (what, remedy) in SLIPS.items():
        for found in slip.finditer(source):
            line = source.count("\n", 0, found.end()) + 1
            yield Finding("warning", f"{file}, line {line}", f"{' '.join(found[0].split())}: {what}", remedy)
    for one in (one for loop in tree.find_all(nodes.For) for one in loop.find_all(nodes.Assign)):
        name = getattr(one.target, "name", "")
        if isinstance(one.target, nodes.Name) and name in {part.name for part in one.node.find_all(nodes.Name)}:
            yield Finding.of("set in a loop", f"{file}, line {one.lineno}", name=name)
    for block in tree.body:
        if known is not None and isinstance(block, nodes.Block) and block.name not in known:
            names = {"block": block.name, "file": file.name, "known": ", ".join(sorted(known)) or "none"}
            yield Finding.of("block that is not shown", f"{file}, line {block.lineno}", **names)


def parent_of(tree: nodes.Template) -> str | None:
    """Return the template that another one extends; "" for one that is only known when it is rendered."""
    extends = tree.find(nodes.Extends)
    if extends is None:
        return None
    return str(extends.template.value) if isinstance(extends.template, nodes.Const) else ""


def blocks_of(environment: Any, name: str | None) -> set[str] | None:
    """Return the names of the blocks of a template and of those that it extends; None if they are not known."""
    if not name:
        return None
    found: set[str] = set()
    while name:
        tree = environment.parse(environment.loader.get_source(environment, name)[0])
        found.update(block.name for block in tree.find_all(nodes.Block))
        name = parent_of(tree)
    return None if name == "" else found
