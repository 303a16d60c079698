"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from bench.budgets import Verdict
from bench.measure import Result, Table


def number(value: float) -> str:
    """Three digits that count, and no more."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3}f}"


def show(result: Result) -> None:
    for table in result.values():
        print()
        lines(table.title, *cells(table))


def cells(table: Table) -> tuple[list[str], list[list[str]]]:
    """A table as text: its head, and its rows."""
    if table.columns == [""]:
        base = table.value(table.base) if table.base else None
        head = ["", f"least {table.unit}", "median", *([f"/ {table.base}"] if base else [])]
        rows = []
        for name, row in table.rows.items():
            ratio = [f"{getattr(row[''], table.by) / base:.2f}"] if base else []
            rows.append([name, number(row[""].least), number(row[""].median), *ratio])
        return head, rows
    values = ([table.value(name, column) for column in table.columns] for name in table.rows)
    head = [f"{table.unit}, {table.by}", *table.columns]
    return head, [
        [name, *("" if value is None else number(value) for value in row)]
        for name, row in zip(table.rows, values, strict=True)
    ]


def lines(title: str, head: list[str], rows: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    print(title)
    for row in (head, *rows):
        first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join((row[0].ljust(len(first)), *others)), flush=True)


def budget_cells(verdicts: Iterable[Verdict]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [found.budget.what, f"{found.ratio:.3g}", f"{found.most:.3g}", "met" if found.met else "not met"]
        for found in verdicts
    ]
    return ["budget", "ratio", "at most", ""], rows
