"""Paste Deploy: load an ini, or read its pipelines without building them.

The elements are Paste factories themselves (``pipeline.composition.Element``). The composite is in
``pipeline.switch``.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, entry_points
from typing import Any, NamedTuple, TypeVar

from paste.deploy import loadapp, loadwsgi
from paste.deploy.loadwsgi import APP, LoaderContext, loadcontext

from pipeline.composition import Element
from pipeline.ini import Source, place_of_ini, place_of_name, place_of_value, sections_of
from pipeline.interfaces import ConfigurationError, Facts, WSGIApp
from pipeline.order import refuse_missing, refuse_wrong_order
from pipeline.switch import branch_lines, switch

F = TypeVar("F", bound=Callable[..., Any])


def load(uri: str, name: str | None = None, relative_to: str | None = None, **global_conf: str) -> WSGIApp:
    """Return the app of an ini (``config:path/to.ini#name``). Raise OrderError if an element is missing.

    Use this in place of ``paste.deploy.loadapp`` if no element will be put around the app. The order contract is
    also checked across foreign middleware, which ``loadapp`` cannot do.
    """
    for chain in plan(uri, name, relative_to, **global_conf):
        chain.check()
    with named_errors(uri):
        app: WSGIApp = loadapp(uri, name=name, relative_to=relative_to, global_conf=global_conf)
    return app


class NotFound(ConfigurationError, LookupError):
    """A name in an ini that leads nowhere."""


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

    @property
    def facts(self) -> Facts:
        """What an operator must know of it. A foreign middleware or app may declare it too, by ``with_facts``."""
        if self.element is not None:
            return self.element.facts
        declared = getattr(self.factory, "facts", None)
        facts: Facts = declared(**self.strings) if declared is not None else Facts()
        return facts

    def __str__(self) -> str:
        return str(self.element.name if self.element else getattr(self.factory, "__name__", self.factory))


def with_facts(facts: Callable[..., Facts]) -> Callable[[F], F]:
    """Declare the facts of a filter or an app of Paste Deploy that is not an element.

    facts  ``(**strings) -> Facts``, called with the options as the ini has them
    """

    def decorate(factory: F) -> F:
        factory.facts = facts  # type: ignore[attr-defined]
        return factory

    return decorate


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
    with named_errors(uri):
        context = loadcontext(APP, uri, name=name, relative_to=relative_to, global_conf=global_conf)
        yield from _chains(context, "", ())


@contextmanager
def named_errors(uri: str) -> Iterator[None]:
    """Say of a name that leads nowhere where it stands, and what was meant: ``use = egg:package#name``, or the name
    of a section."""
    file = uri.removeprefix("config:").partition("#")[0]
    try:
        yield
    except PackageNotFoundError as error:
        where = place_of_value(file, f"egg:{error.name}")
        raise NotFound(f"{where}: the package {error.name!r} is not installed") from None
    except LookupError as error:
        missing = re.match(r"No section '(?>(.+)' \(prefixed by ')([\w-]+)'.* found in config (.+)", str(error))
        if missing is not None:
            raise NotFound(_missing_section(file, *missing.groups())) from None
        found = re.match(r"Entry point '(?>(.+)' not found in egg ')(?>(.+)' \(protocols: )(.+);", str(error))
        if found is None:
            if traceback.extract_tb(error.__traceback__)[-1].filename != loadwsgi.__file__:
                raise  # it is not what Paste Deploy says of an ini
            raise NotFound(str(error)) from error
        name, egg, protocols = found.groups()
        where = place_of_value(file, f"egg:{egg}#{name}")
        hint = _near(name, egg, protocols)
        raise NotFound(f"{where}: {egg} has no {name!r} for such a section; {hint}") from None


def _missing_section(file: str, name: str, kind: str, ini: str) -> str:
    """Return what is said of a section that is not in ``ini``, with the place where it is named, and what may have
    been meant. ``ini`` is ``file``, or an ini that it uses."""
    sections = list(sections_of(ini))
    other = [section for section in sections if section.partition(":")[2] == name]
    if os.path.realpath(ini) == os.path.realpath(file):
        missing = f"{place_of_name(file, name)}: the section [{kind}:{name}] is missing"
    else:
        missing = f"{place_of_ini(file, ini, name)}: the section [{kind}:{name}] is missing in {ini}"
    if other:
        return f"{missing}; [{other[0]}] is a section of another kind"
    near = get_close_matches(f"{kind}:{name}", sections, n=1)
    return f"{missing}; did you mean [{near[0]}]?" if near else missing


_SECTIONS = {"filter_factory": "filter", "app_factory": "app", "composite_factory": "composite"}
"""The kind of section for each kind of entry point."""


def _near(name: str, egg: str, protocols: str) -> str:
    """Return what may have been meant by the name of an entry point that is not there."""
    known = {
        group: sorted(point.name for point in entry_points(group=f"paste.{group}") if _is_of(point, egg))
        for group in _SECTIONS
    }
    for group, names in known.items():
        if name in names:
            return f"it is for a section [{_SECTIONS[group]}:...]"
    here = [name for group, names in known.items() if f"paste.{group}" in protocols.split(", ") for name in names]
    if near := get_close_matches(name, here, n=1, cutoff=0.5):
        return f"did you mean {near[0]!r}?"
    return f"it has {', '.join(here) or 'none'}"


def _is_of(point: Any, egg: str) -> bool:
    return point.dist is not None and point.dist.name.lower().replace("_", "-") == egg.lower().replace("_", "-")


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
        yield Chain(condition, (*outer, step_of(context)))


def _filters(context: LoaderContext) -> Iterator[Step]:
    if context.object_type.name == "filtered_with":  # a filter that is filtered itself
        yield from _filters(context.filter_context)
        yield from _filters(context.next_context)
    else:
        yield step_of(context)


def step_of(context: LoaderContext) -> Step:
    """Return what a section of an ini puts in a pipeline."""
    made: Mapping[str, str] = context.local_conf
    factory = context.object
    source = Source(context.global_conf, factory)
    element = factory.configured(source, made) if isinstance(factory, Element) else None
    return Step(element, factory, source, made)
