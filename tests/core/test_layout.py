"""The layout: imports run one way, the core stays small, and needs no more than it installs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"
MODULES = {
    ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((SRC / "pipeline").rglob("*.py"))
}

LAYERS: list[tuple[str, ...]] = [
    ("interfaces",),
    ("options", "order", "publishing.kinds", "publishing.steps", "request", "response"),
    ("views", "http.error_pages", "http.files", "edge"),
    ("composition",),
    ("elements.*", "publisher"),
    ("switch", "paste"),
    ("tools.*", "demo", "demo.*"),
]
"""A module imports nothing of a later layer, be it through others. What is not listed is found to stand where
its imports allow."""

CORE = ["__init__", "interfaces", "request", "response", "composition", "edge", "order", "options"]
CORE += ["publisher", "views", "switch", "paste"]
"""What everything else hangs on, and a stranger reads first; of the elements, those that are used."""


@cache
def parsed(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text())


def imported(node: ast.AST) -> Iterator[str]:
    """The modules of ours that an import statement names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in MODULES)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        inner = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name for name in inner if name in MODULES)
        if node.module in MODULES and not all(name in MODULES for name in inner):
            yield node.module


def at_run_time(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those below ``if TYPE_CHECKING``."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield from at_run_time(other)
        else:
            yield node
            yield from at_run_time(node)


@cache
def imports(name: str) -> frozenset[str]:
    return frozenset(other for node in at_run_time(parsed(name)) for other in imported(node)) - {name}


@cache
def reaches(name: str) -> frozenset[str]:
    """All that is imported with a module, but for what only ``pipeline/__init__.py`` brings."""
    return imports(name).union(*(reaches(other) for other in imports(name)))


def layer(name: str) -> int | None:
    short = name.removeprefix("pipeline.")
    places = [number for number, names in enumerate(LAYERS) if any(fnmatch(short, n) for n in names)]
    return places[0] if places else None


def test_there_is_no_circle() -> None:
    order = list(TopologicalSorter({name: imports(name) for name in MODULES}).static_order())
    assert len(order) == len(MODULES) > 20


@pytest.mark.parametrize("name", [name for name in MODULES if layer(name) is not None])
def test_imports_run_one_way(name: str) -> None:
    here = layer(name)
    assert here is not None
    later = [other for other in reaches(name) if (place := layer(other)) is not None and place > here]
    assert later == []


def test_the_contracts_import_no_sibling() -> None:
    assert imports("pipeline.interfaces") == frozenset()


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("pipeline.elements.")])
def test_elements_never_import_one_another(name: str) -> None:
    assert [other for other in reaches(name) if other.startswith("pipeline.elements.")] == []


def test_the_public_names_are_nothing_else() -> None:
    import pipeline

    assert sorted(pipeline.__all__) == ["Pipeline", "Request", "Response", "element", "redirect", "view"]
    statements = parsed("pipeline").body[1:]
    assert all(isinstance(node, (ast.ImportFrom, ast.Assign)) for node in statements)


@pytest.mark.parametrize("name", MODULES)
def test_no_import_is_deferred_to_break_a_circle(name: str) -> None:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    deferred = [
        other
        for function in ast.walk(parsed(name))
        if isinstance(function, functions)
        for node in ast.walk(function)
        for other in imported(node)
    ]
    assert deferred == []


@pytest.mark.parametrize("name", MODULES)
def test_no_check_is_an_assert(name: str) -> None:
    """Under ``python -O`` it would not be there."""
    assert [node.lineno for node in ast.walk(parsed(name)) if isinstance(node, ast.Assert)] == []


PRIVILEGES = {"setuid", "setgid", "seteuid", "setegid", "setreuid", "setregid", "setresuid", "setresgid"}
PRIVILEGES |= {"setgroups", "initgroups", "chroot"}


def changes_privileges(tree: ast.AST) -> list[str]:
    """The calls of ``os`` by which a process changes its user, its group or its root directory."""
    names = [node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in ast.walk(tree)]
    return [name for name in names if name in PRIVILEGES]


@pytest.mark.parametrize("name", MODULES)
def test_no_process_changes_its_user__S18(name: str) -> None:
    """It is started as the user that it runs as."""
    assert changes_privileges(ast.parse("import os; os.setuid(1)")) == ["setuid"], "the control"
    assert changes_privileges(parsed(name)) == []


@pytest.mark.parametrize("name", MODULES)
def test_a_module_says_what_it_is_for(name: str) -> None:
    assert ast.get_docstring(parsed(name))


def lines_of_code(path: Path) -> int:
    """Lines that are neither blank nor a comment nor part of a docstring."""
    text = path.read_text()
    documentation = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return sum(
        1
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.strip().startswith("#") and number not in documentation
    )


def test_the_core_is_read_in_an_hour() -> None:
    sizes = {name: lines_of_code(SRC / "pipeline" / f"{name}.py") for name in CORE}
    assert sum(sizes.values()) < 2_200, sizes


@pytest.mark.parametrize("name", [name for name in MODULES if not name.startswith("pipeline.demo")])
def test_no_module_has_grown_out_of_hand(name: str) -> None:
    assert lines_of_code(MODULES[name]) < 400


EXTRAS = ["ZODB", "zodburi", "transaction", "persistent", "sqlalchemy", "multipart", "itsdangerous", "argon2"]
EXTRAS += ["markdown_it", "nh3", "jinja2", "docutils", "tqdm", "zope.sqlalchemy", "relstorage", "ZEO"]

WITHOUT_EXTRAS = f"""
import sys
sys.modules.update(dict.fromkeys({EXTRAS!r}))  # None: importing them fails
from pipeline import Pipeline, view
from pipeline.elements.log import log
from pipeline.elements.vhost import vhost
from pipeline.elements.retry import retry
from pipeline.elements.errors import errors
from pipeline.elements.authenticate import authenticate
from pipeline.elements.traverse import traverse
from pipeline.publisher import publisher
import pipeline.paste, pipeline.switch, pipeline.tools.command
from webob import Request

@view(context=dict)
def index(context, request):
    return "index"

check = authenticate(check=lambda request, login, password: None)
app = Pipeline(log(), vhost(), retry(), errors(), check, traverse(root=dict), publisher(scan=("__main__",)))
print(Request.blank("/").get_response(app).text, end="")
"""


def test_the_core_needs_no_extra() -> None:
    """WebOb, zope.interface and PasteDeploy are enough for a site without a database."""
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT_EXTRAS]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.stdout, ran.stderr) == ("index", "")
