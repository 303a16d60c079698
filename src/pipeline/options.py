"""Options of elements: check them, and convert the strings of an ini to values.

An element's options are the keyword-only parameters of its factory. From Python they arrive as
values and only their names are checked. From an ini they arrive as strings and are converted by
the parameters' annotations::

    str int float bool          "yes on true 1" and "no off false 0" for bool
    tuple[str, ...]             words separated by white space
    dict[str, str]              lines "key = value"
    Literal["a", "b"]           one of the words
    Callable, Any               a dotted name, "package.module:attribute"
    X | None                    an empty string is None

Errors name file, section, line and option, and say what would be accepted.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from pipeline.interfaces import OptionError

_BOOLEANS = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False)


def resolve(dotted: str) -> Any:
    """Return the object at ``package.module:attribute`` (or ``package.module.attribute``)."""
    module, colon, attribute = dotted.partition(":")
    if not colon:
        module, _, attribute = dotted.rpartition(".")
    if not module or not attribute or module.startswith("."):
        raise ValueError(f"{dotted!r} is not a dotted name such as package.module:attribute")
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(error.name + ".")):
            raise
        raise ValueError(f"there is no module {error.name!r} ({dotted}): install it, or set PYTHONPATH") from None
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ValueError(f"{dotted!r}: {found!r} has no attribute {part!r}") from None
    return found


def on_demand(dotted: str) -> Callable[..., Any]:
    """Return a function that calls the function of that dotted name. The first call imports it. This is for
    functions that most pipelines never need."""
    found: Callable[..., Any] | None = None

    def call(*arguments: Any, **options: Any) -> Any:
        nonlocal found
        if found is None:
            found = resolve(dotted)
        return found(*arguments, **options)

    call.__name__ = dotted
    return call


def convert(text: str, annotation: Any) -> Any:
    """Convert an ini string to the type ``annotation``. ValueError says what was expected."""
    text = text.strip()
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return _to_first_of(text, arguments)
    if annotation is str:
        return text
    if annotation is bool:
        if text.lower() not in _BOOLEANS:
            raise ValueError(f"{text!r} is not one of {', '.join(_BOOLEANS)}")
        return _BOOLEANS[text.lower()]
    if annotation in (int, float):
        try:
            return annotation(text)
        except ValueError:
            kind = "a whole number" if annotation is int else "a number"
            raise ValueError(f"{text!r} is not {kind}") from None
    if origin is Literal:
        if text not in arguments:
            raise ValueError(f"{text!r} is not one of {', '.join(map(str, arguments))}")
        return text
    if origin is tuple:
        return tuple(convert(word, arguments[0]) for word in text.split())
    if origin is dict:
        return dict(_pairs(text))
    if annotation is Any or origin in (Callable, type) or annotation in (Callable, object):
        return resolve(text)
    raise ValueError(f"its type {annotation!r} cannot be written in an ini")


def _to_first_of(text: str, choices: tuple[Any, ...]) -> Any:
    """Convert ``text`` to the first of the types that accepts it. An empty text is None if that is a choice."""
    if not text and type(None) in choices:
        return None
    problems = []
    for choice in choices:
        if choice is not type(None):
            try:
                return convert(text, choice)
            except ValueError as error:
                problems.append(str(error))
    raise ValueError(" or ".join(problems))


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

    def check(self, name: str, options: Mapping[str, Any], source: Any | None = None) -> None:
        """Refuse unknown and missing options of element ``name``."""
        for option in options:
            if option not in self.annotations:
                raise OptionError(_unknown(name, option, self.annotations, source))
        for option in sorted(self.required.difference(options)):
            where = f"{source.section_of(options)}: " if source else ""
            raise OptionError(f"{where}{name} needs the option {option!r}")

    def from_strings(self, name: str, strings: Mapping[str, str], source: Any) -> dict[str, Any]:
        """Check and convert the options of an ini."""
        source.refuse_unseen(name, self.annotations, strings)
        self.check(name, strings, source)
        options = {}
        for option, text in strings.items():
            try:
                options[option] = convert(text, self.annotations[option])
            except (ValueError, ImportError) as error:
                raise OptionError(f"{source.option(option, text)}: option {option!r} of {name}: {error}") from error
        return options


def _evaluated(annotation: Any, names: dict[str, Any]) -> Any:
    """Return an annotation as an object, also if ``from __future__ import annotations`` made it a string."""
    if annotation is inspect.Parameter.empty:
        return str
    return typing.get_type_hints(types.SimpleNamespace(__annotations__={"it": annotation}), names)["it"]


def _unknown(name: str, option: str, known: Mapping[str, Any], source: Any | None) -> str:
    where = f"{source.option(option)}: " if source else ""
    near = get_close_matches(option, known, n=1, cutoff=0.5)
    if near:
        hint = f"did you mean {near[0]!r}?"
    elif known:
        hint = f"it takes {', '.join(sorted(known))}"
    else:
        hint = "it takes no options, which are the parameters behind '*' of its factory"
    return f"{where}{name} has no option {option!r}; {hint}"
