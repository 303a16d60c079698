"""What requests share of modules stands in docs/compatibility.rst, with the reason why threads may share it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
SOURCE = TOP / "src" / "pipeline"
CONTAINERS = {
    *("dict", "list", "set", "deque", "Counter", "OrderedDict", "defaultdict", "count", "local", "Lock", "RLock"),
    *("ContextVar", "WeakKeyDictionary", "WeakSet", "WeakValueDictionary"),
}
CACHES = {"cache", "lru_cache"}


def name_of(node: ast.expr) -> str:
    """Return the last part of what is called, also of what that returns."""
    while isinstance(node, ast.Call):
        node = node.func
    return getattr(node, "attr", None) or getattr(node, "id", "")


def changes(value: ast.expr) -> bool:
    """Return whether a value is made to be changed: it is empty at first, or a lock and the like."""
    if isinstance(value, ast.Dict | ast.List | ast.Set):
        return not getattr(value, "elts", None) and not getattr(value, "keys", None)
    if not isinstance(value, ast.Call):
        return False
    return name_of(value) in CACHES or (name_of(value) in CONTAINERS and not value.args)


def state_of(path: Path) -> Iterator[str]:
    """Yield the names of a module, and of its classes, that more than one request may change."""
    tree = ast.parse(path.read_text("utf-8"))
    changed = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    classes = [node for node in classes if "NamedTuple" not in map(name_of, node.bases)]
    for node in [*tree.body, *(inner for one in classes for inner in one.body)]:
        if isinstance(node, ast.FunctionDef):
            if CACHES & {name_of(decorator) for decorator in node.decorator_list}:
                yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and (target.id in changed or changes(node.value)):
                yield target.id


FOR_DEVELOPERS = {"adopting", "checking", "deploying", "explaining", "inspector", "loading", "proving"}
FOR_DEVELOPERS |= {"rehearsing", "serving", "staging"}
FOR_DEVELOPERS |= {"running", "telling", "testing", "tools"}
"""Folders of the commands, and of what they are made of."""


def test_each_has_its_reason() -> None:
    found = {
        f"{path.relative_to(SOURCE).with_suffix('').as_posix().replace('/', '.')}.{name}"
        for path in SOURCE.rglob("*.py")
        if FOR_DEVELOPERS.isdisjoint(path.parts)
        for name in state_of(path)
    }
    page = (TOP / "docs" / "compatibility.rst").read_text("utf-8")
    section = page.partition("State that requests share")[2].partition("\nTypes\n")[0]
    listed = set(re.findall(r"``([\w.]+\.\w+)``", section))
    assert found == listed
