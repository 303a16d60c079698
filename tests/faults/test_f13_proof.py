"""F13: the demo is proved with two failures in one request, with a process that ends at each point, and in pairs.

The quick suite proves it with one failure (``tests/proving/test_sites.py``).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.conftest import Figures
from faults.length import length
from pipeline.proving.proof import Proof
from pipeline.proving.report import Report

INI = str(Path(__file__).resolve().parents[2] / "etc" / "deploy.ini")
FIVE = r"^(GET /$|POST /counter/@@next|POST /@@add-document|POST /index.md/@@edit|POST /@@upload)"
"""A page, a write that everybody wants, a form that adds, one that changes, and an upload."""
COUNTER = r"^POST /counter/@@next"


def proof_of(place: Path, view: str, points: str = "") -> Proof:
    words = [f"zodb_uri=file://{place}/Data.fs", f"session_keys={place}/keys"]
    return Proof(INI, words, user="admin", view=view, points=points)


def told(figures: Figures, what: str, report: Report) -> list[str]:
    """Note the figures; return what was found."""
    subjects = {"crash": "processes that ended at a point", "pairs": "two requests at the same time"}
    found = [f"{one.what}: {one.request} with {one.plan}" for one in report.found]
    what_ran = subjects.get(what, "requests with up to two failures")
    figures("F13", what, f"{report.runs:,} {what_ran}, of {len(report.lines)} kinds; {len(found)} findings")
    return found


@pytest.mark.timeout(1800)
def test_two_failures_in_one_request(figures: Figures, place: Path) -> None:
    points = length("tpc_|sql|start_response|on_close", "")
    with proof_of(place, length(COUNTER, FIVE), points).loaded() as proof:
        assert told(figures, "two failures", proof.faults(depth=2).report) == []


@pytest.mark.timeout(1800)
def test_a_process_that_ends_at_each_point(figures: Figures, place: Path) -> None:
    with proof_of(place, length(COUNTER, "")).loaded() as proof:
        assert told(figures, "crash", proof.crash().report) == []


@pytest.mark.timeout(1800)
def test_two_requests_at_the_same_time(figures: Figures, place: Path) -> None:
    with proof_of(place, length(COUNTER, "")).loaded() as proof:
        assert told(figures, "pairs", proof.pairs(length(60, 150)).report) == []
