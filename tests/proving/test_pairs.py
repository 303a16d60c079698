"""Pairs and sequences of ``pipeline prove``, on sites of a few lines: what counts as wrong, and what is tried."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.proving import pairs, sequences
from pipeline.proving.pairs import orders, prove_pair
from pipeline.proving.report import Report
from pipeline.proving.sequences import Explorer, is_made_of, steps_from
from pipeline.staging import runs
from pipeline.staging.asked import Asked
from pipeline.staging.runs import Run

FIRST, SECOND = Asked("POST", "/first"), Asked("POST", "/second")


@pytest.mark.parametrize("lengths", [(1, 1), (2, 1), (3, 4), (30, 40), (400, 3)])
@pytest.mark.parametrize("most", [1, 5, 20])
def test_the_orders_of_a_pair(lengths: tuple[int, int], most: int) -> None:
    """Those with one switch come first."""
    found = list(orders(lengths, most, 1))
    first, second = lengths
    assert len(found) == min(most, first - 1 + second - 1 + (first - 1) * (second - 1))
    assert [len(order) for order in found] == sorted(len(order) for order in found)
    assert len({tuple(order) for order in found}) == len(found)
    assert all(0 < count < lengths[who] for order in found for who, count in order[:-1])
    assert [len(order) for order in found].count(2) == min(most, first - 1 + second - 1)


class Site:
    """A site that stores a list of words, by what ``store`` says of a request and of what is there."""

    seed, invariants = 1, ()

    def __init__(self, store: Callable[[str, list[str]], int | None], together: Sequence[Any] = ()) -> None:
        self.store, self.together = store, together
        """How two requests at the same time end, and what is stored then."""
        self.stored: list[str] = []
        clock = count()
        self.copies = SimpleNamespace(reset=self.stored.clear, values=lambda: (*self.stored, f"at {next(clock)}"))

    def ask(self, request: Asked, run: Run | None = None) -> Run:
        run = Run() if run is None else run
        if run.gate is None:
            run.status = self.store(request.url, self.stored)
        else:
            run.gate("view:enter")
            run.status = self.together[request is not FIRST]
            self.stored[:] = self.together[2]
        return run

    def afresh(self, request: Asked) -> Run:
        run = Run()
        run.trace = ["load", "view:enter", "view:leave"]
        return run


def appends(url: str, stored: list[str]) -> int:
    """The second request is refused if it comes first."""
    if url == "/second" and not stored:
        return 409
    stored.append(url)
    return 200


def counts(url: str, stored: list[str]) -> int:
    stored[:] = [str(int("".join(stored) or 0) + 1)]
    return 200


def breaks(url: str, stored: list[str]) -> int:
    stored.append(url)
    return 500 if url == "/second" and len(stored) == 1 else 200


WRONG = "R2: answered {}, what is stored is not what they store one after the other"
NEITHER = "R2: answered {}, which neither is when they come one after the other"
BOTH = ["/first", "/second"]
PAIRS: dict[str, tuple[Any, tuple[Any, ...], list[str]]] = {
    "both in order": (appends, (200, 200, BOTH), []),
    "the first alone": (appends, (200, 409, ["/first"]), []),
    "the second is lost": (counts, (200, 200, ["1"]), [WRONG.format("200 and 200")]),
    "the second is lost, which is refused if it comes first": (
        appends, (200, 200, ["/first"]), [WRONG.format("200 and 200")]
    ),
    "the first is lost": (appends, (200, 409, []), [WRONG.format("200 and 409")]),
    "an error": (appends, (200, 500, ["/first"]), [NEITHER.format("200 and 500")]),
    "one hangs": (appends, (200, None, BOTH), ["a request hangs"]),
    "the error of the other order": (breaks, (200, 500, ["/first"]), []),
    "an error at the wrong one": (breaks, (500, 200, ["/second"]), [NEITHER.format("500 and 200")]),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_two_requests_at_the_same_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store, together, expected = PAIRS[name]
    monkeypatch.setattr(pairs, "differences", tuple)
    report = Report("site.ini")
    site: Any = Site(store, together)
    prove_pair(site, FIRST, SECOND, report, 4)
    assert sorted({one.what for one in report.found}) == expected
    assert report.lines[0].runs == (1 if name == "one hangs" else 3)


def test_two_requests_that_wait_for_a_processor_do_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "differences", tuple)
    for module, name, value in ((runs, "LONGEST", 0.1), (pairs, "LONGEST", 0.1), (pairs, "LOOK", 0.02)):
        monkeypatch.setattr(module, name, value, raising=False)
    monkeypatch.setattr(runs, "waits", lambda: {"1": time.monotonic()}, raising=False)
    report = Report("site.ini")
    site: Any = Site(appends, (200, 200, BOTH))
    quick = site.ask

    def ask(request: Asked, run: Run | None = None) -> Run:
        if run is not None:
            time.sleep(0.3)
        return quick(request, run)

    site.ask = ask
    prove_pair(site, FIRST, SECOND, report, 1)
    assert report.found == []


def test_what_two_requests_leave_behind_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "differences", lambda: ("an object differs",))
    report = Report("site.ini")
    site: Any = Site(counts, (200, 200, ["2"]))
    prove_pair(site, FIRST, SECOND, report, 4)
    assert [one.what for one in report.found] == ["R13: an object differs"]


# Sequences.


class Broken:
    """A site with a form, whose answer to a request is an error of the site, or no answer."""

    user, seed, invariants = "ann", 1, ()
    copies = SimpleNamespace(reset=lambda: None)


@pytest.mark.parametrize(("url", "is_known"), [("/a?q=1", True), ("/a?token=k3y", False), ("/a?password=x", False)])
def test_a_secret_of_an_address_is_not_learnt__S25(url: str, is_known: bool) -> None:
    site: Any = Broken()
    assert bool(Explorer(site, [Asked("GET", url)], ["ann"]).known) is is_known


@pytest.mark.parametrize(
    ("url", "sent", "is_made"),
    [
        ("/notes/garden", "/?q=garden", True),
        ("/notes/the%20garden", "/?q=the+garden", True),
        ("/notes/tea", "/?q=tea", False),
        ("/notes/7", "/?q=7", False),
        ("/ann", "/?back=ann", True),
        ("/7", "/?back=/7", True),
    ],
)
def test_an_address_that_is_made_of_a_value(url: str, sent: str, is_made: bool) -> None:
    """A value of three letters is in too many addresses by chance, unless it is the whole of one."""
    assert is_made_of(url, Asked("GET", sent)) is is_made


def test_the_shortest_sequence_has_the_same_finding() -> None:
    """Without the second request there is another one."""
    site: Any = Broken()
    explorer = Explorer(site, [], ["ann"])
    steps = [Asked("GET", f"/{number}") for number in range(4)]
    explorer.run = lambda some: ["lost"] if steps[1] in [*some] else ["other"]  # type: ignore[method-assign]
    assert explorer.shortest(steps, "lost") == [steps[1], steps[3]]


def test_only_what_changes_something_has_the_header_of_a_body() -> None:
    first, second = steps_from("- GET /a then ann POST /b q=1")
    assert (first.headers, first.user, second.user) == ((), "", "ann")
    assert dict(second.headers)["Content-Type"] == "application/x-www-form-urlencoded"


@pytest.mark.parametrize(("kind", "is_left_out"), [("hangs", True), ("is_error", True), ("", False)])
def test_what_has_failed_is_not_asked_again(
    kind: str, is_left_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = Run()
    last.hangs, last.status = kind == "hangs", 500 if kind == "is_error" else 200
    explorer = SimpleNamespace(known={"GET /": []}, runs=[last], given=(), welcome={})
    explorer.explore = lambda: ([Asked("GET", "/")], ["what"])
    explorer.shortest = lambda steps, what: steps
    monkeypatch.setattr(sequences, "Explorer", lambda *given: explorer)
    site: Any = Broken()
    report = Report("site.ini")
    sequences.prove_sequences(site, [], report, most=3)
    assert report.found[0].count == (1 if is_left_out else 3)


def test_a_later_sequence_with_a_finding_is_made_short_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one may need more requests. Each finding of a sequence has its own shortest one."""
    steps = [Asked("GET", f"/{number}") for number in range(5)]
    explorer = SimpleNamespace(known={"GET /": []}, runs=[Run()], given=(), welcome={})
    found = iter([["lost"], ["lost", "other"]])
    shortest = iter([steps[1:], steps[3:], steps[2:]])
    explorer.runs[0].status = 200
    explorer.explore = lambda: (steps, next(found))
    explorer.shortest = lambda given, what: next(shortest) if given == steps else []
    monkeypatch.setattr(sequences, "Explorer", lambda *given: explorer)
    site: Any = Broken()
    report = Report("site.ini")
    sequences.prove_sequences(site, [], report, most=2)
    plans = {one.what: one.plan.count(" then ") + 1 for one in report.found}
    assert plans == {"lost": 2, "other": 3}
