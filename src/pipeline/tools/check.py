"""``pipeline check INI [name=value ...]``: refuse what loading the ini would refuse."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from pipeline.paste import Chain
from pipeline.tools.ini import add_ini, plan_of


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="pipeline check",
        description="Refuses a wrong option, a wrong order or a missing element, as loading does.",
    )
    add_ini(parser)
    options = parser.parse_args(arguments)
    return check(plan_of(options.ini, options.variables), options.ini)


def check(chains: Sequence[Chain], ini: str) -> int:
    """Check each chain; print the verdict."""
    for chain in chains:
        chain.check()
    count = sum(len(chain.steps) for chain in chains)
    print(f"{ini}: {len(chains)} pipeline{'s' * (len(chains) != 1)}, {count} parts, in order and complete")
    return 0
