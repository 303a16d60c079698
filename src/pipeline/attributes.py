"""The attributes that elements add to requests. The class of the requests is made from them at load."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from inspect import get_annotations
from typing import Any

from pipeline.interfaces import ConfigurationError
from pipeline.request import OF_AN_ATTEMPT, OnFirstUse, Request

Added = tuple[str, type[Request]]
"""The name of an element and the subclass of ``Request`` that declares what the element adds."""
AS_TEXT: Any = {"format": 4} if sys.version_info >= (3, 14) else {}  # annotationlib.Format.STRING (PEP 649)


def composed(added: Iterable[Added], offered: Mapping[str, Any]) -> type[Request]:
    """Return the class of the requests of a pipeline.

    added    what its elements add, outermost first
    offered  what they offer at load: by the name of an attribute, the function that makes it if it is declared by
             ``on_first_use``, or else its value

    Raises ConfigurationError if two elements add one name, or if one hides an attribute of the core.
    """
    added = tuple(added)
    refuse_clashes(added)
    bases: list[type[Request]] = []
    for _, cls in added:
        if not any(issubclass(base, cls) for base in bases):
            bases = [*(base for base in bases if not issubclass(cls, base)), cls]
    texts = {"__doc__": Request.__doc__, "__module__": Request.__module__}
    made: type[Request] = type("Request", (*bases, Request), texts)
    for name, value in offered.items():
        declared = declaration(made, name)
        if name in OF_AN_ATTEMPT:
            continue  # the first value of a field, see ``beginning``
        if isinstance(declared, OnFirstUse):
            value = declared.opened_by(value)
            value.__set_name__(made, name)
        elif callable(value):
            value = staticmethod(value)
        setattr(made, name, value)
    values = [item for cls in made.__mro__ for item in vars(cls).items()]
    first_used = [(name, value) for name, value in values if isinstance(value, OnFirstUse) and value.opener]
    made.dropped = tuple(sorted({name for name, value in first_used if value.dropped}))
    return made


def declaration(cls: type[Request], name: str) -> Any:
    """Return the value that a class of requests has for an attribute. A slot or a mere annotation gives None."""
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)


def names_of(added: type[Request]) -> Iterator[tuple[str, type]]:
    """Yield each attribute that a subclass of ``Request`` adds, with the class that declares it."""
    return ((name, cls) for cls in added.__mro__ for name in declared_by(cls))


def declared_by(cls: type) -> list[str]:
    """Return the attributes that a class itself declares, if it is a subclass of ``Request``."""
    if cls is Request or not issubclass(cls, Request):
        return []
    return sorted(name for name in {*vars(cls), *get_annotations(cls, **AS_TEXT)} if not name.startswith("__"))


def refuse_clashes(added: Iterable[Added]) -> None:
    """Raise ConfigurationError if two elements add an attribute of one name, or one hides one of the core."""
    first: dict[str, tuple[str, type]] = {}
    core = {*dir(Request), *Request.__annotations__}
    for element, cls in added:
        for name, declares in names_of(cls):
            here = f"{declares.__module__}.{declares.__qualname__}"
            if name in core:
                raise ConfigurationError(
                    f"{element} adds request.{name} ({here}), but every request has that attribute. "
                    f"Give it another name"
                )
            other, by = first.setdefault(name, (element, declares))
            if by is not declares:
                raise ConfigurationError(
                    f"{other} and {element} both add request.{name}, in {by.__module__}.{by.__qualname__} and in "
                    f"{here}. Give one of them another name"
                )


def refuse_undeclared(element: str, added: type[Request] | None, offered: Iterable[str]) -> None:
    """Raise ConfigurationError if an element offers an attribute that neither it nor the core declares."""
    known = {*dir(Request), *(name for name, _ in names_of(added or Request))}
    for name in offered:
        if name not in known:
            raise ConfigurationError(
                f"{element} offers request.{name}, which no class declares. Declare it in a subclass of Request "
                f"and name that class by @element(adds=...)"
            )


def refuse_other_layout(added: type[Request]) -> None:
    """Raise TypeError for a class that cannot be combined with those of other elements."""
    if not (isinstance(added, type) and issubclass(added, Request) and added is not Request):
        raise TypeError(f"adds must be a subclass of pipeline.Request, not {added!r}")
    for cls in added.__mro__[: added.__mro__.index(Request)]:
        if "__slots__" in vars(cls) or "__init__" in vars(cls):
            raise TypeError(f"{cls!r} has __slots__ or __init__. It may only declare attributes")
