"""Applications of other frameworks use the request and the transaction of the pipeline (see examples/mount)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import count, pairwise, product
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import webob
from sqlalchemy import text
from transaction import TransactionManager
from transaction import manager as of_thread
from transaction.interfaces import TransientError

from around_a_view import end
from asking import ask, environ_of
from pipeline import Pipeline, view
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.sql import sql
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import zodb
from pipeline.mounting import commits_itself, manager_of, repeatable, request_of
from pipeline.publisher import publisher
from pipeline.testing import FakeDataManager
from pipeline.tools.command import main


def mounted(stored: list[str], status: int = 200) -> Any:
    """An application of another framework that stores a value in the transaction of its request."""

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        request = webob.Request(environ)
        assert manager_of(request) is request_of(environ).tm
        assert commits_itself(request) is False
        FakeDataManager(manager_of(request), stored, "a value").join()
        return webob.Response(status=status)(environ, start_response)

    return app


def copying(app: Any) -> Any:
    return lambda environ, start_response: app({**environ}, start_response)


@pytest.mark.parametrize("between", [(), (copying,)])
@pytest.mark.parametrize(("status", "expected"), [(200, ["a value"]), (409, [])])
def test_the_pipeline_commits_what_an_app_stores__R3(between: Any, status: int, expected: list[str]) -> None:
    stored: list[str] = []
    assert ask(Pipeline(transaction(), *between, mounted(stored, status)), "/", "POST").status == status
    assert stored == expected


def test_an_application_that_runs_alone_commits_by_itself() -> None:
    request = webob.Request.blank("/")
    assert commits_itself(request) is True
    manager = manager_of(request)
    assert isinstance(manager, TransactionManager) and manager.explicit


def test_a_pipeline_without_transaction_does_not_commit() -> None:
    seen: list[bool] = []

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        seen.append(commits_itself(webob.Request(environ)))
        return webob.Response()(environ, start_response)

    ask(Pipeline(app))
    assert seen == [True]


@pytest.mark.parametrize("environ", [{}, {"pipeline.request": "another"}])
def test_outside_of_a_pipeline_there_is_no_request(environ: dict[str, Any]) -> None:
    with pytest.raises(LookupError, match="the environ has no request of a pipeline"):
        request_of(environ)


@pytest.mark.parametrize("parts", [(transaction(),), ()])
def test_an_application_with_a_manager_of_its_own_commits_by_itself(parts: Any) -> None:
    """As one that is given the second setting of pyramid_tm without the first."""
    seen: list[bool] = []

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        request = webob.Request(environ)
        request.tm = TransactionManager()
        seen.append(commits_itself(request))
        return webob.Response()(environ, start_response)

    ask(Pipeline(*parts, app))
    assert seen == [True]


# -- No change is lost without an error ----------------------------------------------------------------------------

Act = Callable[[Any, FakeDataManager], object]
numbers = count()


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Each test begins and ends with a thread in which no transaction is open."""
    of_thread.abort()
    yield
    assert of_thread.manager._txn is None


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """Return the errors in the log."""
    caplog.set_level(logging.ERROR)
    return lambda: " ".join(repr(record.exc_info[1]) for record in caplog.records if record.exc_info)


class Application:
    """An application that joins one of two transactions and ends it, or leaves it open."""

    def __init__(self, act: Act, status: str = "200 OK", in_thread: bool = True) -> None:
        self.act, self.status, self.in_thread = act, status, in_thread
        self.stored: list[str] = []
        self.managers: list[FakeDataManager] = []

    def __repr__(self) -> str:
        return "<the shop>"

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        tm = of_thread if self.in_thread else request_of(environ).tm
        manager = FakeDataManager(tm, self.stored, "a value")
        self.managers.append(manager)
        self.act(tm, manager)
        start_response(self.status, [("Content-Type", "text/plain")])
        return [b"answered"]


def leaves_it(tm: Any, manager: FakeDataManager) -> None:
    manager.join()


def commits(tm: Any, manager: FakeDataManager) -> None:
    manager.join()
    tm.commit()


def aborts(tm: Any, manager: FakeDataManager) -> None:
    manager.join()
    tm.abort()


def fails(tm: Any, manager: FakeDataManager) -> None:
    manager.join()
    raise ZeroDivisionError


def dooms(tm: Any, manager: FakeDataManager) -> None:
    manager.join()
    tm.doom()


def swallows_a_failed_commit(tm: Any, manager: FakeDataManager) -> None:
    manager.fails["tpc_vote"] = ValueError
    manager.join()
    with pytest.raises(ValueError):
        tm.commit()
    tm.abort()


def aborts_and_writes_again(tm: Any, manager: FakeDataManager) -> None:
    aborts(tm, manager)
    tm.begin()
    manager.join()


