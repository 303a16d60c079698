"""Notices of debug mode about a site's own elements: a handler that swallows each error, that runs the rest of the
pipeline twice, or that keeps something of one visitor for the next one."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from pipeline.explaining.notices_of_processes import MAPPINGS
from pipeline.explaining.remedies import NOTICES
from pipeline.explaining.slips import nodes_of
from pipeline.telling.words import is_of_the_site

FOR_ALL = ("", "Exception", "BaseException")
"""The words behind ``except`` that stand for each exception."""
ENDINGS = ("abort", "doom", "judge", "status", "status_code", "status_int")
"""Names in a handler of exceptions that drop the changes, or say that they are dropped."""

WORDS = re.compile(r"[^\w.@+-]+")
"""Pattern of what stands between names of visitors."""

_before: WeakKeyDictionary[Any, list[tuple[Any, Any]]] = WeakKeyDictionary()
"""The values of the variables before the view of a request was called. As an attribute of the request they would be
a part of a page that is kept."""


@lru_cache(maxsize=16)
def handlers_of(pipeline: Any) -> list[tuple[Any, bool]]:
    """Return the handlers of the site's own elements, each with whether it stands inside of ``transaction``."""
    found, is_inside = [], False
    for contract in pipeline.linked:
        code = getattr(contract.handler, "__code__", None)
        if code is not None and is_of_the_site(code.co_filename):
            found.append((contract.handler, is_inside))
        is_inside = is_inside or "commit" in contract.provides
    return found


def of_elements(request: Any) -> Iterator[str]:
    """Yield the notices of a request that was answered."""
    for handler, is_inside in handlers_of(request.pipeline):
        is_stored = is_inside and request.outcome == "committed"
        yield from [notice for notice, counts in slips_in(handler) if counts == "always" or is_stored]
    yield from kept_of_visitor(request)


@lru_cache(maxsize=100)
def slips_in(handler: Any) -> list[tuple[str, str]]:
    """Return the slips in a handler, each with "always", or "stored" for one that matters if changes are stored."""
    found, file = [], inspect.getsourcefile(handler)
    for node in nodes_of(handler):
        if isinstance(node, ast.Try) and any(map(calls_next, node.body)) and any(map(is_swallowing, node.handlers)):
            found.append((f"{file}, line {node.lineno}: {NOTICES['each error is swallowed']}", "stored"))
        for block in (getattr(node, "body", ()), getattr(node, "orelse", ())):
            calls = [one for one in block if calls_next(one)] if isinstance(block, list) else []
            if calls[1:]:
                found.append((f"{file}, line {calls[1].lineno}: {NOTICES['next twice']}", "always"))
    return found


def calls_next(statement: ast.AST) -> bool:
    """Return whether a statement is ``next(request, response)``."""
    call = getattr(statement, "value", None)
    return isinstance(call, ast.Call) and getattr(call.func, "id", "") == "next" and len(call.args) == 2


def is_swallowing(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler of exceptions answers all of them, and as if nothing had failed."""
    names = {getattr(one, "attr", getattr(one, "id", "")) for part in handler.body for one in ast.walk(part)}
    raises = any(isinstance(one, ast.Raise) for part in handler.body for one in ast.walk(part))
    kind = ast.unparse(handler.type) if handler.type is not None else ""
    return kind in FOR_ALL and not raises and names.isdisjoint(ENDINGS)


@lru_cache(maxsize=16)
def variables_of(pipeline: Any) -> list[tuple[str, Any, Any]]:
    """Return the variables that the site's own handlers keep: what to call each, the code, and its cell."""
    return [
        (f"{name} of {handler.__module__}.{handler.__qualname__}", handler.__code__, cell)
        for handler, _ in handlers_of(pipeline)
        for name, cell in zip(handler.__code__.co_freevars, handler.__closure__ or (), strict=True)
    ]


def newest_of(pipeline: Any) -> list[tuple[Any, Any]]:
    """Return for each of these variables the newest key of a dict, with its value, or else None and its value."""
    values = [cell.cell_contents for _, _, cell in variables_of(pipeline)]
    return [next(reversed(one.items()), (None, one)) if type(one) in MAPPINGS else (None, one) for one in values]


def begin_with(request: Any) -> None:
    """Note the values of the variables before the view of a request is called."""
    if variables_of(request.pipeline):
        _before[request] = newest_of(request.pipeline)


def kept_of_visitor(request: Any) -> Iterator[str]:
    """Yield the variables in which the name of this visitor is left for the next one."""
    if not (variables := variables_of(request.pipeline)):
        return
    before, now, who = _before.pop(request, ()), newest_of(request.pipeline), request.principal
    for (name, code, _), was, (key, value) in zip(variables, before, now, strict=False):
        is_shared = key in (None, *code.co_consts, *code.co_names)
        is_new = was[0] != key or was[1] is not value
        if is_shared and is_new and isinstance(value, str) and who and who in WORDS.split(value):
            yield NOTICES["kept for the next visitor"].format(name=name)
