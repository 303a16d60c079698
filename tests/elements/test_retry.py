"""``retry``: what is tried again, with what, and when it stops (R2)."""

from __future__ import annotations

import gc
import io
import logging
import random
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import webob
from transaction.interfaces import TransientError
from webob.exc import HTTPConflict, HTTPServiceUnavailable

from around_a_view import View, end
from asking import ask
from pipeline import Pipeline, Request, Response, element
from pipeline.elements import retry as module
from pipeline.elements.errors import errors
from pipeline.elements.retry import ReplayableBody, RetryRequest, retry
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import close_all, zodb
from pipeline.http.bodies import ShortBody
from pipeline.interfaces import OptionError, Unavailable


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were asked for."""
    pauses: list[float] = []
    monkeypatch.setattr(module.time, "sleep", pauses.append)
    return pauses


@pytest.fixture
def log(caplog: Any) -> Callable[[], list[str]]:
    """The lines that ``retry`` has logged, with their levels."""
    caplog.set_level(logging.INFO, "pipeline.retry")
    return lambda: [
        f"{record.levelname} {record.getMessage()}"
        for record in caplog.records
        if record.name == "pipeline.retry"
    ]


class Failing:
    """A view that fails a number of times, after it has done what it was given to do."""

    def __init__(self, times: int, work: View = lambda request, response: None) -> None:
        self.times = times
        self.work = work
        self.seen: list[Any] = []

    def __call__(self, request: Request, response: Response) -> None:
        self.seen.append(self.work(request, response))
        if len(self.seen) <= self.times:
            raise TransientError


def site(view: View, *inner: Any, **options: Any) -> Pipeline:
    return Pipeline(retry(**options), *inner, end(view=view))


# What is tried again


@pytest.mark.parametrize(
    ("attempts", "failures", "status", "tried"),
    [(1, 0, 200, 1), (1, 1, 503, 1), (2, 1, 200, 2), (2, 2, 503, 2), (5, 4, 200, 5), (5, 9, 503, 5)],
)
def test_a_transient_error_is_tried_again(attempts: int, failures: int, status: int, tried: int) -> None:
    view = Failing(failures)
    answer = ask(site(view, errors(), attempts=attempts))
    assert answer.status_int == status
    assert len(view.seen) == tried
    assert answer.headers.get("Retry-After") == ("1" if status == 503 else None)


def test_with_one_attempt_there_is_nothing_of_it() -> None:
    def next(request: Request, response: Response) -> None: ...

    assert retry.factory(next, attempts=1) is next


@pytest.mark.parametrize(
    "error",
    [ValueError, HTTPConflict, HTTPServiceUnavailable, Unavailable, MemoryError, KeyboardInterrupt, SystemExit],
)
def test_other_errors_are_not_tried_again(error: type[BaseException]) -> None:
    seen = []

    def view(request: Request, response: Response) -> None:
        seen.append(request.attempt)
        raise error

    try:
        ask(site(view, errors()))
    except BaseException as raised:
        assert isinstance(raised, error)
    assert seen == [1]


def test_an_answer_is_not_tried_again() -> None:
    """Nothing is sent before the last attempt, and nothing is tried once something is sent."""
    seen = []

    def view(request: Request, response: Response) -> Iterator[bytes]:
        seen.append(request.attempt)

        def body() -> Iterator[bytes]:
            yield b"a block"
            yield b"another"
            raise TransientError

        return body()

    body = site(view)(webob.Request.blank("/").environ, lambda *arguments: None)
    with pytest.raises(TransientError):
        list(body)
    body.close()
    assert seen == [1]


def test_a_view_that_must_not_run_twice_says_so(log: Callable[[], list[str]]) -> None:
    def view(request: Request, response: Response) -> None:
        request.attempts_left = 0

    failing = Failing(9, view)
    assert ask(site(failing, errors())).status_int == 503
    assert len(failing.seen) == 1
    assert log() == []


def test_the_number_of_the_attempt_is_on_the_request() -> None:
    failing = Failing(2, lambda request, response: (request.attempt, request.attempts_left))
    ask(site(failing, attempts=4))
    assert failing.seen == [(1, 3), (2, 2), (3, 1)]


def test_without_errors_the_edge_answers() -> None:
    answer = ask(site(Failing(9), attempts=3))
    assert (answer.status_int, answer.headers["Retry-After"]) == (503, "1")


# With what: the environ, the request, the response


def spoil(request: Request, response: Response) -> Any:
    """Changes all it can; returns what it has found."""
    environ = request.environ
    found = (
        environ["PATH_INFO"],
        environ.get("test.new"),
        environ["test.removed"],
        request.view_name,
        request.subpath,
        request.principal,
        request.traversal_hooks,
        getattr(request, "custom", None),
        request.outer,  # type: ignore[attr-defined]
        response.status,
        list(response.headerlist),
        response.app_iter,
        response.filters,
    )
    environ["PATH_INFO"] += "/deeper"
    environ["test.new"] = True
    del environ["test.removed"]
    request.view_name, request.subpath, request.principal = "x", ("y",), "z"
    request.custom = True  # type: ignore[attr-defined]
    request.outer = "spoilt"  # type: ignore[attr-defined]
    request.add_traversal_hook(lambda request, obj: None)
    response.status = 404
    response.headers["X-Outer"] = "spoilt"
    response.set_cookie("a", "b")
    response.app_iter = [b"spoilt"]
    response.add_filter(iter)
    return found


@element
def outer(next: Any) -> Any:
    """Puts something on request and response, outside of ``retry``."""

    def outer(request: Request, response: Response) -> None:
        request.outer = "outer"  # type: ignore[attr-defined]
        response.headers["X-Outer"] = "outer"
        next(request, response)

    return outer


def spoilt_twice() -> list[Any]:
    failing = Failing(2, spoil)
    ask(Pipeline(outer(), retry(), end(view=failing)), "/path", **{"test.removed": "there"})
    return failing.seen


def test_every_attempt_starts_as_the_first() -> None:
    first, second, third = spoilt_twice()
    assert first == second == third
    assert first[:3] == ("/path", None, "there")
    assert first[8] == "outer"


def test_the_answer_has_nothing_of_attempts_that_failed() -> None:
    def view(request: Request, response: Response) -> None:
        if request.attempt < 3:
            spoil(request, response)
            raise TransientError

    answer = ask(Pipeline(outer(), retry(), end(view=view)), **{"test.removed": "there"})
    assert (answer.status_int, answer.body) == (200, b"done")
    assert answer.headers["X-Outer"] == "outer"
    assert "Set-Cookie" not in answer.headers


def test_behind_a_foreign_middleware_that_copies_the_environ() -> None:
    def foreign(app: Any) -> Any:
        return lambda environ, start_response: app({**environ, "foreign": True}, start_response)

    failing = Failing(2, lambda request, response: (request.environ["foreign"], request.environ["PATH_INFO"]))
    app = Pipeline(retry(), foreign, Pipeline(errors(), end(view=failing)))
    assert ask(app, "/x").status_int == 200
    assert failing.seen == 3 * [(True, "/x")]


def test_what_an_attempt_has_opened_is_closed_before_the_pause(no_pauses: list[float]) -> None:
    """Nobody waits for a connection that another one holds while it pauses."""
    events: list[str] = []
    no_pauses_append = no_pauses.append

    def view(request: Request, response: Response) -> None:
        number = request.attempt
        request.on_close(lambda: events.append(f"{number} closed"))
        request.on_close(lambda: events.append(f"{number} closed last"), last=True)

    module.time.sleep = lambda seconds: (events.append("pause"), no_pauses_append(seconds))  # type: ignore[assignment]
    failing = Failing(1, view)

    @element
    def keeper(next: Any) -> Any:
        """Closes something outside of ``retry``."""

        def keeper(request: Request, response: Response) -> None:
            request.on_close(lambda: events.append("outer closed"))
            next(request, response)

        return keeper

    ask(Pipeline(keeper(), retry(), end(view=failing)))
    assert events == ["1 closed", "1 closed last", "pause", "2 closed", "2 closed last", "outer closed"]


def test_the_pauses_grow_and_are_jittered(no_pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_PAUSE", 0.06)
    asked: list[tuple[float, float]] = []
    monkeypatch.setattr(random, "uniform", lambda low, high: asked.append((low, high)) or 1.0)
    ask(site(Failing(6), attempts=7, delay=0.01))
    assert no_pauses == [0.01, 0.02, 0.04, 0.06, 0.06, 0.06]
    assert asked == 6 * [(0, 2)]


@pytest.mark.parametrize("delay", [0, 0.005])
def test_any_number_of_attempts_may_be_made(delay: float, no_pauses: list[float]) -> None:
    """The 1,026th was an OverflowError, since the pause had doubled as often."""
    assert ask(site(Failing(1_500), attempts=2_000, delay=delay, patience=60)).status_int == 200
    assert len(no_pauses) == 1_500 and max(no_pauses) <= 2 * module.LONGEST_PAUSE


def test_a_pause_cannot_be_negative() -> None:
    with pytest.raises(OptionError, match="delay must be a number of at least 0"):
        site(Failing(0), delay=-1.0)


@pytest.mark.parametrize(("seconds", "patience", "tried"), [(1, 5, 7), (1, 0.5, 3), (60, 20, 3), (1, 0, 2)])
def test_what_takes_long_is_not_tried_for_long(
    seconds: float, patience: float, tried: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt that begins when the patience is over is the last one."""
    now = 1000.0

    def view(request: Request, response: Response) -> int:
        nonlocal now
        now += seconds
        return request.attempts_left

    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    failing = Failing(99, view)
    answer = ask(site(failing, errors(), patience=patience))
    assert (answer.status_int, answer.headers["Retry-After"]) == (503, "1")
    assert len(failing.seen) == tried
    assert failing.seen[-1] == 0
    assert 0 not in failing.seen[:-1]


