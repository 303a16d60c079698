"""Notices of debug mode about the memory of a process: what views and elements of the site keep in their variables.

Another process does not see it, it is gone when the process ends, and the next visitor may get it.
"""

from __future__ import annotations

import inspect
import re
import sys
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dis import get_instructions
from functools import lru_cache, partial
from itertools import islice
from types import FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from persistent import Persistent

from pipeline.explaining.remedies import NOTICES
from pipeline.telling.words import is_of_the_site
from pipeline.views import Views

MAPPINGS = (dict, defaultdict, Counter, OrderedDict)
LISTS = (list, deque)
VALUES = (int, float, str, bytes, bool, tuple, type(None))
PASSWORD = re.compile("(?i)(?:user_?)?(?:passw(?:or)?d|pwd)")
HASHED = re.compile(r"^$|[$:{*]|^[0-9a-zA-Z+/=_-]{32,}$")
"""Pattern of an empty text, and of hashes, which have a mark of their kind or are long."""
WORDS = re.compile(r"[^\w.@+-]+")
"""Pattern of what stands between names of visitors."""
MOST_ITEMS = 200
"""Items of a list or a dict that are looked at, beside their number."""

_looked_at: WeakKeyDictionary[Views, dict[str, Any]] = WeakKeyDictionary()
"""The modules with these views, and the functions that have default values, by their dotted names."""
_before: WeakKeyDictionary[Any, list[tuple[Any, Any]]] = WeakKeyDictionary()
"""The values of the variables before the view of a request was called. As an attribute of the request they would be
a part of a page that is kept."""


def state_of(views: Views) -> dict[str, object]:
    """Return the state of the variables of the modules with views, and of the defaults of their parameters."""
    if (found := _looked_at.get(views)) is None:
        found = _looked_at[views] = dict(looked_at(views))
    state: dict[str, object] = {}
    for name, thing in found.items():
        if isinstance(thing, (ModuleType, type)):
            for variable, value in vars(thing).items():
                if variable[:2] != "__" and (one := shallow(value)) is not None:
                    state[f"{name}.{variable}"] = one
        elif not isinstance(thing, FunctionType):
            values = getattr(thing, "__dict__", {}).items()
            shown = {variable: shallow(value) for variable, value in values if variable[0] != "_"}
            state[name] = {variable: one for variable, one in shown.items() if one is not None}
        else:
            state[f"a default value of a parameter of {name}"] = [*map(shallow, defaults_of(thing))]
    return state


def looked_at(views: Views) -> Iterator[tuple[str, Any]]:
    """Yield the modules with views, the classes and objects of the site that they name, and the functions with
    default values that can change."""
    for _, _, _, view in views:
        function = inspect.unwrap(view.function)
        module = function.__module__
        if is_of_the_site(getattr(sys.modules.get(module), "__file__", None) or "<"):
            yield module, sys.modules[module]
            for name, one in vars(sys.modules[module]).items():
                kind = one if isinstance(one, type) else type(one)
                if kind.__module__.partition(".")[0] == module.partition(".")[0] or kind is threading.local:
                    yield f"{one.__module__}.{kind.__qualname__}" if kind is one else f"{module}.{name}", one
        if any(isinstance(value, (*MAPPINGS, *LISTS, set)) for value in defaults_of(function)):
            yield f"{module}.{function.__qualname__}", function


def defaults_of(function: Any) -> list[Any]:
    """Return the default values of the parameters of a function."""
    by_name: Any = getattr(function, "__kwdefaults__", None) or {}
    return [*(getattr(function, "__defaults__", None) or ()), *by_name.values()]


def changed(before: Mapping[str, object], views: Views) -> Iterator[str]:
    """Yield the variables that have changed since. A GET may fill a cache, so this is for other methods."""
    for name, state in state_of(views).items():
        if before.get(name) != state:
            yield NOTICES["changed in memory"].format(name=name)


def kept_objects(view: Any, connections: list[Any]) -> Iterator[str]:
    """Yield the variables of a view's module, and attributes in them, that keep an object of these connections."""
    module = inspect.unwrap(view).__module__
    variables = [*getattr(sys.modules.get(module), "__dict__", {}).items()] if connections else []
    package = module.partition(".")[0]
    for owner, one in [*variables]:
        if type(one).__module__.partition(".")[0] == package and not isinstance(one, Persistent):
            variables += [(f"{owner}.{name}", value) for name, value in getattr(one, "__dict__", {}).items()]
    for name, value in variables:
        kind = type(value)
        values = value.values() if kind in MAPPINGS else value if kind in LISTS else (value,)
        for one in islice(values, MOST_ITEMS):
            if isinstance(one, Persistent) and one._p_jar in connections:
                yield NOTICES["an object that is kept"].format(name=f"{module}.{name}")


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


