"""Directives for the reference. Each writes reStructuredText out of what the code says of itself."""

from __future__ import annotations

import ast
import inspect
import os
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from io import StringIO
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from zope.interface.interface import InterfaceClass

import pipeline
from pipeline import health, switch
from pipeline.composition import Element
from pipeline.telling.descriptions import Option, added, read, split
from pipeline.toolkit import site
from pipeline.tools.command import commands, summary

GROUPS = {
    "paste.filter_factory": "filter",
    "paste.app_factory": "app",
    "paste.composite_factory": "composite",
    "paste.server_factory": "server",
}
"""The kind of the section of an ini, by the group of entry points that such a section can name."""

OPTIONS = {"health": health._health, "switch": switch._switch, **dict.fromkeys(("zope", "ztk"), site._application)}
"""The functions that declare the options of what is not an element."""

NOT_IN_THE_REFERENCE = ("pipeline.__main__", "pipeline.tools", "pipeline.ztk")

DISTRIBUTION = "wsgi-pipeline"


@cache
def modules() -> tuple[ModuleType, ...]:
    """Return the modules of the package. One is left out if the library that it needs is not installed."""
    found = [pipeline]
    for each in walk_packages(pipeline.__path__, "pipeline."):
        if not each.name.startswith(NOT_IN_THE_REFERENCE):
            try:
                found.append(import_module(each.name))
            except ModuleNotFoundError as error:
                if (error.name or "").startswith("pipeline"):
                    raise
    return tuple(found)


def defined(kind: type, among: Callable[[Any], bool] = bool) -> Iterator[tuple[str, Any]]:
    """Yield dotted name and object for each public name of a kind, where it is defined."""
    for module in modules():
        for name, value in vars(module).items():
            own = getattr(value, "__module__", None) == module.__name__ and not name.startswith("_")
            if own and isinstance(value, kind) and among(value):
                yield f"{module.__name__}.{name}", value


def points(group: str) -> Iterator[Any]:
    """Yield the entry points of this distribution."""
    found = [each for each in entry_points(group=group) if each.dist and each.dist.name == DISTRIBUTION]
    return iter(sorted(found, key=lambda each: each.name))


def ends_and_elements(package: str) -> Iterator[tuple[str, str, Any]]:
    """Yield the name, the kind of section, and the element or function, of what a section of an ini can name."""
    for group, kind in GROUPS.items():
        for point in points(group):
            if kind == "server" or point.module.rpartition(".")[0] != package:
                continue
            yield point.name, kind, point.load()


def read_of(name: str, thing: Any) -> tuple[str, tuple[Option, ...]]:
    """Return the text and the options of an element or a function."""
    return read(thing.__doc__, thing.factory if isinstance(thing, Element) else OPTIONS[name])


def table(*rows: tuple[str, ...], widths: str, header: bool = True) -> Iterator[str]:
    """Yield the lines of a table. A cell may have several lines."""
    yield ".. list-table::"
    yield f"   :widths: {widths}"
    if header:
        yield "   :header-rows: 1"
    yield ""
    for row in rows:
        for number, cell in enumerate(row):
            first, *rest = cell.splitlines() or [""]
            yield f"   {'-' if number else '* -'} {first}".replace("   - ", "     - ", 1)
            yield from (f"       {line}".rstrip() for line in rest)
    yield ""


def titled(title: str, underline: str = "-", label: str = "") -> Iterator[str]:
    if label:
        yield from (f".. _{label}:", "")
    yield from (title, underline * len(title), "")


class FromTheCode(SphinxDirective):
    """A directive that is replaced by lines of reStructuredText."""

    optional_arguments = 1

    def lines(self) -> Iterator[str]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        text = "\n".join(self.lines())
        return self.parse_text_to_nodes(text, allow_section_headings=True)


