"""The ini of a site that exists: its middleware and its application, as Paste Deploy reads them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from paste.deploy.loadwsgi import APP, loadcontext

from pipeline.composition import Element
from pipeline.ini import sections_of
from pipeline.interfaces import ConfigurationError
from pipeline.loading.command_line import make_importable, parse_variables, split_name
from pipeline.paste import named_errors


class Middleware(NamedTuple):
    """One middleware of the pipeline of a site."""

    name: str
    """The name of its section, or its URI, as the ini names it."""
    factory: str
    """``module:name`` of the function that makes it."""
    options: Mapping[str, str]


class Existing(NamedTuple):
    """The ini of a site."""

    path: Path
    words: list[str]
    """Variables of the command line, ``name=value``."""
    start: str
    """The name of the app that a server loads."""
    filters: list[Middleware]
    app: str
    """The name of the app behind the middleware."""
    factory: str
    """``module:name`` of the function that makes it, or "" for an app whose options cannot be set from outside."""
    options: Mapping[str, str]

    @property
    def ini(self) -> str:
        """The ini with the name of the app, as the commands take it."""
        return str(self.path) if self.start == "main" else f"{self.path}#{self.start}"


def read(ini: str, words: list[str]) -> Existing:
    """Return what an ini has. ConfigurationError if there is a pipeline of ours already."""
    path, name = split_name(ini)
    make_importable(path)
    uri = f"config:{path}"
    with named_errors(uri):
        context = loadcontext(APP, uri, name=name or "main", global_conf=parse_variables(words))
        filters: list[Middleware] = []
        app, inner = name or "main", context
        if context.object_type.name == "pipeline":
            *names, app = words_of_pipeline(path, app)
            for word, one in zip(names, context.filter_contexts, strict=True):
                if one.object_type.name != "filter":  # a filter that is filtered itself
                    one = one.next_context
                refuse_ours(path, word, one.object)
                filters.append(Middleware(word, place_of(one.object), dict(one.local_conf)))
            inner = context.app_context
        is_plain = inner.object_type.name == "application"
        if is_plain:
            refuse_ours(path, app, inner.object)
        factory = place_of(inner.object) if is_plain and inner.protocol == "paste.app_factory" else ""
    return Existing(path, words, name or "main", filters, app, factory, dict(inner.local_conf))


def words_of_pipeline(path: Path, name: str) -> list[str]:
    """Return the names in the option ``pipeline`` of a section."""
    for section, (_, options) in sections_of(str(path)).items():
        kind, _, of = section.partition(":")
        if kind == "pipeline" and (of.strip() or "main") == name:
            return (options["pipeline"][1] or "").split()
    raise ConfigurationError(f"{path}: [pipeline:{name}] stands in another ini: adopt that one")


def place_of(factory: Any) -> str:
    """Return ``module:name`` of a factory."""
    return f"{getattr(factory, '__module__', '')}:{getattr(factory, '__qualname__', type(factory).__qualname__)}"


def refuse_ours(path: Path, name: str, factory: Any) -> None:
    """Refuse a part of a pipeline of ours."""
    if isinstance(factory, Element) or place_of(factory).startswith("pipeline."):
        raise ConfigurationError(f"{path}: {name} is a part of wsgi-pipeline, so the site is adopted already")
