"""The layout: imports run one way, the core stays small, and needs no more than it installs."""

from __future__ import annotations

import ast
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache, partial
from graphlib import TopologicalSorter
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pipeline.edge import beginning
from pipeline.options import resolve
from pipeline.request import OF_ALL_ATTEMPTS, OF_AN_ATTEMPT, Request
from pipeline.response import FIELDS as FIELDS_OF_A_RESPONSE
from pipeline.response import Response
from pipeline.tools.command import commands

SRC = Path(__file__).resolve().parents[2] / "src"
MODULES = {
    ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((SRC / "pipeline").rglob("*.py"))
}

FOR_DEVELOPERS = {
    "pipeline.elements.errors": "pipeline.explaining.debug_page",
    "pipeline.elements.inspector": "pipeline.inspector",
}
"""Elements that a developer switches on, each with the tools that it then shows. No other site imports these."""
OF_A_REQUEST = ("forms.fields", "cookies")
"""Modules of further packages that import nothing of ours. A request imports them when it first needs them."""

LAYERS: list[tuple[str, ...]] = [
    ("interfaces",),
    ("fields", "options", "order", "publishing.kinds", "publishing.steps", "request", "response", *OF_A_REQUEST),
    ("views", "edge", "attributes", "http.*"),
    ("composition",),
    ("elements.*", "publisher"),
    ("paste", "switch", "health", "toolkit.*", "tools.*", "zope.*", "ztk.*"),
]
"""DESIGN, section 7: a module imports nothing of a later layer, directly or through other modules. The place of a
module that is not listed follows from its imports."""

CORE = ("composition", "publisher", "elements.traverse")
"""A page needs these three, with all that they import."""

OPTIONAL = ("auth", "database", "forms", "http", "toolkit", "tools", "zope", "ztk")
"""Packages that the core does not import."""


NEED_ZOPE = ("pipeline.toolkit", "pipeline.zope", "pipeline.ztk")
"""Packages that need Zope, in an environment of its own: tests/ztk and tests/zope_sites load them."""


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
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "on_demand":
        [dotted] = node.args
        name = str(getattr(dotted, "value", "")).partition(":")[0]
        yield from (name for name in [name] if name in MODULES)


@cache
def imports(name: str) -> frozenset[str]:
    """The modules of ours that a module imports. An import below ``if TYPE_CHECKING`` counts, and so does a late
    one by a string."""
    found = {other for node in ast.walk(parsed(name)) for other in imported(node)} - {name}
    return frozenset(other for other in found if not other.startswith(FOR_DEVELOPERS.get(name, "-")))


@cache
def reaches(name: str) -> frozenset[str]:
    """All that is imported with a module, but for what only ``pipeline/__init__.py`` brings."""
    return imports(name).union(*(reaches(other) for other in imports(name)))


def layer(name: str) -> int | None:
    short = name.removeprefix("pipeline.")
    places = [number for number, names in enumerate(LAYERS) if any(fnmatch(short, n) for n in names)]
    return places[0] if places else None


def test_there_is_no_circle() -> None:
    """Imports for type checkers alone count as well, and so do late ones."""
    for source in ("if TYPE_CHECKING:\n    from pipeline.views import Views", "on_demand('pipeline.views:Views')"):
        assert [other for node in ast.walk(ast.parse(source)) for other in imported(node)] == ["pipeline.views"]
    order = list(TopologicalSorter({name: imports(name) for name in MODULES}).static_order())
    assert len(order) == len(MODULES) > 20


def room(name: str) -> str:
    """The folder of a module. A module that stands in no folder is a room of its own."""
    return ".".join(name.split(".")[:2])


def named_in(tree: ast.AST) -> set[str]:
    """The modules of ours that are imported, or named by a string such as ``pipeline.views:Views``."""
    found = {other for node in ast.walk(tree) for other in imported(node)}
    constants = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    strings = {text.partition(":")[0] for text in constants if isinstance(text, str) and ":" in text}
    return found | (strings & MODULES.keys())