class Overview(FromTheCode):
    """``.. elements-overview:: PACKAGE``: a table of the elements, with one sentence for each."""

    def lines(self) -> Iterator[str]:
        rows = [
            (f":ref:`{name} <element-{name}>`", sentence_of(read_of(name, thing)[0]))
            for name, _, thing in ends_and_elements(self.arguments[0])
        ]
        yield from table(("name", "what it does"), *rows, widths="20 80")


def sentence_of(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())


class Elements(FromTheCode):
    """``.. elements:: PACKAGE``: a section for each element of a package."""

    def lines(self) -> Iterator[str]:
        for name, kind, thing in ends_and_elements(self.arguments[0]):
            text, options = read_of(name, thing)
            yield from titled(name, label=f"element-{name}")
            yield text
            yield ""
            yield f"In an ini: ``use = egg:{DISTRIBUTION}#{name}`` in a section ``[{kind}:...]``."
            yield ""
            yield from options_of(options)
            yield from contract_of(thing) if isinstance(thing, Element) else ("",)


def options_of(options: tuple[Option, ...]) -> Iterator[str]:
    if not options:
        yield from ("It has no options.", "")
        return
    rows = []
    for option in options:
        if not option.meaning:
            raise ValueError(f"the option {option.name} is not explained")
        default = "needed" if option.default is None else f"``{option.default}``" if option.default else "empty"
        rows.append((f"``{option.name}``", f"{option.meaning}\n\n*{plain(option.type)}*", default))
    yield from table(("option", "meaning and type", "default"), *rows, widths="20 60 20")


def plain(annotation: str) -> str:
    return annotation.replace("\\", "\\\\").replace("*", "\\*").replace("|", "\\|")


def contract_of(element: Element) -> Iterator[str]:
    contract = element.contract
    for title, things in (("Requires", contract.requires), ("Provides", contract.provides)):
        if things:
            yield f":{title}: {', '.join(f'``{thing}``' for thing in things)}"
    for one in added(element):
        default = f", {one['default']}" if one["default"] == "on first use" else ""
        if one["default"] and not default:
            default = f", default ``{one['default'].strip()}``"
        what = f"*{plain(one['type'])}*{default}. " if one["type"] else ""
        yield f":Adds request.{one['name']}: {what}{one['meaning']}"
    for title, reasons in (("Must be inside", contract.inside), ("Must be outside", contract.outside)):
        for other, reason in reasons.items():
            yield f":{title} {other}: {reason}"
    yield ""


class Interfaces(FromTheCode):
    """``.. interfaces::``: every interface of the package."""

    def lines(self) -> Iterator[str]:
        for name, _ in defined(InterfaceClass):
            yield from (f".. autointerface:: {name}", "   :members:", "")


class Exceptions(FromTheCode):
    """``.. exceptions::``: every exception of the package."""

    def lines(self) -> Iterator[str]:
        for name, value in defined(type, lambda value: issubclass(value, BaseException)):
            if name.startswith("pipeline.testing."):  # they stand with the test kit
                continue
            if not value.__doc__:
                raise ValueError(f"{name} has no docstring")
            yield from (f".. autoexception:: {name}", "   :show-inheritance:", "   :members:", "")


class Commands(FromTheCode):
    """``.. commands::``: what each command says of itself, by ``--help``."""

    def lines(self) -> Iterator[str]:
        os.environ["COLUMNS"] = "80"
        for name, point in commands().items():
            what = summary(point)
            yield from titled(f"pipeline {name}", label=f"command-{name}")
            yield from (f"{what[0].upper()}{what[1:]}.", "", ".. code-block:: text", "")
            yield textwrap.indent(help_of(point), "   ")
            yield ""


def help_of(point: EntryPoint) -> str:
    written = StringIO()
    with redirect_stdout(written):
        try:
            point.load()(["--help"])
        except SystemExit:
            pass
    return written.getvalue()


