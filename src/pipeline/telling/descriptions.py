"""Elements and pipelines as they describe themselves: options, place, attributes, facts, and the rules between."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple, get_type_hints
from warnings import catch_warnings

from pipeline.attributes import AS_TEXT, names_of
from pipeline.composition import Element
from pipeline.ini import parsed
from pipeline.interfaces import Facts
from pipeline.order import Contract, objection
from pipeline.paste import Chain, Step
from pipeline.request import OnFirstUse
from pipeline.telling.secrets import is_secret, told_option
from pipeline.telling.words import place_of, sentence, written

GROUPS = ("paste.filter_factory", "paste.app_factory")
"""The groups of entry points that have elements. Those of the second are ends of pipelines."""


class Option(NamedTuple):
    """An option of an element, a switch or an app."""

    name: str
    type: str
    default: str | None
    """The default as an ini has it, or None if the option must be given."""
    meaning: str
    """The meaning of the option, with its unit, as reStructuredText."""


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


def described(chain: Chain) -> dict[str, Any]:
    """Return the facts of a pipeline."""
    contracts = [step.element.contract for step in chain.steps if step.element is not None]
    return {"condition": chain.condition, "parts": [described_step(step, contracts) for step in chain.steps]}


def described_step(step: Step, contracts: Sequence[Contract]) -> dict[str, Any]:
    """Return the facts of one part of a pipeline."""
    element, facts = step.element, step.facts
    options: Mapping[str, object] = step.strings if element is None else element.options
    is_hidden = is_secret if element is None else facts.secrets.__contains__
    described = {
        "name": str(step),
        "what": f"foreign: {place_of(step.factory)}" if element is None else sentence(step.factory),
        "where": step.where,
        "options": {name: told_option(name, value, is_hidden) for name, value in options.items()},
        "facts": list(lines_of(facts)),
        "foreign": element is None,
    }
    if element is None:
        return described
    return {
        **described,
        "defaults": {
            name: written(option.default)
            for name, option in inspect.signature(element.factory).parameters.items()
            if option.kind is option.KEYWORD_ONLY and name not in element.options and option.default is not None
        },
        "requires": [thing for thing in element.contract.requires if thing not in element.contract.met],
        "provides": list(element.contract.provides),
        "request class": written(element.contract.adds) if element.contract.adds is not None else "",
        "adds": list(added(element)),
        "held": list(holding(element.contract, contracts)),
    }


def added(element: Element) -> Iterator[dict[str, str]]:
    """Yield the attributes that an element adds to the request: name, type, default and meaning."""
    if element.contract.adds is None:
        return
    for name, declares in names_of(element.contract.adds):
        value = vars(declares).get(name)
        if callable(value) or isinstance(value, property):
            kind, default = ("property" if isinstance(value, property) else "method"), ""
        else:
            kind = _type_of(declares, name)
            default = "on first use" if isinstance(value, OnFirstUse) else written(value)
        yield {"name": name, "type": kind, "default": default, "meaning": _meaning(declares, name)}


def _type_of(declares: type, name: str) -> str:
    try:
        found = get_type_hints(declares).get(name)
    except (NameError, TypeError):
        return str(inspect.get_annotations(declares, **AS_TEXT).get(name, ""))
    return getattr(found, "__name__", None) or str(found) if isinstance(found, type) else str(found or "")


@lru_cache(maxsize=1_000)
def _meaning(declares: type, name: str) -> str:
    """Return the text below an attribute in the source of its class."""
    try:
        lines = textwrap.dedent(parsed(inspect.getsource, declares))
    except (OSError, TypeError):
        return ""
    value = vars(declares).get(name)
    if inspect.isfunction(value) or isinstance(value, property):
        return sentence(value)
    _, _, rest = lines.partition(f"\n    {name}:")
    rest = rest.partition("\n")[2].strip()
    return " ".join(rest[3:].partition('"""')[0].split()) if rest.startswith('"""') else ""


def lines_of(facts: Facts) -> Iterator[str]:
    """Yield the facts of an element that an operator needs."""
    for title, things in (("writes", facts.writes), ("connects to", facts.servers), ("serves", facts.hosts)):
        if things:
            yield f"{title} {', '.join(things)}"
    if facts.one_process:
        yield f"one process: {facts.one_process}"
    if facts.max_body is not None:
        yield f"takes bodies of up to {facts.max_body} bytes"


def holding(contract: Contract, contracts: Sequence[Contract]) -> Iterator[str]:
    """Yield the rules that hold an element where it is in its pipeline."""
    place = contracts.index(contract)
    rules: dict[tuple[str, str], list[str]] = {}
    for number, other in enumerate(contracts):
        if number < place and (reason := objection(contract, other, contracts[:number])):
            rules.setdefault(("inside", reason), []).append(other.name)
        if number > place and (reason := objection(other, contract, contracts[:place])):
            rules.setdefault(("outside", reason), []).append(other.name)
    for (side, reason), names in rules.items():
        yield f"{side} {', '.join(names)}: {reason}"


def loaded(point: EntryPoint) -> object:
    """Load what is installed, without the warnings of packages that stand beside the elements."""
    with catch_warnings(action="ignore"):
        return point.load()


@cache
def providers(thing: str) -> str:
    """Return the names of the installed elements that provide a thing, such as "zodb or sql"."""
    found = []
    for point in entry_points(group=GROUPS[0]):
        with suppress(ImportError):
            element = loaded(point)
            if isinstance(element, Element) and thing in element.contract.provides:
                found.append(point.name)
    return " or ".join(sorted(found)) or f"an element that provides {thing!r}"
