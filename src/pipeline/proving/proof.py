"""``Proof``: a site, a corpus of requests, and what is tried with them. The command and the fixture are made of
it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from importlib.metadata import entry_points
from itertools import islice
from time import monotonic

from pipeline.interfaces import ConfigurationError
from pipeline.proving.attack import prove_attack
from pipeline.proving.corpus import NO_OBJECT, Wanted, of_views
from pipeline.proving.faults import Whole, prove_crash, prove_faults
from pipeline.proving.growth import Memory, prove_growth
from pipeline.proving.links import followed, prove_links
from pipeline.proving.pairs import SCHEDULES, prove_pairs
from pipeline.proving.report import Report, Waiver, put_judge
from pipeline.proving.rules import RULES, Rule
from pipeline.proving.sequences import prove_sequences
from pipeline.staging.asked import Asked, read_log
from pipeline.staging.runs import FAULTS, Plan, Run
from pipeline.staging.site import Site
from pipeline.views import Views

JUDGES = ("faults", "attack", "links", "sequences", "growth", "crash", "pairs")
"""The ways to judge a site, in the order in which they are tried."""

LINKS = 100
"""How many requests are found by links in a site without views."""
GROWTH = 3
"""How often a site may grow."""


@dataclass(eq=False)
class Proof(Site):
    """A site that is proved: its requests, and the report. The first of ``users`` asks if there is no ``user``."""

    _: KW_ONLY
    users: Sequence[str] = ()
    """Ordinary users, who ask by turns. None of them may touch what belongs to another one."""
    view: str = ""
    """Regular expression; only requests that it is found in are tried."""
    log: str | None = None
    """Path of an access log in JSON, whose requests are tried beside those for the views."""
    budget: float | None = None
    """Seconds, after which nothing more is tried; None means any time."""
    cover: float = 0.9
    """The least part of the views that must be tried with success."""
    points: str = ""
    """Regular expression; only points that it is found in have faults."""
    corpus: Sequence[Asked] = ()
    """The requests, in place of those for the views."""
    more: Sequence[Rule] = ()
    """Rules for runs with faults, beside those that are known."""
    waived: Sequence[Waiver] = ()
    """Findings that are left."""
    strict: bool = False
    """True to raise AssertionError if something is found."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.user = self.user or next(iter(self.users), None)
        added = entry_points(group="wsgi_pipeline.rules")
        self.rules = (*RULES, *(entry.load() for entry in added), *self.more)
        self.report = Report(self.name, cover=0.0 if self.view or self.corpus else self.cover)
        self.requests: list[Asked] = []

    @contextmanager
    def loaded(self) -> Iterator[Proof]:
        """Load the site and collect the requests."""
        with super().loaded():
            views = self._made()
            tried = [one.request for one in views if one.request is not None]
            self.report.views, self.report.tried = len(views), len(tried)
            self.report.untried = [str(one) for one in views if one.request is None]
            self.refused = [one for one in views if one.request is not None and not one.is_answered]
            self._note_refused()
            logged = read_log(self.log) if self.log is not None else ()
            newest = {one.kind: one.asked for one in logged}
            asked = [*self.corpus] if self.corpus else [*tried, *newest.values()]
            if not tried and not self.corpus:  # a mounted application has no views of ours, and its own users
                asked = [Asked("GET", "/"), *(request._replace(user=request.user or None) for request in asked)]
                begin, asked = asked, [*asked, *self._linked(asked)]
                if len(asked) < LINKS:  # a young site has more pages when it has grown by its forms
                    self._grow_by(asked)
                    asked = [*begin, *self._linked(begin)]
            self.requests = [one for one in asked if re.search(self.view, str(one))]
            if self.budget is not None:
                self.report.ends = self.report.share_ends = monotonic() + self.budget
            if not self.report.views:
                self.report.statuses = [self.afresh(one).status for one in self.requests]
            yield self

    def load(self) -> list[Views]:
        """Load the app, and note what its modules hold before all requests."""
        found = super().load()
        self.cold = Memory()
        return found

    def _made(self) -> list[Wanted]:
        """Return the views, with requests. A site without objects grows by its own forms, until it has some."""
        found = of_views(self, self.chains)
        for _ in range(GROWTH):
            if not any(one.said == NO_OBJECT for one in found):
                break
            tried = [one.request for one in found if one.request is not None]
            self._grow_by(tried)
            again = of_views(self, self.chains)
            if sum(one.request is None for one in again) == len(found) - len(tried):
                break
            found = again
        return found

    def _linked(self, begin: Sequence[Asked]) -> list[Asked]:
        """Return the requests that links and forms lead to."""
        linked = islice(followed(self, begin), LINKS)
        return [request for _, _, request, _ in self.report.within_budget(linked)]

    def _grow_by(self, requests: Sequence[Asked]) -> None:
        """Let the site grow by requests that store something, and remove none of the objects that have pages."""
        pages = [one for one in requests if one.is_safe and self.afresh(one).is_acknowledged]
        adding = (one for one in requests if not one.is_safe and self.afresh(one) and self.has_stored)
        self.grow(*(one for one in adding if all(self.ask(page).is_acknowledged for page in pages)))

    def _note_refused(self) -> None:
        """Note which views have refused all requests until now: a book must be lent before it is brought back."""
        left = [one for one in self.refused if one.row[3].function not in self.succeeded]
        self.report.refused = list(map(str, left))
        with_password = [one for one in left if one.request and b"password" in one.request.body]  # it is not known
        self.report.succeeded = self.report.tried - len(left) + len(with_password)

    @cached_property
    def storing(self) -> list[Asked]:
        """The requests that store something, each by the first user whom the site does not refuse."""
        found = []
        for request in self.requests:
            for tried in (request, *(request._replace(user=user) for user in self.users)):
                if not request.is_safe and self.afresh(tried).is_acknowledged and self.has_stored:
                    found.append(tried)
                    break
        return found

    def faults(self, depth: int = 1, kinds: Sequence[str] = tuple(FAULTS)) -> Proof:
        """Try every fault at every point."""
        return self._judged(prove_faults, self.requests, self.rules, depth, kinds, self.points)

    def attack(self) -> Proof:
        """Ask as an outsider does: without a login, from another site, with hostile values."""
        linked = [one for one in self._linked(self.requests) if one.is_safe and one.fields]
        new = {(one.alike, *dict(one.fields)): one for one in linked if one not in self.requests}
        asked = [*self.requests, *(one for one in new.values() if re.search(self.view, str(one)))]
        return self._judged(prove_attack, asked, self.users)

    def links(self) -> Proof:
        """Follow the links and forms of the pages."""
        return self._judged(prove_links, self.requests, self.storing)

    def sequences(self, most: int | None = None) -> Proof:
        """Try so many sequences of requests by several users; None: as many as the site asks for."""
        return self._judged(prove_sequences, self.requests, self.users, most)

    def growth(self) -> Proof:
        """Look for what a process has more of after the same requests."""
        return self._judged(prove_growth, self.requests, self.cold, self.storing)

    def crash(self) -> Proof:
        """End the process at each point."""
        return self._judged(prove_crash, self.requests)

    def pairs(self, most: int = SCHEDULES) -> Proof:
        """Run each pair of the requests that store something at the same time, in at most so many orders."""
        return self._judged(prove_pairs, self.storing, most)

    def _judged(self, prove: Callable[..., None], asked: object, *options: object) -> Proof:
        """Let one judge ask for something, and say what it has found."""
        judge = prove.__name__.removeprefix("prove_")
        prove(self, asked, self.report, *options)
        self._note_refused()
        lines = [line for line in self.report.lines if line.judge == judge]
        if self.report.follow and lines:
            put_judge(lines, self.report.is_cut)
        self.report.waive([one for one in self.waived if one.judge == judge])
        if self.strict and (self.report.found or not self.report.is_covered):
            raise AssertionError(self.report.text())
        return self

    def replay(self, text: str) -> tuple[Run, list[str]]:
        """Run one plan, as a finding prints it: ``METHOD URL kind@point then kind@point``."""
        for request in self.requests:
            if text == str(request) or text.startswith(f"{request} "):
                plan = plan_from(text.removeprefix(str(request)).strip())
                return Whole(self, request).with_faults(plan, self.rules)
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


