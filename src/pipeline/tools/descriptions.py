"""The description of an element, by its factory and its contract: for ``pipeline element`` and the reference."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from pipeline.composition import Element
from pipeline.tools.show import added
from pipeline.tools.words import written


class Option(NamedTuple):
    """An option of an element, a switch or an app."""

    name: str
    type: str
    default: str | None
    """The default as an ini has it, or None if the option must be given."""
    meaning: str
    """The meaning of the option, with its unit, as reStructuredText."""


class Description(NamedTuple):
    """The words of an element for its users: options, place and attributes."""

    name: str
    text: str
    """The docstring without the options."""
    options: tuple[Option, ...]
    requires: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    adds: tuple[Mapping[str, str], ...] = ()
    """Name, type, default and meaning of each attribute that the element adds to the request."""
    inside: Mapping[str, str] = {}
    outside: Mapping[str, str] = {}


def description_of(name: str, element: Element) -> Description:
    """Return the description of an element."""
    text, options = read(element.__doc__, element.factory)
    contract = element.contract
    return Description(
        name,
        text,
        options,
        contract.requires,
        contract.provides,
        tuple(added(element)),
        contract.inside,
        contract.outside,
    )


def read(docstring: str | None, factory: Callable[..., Any]) -> tuple[str, tuple[Option, ...]]:
    """Return the text of a docstring without its options, and the options that the factory takes."""
    taken = [each for each in inspect.signature(factory).parameters.values() if each.kind is each.KEYWORD_ONLY]
    text, meanings = split(docstring, [each.name for each in taken])
    return text, tuple(
        Option(
            each.name,
            each.annotation if isinstance(each.annotation, str) else inspect.formatannotation(each.annotation),
            None if each.default is each.empty else written(each.default),
            meanings.get(each.name, ""),
        )
        for each in taken
    )


def split(docstring: str | None, names: Iterable[str]) -> tuple[str, dict[str, str]]:
    """Take the lines ``name  meaning`` out of a docstring; return the rest, and the meaning of each name.

    A line belongs to the name above it if it begins in the column of the meaning, or further right.
    """
    names = set(names)
    rest: list[str] = []
    meanings: dict[str, list[str]] = {}
    name, column = "", 0
    for line in inspect.cleandoc(docstring or "").splitlines():
        found = re.match(r"(\w+)  +(?=\S)", line)
        if found and found[1] in names:
            name, column = found[1], found.end()
            meanings[name] = [line[column:]]
        elif name and (not line or line[:column].isspace()):
            meanings[name].append(line[column:])
        else:
            name = ""
            rest.append(line)
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(rest)).strip()
    return text, {name: "\n".join(lines).strip() for name, lines in meanings.items()}
