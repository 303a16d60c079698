"""The reports of ``pipeline prove`` of one site, as text, JSON and JUnit: looked at, and compared."""

from __future__ import annotations

import json
from itertools import count
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from pipeline.proving import report as module
from pipeline.proving.report import Line, Report, Waiver, put_begin, put_end, put_judge
from pipeline.staging.asked import Asked

VOTE = "error@Connection.tpc_vote:before"
LOST = "R1: it is answered 200, and not stored"
OPEN = "S7: a page has a value of a visitor as HTML"
SLOW = "it takes longer with each visitor"


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> Report:
    """The report of a site of which two judges have found something. Each look at the clock takes a second."""
    monkeypatch.setattr(module, "perf_counter", count().__next__)
    made = Report("site.ini", views=10, tried=10, succeeded=8)
    made.untried = ["shop.view, since it has no form"]
    made.refused = ["shop.login, which answers 401"]
    with made.line("faults", "POST /@@buy", 200, 7) as line:
        line.runs = 16
        made.note(line, LOST, "POST /@@buy", "/srv/shop.py, line 3", f"{VOTE} then conflict@view:enter")
        made.note(line, LOST, "POST /@@sell", "/srv/shop.py, line 9", VOTE)
        made.note(line, LOST, "POST /@@give", "/srv/shop.py, line 12", f"{VOTE} then {VOTE}")
    with made.line("attack", "POST /@@sell", 500, 2) as line:
        line.runs, line.left = 4, 5
        made.note(line, OPEN, "POST /@@sell", cause="shop.sell")
    with made.line("sequences", "several requests one after the other", None, 0) as line:
        line.runs = 3
        made.note(line, SLOW, "GET /", "/srv/shop.py, line 1", "- GET / then - POST /@@sell")
    return made


TEXT = f"""\
{LOST}: POST /@@sell {VOTE}, at /srv/shop.py, line 9
{OPEN}: POST /@@sell
{SLOW}: GET / - GET / then - POST /@@sell, at /srv/shop.py, line 1
8 of 10 views are tried with success
shop.view, since it has no form
shop.login, which answers 401"""

FOUND = ("judge", "what", "request", "plan", "where", "cause", "tried", "count", "rule", "again")
JSON = {
    "ini": "site.ini",
    "views": {"all": 10, "tried": 10, "untried": ["shop.view, since it has no form"], "succeeded": 8},
    "refused": ["shop.login, which answers 401"],
    "requests": [
        dict(zip(("judge", "request", "status", "points", "runs", "seconds", "left", "findings"), one, strict=True))
        for one in (
            ("faults", "POST /@@buy", 200, 7, 16, 1, 0, 3),
            ("attack", "POST /@@sell", 500, 2, 4, 1, 5, 1),
            ("sequences", "several requests one after the other", None, 0, 3, 1, 0, 1),
        )
    ],
    "findings": [
        dict(zip(FOUND, one, strict=True))
        for one in (
            (
                *("faults", LOST, "POST /@@sell", VOTE, "/srv/shop.py, line 9", "", "POST /@@buy", 3, "R1"),
                ["--replay", f"POST /@@sell {VOTE}"],
            ),
            (
                *("attack", OPEN, "POST /@@sell", "", "", "shop.sell", "POST /@@sell", 1, "S7"),
                ["--judge", "attack", "--view", "^(POST /@@sell)$"],
            ),
            (
                *("sequences", SLOW, "GET /", "- GET / then - POST /@@sell", "/srv/shop.py, line 1", ""),
                *("several requests one after the other", 1, ""),
                ["--replay", "- GET / then - POST /@@sell"],
            ),
        )
    ],
    "runs": 23,
    "over_budget": True,
}

JUNIT = f"""\
<testsuite name="prove site.ini" tests="6" failures="4">\
<testcase classname="cover" name="views tried">\
<failure message="8 of 10 views are tried with success" /></testcase>\
<testcase classname="faults" name="POST /@@buy" time="1.000" />\
<testcase classname="attack" name="POST /@@sell" time="1.000"><failure message="{OPEN}">\n</failure></testcase>\
<testcase classname="sequences" name="several requests one after the other" time="1.000" />\
<testcase classname="faults" name="POST /@@sell" time="0.000"><failure message="{LOST}">\
{VOTE}\n/srv/shop.py, line 9</failure></testcase>\
<testcase classname="sequences" name="GET /" time="0.000"><failure message="{SLOW}">\
- GET / then - POST /@@sell\n/srv/shop.py, line 1</failure></testcase>\
</testsuite>"""

END = f"""
found: {LOST}  (3 times)
    POST /@@sell, with {VOTE}
    at /srv/shop.py, line 9
    prove site.ini --replay 'POST /@@sell {VOTE}'

found: {OPEN}
    POST /@@sell
    prove site.ini --judge attack --view '^(POST /@@sell)$'

found: {SLOW}
    GET /
    at /srv/shop.py, line 1
    prove site.ini --replay '- GET / then - POST /@@sell'

23 runs, 3 kinds of findings
8 of 10 views are tried with success, and --cover asks for 90%. Other requests come from an access log (--log), \
and views for users need --user
the budget of seconds is over; --budget gives more
"""


