"""The command line of the commands: INI, the variables that follow it, and completion."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from pipeline.interfaces import ConfigurationError, Facts
from pipeline.options import on_demand
from pipeline.paste import Chain, Step, plan

autocomplete = on_demand("argcomplete:autocomplete")


def parser_of(command: str, description: str, epilog: str = "") -> argparse.ArgumentParser:
    """Return the parser of a command. An epilog of several lines is printed as it is."""
    formatter = argparse.RawDescriptionHelpFormatter if "\n" in epilog else argparse.HelpFormatter
    return argparse.ArgumentParser(
        prog=f"pipeline {command}", description=description, epilog=epilog, formatter_class=formatter
    )


def ini_parser(command: str, description: str, epilog: str = "") -> argparse.ArgumentParser:
    """Return the parser of a command that takes ``INI [name=value ...]`` and ``--json``."""
    parser = parser_of(command, description, epilog)
    add_ini(parser)
    parser.add_argument("--json", action="store_true", help="print the same as JSON")
    return parser


def options_of(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line; or complete it, if the shell asks for that by argcomplete."""
    if "_ARGCOMPLETE" in os.environ:
        autocomplete(parser)
    return parser.parse_intermixed_args(arguments)


def add_ini(parser: argparse.ArgumentParser) -> None:
    """Let a command take ``INI [name=value ...]``."""
    parser.add_argument("ini", metavar="INI", help="the ini, such as etc/deploy.ini, or etc/deploy.ini#name")
    add_variables(parser)


def add_variables(parser: argparse.ArgumentParser) -> None:
    """Let a command take ``[name=value ...]``."""

    def variable(word: str) -> str:
        if "=" not in word:
            raise argparse.ArgumentTypeError(f"{word!r} is not of the form name=value")
        return word

    what = "variables of the ini; they beat those of [DEFAULT]"
    parser.add_argument("variables", metavar="name=value", nargs="*", default=[], type=variable, help=what)


def port(text: str) -> int:
    """Return the number of a port of the command line."""
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a port: that is a number from 1 to 65535")
    return int(text)


def parse_variables(words: Sequence[str]) -> dict[str, str]:
    """Return the variables that ``name=value`` words give; ConfigurationError names the word that is not one."""
    given = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise ConfigurationError(f"{word!r} is not of the form name=value")
        given[name] = value
    return given


def split_name(ini: str) -> tuple[Path, str | None]:
    """Return the absolute path of ``path.ini#name``, and the name or None. OSError if it cannot be read."""
    file, _, name = ini.removeprefix("config:").partition("#")
    path = Path(file).absolute()
    with path.open("rb"):
        pass
    return path, name or None


def make_importable(ini: Path) -> None:
    """Put the working directory and the directory of the ini at the head of ``sys.path``."""
    for directory in (str(ini.parent), str(Path.cwd())):
        if directory in sys.path:
            sys.path.remove(directory)
        sys.path.insert(0, directory)


def plan_of(ini: str, words: Sequence[str], has_order: bool = False) -> list[Chain]:
    """Return what the ini puts together, without building it. With ``has_order``, raise OrderError if an element is
    missing or stands in the wrong place."""
    path, name = split_name(ini)
    make_importable(path)
    chains = list(plan(f"config:{path}", name, **parse_variables(words)))
    for chain in chains if has_order else ():
        chain.check_order()
    return chains


def facts_of(chains: Sequence[Chain]) -> list[tuple[Step, Facts]]:
    """Return the steps of an ini, each with its facts. A step that several chains share stands there once."""
    steps = {(step.where, str(step)): step for chain in chains for step in chain.steps}
    return [(step, step.facts) for step in steps.values()]


def host_of(chains: Sequence[Chain]) -> str:
    """Return a host that the site serves."""
    hosts = (host for _, told in facts_of(chains) for host in told.hosts if host != "*")
    return next(hosts, "localhost").removeprefix(".")


def refuse_several(workers: int, facts: Iterable[tuple[Step, Facts]]) -> None:
    """Refuse several processes if an element says that one alone can serve the site."""
    for step, told in facts:
        if workers > 1 and told.one_process:
            raise ConfigurationError(
                f"{step.where}: {workers} processes cannot serve this site: {told.one_process}. Use --workers 1"
            )