def test_conflicts_in_a_database_are_repaired() -> None:
    """Two requests change one object; the second to commit starts anew, from what the first has stored."""
    app: Any = None

    def view(request: Request, response: Response) -> None:
        request.root["count"] = request.root.get("count", 0) + 1
        if request.path == "/slow" and request.attempt < 3:
            assert ask(app, "/quick").status_int == 200

    def look(request: Request, response: Response) -> Any:
        return [str(request.root["count"]).encode()]

    database = zodb(uri="memory://test_retry")
    app = Pipeline(retry(), database, errors(), transaction(), end(view=view))
    try:
        assert ask(app, "/slow").status_int == 200
        assert ask(Pipeline(database, end(view=look))).text == "3"
    finally:
        close_all()


# What is logged


def test_a_conflict_that_was_repaired(log: Callable[[], list[str]]) -> None:
    """It is counted, and is no error."""
    ask(site(Failing(2)), "/a%20b", "POST")
    assert log() == [
        "INFO POST /a%20b, attempt 1: TransientError",
        "INFO POST /a%20b, attempt 2: TransientError",
        "INFO POST /a%20b: repaired after 3 attempts",
    ]


@pytest.mark.parametrize("inner", [(), (errors(),), (errors(), transaction())])
def test_a_conflict_that_was_not(inner: Any, log: Callable[[], list[str]]) -> None:
    assert ask(site(Failing(9), *inner, attempts=2)).status_int == 503
    assert log() == ["INFO GET /, attempt 1: TransientError"]


