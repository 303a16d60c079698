"""The command line of the commands: INI, the variables that follow it, and completion."""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache, partial
from pathlib import Path
from typing import Any

from pipeline.interfaces import ConfigurationError, Facts
from pipeline.options import on_demand
from pipeline.paste import Chain, Step, check, plan
from pipeline.telling.errors import refusal

autocomplete = on_demand("argcomplete:autocomplete")


COMMANDS = Path(__file__).parents[1] / "tools"
"""The directory of what each command says and takes, ``COMMAND.toml``, and of what several take."""


def parser_of(command: str, **choices: Iterable[str]) -> argparse.ArgumentParser:
    """Return the parser of a command, as its TOML file has it. An epilog of several lines is printed as it is.

    choices  the values of an argument, by its name, which depend on what is installed
    """
    said = tomllib.loads((COMMANDS / f"{command}.toml").read_text("utf-8"))
    description, epilog = said.pop("description"), said.pop("epilog", "")
    formatter = argparse.RawDescriptionHelpFormatter if "\n" in epilog else argparse.HelpFormatter
    parser = argparse.ArgumentParser(
        prog=f"pipeline {command}", description=description, epilog=epilog, formatter_class=formatter
    )
    ways = cache(parser.add_mutually_exclusive_group)  # argparse refuses one that is empty
    for name, given in said.items():
        if name.lstrip("-") in choices:
            given["choices"] = choices[name.lstrip("-")]
        add_argument(ways() if given.pop("is_a_way", False) else parser, name, given)
    return parser


@cache
def common() -> dict[str, dict[str, Any]]:
    """Return what several commands take, by name."""
    return tomllib.loads((COMMANDS / "common.toml").read_text("utf-8"))


def add_argument(parser: Any, name: str, given: Mapping[str, Any] = {}) -> None:
    """Let a command take an argument, as a TOML file describes it: by the names of ``argparse``."""
    told = {**common().get(name, {}), **given}
    if "type" in told:
        told["type"] = TYPES[told["type"]]
    if "range" in told:
        told["type"] = partial(number_in, told["type"], *told.pop("range"))
    if told.get("action") == "append":
        told["default"] = []
    if isinstance(told.get("metavar"), list):
        told["metavar"] = tuple(told["metavar"])
    parser.add_argument(name, **told)


def options_of(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line; or complete it, if the shell asks for that by argcomplete."""
    if "_ARGCOMPLETE" in os.environ:
        autocomplete(parser)
    return parser.parse_intermixed_args(arguments)


def variable(word: str) -> str:
    """Return a word ``name=value`` of the command line."""
    if "=" not in word:
        raise argparse.ArgumentTypeError(f"{word!r} is not of the form name=value")
    return word


def number_in(kind: Callable[[str], float], least: float, most: float, text: str) -> float:
    """Return a number of the command line, which is neither smaller nor larger than these."""
    try:
        number = kind(text)
    except ValueError:
        number = math.nan  # which is in no range
    if not least <= number <= most:
        whole = "whole " if kind is int else ""
        raise argparse.ArgumentTypeError(f"{text!r} is not a {whole}number from {least} to {most}")
    return number


def pattern(text: str) -> str:
    """Return a regular expression of the command line."""
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a regular expression: {error}") from None
    return text


TYPES: dict[str, Callable[[str], Any]] = {
    "float": float,
    "int": int,
    "path": Path,
    "pattern": pattern,
    "variable": variable,
}
"""The types of arguments, by the names that the TOML files have for them."""


def parse_variables(words: Sequence[str]) -> dict[str, str]:
    """Return the variables that words ``name=value`` give."""
    return dict(word.split("=", 1) for word in words)


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
    """Return what the ini puts together, without building it.

    has_order  raise ConfigurationError if an element is missing or in the wrong place, or two write one file
    """
    path, name = split_name(ini)
    make_importable(path)
    variables = parse_variables(words)
    chains = list(plan(f"config:{path}", name, **variables))
    for given, near in unread(chains, variables) if variables else ():
        raise ConfigurationError(f"no ini reads the variable {given!r}; did you mean {near!r}?")
    if has_order:
        check(chains)
    return chains


def unread(chains: Sequence[Chain], names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the variables that no ini of the chains reads, each with one that is read and has nearly its name."""
    inis = {ini for chain in chains for step in chain.steps for ini in step.source.inis}
    text = "\n".join(Path(ini).read_text("utf-8", "replace") for ini in inis)
    read = {*re.findall(r"%\(([^()]++)\)s", text), *re.findall(r"(?m)^get [^=\n]*+=[ \t]*+(\S+)", text)}
    for name in sorted({*names} - read):
        if near := get_close_matches(name, sorted(read), 1, 0.8):
            yield name, near[0]


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
            raise refusal("one process", where=step.where, workers=workers, reason=told.one_process)