def commits_and_aborts_the_rest(tm: Any, manager: FakeDataManager) -> None:
    commits(tm, manager)
    tm.begin()
    aborts(tm, manager)


def aborts_and_commits_what_is_left(tm: Any, manager: FakeDataManager) -> None:
    aborts(tm, manager)
    tm.begin()
    commits(tm, manager)


def aborts_nothing(tm: Any, manager: FakeDataManager) -> None:
    tm.abort()


def looks_and_aborts(tm: Any, manager: FakeDataManager) -> None:
    tm.get().note("a look")
    tm.abort()


def commits_nothing(tm: Any, manager: FakeDataManager) -> None:
    tm.commit()


def begins(tm: Any, manager: FakeDataManager) -> None:
    tm.get()


LEFT = "but it left a transaction of its thread open"
ABORTED = "but it aborted the transaction of the pipeline"

IN_THE_THREAD: list[tuple[Act, str, int, list[str], str]] = [
    (leaves_it, "200 OK", 500, [], LEFT),
    (leaves_it, "303 See Other", 500, [], LEFT),
    (leaves_it, "409 Conflict", 409, [], ""),
    (leaves_it, "500 Internal Server Error", 500, [], ""),
    (aborts_and_writes_again, "200 OK", 500, [], LEFT),
    (fails, "", 500, [], "ZeroDivisionError()"),
    (commits, "200 OK", 200, ["a value"], ""),
    (aborts, "200 OK", 200, [], ""),
    (begins, "200 OK", 200, [], ""),
]
"""What an application does with the transaction of its thread, its answer, the status that the client gets, what is
stored, and what is logged."""

IN_THE_PIPELINE: list[tuple[Act, str, int, list[str], str]] = [
    (leaves_it, "200 OK", 200, ["a value"], ""),
    (aborts, "200 OK", 500, [], ABORTED),
    (aborts, "303 See Other", 500, [], ABORTED),
    (aborts, "409 Conflict", 409, [], ""),
    (swallows_a_failed_commit, "200 OK", 500, [], ABORTED),
    (commits_and_aborts_the_rest, "200 OK", 500, ["a value"], ABORTED),
    (aborts_and_writes_again, "200 OK", 200, ["a value"], ""),
    (aborts_and_commits_what_is_left, "200 OK", 200, ["a value"], ""),
    (commits, "200 OK", 200, ["a value"], ""),
    (aborts_nothing, "200 OK", 200, [], ""),
    (looks_and_aborts, "200 OK", 200, [], ""),
    (commits_nothing, "200 OK", 200, [], ""),
    (dooms, "200 OK", 200, [], ""),
    (fails, "", 500, [], "ZeroDivisionError()"),
]
"""The same with the transaction of the pipeline."""

AROUND: dict[str, tuple[Any, ...]] = {
    "alone": (),
    "behind a copied environ": (copying,),
    "behind a middleware": (lambda app: lambda *wsgi: app(*wsgi),),
}


@pytest.mark.parametrize("between", AROUND.values(), ids=AROUND)
@pytest.mark.parametrize(("act", "status", "expected", "stored", "message"), IN_THE_THREAD)
def test_an_application_ends_the_transaction_of_its_thread__R3_R13(
    between: Any, act: Act, status: str, expected: int, stored: list[str], message: str, said: Callable[[], str]
) -> None:
    for elements in ([], [transaction()], [*between, transaction()]):
        app = Application(act, status)
        assert ask(Pipeline(retry(), errors(), *elements, *between, app), "/add", "POST").status == expected
        assert app.stored == stored and len(app.managers) == 1
        assert of_thread.manager._txn is None, "nothing is left for the next request"
    assert message in said()
    assert (f"<the shop> answered POST /add with {status}, but it " in said()) is (message == LEFT)


@pytest.mark.parametrize("between", AROUND.values(), ids=AROUND)
@pytest.mark.parametrize(("act", "status", "expected", "stored", "message"), IN_THE_PIPELINE)
def test_an_application_leaves_the_transaction_of_the_pipeline_to_the_pipeline__R3(
    between: Any, act: Act, status: str, expected: int, stored: list[str], message: str, said: Callable[[], str]
) -> None:
    app = Application(act, status, in_thread=False)
    answer = ask(Pipeline(retry(), errors(), *between, transaction(), *between, app), "/add", "POST")
    assert answer.status == expected
    assert app.stored == stored and len(app.managers) == 1
    assert answer.headers.get("X-Outcome", "") == ("committed" if expected == 500 and stored else "")
    assert message in said()
    assert (f"<the shop> answered POST /add with {status}, but it " in said()) is (message == ABORTED)


