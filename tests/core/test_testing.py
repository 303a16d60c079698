"""``pipeline.testing``: what fails when it is told to, and the ledger that finds every loss."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
import webob
from transaction import TransactionManager
from transaction.interfaces import IDataManager, TransactionFailedError
from webob.exc import HTTPConflict
from zope.interface.verify import verifyObject

from pipeline import Pipeline, Request, Response, element
from pipeline.composition import Element
from pipeline.elements.errors import errors
from pipeline.interfaces import OrderError
from pipeline.testing import FakeDataManager, Ledger, fault
from pipeline.testing.faults import STEPS


class Oops(Exception):
    pass


# The fake data manager


def begun() -> TransactionManager:
    tm = TransactionManager(explicit=True)
    tm.begin()
    return tm


def test_it_keeps_the_contract() -> None:
    assert verifyObject(IDataManager, FakeDataManager(begun()))


def test_it_stores_when_the_transaction_is_committed() -> None:
    stored: list[str] = []
    tm = begun()
    manager = FakeDataManager(tm, stored, "value").join()
    assert stored == []
    tm.commit()
    assert stored == ["value"]
    assert manager.steps == ["join", "tpc_begin", "commit", "tpc_vote", "tpc_finish"]


def test_it_stores_nothing_when_the_transaction_is_aborted() -> None:
    tm = begun()
    manager = FakeDataManager(tm).join()
    tm.abort()
    assert manager.stored == []
    assert manager.steps == ["join", "abort"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("error", [Oops, Oops("an object"), lambda: Oops("made"), SystemExit])
def test_it_fails_at_any_step_with_any_exception(step: str, error: Any) -> None:
    fails: dict[str, Any] = {step: error}
    if step == "tpc_abort":
        fails["tpc_vote"] = ValueError
    tm = begun()
    manager = FakeDataManager(tm, fails=fails)
    raised: BaseException | None = None
    try:
        manager.join()
        if step == "abort":
            tm.abort()
        else:
            tm.commit()
    except BaseException as caught:
        raised = caught
    assert step in manager.steps
    assert manager.stored == []
    if step != "tpc_abort" or error is SystemExit:  # transaction logs an error there, and raises the first
        assert isinstance(raised, SystemExit if error is SystemExit else Oops)


def test_it_fails_only_where_it_is_told_to() -> None:
    tm = begun()
    good, bad = FakeDataManager(tm, key="1").join(), FakeDataManager(tm, key="2", fails={"tpc_vote": Oops}).join()
    with pytest.raises(Oops):
        tm.commit()
    assert good.steps == ["join", "tpc_begin", "commit", "tpc_vote", "tpc_abort"]
    assert bad.steps == ["join", "tpc_begin", "commit", "tpc_vote", "abort", "tpc_abort"]
    with pytest.raises(TransactionFailedError):
        tm.commit()
    tm.abort()


def test_their_order_is_that_of_their_keys() -> None:
    stored: list[str] = []
    tm = begun()
    for key in "bca":
        FakeDataManager(tm, stored, key, key=key).join()
    tm.commit()
    assert stored == ["a", "b", "c"]


@pytest.mark.parametrize("retry", [False, True])
def test_what_it_says_of_errors(retry: bool) -> None:
    tm = begun()
    FakeDataManager(tm, retry=retry).join()
    assert tm.get().isRetryableError(Oops()) is retry


def test_a_step_that_there_is_not() -> None:
    with pytest.raises(ValueError, match=r"vote: not a step; the steps are join, .*tpc_vote"):
        FakeDataManager(begun(), fails={"vote": Oops})


# The fault


@element
def end(*, seen: list[str]) -> Any:
    """The end of a pipeline: notes that it was reached."""

    def end(request: Request, response: Response) -> None:
        seen.append("inside")
        request.on_close(lambda: seen.append("closed"))
        response.app_iter = [b"done"]

    return end


def ask(app: Any, path: str = "/") -> webob.Response:
    return webob.Request.blank(path).get_response(app)


@pytest.mark.parametrize(
    ("at", "status", "seen"),
    [
        ("enter", 409, []),
        ("exit", 409, ["inside", "closed"]),
        ("close", 200, ["inside", "closed"]),
    ],
)
def test_where_it_is_raised(at: Any, status: int, seen: list[str], caplog: Any) -> None:
    found: list[str] = []
    answer = ask(Pipeline(errors(), fault(error=HTTPConflict, at=at), end(seen=found)))
    assert answer.status_int == status
    assert found == seen
    assert ("HTTPConflict" in caplog.text) is (at == "close"), "an error in closing is logged (R6)"


@pytest.mark.parametrize("error", [Oops, Oops(), lambda: Oops()])
def test_what_is_raised(error: Any, caplog: Any) -> None:
    assert ask(Pipeline(errors(), fault(error=error), end(seen=[]))).status_int == 500
    assert "Oops" in caplog.text


def test_how_often_it_is_raised() -> None:
    app = Pipeline(errors(), fault(error=HTTPConflict, times=2), end(seen=[]))
    assert [ask(app).status_int for _ in range(4)] == [409, 409, 200, 200]


def test_for_which_requests_it_is_raised() -> None:
    app = Pipeline(
        errors(), fault(error=HTTPConflict, times=1, when=lambda request: request.path == "/tea"), end(seen=[])
    )
    assert [ask(app, path).status_int for path in ("/", "/tea", "/", "/tea")] == [200, 409, 200, 200]


def test_it_can_be_written_in_an_ini() -> None:
    made = fault({}, error="builtins:MemoryError", at="close", times="3", when="operator:truth")
    assert made.options["error"] is MemoryError
    assert (made.options["at"], made.options["times"]) == ("close", 3)


def test_two_of_them_have_two_names() -> None:
    with pytest.raises(OrderError, match="fault stands twice"):
        Pipeline(fault(error=Oops), fault(error=Oops), end(seen=[]))
    other = Element(fault.factory, fault.contract._replace(name="other"))
    app = Pipeline(fault(error=Oops, when=lambda request: False), errors(), other(error=HTTPConflict), end(seen=[]))
    assert ask(app).status_int == 409


# The ledger


class Database:
    """Stores what it is sent, or does what it should not."""

    def __init__(self, *bugs: str) -> None:
        self.bugs = bugs
        self.stored: list[str] = []

    def write(self, ledger: Ledger, outcome: str) -> None:
        id = ledger.send()
        if outcome == "fails":
            if "stores what failed" in self.bugs:
                self.stored.append(id)
            ledger.answered(id, 503)
            return
        if outcome == "cut":
            self.stored += [id] * (len(self.stored) % 2)
            ledger.answered(id, 0)
            return
        if "loses" not in self.bugs:
            self.stored.append(id)
        if "stores twice" in self.bugs:
            self.stored.append(id)
        ledger.answered(id, 200)


def judged(*bugs: str, stored: Any = list) -> list[str]:
    database, ledger = Database(*bugs), Ledger()
    for number in range(30):
        database.write(ledger, ("stores", "fails", "cut")[number % 3])
    if "invents" in bugs:
        database.stored.append("nobody sent this")
    return ledger.judge(stored(database.stored))


def test_nothing_is_wrong_where_nothing_is() -> None:
    assert judged() == []


@pytest.mark.parametrize(
    ("bug", "finding", "times"),
    [
        ("loses", "was acknowledged and is not stored", 10),
        ("stores what failed", "failed and is stored", 10),
        ("stores twice", ", acknowledged, is stored 2 times", 10),
        ("invents", "nobody sent this was never sent and is stored", 1),
    ],
)
@pytest.mark.parametrize("stored", [list, tuple, iter, Counter])
def test_every_loss_is_found(bug: str, finding: str, times: int, stored: Any) -> None:
    problems = judged(bug, stored=stored)
    assert len(problems) == times
    assert all(problem.endswith(finding) for problem in problems)


@pytest.mark.parametrize(
    ("status", "outcome", "state"),
    [
        (200, "", "acknowledged"),
        (303, "", "acknowledged"),
        (400, "", "failed"),
        (500, "", "failed"),
        (503, "", "failed"),
        (500, "unknown", "unknown"),
        (500, "committed", "acknowledged"),
        (0, "", "unknown"),
    ],
)
def test_what_an_answer_says(status: int, outcome: str, state: str) -> None:
    ledger = Ledger()
    id = ledger.send()
    ledger.answered(id, status, outcome)
    assert ledger.states == {id: state}
    assert ledger.counts() == {state: 1}


@pytest.mark.parametrize("times", [0, 1])
@pytest.mark.parametrize("enter", [Ledger.unknown, lambda ledger, id: None])
def test_what_is_unknown_may_be_stored_or_not_but_not_twice(enter: Any, times: int) -> None:
    ledger = Ledger()
    ledger.sent("a")
    enter(ledger, "a")
    assert ledger.judge({"a": times}) == []
    assert len(ledger.judge({"a": 2})) == 1


def test_what_was_never_stored_may_be_in_the_database_as_none() -> None:
    stored: Mapping[str, int] | Iterable[str] = {"a": 0, "b": 0}
    ledger = Ledger()
    ledger.sent("a")
    ledger.failed("a")
    assert ledger.judge(stored) == []


def test_entries_are_made_once_and_in_order() -> None:
    ledger = Ledger()
    with pytest.raises(ValueError, match="a is acknowledged, but it was never sent"):
        ledger.acknowledged("a")
    ledger.sent("a")
    ledger.acknowledged("a")
    with pytest.raises(ValueError, match="a is failed, but it was acknowledged"):
        ledger.failed("a")
    with pytest.raises(ValueError, match="a was sent before"):
        ledger.sent("a")


def test_it_is_kept_by_many_threads() -> None:
    ledger = Ledger()
    stored: list[str] = []

    def work() -> None:
        for _ in range(500):
            id = ledger.send()
            stored.append(id)
            ledger.acknowledged(id)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.counts() == {"acknowledged": 4000}
    assert ledger.judge(stored) == []
