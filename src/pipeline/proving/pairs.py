"""Pairs: two requests at the same time, switched at their points. What is stored is what one after the other
stores."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations_with_replacement
from random import Random
from typing import Any

from pipeline.proving.noise import Noise
from pipeline.proving.report import Report
from pipeline.proving.rules import broken_invariants, differences, left_behind
from pipeline.staging.asked import Asked
from pipeline.staging.runs import LOOK, Patience, Run
from pipeline.staging.site import Site

Order = list[tuple[int, int]]
"""``(request, points)``: which of the two runs, and how many points it may pass before the other one does."""

Ends = dict[tuple[bool, ...], set[str]]
"""All that may be stored, by which of the two was acknowledged."""

ALWAYS = 10**6
NOT_SWITCHED = ("load", "sql.rollback")
"""Points at which the two are not switched: what they read there is fixed at the begin of their transactions."""
LONGEST_WAIT = 0.03
"""Seconds that a request waits for its turn, while the other one may wait for a lock that it holds."""
SCHEDULES = 150
"""Most schedules of one pair."""
HANGS = "a request hangs"
"""The finding after which no further order is tried: each may take as long."""


class Scheduler:
    """Lets two threads pass their points in one order."""

    def __init__(self, order: Order) -> None:
        self.order = iter(order)
        self.turn, self.left = next(self.order)
        self.changed = threading.Condition()
        self.ended: set[int] = set()
        self.blocked: set[int] = set()
        """Those that were seen to wait for a lock, and have passed no point since then."""

    def gate(self, me: int, name: str) -> None:
        """Pass a point of a run, when its turn has come."""
        other = 1 - me
        if name.startswith(NOT_SWITCHED):
            return
        with self.changed:
            if self.turn == me and other not in self.ended:
                self.left -= 1
                if self.left < 0:
                    self.turn, self.left = next(self.order)
                    self.changed.notify_all()
            while self.turn != me and other not in self.ended | self.blocked:
                if not self.changed.wait(LONGEST_WAIT):
                    self.blocked.add(other)
            self.blocked.discard(me)

    def end(self, me: int) -> None:
        """Note that a request has ended."""
        with self.changed:
            self.ended.add(me)
            self.changed.notify_all()


def prove_pairs(site: Site, storing: Sequence[Asked], report: Report, most: int = SCHEDULES) -> None:
    """Run each pair of the requests that store something."""
    for first, second in report.within_budget(combinations_with_replacement(storing, 2)):
        prove_pair(site, first, second, report, most)


def in_turn(site: Site, *requests: Asked) -> tuple[tuple[int | None, ...], Any]:
    """Run requests one after the other. Return their statuses and what is stored then."""
    site.copies.reset()
    statuses = tuple(site.ask(request).status for request in requests)
    return statuses, site.copies.values()


def prove_pair(site: Site, first: Asked, second: Asked, report: Report, most: int) -> None:
    """Run two requests in many orders."""
    noise = Noise()
    stored = {}
    for some in ((first, second), (second, first), (first,), (second,), ()):
        stored[some] = in_turn(site, *some)
        noise.learn(stored[some][1], in_turn(site, *some)[1])
    left = {some: repr(noise.without(values)) for some, (_, values) in stored.items()}
    both, reverse = (first, second), (second, first)
    done = [some for some in (both, reverse) if all((status or 500) < 400 for status in stored[some][0])]
    ends: Ends = {
        (True, True): {left[some] for some in done},
        (True, False): {left[first,]},
        (False, True): {left[second,]},
        (False, False): {left[()]},
    }
    in_order = {stored[both][0], stored[reverse][0][::-1]}
    traces = (site.afresh(request).trace for request in (first, second))
    lengths = [sum(not name.startswith(NOT_SWITCHED) for name in trace) for trace in traces]
    name = f"{first} | {second}"
    with report.line("pairs", name, stored[both][0][0], sum(lengths)) as line:
        for order in orders(lengths, most, site.seed):
            runs = run_both(site, (first, second), order)
            line.runs += 1
            said = " then ".join(f"{1 + who} passes {count}" for who, count in order[:-1])
            found = list(wrong(site, runs, ends, in_order, noise))
            for what in found:
                report.note(line, what, name, runs[0].answered_by, said)
            if HANGS in found:
                break


def wrong(
    site: Site, runs: Sequence[Run], ends: Ends, in_order: set[tuple[int | None, ...]], noise: Noise
) -> Iterator[str]:
    """Yield what is wrong with two runs at the same time."""
    statuses = tuple(run.status for run in runs)
    if any(run.status is None and run.escaped is None for run in runs):
        yield HANGS
        return
    done = tuple(run.is_acknowledged for run in runs)
    shown = " and ".join(map(str, statuses))
    if repr(noise.without(site.copies.values())) not in ends[done]:
        yield f"R2: answered {shown}, what is stored is not what they store one after the other"
    elif any((status or 500) >= 500 for status in statuses) and statuses not in in_order:
        yield f"R2: answered {shown}, which neither is when they come one after the other"
    yield from left_behind(differences())
    yield from broken_invariants(site)


def orders(lengths: Sequence[int], most: int, seed: int) -> Iterator[Order]:
    """Yield every order with one switch, and some of those with two. lengths are the points of the two."""
    first, second = lengths
    one: list[Order] = [[(0, count), (1, ALWAYS)] for count in range(1, first)]
    one += [[(1, count), (0, ALWAYS)] for count in range(1, second)]
    two: list[Order] = [[(0, a), (1, b), (0, ALWAYS)] for a in range(1, first) for b in range(1, second)]
    chosen = Random(seed)
    chosen.shuffle(two)
    if len(one) > most:
        one = chosen.sample(one, most)
    yield from one
    yield from two[: max(0, most - len(one))]


def run_both(site: Site, requests: Sequence[Asked], order: Order) -> tuple[Run, Run]:
    """Run two requests in two threads, in one order."""
    site.copies.reset()
    scheduler = Scheduler(order)
    runs = Run(gate=partial(scheduler.gate, 0)), Run(gate=partial(scheduler.gate, 1))

    def work(me: int) -> None:
        try:
            site.ask(requests[me], runs[me])
        finally:
            scheduler.end(me)

    threads = [threading.Thread(target=work, args=(me,), daemon=True) for me in (0, 1)]
    for thread in threads:
        thread.start()
    patience = Patience()
    while any(thread.is_alive() for thread in threads) and not patience.is_over():
        for thread in threads:
            thread.join(LOOK)
    return runs
