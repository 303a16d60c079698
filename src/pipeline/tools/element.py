"""``pipeline element [NAME]``: say what an element does, takes, requires and provides."""

from __future__ import annotations

import argparse
import inspect
import textwrap
from collections.abc import Sequence
from importlib.metadata import entry_points

from pipeline.composition import Element
from pipeline.tools.ini import options_of
from pipeline.tools.words import sentence, written

GROUP = "paste.filter_factory"


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="pipeline element",
        description="Says what an element does, takes, requires and provides.",
    )
    parser.add_argument("element", nargs="?", help="the name of the element; without it, all are listed")
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
    if name not in installed:
        raise LookupError(f"there is no element {name!r}; there are {', '.join(sorted(installed))}")
    element = installed[name].load()
    if not isinstance(element, Element):
        raise LookupError(f"{name!r} is a filter, but no element of a pipeline")
    print(f"{name}\n{'=' * len(name)}\n\n{inspect.cleandoc(element.__doc__ or '')}\n")
    for option in inspect.signature(element.factory).parameters.values():
        if option.kind is option.KEYWORD_ONLY:
            default = "needed" if option.default is option.empty else f"default {written(option.default)!r}"
            print(f"option    {option.name}: {option.annotation}, {default}")
    contract = element.contract
    for title, things in (("requires", contract.requires), ("provides", contract.provides)):
        if things:
            print(f"{title:9} {', '.join(things)}")
    for title, reasons in (("inside", contract.inside), ("outside", contract.outside)):
        for other, reason in reasons.items():
            print(textwrap.fill(f"{title:9} {other}: {reason}", 100, subsequent_indent=" " * 10))
    return 0
