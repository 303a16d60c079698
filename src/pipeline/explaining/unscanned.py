"""Views that stand in the code of a site and that no ``scan`` names: found by reading its files."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pipeline.explaining.slips import name_of
from pipeline.ini import parsed
from pipeline.views import Views

MOST_FILES = 2_000
"""Files that are read at most, so that a home directory beside an ini is not searched for minutes."""


class Unscanned(NamedTuple):
    """A view that no publisher has registered."""

    file: str
    line: int
    function: str
    name: str
    """The name of the view; "" for a default view."""
    why: str = ""
    """The reason why no publisher can have it, whatever is scanned; or ""."""


METHOD = "it is a method: a view is a function (context, request) or a class"
DECORATED = "another decorator beside @view returns a function of another name: use functools.wraps in it"


def unscanned(views: Iterable[Views], directory: Path) -> list[Unscanned]:
    """Return the views below a directory, and in the packages of the views that are registered, that no publisher
    has registered."""
    functions = [view.function for one in views for *_, view in one]
    packages = {function.__module__.partition(".")[0] for function in functions}
    # A package may be installed, and its source stand beside the ini: the name of the file counts, not its place.
    files = {one: getattr(sys.modules.get(one.__module__), "__file__", None) or "" for one in functions}
    registered = {(Path(file).stem, one.__qualname__) for one, file in files.items()}
    return [
        one
        for file in _files(directory, packages - {"pipeline", "__main__"})
        for one in _views_in(file, file.stat().st_mtime_ns)
        if (file.stem, one.function) not in registered or one.why not in ("", DECORATED)
    ]


def _files(directory: Path, packages: Iterable[str]) -> list[Path]:
    """Return the modules beside an ini, one package below it, and in the packages that were named."""
    files = [*directory.glob("*.py"), *directory.glob("*/*.py")]
    for package in packages:
        for place in getattr(sys.modules.get(package), "__path__", ()):
            files += Path(place).rglob("*.py")
    own = {file.resolve() for file in files if not file.name.startswith(("test_", "conftest"))}
    return sorted(own)[:MOST_FILES]


@lru_cache(maxsize=MOST_FILES)
def _views_in(file: Path, changed: int) -> tuple[Unscanned, ...]:
    """Return the views in a file, which was last changed at that time."""
    try:
        text = file.read_text(encoding="utf-8")
        tree = parsed(ast.parse, text) if "view" in text and "pipeline" in text else ast.Module([], [])
    except (OSError, SyntaxError, ValueError):
        return ()
    return tuple(_views_of(file, tree))


def _views_of(file: Path, tree: ast.Module) -> Iterator[Unscanned]:
    defined = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    last = {node.name: node.lineno for node in defined}
    for node in defined:
        names = _view_names(node)
        why = DECORATED if len(node.decorator_list) > len(names) else ""
        if last[node.name] != node.lineno:
            why = f"line {last[node.name]} has another {node.name}, which takes its place"
        for name in names:
            yield Unscanned(str(file), node.lineno, node.name, name, why)
        for method in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(method, ast.FunctionDef):
                for name in _view_names(method):
                    yield Unscanned(str(file), method.lineno, f"{node.name}.{method.name}", name, METHOD)


def _view_names(node: ast.FunctionDef | ast.ClassDef) -> list[str]:
    """Return the name of each view that decorators make of a function or class."""
    calls = [one for one in node.decorator_list if isinstance(one, ast.Call) and name_of(one.func) == "view"]
    named = [{keyword.arg: keyword.value for keyword in call.keywords}.get("name") for call in calls]
    return [str(name.value) if isinstance(name, ast.Constant) else "" for name in named]
