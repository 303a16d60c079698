"""The place of an option in an ini, with file, section and line, for error messages.

Paste Deploy hands an element only a dict of strings. This module finds the rest by reading the ini again.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from configparser import ParsingError, RawConfigParser
from functools import cached_property, lru_cache
from os import stat
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar
from urllib.parse import unquote

from paste.deploy.loadwsgi import APP, FILTER, ConfigLoader

from pipeline.interfaces import OptionError

Parsed = TypeVar("Parsed")
_NOT_OPTIONS = {"use", "filter-with", "next", "require"}
_NOT_OPTIONS |= {f"paste.{kind}_factory" for kind in ("app", "composite", "composit", "filter", "filter_app")}
"""The keys of a section that its factory does not get."""


class Source:
    """The sections of an ini that configure one factory.

    Paste Deploy hands a factory the options without section and line. So the sections are searched for those whose
    ``use`` (or ``paste.*`` key) leads to the factory, with the help of Paste Deploy. They may stand in another ini
    that the first one uses.
    """

    def __init__(self, global_conf: Mapping[str, str], factory: object) -> None:
        self.file = global_conf.get("__file__", "")
        self.global_conf = global_conf
        self.factory = factory
        self.inis = dict(_inis(self.file))

    def option(self, option: str, text: str | None = None) -> str:
        """Return ``file, section [...], line N`` of an option, as exactly as possible."""
        for where, _, keys in self._sections:
            if option in keys and (text is None or keys[option][1] in (None, text)):
                return f"{where}, line {keys[option][0]}"
        return self.section_of({})

    def section_of(self, options: Mapping[str, object]) -> str:
        """Return ``file, section [...], line N`` of the section with these options, preferably with these texts.
        For a part that comes from no ini, return file and line of its factory."""
        found = ""
        for where, line, keys in self._sections:
            if all(option in keys for option in options):
                if all(keys[option][1] in (None, text) for option, text in options.items()):
                    return f"{where}, line {line}"
                found = found or f"{where}, line {line}"
        return found or self.file or place_of(self.factory)

    def name_of(self, options: Mapping[str, object]) -> str:
        """Return the name of the section with these options, or "" if none or several could be meant."""
        fitting = [
            (where, set(keys) - _NOT_OPTIONS)
            for where, _, keys in self._sections
            if all(option in keys and keys[option][1] in (None, text) for option, text in options.items())
        ]
        exact = [where for where, names in fitting if names == set(options)]
        found = exact or [where for where, _ in fitting]
        return found[0].rpartition("[")[2].rstrip("]").partition(":")[2].strip() if len(found) == 1 else ""

    def listed(self, others: Iterable[Source | None]) -> str:
        """Return the place of the list ``pipeline = ...`` that names this part, preferably with many of the others.
        Return the section of the part if no list names it."""
        lists = {
            f"{file}, section [{section}], line {keys['pipeline'][0]}": set((keys["pipeline"][1] or "").split())
            for file, sections in self.inis.items()
            for section, (_, keys) in sections.items()
            if "pipeline" in keys
        }
        fitting = [place for place, words in lists.items() if words & self._names]
        chain = [other._names for other in others if other is not None]
        default = self.section_of({})
        return max(fitting, key=lambda place: sum(bool(lists[place] & names) for names in chain), default=default)

    def refuse_unseen(self, name: str, options: Mapping[str, Any], seen: Mapping[str, str]) -> None:
        """Refuse a key that is meant as an option of ``name`` and does not reach it. Paste Deploy drops a key that
        ``[DEFAULT]`` or a variable of the command line has too. ``set key`` sets a variable, not an option."""
        for file, sections in self.inis.items():
            for section, (_, keys) in sections.items():
                for key, (line, _) in keys.items():
                    where = f"{file}, section [{section}], line {line}"
                    if key in self.global_conf and key not in seen and self._leads_here(file, section):
                        raise OptionError(
                            f"{where}: option {key!r} of {name} also stands in [DEFAULT] or on the command "
                            f"line, and Paste Deploy drops it here without a word; rename it there, or write "
                            f"'get {key} = {key}' here to take the value from there"
                        )
                    option = key.removeprefix("set ").strip()
                    if (
                        option != key
                        and option in options
                        and option not in keys
                        and f"get {option}" not in keys
                        and self._leads_here(file, section)
                    ):
                        raise OptionError(
                            f"{where}: {key!r} sets a variable, which {name} does not see; write "
                            f"'{option} = ...' for its option"
                        )

    def makers(self) -> tuple[Any, ...]:
        """Return the functions that make watchers, of the elements of the ini that watch the others."""
        return _makers(*self._state())

    @cached_property
    def _sections(self) -> list[tuple[str, int, dict[str, tuple[int, str | None]]]]:
        """The sections that lead to the factory: the place of each, its line and its options."""
        return [
            (
                f"{file}, section [{section}]",
                line,
                {re.sub(r"^(set|get)\s+", "", key): place for key, place in keys.items()},
            )
            for file, sections in self.inis.items()
            for section, (line, keys) in sections.items()
            if self._leads_here(file, section)
        ]

    @cached_property
    def _names(self) -> set[str]:
        """Names of the sections that lead to the factory."""
        return {where.rpartition("[")[2].rstrip("]").partition(":")[2].strip() for where, _, _ in self._sections}

    def _leads_here(self, file: str, section: str) -> bool:
        return any(factory is self.factory for factory in self._factories[file, section])

    @cached_property
    def _factories(self) -> dict[tuple[str, str], list[Any]]:
        return _factories(*self._state())

    def _state(self) -> tuple[_States, tuple[tuple[str, str], ...]]:
        """Return what the sections are made of: the inis as they are now, and the variables."""
        states = ((file, stat(file)) for file in self.inis)
        inis = tuple((file, state.st_mtime_ns, state.st_size) for file, state in states)
        return inis, tuple(sorted(self.global_conf.items()))


def _loader_of(file: str, global_conf: Mapping[str, str]) -> ConfigLoader:
    loader = ConfigLoader(file)
    loader.update_defaults(global_conf, overwrite=False)
    return loader


def factories(loader: ConfigLoader, section: str, global_conf: Mapping[str, str]) -> list[Any]:
    """Return what the ``use`` (or ``paste.*`` key) of a section leads to; nothing for a section that does not
    load."""
    kind, _, name = section.partition(":")
    try:
        context = loader.get_context({"filter": FILTER}.get(kind, APP), name.strip(), dict(global_conf))
    except Exception:  # a section that does not load is not the one that was loaded
        return []
    chain = [context, getattr(context, "filter_context", None), getattr(context, "next_context", None)]
    return [link.object for link in chain if getattr(link, "object", None) is not None]


_States = tuple[tuple[str, int, int], ...]
"""Inis, each with the time of its last change, in nanoseconds, and its size."""


@lru_cache(maxsize=8)
def _makers(inis: _States, global_conf: tuple[tuple[str, str], ...]) -> tuple[Any, ...]:
    """Return the functions that make watchers, of the elements that a pipeline of the inis names."""
    makers: list[Any] = []
    for file, mtime, size in inis:
        sections, _ = _parse(file, mtime, size)
        named = {
            word
            for _, keys in sections.values()
            for key in ("pipeline", "filter-with")
            for word in (keys.get(key, (0, None))[1] or "").split()
        }
        loader = _loader_of(file, dict(global_conf))
        for section in sections:
            kind, _, name = section.partition(":")
            if kind == "filter-app" or (kind == "filter" and name.strip() in named):
                found = factories(loader, section, dict(global_conf))
                makers += [one.contract.between for one in found if getattr(one, "contract", None) is not None]
    return tuple(dict.fromkeys(maker for maker in makers if maker is not None))


@lru_cache(maxsize=8)
def _factories(inis: _States, global_conf: tuple[tuple[str, str], ...]) -> dict[tuple[str, str], list[Any]]:
    """Return what each section of the inis leads to, by its file and name. Paste Deploy takes 10 ms for each."""
    found = {}
    for file, mtime, size in inis:
        loader = _loader_of(file, dict(global_conf))
        for section in _parse(file, mtime, size)[0]:
            found[file, section] = factories(loader, section, dict(global_conf))
    return found


def place_of(function: Any) -> str:
    """Return ``file, line N`` of a function or class, or its module."""
    function = inspect.unwrap(getattr(function, "func", function))
    code = getattr(function, "__code__", None)
    if isinstance(code, CodeType):  # Zope gives some of its classes a __code__ of their own
        return f"{code.co_filename}, line {code.co_firstlineno}"
    try:
        return f"{inspect.getsourcefile(function)}, line {parsed(inspect.getsourcelines, function)[1]}"
    except (OSError, TypeError):
        return str(getattr(function, "__module__", function))


def parsed(call: Callable[..., Parsed], given: Any) -> Parsed:
    """Return ``call(given)``, which reads Python with ``ast``. Python 3.11 counts the depth of all threads as one,
    and so refuses what another thread reads at the same time (CPython's issue 106905): it is read again."""
    for _ in range(20):
        try:
            return call(given)
        except SystemError:
            pass
    return call(given)


def place_of_value(file: str, text: str) -> str:
    """Return the place of the first option with that value, in an ini or one that it uses."""
    return _place(file, lambda value: value == text or value.startswith(f"{text}#"))


def place_of_name(file: str, name: str) -> str:
    """Return the place of the first option whose words have the name of a section."""
    return _place(file, lambda value: name in value.split())


def place_of_ini(file: str, used: str, name: str) -> str:
    """Return the place of the first option that uses that section of another ini, as ``config:used#name``."""

    def fits(value: str) -> bool:
        path, _, section = value.removeprefix("config:").partition("#")
        return value.startswith("config:") and Path(path).name == Path(used).name and (section or "main") == name

    return _place(file, fits)


def _place(file: str, fits: Callable[[str], bool]) -> str:
    """Return ``file, section [...], line N`` of the first option whose value fits; the file if none does."""
    for name, sections in _inis(file):
        for section, (_, keys) in sections.items():
            for line, value in keys.values():
                if value is not None and fits(value):
                    return f"{name}, section [{section}], line {line}"
    return file


_Section = tuple[int, dict[str, tuple[int, "str | None"]]]
"""The line of a section, and its keys, each with its line and, if it is known, its text."""


def sections_of(file: str) -> dict[str, _Section]:
    """Return the sections of one ini."""
    return dict(_inis(file)).get(file, {})


def place_in(file: str | Path, section: str, option: str = "") -> str:
    """Return the place of an option of a section, or of ``get option``; of the section if it has neither."""
    line, keys = sections_of(str(file)).get(section, (1, {}))
    number, _ = keys.get(option, keys.get(f"get {option}", (line, None)))
    return f"{file}, section [{section}], line {number}"


def lines_from(place: str) -> list[str]:
    """Return the lines of an ini from a place on; none for a place without a line."""
    file, _, line = place.rpartition(", line ")
    if not line.isdecimal():
        return []
    return Path(file.partition(", section ")[0]).read_text("utf-8", "replace").splitlines()[int(line) - 1 :]


def variables_of(file: str | Path) -> dict[str, str]:
    """Return the places of the variables in the section [DEFAULT] of one ini, by their names."""
    section, found = "", dict[str, str]()
    for number, line in enumerate(Path(file).read_text("utf-8", "replace").splitlines(), 1):
        section = line.strip() if line.startswith("[") else section
        if section == "[DEFAULT]" and (name := re.match(r"([^\s=:#;]++)\s*+[=:]", line)):
            found.setdefault(name[1], f"{file}, section [DEFAULT], line {number}")
    return found


def text_of(path: Path, section: str) -> str:
    """Return the lines of a section of an ini."""
    text = path.read_text(encoding="utf-8", errors="replace")
    found = re.search(rf"(?ms)^\[{re.escape(section)}\][^\n]*\n(.*?)(?=^\[|\Z)", text)
    return found[1] if found else ""


def _inis(file: str) -> Iterator[tuple[str, dict[str, _Section]]]:
    """Yield an ini, and the inis that it uses (``use = config:other.ini``), each with its sections."""
    files = [file] if file else []
    for file in files:  # the list grows
        try:
            state = stat(file)
            sections, used = _parse(file, state.st_mtime_ns, state.st_size)
        except (OSError, ParsingError):  # a value that only looks like an ini; Paste Deploy has not read it
            continue
        yield file, sections
        files += [other for other in used if other not in files]


@lru_cache(maxsize=8)
def _parse(file: str, mtime: int, size: int) -> tuple[dict[str, _Section], tuple[str, ...]]:
    text = Path(file).read_text(encoding="utf-8", errors="replace")
    parser = RawConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(text)
    sections: dict[str, _Section] = {}
    keys: dict[str, tuple[int, str | None]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if found := re.match(r"\[(?P<section>[^]]+)\]", line):
            section, keys = found["section"], {}
            if section != "DEFAULT":
                sections[section] = (number, keys)
        elif found := re.match(r"(?P<key>[^\s=:#;][^=:]*+)[=:]", line):
            key = found["key"].rstrip()
            raw = parser.get(section, key)
            keys[key] = (number, None if "%(" in raw or " " in key else raw.strip())
    here = Path(file).parent
    values = " ".join(raw for section in parser.values() for raw in section.values())
    used = re.findall(r"\bconfig:([^\s#]+)", values.replace("%(here)s", str(here)))
    return sections, tuple(str(here / unquote(other)) for other in used)
