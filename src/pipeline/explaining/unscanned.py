"""Views that stand in the code of a site and that no ``scan`` names: found by reading its files."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from pipeline.between import parsed
from pipeline.explaining.slips import name_of
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
    registered = set()
    packages = set()
    for one in views:
        for _, _, _, view in one:
            code = getattr(view.function, "__code__", None)
            file = code.co_filename if code is not None else None
            registered.add((view.function.__module__, view.function.__qualname__))
            packages.add(view.function.__module__.partition(".")[0])
            if file is not None:
                registered.add((str(_resolved(file)), view.function.__qualname__))
    found = []
    for file in _files(directory, packages - {"pipeline", "__main__"}):
        for one_view in _views_in(file, file.stat().st_mtime_ns):
            places = [place for place, name in registered if name == one_view.function]
            is_lost = not any(place == str(file) or place.rpartition(".")[2] == file.stem for place in places)
            if is_lost or (one_view.why and one_view.why != DECORATED):
                found.append(one_view)
    return found


def _files(directory: Path, packages: Iterable[str]) -> list[Path]:
    """Return the modules beside an ini, one package below it, and in the packages that were named."""
    files = [*directory.glob("*.py"), *directory.glob("*/*.py")]
    for package in packages:
        try:
            spec = find_spec(package)
        except (ImportError, ValueError):
            continue
        for place in (spec.submodule_search_locations or ()) if spec else ():
            files += Path(place).rglob("*.py")
    own = {_resolved(str(file)) for file in files if not file.name.startswith(("test_", "conftest"))}
    return sorted(own)[:MOST_FILES]


@lru_cache(maxsize=MOST_FILES)
def _resolved(file: str) -> Path:
    return Path(file).resolve()


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
