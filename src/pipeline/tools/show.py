"""``pipeline show INI [name=value ...]``: list what a request passes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from pipeline.paste import Chain
from pipeline.tools.check import check
from pipeline.tools.ini import add_ini, plan_of
from pipeline.tools.words import sentence, written


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="pipeline show",
        description="Lists what a request passes, outermost first, with the options in force.",
    )
    add_ini(parser)
    options = parser.parse_args(arguments)
    return show(plan_of(options.ini, options.variables))


def show(chains: Sequence[Chain]) -> int:
    """Print each chain, outermost first: name, options, and what it does."""
    for chain in chains:
        if chain.condition:
            print(f"[{chain.condition}]")
        width = max(len(str(step)) for step in chain.steps)
        for step in chain.steps:
            print(f"{step!s:{width}}  {sentence(step.factory) if step.element else 'not ours'}")
            for option, value in (step.element.options if step.element else {}).items():
                print(f"{'':{width}}    {option} = {written(value)}")
        print()
    return check(chains, "this ini")
