"""Pages by Jinja2, for ``render``: where templates are found, and the environment of a package."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

try:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
except ModuleNotFoundError as error:
    message = f"render() needs {error.name}. Install it: pip install 'wsgi-pipeline[jinja]'"
    raise ModuleNotFoundError(message, name=error.name) from error

SUFFIXES = (".html", ".htm", ".jinja", ".jinja2", ".j2")
"""The ends of the names of files that are templates."""
_OURS = Path(__file__).with_name("templates")


def page_of(module: str, template: str, values: Mapping[str, Any], request: Any) -> str:
    """Return the page that a template for a module makes of values."""
    return environment(module).get_template(template).render(values, request=request)


@cache
def environment(module: str) -> Environment:
    """Return the environment of the templates for a module. ``environment(__name__).filters["size"] = size`` adds a
    filter to all of them.

    Modules with the same places for templates share an environment. It escapes values in every template, an
    undefined name is an error, and a template is read once (``pipeline serve`` starts again if one is changed).
    The templates of ``pipeline.publishing.editing`` are found last, so that those of a site take their place.
    """
    return _environment((*map(str, places(module)), str(_OURS)))


@cache
def _environment(places: tuple[str, ...]) -> Environment:
    return Environment(
        loader=FileSystemLoader(places, encoding="utf-8-sig"),  # without a byte order mark
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


def templates_of(modules: Iterable[str]) -> Iterator[tuple[Environment, Path]]:
    """Yield the templates for these modules, each with its environment."""
    for one in dict.fromkeys(map(environment, modules)):
        for place in map(Path, one.loader.searchpath):  # type: ignore[union-attr]
            yield from ((one, file) for file in sorted(place.glob("*")) if file.suffix in SUFFIXES)


def load_templates(modules: Iterable[str]) -> None:
    """Load the templates for these modules, for which a visitor would wait. Raise TemplateSyntaxError for one that
    has a mistake."""
    for one, file in templates_of(modules):
        one.get_template(file.name)


def places(module: str) -> Iterator[Path]:
    """Yield the directories where templates of a module are looked for: that of the module, and the directories
    ``templates`` of its packages, the innermost first."""
    directory = _directory(module)
    if directory is None:
        return
    yield directory
    yield directory / "templates"
    found = sys.modules[module]
    package = module if hasattr(found, "__path__") else module.rpartition(".")[0]
    while package := package.rpartition(".")[0]:
        if (outer := _directory(package)) is not None:
            yield outer / "templates"


def _directory(module: str) -> Path | None:
    """Return the directory of a module; None for one without a file, such as a namespace package."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return None if file is None else Path(file).resolve().parent
