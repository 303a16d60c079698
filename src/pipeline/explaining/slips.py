"""Slips in the source of a view that no error tells of: an answer that is made and not returned, a container that
is changed while it is walked, an exception that is swallowed, a generator that is read twice."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import cache, lru_cache
from types import FunctionType
from typing import Any

import webob

from pipeline.explaining.remedies import NOTICES, RULES
from pipeline.ini import parsed
from pipeline.options import resolve
from pipeline.telling.words import is_of_the_site

FOR_ALL = ("", "Exception", "BaseException")
"""The words behind ``except`` that stand for each exception."""
ENDINGS = ("abort", "doom", "judge", "rollback", "status", "status_code", "status_int")
"""Names in a handler of exceptions that drop the changes, or say that they are dropped."""
CHANGES = ("pop", "popitem", "remove", "clear", "insert", "discard")
TO_THE_END = ("dict", "frozenset", "list", "max", "min", "set", "sorted", "sum", "tuple")
READ_ONCE = ("enumerate", "execute", "filter", "map", "reversed", "scalars", "zip")
WORD = re.compile(
    r"\b(?:CONTEXT|TEXT|MODEL|DEFAULT|METHOD|LAZY|CACHED|STORED|EMPTY|RACED|SENT|SEVERAL|UNSENT|ZERO)\b"
)
"""The words in patterns that stand for names, which differ by view and request."""
HEADERS = {*RULES["header"], *(name.replace("_", "-") for name in (*dir(webob.Request), *dir(webob.Response)))}
"""The names of headers that have a meaning: WebOb has an attribute for nearly each of them."""
HARMLESS = re.compile(r"request\.(?:absolute_url|flash|sql)\b")
"""Pattern of the methods of a request that do nothing outside of the database."""
MAYBE = (ast.BoolOp, ast.For, ast.If, ast.IfExp, ast.Raise, ast.Try, ast.While, ast.With, ast.comprehension)
"""The nodes of a source with which a view may rightly change nothing."""
GROUP = re.compile(r"\\(\d)")
"""A group of the pattern of a rule, in another pattern."""
Seen = tuple[tuple[str, tuple[str, ...]], ...]


@lru_cache(maxsize=1_000)
def slips_of(source: Any, kind: type, method: str, outcome: str = "", seen: Seen = ()) -> tuple[str, ...]:
    """Return the slips in a view or a class, each with its line; none if its source cannot be read.

    kind     the class of the context of the view
    method   that of the request
    outcome  that of the request
    seen     further names, by the word for them in patterns
    """
    source = inspect.unwrap(source)
    if not (nodes := nodes_of(source)):
        return ()
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    lines = () if isinstance(source, type) else nodes  # what a class assigns is an attribute
    found = [(node.lineno, slip) for node in lines for slip in slips_in(node, used)]
    of = getattr(getattr(source, "__globals__", {}).get("escape"), "__module__", "html")
    names, text_of = names_in(nodes[0], source, kind, seen), cache(ast.unparse)  # once for all rules
    searched = source if isinstance(source, type) else kind
    for rule in RULES["source"]:
        is_meant = method in rule.get("method", method) and rule.get("of", of) == of
        is_meant = is_meant and rule.get("outcome", outcome) == outcome
        if is_meant and all(hasattr(searched, name) for name in rule.get("has", ())):
            found += slips_of_rule(rule, nodes, names, text_of)
    blocks = [block for node in nodes if isinstance(block := getattr(node, "body", None), list)]
    found += [slip for block in blocks for slip in read_twice(block)]
    if not isinstance(source, type):
        found += [*shown_lazily(source, nodes, names["LAZY"])]
        found += [(node.lineno, NOTICES["swallowed"]) for node in nodes if outcome == "committed" and is_half(node)]
    return tuple(f"{inspect.getsourcefile(source)}, line {line}: {slip}" for line, slip in sorted({*found}))


@lru_cache(maxsize=1_000)
def classes_of(function: Any, kind: type) -> tuple[type, ...]:
    """Return the classes of the site that a view works with: of its context, its parameters, and those it names."""
    known, code = getattr(function, "__globals__", {}), getattr(function, "__code__", None)
    names = (*getattr(code, "co_names", ()), *getattr(function, "__annotations__", {}).values())
    classes = (kind, *(one for name in names if isinstance(one := known.get(name, name), type)))
    file_of = {one: getattr(sys.modules.get(one.__module__), "__file__", None) or "<" for one in classes}
    return tuple(one for one, file in file_of.items() if is_of_the_site(file))


@lru_cache(maxsize=1_000)
def helpers_of(function: Any) -> tuple[FunctionType, ...]:
    """Return the functions of the site that a view names."""
    known = getattr(function, "__globals__", {})
    names = {one.id for one in nodes_of(function) if isinstance(one, ast.Name)}
    found = [one for name in names if isinstance(one := inspect.unwrap(known.get(name, ...)), FunctionType)]
    return tuple(one for one in found if is_of_the_site(one.__code__.co_filename))


@lru_cache(maxsize=128)
def nodes_of(function: Callable[..., Any]) -> list[Any]:
    """Return the nodes of the source of a view, the whole of it first; none if it cannot be read."""
    try:
        lines, first = inspect.getsourcelines(function)
        tree = parsed(ast.parse, textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return []
    vars(tree)["lineno"] = first  # the whole has a line, too
    return [*ast.walk(ast.increment_lineno(tree, first - 1))]


def fields_of(function: Any, name: str) -> Mapping[str, Any]:
    """Return the fields of a parameter of a view, if it is a model of pydantic."""
    kind = function.__annotations__.get(name)
    kind = function.__globals__.get(kind) if isinstance(kind, str) else kind
    return dict(getattr(kind, "model_fields", {}))


@lru_cache(maxsize=1_000)
def seems_to_store(function: Callable[..., Any], fields: tuple[str, ...]) -> bool:
    """Return whether a view ends in a redirect without its fields, and no line of it may rightly store nothing."""
    begin = next((node for node in nodes_of(function) if isinstance(node, ast.FunctionDef)), None)
    nodes = [node for line in begin.body for node in ast.walk(line)] if begin else []
    if begin is None or any(isinstance(node, MAYBE) for node in nodes):
        return False
    answer = next((ast.unparse(line) for line in begin.body if isinstance(line, ast.Return)), "")
    known = {*dir(builtins), "redirect", begin.args.args[0].arg}
    known |= {kind.__name__ for kind in classes_of(function, object)}
    known |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    calls = [ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)]
    return (
        answer.startswith("return redirect(")
        and not {*fields}.intersection(re.findall(r"\w+", answer))
        and all(call.partition(".")[0].partition("[")[0] in known or HARMLESS.match(call) for call in calls)
    )


@lru_cache(maxsize=1_000)
def asks_first(function: Any) -> bool:
    """Return whether a view asks what a container has, or takes something out of it, or cannot be read."""
    nodes = nodes_of(inspect.unwrap(function))
    asks = (ast.Delete, ast.In, ast.NotIn)
    return not nodes or any(isinstance(node, asks) or name_of(node) in ("get", *CHANGES) for node in nodes)


def names_in(tree: ast.Module, function: Any, kind: type, seen: Seen = ()) -> dict[str, Iterable[str]]:
    """Return the names that the words in capitals of a pattern stand for, of the source of a view."""
    begin = tree.body[0]
    given = begin.args.args if isinstance(begin, ast.FunctionDef) else []
    context = given[0].arg if given else "self" if isinstance(function, type) else "context"
    models = {one.arg: fields for one in given[2:] if (fields := fields_of(function, one.arg))}
    unsent = {name: [key for key in fields if not fields[key].is_required()] for name, fields in models.items()}
    methods = inspect.getmembers_static(kind, inspect.isfunction)
    known = getattr(function, "__globals__", {})
    called = getattr(getattr(function, "__code__", None), "co_names", ())
    return {
        "CONTEXT": [context],
        "TEXT": [one.arg for one in given[2:] if ast.unparse(one).partition(": ")[2] in ("", "str")],
        "MODEL": [name for name, fields in unsent.items() if fields],
        "DEFAULT": [f"{model}.{field}" for model, fields in unsent.items() for field in fields],
        "METHOD": [name for name, _ in methods],
        "CACHED": [name for name in called if hasattr(known.get(name), "cache_info")],
        "STORED": [name for name in called if {"_p_jar", "__mapper__"}.intersection(dir(known.get(name)))],
        "LAZY": [
            *(name for name in called if is_lazy(known.get(name))),
            *(f"{context}.{name}" for name, one in methods if is_lazy(one)),
        ],
        **dict(seen),
    }


def is_lazy(function: Any) -> bool:
    """Return whether a call of a function does nothing by itself: it makes a generator or a coroutine."""
    return inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function)


def shown_lazily(function: Any, nodes: list[Any], lazy: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield what a view gives to a template that asks by ``if`` whether there is something in it, and that is true
    whatever it has, such as a generator: line and slip.

    lazy  the functions that make a generator
    """
    made = {ast.unparse(one.targets[0]): one.value for one in nodes if isinstance(one, ast.Assign)}
    for call in (one for one in nodes if isinstance(one, ast.Call) and name_of(one.func) == "render"):
        given = {one.arg: made.get(ast.unparse(one.value), one.value) for one in call.keywords}
        called = {name: ast.unparse(getattr(one, "func", one)) for name, one in given.items()}
        names = [name for name, one in given.items() if is_read_once(one) or called[name] in lazy]
        file = getattr(call.args[0], "value", None) if names and call.args else None
        for name in asked_in(function.__module__, file).intersection(names) if isinstance(file, str) else ():
            yield call.lineno, NOTICES["always true"].format(name=name, file=file)