def test_no_two_folders_import_one_another() -> None:
    """What both need stands in a third one. The package itself is left out: it has the public names."""
    for source in ("from pipeline.views import Views", "late = 'pipeline.views:Views'"):
        assert named_in(ast.parse(source)) == {"pipeline.views"}, "the control"
    pairs: dict[tuple[str, str], str] = {}
    for name in MODULES:
        for other in named_in(parsed(name)) - {"pipeline"}:
            pairs[room(name), room(other)] = f"{name} imports {other}"
    mutual = [(text, pairs[b, a]) for (a, b), text in pairs.items() if a < b and (b, a) in pairs]
    assert mutual == []


def test_each_module_of_tools_is_a_command() -> None:
    """Their names are those of ``pipeline --help``."""
    modules = {name for name in MODULES if name.startswith("pipeline.tools.")} - {"pipeline.tools.command"}
    known = {point.module for point in commands().values()}
    assert modules <= known and len(modules) > 10
    assert all(name in MODULES for name in known if name.startswith("pipeline."))


@pytest.mark.once
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

    assert sorted(pipeline.__all__) == ["Pipeline", "Request", "Response", "element", "redirect", "render", "view"]
    statements = parsed("pipeline").body[1:]
    assert all(isinstance(node, (ast.ImportFrom, ast.Assign)) for node in statements)


@pytest.mark.once
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


@pytest.mark.once
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


@pytest.mark.once
@pytest.mark.parametrize("name", MODULES)
def test_no_process_changes_its_user__S18(name: str) -> None:
    """It is started as the user that it runs as."""
    assert changes_privileges(ast.parse("import os; os.setuid(1)")) == ["setuid"], "the control"
    assert changes_privileges(parsed(name)) == []


@pytest.mark.once
@pytest.mark.parametrize("name", MODULES)
def test_a_module_says_what_it_is_for(name: str) -> None:
    assert ast.get_docstring(parsed(name))


DESIGN = SRC.parent / "docs" / "design.rst"
OF_THE_MAP = re.compile(r"^``(\w+(?:\.py|/))``  +(.+)$", re.MULTILINE)
"""A line of the map: a module of the top level, or a folder, and the first sentence of its docstring."""


def first_sentence(name: str) -> str:
    """The first sentence that a module says of itself. A colon before an example and the last dot are left out."""
    paragraph = " ".join((ast.get_docstring(parsed(name)) or "").partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".:")


def map_of(page: str) -> str:
    """The page with the map as it should be."""
    return OF_THE_MAP.sub(lambda line: f"``{line[1]}``".ljust(21) + first_sentence(module_of(line[1])), page)


def module_of(name: str) -> str:
    return f"pipeline.{name.removesuffix('.py').removesuffix('/')}"


def test_the_map_of_the_design_has_the_first_line_of_each_module() -> None:
    """PIPELINE_MAP=write writes those lines anew. A module or folder that is new gets a place by hand."""
    page = DESIGN.read_text("utf-8")
    if os.environ.get("PIPELINE_MAP") == "write":
        DESIGN.write_text(map_of(page), "utf-8")
    rooms = {room(name) for name in MODULES} - {"pipeline", "pipeline.__main__"}
    assert sorted(module_of(name) for name, _ in OF_THE_MAP.findall(page)) == sorted(rooms)
    assert page == map_of(page)


def lines_of_code(path: Path) -> int:
    """Lines that are neither blank nor a comment nor part of a docstring."""
    text = path.read_text()
    documentation = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return sum(
        1
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.strip().startswith("#") and number not in documentation
    )


WHAT_THE_CORE_IMPORTS = f"""
import sys
from importlib import import_module
from types import ModuleType

# The public names are not needed to follow a page: the file pipeline/__init__.py is not run.
sys.modules["pipeline"] = package = ModuleType("pipeline")
package.__path__ = [{str(SRC / "pipeline")!r}]
for name in {CORE!r}:
    import_module("pipeline." + name)
"""


@pytest.fixture(scope="module")
def core() -> list[str]:
    """The modules that the core imports, as a process of its own finds them."""
    return in_a_process_of_its_own(WHAT_THE_CORE_IMPORTS)


