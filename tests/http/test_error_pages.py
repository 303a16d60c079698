"""What the visitor is told of an error, and what is logged of it."""

from __future__ import annotations

import errno
import json
import logging
import time
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
from webob.exc import HTTPException, HTTPFound, HTTPMethodNotAllowed, HTTPNotFound, HTTPUnauthorized

from pipeline import Request, Response
from pipeline.http.error_pages import (
    LONGEST_DETAIL,
    OUTCOMES,
    POLICY,
    SORRY,
    Problem,
    as_html,
    as_json,
    as_text,
    best_type,
    log_failure,
    log_unavailable,
    one_line,
    out_of_descriptors,
    problem_of,
    put_answer,
    put_problem,
    text_of,
)
from pipeline.http.tracebacks import LONGEST_TRACEBACK, shortened, traceback_of
from pipeline.interfaces import CommitUncertain, Unavailable
from pipeline.request import Verdict

HTML, PROBLEM, JSON, PLAIN = "text/html", "application/problem+json", "application/json", "text/plain"
FIREFOX = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
SCRIPT = "<script>alert('x')</script>&\""


def request(**environ: Any) -> Request:
    return Request({"REQUEST_METHOD": "GET", "PATH_INFO": "/here", **environ})


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, PLAIN),
        ("", PLAIN),
        ("*/*", PLAIN),
        ("text/*", PLAIN),
        ("image/png", PLAIN),
        ("what is this;;", PLAIN),
        (FIREFOX, HTML),
        ("TEXT/HTML", HTML),
        ("text/html, */*", HTML),
        ("text/html;q=0, */*", PLAIN),
        ("application/json", JSON),
        ("application/problem+json", PROBLEM),
        ("application/*", PROBLEM),
        ("application/json, text/plain, */*", JSON),  # what axios sends
        ("application/json, text/javascript, */*; q=0.01", JSON),  # what jQuery sends
        ("text/html;q=0.5, application/json;q=0.9", JSON),
        ("text/html;q=0.9, application/json;q=0.5", HTML),
        ("text/plain, text/html;q=0.9", PLAIN),
        ("*/*;q=0.1, application/json;q=0.05", PLAIN),
    ],
)
def test_accept_alone_chooses_the_type(accept: str | None, expected: str) -> None:
    assert best_type(accept) == expected


@pytest.mark.parametrize(
    "evil",
    ['a/b;c="' + "\\" * 50_000, "a/b;q=0" * 50_000, ",\t " * 50_000 + "!", "a/a" + ";a=a" * 50_000 + "!"],
)
def test_an_accept_header_is_read_in_no_time__S12(evil: str) -> None:
    started = time.process_time()
    assert best_type(evil) == PLAIN
    assert time.process_time() - started < 1


