"""Paste Deploy: load an ini, or read its pipelines without building them.

The elements are Paste factories themselves (``pipeline.composition.Element``). The composite is in
``pipeline.switch``.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, entry_points
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

from paste.deploy import loadapp, loadwsgi
from paste.deploy.loadwsgi import APP, LoaderContext, loadcontext

from pipeline.between import Step as Step
from pipeline.composition import Element, Pipeline
from pipeline.ini import Source, place_of_ini, place_of_name, place_of_value, sections_of, variables_of
from pipeline.interfaces import ConfigurationError, Facts, WSGIApp
from pipeline.order import refuse_missing, refuse_wrong_order
from pipeline.switch import branch_lines, methods_of, switch
from pipeline.typed import Way, refuse_unadded_views
from pipeline.views import Views

F = TypeVar("F", bound=Callable[..., Any])


def load(uri: str, name: str | None = None, relative_to: str | None = None, **global_conf: str) -> WSGIApp:
    """Return the app of an ini (``config:path/to.ini#name``). Raise OrderError if an element is missing.

    Use this in place of ``paste.deploy.loadapp`` if no element will be put around the app. The order contract is
    also checked across foreign middleware, which ``loadapp`` cannot do.
    """
    chains = list(plan(uri, name, relative_to, **global_conf))
    check(chains)
    with named_errors(uri):
        app: WSGIApp = loadapp(uri, name=name, relative_to=relative_to, global_conf=global_conf)
    if isinstance(app, Pipeline):
        app.finish()
    refuse_unadded(chains)
    return app


def check(chains: Sequence[Chain]) -> None:
    """Raise ConfigurationError if elements are in a wrong order, if one is missing, or if two write one file. Two
    may share what options of one name say, such as a file of keys."""
    for chain in chains:
        chain.check_order()
    writers: dict[str, tuple[Step, str]] = {}
    for step in (step for chain in chains for step in chain.steps if step.element is not None):
        for path in step.facts.writes:
            option = next((name for name, text in step.strings.items() if path in unquote(text)), "")
            other, shared = writers.setdefault(os.path.realpath(path.replace("\0", "")), (step, option))
            if str(other) != str(step) and shared != option:
                where, place = other.source.option(shared), step.source.option(option)
                said = f"{path} is the file of {other}, too, which would be destroyed: name another here or there"
                raise ConfigurationError(f"{place}: {said} ({where})")


def refuse_unadded(chains: Sequence[Chain]) -> None:
    """Raise ConfigurationError if a view names a class of requests that no chain to the view adds.

    ``Pipeline.finish`` checks a single chain of elements. Behind a switch or a foreign middleware, the views are
    collected once more here, from the packages that the ends declare: a factory runs once.
    """
    if len(chains) > 1 or any(step.element is None for chain in chains for step in chain.steps):
        ends = ((chain.steps[-1].element, chain.way()) for chain in chains)
        publishing = ((end, way) for end, way in ends if end is not None and "context" in end.contract.requires)
        refuse_unadded_views((Views(end.facts.packages), way) for end, way in publishing)


class NotFound(ConfigurationError, LookupError):
    """A name in an ini that leads nowhere."""


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
    only: frozenset[str] | None = None
    """Methods of the requests that the switches lead here, or None."""
    never: frozenset[str] = frozenset()
    """Methods of requests that the switches lead to another chain."""

    def way(self) -> Way:
        """Return the way of the requests through the elements."""
        contracts = tuple(step.element.contract for step in self.steps if step.element is not None)
        return Way(contracts, self.only, self.never)

    def check_order(self) -> None:
        """Raise OrderError if the elements are in a wrong order or one is missing."""
        contracts = self.way().contracts
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
    of a section. Say of code that ends the process that the site is not loaded."""
    file = uri.removeprefix("config:").partition("#")[0]
    try:
        yield
    except SystemExit as error:  # a command, and the trial before a reload, would end with its status: 0
        place, line, *_ = traceback.extract_tb(error.__traceback__)[-1]
        raise ConfigurationError(f"{place}, line {line}: this ends the process while the site is loaded") from error
    except RecursionError:
        if not (circle := _circle(file)):
            raise
        raise ConfigurationError(f"{circle}: this leads back to the section itself") from None
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
            if isinstance(error, KeyError):  # of ``get option = variable``
                raise NotFound(_missing_variable(file, *error.args)) from None
            raise NotFound(str(error) if file in str(error) else f"{file}: {error}") from error
        name, egg, protocols = found.groups()
        where = place_of_value(file, f"egg:{egg}#{name}")
        hint = _near(name, egg, protocols)
        raise NotFound(f"{where}: {egg} has no {name!r} for such a section; {hint}") from None


def _circle(file: str, name: str = "", way: Mapping[tuple[str, str], str] = {}) -> str:
    """Return the options by which a section leads back to itself, each with its place, or "".

    name  of the sections to begin with; all of the ini without it
    way   the sections that lead here, each with the option by which it does
    """
    for section, (_, keys) in sections_of(file).items():
        if name not in ("", section.partition(":")[2].strip()):
            continue
        here = file, section
        if here in way:
            return "; ".join(list(way.values())[list(way).index(here) :])
        for option, (line, value) in keys.items():
            for word in (value or "").split() if option.startswith(_LEADING) else ():
                path, _, other = word.removeprefix("config:").partition("#") if ":" in word else ("", "", word)
                inner = str(Path(file).parent / path) if path else file
                place = f"{file}, section [{section}], line {line}, {option} = {word}"
                if circle := _circle(inner, other or "main", {**way, here: place}):
                    return circle
    return ""


def _missing_variable(file: str, name: str) -> str:
    """Return what is said of a variable that is not there, with the line that reads it."""
    near = "".join(f"; did you mean {one!r}?" for one in get_close_matches(name, variables_of(file), 1))
    places = (
        f", line {number}"
        for number, line in enumerate(Path(file).read_text("utf-8", "replace").splitlines(), 1)
        if line.startswith("get ") and line.partition("=")[2].strip() == name
    )
    return f"{file}{next(places, '')}: there is no variable {name!r} in [DEFAULT]{near}"


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
    near = [f"egg:{name}"] if "#" in name else [f"[{n}]" for n in get_close_matches(f"{kind}:{name}", sections, 1)]
    return f"{missing}; did you mean {near[0]}?" if near else missing


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
    *filters, context = unfolded(context)
    outer = (*outer, *map(step_of, filters))
    if context.object is switch:
        branches = [(line.split()[0], line) for line in branch_lines(context.local_conf)]
        if default := context.local_conf.get("default"):
            branches.append((default, f"{default} by default"))
        never: frozenset[str] = frozenset()
        for name, line in branches:
            inner = context.loader.app_context(name, global_conf=context.global_conf)
            only = methods_of(line)
            for chain in _chains(inner, f"{condition}, {line}" if condition else line, outer):
                both = only if chain.only is None else chain.only if only is None else chain.only & only
                yield chain._replace(only=both, never=chain.never | never)
            if only is not None and len(line.split()) == 2:  # the method is the only condition
                never |= only
    elif apps := list(_apps_of(context)):
        for name, line, inner in apps:
            text = f"{name} {line}"
            yield from _chains(inner, f"{condition}, {text}" if condition else text, (*outer, step_of(context)))
    else:
        yield Chain(condition, (*outer, *steps_of(context)))


_APPS = ("/", "domain ", "http://", "https://", "app", "not_found_app")
"""The beginnings of the options that name apps: those of ``egg:Paste#urlmap`` and ``egg:Paste#cascade``."""

_LEADING = ("use", "next", "filter-with", "pipeline", "branches", "default", *_APPS)
"""The beginnings of the options that name sections."""


def _apps_of(context: LoaderContext) -> Iterator[tuple[str, str, LoaderContext]]:
    """Yield the apps that the options of a foreign composite name, such as the paths of ``egg:Paste#urlmap``: the
    name of each, its option, and its context."""
    if context.protocol not in ("paste.composite_factory", "paste.composit_factory"):
        return
    for option, value in context.local_conf.items():
        for name in value.split() if option.startswith(_APPS) else ():
            with suppress(LookupError, ImportError):  # a word that is not the name of an app
                yield name, option, context.loader.app_context(name, global_conf=context.global_conf)


def unfolded(context: LoaderContext) -> list[LoaderContext]:
    """Return the filters of a context, outermost first, and last the app, or the filter, that they are around."""
    kind = context.object_type.name
    if kind == "pipeline":
        return [one for part in (*context.filter_contexts, context.app_context) for one in unfolded(part)]
    if kind in ("filter_app", "filtered_with"):
        return [*unfolded(context.filter_context), *unfolded(context.next_context)]
    return [context]


def steps_of(context: LoaderContext) -> Iterator[Step]:
    """Yield what the section of an app puts in a pipeline, outermost first. The factory of an app that consists of
    elements says so by its attribute ``parts``, a function with the arguments of the factory."""
    parts = getattr(context.object, "parts", None)
    if parts is None:
        yield step_of(context)
        return
    source = Source(context.global_conf, context.object)
    for part in parts(context.global_conf, **context.local_conf):
        element = Element(part.factory, part.contract, part.options, source)
        yield Step(element, element, source, context.local_conf)


def step_of(context: LoaderContext) -> Step:
    """Return what a section of an ini puts in a pipeline."""
    made: Mapping[str, str] = context.local_conf
    factory = context.object
    source = Source(context.global_conf, factory)
    element = factory.configured(source, made) if isinstance(factory, Element) else None
    return Step(element, factory, source, made)
