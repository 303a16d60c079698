"""Watchers: handlers that are linked in outside of each part of a pipeline, at load.

An element that watches the others says so by ``@element(between=maker)``. Without such an element nothing is linked
in. ``maker(step, offers)`` is called for each other part of the pipeline. ``step`` says which part it is, and
``offers`` has its handler and what it offers; the maker returns what is linked in their place.

An ini may be loaded by any program, and no part of it knows the app that is loaded. So each pipeline of an ini is
watched if one of them names an element that watches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from pipeline.attributes import declaration
from pipeline.ini import Source, place_of
from pipeline.interfaces import ConfigurationError, Facts
from pipeline.request import OnFirstUse, Request

Made = TypeVar("Made", bound=Any)
"""Type of the offers of a part, ``pipeline.composition.Offers``."""


class Step(NamedTuple):
    """One element, middleware or app that an ini puts in a pipeline."""

    element: Any
    """The element with its options, or None for a foreign middleware or app."""
    factory: Any
    """The factory of the element, middleware or app."""
    source: Source
    strings: Mapping[str, str]

    @property
    def where(self) -> str:
        """File, section and line."""
        return self.source.section_of(self.strings)

    @property
    def facts(self) -> Facts:
        """What an operator must know of it. A foreign part may declare it, by ``pipeline.paste.with_facts``."""
        facts: Facts
        try:
            if self.element is not None:
                facts = self.element.facts
            else:
                declared = getattr(self.factory, "facts", None)
                facts = declared(**self.strings) if declared is not None else Facts()
        except ValueError as error:
            raise ConfigurationError(f"{self.where}: {self}: {error}") from error
        return facts

    def __str__(self) -> str:
        """Return the name of the element. A foreign part has the name of its section, unless that is "main" or
        several sections are alike."""
        if self.element is not None:
            return str(self.element.name)
        name = self.source.name_of(self.strings)
        return name if name not in ("", "main") else str(getattr(self.factory, "__name__", self.factory))


def step_of_element(element: Any) -> Step:
    """Return an element as a part of a pipeline."""
    return Step(element, element, element.source or Source({}, element), element.strings)


def watched(makers: Iterable[Callable[[Step, Made], Made]], element: Any, app: Any, offers: Made) -> Made:
    """Return what is linked in the place of a part: its handler and what it offers, with the watchers.

    element  the element, or None for a foreign app. An element that watches is not watched by itself
    """
    if element is not None:
        own = element.contract.between
        step = step_of_element(element)
    else:
        own = None
        factory = app if hasattr(app, "__name__") else type(app)
        step = Step(None, factory, Source({}, factory), {})
    for maker in makers:
        if maker is not own:
            made = maker(step, offers)
            if not callable(getattr(made, "handler", None)):
                raise ConfigurationError(
                    f"{step.where}: the watcher {place_of(maker)} returned {made!r:.200} for {step}; it must "
                    f"return what it was given, or Offers(handler)"
                )
            made.attributes = {**offers.attributes, **made.attributes}  # so none is lost, whatever it passes on
            offers = made
    return offers


def openers(step: Step, offers: Any) -> dict[str, Callable[[Any], Any]]:
    """Return the functions of a part that open what a request uses first, such as a database, by attribute."""
    adds = step.element.contract.adds if step.element is not None else None
    return {
        name: value
        for name, value in offers.attributes.items()
        if isinstance(declaration(adds or Request, name), OnFirstUse)
    }