# The body

LONG = bytes(range(256)) * 1024  # 256 KiB: more than is kept in memory


def read_all(request: Request, response: Response) -> bytes:
    return request.environ["wsgi.input"].read()  # type: ignore[no-any-return]


def read_sized(request: Request, response: Response) -> bytes:
    blocks = iter(lambda: request.environ["wsgi.input"].read(1000), b"")
    return b"".join(blocks)


def read_lines(request: Request, response: Response) -> bytes:
    return b"".join(request.environ["wsgi.input"])


def read_webob(request: Request, response: Response) -> bytes:
    return request.body


def read_webob_twice(request: Request, response: Response) -> bytes:
    request.make_body_seekable()
    assert request.body_file_seekable.read() == request.body
    return request.body


def read_and_close(request: Request, response: Response) -> bytes:
    with request.environ["wsgi.input"] as file:
        return file.read()  # type: ignore[no-any-return]


READERS = [read_all, read_sized, read_lines, read_webob, read_webob_twice, read_and_close]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("size", [1, 1000, len(LONG)])
def test_the_body_is_replayed(reader: View, size: int) -> None:
    failing = Failing(2, reader)
    request = webob.Request.blank("/", method="POST")
    request.body = LONG[:size]
    assert request.get_response(site(failing)).status_int == 200
    assert failing.seen == 3 * [LONG[:size]]


