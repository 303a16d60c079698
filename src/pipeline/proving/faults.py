"""The faults: every kind of failure at every point of a request, and with a depth of 2, every pair of them; and the
crash: the process ends at each point, and another one opens the database."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Container, Sequence

from pipeline.proving.noise import Noise
from pipeline.proving.report import Report
from pipeline.proving.rules import Record, Rule, broken_invariants, differences
from pipeline.staging.asked import Asked
from pipeline.staging.copies import Stored
from pipeline.staging.runs import ANYWHERE, AT_MOST, Hit, Plan, Run
from pipeline.staging.site import Site


class Whole:
    """A request without a fault, and what it stores."""

    def __init__(self, site: Site, request: Asked) -> None:
        self.site, self.request = site, request
        self.noise = Noise()
        """Texts that a second run has stored otherwise."""
        self.run = site.afresh(request)
        self.run.let_go()
        stored = site.copies.stored()
        if stored.tables and not self.run.hangs:
            site.afresh(request).let_go()
            self.noise.learn(stored.tables, site.copies.stored().tables)
        self.stored = self.without_noise(stored)

    def without_noise(self, stored: Stored) -> Stored:
        """Return what a run has stored without what differs from run to run."""
        return stored._replace(tables=self.noise.without(stored.tables))

    def with_faults(self, plan: Plan, rules: Sequence[Rule]) -> tuple[Run, list[str]]:
        """Run the request with a plan. Return the run, and how it breaks the rules."""
        run = self.site.afresh(self.request, Run(plan))
        stored = self.without_noise(self.site.copies.stored())
        record = Record(run, stored, differences(), self.stored, self.run.status)
        found = [found for rule in rules for found in rule(record)]
        run.let_go()
        return run, found


def prove_faults(
    site: Site,
    requests: Sequence[Asked],
    report: Report,
    rules: Sequence[Rule],
    depth: int,
    kinds: Container[str],
    points: str,
) -> None:
    """Run each request without a fault, then with every fault at every point, and report which rules are broken.

    depth   the most faults of one run
    points  regular expression; only points that it is found in have faults
    """

    for request in report.within_budget(requests):
        whole = Whole(site, request)
        with report.line("faults", str(request), whole.run.status, len(whole.run.trace)) as line:
            plans: list[Plan] = [{}]
            while plans and not (line.runs and report.is_over()):
                plan = plans.pop()
                run, found = whole.with_faults(plan, rules)
                report.add(line, request, run, found)
                is_broken = not plan and (run.hangs or run.is_error)
                if len(run.hits) == len(plan) < depth and not is_broken:
                    last = max((run.trace.index(hit.point) for hit in run.hits), default=-1)
                    further = [point for point in run.trace[last + 1 :] if re.search(points, point)]
                    found_there = ((point, AT_MOST.get(point.partition("#")[0], ANYWHERE)) for point in further)
                    more = [{**plan, point: kind} for point, some in found_there for kind in some if kind in kinds]
                    plans += more[::-1]
            line.left = len(plans)


def prove_crash(site: Site, requests: Sequence[Asked], report: Report) -> None:
    """End a process at each point of each request. What it has stored is all or nothing, and all of it if the
    answer was begun."""
    for request in report.within_budget(requests):
        whole = Whole(site, request)
        trace = whole.run.trace
        with report.line("crash", str(request), whole.run.status, len(trace)) as line, site.copies.on_disk():
            for number, point in enumerate(report.within_budget(trace)):
                site.copies.reset()
                end_at(site, request, point)
                run = Run()
                run.hits.append(Hit("crash", point, ""))
                report.add(line, request, run, left(site, whole, "start_response" in trace[:number]))


def end_at(site: Site, request: Asked, point: str) -> None:
    """Run a request in a process that ends at a point, without any cleaning up."""
    # other threads, such as those of a test runner, do not matter to the request
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        child = os.fork()
    if child == 0:
        try:
            site.ask(request, Run({point: "crash"}))
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def left(site: Site, whole: Whole, was_answered: bool) -> list[str]:
    """Return what is wrong with what a process has left."""
    looked = site.look(Asked("GET", "/"), lambda request: getattr(request, "root", None))
    if looked.escaped is not None or looked.is_error:
        return [f"the next process cannot answer: {looked.status or looked.escaped!r}"]
    if broken := list(broken_invariants(site)):
        return broken
    stored = whole.without_noise(site.copies.stored())
    if stored.is_nothing:
        lost = was_answered and not whole.stored.is_nothing
        return ["R1: the answer was begun, and nothing is stored"] if lost else []
    return [] if stored == whole.stored else ["R3: a part is stored"]
