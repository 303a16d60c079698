"""Paste Deploy: load an ini, or read its pipelines without building them.

The elements are Paste factories themselves (``pipeline.composition.Element``). The composite is in
``pipeline.switch``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from paste.deploy import loadapp
from paste.deploy.loadwsgi import APP, LoaderContext, loadcontext

from pipeline.composition import Element
from pipeline.ini import Source
from pipeline.interfaces import WSGIApp
from pipeline.order import refuse_missing, refuse_wrong_order
from pipeline.switch import branch_lines, switch


def load(uri: str, name: str | None = None, relative_to: str | None = None, **global_conf: str) -> WSGIApp:
    """Return the app of an ini (``config:path/to.ini#name``). Raise OrderError if an element is missing.

    Use this in place of ``paste.deploy.loadapp`` if no element will be put around the app. The order contract is
    also checked across foreign middleware, which ``loadapp`` cannot do.
    """
    for chain in plan(uri, name, relative_to, **global_conf):
        chain.check()
    app: WSGIApp = loadapp(uri, name=name, relative_to=relative_to, global_conf=global_conf)
    return app


class Step(NamedTuple):
    """One element, middleware or app that an ini puts in a pipeline."""

    element: Element | None
    """The element with its options, or None for a foreign middleware or app."""
    factory: Any
    """The factory of the element, middleware or app."""
    source: Source
    strings: Mapping[str, str]

    @property
    def where(self) -> str:
        """File, section and line."""
        return self.source.section_of(self.strings)

    def __str__(self) -> str:
        return str(self.element.name if self.element else getattr(self.factory, "__name__", self.factory))


class Chain(NamedTuple):
    """The steps that a request passes, outermost first, on its way to one end."""

    condition: str
    """The line of the ``switch`` that leads here, or ""."""
    steps: tuple[Step, ...]

    def check(self) -> None:
        """Raise OrderError if the elements are in a wrong order or one is missing."""
        contracts = [step.element.contract for step in self.steps if step.element is not None]
        refuse_wrong_order(contracts)
        refuse_missing(contracts)


def plan(
    uri: str, name: str | None = None, relative_to: str | None = None, **global_conf: str
) -> Iterator[Chain]:
    """Yield each chain from the outermost element to an end that the ini describes. Nothing is built.

    Raises OptionError for unknown, missing and invalid options.
    """
    context = loadcontext(APP, uri, name=name, relative_to=relative_to, global_conf=global_conf)
    return _chains(context, "", ())


def _chains(context: LoaderContext, condition: str, outer: tuple[Step, ...]) -> Iterator[Chain]:
    kind = context.object_type.name
    if kind == "pipeline":
        filters = [step for inner in context.filter_contexts for step in _filters(inner)]
        yield from _chains(context.app_context, condition, (*outer, *filters))
    elif kind in ("filter_app", "filtered_with"):
        filters = list(_filters(context.filter_context))
        yield from _chains(context.next_context, condition, (*outer, *filters))
    elif context.object is switch:
        branches = [(line.split()[0], line) for line in branch_lines(context.local_conf)]
        if default := context.local_conf.get("default"):
            branches.append((default, f"{default} by default"))
        for name, line in branches:
            inner = context.loader.app_context(name, global_conf=context.global_conf)
            yield from _chains(inner, f"{condition}, {line}" if condition else line, outer)
    else:
        yield Chain(condition, (*outer, _step(context)))


def _filters(context: LoaderContext) -> Iterator[Step]:
    if context.object_type.name == "filtered_with":  # a filter that is filtered itself
        yield from _filters(context.filter_context)
        yield from _filters(context.next_context)
    else:
        yield _step(context)


def _step(context: LoaderContext) -> Step:
    made: Mapping[str, str] = context.local_conf
    factory = context.object
    source = Source(context.global_conf, factory)
    element = factory.configured(source, made) if isinstance(factory, Element) else None
    return Step(element, factory, source, made)