@pytest.mark.parametrize("first", IN_THE_PIPELINE)
@pytest.mark.parametrize("second", [aborts_nothing, commits_nothing, commits, leaves_it])
def test_an_application_that_does_right_is_not_blamed_for_the_request_before(first: Any, second: Act) -> None:
    """A manager of a database serves one request after the other."""
    act, status = first[:2]
    app = Application(act, status, in_thread=False)
    site = Pipeline(zodb(uri=f"memory://mounting_{next(numbers)}"), errors(), transaction(), app)
    ask(site, "/", "POST")
    app.act, app.status = second, "200 OK"
    assert ask(site, "/", "POST").status == 200


def test_an_application_may_abort_what_can_only_be_read() -> None:
    def app(environ: dict[str, Any], start_response: Any) -> Any:
        request = request_of(environ)
        found = request.sql.execute(text("select 7")).scalar()
        request.tm.abort()
        return webob.Response(str(found))(environ, start_response)

    assert ask(Pipeline(sql(url="sqlite://"), errors(), app)).text == "7"
    assert ask(Pipeline(sql(url="sqlite://"), errors(), transaction(), app)).status == 500


def test_an_outer_party_ends_the_transaction_that_it_has_begun_in_the_thread() -> None:
    app = Application(leaves_it)
    site = Pipeline(errors(), transaction(), app)
    with of_thread:
        assert ask(site).status == 200
        assert app.stored == []
    assert app.stored == ["a value"]


