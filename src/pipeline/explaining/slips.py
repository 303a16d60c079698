"""Slips in the source of a view that no error tells of: an answer that is made and not returned, a container that
is changed while it is walked, an exception that is swallowed."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

WALKS = ("keys", "values", "items", "iterkeys", "itervalues", "iteritems")
CHANGES = ("pop", "popitem", "remove", "clear", "insert", "discard")
ALL = ("Exception", "BaseException")


@lru_cache(maxsize=1_000)
def slips_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the slips in a view, each with its line; none if its source cannot be read."""
    function = inspect.unwrap(function)
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return ()
    file = inspect.getsourcefile(function)
    found = [(getattr(node, "lineno", 1), slip) for node in ast.walk(tree) for slip in slips_in(node)]
    return tuple(f"{file}, line {first + line - 1}: {slip}" for line, slip in sorted(found))


def slips_in(node: ast.AST) -> Iterator[str]:
    """Yield what is wrong with one node of a source."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and (name := answer_of(node.value.func)):
        yield f"{name}(...) is made, and neither returned nor raised: it has no effect"
    elif isinstance(node, ast.For):
        walked = ast.unparse(container_of(node.iter))
        if any(walked in changed_in(inner) for part in node.body for inner in ast.walk(part)) and not leaves(node):
            yield f"{walked} is changed while the loop walks it: a BTree leaves out keys. Walk list({walked})"
    elif isinstance(node, ast.Try) and any(changes(inner) for part in node.body for inner in ast.walk(part)):
        for handler in node.handlers:
            if is_for_all(handler) and all(isinstance(one, (ast.Pass, ast.Continue)) for one in handler.body):
                yield (
                    "every exception is swallowed here: what was changed before it is stored all the same. Catch "
                    "the class that you expect, or undo it with a savepoint"
                )


def answer_of(function: ast.expr) -> str:
    """Return the name of a function that makes an answer, which has to be returned or raised; "" for any other."""
    name: str = getattr(function, "attr", getattr(function, "id", ""))
    is_answer = name == "redirect" or (name.startswith("HTTP") and name[4:5].isupper())
    return name if is_answer or (name == "render" and isinstance(function, ast.Name)) else ""


def container_of(walked: ast.expr) -> ast.expr:
    """Return the container that a loop walks, as it is or by its keys, values or items."""
    if isinstance(walked, ast.Call) and not walked.args and isinstance(walked.func, ast.Attribute):
        return walked.func.value if walked.func.attr in WALKS else walked
    return walked


def changed_in(node: ast.AST) -> list[str]:
    """Return the containers from which a node of a source takes keys, or to which it adds some."""
    if isinstance(node, ast.Delete):
        return [ast.unparse(one.value) for one in node.targets if isinstance(one, ast.Subscript)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
        return [ast.unparse(node.func.value)]
    return []


def changes(node: ast.AST) -> bool:
    """Return whether a node of a source may change an object: it sets or deletes a part of one, or drops the result
    of a call."""
    if isinstance(node, (ast.Attribute, ast.Subscript)):
        return isinstance(node.ctx, (ast.Store, ast.Del))
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


def leaves(loop: ast.For) -> bool:
    """Return whether a loop ends by ``break`` or ``return``, most likely after the change."""
    return any(isinstance(node, (ast.Break, ast.Return)) for node in ast.walk(loop))


def is_for_all(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches exceptions of every class."""
    return handler.type is None or (isinstance(handler.type, ast.Name) and handler.type.id in ALL)