def asked_in(module: str, file: str) -> set[str]:
    """Return the names of which a template for a module asks by ``if`` whether they are true."""
    environment = resolve("pipeline.publishing.jinja:environment")(module)
    jinja: Any = resolve("jinja2:nodes")
    with suppress(resolve("jinja2:TemplateError")):  # of a page that was not shown
        template = environment.parse(environment.loader.get_source(environment, file)[0])
        tests = [one.test for one in template.find_all(jinja.If)]
        bare = [test.node if isinstance(test, jinja.Not) else test for test in tests]
        return {test.name for test in bare if isinstance(test, jinja.Name)}
    return set()


def is_read_once(made: ast.AST) -> bool:
    """Return whether an expression makes what can be read once, such as a generator or a result of SQL."""
    function = getattr(made, "func", made)
    name, is_name = name_of(function), isinstance(function, ast.Name)
    return isinstance(made, ast.GeneratorExp) or (name in READ_ONCE and is_name == hasattr(builtins, name))


def is_half(node: ast.AST) -> bool:
    """Return whether a line of a block sets an attribute, and each exception of a line behind it is swallowed."""
    match node:
        case ast.Try(body, handlers, _, final):
            parts = [inner for part in body[:-1] for inner in ast.walk(part)]
            stores = [one for one in parts if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)]
            is_set = any(name_of(one.value) not in ("request", "response") for one in stores)
            returns = any(isinstance(one, ast.Return) for one in final)
            return is_set and (returns or any(map(is_swallowing, handlers)))
    return False