@pytest.mark.parametrize("read", [0, 1, 100_000])
def test_a_body_that_was_read_in_part_is_replayed_and_read_on(read: int) -> None:
    def view(request: Request, response: Response) -> Any:
        file = request.environ["wsgi.input"]
        return file.read(read) if request.attempt == 1 else file.read()

    failing = Failing(2, view)
    ask(site(failing), method="POST", body=LONG)
    assert failing.seen == [LONG[:read], LONG, LONG]


class Socket(io.RawIOBase):
    """What a server has from its client: reading more than it sends would wait for ever."""

    def __init__(self, data: bytes, *, ends: bool) -> None:
        self.data = data
        self.ends = ends
        self.asked: list[int] = []

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        self.asked.append(size)
        if not self.ends and (size < 0 or size > len(self.data)):
            pytest.fail(f"{size} bytes are read, {len(self.data)} are left: it hangs")
        block, self.data = self.data[:size], self.data[size:]
        return block


def environ(socket: Socket, **extra: Any) -> dict[str, Any]:
    return {**webob.Request.blank("/", method="POST").environ, "wsgi.input": socket, **extra}


def test_never_more_is_read_than_the_request_has() -> None:
    failing = Failing(1, read_all)
    socket = Socket(LONG, ends=False)
    site(failing)(environ(socket, CONTENT_LENGTH=str(len(LONG))), lambda *arguments: None)
    assert failing.seen == [LONG, LONG]


def test_nothing_is_read_that_nobody_asks_for() -> None:
    """A request that is refused does not wait for a body that its client has not sent yet."""
    socket = Socket(LONG, ends=False)
    asked = environ(socket, CONTENT_LENGTH="1000", HTTP_EXPECT="100-continue")
    site(lambda request, response: None)(asked, lambda *arguments: None)
    assert socket.asked == []


def test_a_body_of_unknown_length_is_replayed() -> None:
    """A chunked one, where the server says that wsgi.input ends with it."""
    failing = Failing(2, read_all)
    socket = Socket(LONG, ends=True)
    extra = {"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked", "CONTENT_LENGTH": ""}
    site(failing)(environ(socket, **extra), lambda *arguments: None)
    assert failing.seen == 3 * [LONG]


@pytest.mark.parametrize(
    ("extra", "body"),
    [
        ({"CONTENT_LENGTH": "0"}, False),
        ({"CONTENT_LENGTH": ""}, False),
        ({}, False),
        ({"CONTENT_LENGTH": "5"}, True),
        ({"CONTENT_LENGTH": "5", "REQUEST_METHOD": "GET"}, True),
        ({"wsgi.input_terminated": True}, True),
        ({"wsgi.input_terminated": True, "REQUEST_METHOD": "GET"}, False),
        ({"HTTP_TRANSFER_ENCODING": "chunked", "REQUEST_METHOD": "GET"}, True),
    ],
)
def test_which_requests_have_a_body(extra: dict[str, Any], body: bool) -> None:
    assert module.has_body({"REQUEST_METHOD": "POST", **extra}) is body


TOO_LONG = "it is longer than body_limit, 1000 bytes"


@pytest.mark.parametrize(
    ("extra", "size", "reason"),
    [
        ({"CONTENT_LENGTH": "1001"}, 1001, TOO_LONG),
        ({"wsgi.input_terminated": True}, 1001, TOO_LONG),
        ({"wsgi.input_terminated": True}, 200_000, TOO_LONG),
    ],
)
@pytest.mark.parametrize("inner", [(), (errors(),), (errors(), transaction())])
def test_a_body_that_cannot_be_kept_is_read_once_and_not_tried_again(
    extra: dict[str, Any], size: int, reason: str, inner: Any, log: Callable[[], list[str]]
) -> None:
    """And the log says so."""
    failing = Failing(9, lambda request, response: request.environ["wsgi.input"].read(size))
    socket = Socket(LONG[:size], ends=True)
    answers: list[str] = []
    app = site(failing, *inner, transaction() if not inner else outer(), body_limit=1000)
    app(environ(socket, **extra), lambda status, *arguments: answers.append(status))
    assert answers == ["503 Service Unavailable"]
    assert failing.seen == [LONG[:size]]
    assert log() == [
        f"WARNING POST /: not tried again after TransientError, because its body was not kept: {reason}"
    ]


def test_a_body_that_fits_exactly_is_kept() -> None:
    failing = Failing(1, read_all)
    ask(site(failing, body_limit=1000), method="POST", body=LONG[:1000])
    assert failing.seen == 2 * [LONG[:1000]]


