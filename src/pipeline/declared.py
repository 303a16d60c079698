"""Checks of what elements declare by ``@element``, once for each finished pipeline.

Without them a mistake of an element's author is found late or never: a misspelt name in ``inside`` never objects to
an order, and a visitor whose database tells no position does not read his own write.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from importlib.metadata import entry_points
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pipeline.interfaces import ConfigurationError, OptionError
from pipeline.order import Contract

THINGS = {"root", "context", "database", "zodb_connection", "commit", "written", "attempts", "principal", "form"}
THINGS |= {"error_pages", "content_policy"}
"""Things that elements of this package provide. ``inside`` and ``outside`` may name them, too."""
COOKIES = {"browser": "authenticate"}
"""Cookies whose name no option changes, and the elements that set them."""


def refuse_odd(chain: tuple[Contract, ...]) -> None:
    """Raise ConfigurationError for a declaration of an element, of a finished chain, that cannot be meant."""
    answered = {name for contract in chain for name in (contract.name, *contract.provides)}
    cookies = COOKIES.copy()
    for contract in chain:
        name = contract.element.options.get("cookie")
        if name and cookies.setdefault(name, contract.name) != contract.name:
            raise _odd(contract, "cookie", f"{name!r}, which {cookies[name]} has: each would hide the other's")
    for contract in chain:
        for name in {*contract.inside, *contract.outside} - answered:
            if near := _near(name, contract):
                where = "inside" if name in contract.inside else "outside"
                raise _odd(contract, where, f"{name!r}, and no element has that name. Did you mean {near!r}?")
        for what, count in (("between", "(step, offers)"), ("new_session", "(request, principal)")):
            function = getattr(contract, what)
            if function is not None and not takes(2, function):
                raise _odd(contract, what, f"{function!r:.200}, which cannot be called with {count}")
        is_told = "database" not in contract.provides or hasattr(contract.adds, "__positions__")
        if "written" in answered and not is_told:
            raise _odd(
                contract,
                "adds",
                "no class with __positions__, so causal cannot tell what is written there. Define it, to return "
                "the position of the database by its name, or {} if no process is ever behind",
            )
        if contract.handler is not None:
            oddity = runs_nothing(contract.handler)
            if not oddity and not takes(2, contract.handler):
                oddity = "cannot be called with (request, response)"
            if oddity:
                raise ConfigurationError(f"{_where(contract)}the handler of the element {contract.name} {oddity}")


def _odd(contract: Contract, what: str, found: str) -> ConfigurationError:
    return ConfigurationError(f"{_where(contract)}the element {contract.name} declares {what} = {found}")


def _where(contract: Contract) -> str:
    source = contract.element.source
    return f"{source.section_of(contract.element.options)}: " if source is not None else ""


ASYNC = "is async, and nothing awaits it: a request runs in a thread. Write def"


def runs_nothing(function: Any) -> str:
    """Return why a call of a function or an object runs nothing of it, or "". A caller may use the value of one
    with a ``yield`` all the same."""
    called = (function, type(function).__call__) if callable(function) else ()
    if any(inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in called):
        return ASYNC
    return "has a yield, so a call runs nothing of it" if any(map(inspect.isgeneratorfunction, called)) else ""


def refuse_unfit(name: str, options: Mapping[str, Any], annotations: Mapping[str, Any]) -> None:
    """Raise OptionError if an option of element ``name`` is a function or a class that its annotation excludes.
    Text has been converted by the annotation."""
    for option, value in options.items():
        if oddity := ASYNC if runs_nothing(value) == ASYNC else _unfit(value, annotations[option]):
            raise OptionError(f"option {option!r} of {name} {oddity}")


def _unfit(value: Any, annotation: Any) -> str:
    """Return why a function or a class cannot be the value of an option, or ""."""
    for choice in get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,):
        origin, (wanted, *_) = get_origin(choice), (*get_args(choice), None)
        if origin is type and wanted is not Any and not (isinstance(value, type) and issubclass(value, wanted)):
            return f"is {value!r:.200}, and no class that extends {wanted.__name__}"
        if origin is Callable and isinstance(wanted, list) and callable(value) and not takes(len(wanted), value):
            return f"is {value!r:.200}, which cannot be called with {len(wanted)} arguments"
    return ""


def takes(count: int, function: Any) -> bool:
    """Return whether a function can be called with so many arguments, as far as that can be told."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:  # a builtin
        return True
    return True


def _near(name: str, contract: Contract) -> str:
    """Return the element or the thing that is close to a name of none of them, or "": an element may also name one
    of a package that is not installed."""
    package = contract.module.partition(".")[0]
    if package == "pipeline":
        return ""
    known = _installed() | THINGS
    near = get_close_matches(name, known - {name}, n=1, cutoff=0.75) if name not in known else []
    return near[0] if near and name not in _of_package(package) else ""


@lru_cache(1)
def _installed() -> frozenset[str]:
    """Return the names of the elements that are installed."""
    groups = ("paste.filter_factory", "paste.app_factory")
    return frozenset(point.name for group in groups for point in entry_points(group=group))


def _of_package(package: str) -> set[str]:
    """Return the names of the elements in the modules of a package, which need not be installed as such."""
    modules: Iterable[Any] = [module for name, module in list(sys.modules.items()) if name.split(".")[0] == package]
    contracts = (getattr(one, "contract", None) for module in modules for one in vars(module).values())
    return {one.name for one in contracts if isinstance(one, Contract)}
