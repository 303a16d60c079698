"""The faults: every kind of failure at every point of a request, and with a depth of 2, every pair of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from pipeline.proving.asked import Asked
from pipeline.proving.copies import Stored
from pipeline.proving.judges import Judge, Record
from pipeline.proving.memory import differences
from pipeline.proving.report import Line, Report
from pipeline.proving.runs import Plan, Run, kinds_at
from pipeline.proving.site import Site


class Whole:
    """A request without a fault, and what it stores."""

    def __init__(self, site: Site, request: Asked) -> None:
        site.copies.reset()
        self.run = site.ask(request)
        self.stored: Stored = site.copies.stored()


def record_of(site: Site, whole: Whole, run: Run) -> Record:
    """Return a run with what it has left."""
    stored = site.copies.stored()
    return Record(run, stored, tuple(sorted(set(differences()))), whole.stored, whole.run.status)


def judged(site: Site, request: Asked, plan: Plan, whole: Whole, judges: Sequence[Judge]) -> tuple[Run, list[str]]:
    """Run a request with a plan. Return the run and what is wrong with it."""
    site.copies.reset()
    run = site.ask(request, Run(plan))
    record = record_of(site, whole, run)
    return run, [found for judge in judges for found in judge(record)]


def plans_after(run: Run, kinds: Sequence[str], first: int = 0) -> list[dict[str, str]]:
    """Return the plans with one more fault at each point that the run has passed since the point ``first``."""
    return [
        {**run.plan, point: kind}
        for point in run.trace[first:]
        for kind in kinds_at(point)
        if kind in kinds
    ]


def prove_faults(
    site: Site,
    requests: Sequence[Asked],
    report: Report,
    judges: Sequence[Judge],
    *,
    depth: int,
    kinds: Sequence[str],
    is_over: Callable[[], bool],
) -> None:
    """Run each request with every plan, and report what is wrong."""
    for request in requests:
        began = perf_counter()
        whole = Whole(site, request)
        line = report.begin("faults", str(request), whole.run.status, len(whole.run.trace))
        prove_one(site, request, line, report, whole, judges, depth, kinds, is_over)
        line.end(perf_counter() - began)
        if is_over():
            return


def prove_one(
    site: Site,
    request: Asked,
    line: Line,
    report: Report,
    whole: Whole,
    judges: Sequence[Judge],
    depth: int,
    kinds: Sequence[str],
    is_over: Callable[[], bool],
) -> None:
    """Run one request with every plan."""
    run, found = judged(site, request, {}, whole, judges)
    report.add(line, request, run, found)
    plans = plans_after(run, kinds)[::-1]
    while plans:
        plan = plans.pop()
        run, found = judged(site, request, plan, whole, judges)
        report.add(line, request, run, found)
        if len(plan) < depth and len(run.hits) == len(plan):
            last = max(run.trace.index(hit.point) for hit in run.hits)
            plans += plans_after(run, kinds, last + 1)[::-1]
        if is_over():
            line.left = len(plans)
            return
