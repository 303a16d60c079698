"""Slips in the source of a view that no error tells of: an answer that is made and not returned, a container that
is changed while it is walked, an exception that is swallowed, a result that is dropped."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Container, Iterator
from functools import lru_cache
from typing import Any

CHANGES = ("pop", "popitem", "remove", "clear", "insert", "discard")
SQL = re.compile(r"(?is)\s*(?:select\s.*\sfrom|insert\s+into|update\s.*\sset|delete\s+from)\s")


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
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    found = [(getattr(node, "lineno", 1), slip) for node in ast.walk(tree) for slip in slips_in(node, used)]
    return tuple(f"{file}, line {first + line - 1}: {slip}" for line, slip in sorted(found))


def slips_in(node: ast.AST, used: Container[str]) -> Iterator[str]:
    """Yield what is wrong with one node of a source, which uses these names."""
    match node:
        case ast.Expr(ast.Call(function)) if name := answer_of(function):
            yield f"{name}(...) is made, and neither returned nor raised: it has no effect"
        case ast.Expr(ast.Compare() | ast.Attribute() | ast.Call(ast.Attribute(attr="strip" | "upper" | "lower"))):
            yield f"{ast.unparse(node)} has no effect. Assign by =, assign the result, or call the method by ()"
        case ast.Assign([ast.Name(name)], ast.Call(ast.Name(kind))) if kind[0].isupper() and name not in used:
            yield f"{name} = {kind}(...) makes an object that nothing uses: it is not stored"
        case ast.JoinedStr([ast.Constant(str(text)), ast.FormattedValue(), *_]) if SQL.match(text):
            yield "a value stands in the text of a statement: a visitor can change it. Use a parameter, as :name"
        case ast.Return(ast.Constant(str(text))) if re.search(r"(?<!\{)\{\w+\.\w+\}", text):
            yield "the text has a name in braces, and no f before its quotes: a visitor reads the name"
        case ast.For(
            iter=ast.Call(ast.Attribute(walked, "keys" | "values" | "items" | "iteritems"), []) | walked,
            body=body,
        ):
            name = ast.unparse(walked)
            if any(name in changed_in(inner) for part in body for inner in ast.walk(part)) and not leaves(node):
                yield f"{name} is changed while the loop walks it: a BTree leaves out keys. Walk list({name})"
        case ast.Try(body, handlers) if any(changes(inner) for part in body for inner in ast.walk(part)):
            for handler in handlers:
                is_for_all = handler.type is None or ast.unparse(handler.type) in ("Exception", "BaseException")
                if is_for_all and all(isinstance(one, (ast.Pass, ast.Continue)) for one in handler.body):
                    yield (
                        "every exception is swallowed here: what was changed before it is stored all the same. "
                        "Catch the class that you expect, or undo it with a savepoint"
                    )


def answer_of(function: ast.expr) -> str:
    """Return the name of a function that makes an answer, which has to be returned or raised; "" for any other."""
    name: str = getattr(function, "attr", getattr(function, "id", ""))
    is_answer = name == "redirect" or (name.startswith("HTTP") and name[4:5].isupper())
    return name if is_answer or (name == "render" and isinstance(function, ast.Name)) else ""


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
