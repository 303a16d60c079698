"""``pipeline views INI [name=value ...]``: every view of every publisher of an ini."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pipeline.interfaces import IRequest
from pipeline.request import Request
from pipeline.tools.building import build
from pipeline.tools.findings import put_json
from pipeline.tools.ini import ini_parser, options_of
from pipeline.tools.words import bold, kind_name, place_of
from pipeline.typed import wanted_by
from pipeline.views import Views

HEADINGS = {
    "path": "path",
    "methods": "methods",
    "request": "request type",
    "wants": "request class",
    "permission": "permission",
}


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    parser = ini_parser(
        "views",
        "Lists every view: the pattern of its path by the kind of object, the methods, the type of request, the "
        "class of the request that it names, the permission, and its line in the source.",
    )
    options = options_of(parser, arguments)
    found = [(step.where, list(rows(views))) for step, views in build(options.ini, options.variables).views()]
    if options.json:
        put_json([{"publisher": where, "views": views} for where, views in found])
        return 0
    for where, views in found:
        print(f"{bold('publisher')} in {where}: {len(views)} view{'s' * (len(views) != 1)}")
        put_table(views)
        print()
    return 0


def rows(views: Views) -> Iterator[dict[str, Any]]:
    """Yield the facts of each view, by object and name."""
    merged: dict[tuple[str, str, Any, Any], list[str]] = {}
    for context, request_type, key, view in views:
        method, _, name = key.partition(" ")
        merged.setdefault((kind_name(context), name, request_type, view), []).append(method)
    for (context, name, request_type, view), methods in sorted(merged.items(), key=lambda item: item[0][:2]):
        wanted = wanted_by(view.function, 1)
        is_error = methods == ["error"]
        path = f"({context} is raised)" if is_error else f"{{{context}}}/{name and '@@' + name}"
        yield {
            "path": path,
            "context": context,
            "name": name,
            "methods": "" if is_error else " ".join(sorted(methods)),
            "request": "" if request_type is IRequest else kind_name(request_type),
            "wants": wanted.__name__ if wanted not in (None, Request) else "",
            "permission": view.permission or "",
            "fields": list(view.fill.names) if view.fill is not None else [],
            "function": f"{view.function.__module__}.{view.function.__qualname__}",
            "where": place_of(view.function),
        }


def put_table(views: Sequence[dict[str, Any]]) -> None:
    """Print views in columns; a column that is empty is left out."""
    columns = {key: title for key, title in HEADINGS.items() if any(row[key] for row in views)}
    widths = {key: max(len(title), *(len(row[key]) for row in views)) for key, title in columns.items()}
    if views:
        print("  " + "  ".join(f"{title:{widths[key]}}" for key, title in columns.items()) + "  source")
    for row in views:
        print("  " + "  ".join(f"{row[key]:{widths[key]}}" for key in columns) + f"  {row['where']}")
