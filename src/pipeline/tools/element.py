"""``pipeline element [NAME]``: say what an element does, takes, requires and provides."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path

from pipeline.composition import Element
from pipeline.interfaces import ConfigurationError
from pipeline.loading.command_line import options_of, parser_of
from pipeline.options import resolve
from pipeline.telling.descriptions import GROUPS, added, loaded, read
from pipeline.telling.errors import in_one_line
from pipeline.telling.words import place_of, sentence, short


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    name: str | None = options_of(parser_of("element"), arguments).element
    installed = {point.name: point for group in GROUPS for point in entry_points(group=group)}
    if name is None:
        for known in sorted(installed):
            try:
                element = loaded(installed[known])
            except ImportError as error:
                if installed[known].value.startswith("pipeline."):
                    print(f"{known:16} ({in_one_line(error)})")
                continue
            if isinstance(element, Element):
                print(f"{known:16} {sentence(element)}")
        return 0
    if ":" in name:
        sys.path.insert(0, str(Path.cwd()))
        element = resolve(name)
    elif name in installed:
        element = loaded(installed[name])
    else:
        near = get_close_matches(name, installed, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(installed))}"
        other = "(One that is not installed: package.module:name)"
        raise ConfigurationError(f"there is no element {name!r}; {hint} {other}")
    if not isinstance(element, Element):
        raise ConfigurationError(f"{name!r} is not an element: it is {short(element)} ({place_of(element)})")
    print(f"{name}\n{'=' * len(name)}\n\n{inspect.cleandoc(element.__doc__ or '')}\n")
    for line in lines(element):
        print(line)
    return 0


def lines(element: Element) -> Iterator[str]:
    """Yield what the docstring of the element does not say."""
    contract = element.contract
    for option in read(element.__doc__, element.factory)[1]:
        default = "needed" if option.default is None else f"default {option.default!r}"
        yield f"option    {option.name}: {option.type}, {default}"
    for title, things in (("requires", contract.requires), ("provides", contract.provides)):
        if things:
            yield f"{title:9} {', '.join(things)}"
    for one in added(element):
        meaning = f": {one['meaning']}" if one["meaning"] else ""
        yield textwrap.fill(f"{'adds':9} request.{one['name']}{meaning}", 100, subsequent_indent=" " * 10)
    for title, reasons in (("inside", contract.inside), ("outside", contract.outside)):
        for other, reason in reasons.items():
            yield textwrap.fill(f"{title:9} {other}: {reason}", 100, subsequent_indent=" " * 10)
