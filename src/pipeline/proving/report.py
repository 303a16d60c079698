"""The report of what was tried and what was found, for people, for programs and for CI."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from time import monotonic, perf_counter
from typing import Any, NamedTuple, TypeVar
from xml.etree import ElementTree

from pipeline.interfaces import ConfigurationError
from pipeline.staging.asked import Asked
from pipeline.staging.runs import SINCE, Run
from pipeline.telling.words import bold

Thing = TypeVar("Thing")
TOGETHER = ("links", "growth")
"""The judges that ask a whole site at once: what one request does depends on the others."""


@dataclass
class Found:
    """One kind of finding, by the first of the shortest plans that lead to it."""

    judge: str
    what: str
    request: str
    plan: str
    """The faults, such as ``error@Connection.tpc_vote:before``; "" if there is none."""
    where: str
    cause: str
    """The view, say, by which it differs from others with the same words; "" if it differs by nothing."""
    tried: str
    """The requests that were tried when it was found."""
    count: int = 1

    @property
    def rule(self) -> str:
        """The rule of SAFETY that is broken, such as R1."""
        head = self.what.partition(":")[0]
        return head if head[:1] in "RS" and head[1:].isdigit() else ""

    @property
    def again(self) -> list[str]:
        """The options of the command that finds it again."""
        if self.judge == "faults":
            return ["--replay", f"{self.request} {self.plan}".strip()]
        if self.judge == "sequences":
            return ["--replay", self.plan] if self.plan else ["--judge", self.judge]
        requests = "|".join(re.escape(one).replace(r"\ ", " ") for one in self.tried.split(" | "))
        return ["--judge", self.judge, *([] if self.judge in TOGETHER else ["--view", f"^({requests})$"])]


class Waiver(NamedTuple):
    """One finding that the owner of a site knows and leaves."""

    judge: str
    what: str
    """The finding, as it is printed."""
    request: str
    plan: str
    reason: str


MOST_WAIVED = 5
"""More are not waived, but mended."""


@dataclass
class Line:
    """The runs of one request under one judge."""

    judge: str
    request: str
    status: int | None
    points: int
    runs: int = 0
    seconds: float = 0.0
    left: int = 0
    """Plans that the budget has left out."""
    findings: int = 0


@dataclass
class Report:
    """The report of ``pipeline prove``."""

    ini: str
    views: int = 0
    tried: int = 0
    succeeded: int = 0
    """The views that have answered a request without refusing it."""
    statuses: list[int | None] = field(default_factory=list)
    """How the requests to an application are answered whose views are not known."""
    untried: list[str] = field(default_factory=list)
    """The views that no request has called, each with the reason."""
    refused: list[str] = field(default_factory=list)
    """The views that have refused every request, such as a login without its password; each with the answer."""
    lines: list[Line] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    ends: float = inf
    """The time of ``monotonic()`` at which the budget is used up."""
    share_ends: float = inf
    """The same for the share of the judge that is at work."""
    is_cut: bool = False
    """True if the share of the judge is used up."""
    is_over_budget: bool = False
    cover: float = 0.9
    """The least part of the views that must succeed."""
    follow: bool = False
    """True if the lines are printed while they are made."""

    def share(self, judges: int) -> None:
        """Give the judge that begins its share of what is left of the budget. judges has the number of those that
        have not ended."""
        now = monotonic()
        self.share_ends = now + max(0.0, self.ends - now) / judges
        self.is_cut = False

    def is_over(self) -> bool:
        """Return whether the budget of the judge that is at work is used up."""
        self.is_cut = monotonic() > self.share_ends
        self.is_over_budget |= self.is_cut
        return self.is_cut

    def within_budget(self, things: Iterable[Thing]) -> Iterator[Thing]:
        """Yield one thing after the other, until the budget is used up."""
        for thing in things:
            yield thing
            if self.is_over():
                return

    @contextmanager
    def line(self, judge: str, request: str, status: int | None = None, points: int = 0) -> Iterator[Line]:
        """Note the runs of one request, and how long they take."""
        line = Line(judge, request, status, points)
        self.lines.append(line)
        began = perf_counter()
        try:
            yield line
        finally:
            line.seconds = perf_counter() - began

    def add(self, line: Line, request: Asked, run: Run, found: Sequence[str]) -> None:
        """Note a run, and what is wrong with it."""
        line.runs += 1
        for what in found:
            plan = " then ".join(map(str, run.hits))
            self.note(line, what, str(request), run.hits[0].where if run.hits else run.answered_by, plan)

    def note(
        self, line: Line, what: str, request: str, where: str = "", plan: str = "", cause: str = ""
    ) -> None:
        """Note one finding. Further ones of its kind, with the same words and cause, are counted. So is the same
        exception of the same line, whatever leads to it."""
        line.findings += 1
        _, since, raised = what.partition(SINCE)
        for one in self.found:
            is_known = one.what == what and (one.cause == cause if cause else one.judge == line.judge)
            if is_known or (since and one.what.endswith(since + raised)):
                one.count += 1
                if one.judge == line.judge and plan.count(" then ") < one.plan.count(" then "):
                    one.request, one.plan, one.where = request, plan, where
                return
        self.found.append(Found(line.judge, what, request, plan, where, cause, line.request))

    def waive(self, waivers: Sequence[Waiver]) -> None:
        """Take the findings away that the owner knows. A waiver that matches none is a finding."""
        if len(waivers) > MOST_WAIVED:
            raise ConfigurationError(f"{len(waivers)} findings are waived, and {MOST_WAIVED} are the most")
        judged = {line.judge for line in self.lines}
        for waiver in waivers:
            if waiver.judge not in judged:
                continue
            left = [one for one in self.found if (one.judge, one.what, one.request, one.plan) != waiver[:4]]
            if len(left) == len(self.found):
                what = f"a waiver matches nothing: {waiver.what}"
                left.append(Found(waiver.judge, what, waiver.request, waiver.plan, "", "", waiver.request))
            self.found = left

    def text(self) -> str:
        """Return the findings, and the views that were not tried, as lines."""
        lines = [
            f"{one.what}: {one.request} {one.plan}".rstrip() + (one.where and f", at {one.where}")
            for one in self.found
        ]
        if not self.is_covered:
            lines += [self.coverage, *self.untried, *self.refused]
        return "\n".join(lines)

    @property
    def runs(self) -> int:
        """How many runs there were."""
        return sum(line.runs for line in self.lines)

    @property
    def coverage(self) -> str:
        """How many of the views have succeeded, in words."""
        return f"{self.succeeded} of {self.views} views are tried with success"

    @property
    def is_covered(self) -> bool:
        """True if enough of the views have succeeded; before ``sequences``, if enough were tried."""
        has_tried_all = any(line.judge == "sequences" for line in self.lines)
        return (self.succeeded if has_tried_all else self.tried) >= self.cover * self.views

    @property
    def exit_status(self) -> int:
        """0 nothing found, 1 something found or too little tried, 3 the budget was over."""
        if self.found or not self.is_covered or not self.runs:
            return 1
        return 3 if self.is_over_budget else 0

    def as_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return {
            "ini": self.ini,
            "views": {"all": self.views, "tried": self.tried, "untried": self.untried, "succeeded": self.succeeded},
            "refused": self.refused,
            "requests": [vars(line) for line in self.lines],
            "findings": [{**vars(one), "rule": one.rule, "again": one.again} for one in self.found],
            "runs": self.runs,
            "over_budget": self.is_over_budget,
        }

    def as_junit(self) -> str:
        """Return the report as XML that CI servers read: a test for each request, and for each that was found."""
        seconds = {(line.judge, line.request): line.seconds for line in self.lines}
        suite = ElementTree.Element("testsuite", name=f"prove {self.ini}")
        case = ElementTree.SubElement(suite, "testcase", classname="cover", name="views tried")
        if not self.is_covered:
            ElementTree.SubElement(case, "failure", message=self.coverage)
        for judge, request in dict.fromkeys([*seconds, *((one.judge, one.request) for one in self.found)]):
            case = ElementTree.SubElement(suite, "testcase", classname=judge, name=request)
            case.set("time", f"{seconds.get((judge, request), 0.0):.3f}")
            for one in self.found:
                if (one.judge, one.request) == (judge, request):
                    ElementTree.SubElement(case, "failure", message=one.what).text = f"{one.plan}\n{one.where}"
        suite.set("tests", str(len(suite)))
        suite.set("failures", str(len(list(suite.iter("failure")))))
        return ElementTree.tostring(suite, encoding="unicode")


def put_begin(report: Report) -> None:
    """Print what of the site is tried."""
    if report.statuses:
        succeeded = sum((status or 500) < 400 for status in report.statuses)
        print(bold(f"{len(report.statuses)} requests of {report.ini} are tried, {succeeded} succeed"))
        return
    refused = report.tried - report.succeeded
    told = f", {refused} {'is' if refused == 1 else 'are'} only refused" if refused else ""
    print(bold(f"{report.tried} of {report.views} views of {report.ini} are tried{told}"))
    for word, views in (("not tried", report.untried), ("only refused", report.refused)):
        for one in views:
            print(f"  {word}: {one}")


def put_judge(lines: Sequence[Line], is_over: bool) -> None:
    """Print the sums of one judge."""
    runs, findings = sum(line.runs for line in lines), sum(line.findings for line in lines)
    requests = f"{len(lines)} request{'s' * (len(lines) != 1)}"
    left = sum(line.left for line in lines)
    over = f", {left} left out by the budget" * bool(left) + ", and its share of the budget is over" * is_over
    found = f"{findings} finding{'s' * (findings != 1)}" if findings else "nothing found"
    print(f"{lines[0].judge}: {requests}, {runs} runs, {found}{over}")


def put_end(report: Report, command: str) -> None:
    """Print what was found. command is the one that asks the same site."""
    for one in report.found:
        print(f"\n{bold('found')}: {one.what}" + (f"  ({one.count} times)" if one.count > 1 else ""))
        print(f"    {one.request}{f', with {one.plan}' if one.plan and one.judge != 'sequences' else ''}")
        if one.where:
            print(f"    at {one.where}")
        print(f"    {command} {shlex.join(one.again)}")
    print(f"\n{report.runs} runs, {len(report.found)} kinds of findings")
    if not report.is_covered:
        print(
            f"{report.coverage}, and --cover asks for {report.cover:.0%}. Other requests come from an access log "
            f"(--log), and views for users need --user"
        )
    if report.is_over_budget:
        print("the budget of seconds is over; --budget gives more")
