"""``prove`` finds the bugs that teams have made in six sites, and nothing in the sites without them."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from faults.length import by_turns
from inis import ini_of
from pipeline.database import forks
from pipeline.proving.proof import Proof
from proving.planted import BUGS, HERE, Bug

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ORDER = "retry {} errors transaction forms traverse"
ROWS = """
CREATE TABLE product (id INTEGER PRIMARY KEY, name VARCHAR(60) NOT NULL, stock INTEGER NOT NULL,
    price FLOAT NOT NULL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, owner VARCHAR(60) NOT NULL,
    product_id INTEGER NOT NULL REFERENCES product(id), count INTEGER NOT NULL, paid FLOAT NOT NULL,
    note VARCHAR(2000) NOT NULL);
INSERT INTO product VALUES (1, 'tea', 20, 2.5), (2, 'cake', 8, 3.25);
INSERT INTO orders VALUES (1, 'ann', 1, 2, 5.0, 'for tomorrow');
"""
TOP = Path(__file__).parents[2]
CLUB = """
[pipeline:main]
pipeline = retry zodb errors transaction club
[filter:retry]
use = egg:wsgi-pipeline#retry
[filter:zodb]
use = egg:wsgi-pipeline#zodb
uri = file://{here}/Data.fs
[filter:errors]
use = egg:wsgi-pipeline#errors
[filter:transaction]
use = egg:wsgi-pipeline#transaction
[app:club]
paste.app_factory = {module}:app
"""
NEEDED = {"club": ("pyramid_zodbconn",), "guests": ("pyramid",), "album": ("pydantic",)}
NUMBERS = count()
JUDGES = ("links", "attack", "sequences", "growth", "faults", "pairs")
"""In the order in which the quickest comes first."""
LIKELY = dict.fromkeys(("before the commit", "R1", "R3", "not stored"), "faults")
LIKELY |= dict.fromkeys(("invariant", "R13"), "sequences") | dict.fromkeys(("grows", "a statement"), "growth")
LIKELY |= dict.fromkeys(("S1", "S7", "S8", "500"), "attack")
"""The judge that is asked first, by what is said."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory whose modules can be imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    forks.close_all()
    for name in [name for name in sys.modules if name.startswith("planted_")]:
        del sys.modules[name]


def proof_of(site: str, here: Path, text: str | None = None, budget: float | None = None) -> Proof:
    """Return the proof of a site, whose module has this text in the place of its own."""
    for name in NEEDED.get(site, ()):
        pytest.importorskip(name)
    module = f"planted_{site}{next(NUMBERS)}"
    (here / "map.txt").write_text("The map")
    (here / f"{module}.py").write_text(text or (HERE / f"{site}.py").read_text())
    ini = CLUB.format(here=here, module=module)
    if site == "shop":
        with closing(sqlite3.connect(here / "shop.sqlite")) as database:
            database.executescript(ROWS)
        sql = f"url = sqlite:///{here}/shop.sqlite"
        ini = ini_of(ORDER.format("sql").split(), module, sql=sql, traverse=f"root = {module}:root")
    elif site in ("office", "library", "album"):
        zodb = f"uri = file://{here}/Data.fs\nroot = {module}:root"
        scan = f"{module} pipeline.publishing.pydantic" if site == "album" else module
        ini = ini_of(ORDER.format("zodb").split(), scan, zodb=zodb)
    (here / "site.ini").write_text(ini)
    return Proof(str(here / "site.ini"), users=("ann", "bob"), budget=budget)


@pytest.mark.parametrize("site", ["shop", "office", "club", "library", "album", "guests"])
def test_nothing_is_found_in_a_site_without_a_bug(site: str, here: Path) -> None:
    proof = proof_of(site, here)
    with proof.loaded():
        for judge in JUDGES:
            getattr(proof, judge)()
    assert proof.report.found == []
    assert proof.report.is_covered


def test_a_random_value_is_measured_and_not_counted(here: Path) -> None:
    """A token in a row, of which no list knows: one finding for each point and each schedule before."""
    text = (HERE / "shop.py").read_text()
    assert text.count("note=note[:2000])") == 1
    proof = proof_of("shop", here, text.replace("note=note[:2000])", "note=__import__('secrets').token_urlsafe())"))
    with proof.loaded():
        proof.faults().pairs(20)
    assert [one.what for one in proof.report.found] == []
    assert proof.report.runs > 300


MISSED = ["a paper is kept in a global"]
"""What is shown to all is the text of the first paper, which the requests for the views have made themselves."""
ROWS_OF_BUGS = [
    pytest.param(
        bug,
        id=f"{bug.site}: {bug.name}",
        marks=[pytest.mark.xfail(strict=True)] if bug.name in MISSED else [],
    )
    for bug in BUGS
]


def test_the_page_tells_them_all() -> None:
    page = " ".join((TOP / "docs" / "experiments.rst").read_text().split())
    assert [bug.name for bug in BUGS if bug.name not in page] == []
    assert f"{len(BUGS) - len(MISSED)} of {len(BUGS)} are found" in page


@pytest.mark.parametrize("bug", by_turns(ROWS_OF_BUGS))
def test_a_planted_bug_is_found(bug: Bug, here: Path) -> None:
    proof = proof_of(bug.site, here, bug.planted(), budget=120)
    with proof.loaded():
        for judge in (LIKELY.get(bug.said, "links"), *JUDGES):
            getattr(proof, judge)()
            if any(bug.said in one.what for one in proof.report.found):
                return
    raise AssertionError(f"{bug} is not found: {proof.report.text()}")
