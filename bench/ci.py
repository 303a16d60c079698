"""``python -m bench ci``: a small part of the suites, for the CI.

Ratios alone, and twice the budget is allowed, so that a lost factor is seen and a busy machine is not. Zope, which
takes minutes to install, is not among the peers.
"""

from __future__ import annotations

from typing import Any

from bench import budgets
from bench.measure import Result
from bench.requests import requests
from bench.show import budget_cells, lines, show
from bench.suites import elements, inprocess, zodb

MARGIN = 2.0
PEERS = ("bare WSGI", "wheezy.web", "Falcon", "Pyramid", "pipeline")
WANTED = 5 + sum(goal is not None for goals in budgets.REQUESTS.values() for goal in goals)
"""Ratios, so that none is lost because a row was renamed."""
OFTEN: dict[str, Any] = {"rounds": 120, "seconds": 0.01}
"""The least of many short rounds is one in which nothing else ran."""
SHORT: dict[str, Any] = {"rounds": 40, "seconds": 0.003}
"""For the suite with many rows."""
TRIES = 3
"""A factor that was lost is lost each time; what else a machine does is not."""


def main() -> int:
    """The exit status: 1 if a ratio was over twice its budget each time, or was not found."""
    return 0 if any(is_met() for _ in range(TRIES)) else 1


def is_met() -> bool:
    """Measure, and say whether all is well."""
    results: dict[str, Result] = {
        "inprocess": inprocess(names=PEERS, **OFTEN),
        "zodb": zodb(with_zope=False, with_write=False, **OFTEN),
        "elements": elements(numbers=(0, 50), **OFTEN),
        "requests": requests(names=("pipeline", "Pyramid", "Falcon"), **SHORT),
    }
    for result in results.values():
        show(result)
    found = list(budgets.verdicts(results, MARGIN))
    print()
    lines("Twice the budgets", *budget_cells(found))
    if len(found) != WANTED:
        print(f"{WANTED} ratios are wanted, and {len(found)} were found")
    return len(found) == WANTED and all(verdict.met for verdict in found)
