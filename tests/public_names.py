"""Lists the public API, one line for each name: module, name, signature. Stands in docs/api.txt.

``python tests/public_names.py`` writes the file anew. Commit it with the change of the API, and with a file in
``changes/`` (docs/compatibility.rst). The list is made from the source. So no extra is needed, and all versions of
Python make the same list.

A name is public if it stands in ``PUBLIC``, or if it is an element of ``pipeline.elements``. The members
of a public class are public unless their names begin with ``_``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
LIST = TOP / "docs" / "api.txt"

ALL = "*"
"""Stands for all names that a module defines, or that its ``__all__`` has."""

PUBLIC: dict[str, str] = {
    "pipeline": ALL,
    "pipeline.auth.authentication": "AuthRequest Basic Verifier begin_session",
    "pipeline.auth.ended": "end_sessions",
    "pipeline.auth.limiter": "Limiter",
    "pipeline.auth.login": "begin_session log_in log_out way_back",
    "pipeline.auth.passwords": "Passwords hash_password",
    "pipeline.auth.policy": "Group LocalGrants",
    "pipeline.composition": "Element Offers",
    "pipeline.database.forks": "check close_all keep own",
    "pipeline.database.storages": "database_at",
    "pipeline.database.transactions": "DatabaseRequest",
    "pipeline.elements.events": "IBeforeTraverse IEndRequest",
    "pipeline.forms.converters": "IFieldConverter",
    "pipeline.forms.upload": "Upload",
    "pipeline.http.files": "serve",
    "pipeline.http.origins": "refuse_cross_site",
    "pipeline.interfaces": (
        "CommitUncertain ConfigurationError Facts Handler IAuthentication IDefaultSteps IEtc IJSONRequest "
        "INamespace INullResource IPublishTraverse IRequest IResult ISecurityPolicy IXMLRPCRequest OrderError "
        "PUBLIC ReadOnlyTransaction Unavailable"
    ),
    "pipeline.jobs": "Job job",
    "pipeline.mounting": "includeme repeatable request_of",
    "pipeline.options": "resolve",
    "pipeline.paste": "load with_facts",
    "pipeline.promises": "belongs_to invariant",
    "pipeline.publisher": "publisher",
    "pipeline.publishing.api": "Api",
    "pipeline.publishing.editing": "Editing",
    "pipeline.publishing.jinja": "environment",
    "pipeline.publishing.namespaces": "skin",
    "pipeline.publishing.resources": "Resources",
    "pipeline.rendering": "Rendering",
    "pipeline.request": "on_first_use",
    "pipeline.testing": ALL,
    "pipeline.views": "adapter utility",
    "pipeline.zope": "publish_module",
    "pipeline.ztk": "WSGIPublisherApplication",
}
"""The names that outside authors may import, beside the elements and the classes of their attributes. Each stands
here once: in ``pipeline`` itself, or else in its module. The other fixtures have names of the test kit."""


def file_of(module: str) -> Path:
    path = TOP / "src" / Path(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def body_of(module: str) -> list[ast.stmt]:
    return ast.parse(file_of(module).read_text("utf-8")).body


def modules() -> Iterator[tuple[str, list[str]]]:
    """Yield each public module with its public names."""
    elements = sorted(path.stem for path in (TOP / "src/pipeline/elements").glob("[a-z]*.py"))
    for module in sorted({*PUBLIC, *(f"pipeline.elements.{name}" for name in elements)}):
        names = PUBLIC.get(module, "").split()
        if module.startswith("pipeline.elements."):
            names += [node.name for node in definitions(module) if is_of_an_element(node)]
        elif names == [ALL]:
            names = exported_by(module) or [node.name for node in definitions(module)] + constants(module)
        yield module, sorted(names)


Definition = ast.FunctionDef | ast.ClassDef


def definitions(module: str) -> list[Definition]:
    """Return the functions and classes of a module, but not those whose names begin with ``_``."""
    found = [node for node in body_of(module) if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    return [node for node in found if not node.name.startswith("_")]


def constants(module: str) -> list[str]:
    """Return the other names that a module defines, such as types that are given a name."""
    targets = [node.targets[0] for node in body_of(module) if isinstance(node, ast.Assign)]
    targets += [node.target for node in body_of(module) if isinstance(node, ast.AnnAssign)]
    return [name for name in map(ast.unparse, targets) if not name.startswith("_")]


def exported_by(module: str) -> list[str]:
    """Return ``__all__`` of a module."""
    for node in body_of(module):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            found: list[str] = ast.literal_eval(node.value)
            return found
    return []


def is_of_an_element(node: Definition) -> bool:
    """Return whether a definition is an element, or the class of attributes that one adds."""
    if isinstance(node, ast.ClassDef):
        return node.name.endswith("Request") and any(ast.unparse(base).endswith("Request") for base in node.bases)
    return any(ast.unparse(decorator).partition("(")[0] == "element" for decorator in node.decorator_list)


def describe(module: str, name: str) -> Iterator[str]:
    """Yield a line for a name, and one for each public member of a class."""
    for node in body_of(module):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            last = [one for one in body_of(module) if isinstance(one, ast.FunctionDef) and one.name == name][-1]
            if last is node:  # the others are its overloads
                yield signature(node)
                return
        elif isinstance(node, ast.ClassDef) and node.name == name:
            yield f"class {name}({', '.join(map(ast.unparse, node.bases))})"
            yield from (f"{name}.{member}" for member in members(node))
            return
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pipeline"):
            if any((alias.asname or alias.name) == name for alias in node.names):
                yield from describe(node.module, name)
                return
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(target) == name and node.value is not None:
                yield f"{name} = {ast.unparse(node.value)}"
                return
    raise LookupError(f"{module} defines no {name}")


def signature(node: ast.FunctionDef) -> str:
    """Return a function as it is called. The types and defaults are part of the promise."""
    result = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    if any(ast.unparse(one).endswith(("property", ".getter")) for one in node.decorator_list):
        return f"{node.name}: {ast.unparse(node.returns) if node.returns is not None else 'Any'}"
    return f"{node.name}({ast.unparse(node.args)}){result}"


def members(cls: ast.ClassDef) -> Iterator[str]:
    """Yield the public attributes and methods of a class, by name."""
    found = {}
    for node in cls.body:
        if isinstance(node, ast.FunctionDef):
            if not any(ast.unparse(one).endswith((".setter", ".deleter")) for one in node.decorator_list):
                found[node.name] = signature(node)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = f"{node.target.id}: {ast.unparse(node.annotation)}"
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.targets[0].id
    for name in sorted(found):
        if not name.startswith("_") or name in ("__init__", "__init_subclass__", "__call__"):
            yield found[name]


def listed() -> str:
    """Return the text of the list."""
    return "".join(
        f"{module} {line}\n" for module, names in modules() for name in names for line in describe(module, name)
    )


if __name__ == "__main__":
    LIST.write_text(listed(), "utf-8")
    count = sum(len(names) for _, names in modules())
    print(f"{LIST}: {count} names, {len(LIST.read_text('utf-8').splitlines())} lines with their members")
