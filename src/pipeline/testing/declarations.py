"""Checks of what elements declare: docstring, options, places, attributes and facts; ``assert_order`` of two."""

from __future__ import annotations

import os
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pipeline.attributes import declaration, names_of
from pipeline.composition import Element
from pipeline.interfaces import Facts
from pipeline.order import objection, reasons_of
from pipeline.request import Request
from pipeline.staging.effects import effect
from pipeline.strings import convert
from pipeline.testing.probes import NotConforming


def check_declarations(element: Element) -> None:
    """Check the docstring, the options, the places and the attributes of an element."""
    for rule, faults in (
        ("documented", undocumented(element)),
        ("options", unwritable(element)),
        ("reasons", unreasoned(element)),
        ("defaults", shared_defaults(element)),
    ):
        for found in faults:
            raise NotConforming(element.name, rule, found)


def undocumented(element: Element) -> Iterator[str]:
    text = element.__doc__ or ""
    if not text.strip():
        yield "it has no docstring"
    words = set(text.replace("`", " ").replace(",", " ").split())
    for name in element.signature.annotations:
        if name not in words:
            yield f"the docstring does not name the option {name!r}"


def unwritable(element: Element) -> Iterator[str]:
    for name, annotation in element.signature.annotations.items():
        try:
            convert("a text that is long enough", annotation)
        except Exception as error:
            if "cannot be written in an ini" in str(error):
                yield f"option {name!r}: {error}"


def unreasoned(element: Element) -> Iterator[str]:
    contract = element.contract
    for places in (contract.inside, contract.outside):
        for name, reason in places.items():
            if not isinstance(reason, str) or not reason.strip():
                yield f"the place relative to {name!r} has the reason {reason!r}"
    for name in contract.inside.keys() & contract.outside.keys():
        yield f"it must be inside and outside of {name!r}"


def shared_defaults(element: Element) -> Iterator[str]:
    for name, cls in attributes_of(element):
        value = declaration(cls, name)
        if isinstance(value, (list, dict, set, bytearray)):
            yield f"the default of request.{name} is {value!r}; declare it by on_first_use(), or use a tuple"


def attributes_of(element: Element) -> Iterator[tuple[str, type]]:
    """Yield each attribute that an element adds to requests, with the class that declares it."""
    return names_of(element.contract.adds or Request)


def hints_of(cls: type) -> dict[str, Any]:
    """Return the declared types of a class of attributes. A name that only a type checker knows gives no types."""
    try:
        return get_type_hints(cls)
    except (NameError, AttributeError, TypeError):
        return {}


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value has the declared type, as far as this can be known without a type checker."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in arguments)
    if hint is None or hint is types.NoneType:
        return value is None
    if origin is Literal:
        return value in arguments
    if hint is float:
        return isinstance(value, (int, float))
    cls = origin or hint
    if cls is Callable:
        return callable(value)
    try:
        return not isinstance(cls, type) or isinstance(value, cls)
    except TypeError:  # a protocol that cannot be checked
        return True


def assert_order(outer: Element, inner: Element, *, because: str = "") -> None:
    """Check that one element must stand outside another: the reverse is refused at load, and this order is not.

    outer    the element that must stand outside
    inner    the element that must stand inside of it
    because  words of the declared reason

    Raises AssertionError, which quotes what the elements declare.
    """
    pair = f"{outer.name} outside {inner.name}"
    refusal = objection(outer.contract, inner.contract, ())
    if refusal is not None:
        raise AssertionError(f"{pair} is refused: {refusal}")
    reasons = list(reasons_of(outer.contract, inner.contract))
    if not reasons:
        raise AssertionError(
            f"{pair} is not declared: {inner.name} outside {outer.name} is accepted as well. Declare it by inside, "
            f"outside or requires of one of the two"
        )
    if not any(because in reason for reason in reasons):
        raise AssertionError(f"{pair} is declared, but no reason says {because!r}: {'; '.join(reasons)}")


# The facts: files that are written and servers that are connected to.


class Opened:
    """Files and servers that this process opens, as ``note`` is told by the audit events of Python."""

    def __init__(self) -> None:
        self.files: set[Path] = set()
        self.ports: set[int] = set()

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note a file or a server."""
        if event == "socket.connect" and isinstance(arguments[1], tuple):
            self.ports.add(arguments[1][1])
        elif event in ("open", "sqlite3.connect") and (file := effect(event, arguments)):
            self.files.add(Path(file))

    def undeclared(self, facts: Facts) -> Iterator[str]:
        """Yield what the facts of an element do not name. A file beside one that they name is part of it."""
        directories = [Path(os.path.abspath(path)) for path in facts.writes if path.endswith("/")]
        beside = {Path(os.path.abspath(path)).parent for path in facts.writes if not path.endswith("/")}
        beside |= {Path(tempfile.gettempdir()), Path("/dev")}
        for file in sorted(self.files):
            is_known = file.parent in beside or any(map(file.is_relative_to, directories))
            if not is_known and "__pycache__" not in file.parts:
                yield f"it writes {file}, which is not among the facts: @element(facts=...) with Facts(writes=...)"
        known = {server.rpartition(":")[2] for server in facts.servers}
        for port in sorted(self.ports):
            if str(port) not in known:
                yield (
                    f"it connects to port {port}, which is not among the facts: @element(facts=...) with "
                    f"Facts(servers=...)"
                )