class EntryPoints(FromTheCode):
    """``.. entry-points::``: the names that ``use = egg:wsgi-pipeline#NAME`` can have."""

    def lines(self) -> Iterator[str]:
        rows = [("section", "names")]
        for group, kind in GROUPS.items():
            names = ", ".join(f"``{point.name}``" for point in points(group))
            rows.append((f"``[{kind}:...]``", names))
        yield from table(*rows, widths="25 75")


class EnvironKeys(FromTheCode):
    """``.. environ-keys::``: the keys of the WSGI environ that the code reads and writes."""

    def lines(self) -> Iterator[str]:
        uses: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for module in modules():
            source = Path(str(module.__file__)).read_text(encoding="utf-8")
            for key, use in keys_of(ast.parse(source)):
                uses[key][use].add(module.__name__.removeprefix("pipeline."))
        ours = sorted(key for key in uses if key.startswith("pipeline."))
        rows = [
            (f"``{key}``", names(uses[key]["read"]), names(uses[key]["written"]))
            for key in [*ours, *sorted(set(uses).difference(ours))]
        ]
        yield from table(("key", "read by", "set or removed by"), *rows, widths="34 33 33")


def names(found: set[str]) -> str:
    return ", ".join(f"``{name}``" for name in sorted(found)) or "none"


def keys_of(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield each key of an environ in the code, and whether it is read or written there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and is_environ(node.value) and (key := text_of(node.slice)):
            yield key, "read" if isinstance(node.ctx, ast.Load) else "written"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            if is_environ(node.func.value) and (key := text_of(node.args[0])):
                yield key, "written" if node.func.attr in ("pop", "setdefault") else "read"
        elif isinstance(node, ast.Compare) and is_environ(node.comparators[0]) and (key := text_of(node.left)):
            yield key, "read"


def is_environ(node: ast.AST) -> bool:
    """Return whether the expression is an environ of WSGI. ``os.environ`` is another thing."""
    text = ast.unparse(node)
    return text.split(".")[-1] in ("environ", "outer_environ") and text != "os.environ"


def text_of(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


class PublicNames(FromTheCode):
    """``.. public-names::``: the names of the package itself."""

    def lines(self) -> Iterator[str]:
        for name in pipeline.__all__:
            value = getattr(pipeline, name)
            kind = "autoclass" if isinstance(value, type) else "autofunction"
            yield f".. {kind}:: pipeline.{name}"
            yield from (["   :no-members:", ""] if kind == "autoclass" else [""])


def lay_out_docstring(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Make a list of the lines ``name  meaning`` of a docstring."""
    try:
        parameters = list(inspect.signature(thing).parameters)
    except (TypeError, ValueError):
        return
    text, meanings = split("\n".join(lines), parameters)
    if meanings:
        lines[:] = [*text.splitlines(), ""]
        for parameter, meaning in meanings.items():
            lines += [f"``{parameter}``", *(f"    {line}".rstrip() for line in meaning.splitlines()), ""]


def accessible(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Let a keyboard scroll code and tables, and give the captions of the contents a level."""
    for part in ("body", "furo_navigation_tree"):
        if html := context.get(part):
            html = html.replace("<pre>", '<pre tabindex="0">')
            html = html.replace('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper')
            context[part] = html.replace('role="heading">', 'role="heading" aria-level="2">')


DIRECTIVES: dict[str, type[FromTheCode]] = {
    "commands": Commands,
    "elements": Elements,
    "elements-overview": Overview,
    "entry-points": EntryPoints,
    "environ-keys": EnvironKeys,
    "exceptions": Exceptions,
    "interfaces": Interfaces,
    "public-names": PublicNames,
}


def setup(app: Sphinx) -> dict[str, bool]:
    for name, directive in DIRECTIVES.items():
        app.add_directive(name, directive)
    app.connect("autodoc-process-docstring", lay_out_docstring)
    app.connect("html-page-context", accessible, priority=900)  # after the theme
    return {"parallel_read_safe": True}
