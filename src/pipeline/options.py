"""Options of elements: the names that a factory takes, and dotted names.

An element's options are the keyword-only parameters of its factory. From Python they arrive as values, and only
their names are checked. ``pipeline.strings`` converts those of an ini.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple

from pipeline.interfaces import OptionError


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


class Signature(NamedTuple):
    """The options of a factory: annotation by name, the names without a default; and whether it takes ``next``."""

    annotations: Mapping[str, Any]
    required: frozenset[str]
    takes_next: bool

    @classmethod
    def of(cls, factory: Callable[..., Any]) -> Signature:
        parameters = inspect.signature(factory).parameters.values()
        keywords = [one for one in parameters if one.kind is one.KEYWORD_ONLY]
        names = inspect.unwrap(factory).__globals__
        return cls(
            {parameter.name: evaluated(parameter.annotation, names) for parameter in keywords},
            frozenset(one.name for one in keywords if one.default is one.empty),
            any(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters),
        )

    def check_options(self, name: str, options: Mapping[str, Any], source: Any | None = None) -> None:
        """Refuse unknown and missing options of element ``name``."""
        for option in options:
            if option not in self.annotations:
                raise OptionError(_unknown(name, option, self.annotations, source))
        for option in sorted(self.required.difference(options)):
            where = f"{source.section_of(options)}: " if source else ""
            raise OptionError(f"{where}{name} needs the option {option!r}")

def evaluated(annotation: Any, names: dict[str, Any]) -> Any:
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
