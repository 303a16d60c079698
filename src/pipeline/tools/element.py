"""``pipeline element [NAME]``: say what an element does, takes, requires and provides."""

from __future__ import annotations

import argparse
import inspect
import sys
import textwrap
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path

from pipeline.composition import Element
from pipeline.options import resolve
from pipeline.tools.ini import options_of
from pipeline.tools.show import added
from pipeline.tools.words import place_of, sentence, short, written

GROUP = "paste.filter_factory"


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="pipeline element",
        description="Says what an element does, takes, requires and provides.",
    )
    parser.add_argument(
        "element",
        nargs="?",
        help="the name of an element that is installed, or package.module:name; without it, all are listed",
    )
    return describe(options_of(parser, arguments).element)


def describe(name: str | None) -> int:
    """Print what an element says of itself; or list all that are installed."""
    installed = {point.name: point for point in entry_points(group=GROUP)}
    if name is None:
        for known in sorted(installed):
            try:
                element = installed[known].load()
            except ImportError as error:
                print(f"{known:14}(cannot be used: {error})")
                continue
            if isinstance(element, Element):
                print(f"{known:14}{sentence(element)}")
        return 0
    if ":" in name:
        sys.path.insert(0, str(Path.cwd()))
        element = resolve(name)
    elif name in installed:
        element = installed[name].load()
    else:
        near = get_close_matches(name, installed, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(installed))}"
        raise LookupError(f"there is no element {name!r}; {hint} (One that is not installed: package.module:name)")
    if not isinstance(element, Element):
        raise LookupError(f"{name!r} is not an element: it is {short(element)} ({place_of(element)})")
    print(f"{name}\n{'=' * len(name)}\n\n{inspect.cleandoc(element.__doc__ or '')}\n")
    for option in inspect.signature(element.factory).parameters.values():
        if option.kind is option.KEYWORD_ONLY:
            default = "needed" if option.default is option.empty else f"default {written(option.default)!r}"
            kind = option.annotation
            kind = kind if isinstance(kind, str) else inspect.formatannotation(kind)
            print(f"option    {option.name}: {kind}, {default}")
    for one in added(element):
        print(textwrap.fill(f"adds      request.{one['name']}: {one['type']}. {one['meaning']}", 100))
    contract = element.contract
    for title, things in (("requires", contract.requires), ("provides", contract.provides)):
        if things:
            print(f"{title:9} {', '.join(things)}")
    for title, reasons in (("inside", contract.inside), ("outside", contract.outside)):
        for other, reason in reasons.items():
            print(textwrap.fill(f"{title:9} {other}: {reason}", 100, subsequent_indent=" " * 10))
    return 0