def repoze_tm(app: Any) -> Any:
    """A middleware that commits when the body was sent, as repoze.tm2 does."""

    def middleware(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
        environ["repoze.tm.active"] = True
        of_thread.begin()
        yield from app(environ, start_response)
        of_thread.commit()

    return middleware


def test_a_middleware_that_says_so_commits_the_transaction_of_the_thread() -> None:
    for parts in ([], [errors()], [errors(), transaction(), copying]):
        app = Application(leaves_it)
        assert ask(Pipeline(*parts, repoze_tm(app))).status == 200
        assert app.stored == ["a value"]
        app = Application(leaves_it)
        assert ask(Pipeline(*parts, repoze_tm, Pipeline(app))).status == 200
        assert app.stored == ["a value"]


class Sends:
    """A body that joins the transaction of its thread while it is sent, as a lazy query does."""

    def __init__(self, manager: FakeDataManager, blocks: int) -> None:
        self.manager, self.blocks, self.open_when_closed = manager, iter([b"block"] * blocks), False

    def __iter__(self) -> Sends:
        return self

    def __next__(self) -> bytes:
        block = next(self.blocks)
        self.manager.join()
        return block

    def close(self) -> None:
        self.open_when_closed = of_thread.manager._txn is not None


@pytest.mark.parametrize("between", AROUND.values(), ids=AROUND)
def test_what_a_stream_has_joined_ends_with_the_request__R13(between: Any) -> None:
    manager = FakeDataManager(of_thread)
    body = Sends(manager, 2)

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return body

    assert ask(Pipeline(errors(), *between, app)).body == b"blockblock"
    assert body.open_when_closed, "the application may end it when the body is closed"
    assert manager.steps == ["join", "join", "abort", "abort"]


def test_a_stream_that_another_thread_closes_ends_no_transaction__R13() -> None:
    """By then either thread may serve another request."""

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return iter([b"block"])

    def close() -> None:
        begun = of_thread.begin()
        body.close()
        kept.append(of_thread.manager._txn is begun)
        of_thread.abort()

    kept: list[bool] = []
    body: Any = Pipeline(app)(environ_of("/", "GET", b"", {}), lambda status, headers, exc_info=None: None)
    begun = of_thread.begin()
    thread = Thread(target=close)
    thread.start()
    thread.join()
    kept.append(of_thread.manager._txn is begun)
    of_thread.abort()
    assert kept == [True, True]


@view(context=dict)
def undoes(context: Any, request: Any) -> str:
    FakeDataManager(request.tm).join()
    request.tm.abort()
    return "undone"


@pytest.mark.parametrize("between", [(), *product(AROUND.values(), repeat=2)])
def test_a_view_of_the_pipeline_may_undo_its_changes_also_behind_a_middleware(between: Any) -> None:
    """The rule is for applications of other frameworks, which may not know whose transaction it is."""
    first, second = between or ((), ())
    inner = (*second, traverse(root=dict), publisher(scan=(__name__,)))
    assert ask(Pipeline(errors(), *first, transaction(), *inner)).text == "undone"


def committing_by_itself(rows: list[str], fails_in: str) -> Any:
    """An application of another framework, whose own session commits. Then a transient error comes up: its own
    one, or one at the vote of the pipeline."""

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        rows.append("a row")
        if fails_in == "the application":
            raise TransientError("another request was first")
        fails = {"tpc_vote": TransientError("another request was first")} if fails_in == "the vote" else {}
        FakeDataManager(request_of(environ).tm, fails=fails).join()
        return webob.Response()(environ, start_response)

    return app


WAYS: list[tuple[Any, ...]] = [(), (copying,), (copying, copying)]


@pytest.mark.parametrize("between", WAYS)
@pytest.mark.parametrize("fails_in", ["the application", "the vote"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_what_an_application_may_have_committed_is_not_asked_for_again__R2a(
    between: Any, fails_in: str, method: str
) -> None:
    rows: list[str] = []
    app = committing_by_itself(rows, fails_in)
    site = Pipeline(retry(delay=0, attempts=4), errors(), transaction(), *between, app)
    assert ask(site, "/", method).status == 503
    assert rows == ["a row"]


@pytest.mark.parametrize("between", WAYS)
@pytest.mark.parametrize("fails_in", ["the application", "the vote"])
def test_a_repeatable_application_and_a_safe_method_are_asked_again__R2(between: Any, fails_in: str) -> None:
    """The first is the control of the test above: its rows would be stored four times."""
    for method, wraps in (("POST", repeatable), ("GET", lambda app: app)):
        rows: list[str] = []
        app = wraps(committing_by_itself(rows, fails_in))
        site = Pipeline(retry(delay=0, attempts=4), errors(), transaction(), *between, app)
        assert ask(site, "/", method).status == 503
        assert rows == ["a row"] * 4


@pytest.mark.parametrize("fails_in", ["the application", "the vote"])
@pytest.mark.parametrize(("method", "times"), [("POST", 1), ("DELETE", 1), ("GET", 4)])
def test_an_application_that_a_view_asks_may_have_committed_too__R2a(
    fails_in: str, method: str, times: int
) -> None:
    rows: list[str] = []
    app = committing_by_itself(rows, fails_in)

    def view(request: Any, response: Any) -> Any:
        return request.get_response(app).app_iter

    site = Pipeline(retry(delay=0, attempts=4), errors(), transaction(), end(view=view))
    assert ask(site, "/", method).status == 503
    assert rows == ["a row"] * times


def test_check_names_the_applications_that_are_not_asked_again(tmp_path: Path, capsys: Any) -> None:
    ini = tmp_path / "site.ini"
    ini.write_text(
        "[pipeline:main]\npipeline = retry transaction app\n[filter:retry]\nuse = egg:wsgi-pipeline#retry\n"
        "[filter:transaction]\nuse = egg:wsgi-pipeline#transaction\n"
        "[filter:repeatable]\npaste.filter_app_factory = pipeline.mounting:repeatable\n"
        f"[app:app]\npaste.app_factory = {__name__}:make_mounted\n"
    )
    told = "unsafe requests (POST, PUT, ...) that app answers are never tried again"
    main(["check", str(ini)])
    assert told in capsys.readouterr().out
    ini.write_text(ini.read_text() + "filter-with = repeatable\n")
    main(["check", str(ini)])
    assert told not in capsys.readouterr().out


def test_check_names_middleware_that_each_attempt_passes(tmp_path: Path, capsys: Any) -> None:
    ini = tmp_path / "site.ini"
    for steps, expected in {
        "retry language transaction": ["[filter:language]"],
        "language retry transaction": [],
        "retry repeatable transaction": [],
        "retry language repeatable other transaction": ["[filter:language]", "[filter:other]"],
        "retry transaction language": [],  # no element is inside of it: it is a part of the end
        "language transaction": [],
    }.items():
        ini.write_text(
            f"[pipeline:main]\npipeline = {steps} app\n[filter:retry]\nuse = egg:wsgi-pipeline#retry\n"
            "[filter:transaction]\nuse = egg:wsgi-pipeline#transaction\n"
            f"[filter:language]\npaste.filter_app_factory = {__name__}:make_language\n"
            f"[filter:other]\npaste.filter_app_factory = {__name__}:make_language\nname = de\n"
            "[filter:repeatable]\npaste.filter_app_factory = pipeline.mounting:repeatable\n"
            f"[app:app]\npaste.app_factory = {__name__}:make_mounted\n"
        )
        main(["check", str(ini)])
        lines = capsys.readouterr().out.splitlines()
        places = [place for told, place in pairwise(lines) if "each further attempt passes" in told]
        found = [place.split("section ")[1].split(",")[0] for place in places]
        assert found == expected, (steps, lines)


def make_language(app: Any, global_conf: Any, name: str = "en") -> Any:
    return lambda environ, start_response: app(environ, start_response)


def make_mounted(global_conf: dict[str, str]) -> Any:
    return mounted([])
