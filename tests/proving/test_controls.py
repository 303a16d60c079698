"""Each of these bugs is put back, and the proof finds it by its rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeline.proving.proof import Proof
from pipeline.proving.report import Report
from proving import bugs


def proved(ini: str, view: str, judge: str = "faults") -> Report:
    proof = Proof(ini, view=view)
    with proof.loaded():
        proof.pairs(40) if judge == "pairs" else getattr(proof, judge)()
    return proof.report


def found(report: Report) -> str:
    return "\n".join(f"{one.what} [{one.plan}]" for one in report.found)


SOUND = [("GET /$", "faults"), ("stream", "faults"), ("add", "faults"), ("plain", "faults"), ("title", "faults")]
SOUND += [("later", "faults"), ("later", "crash")]
SOUND += [("add|plain", "pairs"), ("add", "crash"), ("add|GET /$", "attack")]


@pytest.mark.parametrize(("view", "judge"), SOUND)
def test_nothing_is_found_in_what_is_sound(ini: Callable[..., str], view: str, judge: str) -> None:
    report = proved(ini(), view, judge)
    assert report.runs > 5
    assert found(report) == ""
    assert report.exit_status == 0


PUT_BACK: list[tuple[Callable[[pytest.MonkeyPatch], None], str, str]] = [
    (bugs.commit_after_the_first_byte, "plain", "R4: it is answered 500 and is stored"),
    (bugs.commit_on_error, "plain", "R3: it failed before the commit, and is stored"),
    (bugs.retry_after_commit, "plain", "R2: 2 transactions are stored"),
    (bugs.connection_not_given_back, "GET /$", "R5: 1 connection"),
    (bugs.no_abort, "plain", "R5: RequestConnection is not told the end"),
    (bugs.silent_uncertainty, "plain", "R4: it is answered 500 and is stored"),
    (bugs.must_discard_ignored, "title", "R13: a PersistentMapping in memory differs"),
    (bugs.phantom_after_an_abort, "plain", "R13: a Plain in memory differs from what is stored"),
]


@pytest.mark.parametrize(("bug", "view", "rule"), PUT_BACK, ids=[bug.__name__ for bug, *_ in PUT_BACK])
def test_a_bug_of_the_pipeline_is_found(
    bug: Callable[[pytest.MonkeyPatch], None], view: str, rule: str, ini: Callable[..., str], monkeypatch:
    pytest.MonkeyPatch
) -> None:
    path = ini()
    bug(monkeypatch)
    report = proved(path, view)
    assert rule in found(report)
    assert report.exit_status == 1


OF_SITES = [
    ("mail", "faults", "R2: before the commit, a view does what no abort takes back: socket.connect 127.0.0.1:9"),
    ("loose", "pairs", "R2: answered 200 and 200, what is stored is not what they store one after the other"),
    ("afresh", "pairs", "R2: answered 200 and 200, what is stored is not what they store one after the other"),
    ("beside", "faults", "R3: it failed before the commit, and is stored"),
    ("undeclared", "attack", "S1: an anonymous visitor changes the database by a view that declares no permission"),
    ("hello", "attack", "S7: a page has a value of the visitor as HTML"),
    ("leave", "attack", "S8: a redirect goes where a value of the visitor says"),
    ("visit", "attack", "a GET changes the database"),
    ("enter", "attack", "S25: a secret of the visitor is in a log"),
    ("knock", "attack", "S25: a secret of the visitor is in a log"),
    ("search", "attack", "S12: four times the length of a value takes more than eight times as long"),
]


@pytest.mark.parametrize(("view", "judge", "rule"), OF_SITES, ids=[view for view, *_ in OF_SITES])
def test_a_bug_of_a_site_is_found(view: str, judge: str, rule: str, ini: Callable[..., str]) -> None:
    assert rule in found(proved(ini(), view, judge))


def test_an_element_that_swallows_exceptions_is_found(ini: Callable[..., str]) -> None:
    report = proved(ini("retry zodb errors swallow transaction forms traverse"), "plain")
    assert "R1: it is answered 200, and not stored" in found(report)
