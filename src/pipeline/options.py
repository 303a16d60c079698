"""Options of elements: from what was written to what the element takes, with errors that say where.

An element's options are the keyword-only parameters of its factory. From Python they arrive as
values and only their names are checked. From an ini they arrive as strings and are converted by
the parameters' annotations::

    str int float bool          "yes on true 1" and "no off false 0" for bool
    tuple[str, ...]             words separated by white space
    dict[str, str]              lines "key = value"
    Literal["a", "b"]           one of the words
    Callable, Any               a dotted name, "package.module:attribute"
    X | None                    an empty string is None

Errors name file, section, line, option and what would be accepted.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from configparser import ParsingError, RawConfigParser
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from os import stat
from pathlib import Path
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin
from urllib.parse import unquote

from paste.deploy.loadwsgi import APP, FILTER, ConfigLoader

from pipeline.interfaces import OptionError

_BOOLEANS = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(
    ("false", "no", "off", "0"), False
)


def resolve(dotted: str) -> Any:
    """The object at ``package.module:attribute`` (or ``package.module.attribute``)."""
    module, colon, attribute = dotted.partition(":")
    if not colon:
        module, _, attribute = dotted.rpartition(".")
    if not module or not attribute or module.startswith("."):
        raise ValueError(f"{dotted!r} is no dotted name such as package.module:attribute")
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(error.name + ".")):
            raise
        raise ValueError(f"there is no module {error.name!r}, named by {dotted!r}") from None
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ValueError(f"{dotted!r}: {found!r} has no attribute {part!r}") from None
    return found


def convert(text: str, annotation: Any) -> Any:
    """An ini string as the value that ``annotation`` asks for; ValueError says what was expected."""
    text = text.strip()
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        if not text and type(None) in arguments:
            return None
        problems = []
        for choice in arguments:
            if choice is not type(None):
                try:
                    return convert(text, choice)
                except ValueError as error:
                    problems.append(str(error))
        raise ValueError(" or ".join(problems))
    if annotation is str:
        return text
    if annotation is bool:
        if text.lower() not in _BOOLEANS:
            raise ValueError(f"{text!r} is neither of {', '.join(_BOOLEANS)}")
        return _BOOLEANS[text.lower()]
    if annotation in (int, float):
        try:
            return annotation(text)
        except ValueError:
            kind = "a whole number" if annotation is int else "a number"
            raise ValueError(f"{text!r} is not {kind}") from None
    if origin is Literal:
        if text not in arguments:
            raise ValueError(f"{text!r} is none of {', '.join(map(str, arguments))}")
        return text
    if origin is tuple:
        return tuple(convert(word, arguments[0]) for word in text.split())
    if origin is dict:
        return dict(_pairs(text))
    if annotation is Any or origin in (Callable, type) or annotation in (Callable, object):
        return resolve(text)
    raise ValueError(f"its type {annotation!r} cannot be written in an ini")


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in filter(None, map(str.strip, text.splitlines())):
        key, equals, value = line.partition("=")
        if not equals:
            raise ValueError(f"the line {line!r} is not of the form 'key = value'")
        yield key.strip(), value.strip()


class Signature(NamedTuple):
    """The options that a factory takes: annotation by name, and the names that have no default."""

    annotations: Mapping[str, Any]
    required: frozenset[str]

    @classmethod
    def of(cls, factory: Callable[..., Any]) -> Signature:
        keywords = [
            parameter
            for parameter in inspect.signature(factory).parameters.values()
            if parameter.kind is parameter.KEYWORD_ONLY
        ]
        names = inspect.unwrap(factory).__globals__
        return cls(
            {parameter.name: _evaluated(parameter.annotation, names) for parameter in keywords},
            frozenset(p.name for p in keywords if p.default is p.empty),
        )

    def check(self, name: str, options: Mapping[str, Any], source: Source | None = None) -> None:
        """Refuse unknown and missing options of element ``name``."""
        for option in options:
            if option not in self.annotations:
                raise OptionError(_unknown(name, option, self.annotations, source))
        for option in sorted(self.required.difference(options)):
            where = f"{source.section_of(options)}: " if source else ""
            raise OptionError(f"{where}{name} needs the option {option!r}")

    def from_strings(self, name: str, strings: Mapping[str, str], source: Source) -> dict[str, Any]:
        """What an ini said, checked and converted."""
        source.refuse_unseen(name, self.annotations, strings)
        self.check(name, strings, source)
        options = {}
        for option, text in strings.items():
            try:
                options[option] = convert(text, self.annotations[option])
            except (ValueError, ImportError) as error:
                raise OptionError(
                    f"{source.option(option, text)}: option {option!r} of {name}: {error}"
                ) from error
        return options


def _evaluated(annotation: Any, names: dict[str, Any]) -> Any:
    """An annotation as an object, also where ``from __future__ import annotations`` made it a string."""
    if annotation is inspect.Parameter.empty:
        return str
    return typing.get_type_hints(types.SimpleNamespace(__annotations__={"it": annotation}), names)["it"]


def _unknown(name: str, option: str, known: Mapping[str, Any], source: Source | None) -> str:
    where = f"{source.option(option)}: " if source else ""
    near = get_close_matches(option, known, n=1, cutoff=0.5)
    if near:
        hint = f"did you mean {near[0]!r}?"
    elif known:
        hint = f"it takes {', '.join(sorted(known))}"
    else:
        hint = "it takes no options"
    return f"{where}{name} has no option {option!r}; {hint}"


class Source:
    """Where in an ini the options of one thing stand, to the line.

    Paste Deploy hands a factory the options but neither section nor line, so the section is found
    again: it is one whose ``use`` (or ``paste.*`` key) leads to the factory, asked of Paste Deploy. It may
    stand in another ini that the first one uses.
    """

    def __init__(self, global_conf: Mapping[str, str], factory: object) -> None:
        self.file = global_conf.get("__file__", "")
        self.global_conf = global_conf
        self.factory = factory
        self.inis = dict(_inis(self.file))
        self._loaders: dict[str, ConfigLoader] = {}

    def option(self, option: str, text: str | None = None) -> str:
        """``file, section [...], line N`` of an option, as exactly as can be told."""
        for where, _, keys in self._sections():
            if option in keys and (text is None or keys[option][1] in (None, text)):
                return f"{where}, line {keys[option][0]}"
        return self.section_of({})

    def section_of(self, options: Mapping[str, object]) -> str:
        """``file, section [...], line N`` of the first section with exactly these options."""
        for where, line, keys in self._sections():
            if all(option in keys for option in options):
                return f"{where}, line {line}"
        return self.file or "an ini"

    def refuse_unseen(self, name: str, options: Mapping[str, Any], seen: Mapping[str, str]) -> None:
        """Refuse what stands in a section as an option of ``name`` and does not reach it: a key that Paste
        Deploy drops because ``[DEFAULT]``, or a variable given on the command line, has it too; and
        ``set key``, which is for variables."""
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

    def _sections(self) -> Iterator[tuple[str, int, dict[str, tuple[int, str | None]]]]:
        for file, sections in self.inis.items():
            for section, (line, keys) in sections.items():
                if self._leads_here(file, section):
                    options = {re.sub(r"^(set|get)\s+", "", key): place for key, place in keys.items()}
                    yield f"{file}, section [{section}]", line, options

    def _leads_here(self, file: str, section: str) -> bool:
        kind, _, name = section.partition(":")
        object_type = {"filter": FILTER}.get(kind, APP)
        try:
            context = self._loader(file).get_context(object_type, name.strip(), dict(self.global_conf))
        except Exception:  # this section does not load: not the one that did
            return False
        chain = [context, getattr(context, "filter_context", None), getattr(context, "next_context", None)]
        return any(getattr(link, "object", None) is self.factory for link in chain)

    def _loader(self, file: str) -> ConfigLoader:
        if file not in self._loaders:
            self._loaders[file] = loader = ConfigLoader(file)
            loader.update_defaults(self.global_conf, overwrite=False)
        return self._loaders[file]


_Section = tuple[int, dict[str, tuple[int, "str | None"]]]
"""The line of a section, and its keys with line and, if it can be told, the text."""


def _inis(file: str) -> Iterator[tuple[str, dict[str, _Section]]]:
    """An ini and those that it uses (``use = config:other.ini``), each with its sections."""
    files = [file] if file else []
    for file in files:  # which grows
        try:
            state = stat(file)
            sections, used = _parse(file, state.st_mtime_ns, state.st_size)
        except (OSError, ParsingError):  # Paste Deploy did not read it either: a value that looks like one
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
        elif found := re.match(r"(?P<key>[^\s=:#;][^=:]*?)\s*[=:]", line):
            key = found["key"]
            raw = parser.get(section, key)
            keys[key] = (number, None if "%(" in raw or " " in key else raw.strip())
    here = Path(file).parent
    values = " ".join(raw for section in parser.values() for raw in section.values())
    used = re.findall(r"\bconfig:([^\s#]+)", values.replace("%(here)s", str(here)))
    return sections, tuple(str(here / unquote(other)) for other in used)