def in_a_process_of_its_own(code: str) -> list[str]:
    """The modules that some code imports."""
    code += "\nimport sys\nprint(*sys.modules)"
    command = [sys.executable, "-W", "ignore", "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ran.stderr == ""
    return [name for name in ran.stdout.split() if name in MODULES and name != "pipeline"]


def test_the_core_is_read_in_an_hour(core: list[str]) -> None:
    sizes = {name: len(MODULES[name].read_text().splitlines()) for name in core}
    assert sum(sizes.values()) <= 3_004, sizes  # 45 of them are the facts, which no request needs


def test_the_core_imports_no_optional_package(core: list[str]) -> None:
    assert "pipeline.request" in core
    assert [name for name in core if name.split(".")[1] in OPTIONAL] == []


def test_the_public_names_need_little_more_than_the_core(core: list[str]) -> None:
    more = {"pipeline.http.exceptions", "pipeline.http.hosts", "pipeline.http.redirects", "pipeline.rendering"}
    found = in_a_process_of_its_own("import pipeline")
    assert set(found).difference(core, {"pipeline.http"}) == more


@pytest.mark.once
@pytest.mark.parametrize("name", MODULES)
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


def calls(tree: ast.AST, name: str) -> list[ast.Call]:
    """The calls of a function or method of that name."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")) == name
    ]


@pytest.mark.once
@pytest.mark.parametrize("name", MODULES)
def test_the_edge_alone_calls_start_response(name: str) -> None:
    # The first hands on what a stub of a test answers; the second adds Vary to what an app of any kind answers.
    if name not in ("pipeline.zope.publishing", "pipeline.switch"):
        assert bool(calls(parsed(name), "start_response")) is (name == "pipeline.edge")


ON_DEMAND = [
    (name, call) for name in MODULES for call in calls(parsed(name), "on_demand") if name != "pipeline.options"
]


def test_names_imported_on_demand_are_found() -> None:
    assert len(ON_DEMAND) > 5


def untyped(tree: ast.Module) -> list[str]:
    """The names that are imported on demand, of ours, without an import for type checkers beside them."""
    typed = {
        (f"{node.module}:{alias.name}", alias.asname or alias.name)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    late = {
        (call.args[0].value, ast.unparse(node.targets[0]))
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for call in calls(node, "on_demand")
        if isinstance(call.args[0], ast.Constant)
    }
    return sorted(name for dotted, name in late - typed if str(dotted).startswith("pipeline."))


@pytest.mark.parametrize("name", sorted({name for name, _ in ON_DEMAND}))
def test_a_late_import_is_typed(name: str) -> None:
    """A type checker sees the function itself, not one that takes anything."""
    assert untyped(ast.parse("f = on_demand('pipeline.a:f')")) == ["f"], "the control"
    assert untyped(parsed(name)) == []


@pytest.mark.parametrize(("name", "call"), ON_DEMAND, ids=[f"{n}-{ast.unparse(c)}" for n, c in ON_DEMAND])
def test_a_name_imported_on_demand_resolves(name: str, call: ast.Call) -> None:
    [dotted] = call.args
    assert isinstance(dotted, ast.Constant), "a constant, so that this test can look it up"
    if not dotted.value.startswith(NEED_ZOPE):
        assert callable(resolve(dotted.value))


def test_every_entry_point_resolves(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr("setuptools.setup", lambda **options: given.update(options))
    runpy.run_path(str(SRC.parent / "setup.py"))
    entries = [entry for group in given["entry_points"].values() for entry in group]
    assert len(entries) > 20
    for entry in entries:
        dotted = entry.partition("=")[2].strip()
        if not dotted.startswith(NEED_ZOPE):
            found = EntryPoint("name", dotted, "group").load()
            assert callable(found) or isinstance(found, ModuleType), entry


FIELDS = {*OF_AN_ATTEMPT, *OF_ALL_ATTEMPTS}


def test_the_slots_of_a_request_are_its_fields() -> None:
    assert Request.__slots__ == ("environ", *OF_ALL_ATTEMPTS, *OF_AN_ATTEMPT)


@pytest.mark.parametrize("make", [Request, partial(beginning({}), Request)])
def test_a_request_begins_with_the_fields_of_the_list(make: Any) -> None:
    request = make({})
    assert {name: getattr(request, name) for name in FIELDS} == OF_ALL_ATTEMPTS | OF_AN_ATTEMPT


def test_restore_puts_back_the_fields_of_an_attempt__R2() -> None:
    request = Request({})
    first = {name: object() for name in FIELDS}
    for name, value in first.items():
        setattr(request, name, value)
    snapshot = request.snapshot()
    second = {name: object() for name in FIELDS}
    for name, value in second.items():
        setattr(request, name, value)
    request.restore(snapshot)
    assert {name: getattr(request, name) for name in OF_AN_ATTEMPT} == {name: first[name] for name in OF_AN_ATTEMPT}
    assert {name: getattr(request, name) for name in OF_ALL_ATTEMPTS} == {
        name: second[name] for name in OF_ALL_ATTEMPTS
    }


def test_the_slots_of_a_response_are_its_fields() -> None:
    assert Response.__slots__ == tuple(FIELDS_OF_A_RESPONSE)
    assert Response.blocks is vars(Response)["_app_iter"] and Response.status_line is vars(Response)["_status"]


def test_a_response_begins_with_the_fields_of_the_list() -> None:
    environ: dict[str, Any] = {}
    beginning({})(Request, environ)
    for response in (Response(), environ["pipeline.response"]):
        assert {name: getattr(response, name) for name in FIELDS_OF_A_RESPONSE} == FIELDS_OF_A_RESPONSE


def test_restore_puts_back_the_fields_of_a_response() -> None:
    response = Response()
    first = {name: object() for name in FIELDS_OF_A_RESPONSE} | {"_own_headers": [("A", "1")]}
    for name, value in first.items():
        setattr(response, name, value)
    snapshot = response.snapshot()
    response.headerlist.append(("B", "2"))
    for _ in range(2):
        for name in FIELDS_OF_A_RESPONSE:
            setattr(response, name, [])
        response.filters_applied = True
        response.restore(snapshot)
        now = {name: getattr(response, name) for name in FIELDS_OF_A_RESPONSE}
        assert now == first | {"_own_headers": [("A", "1")], "delivery_filters": ()}
        assert response.filters_applied is False
        response.headerlist.append(("C", "3"))


PRIVATE_FIELDS = {"_app_iter", "_closers_last", "_headerlist", "_headers", "_own_headers", "_status"}
"""Fields of requests and responses that elements do not touch. What they need is public, and as fast."""
MAY_TOUCH_THEM = {"pipeline.request", "pipeline.response", "pipeline.edge", "pipeline.sending"}
"""The publisher also reads ``_own_headers``, in one place: a function there would take 1 % of a plain page."""


def touched(tree: ast.AST) -> list[str]:
    return [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in PRIVATE_FIELDS]


@pytest.mark.once
@pytest.mark.parametrize("name", [name for name in MODULES if not name.startswith(NEED_ZOPE)])
def test_the_private_fields_are_touched_by_the_edge_alone(name: str) -> None:
    assert touched(ast.parse("response._app_iter = []")) == ["_app_iter"], "the control"
    if name not in MAY_TOUCH_THEM:
        assert touched(parsed(name)) == (["_own_headers"] if name == "pipeline.publisher" else [])


def listed(tree: ast.AST, fields: set[str]) -> list[ast.expr]:
    """The literals that list most of these fields."""
    literals = [node for node in ast.walk(tree) if isinstance(node, (ast.Tuple, ast.List, ast.Set, ast.Dict))]
    names = {
        literal: {
            key.value
            for key in (literal.keys if isinstance(literal, ast.Dict) else literal.elts)
            if isinstance(key, ast.Constant)
        }
        for literal in literals
    }
    return [literal for literal in literals if len(names[literal] & fields) > len(fields) / 2]


@pytest.mark.once
@pytest.mark.parametrize("name", MODULES)
def test_the_fields_are_listed_once(name: str) -> None:
    assert len(listed(parsed(name), FIELDS)) == (name == "pipeline.request")
    assert len(listed(parsed(name), set(FIELDS_OF_A_RESPONSE))) == (name == "pipeline.response")
