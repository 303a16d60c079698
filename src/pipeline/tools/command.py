"""The command ``pipeline``: an entry point of the group ``wsgi_pipeline.commands`` adds a command to it.

The entry point names a function ``main(arguments)``, which returns the exit status. Its module is imported when the
command is used, and the first line of the module says, behind a colon, what the command does.
"""

from __future__ import annotations

import argparse
import os
import select
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points, version
from importlib.util import find_spec
from pathlib import Path

from pipeline.options import on_demand
from pipeline.telling.errors import put_error

autocomplete = on_demand("argcomplete:autocomplete")

GROUP = "wsgi_pipeline.commands"


@cache
def commands() -> dict[str, EntryPoint]:
    """Return the commands of all installed packages."""
    return {point.name: point for point in entry_points(group=GROUP)}


def summary(point: EntryPoint) -> str:
    """Return what the first line of a command's module says of it, without importing the module."""
    spec = find_spec(point.module)
    line = Path(spec.origin).read_text("utf-8").partition("\n")[0] if spec and spec.origin else ""
    return line.partition("``: ")[2].strip('".')


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status: 0 done, 1 refused, failed or a mistake found, 2 wrong usage."""
    width = max(map(len, commands()))
    parser = argparse.ArgumentParser(
        prog="pipeline",
        usage="pipeline [-h] [--version] COMMAND ...",
        description="Serves, deploys and inspects the pipelines of a Paste Deploy ini.",
        epilog="\n".join(
            [
                "commands:",
                *(f"  {name:{width}}  {summary(point)}" for name, point in commands().items()),
                "\npipeline COMMAND --help says what a command takes.",
                "\nexit status: 0 done, 1 refused, failed, or a mistake was found, 2 wrong usage",
                "completion:  pip install 'wsgi-pipeline[completion]', and into ~/.bashrc or ~/.zshrc:",
                '             eval "$(register-python-argcomplete pipeline)"',
            ]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"wsgi-pipeline {version('wsgi-pipeline')}")
    parser.add_argument("command", choices=commands(), metavar="COMMAND", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    if "_ARGCOMPLETE" in os.environ:
        complete(parser)
    given = sys.argv[1:] if arguments is None else list(arguments)
    if not given:
        parser.print_help(sys.stderr)
        return 2
    options = parser.parse_args(given)
    try:
        run: Callable[[list[str]], int] = commands()[options.command].load()
        return run(options.rest)
    except Exception as error:
        if isinstance(error, BrokenPipeError) and is_cut_off():
            sys.stdout = None
        else:
            put_error(f"pipeline {options.command}", error)
        return 1


def is_cut_off() -> bool:
    """Return whether the standard output is a pipe whose reader has gone, since it has what it wants."""
    (looker := select.poll()).register(1, 0)
    return bool(looker.poll(0))


def complete(parser: argparse.ArgumentParser) -> None:
    """Complete the command line that the shell has put into the environment, by argcomplete. Does not return.

    The parser of a command completes what follows its name. argcomplete counts the words in front from 1.
    """
    first = int(os.environ["_ARGCOMPLETE"])
    typed = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])]
    words = [*typed.split(), *([""] if typed[-1:].isspace() else [])]
    command = words[first] if len(words) > first + 1 else ""
    if command in commands():
        os.environ["_ARGCOMPLETE"] = str(first + 1)
        commands()[command].load()([])
    autocomplete(parser)


if __name__ == "__main__":
    sys.exit(main())
