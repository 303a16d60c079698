"""``pipeline show INI [name=value ...]``: the pipelines of an ini, with what holds each element where it is."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_type_hints

from pipeline.attributes import AS_TEXT, names_of
from pipeline.composition import Element
from pipeline.interfaces import Facts
from pipeline.order import Contract, objection
from pipeline.paste import Chain, Step
from pipeline.request import OnFirstUse
from pipeline.tools.drawing import drawing
from pipeline.tools.findings import put_json
from pipeline.tools.ini import ini_parser, options_of, plan_of
from pipeline.tools.inspector.secrets import told_option
from pipeline.tools.words import bold, place_of, sentence, written


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    parser = ini_parser(
        "show",
        "Lists what a request passes, outermost first: each element with the options in force, what it requires, "
        "provides and adds to the request, and the rules that hold it at its place.",
        "pipeline show site.ini --svg > site.svg draws it.",
    )
    parser.add_argument("--svg", action="store_true", help="print a drawing, as SVG")
    options = options_of(parser, arguments)
    chains = plan_of(options.ini, options.variables)
    for chain in chains:
        chain.check_order()
    told = [described(chain) for chain in chains]
    if options.json:
        put_json(told)
    elif options.svg:
        print(drawing(told, f"What a request to {options.ini} passes"))
    else:
        for one in told:
            put_chain(one)
    return 0


def described(chain: Chain) -> dict[str, Any]:
    """Return the facts of a pipeline."""
    contracts = [step.element.contract for step in chain.steps if step.element is not None]
    return {"condition": chain.condition, "parts": [described_step(step, contracts) for step in chain.steps]}


def described_step(step: Step, contracts: Sequence[Contract]) -> dict[str, Any]:
    """Return the facts of one part of a pipeline."""
    element, facts = step.element, step.facts
    options: Mapping[str, object] = step.strings if element is None else element.options
    described = {
        "name": str(step),
        "what": f"foreign: {place_of(step.factory)}" if element is None else sentence(step.factory),
        "where": step.where,
        "options": {name: told_option(name, value, facts.secrets) for name, value in options.items()},
        "facts": list(lines_of(facts)),
        "foreign": element is None,
    }
    if element is None:
        return described
    return {
        **described,
        "defaults": {option: written(value) for option, value in _defaults(element)},
        "requires": [thing for thing in element.contract.requires if thing not in element.contract.met],
        "provides": list(element.contract.provides),
        "request class": written(element.contract.adds) if element.contract.adds is not None else "",
        "adds": list(added(element)),
        "held": list(holding(element.contract, contracts)),
    }


def _defaults(element: Element) -> Iterator[tuple[str, Any]]:
    for name, option in inspect.signature(element.factory).parameters.items():
        if option.kind is option.KEYWORD_ONLY and name not in element.options and option.default is not None:
            yield name, option.default


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


def _meaning(declares: type, name: str) -> str:
    """Return the text below an attribute in the source of its class."""
    try:
        lines = textwrap.dedent(inspect.getsource(declares))
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


def put_chain(chain: dict[str, Any]) -> None:
    """Print a pipeline, outermost first."""
    if chain["condition"]:
        print(f"[{chain['condition']}]")
    width = max(len(part["name"]) for part in chain["parts"])
    for part in chain["parts"]:
        print(f"{bold(part['name'])}{'':{width - len(part['name'])}}  {part['what']}")
        for option, value in part["options"].items():
            print(f"{'':{width}}    {option} = {value}")
        for title in ("requires", "provides"):
            if part.get(title):
                print(f"{'':{width}}    {title}: {', '.join(part[title])}")
        if part.get("request class"):
            print(f"{'':{width}}    request class: {part['request class']}")
        for one in part.get("adds", ()):
            default = f" = {one['default']}" if one["default"] else ""
            _put(width, "adds: ", f"request.{one['name']}: {one['type']}{default}", one["meaning"])
        for fact in part["facts"]:
            _put(width, "", fact, "")
        for rule in part.get("held", ()):
            _put(width, "stands ", rule, "")
    print()


def _put(width: int, title: str, text: str, meaning: str) -> None:
    indent = " " * (width + 4)
    line = f"{title}{text}{'. ' + meaning if meaning else ''}"
    print(textwrap.fill(line, 116, initial_indent=indent, subsequent_indent=indent + "    "))