def slips_of_rule(
    rule: dict[str, Any], nodes: list[Any], names: dict[str, Iterable[str]], text_of: Callable[[ast.AST], str]
) -> Iterator[tuple[int, str]]:
    """Yield the lines in which the source of a view breaks a rule, and what is told of each.

    nodes  those of the source, the whole of it first
    """
    patterns = rule["pattern"], rule.get("beside", ""), rule.get("unless", "(?!)")
    pattern, beside, unless = (
        WORD.sub(lambda word: "|".join(map(re.escape, names.get(word[0], ()))) or "(?!)", one) for one in patterns
    )
    for node in (node for node in nodes if type(node).__name__ in rule["at"]):
        text, source = text_of(node), text_of(nodes[0])
        searched = [text, *([spelled_out(text, source)] if rule.get("through_names") else ())]
        if (
            (found := next(filter(None, (re.search(pattern, one) for one in searched)), None))
            and stands(beside, found, source)
            and not stands(unless, found, source)
        ):
            words = {"what": text.partition("\n")[0], "found": found[found.lastindex or 0]}
            yield node.lineno, rule["told"].format(**words, context="".join(names["CONTEXT"]))


def spelled_out(text: str, source: str) -> str:
    """Return a text of a source, with the values of names that are assigned once in the place of these names."""
    made = re.findall(r"\n +(\w+) = ([^\n]+)", source)
    times = Counter(name for name, _ in made)
    values = {name: value for name, value in made if times[name] == 1}
    return re.sub(r"(?<![\w.'\"])\w+(?![\w'\"]| ?=)", lambda word: values.get(word[0], word[0]), text)


def stands(pattern: str, found: re.Match[str], source: str) -> bool:
    """Return whether a source has the other pattern of a rule, which may have groups of what was found."""
    wanted = GROUP.sub(lambda digit: re.escape(found[int(digit[1])]), pattern)
    return re.search(wanted, source) is not None


