"""``request.after_commit``: called once if and when the changes of the request are stored."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from transaction.interfaces import TransientError
from webob.exc import HTTPConflict, HTTPFound

from around_a_view import ask, end
from pipeline import Pipeline, Response
from pipeline.composition import Offers, element
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.sql import sql
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import close_all, zodb
from pipeline.interfaces import Handler, ReadOnlyTransaction

Change = Callable[[Any, Response], None]


def changes_zodb(request: Any) -> None:
    request.root["number"] = request.root.get("number", 0) + 1


def changes_sql(request: Any) -> None:
    request.sql.execute(text("insert into numbers values (1)"))


def answered(view: Change) -> Any:
    """The end of a pipeline whose view sets the response."""

    def complete(request: Any, response: Response) -> Any:
        view(request, response)
        return response.app_iter

    return end(view=complete)


def changes_nothing(request: Any) -> None:
    assert request.tm.get()


def fine(request: Any, response: Response) -> None:
    response.text = "stored"


def raises(error: BaseException) -> Change:
    def change(request: Any, response: Response) -> None:
        raise error

    return change


def status(code: str, **fields: Any) -> Change:
    def change(request: Any, response: Response) -> None:
        response.status = code
        vars(request).update(fields)

    return change


def fails_twice(request: Any, response: Response) -> None:
    if request.attempt < 3:
        raise TransientError("another request was faster")


def conflict_at_commit(request: Any, response: Response) -> None:
    if request.attempt < 3:
        request.tm.get().addBeforeCommitHook(raises(TransientError("at the commit")), (None, response))


def commits_and_fails(request: Any, response: Response) -> None:
    request.tm.commit()
    raise KeyError("x")


ENDS: dict[str, tuple[Change, int]] = {
    "200": (fine, 1),
    "a redirect": (raises(HTTPFound(location="/")), 1),
    "303": (status("303 See Other"), 1),
    "400": (status("400 Bad Request"), 0),
    "a raised 409": (raises(HTTPConflict()), 0),
    "commit_on_error": (status("409 Conflict", commit_on_error=True), 1),
    "an error": (raises(KeyError("x")), 0),
    "doom": (lambda request, response: request.tm.doom(), 0),
    "abort": (lambda request, response: request.tm.abort(), 0),
    "a commit by the view": (lambda request, response: request.tm.commit(), 1),
    "an error after a commit by the view": (commits_and_fails, 1),
    "two conflicts": (fails_twice, 1),
    "two conflicts at the commit": (conflict_at_commit, 1),
    "the last attempt fails": (raises(TransientError("always")), 0),
}


@pytest.fixture(autouse=True)
def databases() -> Iterator[None]:
    yield
    close_all()


def site(view: Change, tmp_path: Path, *outer: Any) -> Pipeline:
    url = f"sqlite:///{tmp_path / 'numbers.sqlite'}"
    databases = (zodb(uri="memory://after"), sql(url=url))
    return Pipeline(*outer, retry(delay=0, attempts=5), *databases, errors(), transaction(), answered(view))


@pytest.mark.parametrize("change", [changes_zodb, changes_sql, changes_nothing])
@pytest.mark.parametrize("name", ENDS)
def test_it_is_called_once_if_it_is_stored(name: str, change: Callable[[Any], None], tmp_path: Path) -> None:
    ending, times = ENDS[name]
    called: list[object] = []
    seen: list[object] = []

    def view(request: Any, response: Response) -> None:
        if request.path == "/look":
            rows = request.sql.execute(text("select count(*) from numbers")).scalar()
            response.text = str(request.root.get("number", 0) + rows)
            return
        if request.path == "/make":
            request.sql.execute(text("create table numbers (number integer)"))
            return
        change(request)
        request.after_commit(called.append, request.attempt)
        request.after_commit(lambda: seen.append(ask(app, "/look").text))
        ending(request, response)

    app = site(view, tmp_path)
    assert ask(app, "/make").status_int == 200
    ask(app, "/")
    stored = 0 if change is changes_nothing else times
    assert ask(app, "/look").text == str(stored)
    assert called == [3 if "two" in name else 1] * times
    assert seen == [str(stored)] * times, "another request sees what is stored"


@pytest.mark.parametrize("change", [changes_zodb, changes_nothing])
def test_a_request_that_has_called_it_is_not_tried_again__R2a(
    change: Callable[[Any], None], tmp_path: Path
) -> None:
    """Also if nothing was stored: the mail is sent."""
    called: list[int] = []

    @element
    def fails_late(next: Handler) -> Handler:
        def fails_late(request: Any, response: Response) -> None:
            next(request, response)
            raise TransientError

        return fails_late

    def view(request: Any, response: Response) -> None:
        change(request)
        request.after_commit(called.append, request.attempt)

    databases = (retry(delay=0, attempts=5), zodb(uri="memory://after"))
    app = Pipeline(*databases, errors(), fails_late(), transaction(), answered(view))
    assert ask(app).status_int >= 500
    assert called == [1]


@pytest.mark.parametrize("change", [changes_zodb, changes_sql])
def test_a_failure_is_told_and_the_answer_stays(
    change: Callable[[Any], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from pipeline.elements.timing import timing
    from pipeline.measuring.metrics import ERRORS

    told: list[Any] = []
    called: list[int] = []

    def view(request: Any, response: Response) -> None:
        if request.path == "/make":
            request.sql.execute(text("create table numbers (number integer)"))
            return
        request.reporter = lambda request, error, id: told.append(error)
        change(request)
        request.after_commit(int, "no number")
        request.after_commit(called.append, 1)
        response.text = "stored"

    def counted() -> float:
        return float(ERRORS.labels("-", "ValueError")._value.get())

    app = site(view, tmp_path, timing(metrics=True))
    ask(app, "/make")
    before = counted()
    answer = ask(app, "/")
    assert (answer.status_int, answer.text, called, counted() - before) == (200, "stored", [1], 1)
    assert [type(error) for error in told] == [ValueError]
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "POST /, after the commit, in <class 'int'>: ValueError" in record.getMessage()
    assert "no number" in str(record.exc_text)


def test_a_change_in_it_is_refused_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def view(request: Any, response: Response) -> None:
        if request.path == "/look":
            response.text = str(request.root.get("late", 0))
            return
        changes_zodb(request)
        request.after_commit(request.root.update, {"late": 1})

    app = site(view, tmp_path)
    assert ask(app, "/").status_int == 200
    assert "after the commit" in caplog.text
    assert ask(app, "/look").text == "0"


def test_there_is_no_call_where_nothing_can_be_stored(tmp_path: Path) -> None:
    refused: list[type] = []

    def late(request: Any) -> Iterator[bytes]:
        with pytest.raises(ReadOnlyTransaction) as caught:
            request.after_commit(refused.append, None)
        refused.append(caught.type)
        yield b"streamed"

    def view(request: Any, response: Response) -> None:
        changes_zodb(request)
        response.app_iter = late(request)

    assert ask(site(view, tmp_path), "/").body == b"streamed"
    assert refused == [ReadOnlyTransaction]


async def sends_later(*all: Any) -> None: ...


def sends_in_parts(*all: Any) -> Iterator[None]:
    yield


@pytest.mark.parametrize("function", [None, sends_later, sends_in_parts, lambda: None, lambda one, two: None])
def test_what_a_call_would_not_run_is_refused_before_anything_is_stored(function: Any, tmp_path: Path) -> None:
    """A mail that is never sent was a 200."""

    def view(request: Any, response: Response) -> None:
        changes_zodb(request)
        request.after_commit(function, 1)

    app = site(view, tmp_path)
    assert ask(app, "/").status_int == 500
    assert ask(site(show, tmp_path), "/").text == "None"


def show(request: Any, response: Response) -> None:
    response.text = str(request.root.get("number"))


@element(requires=("database",))
def reads(next: Handler) -> Offers:
    """A pipeline without ``transaction``."""

    def reads(request: Any, response: Response) -> None:
        assert not hasattr(request, "after_commit")
        next(request, response)

    return Offers(reads)


def test_a_pipeline_that_commits_nothing_has_it_not() -> None:
    assert ask(Pipeline(zodb(uri="memory://after"), errors(), reads(), answered(fine)), "/").text == "stored"


def test_the_error_of_a_job_in_a_pool_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Its future is in no one's hands."""

    def work(name: str) -> int:
        return len(name) // (name != "wrong")

    def view(request: Any, response: Response) -> None:
        request.after_commit(pool.submit, work, "right")
        request.after_commit(pool.submit, work, "wrong")
        fine(request, response)

    with ThreadPoolExecutor(1) as pool:
        app = Pipeline(retry(delay=0), zodb(uri="memory://jobs"), errors(), transaction(), answered(view))
        assert ask(app).text == "stored"
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "after the commit" in record.getMessage() and "ZeroDivisionError" in record.getMessage()
    assert f"{__file__}\", line " in str(record.exc_text)
