"""F12: each two of our elements, in each order that their contracts allow, with every failure at every point.

The judges are those of R1 to R8 and R13; most of the failures ask for R5 and R6. The two are completed by the
least partners that they need. The pipelines are made by enumeration, so that no author chooses which of them are
tried. At full length there are three of each; ``.ci/run`` takes half of the pipelines, by turns.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import entry_points
from itertools import pairwise, permutations
from pathlib import Path

import pytest

from faults.conftest import Figures
from faults.length import by_turns, length
from inis import ini_of
from pipeline.composition import Element
from pipeline.elements.keep import KeepRequest
from pipeline.elements.zodb import close_all
from pipeline.interfaces import OrderError
from pipeline.order import objection, refuse_wrong_order
from pipeline.proving.proof import Proof

OPTIONS = {
    "zodb": "uri = memory://orders\nroot = proving.any_site:stored",
    "sql": "url = sqlite:///%(here)s/site.sqlite",
    "session": "keys = %(here)s/keys",
    "causal": "keys = %(here)s/keys",
    "authenticate": "check = proving.any_site:check",
    "log": "file = %(here)s/access.log",
    "cors": "origins = *",
    "sendfile": "locations = /srv/files = /files/",
}
"""The options that an element cannot do without; of ``log``, a file of its own."""

@cache
def elements() -> dict[str, Element]:
    """The elements of the package, but for those of Zope."""
    points = entry_points(group="paste.filter_factory")
    ours = {point.name: point for point in points if point.value.startswith("pipeline.elements.")}
    return {name: point.load() for name, point in ours.items()}


def completed(*chosen: str) -> list[str] | None:
    """The least pipeline in which the chosen elements stand in this order; None if their contracts do not allow
    it."""
    names = {*chosen, "traverse", "errors"}
    if any("zodb_connection" in elements()[name].contract.requires for name in chosen):
        names |= {"zodb", "transaction"}
    elif any("database" in elements()[name].contract.provides for name in chosen):
        names.add("transaction")  # or it could only be read
    elif "transaction" in names:
        names.add("zodb")  # or check says that it is of no use
    before: dict[str, set[str]] = {name: set() for name in sorted(names)}
    for outer, inner in pairwise(chosen):
        before[inner].add(outer)
    contracts = {name: elements()[name].contract for name in names}
    for outer, inner in permutations(sorted(names), 2):
        if objection(contracts[outer], contracts[inner], ()):
            before[outer].add(inner)
        if "context" in contracts[outer].provides and "context" in contracts[inner].requires:
            before[inner].add(outer)
    try:
        order = list(TopologicalSorter({name: sorted(before[name]) for name in before}).static_order())
        refuse_wrong_order([contracts[name] for name in order])
    except (CycleError, OrderError):
        return None
    return order


def proved(order: Sequence[str], directory: Path, **replaced: str) -> tuple[int, list[str]]:
    """How many runs a pipeline was given, and what was found."""
    path = directory / "site.ini"
    own = {} if "zodb" in order else {"traverse": "root = proving.any_site:Root"}
    bugs = {name: f"paste.filter_factory = {bug}" for name, bug in replaced.items()}
    path.write_text(ini_of(order, "proving.any_site", **{**OPTIONS, **own, **bugs}))
    if not (directory / "site.sqlite").exists():
        made = sqlite3.connect(directory / "site.sqlite")
        made.execute("CREATE TABLE written (number INTEGER)")
        made.commit()
        made.close()
    with Proof(str(path)).loaded() as proof:
        report = proof.faults().report
        assert report.tried == report.views == 4, report.untried
    found = [f"{one.what}: {one.request} with {one.plan}" for one in report.found]
    both = {"zodb", "sql"} <= set(order)
    return report.runs, [one for one in found if not (both and one == WITHOUT_TWO_PHASES)]


WITHOUT_TWO_PHASES = "R3: a part is stored: POST /@@write with exit@sql.rollback:after"
"""A process that is told to end between the commit of SQL and that of the ZODB stores a part, as one that crashes
there does. The option ``twophase`` of ``sql`` is for this."""


def orders(count: int) -> set[tuple[str, ...]]:
    """The pipelines of each so many elements."""
    made = (completed(*chosen) for chosen in permutations(sorted(elements()), count))
    return {tuple(order) for order in made if order is not None}


@pytest.fixture(autouse=True)
def pages_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have keep treat the views as if each set request.keep."""
    monkeypatch.setattr(KeepRequest, "keep", 60)


@pytest.mark.timeout(3600)
def test_each_two(figures: Figures, place: Path, in_process: None) -> None:
    found = []
    all_runs = 0
    enumerated = sorted(orders(length(2, 3)))
    chosen = by_turns(enumerated, parts=4)  # all of them take ten minutes
    for order in chosen:
        runs, wrong = proved(order, place)
        assert runs > 50
        all_runs += runs
        found += [f"{' '.join(order)}: {one}" for one in wrong]
        close_all()
    figures(
        "F12",
        f"each {length('two', 'three')} of {len(elements())} elements",
        f"{len(chosen)} of {len(enumerated)} pipelines, {all_runs:,} requests with a failure at a point; "
        f"{len(found)} findings",
    )
    assert found == []


BUGS = [("log", "faults.bugs:log_forgets"), ("transaction", "faults.bugs:transaction_narrow")]


@pytest.mark.parametrize(("name", "bug"), BUGS, ids=[bug for _, bug in BUGS])
def test_control(figures: Figures, place: Path, in_process: None, name: str, bug: str) -> None:
    order = completed(name, "zodb") or completed("zodb", name)
    assert order is not None
    runs, found = proved(order, place, **{name: bug})
    names = {"log": "close forgotten", "transaction": "except Exception"}
    figures("F12", f"control: {names[name]}", f"found: {len(found)} kinds of findings in {runs} requests")
    assert found
