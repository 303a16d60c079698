"""Crash: the process ends at each point, and another one opens the database."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence

from pipeline.proving.faults import Whole
from pipeline.proving.promised import broken_invariants
from pipeline.proving.report import Report
from pipeline.staging.asked import Asked
from pipeline.staging.runs import Hit, Run
from pipeline.staging.site import Site


def prove_crash(site: Site, requests: Sequence[Asked], report: Report) -> None:
    """End a process at each point of each request. What it has stored is all or nothing, and all of it if the
    answer was begun."""
    for request in requests:
        whole = Whole(site, request)
        trace = whole.run.trace
        with report.line("crash", str(request), whole.run.status, len(trace)) as line, site.copies.on_disk():
            for number, point in enumerate(trace):
                site.copies.remove_left()
                site.copies.reset()
                end_at(site, request, point)
                run = Run()
                run.hits.append(Hit("crash", point, ""))
                report.add(line, request, run, left(site, whole, "start_response" in trace[:number]))
                if report.is_over():
                    return


def end_at(site: Site, request: Asked, point: str) -> None:
    """Run a request in a process that ends at a point, without any cleaning up."""
    with warnings.catch_warnings():  # other threads, such as those of a test runner, do not matter to the request
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            site.ask(request, Run({point: "crash"}))
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def left(site: Site, whole: Whole, was_answered: bool) -> list[str]:
    """Return what is wrong with what a process has left."""
    site.copies.open_left()
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
