"""Notices of debug mode about the memory of a process: what a view keeps in variables of its module.

Another process does not see it, and it is gone when the process ends.
"""

from __future__ import annotations

import inspect
import re
import sys
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator, Mapping
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
MOST_ITEMS = 200
"""Items of a list or a dict that are looked at, beside their number."""

_looked_at: WeakKeyDictionary[Views, dict[str, Any]] = WeakKeyDictionary()
"""The modules with these views, and the functions that have default values, by their dotted names."""


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
    """Yield the variables of the module of a view that keep an object of one of these connections."""
    module = inspect.unwrap(view).__module__
    variables = getattr(sys.modules.get(module), "__dict__", {})
    for name, value in [*variables.items()] if connections else ():
        kind = type(value)
        values = value.values() if kind in MAPPINGS else value if kind in LISTS else (value,)
        for one in islice(values, MOST_ITEMS):
            if isinstance(one, Persistent) and one._p_jar in connections:
                yield NOTICES["an object that is kept"].format(name=f"{module}.{name}")


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
    found = {name: text for name, text in form.items() if texts.count(text) == 1}
    return {name: text for name, text in found.items() if pickled(text) in record}


def pickled(text: str) -> bytes:
    """Return a text as a pickle has it, behind its opcode."""
    data = text.encode(errors="surrogatepass")
    return len(data).to_bytes(4, "little") + data