def test_a_long_body_without_a_conflict_is_nothing_to_log(log: Callable[[], list[str]]) -> None:
    failing = Failing(0, read_sized)
    assert ask(site(failing, body_limit=1000), method="POST", body=LONG).status_int == 200
    assert failing.seen == [LONG]
    assert log() == []


def test_where_the_disk_is_full_the_body_is_read_all_the_same(
    monkeypatch: pytest.MonkeyPatch, log: Callable[[], list[str]]
) -> None:
    class Full(io.BytesIO):
        def write(self, block: Any) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "SpooledTemporaryFile", lambda size: Full())
    failing = Failing(9, read_all)
    assert ask(site(failing, errors(), transaction()), method="POST", body=LONG).status_int == 503
    assert failing.seen == [LONG]
    assert "No space left on device" in log()[0]


def test_a_body_that_breaks_off_is_not_tried_again() -> None:
    """R11: nor is what came of it taken for the body."""
    failing = Failing(1, read_all)
    socket = Socket(b"short", ends=True)
    statuses: list[str] = []
    site(failing)(environ(socket, CONTENT_LENGTH="1000"), lambda status, headers: statuses.append(status))
    assert (statuses, failing.seen) == (["400 Bad Request"], [])


def test_the_body_that_was_kept_is_closed_with_the_request() -> None:
    kept: list[ReplayableBody] = []

    def view(request: Request, response: Response) -> None:
        request.environ["wsgi.input"].read()
        kept.append(request.environ["wsgi.input"].raw)

    ask(site(Failing(1, view)), method="POST", body=LONG)
    assert kept[0] is kept[1]
    assert kept[0].spool.closed


@pytest.mark.parametrize("failures", [0, 2])
def test_no_cycle_is_left(failures: int) -> None:
    """What a request had is freed when it is over, and not when the garbage is collected."""
    seen: list[Any] = []
    failing = Failing(failures, lambda request, response: seen.append(weakref.ref(request)))
    gc.collect()
    gc.disable()
    try:
        blocks = site(failing)(environ(Socket(LONG, ends=True), CONTENT_LENGTH="9"), lambda *arguments: None)
        del blocks
        assert [reference() for reference in seen] == [None] * (failures + 1)
    finally:
        gc.enable()


def test_it_can_be_written_in_an_ini() -> None:
    made = retry({}, attempts="3", delay="0.5", body_limit="1000")
    assert made.options == {"attempts": 3, "delay": 0.5, "body_limit": 1000}


# Positive controls


def test_control_the_environ_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shared(dict):  # type: ignore[type-arg]
        def copy(self) -> Any:
            return self

    def spoilt() -> list[Any]:
        failing = Failing(2, lambda request, response: request.environ.setdefault("test", request.attempt))
        handler = retry.factory(end.factory(view=failing))
        request = RetryRequest(Shared(webob.Request.blank("/").environ))
        request.environ.clear = lambda: None  # type: ignore[method-assign]
        handler(request, Response())
        return failing.seen

    assert spoilt() == [1, 1, 1], "with a shared environ the second attempt sees what the first has done"


@pytest.mark.parametrize("forgotten", ["request", "response"])
def test_control_not_everything_is_put_back(forgotten: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if forgotten == "request":
        monkeypatch.setattr(Request, "restore", lambda request, snapshot: None)
    else:
        monkeypatch.setattr(Response, "restore", lambda response, snapshot: None)
    with pytest.raises(AssertionError):
        test_every_attempt_starts_as_the_first()


@pytest.mark.parametrize("size", [1000, len(LONG)])
def test_control_the_body_is_not_rewound(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplayableBody, "reader", lambda body: io.BufferedReader(body))
    monkeypatch.setattr(ShortBody, "reader", lambda body: body)
    with pytest.raises(AssertionError):
        test_the_body_is_replayed(read_all, size)


def test_control_it_pauses_before_it_closes(no_pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    close = Request.close
    monkeypatch.setattr(Request, "close", lambda request, mark=0: None if mark else close(request))
    with pytest.raises(AssertionError):
        test_what_an_attempt_has_opened_is_closed_before_the_pause(no_pauses)


def test_pauses_are_real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    started = time.monotonic()
    ask(site(Failing(5), delay=0.01))
    assert time.monotonic() > started