def test_one_site_as_text_json_and_junit(report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    report.is_over_budget = True
    assert report.text() == TEXT
    assert json.loads(json.dumps(report.as_dict())) == JSON
    assert report.as_junit() == JUNIT
    put_end(report, "prove site.ini")
    assert capsys.readouterr().out == END


def test_the_three_tell_of_the_same_findings(report: Report) -> None:
    told: list[Any] = report.as_dict()["findings"]
    suite = ElementTree.fromstring(report.as_junit())
    failed = {one.get("message") for one in suite.iter("failure")}
    assert [one["what"] for one in told] == [LOST, OPEN, SLOW] == [one.what for one in report.found]
    assert all(one["what"] in report.text() for one in told)
    assert failed == {LOST, OPEN, SLOW, report.coverage}
    assert (suite.get("tests"), suite.get("failures")) == (str(len(suite)), "4")


def test_what_is_printed_of_the_begin_and_of_a_judge(report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    put_begin(report)
    put_judge(report.lines[:1], is_over=True)
    put_judge([Line("links", "GET /", 200, 1, runs=1), Line("links", "GET /a", 200, 1, runs=2)], is_over=False)
    assert capsys.readouterr().out.splitlines() == [
        "10 of 10 views of site.ini are tried, 2 are only refused",
        "  not tried: shop.view, since it has no form",
        "  only refused: shop.login, which answers 401",
        "faults: 1 request, 16 runs, 3 findings, and its share of the budget is over",
        "links: 2 requests, 3 runs, nothing found",
    ]


STATUSES: dict[str, tuple[dict[str, Any], list[str], int]] = {
    "nothing found": ({}, ["faults"], 0),
    "something found": ({"found": ["one"]}, ["faults"], 1),
    "no run": ({}, [], 1),
    "the budget is over": ({"is_over_budget": True}, ["faults"], 3),
    "something found, and the budget is over": ({"found": ["one"], "is_over_budget": True}, ["faults"], 1),
    "too few tried": ({"tried": 8}, ["faults"], 1),
    "too few succeed, and sequences come later": ({"succeeded": 8}, ["faults"], 0),
    "too few succeed": ({"succeeded": 8}, ["faults", "sequences"], 1),
    "as many as asked for succeed": ({"succeeded": 9, "tried": 0}, ["sequences"], 0),
}


@pytest.mark.parametrize("name", STATUSES)
def test_the_exit_status(name: str) -> None:
    given, judges, status = STATUSES[name]
    lines = [Line(judge, "GET /", 200, 1, runs=1) for judge in judges]
    made = Report("site.ini", **{"views": 10, "tried": 10, "succeeded": 10, **given}, lines=lines)
    assert made.exit_status == status


def test_a_waiver_of_a_judge_that_was_not_asked_is_left_alone(report: Report) -> None:
    report.waive([Waiver(judge, LOST, "POST /@@sell", VOTE, "") for judge in ("pairs", "faults")])
    assert [one.what for one in report.found] == [OPEN, SLOW]


def test_the_budget_is_shared_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock takes a second."""
    monkeypatch.setattr(module, "monotonic", count().__next__)
    report = Report("site.ini", ends=100.0)
    report.share(4)
    assert report.share_ends == 25.0
    assert len(list(report.within_budget(range(100)))) == 26
    assert (report.is_cut, report.is_over_budget) == (True, True)
    report.share(2)
    assert (report.is_cut, report.is_over_budget) == (False, True)


def test_a_run_is_noted_with_its_place(report: Report) -> None:
    line = report.lines[0]
    for hits, by, place in (([], "", ""), ([], "a view", "a view"), (["here"], "a view", "here")):
        run: Any = SimpleNamespace(hits=[SimpleNamespace(where=one) for one in hits], answered_by=by)
        report.found.clear()
        report.add(line, Asked("GET", "/?password=x"), run, ["what"])
        assert (report.found[0].request, report.found[0].where) == ("GET /?password=(masked)", place)
    assert line.runs == 19


def test_an_exception_of_one_line_is_one_finding_whatever_leads_to_it() -> None:
    report = Report("site.ini")
    for judge, what in (
        ("faults", "it is answered 500, since KeyError was raised by views.py, line 7"),
        ("sequences", "GET / leads to /a, which is answered 500, since KeyError was raised by views.py, line 7"),
        ("sequences", "it is answered 500, since KeyError was raised by views.py, line 8"),
        ("sequences", "a statement"),
    ):
        with report.line(judge, "GET /a") as line:
            report.note(line, what, "GET /a", plan="ann GET /a -" if judge == "sequences" else "")
    assert [(one.judge, one.count, one.plan) for one in report.found] == [
        ("faults", 2, ""),
        ("sequences", 1, "ann GET /a -"),
        ("sequences", 1, "ann GET /a -"),
    ]


def test_a_request_that_is_not_asked_again_is_no_finding_of_its_own() -> None:
    """It has hung, so no view was reached when it would have been asked once more."""
    report = Report("site.ini")
    with report.line("sequences", "several requests one after the other") as line:
        for cause in ("shop.sell", "", "shop.buy"):
            report.note(line, "S12: it has not answered after 20 s", "POST /@@sell", cause=cause)
    assert [(one.cause, one.count) for one in report.found] == [("shop.sell", 2), ("shop.buy", 1)]
