"""Watchers: handlers that are linked in outside of each part of a pipeline, at load.

An element that watches the others says so by ``@element(between=maker)``. Without such an element nothing is linked
in. ``maker(step, offers)`` is called for each other part of the pipeline. ``step`` says which part it is, and
``offers`` has its handler and what it offers; the maker returns what is linked in their place.

An ini may be loaded by any program, and no part of it knows the app that is loaded. So each pipeline of an ini is
watched if one of them names an element that watches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from pipeline.attributes import declaration
from pipeline.composition import Element, Offers, Pipeline
from pipeline.foreign import foreign
from pipeline.ini import Source
from pipeline.interfaces import Handler
from pipeline.paste import Step
from pipeline.request import OnFirstUse, Request
from pipeline.tools.words import place_of

Maker = Callable[[Step, Offers], Offers]


class InPython(Source):
    """Says where a part comes from that was given to ``Pipeline(...)``: the factory of the part."""

    def __init__(self, factory: object) -> None:
        super().__init__({}, factory)

    def section_of(self, options: Mapping[str, object]) -> str:
        """Return file and line of the factory."""
        return place_of(self.factory)


class Watched(Element):
    """An element that is linked with watchers outside of it."""

    step: Step
    makers: Sequence[Maker]

    def link(self, *next: Handler) -> Offers:
        return around(self.step, super().link(*next), self.makers)

    def _around(self, app: Any) -> Pipeline:
        return super()._around(foreign_end(app, self.makers))


def watched(
    element: Element, makers: Iterable[Maker], source: Source | None, strings: Mapping[str, str]
) -> Element:
    """Return an element that is linked with watchers. An element that watches is not watched by itself."""
    made = Watched(element.factory, element.contract, element.options, element.source)
    made.step = Step(element, element, source or InPython(element), strings)
    made.makers = [maker for maker in makers if maker is not element.contract.between]
    return made


def around(step: Step, offers: Offers, makers: Iterable[Maker]) -> Offers:
    """Return what is linked in the place of a part: its handler and what it offers, with the watchers."""
    for maker in makers:
        offers = maker(step, offers)
    return offers


def openers(step: Step, offers: Offers) -> dict[str, Callable[[Any], Any]]:
    """Return the functions of a part that open what a request uses first, such as a database, by attribute."""
    adds = step.element.contract.adds if step.element is not None else None
    return {
        name: value
        for name, value in offers.attributes.items()
        if isinstance(declaration(adds or Request, name), OnFirstUse)
    }


def foreign_end(app: Any, makers: Sequence[Maker]) -> Any:
    """Return a foreign app as a pipeline with watchers around it; anything else as it is."""
    if isinstance(app, (Pipeline, Element)) or not callable(app):
        return app
    factory = app if hasattr(app, "__name__") else type(app)
    step = Step(None, factory, InPython(factory), {})
    return Pipeline._linked((), around(step, Offers(foreign(app)), makers).handler, {})


def watched_parts(parts: Sequence[Any]) -> list[Any]:
    """Return the parts of ``Pipeline(...)``, each with the watchers that the elements among them ask for."""
    elements = [part for part in parts if isinstance(part, Element)]
    makers = [one.contract.between for one in elements if one.contract.between is not None]
    made: list[Any] = []
    for part in parts:
        if isinstance(part, Element):
            made.append(watched(part, makers, None, {}))
        elif part is parts[-1]:
            made.append(foreign_end(part, makers))
        else:
            made.append(partial(_around_foreign, part, makers))
    return made


def _around_foreign(middleware: Callable[[Any], Any], makers: Sequence[Maker], app: Any) -> Any:
    return foreign_end(middleware(app), makers)
