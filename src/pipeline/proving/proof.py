"""``Proof``: a site, a corpus of requests, and what is tried with them. The command and the fixture are made of
it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from time import monotonic

from pipeline.composition import Pipeline
from pipeline.interfaces import ConfigurationError
from pipeline.paste import Chain
from pipeline.proving.asked import Asked
from pipeline.proving.attack import prove_attack
from pipeline.proving.corpus import NO_OBJECT, identity_of, of_views, rows
from pipeline.proving.crash import prove_crash
from pipeline.proving.faults import Tried, Whole, judged, prove_faults
from pipeline.proving.judges import Judge, judges
from pipeline.proving.links import followed, prove_links
from pipeline.proving.logged import of_log
from pipeline.proving.pairs import SCHEDULES, prove_pairs, stores
from pipeline.proving.report import Report, Waiver, put_judge
from pipeline.proving.runs import FAULTS, Plan, Run
from pipeline.proving.site import Site

KINDS = tuple(FAULTS)
"""The kinds of faults."""
JUDGES = ("faults", "attack", "links", "crash", "pairs")
"""The ways to judge a site, in the order in which they are tried."""

LINKS = 100
"""How many requests are found by links in a site without views."""
GROWTH = 3
"""How often a site may grow."""


class Proof:
    """A site that is proved: its requests, and the report.

    ini     the ini, with ``#name`` if it has several apps; or a pipeline
    words   variables of the ini, ``name=value``
    user    the user of the requests that name none
    view    regular expression; only requests that it is found in are tried
    log     path of an access log in JSON, whose requests are tried beside those for the views
    allow   effects that views may have, such as ``localhost:25``
    budget  seconds, after which nothing more is tried; None means any time
    seed    of the random numbers
    cover   the least part of the views that must be tried
    points  regular expression; only points that it is found in have faults
    corpus  the requests, in place of those for the views
    more    judges beside those that are known
    waived  findings that are left
    strict  raise AssertionError if something is found
    """

    def __init__(
        self,
        ini: str | Pipeline,
        words: Sequence[str] = (),
        *,
        user: str | None = None,
        view: str = "",
        log: str | None = None,
        allow: Sequence[str] = (),
        budget: float | None = None,
        seed: int = 7,
        cover: float = 0.9,
        points: str = "",
        corpus: Sequence[Asked] = (),
        more: Sequence[Judge] = (),
        waived: Sequence[Waiver] = (),
        strict: bool = False,
    ) -> None:
        self.site = Site(ini, words, user=user, allow=allow, seed=seed)
        self.only = re.compile(view)
        self.log = log
        self.corpus = list(corpus)
        self.judges = (*judges(), *more)
        self.points = re.compile(points)
        self.waived = waived
        self.strict = strict
        self.ends = None if budget is None else monotonic() + budget
        self.report = Report(self.site.name, cover=0.0 if view or corpus else cover)
        self.requests: list[Asked] = []

    def is_over(self) -> bool:
        """Return whether the budget is used up."""
        if self.ends is not None and monotonic() > self.ends:
            self.report.is_over_budget = True
        return self.report.is_over_budget

    @contextmanager
    def loaded(self) -> Iterator[Proof]:
        """Load the site and collect the requests."""
        with self.site.loaded():
            chains = self.site.chains
            made, untried = self._made(chains)
            self.report.views = len({identity_of(row) for row in rows(self.site, chains)})
            self.report.untried = untried
            self.report.tried = self.report.views - len(untried)
            logged = list(of_log(self.log)) if self.log is not None else []
            asked = [*self.corpus] if self.corpus else [*made, *logged]
            if not asked:  # a mounted application has no views of ours
                asked = [Asked("GET", "/"), *(request for _, request, _ in islice(followed(self.site), LINKS))]
            self.requests = [one for one in asked if self.only.search(str(one))]
            yield self

    def _made(self, chains: Sequence[Chain]) -> tuple[list[Asked], list[str]]:
        """Return the requests for the views. A site without objects grows by its own forms, until it has some."""
        made, untried = of_views(self.site, chains)
        for _ in range(GROWTH):
            if not any(one.endswith(NO_OBJECT) for one in untried):
                break
            storing = [one for one in made if stores(self.site, one)]
            self.site.grow(*storing)
            again, left = of_views(self.site, chains)
            if len(left) == len(untried):
                break
            made, untried = again, left
        return made, untried

    def faults(self, depth: int = 1, kinds: Sequence[str] = KINDS) -> Proof:
        """Try every fault at every point."""
        prove_faults(
            self.site,
            self.requests,
            self.report,
            self.judges,
            Tried(depth, tuple(kinds), self.points),
            self.is_over,
        )
        return self._judged()

    def attack(self) -> Proof:
        """Ask as an outsider does: without a login, from another site, with hostile values."""
        prove_attack(self.site, self.requests, self.report, self.is_over)
        return self._judged()

    def links(self) -> Proof:
        """Follow the links and forms of the pages."""
        prove_links(self.site, self.requests, self.report, self.is_over)
        return self._judged()

    def crash(self) -> Proof:
        """End the process at each point."""
        prove_crash(self.site, self.requests, self.report, self.is_over)
        return self._judged()

    def pairs(self, most: int = SCHEDULES) -> Proof:
        """Run each pair of the requests that store something at the same time, in at most so many orders."""
        prove_pairs(self.site, self.requests, self.report, self.is_over, most)
        return self._judged()

    def _judged(self) -> Proof:
        """Say what was found by one way to judge."""
        judge = self.report.lines[-1].judge if self.report.lines else ""
        if self.report.follow and judge:
            put_judge([line for line in self.report.lines if line.judge == judge])
        self.report.waive([one for one in self.waived if one.judge == judge])
        if self.strict and (self.report.found or not self.report.is_covered):
            raise AssertionError(self.report.text())
        return self

    def replay(self, text: str) -> tuple[Run, list[str]]:
        """Run one plan, as a finding prints it: ``METHOD URL kind@point then kind@point``."""
        for request in self.requests:
            if text == str(request) or text.startswith(f"{request} "):
                plan = plan_from(text.removeprefix(str(request)).strip())
                return judged(self.site, request, plan, Whole(self.site, request), self.judges)
        raise ConfigurationError(
            f"{text!r} names no request of the site. They are: {', '.join(map(str, self.requests))}"
        )


def plan_from(text: str) -> Plan:
    """Return the plan that a finding prints."""
    plan = {}
    for word in text.split(" then ") if text else ():
        kind, at, point = word.partition("@")
        if not at or kind not in FAULTS:
            raise ConfigurationError(f"{word!r} is not of the form kind@point, with a kind of {', '.join(FAULTS)}")
        plan[point] = kind
    return plan


