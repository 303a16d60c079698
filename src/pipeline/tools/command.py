"""The command ``pipeline``: each of its commands is a module with ``main(arguments)``, imported when it is used."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version

from pipeline.options import on_demand
from pipeline.telling.errors import put_error

autocomplete = on_demand("argcomplete:autocomplete")

COMMANDS = {
    "serve": ("pipeline.tools.serve", "serve an ini: waitress with reload, gunicorn or Granian"),
    "deploy": ("pipeline.tools.deploy", "write the configuration of a server"),
    "check": ("pipeline.tools.check", "load every pipeline of an ini and report what is wrong or not safe"),
    "show": ("pipeline.tools.show", "list or draw what a request passes, and what holds each part where it is"),
    "views": ("pipeline.tools.views", "list every view: path, methods, request type, permission, source line"),
    "explain": ("pipeline.tools.explain", "run one request and show the way it took, and why it was answered so"),
    "top": ("pipeline.tools.top", "show what runs now in each process of a site, and for how long"),
    "prove": ("pipeline.proving.command", "ask for every view, with every failure at every point"),
    "rehearse": ("pipeline.proving.rehearse", "ask new code what visitors asked last, before it is served"),
    "adopt": ("pipeline.tools.adopt", "put a pipeline around a site of Pyramid, Zope or Paste that exists"),
    "new": ("pipeline.tools.new", "make a site to start from, in a new directory"),
    "shell": ("pipeline.tools.shell", "start Python with the root of a site, a request and a transaction"),
    "element": ("pipeline.tools.element", "say what an element does, takes, requires and provides"),
    "copy-database": ("pipeline.tools.copy_database", "copy an object database to another storage"),
    "demo-import": ("pipeline.demo.importer", "import a directory of files into the demo site"),
    "demo-user": ("pipeline.demo.user_command", "add a user to the demo site, or set a password"),
}
"""The module of each command, and what it does. ``main(arguments)`` returns the exit status."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status: 0 done, 1 refused, failed or a mistake found, 2 wrong usage."""
    width = max(map(len, COMMANDS))
    parser = argparse.ArgumentParser(
        prog="pipeline",
        usage="pipeline [-h] [--version] COMMAND ...",
        description="Serves, deploys and inspects the pipelines of a Paste Deploy ini.",
        epilog="\n".join(
            [
                "commands:",
                *(f"  {name:{width}}  {what}" for name, (_, what) in COMMANDS.items()),
                "\npipeline COMMAND --help says what a command takes.",
                "\nexit status: 0 done, 1 refused, failed, or a mistake was found, 2 wrong usage",
                "completion:  pip install 'wsgi-pipeline[completion]', and into ~/.bashrc or ~/.zshrc:",
                '             eval "$(register-python-argcomplete pipeline)"',
            ]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"wsgi-pipeline {version('wsgi-pipeline')}")
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    if "_ARGCOMPLETE" in os.environ:
        complete(parser)
    given = sys.argv[1:] if arguments is None else list(arguments)
    if not given:
        parser.print_help(sys.stderr)
        return 2
    options = parser.parse_args(given)
    try:
        run: Callable[[list[str]], int] = import_module(COMMANDS[options.command][0]).main
        return run(options.rest)
    except BrokenPipeError:  # the reader of a pipe has what it wants
        sys.stdout = None
        return 0
    except Exception as error:
        put_error(f"pipeline {options.command}", error)
        return 1


def complete(parser: argparse.ArgumentParser) -> None:
    """Complete the command line that the shell has put into the environment, by argcomplete. Does not return.

    The parser of a command completes what follows its name. argcomplete counts the words in front from 1.
    """
    first = int(os.environ["_ARGCOMPLETE"])
    typed = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])]
    words = [*typed.split(), *([""] if typed[-1:].isspace() else [])]
    command = words[first] if len(words) > first + 1 else ""
    if command in COMMANDS:
        os.environ["_ARGCOMPLETE"] = str(first + 1)
        import_module(COMMANDS[command][0]).main([])
    autocomplete(parser)


if __name__ == "__main__":
    sys.exit(main())
