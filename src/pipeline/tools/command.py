"""The command ``pipeline``: what an ini puts together, said, checked and explained."""

from __future__ import annotations

import argparse
import inspect
import sys
import textwrap
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import entry_points

from pipeline.composition import Element
from pipeline.interfaces import ConfigurationError
from pipeline.paste import Chain, plan

GROUP = "paste.filter_factory"

OTHERS = {
    "demo-import": ("pipeline.demo.importer", "import a directory of files into the demo site"),
    "demo-user": ("pipeline.demo.user_command", "add a user to the demo site, or set a password"),
    "copy-database": ("pipeline.tools.copy_database", "copy an object database to another storage"),
}
"""Commands with arguments of their own: their module, whose ``main(arguments)`` is called."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status: 0 done, 1 refused, 2 misused."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in OTHERS:
        run: Callable[[list[str]], int] = import_module(OTHERS[given[0]][0]).main
        return run(given[1:])
    parser = argparse.ArgumentParser(
        prog="pipeline",
        description="Shows, checks and explains the pipelines of a Paste Deploy ini.",
        epilog="Also: "
        + "; ".join(f"pipeline {name} ... ({what})" for name, (_, what) in OTHERS.items()),
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, what in (
        ("show", "list what a request passes, outermost first, with the options in force"),
        ("check", "refuse a wrong option, a wrong order or a missing element, as loading does"),
    ):
        command = commands.add_parser(name, help=what, description=what)
        command.add_argument("ini", help="the ini, such as etc/deploy.ini, or etc/deploy.ini#name")
        command.add_argument("variable", nargs="*", help="name=value, as for paster serve")
    explain = commands.add_parser("explain", help="say what an element does, takes, requires and provides")
    explain.add_argument("element", nargs="?", help="its name; without it, all are listed")
    options = parser.parse_args(given)
    try:
        if options.command == "explain":
            return explain_element(options.element)
        chains = list(_plan(options.ini, options.variable))
        return show(chains) if options.command == "show" else check(chains, options.ini)
    except (ConfigurationError, LookupError, OSError, ValueError) as error:
        print(f"pipeline {options.command}: {error}", file=sys.stderr)
        return 1


def _plan(ini: str, variables: Sequence[str]) -> list[Chain]:
    given = {}
    for variable in variables:
        name, equals, value = variable.partition("=")
        if not equals:
            raise ValueError(f"{variable!r} is not of the form name=value")
        given[name] = value
    return list(plan(f"config:{ini}", relative_to=".", **given))


def show(chains: Sequence[Chain]) -> int:
    """Print each chain, outermost first: name, options, and what it does."""
    for chain in chains:
        if chain.condition:
            print(f"[{chain.condition}]")
        width = max(len(str(step)) for step in chain.steps)
        for step in chain.steps:
            print(f"{step!s:{width}}  {_sentence(step.factory) if step.element else 'not ours'}")
            for option, value in (step.element.options if step.element else {}).items():
                print(f"{'':{width}}    {option} = {_written(value)}")
        print()
    return check(chains, "this ini")


def check(chains: Sequence[Chain], ini: str) -> int:
    """Check each chain; print the verdict."""
    for chain in chains:
        chain.check()
    count = sum(len(chain.steps) for chain in chains)
    print(f"{ini}: {len(chains)} pipeline{'s' * (len(chains) != 1)}, {count} parts, in order and complete")
    return 0


def explain_element(name: str | None) -> int:
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
                print(f"{known:14}{_sentence(element)}")
        return 0
    if name not in installed:
        raise LookupError(f"there is no element {name!r}; there are {', '.join(sorted(installed))}")
    element = installed[name].load()
    if not isinstance(element, Element):
        raise LookupError(f"{name!r} is a filter, but no element of a pipeline")
    print(f"{name}\n{'=' * len(name)}\n\n{inspect.cleandoc(element.__doc__ or '')}\n")
    for option in inspect.signature(element.factory).parameters.values():
        if option.kind is option.KEYWORD_ONLY:
            default = "needed" if option.default is option.empty else f"default {_written(option.default)!r}"
            print(f"option    {option.name}: {option.annotation}, {default}")
    contract = element.contract
    for title, things in (("requires", contract.requires), ("provides", contract.provides)):
        if things:
            print(f"{title:9} {', '.join(things)}")
    for title, reasons in (("inside", contract.inside), ("outside", contract.outside)):
        for other, reason in reasons.items():
            print(textwrap.fill(f"{title:9} {other}: {reason}", 100, subsequent_indent=" " * 10))
    return 0


def _sentence(element: object) -> str:
    text = inspect.cleandoc(getattr(element, "__doc__", None) or "")
    return " ".join(text.partition("\n\n")[0].split())


def _written(value: object) -> str:
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}:{value.__qualname__}"
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return str(value)


if __name__ == "__main__":
    sys.exit(main())