def slips_in(node: ast.AST, used: Container[str]) -> Iterator[str]:
    """Yield what is wrong with one node of a source, which uses these names."""
    match node:
        case ast.Assign([target], ast.UnaryOp(ast.UAdd() | ast.USub(), operand) as value) if (
            target.end_col_offset == value.col_offset - 2 and operand.col_offset > value.col_offset + 1
        ):
            yield f"{ast.unparse(target)} is set to {ast.unparse(value)}: the sign stands behind =. Write it before"
        case ast.Expr(ast.Compare() | ast.Attribute()):
            yield f"{ast.unparse(node)} has no effect. Assign by =, assign the result, or call the method by ()"
        case (
            ast.Subscript(ast.Attribute(attr="headers"), ast.Constant(str(name)))
            | ast.Call(ast.Attribute(ast.Attribute(attr="headers"), "get"), [ast.Constant(str(name)), *_])
        ) if name.lower() not in HEADERS and (near := get_close_matches(name.lower(), HEADERS, 1, 0.9)):
            yield f"no browser and no cache knows the header {name!r}. Did you mean {near[0].title()!r}?"
        case ast.Assign([ast.Name(name)], ast.Call(ast.Name(kind))) if kind[0].isupper() and name not in used:
            yield f"{name} = {kind}(...) makes an object that nothing uses: it is neither stored nor sent"
        case ast.For(
            iter=ast.Call(ast.Attribute(walked, "keys" | "values" | "items" | "iteritems"), []) | walked,
            body=body,
        ):
            name = ast.unparse(walked)
            if any(name in changed_in(inner) for part in body for inner in ast.walk(part)) and not leaves(node):
                yield f"{name} is changed while the loop walks it: a BTree leaves out keys. Walk list({name})"
        case ast.Try(body, handlers) if any(changes(inner) for part in body for inner in ast.walk(part)):
            for one in filter(is_swallowing, handlers):
                if all(isinstance(part, (ast.Pass, ast.Continue)) for part in one.body):
                    yield NOTICES["swallowed"]


@lru_cache(maxsize=100)
def slips_of_handler(handler: Any, is_stored: bool) -> tuple[str, ...]:
    """Return the slips in the handler of an element of the site, each with its line.

    is_stored  whether what it does decides of changes that are stored
    """
    found = []
    for node in nodes_of(handler):
        if is_stored and isinstance(node, ast.Try) and any(map(calls_next, node.body)):
            found += [(node.lineno, "each error is swallowed")] if any(map(is_swallowing, node.handlers)) else []
        for block in (getattr(node, "body", ()), getattr(node, "orelse", ())):
            calls = [one for one in block if calls_next(one)] if isinstance(block, list) else []
            found += [(one.lineno, "next twice") for one in calls[1:2]]
    return tuple(f"{inspect.getsourcefile(handler)}, line {line}: {NOTICES[name]}" for line, name in found)


def calls_next(statement: ast.AST) -> bool:
    """Return whether a statement is ``next(request, response)``."""
    call = getattr(statement, "value", None)
    return isinstance(call, ast.Call) and getattr(call.func, "id", "") == "next" and len(call.args) == 2


def is_swallowing(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler of exceptions answers all of them, and as if nothing had failed."""
    nodes = [node for part in handler.body for node in ast.walk(part)]
    ends = any(isinstance(node, ast.Raise) or name_of(node) in ENDINGS for node in nodes)
    return not ends and (ast.unparse(handler.type) if handler.type else "") in FOR_ALL


def read_twice(block: list[ast.stmt]) -> Iterator[tuple[int, str]]:
    """Yield what a block uses after it was read to its end, such as a generator or a file: line and slip."""
    once: set[str] = set()
    ended: set[str] = set()
    for statement in block:
        nodes = [*ast.walk(statement)]
        names = [name for node in nodes for name, _ in uses_in(node) if name in once or name.endswith("file")]
        is_simple = not hasattr(statement, "body") and not any(isinstance(node, ast.IfExp) for node in nodes)
        # The body of a compound statement may not run. The test of ``if``, and what ``for`` walks, always do.
        always = nodes if is_simple else [statement, *ast.walk(getattr(statement, "test", ast.Pass()))]
        new = {name for node in always for name, is_whole in uses_in(node) if is_whole and name in names}
        for name in dict.fromkeys(names):
            if name in ended or (is_simple and name in new and names.count(name) > 1):
                yield statement.lineno, f"{name} was read to its end before, so nothing is left. Keep it in a list"
        ended |= new
        ended -= {ast.unparse(one.value) for one in nodes if isinstance(one, ast.Attribute) and one.attr == "seek"}
        if isinstance(statement, ast.Assign):
            made, assigned = statement.value, {*map(ast.unparse, statement.targets)}
            ended -= assigned
            once = once | assigned if is_read_once(made) else once - assigned


def uses_in(node: ast.AST) -> Iterator[tuple[str, bool]]:
    """Yield each thing that a node of a source reads or hands on, and whether it reads it to its end."""
    match node:
        case ast.Call(ast.Attribute(file, "read"), []):
            yield ast.unparse(file), True
        case ast.Call(function, given, named):
            is_whole = isinstance(function, ast.Name) and function.id in TO_THE_END
            for one in (*given, *(keyword.value for keyword in named)):
                name = ast.unparse(one)
                yield name, is_whole and not name.endswith("file")  # which is a list then
        case ast.For(iter=walked) | ast.comprehension(iter=walked):
            name = ast.unparse(walked)
            yield name, not name.endswith("file") and not (isinstance(node, ast.For) and leaves(node))


def name_of(node: ast.AST) -> str:
    """Return the last name of an expression, such as that of the function in a call; "" for one without a name."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


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
