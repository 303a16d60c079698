"""Convert the options of an ini, which are strings, by the annotations of the parameters of a factory::

    str int float bool          "yes on true 1" and "no off false 0" for bool
    tuple[str, ...]             words separated by white space
    dict[str, str]              lines "key = value"
    Literal["a", "b"]           one of the words
    Callable, Any               a dotted name, "package.module:attribute"
    X | None                    an empty string is None

Errors name file, section, line and option, and say what would be accepted.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, Union, get_args, get_origin

from pipeline.interfaces import OptionError
from pipeline.options import Signature, resolve

BOOLEANS = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False)


def from_strings(signature: Signature, name: str, strings: Mapping[str, str], source: Any) -> dict[str, Any]:
    """Check and convert the options of an ini for element ``name``."""
    source.refuse_unseen(name, signature.annotations, strings)
    signature.check_options(name, strings, source)
    options = {}
    for option, text in strings.items():
        try:
            options[option] = convert(text, signature.annotations[option])
        except (ValueError, ImportError) as error:
            raise OptionError(f"{source.option(option, text)}: option {option!r} of {name}: {error}") from error
    return options


def convert(text: str, annotation: Any) -> Any:
    """Convert an ini string to the type ``annotation``. ValueError says what was expected."""
    text = text.strip()
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return _to_first_of(text, arguments)
    if annotation is str:
        return text
    if annotation is bool:
        if text.lower() not in BOOLEANS:
            raise ValueError(f"{text!r} is not one of {', '.join(BOOLEANS)}")
        return BOOLEANS[text.lower()]
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
