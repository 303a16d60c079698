"""The annotation of ``request`` is a contract, which is checked when a pipeline is finished.

A view, an error view, the handler of an element and a traversal hook may name a subclass of ``Request`` there. The
pipeline is refused if no element adds the attributes of that class. Views that several pipelines publish are
refused if none of the pipelines that can route a request to the view has elements for all of its classes.

Whatever cannot be told is let through: an annotation that leads to no class when the site is loaded, and a view for
a type of request that no option of an element names.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import entry_points
from typing import Any, NamedTuple
from warnings import catch_warnings

from zope.interface.interface import InterfaceClass

from pipeline.attributes import AS_TEXT, declared_by
from pipeline.declared import refuse_odd
from pipeline.interfaces import ConfigurationError, IRequest
from pipeline.options import evaluated
from pipeline.order import Contract
from pipeline.request import Request
from pipeline.views import ERROR, View, Views, named


class Way(NamedTuple):
    """One way of requests to views: through elements, and for some methods only."""

    contracts: tuple[Contract, ...]
    only: frozenset[str] | None = None
    """Methods of the requests that go this way, or None."""
    never: frozenset[str] = frozenset()
    """Methods of requests that go another way."""

    def takes(self, method: str, request_type: Any) -> bool:
        """Return whether a request may go this way to a view for that method and type of request."""
        if method != ERROR and (method in self.never or (self.only is not None and method not in self.only)):
            return False
        return request_type is IRequest or any(one.isOrExtends(request_type) for one in self.types())

    def types(self) -> list[InterfaceClass]:
        """Return the types of requests that options of its elements name."""
        given = (option for contract in self.contracts for option in contract.element.options.values())
        return [option for option in given if isinstance(option, InterfaceClass)]

    def fills(self, view: View, request_type: Any) -> bool:
        """Return whether a view that takes fields gets them: by an element, or by a type of request, as XML-RPC."""
        reads = getattr(view.fill, "reads", None)
        if reads is None or request_type is not IRequest:
            return True
        return any(hasattr(contract.adds, reads) for contract in self.contracts) or bool(self.types())

    def lacks(self, wanted: type[Request]) -> list[type[Request]]:
        """Return the classes with the attributes of ``wanted`` that no element of this way adds."""
        added = {cls for contract in self.contracts if contract.adds for cls in contract.adds.__mro__}
        adding = (cls for cls in wanted.__mro__ if any(_adds(cls, name) for name in declared_by(cls)))
        return [cls for cls in adding if cls not in added]


def _adds(cls: type[Request], name: str) -> bool:
    """Return whether a class adds that attribute. An annotation alone may say more of one that the bases have, as
    in ``root: Shop``."""
    bases = cls.__mro__[1:]
    return name in vars(cls) or not any(name in vars(base) or name in declared_by(base) for base in bases)


def wanted_by(function: Any, place: int) -> type[Request] | None:
    """Return the class that a function or class names for its parameter at a place, if it is one of requests."""
    call = inspect.unwrap(function)
    if not inspect.isroutine(call):
        owner, method = (call, "__init__") if isinstance(call, type) else (type(call), "__call__")
        call, place = getattr(owner, method, None), place + 1
    elif inspect.ismethod(call):
        call, place = call.__func__, place + 1
    try:
        code = call.__code__
        annotation = inspect.get_annotations(call, **AS_TEXT)[code.co_varnames[: code.co_argcount][place]]
        found = evaluated(annotation, call.__globals__)
    except Exception:  # such as a name that only type checkers import
        return None
    return found if isinstance(found, type) and issubclass(found, Request) else None


def refuse_unadded(contracts: Iterable[Contract], offered: Mapping[str, Any], views: Views | None) -> None:
    """Raise ConfigurationError if a part of a finished pipeline names a class that no element adds."""
    way = Way(tuple(contracts))
    functions = [contract.handler for contract in way.contracts]
    for value in offered.values():
        functions += value if isinstance(value, tuple) else [value]
    for function in filter(inspect.isroutine, functions):
        wanted = wanted_by(function, 0)
        if wanted is not None and (lacking := way.lacks(wanted)):
            raise ConfigurationError(f"{named(function)}{_reason(lacking[0], way)}")
    refuse_odd(way.contracts)
    for contract in way.contracts:
        if hasattr(contract.adds, "__complete__"):
            contract.adds.__complete__(offered)
    if views is not None:
        refuse_unadded_views([(views, way)])


def refuse_unadded_views(published: Iterable[tuple[Views, Way]]) -> None:
    """Raise ConfigurationError if a view names a class, or fields, that are missing on all ways to the view.

    published  the views of each publisher of a site, with the way of the requests to that publisher
    """
    found: dict[Any, list[tuple[Way, View, Any]]] = {}
    for views, way in published:
        for _, request_type, key, view in views:
            if way.takes(key.partition(" ")[0], request_type):
                found.setdefault(view.function, []).append((way, view, request_type))
    for function, taken in found.items():
        ways = [way for way, _, _ in taken]
        if not any(way.fills(view, request_type) for way, view, request_type in taken):
            names = " ".join(contract.name for contract in ways[0].contracts)
            fields = ", ".join(getattr(taken[0][1].fill, "names", ()))
            said = f"takes the fields {fields}, and no element of the pipeline {names} reads them"
            raise ConfigurationError(f"{named(function)} {said}: add forms, outside of traverse")
        wanted = wanted_by(function, 1)
        if wanted is not None and all(way.lacks(wanted) for way in ways):
            way = min(ways, key=lambda way: len(way.lacks(wanted)))
            raise ConfigurationError(f"{named(function)}{_reason(way.lacks(wanted)[0], way)}")


def _reason(lacking: type[Request], way: Way) -> str:
    """Return the rest of the sentence about a function that names a class which no element adds."""
    names = " ".join(contract.name for contract in way.contracts)
    adders = " or ".join(sorted(set(adders_of(lacking))))
    remedy = f"Add the element {adders}, or name another class" if adders else "Add an element for it"
    return (
        f" takes a request of the class {lacking.__module__}.{lacking.__qualname__}, and no element of "
        f"the pipeline {names} adds that class. {remedy}"
    )


def adders_of(wanted: type[Request]) -> Iterator[str]:
    """Yield the elements that add a class: those of installed packages, and those of the module of the class."""
    found = list(vars(sys.modules[wanted.__module__]).values())
    for point in entry_points(group="paste.filter_factory"):
        with suppress(Exception), catch_warnings(action="ignore"):  # of packages that are missing, or are not ours
            found.append(point.load())
    for element in found:
        contract = getattr(element, "contract", None)
        if isinstance(contract, Contract) and contract.adds is not None and issubclass(contract.adds, wanted):
            yield contract.name
