"""``transaction``: when it commits, when it aborts, and what becomes of an error in between (R1, R3 to R6)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import webob
from transaction import TransactionManager
from transaction.interfaces import TransientError
from webob.exc import HTTPBadRequest, HTTPConflict, HTTPFound, HTTPNotFound

from around_a_view import View, ask, end
from pipeline import Pipeline, Request, Response, element
from pipeline.composition import Offers
from pipeline.database import transactions
from pipeline.elements import transaction as module
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import close_all, zodb
from pipeline.interfaces import CommitUncertain, ReadOnlyTransaction
from pipeline.testing import FakeDataManager


class Oops(Exception):
    pass


@pytest.fixture(autouse=True)
def databases() -> Iterator[None]:
    yield
    close_all()


class Site:
    """A pipeline around a view that joins data managers; ``stored`` is what was committed."""

    def __init__(self, *outer: Any, veto: Any = None, **fails: Any) -> None:
        self.stored: list[Any] = []
        self.managers: list[FakeDataManager] = []
        self.fails = fails
        self.outer = outer
        self.veto = veto

    def join(self, request: Request, value: Any = "value", **options: Any) -> FakeDataManager:
        options = {"fails": self.fails, **options}
        self.managers.append(FakeDataManager(request.tm, self.stored, value, **options))
        return self.managers[-1].join()

    def app(self, view: View) -> Pipeline:
        return Pipeline(*self.outer, transaction(veto=self.veto), end(view=view))


# When it commits (R3)


def status(code: str) -> View:
    def view(request: Request, response: Response) -> None:
        response.status = code

    return view


def raising(error: BaseException) -> View:
    def view(request: Request, response: Response) -> None:
        raise error

    return view


def doom(request: Request, response: Response) -> None:
    request.tm.doom()


def commit_on_error(request: Request, response: Response) -> None:
    request.commit_on_error = True
    response.status = "404 Not Found"


def commit_and_raise(request: Request, response: Response) -> None:
    request.commit_on_error = True
    raise HTTPBadRequest("entered in the book of attempts")


@pytest.mark.parametrize(
    ("view", "answer", "stored"),
    [
        (status("200 OK"), 200, True),
        (status("302 Found"), 302, True),
        (status("399 Odd"), 399, True),
        (status("400 Bad Request"), 400, False),
        (status("404 Not Found"), 404, False),
        (status("500 Internal Server Error"), 500, False),
        (status("599 Odd"), 599, False),
        (raising(Oops()), 500, False),
        (raising(HTTPNotFound()), 404, False),
        (raising(HTTPFound(location="/there")), 302, True),
        (doom, 200, False),
        (commit_on_error, 404, True),
        (commit_and_raise, 400, True),
    ],
)
def test_r3_what_commits(view: View, answer: int, stored: bool) -> None:
    site = Site(errors())

    def work(request: Request, response: Response) -> None:
        site.join(request)
        view(request, response)

    assert ask(site.app(work)).status_int == answer
    assert bool(site.stored) is stored
    assert ("abort" in site.managers[0].steps) is not stored


def test_it_is_committed_when_the_view_has_answered_and_before_anything_is_sent() -> None:
    """R1."""
    site = Site()
    seen = []

    def view(request: Request, response: Response) -> None:
        site.join(request)
        seen.append(list(site.stored))

    def start_response(status: str, headers: Any, exc_info: Any = None) -> Any:
        seen.append(list(site.stored))

    body = site.app(view)(webob.Request.blank("/").environ, start_response)
    assert list(body) == [b"done"]
    assert seen == [[], ["value"]]


def test_a_streamed_body_is_sent_after_the_commit() -> None:
    """R1."""
    site = Site()
    seen = []

    def view(request: Request, response: Response) -> Iterator[bytes]:
        site.join(request)

        def body() -> Iterator[bytes]:
            seen.append(list(site.stored))
            yield b"a block"

        return body()

    assert ask(site.app(view)).body == b"a block"
    assert seen == [["value"]]


@pytest.mark.parametrize("vetoed", [False, True])
def test_a_veto(vetoed: bool) -> None:
    asked = []

    def veto(request: Request, response: Any) -> bool:
        asked.append((request.path, response.status_int))
        return vetoed

    site = Site(veto=veto)

    def view(request: Request, response: Response) -> None:
        site.join(request)
        response.status = 201

    assert ask(site.app(view), "/thing").status_int == 201
    assert asked == [("/thing", 201)]
    assert bool(site.stored) is not vetoed


def test_a_veto_is_asked_only_when_all_else_is_well() -> None:
    site = Site(errors(), veto=lambda request, response: pytest.fail("asked"))

    def view(request: Request, response: Response) -> None:
        site.join(request)
        response.status = 404

    assert ask(site.app(view)).status_int == 404


def test_a_veto_that_fails_aborts() -> None:
    def veto(request: Request, response: Any) -> bool:
        raise Oops

    site = Site(errors(), veto=veto)
    assert ask(site.app(lambda request, response: site.join(request) and None)).status_int == 500
    assert site.stored == []


def test_without_a_transaction_nothing_is_done() -> None:
    site = Site(veto=lambda request, response: pytest.fail("asked"))
    held = []

    def view(request: Request, response: Response) -> None:
        held.append(request)

    assert ask(site.app(view)).status_int == 200
    assert held[0].tm_in_use is None


def test_a_view_may_commit_by_itself() -> None:
    site = Site()

    def view(request: Request, response: Response) -> None:
        site.join(request, "first")
        request.tm.commit()
        with request.tm:
            site.join(request, "second")

    assert ask(site.app(view)).status_int == 200
    assert site.stored == ["first", "second"]


def test_a_transaction_manager_that_was_put_on_the_request_is_committed() -> None:
    """By whatever way it came there: a transaction that is not noticed would be lost without a word."""
    site = Site()

    @element
    def other(next: Any) -> Any:
        """Provides a manager of its own, without an opener."""

        def other(request: Request, response: Response) -> None:
            request.tm = TransactionManager(explicit=True)
            request.tm.begin()
            next(request, response)

        return other

    site.outer = (other(),)
    assert ask(site.app(lambda request, response: site.join(request) and None)).status_int == 200
    assert site.stored == ["value"]


def test_r8_what_comes_after_the_transaction_can_only_read() -> None:
    @element
    def late(next: Any) -> Any:
        """Joins a data manager when all is over."""

        def late(request: Request, response: Response) -> None:
            next(request, response)
            with pytest.raises(ReadOnlyTransaction, match="only reads"):
                site.join(request)

        return late

    site = Site(late())
    for view in (lambda request, response: request.tm and None, lambda request, response: None):
        assert ask(site.app(view)).status_int == 200
    assert site.stored == []


@pytest.mark.parametrize("answer", ["returned", "raised"])
@pytest.mark.parametrize("by", ["the view", "transaction"])
def test_r4_an_answer_from_400_on_says_that_something_was_stored(answer: str, by: str) -> None:
    """A program that reads the status alone would send it again."""

    def view(request: Request, response: Response) -> None:
        site.join(request)
        if by == "the view":
            request.tm.commit()
        else:
            request.commit_on_error = True
        if answer == "raised":
            raise HTTPConflict
        response.status = "409 Conflict"

    site = Site(errors())
    told = ask(site.app(view))
    assert (told.status_int, told.headers.getall("X-Outcome")) == (409, ["committed"])
    assert site.stored == ["value"]


def test_hooks_before_and_after_the_commit() -> None:
    seen: list[Any] = []

    def view(request: Request, response: Response) -> None:
        request.tm.get().addBeforeCommitHook(seen.append, ("before",))
        request.tm.get().addAfterCommitHook(lambda done: seen.append(done))

    assert ask(Site().app(view)).status_int == 200
    assert seen == ["before", True]


@pytest.mark.parametrize("joins", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_hooks_of_an_abort_wait_for_one(joins: bool, fails: bool) -> None:
    """A file that an abort removes stays if the request succeeds, also if nothing else has joined."""
    seen: list[str] = []
    site = Site(errors())

    def view(request: Request, response: Response) -> None:
        if joins:
            site.join(request)
        request.tm.get().addBeforeAbortHook(seen.append, ("before",))
        request.tm.get().addAfterAbortHook(seen.append, ("after",))
        if fails:
            raise Oops

    assert ask(site.app(view)).status_int == (500 if fails else 200)
    assert seen == (["before", "after"] if fails else [])


def test_a_hook_that_fails_before_the_commit_aborts() -> None:
    site = Site(errors())

    def view(request: Request, response: Response) -> None:
        site.join(request)
        request.tm.get().addBeforeCommitHook(raising(Oops()), (None, None))

    assert ask(site.app(view)).status_int == 500
    assert site.stored == []


class Late:
    """A synchronizer that stores what it has gathered when the transaction ends, as an index does."""

    def __init__(self, write: Any) -> None:
        self.write = write

    def newTransaction(self, transaction: Any) -> None:
        pass

    def beforeCompletion(self, transaction: Any) -> None:
        self.write()

    def afterCompletion(self, transaction: Any) -> None:
        pass


@pytest.mark.parametrize(("status", "stored"), [("200 OK", ["late"]), ("409 Conflict", [])])
def test_what_a_synchronizer_joins_before_the_end_is_committed(status: str, stored: list[str]) -> None:
    """Also where nothing else has joined: it was aborted, under an answer that says that all is well."""
    kept: list[Late] = []

    def view(request: Request, response: Response) -> None:
        kept.append(Late(lambda: site.join(request, "late")))
        request.tm.registerSynch(kept[0])
        response.status = status

    site = Site(errors())
    assert ask(site.app(view)).status == int(status[:3])
    assert site.stored == stored


@pytest.mark.parametrize("answer", ["returned", "raised"])
@pytest.mark.parametrize("tries", [1, 2])
def test_changes_that_another_thread_has_aborted_are_no_success(answer: str, tries: int, tmp_path: Path) -> None:
    """It closes the database at the end of the process, or after a commit that could not be finished."""

    def view(request: Request, response: Response) -> None:
        request.root["visits"] = request.root.get("visits", 0) + 1
        if request.attempt == 1:
            thread = Thread(target=close_all)
            thread.start()
            thread.join()
        if answer == "raised":
            raise HTTPFound(location="/thanks")

    uri = f"file://{tmp_path}/Data.fs"
    app = Pipeline(retry(delay=0, attempts=tries), zodb(uri=uri), errors(), transaction(), end(view=view))
    done = 200 if answer == "returned" else 302
    assert ask(app).status == (503 if tries == 1 else done)
    visits: list[int] = []
    look = Pipeline(zodb(uri=uri), end(view=lambda request, response: visits.append(len(request.root))))
    assert (ask(look).status, visits) == (200, [tries - 1])


# What it is annotated with


def annotation(path: str, method: str = "POST", user: str | None = None, own: str = "") -> tuple[str, str]:
    """What a database keeps with the transaction of a request: user and description."""
    seen: list[tuple[str, str]] = []

    class Observer(FakeDataManager):
        def tpc_begin(self, transaction: Any) -> None:
            seen.append((transaction.user, transaction.description))

    def view(request: Request, response: Response) -> None:
        request.principal = user
        if own:
            request.tm.get().note(own)
        Observer(request.tm).join()

    ask(Pipeline(transaction(), end(view=view)), path, method)
    return seen[0]


def test_the_transaction_is_annotated() -> None:
    assert annotation("/a/b", user="fritz") == ("fritz", "POST /a/b")
    assert annotation("/a/b") == ("", "POST /a/b")
    assert annotation("/a", own="imports the list") == ("", "imports the list\nPOST /a")


@pytest.mark.parametrize(
    ("path", "user", "expected"),
    [
        ("/%00%0a%ff", "a\nb\0", ("a?b?", "POST /%00%0A%FF")),
        ("/x", "\udcff", ("?", "POST /x")),
        ("/" + 70_000 * "x", 70_000 * "ü", (200 * "ü", "POST /" + 994 * "x")),
    ],
    ids=["control characters", "surrogates", "long"],
)
def test_the_annotation_fits_into_every_database(path: str, user: str, expected: tuple[str, str]) -> None:
    """Some have room for 65,535 bytes of each, and none takes a lone surrogate."""
    assert annotation(path, user=user) == expected


def test_an_annotation_of_any_length_can_be_stored() -> None:
    def view(request: Request, response: Response) -> None:
        request.principal = 70_000 * "\udcff"
        request.root["changed"] = True

    app = Pipeline(zodb(uri="memory://test_annotation"), transaction(), end(view=view))
    assert ask(app, "/" + 70_000 * "x").status_int == 200


# A commit that fails


@pytest.mark.parametrize("step", ["join", "tpc_begin", "commit", "tpc_vote", "tpc_finish"])
def test_a_commit_that_fails_stores_nothing_and_is_an_error(step: str) -> None:
    site = Site(errors(), **{step: Oops})
    answer = ask(site.app(lambda request, response: site.join(request) and None))
    assert answer.status_int == 500
    assert site.stored == []
    assert "done" not in answer.text


@pytest.mark.parametrize("step", ["tpc_begin", "commit", "tpc_vote"])
def test_a_commit_that_fails_reaches_the_outer_elements_as_it_is(step: str) -> None:
    error = Oops()
    site = Site(**{step: error})
    caught: list[Any] = []
    site.outer = (catching(caught),)
    ask(site.app(lambda request, response: site.join(request) and None))
    assert caught == [error]


def catching(caught: list[Any]) -> Any:
    @element
    def catcher(next: Any) -> Any:
        """Keeps what is raised."""

        def catcher(request: Request, response: Response) -> None:
            try:
                next(request, response)
            except Exception as error:
                caught.append(error)
                response.app_iter = []

        return catcher

    return catcher()


def test_r4_a_commit_that_fails_when_all_had_voted_is_uncertain() -> None:
    """It is not tried again, whatever the error is, and the answer says that nobody knows."""
    attempts = []
    site = Site(retry(attempts=5, delay=0), errors(), tpc_finish=TransientError)

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        site.join(request, "first", key="a", fails={})
        site.join(request, "second", key="b", retry=True)

    answer = ask(site.app(view))
    assert answer.status_int == 500
    assert answer.headers["X-Outcome"] == "unknown"
    assert "It is not known whether" in answer.text
    assert attempts == [1]
    assert site.stored == ["first"], "which is why"


def test_r4_control_an_error_before_that_is_tried_again() -> None:
    attempts = []
    site = Site(retry(attempts=5, delay=0), errors(), tpc_vote=TransientError)

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        site.join(request)

    answer = ask(site.app(view))
    assert answer.status_int == 503
    assert answer.headers["Retry-After"] == "1"
    assert "X-Outcome" not in answer.headers
    assert attempts == [1, 2, 3, 4, 5]


def test_a_hook_that_fails_before_the_commit_with_nothing_joined_leaves_no_doubt() -> None:
    """R4 is about commits that have begun: here none has, so the answer does not say "unknown"."""

    def view(request: Request, response: Response) -> None:
        request.tm.get().addBeforeCommitHook(raising(Oops()), (None, None))

    answer = ask(Site(errors()).app(view))
    assert (answer.status_int, answer.headers.get("X-Outcome")) == (500, None)


@pytest.mark.parametrize("joins", [False, True])
def test_r2_a_conflict_in_a_hook_before_the_commit_is_tried_again(joins: bool) -> None:
    site = Site(retry(attempts=5, delay=0), errors())
    attempts = []

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        if joins:
            site.join(request)
        if len(attempts) < 3:
            request.tm.get().addBeforeCommitHook(raising(TransientError()), (None, None))

    assert ask(site.app(view)).status_int == 200
    assert attempts == [1, 2, 3]
    assert site.stored == (["value"] if joins else [])


def commit_the_manager(request: Request) -> None:
    request.tm.commit()
    request.tm.begin()


def commit_the_transaction(request: Request) -> None:
    request.tm.get().commit()
    request.tm.begin()


def commit_in_a_block(request: Request) -> None:
    request.tm.commit()
    with request.tm:
        pass
    request.tm.begin()


@pytest.mark.parametrize("commit", [commit_the_manager, commit_the_transaction, commit_in_a_block])
@pytest.mark.parametrize("fails", ["in the view", "in the second commit"])
def test_r2a_a_view_that_has_committed_by_itself_is_not_run_again(
    commit: Callable[[Request], None], fails: str
) -> None:
    """It would be stored twice. The answer says that something is stored."""
    site = Site(retry(attempts=5, delay=0), errors())

    def view(request: Request, response: Response) -> None:
        site.join(request, "first")
        commit(request)
        site.join(request, "second", fails={"tpc_vote": TransientError} if fails == "in the second commit" else {})
        if fails == "in the view":
            raise TransientError

    answer = ask(site.app(view))
    assert site.stored == ["first"]
    assert (answer.status_int, answer.headers["X-Outcome"]) == (500, "committed")


def test_r2a_nor_is_one_that_commits_where_there_is_no_transaction_element() -> None:
    stored: list[str] = []

    @element(provides=("database",))
    def provider(next: Any) -> Any:
        """Provides a transaction manager."""

        def provider(request: Request, response: Response) -> None:
            request.tm = transactions.Manager()
            request.tm.begin()
            next(request, response)

        return provider

    def view(request: Request, response: Response) -> None:
        FakeDataManager(request.tm, stored, "value").join()
        request.tm.commit()
        raise TransientError

    ask(Pipeline(retry(attempts=5, delay=0), provider(), end(view=view)))
    assert stored == ["value"]


def test_r2a_nor_is_one_that_commits_by_a_connection_of_its_own(tmp_path: Path) -> None:
    attempts: list[int] = []

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        with request.zodb.db().transaction() as connection:
            connection.root()[f"visit {request.attempt}"] = 1
        raise TransientError

    database = zodb(uri=f"file://{tmp_path}/Data.fs")
    answer = ask(Pipeline(retry(delay=0, attempts=3), database, errors(), transaction(), end(view=view)))
    assert (attempts, answer.headers.getall("X-Outcome")) == ([1], ["committed"])


def test_r2a_a_view_that_has_ended_a_transaction_without_changes_is_run_again() -> None:
    site = Site(retry(attempts=5, delay=0), errors())
    attempts = []

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        commit_the_manager(request)
        site.join(request)
        if len(attempts) < 3:
            raise TransientError

    assert ask(site.app(view)).status_int == 200
    assert (attempts, site.stored) == ([1, 2, 3], ["value"])


def test_r2a_what_one_request_has_committed_is_nothing_to_the_next() -> None:
    """They share the manager."""
    attempts = []

    def view(request: Request, response: Response) -> None:
        attempts.append((request.path, request.attempt))
        request.root["changed"] = len(attempts)
        if request.path == "/unlucky" and request.attempt < 3:
            raise TransientError

    app = Pipeline(
        retry(attempts=5, delay=0),
        zodb(uri="memory://test_shared_manager"),
        errors(),
        transaction(),
        end(view=view),
    )
    assert ask(app, "/").status_int == 200
    assert ask(app, "/unlucky").status_int == 200
    assert attempts == [("/", 1), ("/unlucky", 1), ("/unlucky", 2), ("/unlucky", 3)]


def test_r2a_what_a_hook_before_the_commit_joins_is_counted_too() -> None:
    """An element that fails after the commit: the request is not tried again."""
    attempts = []

    @element
    def late(next: Any) -> Any:
        """Fails when all is over."""

        def late(request: Request, response: Response) -> None:
            next(request, response)
            raise TransientError

        return late

    site = Site(retry(attempts=5, delay=0), errors(), late())

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        request.tm.get().addBeforeCommitHook(site.join, (request,))

    answer = ask(site.app(view))
    assert (attempts, site.stored, answer.headers["X-Outcome"]) == ([1], ["value"], "committed")


def test_r4_the_error_is_the_cause() -> None:
    error = Oops()
    caught: list[Any] = []
    site = Site(catching(caught), tpc_finish=error)
    ask(site.app(lambda request, response: site.join(request) and None))
    assert isinstance(caught[0], CommitUncertain)
    assert caught[0].__cause__ is error


def test_an_error_after_the_commit_is_not_tried_again_and_says_that_it_is_stored() -> None:
    """R2, R2a: an outer element that fails once all is stored."""
    attempts = []

    @element
    def late(next: Any) -> Any:
        """Fails when all is over."""

        def late(request: Request, response: Response) -> None:
            attempts.append(request.attempt)
            next(request, response)
            raise TransientError

        return late

    site = Site(retry(attempts=5, delay=0), errors(), late())
    answer = ask(site.app(lambda request, response: site.join(request) and None))
    assert attempts == [1]
    assert site.stored == ["value"]
    assert (answer.status_int, answer.headers["X-Outcome"]) == (500, "committed")


def test_a_data_manager_may_call_an_error_transient() -> None:
    site = Site(retry(attempts=3, delay=0), errors())
    attempts = []

    def view(request: Request, response: Response) -> None:
        attempts.append(request.attempt)
        site.join(request, retry=True)
        if len(attempts) < 3:
            raise Oops

    assert ask(site.app(view)).status_int == 200
    assert attempts == [1, 2, 3]
    assert site.stored == ["value"]


@pytest.mark.parametrize("step", ["abort", "tpc_abort"])
def test_r6_an_error_while_aborting_hides_no_other(step: str, caplog: Any) -> None:
    caught: list[Any] = []
    site = Site(catching(caught))
    other: list[Any] = []

    def view(request: Request, response: Response) -> None:
        site.join(request, fails={step: ValueError("while aborting"), "tpc_vote": Oops()}, key="a")
        other.append(site.join(request, fails={}, key="b"))
        if step == "abort":
            raise Oops

    with caplog.at_level(logging.CRITICAL, "txn"):
        ask(site.app(view))
    assert [type(error) for error in caught] == [Oops]
    assert {"abort", "tpc_abort"} & set(other[0].steps), "the other one is aborted all the same"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError])
def test_r5_it_is_aborted_whatever_interrupts_it(error: type[BaseException]) -> None:
    site = Site()

    def view(request: Request, response: Response) -> None:
        site.join(request)
        raise error

    app = site.app(view)
    if issubclass(error, Exception):
        assert ask(app).status_int == 500
    else:
        with pytest.raises(error):
            app(webob.Request.blank("/").environ, lambda *arguments: None)
    assert site.managers[0].steps == ["join", "abort"]
    assert site.stored == []


# Reading once it is over (R8)


def test_r8_a_data_manager_cannot_join_while_the_body_is_sent() -> None:
    site = Site()

    def view(request: Request, response: Response) -> Iterator[bytes]:
        request.tm  # noqa: B018

        def body() -> Iterator[bytes]:
            yield b"a block"
            site.join(request)

        return body()

    app = site.app(view)
    body = app(webob.Request.blank("/").environ, lambda *arguments: None)
    with pytest.raises(ReadOnlyTransaction, match=r"\(R8\)"):
        list(body)
    body.close()
    assert site.stored == []


def test_where_no_database_is_it_provides_the_transaction_manager() -> None:
    site = Site()
    managers = []

    def view(request: Request, response: Response) -> None:
        managers.append(request.tm)
        site.join(request)

    app = site.app(view)
    ask(app)
    ask(app)
    assert site.stored == ["value", "value"]
    assert managers[0] is not managers[1]


def test_what_reads_outside_of_it_has_a_transaction_that_only_reads() -> None:
    """And what is inside writes, in one of its own."""

    @element(inside={"errors": "it may fail"})
    def early(next: Any) -> Any:
        """Reads, and tries to write, before ``transaction`` is entered."""

        def early(request: Request, response: Response) -> None:
            assert "early" not in request.root
            next(request, response)

        return early

    def foreign(app: Any) -> Any:
        return lambda environ, start_response: app(environ, start_response)

    def view(request: Request, response: Response) -> None:
        request.root["late"] = True

    def look(request: Request, response: Response) -> Any:
        return [repr(sorted(request.root)).encode()]

    database = zodb(uri="memory://test_early")
    app = Pipeline(database, errors(), early(), foreign, Pipeline(transaction(), end(view=view)))
    assert ask(app).status_int == 200
    assert ask(Pipeline(database, end(view=look))).text == "['late']"


# Positive controls: with the bug, the tests above find it.


def test_control_the_commit_comes_after_sending(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(request: Request, *arguments: Any) -> None:
        request.on_close(request.tm.commit)

    monkeypatch.setattr(module, "_end", late)
    with pytest.raises(AssertionError):
        test_a_streamed_body_is_sent_after_the_commit()


@pytest.mark.parametrize(
    ("name", "bug", "test"),
    [
        (
            "_end",
            lambda request, response, tm, veto: tm.commit(),
            lambda: test_r3_what_commits(status("404 Not Found"), 404, False),
        ),
        (
            "is_uncertain",
            lambda transaction, error: False,
            lambda: test_r4_a_commit_that_fails_when_all_had_voted_is_uncertain(),
        ),
        (
            "abort_quietly",
            lambda tm: tm.abort(),
            lambda: test_r6_an_error_while_aborting_hides_no_other("abort", Quiet()),
        ),
        (
            "begin_to_read",
            lambda tm: tm.begin(),
            lambda: test_r8_a_data_manager_cannot_join_while_the_body_is_sent(),
        ),
    ],
    ids=["R3 not kept", "R4 not kept", "R6 not kept", "R8 not kept"],
)
def test_control(
    name: str, bug: Callable[..., Any], test: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, bug)
    monkeypatch.setattr(transactions, name, bug, raising=False)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        test()


class Quiet:
    """Stands for ``caplog``."""

    def at_level(self, *arguments: Any) -> Any:
        import contextlib

        return contextlib.nullcontext()


# The annotation of another element


def test_another_element_may_annotate() -> None:
    noted: list[str] = []

    def annotate(request: Request) -> None:
        request.tm.get().note("by another")
        noted.append(request.tm.get().description)

    @element(adds=module.TransactionRequest)
    def annotator(next: Any) -> Any:
        return Offers(next, annotate=annotate)

    def view(request: Request, response: Response) -> None:
        site.join(request)

    site = Site(annotator())
    assert ask(site.app(view)).status_int == 200
    assert noted == ["by another"]
    assert site.stored == ["value"]


@pytest.mark.parametrize("interrupt", [SystemExit, KeyboardInterrupt])
def test_r6_a_data_manager_is_told_of_the_end_also_if_another_is_interrupted(
    interrupt: type[BaseException],
) -> None:
    """Otherwise it would keep its locks."""
    joined: list[FakeDataManager] = []

    def view(request: Request, response: Response) -> None:
        fails = {"tpc_vote": ValueError, "abort": interrupt}
        joined.append(FakeDataManager(request.tm, fails=fails, key="1").join())
        joined.append(FakeDataManager(request.tm, key="2").join())

    with pytest.raises(interrupt):
        ask(Pipeline(transaction(), end(view=view)))
    assert "abort" in joined[1].steps
    assert joined[1].steps[-1] in ("tpc_abort", "abort")
    assert "tpc_abort" in joined[0].steps
    assert "tpc_abort" in joined[1].steps
