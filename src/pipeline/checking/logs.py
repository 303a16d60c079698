"""Findings of ``pipeline check`` about the logging of an ini, which a server reads before it loads the site.

The sections are read as ``logging.config.fileConfig`` reads them. No handler is made, so no file is opened.
"""

from __future__ import annotations

import inspect
import logging
import logging.handlers
import re
from collections.abc import Iterator, Mapping
from configparser import Error as IniError
from configparser import InterpolationError
from difflib import get_close_matches
from operator import attrgetter
from pathlib import Path
from typing import Any

from pipeline.ini import place_in, sections_of
from pipeline.loading.site import logging_in
from pipeline.options import resolve
from pipeline.telling.errors import in_one_line
from pipeline.telling.findings import Finding

KINDS: dict[str, tuple[set[str], set[str]]] = {
    "logger": ({"handlers"}, {"level", "qualname", "propagate"}),
    "handler": ({"class"}, {"level", "formatter", "args", "kwargs"}),
    "formatter": (set(), {"format", "datefmt", "style", "validate", "class", "defaults"}),
}
"""The options that ``fileConfig`` needs in a section of each kind, and those that it reads as well."""


def of_logging(path: Path, variables: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what is wrong with the sections of the logging."""
    if any(section.partition("_")[0].rstrip("s") in KINDS for section in sections_of(str(path))):
        try:
            read = _Logging(path, variables)
        except IniError:  # the site does not load, and says why
            return
        yield from read.findings()


class _Logging:
    def __init__(self, path: Path, variables: Mapping[str, str]) -> None:
        self.path = path
        self.sections = sections_of(str(path))
        self.parser = logging_in(path, variables)

    def error(self, section: str, option: str, what: str, remedy: str = "") -> Finding:
        return Finding("error", place_in(self.path, section, option), what, remedy)

    def value(self, section: str, option: str, default: str = "") -> str:
        raw = section.startswith("formatter_")
        return self.parser.get(section, option, raw=raw, fallback=default)

    def names(self, section: str, option: str) -> list[str]:
        value = self.value(section, option)
        return [name.strip() for name in value.split(",")] if value else []

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong, section by section."""
        listed: dict[str, list[str]] = {}
        for kind in KINDS:
            section = f"{kind}s"
            listed[kind] = self.names(section, "keys") if section in self.sections else []
            if not self.parser.has_option(section, "keys"):
                told = self.error(section, "keys", f"[{section}] with its keys is not there, and logging needs it")
                yield told if "loggers" in self.sections else told._replace(level="warning")
            for name in listed[kind]:
                if f"{kind}_{name}" not in self.sections:
                    what = f"[{kind}_{name}] is not there"
                    yield self.error(section, "keys", what, "Add that section, or leave it out.")
        for kind in KINDS:
            for name in listed[kind]:
                if (section := f"{kind}_{name}") in self.sections:
                    yield from self.of_section(section, listed)

    def of_section(self, section: str, listed: Mapping[str, list[str]]) -> Iterator[Finding]:
        for option in self.sections[section][1]:
            try:
                self.value(section, option)
            except InterpolationError as error:
                remedy = "Name it in [DEFAULT], or write %% for a percent sign."
                yield self.error(section, option, in_one_line(error).rpartition(": ")[2], remedy)
                return
        kind = section.partition("_")[0]
        needed, read = KINDS[kind]
        needed = needed | ({"qualname"} if kind == "logger" and section != "logger_root" else set())
        for option in sorted(needed):
            if not self.parser.has_option(section, option):
                yield self.error(section, "", f"the {kind} has no {option}, which logging needs")
        known = sorted(needed | read)
        for option in self.sections[section][1]:
            if option.lower() not in known:
                remedy = "".join(f"Did you mean {near}?" for near in get_close_matches(option, known, n=1))
                yield self.error(section, option, f"logging does not read {option!r}", remedy)
        if not re.fullmatch(r"[\w.-]*", name := self.value(section, "qualname")):
            yield self.error(section, "qualname", f"{name!r} is not a name of a logger", "pipeline is one.")
        level = self.value(section, "level")
        if level and level not in logging.getLevelNamesMapping():
            yield self.error(section, "level", f"{level!r} is not a level of logging", "INFO is one.")
        is_access = self.value(section, "qualname") == "pipeline.access"
        if is_access and logging.getLevelNamesMapping().get(level, 0) > logging.INFO:
            yield Finding.of("access log", place_in(self.path, section, "level"), level=level)
        for option, kind in (("handlers", "handler"), ("formatter", "formatter")):
            for name in self.names(section, option):
                if name not in listed[kind]:
                    what = f"the {section.partition('_')[0]} has the {kind} {name!r}, which [{kind}s] does not list"
                    yield self.error(section, option, what, f"Add it to the keys of [{kind}s].")
        if section.startswith("handler_"):
            yield from self.of_handler(section)
        elif section.startswith("formatter_"):
            yield from self.of_formatter(section)

    def of_handler(self, section: str) -> Iterator[Finding]:
        name = self.value(section, "class")
        try:
            cls = _class_of(name)
        except Exception as error:
            yield self.error(section, "class", f"class = {name}: {in_one_line(error)}")
            return
        try:
            args = eval(self.value(section, "args", "()"), vars(logging).copy())
            kwargs = eval(self.value(section, "kwargs", "{}"), vars(logging).copy())
            bound = inspect.signature(cls).bind(*args, **kwargs)
        except Exception as error:
            yield self.error(section, "args", f"the arguments of {name}: {in_one_line(error)}")
            return
        file = bound.arguments.get("filename")
        if cls is logging.FileHandler:
            yield Finding.of("logrotate", place_in(self.path, section, "class"), name=name, file=file)
        if isinstance(file, str) and not Path(file).absolute().parent.is_dir():
            what = f"{Path(file).parent} is not there, so {name} cannot write {file}"
            yield self.error(section, "args", what, "Make the directory.")

    def of_formatter(self, section: str) -> Iterator[Finding]:
        try:
            cls: Any = _class_of(self.value(section, "class", "logging.Formatter"))
            format, style = self.value(section, "format") or None, self.value(section, "style", "%")
            cls(format, self.value(section, "datefmt") or None, style).format(logging.makeLogRecord({}))
        except Exception as error:
            yield self.error(section, "format", f"the formatter: {in_one_line(error)}")


def _class_of(name: str) -> Any:
    """Return the class that a section names: of logging, or package.module.Class."""
    try:
        return attrgetter(name)(logging)
    except AttributeError:
        if not re.fullmatch(r"\w+(\.\w+)+", name):
            raise
        return resolve(":".join(name.rsplit(".", 1)))