@lru_cache(maxsize=16)
def variables_of(pipeline: Any, views: Views | None) -> list[tuple[str, Any, Callable[[], Any]]]:
    """Return the variables in which elements and views of the site may keep something: what to call each, the code
    that names it, and what reads it."""
    found: dict[str, tuple[Any, Callable[[], Any]]] = {}
    handlers = [handler for handler, _ in handlers_of(pipeline)]
    for handler in handlers:
        code, name = handler.__code__, f"{handler.__module__}.{handler.__qualname__}"
        found[f"an attribute of {name}"] = code, partial(vars, handler)
        for variable, cell in zip(code.co_freevars, handler.__closure__ or (), strict=True):
            found[f"{variable} of {name}"] = code, partial(getattr, cell, "cell_contents")
    for function in {*handlers, *(inspect.unwrap(view.function) for *_, view in views or ())}:
        code, known = getattr(function, "__code__", None), getattr(function, "__globals__", {})
        if code is None or not is_of_the_site(code.co_filename):
            continue
        assigned = {one.argval for one in get_instructions(code) if one.opname == "STORE_GLOBAL"}
        for name in code.co_names:
            one = known.get(name, ...)
            # An element sets a ContextVar for each request, and a view only for those that call it.
            if type(one) is ContextVar and function not in handlers:
                found[f"{function.__module__}.{name}"] = code, partial(one.get, None)
            elif type(one) in MAPPINGS or name in assigned:
                found[f"{function.__module__}.{name}"] = code, partial(known.get, name)
    return [(name, *both) for name, both in found.items()]


def newest_of(variables: list[tuple[str, Any, Callable[[], Any]]]) -> list[tuple[Any, Any]]:
    """Return for each variable the newest key of a dict, with its value, or else None and its value."""
    values = [read() for _, _, read in variables]
    return [next(reversed(one.items()), (None, one)) if type(one) in MAPPINGS else (None, one) for one in values]


def begin_with(request: Any) -> None:
    """Note the values of the variables before the view of a request is called."""
    if variables := variables_of(request.pipeline, request.views):
        _before[request] = newest_of(variables)


def kept_of_visitor(request: Any) -> Iterator[str]:
    """Yield the variables in which the name of this visitor is left for the next one."""
    if not (who := request.principal) or not (before := _before.pop(request, None)):
        return
    variables = variables_of(request.pipeline, request.views)
    for (name, code, _), was, (key, value) in zip(variables, before, newest_of(variables), strict=False):
        is_shared = key in (None, request.path_info_safe, *code.co_consts, *code.co_names)
        is_new = was[0] != key or was[1] is not value
        if is_shared and is_new and isinstance(value, str) and who in WORDS.split(value):
            yield NOTICES["kept for the next visitor"].format(name=name)


def shallow(value: Any) -> object:
    """Return a value that differs once a variable was set, or changed in place; None for one of another kind."""
    kind = type(value)
    if kind in (*MAPPINGS, *LISTS, set):
        items = value.values() if kind in MAPPINGS else value if kind in LISTS else ()
        return id(value), len(value), [*map(id, islice(items, MOST_ITEMS))]
    return (kind, value) if kind in VALUES else None


def plain_passwords(kind: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the attributes of a stored object that are passwords, and do not look like one of the usual hashes."""
    for name, value in values.items():
        if PASSWORD.fullmatch(name) and isinstance(value, str) and not HASHED.search(value):
            yield NOTICES["a plain password"].format(name=f"{kind}.{name}")


def stored_as_sent(form: Mapping[str, Any], record: bytes) -> dict[str, str]:
    """Return the fields of a form whose texts stand in the record of an object, and are those of no other field."""
    texts = [text for text in form.values() if isinstance(text, str)]
    data = {name: text.encode(errors="surrogatepass") for name, text in form.items() if texts.count(text) == 1}
    # A pickle has a text behind its length.
    return {name: form[name] for name, one in data.items() if len(one).to_bytes(4, "little") + one in record}
