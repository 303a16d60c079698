"""``pipeline views INI [name=value ...]``: every view of every publisher of an ini."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zope.interface import implementedBy

from pipeline.interfaces import ConfigurationError, IRequest
from pipeline.loading.building import build
from pipeline.loading.command_line import options_of, parser_of
from pipeline.options import on_demand, resolve
from pipeline.request import Request
from pipeline.telling.findings import put_json
from pipeline.telling.row import Row
from pipeline.telling.words import bold, kind_name, place_of
from pipeline.typed import wanted_by
from pipeline.views import Views

if TYPE_CHECKING:
    from pipeline.toolkit.pages import browser_pages
else:  # only a site of Zope has its packages
    browser_pages = on_demand("pipeline.toolkit.pages:browser_pages")

HEADINGS = {
    "path": "path",
    "methods": "methods",
    "request": "request type",
    "wants": "request class",
    "permission": "permission",
}


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    options = options_of(parser_of("views"), arguments)
    wanted = None if options.kind is None else specification(options.kind)
    built = build(options.ini, options.variables)
    found = [(step.where, list(rows(views)), HEADINGS) for step, views in built.views()]
    for step, pipeline in built.ends:
        if any("zope" in (*contract.requires, *contract.provides) for contract in pipeline.linked):
            listed = sorted(browser_pages(), key=lambda row: (row.context, row.name))
            found.append((step.where, listed, {**HEADINGS, "function": "class"}))
    told = [(where, [row.as_dict() for row in all if row.is_for(wanted)], titles) for where, all, titles in found]
    if options.json:
        put_json([{"publisher": where, "views": views} for where, views, _ in told])
        return 0
    for where, views, titles in told:
        print(f"{bold('publisher')} in {where}: {len(views)} view{'s' * (len(views) != 1)}")
        put_table(views, titles)
        print()
    return 0


def specification(dotted: str) -> Any:
    """Return what the objects of a class provide, or an interface, of a dotted name."""
    try:
        found = resolve(dotted)
    except (ValueError, AttributeError) as error:
        raise ConfigurationError(f"--for: {error}") from error
    return implementedBy(found) if isinstance(found, type) else found  # type: ignore[no-untyped-call]


def rows(views: Views) -> Iterator[Row]:
    """Yield the facts of each view, by object and name."""
    merged: dict[tuple[str, str, Any, Any, Any], list[str]] = {}
    for context, request_type, key, view in views:
        method, _, name = key.partition(" ")
        merged.setdefault((kind_name(context), name, request_type, view, context), []).append(method)
    for (said, name, request_type, view, context), methods in sorted(merged.items(), key=lambda item: item[0][:2]):
        wanted = wanted_by(view.function, 1)
        is_error = methods == ["error"]
        yield Row(
            kind=context,
            context=said,
            name=name,
            methods="" if is_error else " ".join(sorted(methods)),
            request="" if request_type is IRequest else kind_name(request_type),
            wants=wanted.__name__ if wanted not in (None, Request) else "",
            permission=view.permission or "",
            fields=list(view.fill.names) if view.fill is not None else [],
            function=f"{view.function.__module__}.{view.function.__qualname__}",
            where=place_of(view.function),
            is_error=is_error,
        )


def put_table(views: Sequence[dict[str, Any]], titles: Mapping[str, str]) -> None:
    """Print views in columns; a column that is empty is left out."""
    columns = {key: title for key, title in titles.items() if any(row[key] for row in views)}
    widths = {key: max(len(title), *(len(row[key]) for row in views)) for key, title in columns.items()}
    if views:
        print("  " + "  ".join(f"{title:{widths[key]}}" for key, title in columns.items()) + "  source")
    for row in views:
        print("  " + "  ".join(f"{row[key]:{widths[key]}}" for key in columns) + f"  {row['where']}")