class Page(HTMLParser):
    """The elements, the attributes and the text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_escapes_all_that_it_shows_and_loads_nothing__S7() -> None:
    html = as_html(Problem(f"404 {SCRIPT}", SCRIPT, SCRIPT, [("X", SCRIPT)], SCRIPT))
    page = Page(html)
    assert page.tags == {"html", "head", "meta", "title", "style", "body", "main", "h1", "p", "code", "pre"}
    assert page.attributes == {"lang", "charset", "name", "content", "class"}
    assert page.text.count(SCRIPT) == 5
    assert "url(" not in html and "http" not in html and "@import" not in html


def test_a_page_suits_a_phone_and_the_dark() -> None:
    html = as_html(Problem("404 Not Found", "There is nothing here."))
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in html
    assert "color-scheme: light dark" in html
    assert "overflow-wrap: anywhere" in html, "a long word does not widen the page"


def test_problem_details__RFC_9457() -> None:
    assert json.loads(as_json(Problem("404 Not Found", SCRIPT))) == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": SCRIPT,
    }
    logged = json.loads(as_json(Problem("500 Internal Server Error", "Sorry.", "0123", [], "a\nb")))
    assert logged["instance"] == "0123"
    assert logged["traceback"] == ["a", "b"]


def test_plain_text() -> None:
    assert as_text(Problem("404 Not Found", "Nothing.")) == "Nothing.\n"
    assert as_text(Problem("500 Error", "Sorry.", "0123")) == "Sorry. It was logged as 0123.\n"
    assert as_text(Problem("500 Error", "Sorry.", traceback="tb")) == "Sorry.\n\ntb\n"


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (None, "text/plain; charset=UTF-8"),
        (FIREFOX, "text/html; charset=UTF-8"),
        ("application/json", "application/problem+json"),
    ],
)
def test_every_page_is_what_it_says_and_is_not_stored__S7(accept: str | None, content_type: str) -> None:
    response = Response()
    response.headers["Cache-Control"] = "public, max-age=3600"
    response.headers["X-Outer"] = "stays"
    put_problem(response, Problem("404 Not Found", "Nothing \udc80 here."), accept)
    assert response.headerlist == [
        ("X-Outer", "stays"),
        ("Content-Type", content_type),
        ("X-Content-Type-Options", "nosniff"),
        ("Cache-Control", "no-store"),
        *([POLICY] if "html" in content_type else []),
    ]
    assert response.status == "404 Not Found"
    assert b"Nothing" in response.app_iter[0]


def test_the_headers_of_an_error_beat_ours() -> None:
    response = Response()
    headers = [("Cache-Control", "max-age=60"), ("Retry-After", "9")]
    put_problem(response, Problem("503 Busy", "Later.", headers=headers), None)
    assert response.headers.getall("Cache-Control") == ["max-age=60"]
    assert response.headers["Retry-After"] == "9"
    assert response.headers["Vary"] == "Accept", "a cache gives no page of a browser to a program"


def test_what_an_HTTP_exception_tells() -> None:
    error = HTTPMethodNotAllowed(headers={"Allow": "GET"})
    error.set_cookie("seen", "yes")
    problem = problem_of(request(), error)
    assert (problem.status, problem.id) == ("405 Method Not Allowed", "")
    assert [name for name, _ in problem.headers] == ["Allow", "Set-Cookie"]
    assert problem.detail == error.explanation
    assert problem_of(request(), HTTPNotFound("Gone fishing")).detail == "Gone fishing"
    assert problem_of(request(), HTTPNotFound(Mute())).detail == "<Mute, whose str() raises RuntimeError>"
    assert "\n" not in problem_of(request(), HTTPUnauthorized()).detail


def test_an_HTTP_exception_with_a_body_of_its_own_needs_no_page() -> None:
    asked, response = request(), Response()
    assert put_answer(asked, response, HTTPNotFound(json_body={"no": "thing"}))
    assert response.app_iter == [b'{"no":"thing"}']
    assert put_answer(asked, response, HTTPFound(location="/there"))
    assert (response.status_int, response.headers["Location"]) == (302, "/there")
    assert put_answer(asked, response, HTTPException("a message", Response("a teapot", status=418)))
    assert (response.status_int, response.app_iter) == (418, [b"a teapot"])
    assert not put_answer(asked, response, HTTPNotFound("no body"))
    assert not put_answer(asked, response, ValueError())
    assert "X-Outcome" not in response.headers
    asked.outcome = "committed"
    assert put_answer(asked, response, HTTPNotFound(text="own"))
    assert response.headers["X-Outcome"] == "committed"


def test_what_an_error_tells_is_nothing_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    problem = problem_of(request(), ValueError("the password is 1234"))
    assert problem == Problem("500 Internal Server Error", "An error occurred.", problem.id, [])
    [record] = caplog.records
    assert (record.name, record.levelname) == ("pipeline", "ERROR")
    assert record.getMessage() == f"error {problem.id}: GET /here: ValueError"
    assert record.exc_info is not None and isinstance(record.exc_info[1], ValueError)
    assert "the password is 1234" in caplog.text


class Busy(Unavailable):
    retry_after = 30


@pytest.mark.parametrize(("error", "seconds"), [(Unavailable("the database\nis away"), "1"), (Busy(), "30")])
def test_an_error_that_will_pass_is_one_line_of_warning(
    error: Exception, seconds: str, caplog: pytest.LogCaptureFixture
) -> None:
    problem = problem_of(request(), error)
    assert (problem.status, problem.headers) == ("503 Service Unavailable", [("Retry-After", seconds)])
    [record] = caplog.records
    assert (record.levelname, record.exc_info) == ("WARNING", None)
    start = f"error {problem.id}: GET /here: 503, {type(error).__name__}: "
    assert record.getMessage() == start + str(error).replace("\n", "\\n")


def test_a_transient_error_is_one_that_will_pass(caplog: pytest.LogCaptureFixture) -> None:
    asked = request()
    error = KeyError("lock")
    asked.verdict = Verdict(error, True)
    assert problem_of(asked, error).code == "503"
    assert problem_of(asked, KeyError("lock")).code == "500"


def test_one_that_is_in_the_log_already_is_not_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    error = Unavailable("an outage")
    error.logged = True
    problem = problem_of(request(), error)
    assert (problem.code, problem.id) == ("503", "")
    assert caplog.records == []


@pytest.mark.parametrize("outcome", ["committed", "unknown"])
@pytest.mark.parametrize("error", [ValueError(), CommitUncertain(), Unavailable(), HTTPNotFound("None.")])
def test_what_came_of_the_changes_is_said__R4(outcome: str, error: Exception, caplog: Any) -> None:
    asked = request()
    asked.outcome = outcome
    problem = problem_of(asked, error)
    assert dict(problem.headers) == {"X-Outcome": outcome}, "no Retry-After: it may be stored"
    if isinstance(error, HTTPNotFound):
        assert (problem.code, problem.detail, caplog.records) == ("404", "None.", [])
    else:
        assert (problem.code, problem.detail) == ("500", SORRY + OUTCOMES[outcome])
        assert caplog.records[0].levelname == "ERROR"


def test_an_id_is_never_the_same_and_may_be_given(caplog: pytest.LogCaptureFixture) -> None:
    assert len({log_failure(request(), ValueError()) for _ in range(10)}) == 10
    assert log_failure(request(), ValueError(), "again", "0123") == "0123"
    assert caplog.records[-1].getMessage() == "error 0123: GET /here, again: ValueError"


def test_nobody_writes_lines_of_the_log_but_us(caplog: pytest.LogCaptureFixture) -> None:
    asked = request(REQUEST_METHOD="GET\nERROR", PATH_INFO="/a\r\nb\x1b[2J")
    log_failure(asked, ValueError())
    log_unavailable(asked, Unavailable("a\r\nb\u2028c\x1b"))
    for record in caplog.records:
        assert record.getMessage().isprintable()


def recursion() -> None:
    recursion()


def grouped() -> None:
    raise ExceptionGroup("several", [ValueError("first"), ExceptionGroup("deeper", [KeyError("second")])])


def out_of_memory() -> None:
    raise MemoryError


def caused() -> None:
    try:
        raise KeyError("first")
    except KeyError as error:
        raise ValueError("second") from error


def mute() -> None:
    raise Mute


def huge() -> None:
    raise ValueError("x" * 10_000_000)


@pytest.mark.parametrize(
    ("fail", "shown"),
    [
        (recursion, ["RecursionError", "Previous line repeated"]),
        (grouped, ["first", "second", "several"]),
        (out_of_memory, ["MemoryError"]),
        (caused, ["first", "second"]),
        (mute, ["Mute: <exception str() failed>"]),
        (huge, ["ValueError: xxx", "characters ...]xxx"]),
    ],
)
def test_any_error_can_be_logged(
    fail: Callable[[], None], shown: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    try:
        fail()
    except Exception as error:
        problem = problem_of(request(), error)
    text = logging.Formatter().format(caplog.records[0])
    assert text.startswith(f"error {problem.id}: GET /here: ")
    assert len(text) < LONGEST_TRACEBACK + 200
    for words in shown:
        assert words in text


def test_an_error_that_defies_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*error: object, **options: object) -> None:
        raise MemoryError

    monkeypatch.setattr("traceback.TracebackException", fail)
    assert traceback_of(ValueError()) == "<ValueError, of which MemoryError prevents a traceback>"


def test_texts_are_shortened_in_the_middle() -> None:
    assert shortened("abcdefgh", 8) == "abcdefgh"
    assert shortened("abcdefghi", 4) == "ab[... 5 characters ...]hi"
    assert len(text_of("x" * 100_000)) < LONGEST_DETAIL + 50
    assert one_line("Grüße") == "Grüße"
    assert one_line("a\nb\x00") == "a\\nb\\x00"


def test_the_reporter_is_told_and_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    told: list[tuple[Any, ...]] = []
    asked = request()
    asked.reporter = lambda *arguments: told.append(arguments)
    error = ValueError()
    id = log_failure(asked, error)
    away = Unavailable()
    assert told == [(asked, error, id), (asked, away, log_unavailable(asked, away))]

    def broken(*arguments: Any) -> None:
        raise OSError("no network")

    asked.reporter = broken
    id = log_failure(asked, error)
    assert caplog.records[-1].getMessage().startswith(f"error {id}: the reporter <function ")
    assert "OSError: no network" in caplog.text


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_an_error_that_came_of_having_no_descriptor_will_pass(number: int) -> None:
    """S15: also where a library has wrapped it."""
    cause = OSError(number, "Too many open files")
    wrapped = RuntimeError("cannot connect")
    wrapped.__cause__ = cause
    within = ValueError("nor this")
    within.__context__ = wrapped
    assert all(out_of_descriptors(error) for error in (cause, wrapped, within))
    loop = RuntimeError("of itself")
    loop.__cause__ = loop
    for error in (None, loop, OSError(errno.ENOSPC, "full"), RuntimeError("Too many open files")):
        assert not out_of_descriptors(error)
