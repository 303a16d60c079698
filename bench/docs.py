"""``python -m bench docs``: what was kept in bench/results goes into docs/charts, and into two pages of docs.

A line ``.. figures: NAME`` begins what is written here, and ``.. end`` ends it; what is between is not typed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from bench.budgets import REQUESTS, verdicts
from bench.charts import bars, curves
from bench.measure import REFERENCE, RESULTS, Result, Table, kept_as, read
from bench.show import budget_cells, cells, number

DOCS = Path(__file__).resolve().parent.parent / "docs"
PLACE = re.compile(r"^\.\. figures: (?P<name>\S+)\n.*?^\.\. end$", re.MULTILINE | re.DOTALL)


def main() -> int:
    pages = [DOCS / "performance.rst", DOCS / "measurements.rst"]
    (DOCS / "charts").mkdir(exist_ok=True)
    for name, chart in CHARTS.items():
        result = read(name)[1]
        if result:
            (DOCS / "charts" / f"{name}.svg").write_text(chart(result), encoding="utf-8")
    for page in pages:
        page.write_text(PLACE.sub(_filled, page.read_text("utf-8")), encoding="utf-8")
    return 0


def _filled(place: re.Match[str]) -> str:
    """A place with what belongs there; as it is, if that was not measured."""
    name = place["name"]
    if name == "machine":
        text = _machine()
    elif name == "budgets":
        results = {path.stem: read(path.stem)[1] for path in RESULTS.glob("*.json")}
        text = _rst("", *budget_cells(verdicts(results)))
    elif name in SHORT:
        head, rows = SHORT[name]()
        if not rows:
            return place[0]
        text = _rst("", head, rows)
    else:
        suite, _, only = name.partition("/")
        result = read(suite)[1]
        chart = [f".. image:: charts/{suite}.svg\n    :alt: {suite}\n"] if suite in CHARTS and not only else []
        tables = [result[only]] if only in result else [] if only else list(result.values())
        text = "\n".join((*chart, *(_rst(table.title, *cells(table)) for table in tables)))
        if not tables:
            return place[0]
    return f".. figures: {name}\n\n{text}\n.. end"


Cells = tuple[list[str], list[list[str]]]


def _servers() -> Cells:
    """Requests per second of 8 connections, by server."""
    tables = {name: table for name, table in read("served")[1].items() if table.unit == "requests/s"}
    apps = list(next(iter(tables.values())).rows) if tables else []
    rows = [[name, *(_number(table, app, "8") for app in apps)] for name, table in tables.items()]
    return ["requests/s", *apps], rows


PYTHONS = (REFERENCE, "3.12", "3.13")


def _pythons() -> Cells:
    """The ratios of the suite ``requests`` on each version of Python, with their budgets."""
    tables = {version: read(kept_as("requests", version))[1].get("requests") for version in PYTHONS}
    rows = []
    for row, goals in REQUESTS.items():
        for peer, most in zip(("Pyramid", "Falcon"), goals, strict=True):
            found = [_ratio(table, row, peer) for table in tables.values()]
            if most is not None and any(found):
                rows.append([f"{row} / {peer}", number(most), *found])
    return ["", "at most", *tables], rows


SHORT: dict[str, Callable[[], Cells]] = {"servers": _servers, "pythons": _pythons}


def _number(table: Table, row: str, column: str) -> str:
    value = table.value(row, column)
    return "" if value is None else number(value)


def _ratio(table: Table | None, row: str, peer: str) -> str:
    ours, theirs = (None, None) if table is None else (table.value(row, "pipeline"), table.value(row, peer))
    return "" if ours is None or theirs is None else f"{ours / theirs:.2f}"


def _machine() -> str:
    """On what the figures were taken, by suite where it differs, and how much else there was to do."""
    said: dict[str, list[str]] = {}
    others = []
    for path in sorted(RESULTS.glob("*.json")):
        facts, _ = read(path.stem)
        versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
        hardware = f"{facts['cores']} cores of {facts['cpu']}, {facts['system']}"
        what = f"CPython {facts['python']} on {hardware}; {versions}."
        said.setdefault(what, []).append(path.stem)
        others.append(f"{path.stem} {facts['others']} %")
    lines = [f"{', '.join(f'``{suite}``' for suite in suites)}: {what}" for what, suites in said.items()]
    lines.append(f"Share of the processors' time that other work on the machine took: {', '.join(others)}.")
    return "\n\n".join(lines) + "\n"


def _rst(title: str, head: list[str], rows: list[list[str]]) -> str:
    """A simple table of reStructuredText, in which an empty first cell would go on with the row above."""
    head = [head[0] or "\\", *head[1:]]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    rule = "  ".join("=" * width for width in widths)
    text = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in (head, *rows)]
    caption = f"{title}:\n\n" if title else ""
    return f"{caption}{rule}\n{text[0]}\n{rule}\n" + "\n".join(text[1:]) + f"\n{rule}\n"


def _dots(key: str) -> Callable[[Result], str]:
    """Yield the rows of a table with one column."""

    def chart(result: Result) -> str:
        table = result[key]
        return bars(table.title, table.unit, _values(table), log=True)

    return chart


def _values(table: Table) -> dict[str, dict[str, float]]:
    return {
        row: {column: value for column in table.columns if (value := table.value(row, column)) is not None}
        for row in table.rows
    }


def _growth(result: Result) -> str:
    names = {
        "depth": "segments of the path",
        "views": "views",
        "elements": "elements",
        "paths": "paths asked for in turn",
        "path": "characters of a name",
        "fields": "fields of a form",
    }
    series = {label: _sizes(result[key], "page") for key, label in names.items()}
    series |= {f"ZODB, {row}": _sizes(result["objects"], row) for row in result["objects"].rows}
    return curves("What a request costs, against the size of things", "size", "µs", series)


def _sizes(table: Table, row: str) -> dict[float, float]:
    """Values over sizes; a logarithmic scale has no place for 0."""
    return {float(column): value for column, value in _values(table)[row].items() if float(column)}


def _served(result: Result) -> str:
    rates = {name: table for name, table in result.items() if table.unit == "requests/s"}
    groups = {
        name: {row: value for row in table.rows if (value := table.value(row, "8")) is not None}
        for name, table in rates.items()
    }
    return bars("Requests per second of 8 connections", "requests/s", groups)


def _blocks(result: Result) -> str:
    return bars("2.5 MB delivered", "ms", _values(result["blocks"]), log=True)


CHARTS: dict[str, Callable[[Result], str]] = {
    "inprocess": _dots("page"),
    "zodb": _dots("read"),
    "growth": _growth,
    "served": _served,
    "blocks": _blocks,
}
