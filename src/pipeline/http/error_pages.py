"""The record of an error in the log, and the answer to the visitor.

The log gets one line with an id. The traceback stands below it if the program has to be corrected.

The visitor gets the id on an HTML page, as problem details (RFC 9457), or in plain text. The client chooses by
``Accept``, and gets plain text if it does not choose. All three escape what they show. No cache stores them, they
load nothing, and no browser takes them for another type (S7).

Nothing is expected of an error: its ``str()`` may raise, and its message may be as long as the body of a request.
"""

from __future__ import annotations

import errno
import json
import logging
import secrets
from collections.abc import Callable, Sequence
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from webob.exc import HTTPException, WSGIHTTPException

from pipeline.http import debug_key
from pipeline.http.content_policy import page_policy
from pipeline.http.encodings import accepted, bounded, make_private_for_user, vary
from pipeline.http.exceptions import adopt_exception
from pipeline.http.header_lists import values_in, without
from pipeline.http.tracebacks import chain_of, shortened, traceback_of
from pipeline.interfaces import Unavailable
from pipeline.request import Request
from pipeline.response import CHECKED, NOSNIFF, HeaderList, Response

log = logging.getLogger("pipeline")

INTERNAL_ERROR = "500 Internal Server Error"
UNAVAILABLE = "503 Service Unavailable"
SORRY = "An error occurred."
TRY_AGAIN = "This cannot be done now. Please try again."
OUTCOMES = {
    "committed": " What you sent, or a part of it, was stored all the same. Please look before you send it again.",
    "unknown": " It is not known whether what you sent was stored. Please look before you send it again.",
}
"""Sentences added to a page by the outcome of the transaction (R4)."""

NO_STORE = ("Cache-Control", "no-store")

LONGEST_DETAIL = 2_000
"""Characters of the message of an error that are shown or logged."""


class DebugRequest(Request):
    """The attributes that an element with a debug mode adds to a request."""

    debug: bool = False
    """True if the visitor may see the pages for developers (S17)."""
    short_tracebacks: bool = False
    """True if frames of the pipeline itself are left out of the log, as in debug mode."""
    debug_flags: tuple[str, ...] = ()
    """The values of ``++debug++`` in the path."""


def lets_out(environ: dict[str, Any]) -> bool:
    """Return whether the program that calls the application wants exceptions in the place of error pages. Test
    browsers say so by ``x-wsgiorg.throw_errors``; those of Zope by ``wsgi.handleErrors``. Clients cannot set it."""
    return bool(environ.get("x-wsgiorg.throw_errors")) or not environ.get("wsgi.handleErrors", True)


def log_failure(request: Request, error: Exception, when: str = "", id: str = "") -> str:
    """Log an error in one line with the traceback below it, and tell the ``reporter`` that ``errors`` has.

    Returns the id under which it was logged, which belongs on the page. Raises nothing.
    """
    id = _noted_id(request, id)
    if log.isEnabledFor(logging.ERROR):
        arguments = (id, _where(request, when), f"{type(error).__name__}{_trace_of(request)}")
        exc_info = (type(error), error, error.__traceback__)
        record = log.makeRecord(log.name, logging.ERROR, __file__, 0, "error %s: %s: %s", arguments, exc_info)
        is_short = getattr(request, "short_tracebacks", False)
        record.exc_text = traceback_of(error, is_short=is_short)  # a formatter would make one of any length
        log.handle(record)
    _report(request, error, id)
    return id


def log_unavailable(request: Request, error: Exception, when: str = "", id: str = "") -> str:
    """Log a temporary error in one line, as a warning without a traceback.

    An error that is in the log already, such as an outage that lasts, gets no further line and no new id.
    """
    if getattr(error, "logged", False):
        return id
    id = _noted_id(request, id)
    what = one_line(f"{type(error).__name__}: {text_of(error)}")
    log.warning("error %s: %s: 503, %s%s", id, _where(request, when), what, _trace_of(request))
    _report(request, error, id)
    return id


def _noted_id(request: Request, id: str) -> str:
    """Return the id of an error, which is that of its request if it has one, and note it on the request."""
    noted: str = id or request.__dict__.get("_request_id") or secrets.token_hex(6)
    request.__dict__["error_id"] = noted
    return noted


def _where(request: Request, when: str) -> str:
    return one_line(f"{request.environ['REQUEST_METHOD']} {request.path_info_safe}{when and ', '}{when}")


def _trace_of(request: Request) -> str:
    """Return words with the id of the trace, which the access log has as well; "" without a trace."""
    span = getattr(request.measures, "span", None)
    traced = None if span is None else span.get_span_context()
    return f", trace {traced.trace_id:032x}" if traced is not None and traced.is_valid else ""


def _report(request: Request, error: Exception, id: str) -> None:
    if request.reporter is not None:
        try:
            request.reporter(request, error, id)
        except Exception:
            log.exception("error %s: the reporter %r failed", id, request.reporter)


class Problem(NamedTuple):
    """The answer to a visitor for an error."""

    status: str
    """The status line, such as ``404 Not Found``."""
    detail: str
    """A sentence or two for the visitor."""
    id: str = ""
    """The id of the error in the log; "" if it is not logged."""
    headers: Sequence[tuple[str, str]] = ()
    """Headers of the answer, such as ``Allow``. They replace those of the page of the same name."""
    traceback: str = ""
    """The traceback, for developers alone (S17)."""
    page: str = ""
    """An HTML page for developers alone, in the place of the usual one."""
    errors: Sequence[dict[str, str]] = ()
    """All that is wrong with what was sent, each with ``detail`` and ``pointer``, for programs."""

    @property
    def code(self) -> str:
        return self.status[:3]

    @property
    def title(self) -> str:
        return self.status[4:]

    def all_headers(self, content_type: str) -> HeaderList:
        """Return the headers that the answer is sent with."""
        ours = ("Content-Type", content_type), NOSNIFF, NO_STORE
        return [*without(ours, *values_in(self.headers)), *self.headers]


def problem_of(request: Request, error: Exception, when: str = "", id: str = "") -> Problem:
    """Return what the visitor is told about an error. An error that is not an HTTP exception is logged first."""
    outcome = _outcome(request)
    if isinstance(error, WSGIHTTPException):
        detail = text_of(error.detail or "") or " ".join(error.explanation.split()) or error.title
        headers = *without(error.headerlist, "content-type", "content-length"), *outcome
        return Problem(error.status, detail, headers=headers, errors=getattr(error, "errors", ()))
    if not outcome and (
        isinstance(error, Unavailable) or request.judge(error).transient or out_of_descriptors(error)
    ):
        seconds = error.retry_after if isinstance(error, Unavailable) else 1
        retry_after = [("Retry-After", f"{seconds:.0f}")]
        return Problem(UNAVAILABLE, TRY_AGAIN, log_unavailable(request, error, when, id), retry_after)
    return _failed(request, log_failure(request, error, when, id))


def _failed(request: Request, id: str) -> Problem:
    return Problem(INTERNAL_ERROR, SORRY + OUTCOMES.get(request.outcome, ""), id, _outcome(request))


def _outcome(request: Request) -> HeaderList:
    """Return the header with the outcome of the transaction, by which a program decides on another try (R4)."""
    return [("X-Outcome", request.outcome)] if request.outcome else []


def put_answer(request: Request, response: Response, error: Exception) -> bool:
    """Put on the response an HTTP exception that needs no page: a redirect, or one with a body of its own.

    Return False for any other error.
    """
    if isinstance(error, WSGIHTTPException):
        if error.status_int >= 400 and not error.has_body and not error.empty_body:
            return False
        adopt_exception(response, error)
    elif isinstance(error, HTTPException):
        answer = error.wsgi_response
        response.adopt(answer.status, list(answer.headerlist), answer.app_iter)
    else:
        return False
    if response.status >= "400":
        response.headerlist.extend(_outcome(request))
    return True


def put_problem(response: Response, problem: Problem, accept: str | None) -> None:
    """Put the problem on the response, as the type that the Accept header prefers."""
    content_type, write = _WRITERS[best_type(accept)]
    body = write(problem).encode("utf-8", "replace")
    headers = problem.all_headers(content_type)
    if write is as_html and not problem.page and POLICY[0].lower() not in values_in(headers):
        headers.append(POLICY)
    response.adopt(problem.status, headers, [body])
    if NO_STORE not in headers:  # it has said that caches may keep it
        vary(response.headerlist, "Accept")


def accept_of(environ: dict[str, Any]) -> str | None:
    """Return the types that a client accepts. One that sends JSON, and accepts anything, gets problem details."""
    accept: str | None = environ.get("HTTP_ACCEPT")
    if accept == "*/*" and environ.get("CONTENT_TYPE", "").lower().startswith("application/json"):
        return "application/problem+json"
    return accept


def put_error(request: Request, response: Response, error: Exception) -> None:
    """Answer an error with a page of ours, or as it says itself."""
    if not put_answer(request, response, error):
        problem = problem_of(request, error)
        if debug_key.may_see(request):
            problem = debug_key.tell(request, error, problem)
        put_problem(response, problem, accept_of(request.environ))
    make_private_for_user(request, response)


def put_last_resort(request: Request, response: Response, failure: Exception) -> None:
    """Answer what went wrong while another error was being answered."""
    put_problem(response, _failed(request, log_failure(request, failure, "in an error page")), None)


def as_text(problem: Problem) -> str:
    logged = f" It was logged as {problem.id}." if problem.id else ""
    shown = f"\n{problem.traceback}\n" if problem.traceback else ""
    return f"{problem.detail}{logged}\n{shown}"


def as_json(problem: Problem) -> str:
    """Problem details; ``type`` is about:blank, since the status says all that there is to say."""
    members: dict[str, Any] = {
        "type": "about:blank",
        "title": problem.title,
        "status": int(problem.code),
        "detail": problem.detail,
    }
    if problem.errors:
        members["errors"] = problem.errors
    if problem.id:
        members["instance"] = problem.id
    if problem.traceback:
        members["traceback"] = problem.traceback.splitlines()
    return json.dumps(members) + "\n"


_PAGE = Path(__file__).with_name("error.html").read_text("utf-8").split("%s")
"""The page between its title, the title as a heading, the detail, the status and the traceback."""
POLICY = page_policy(_PAGE[1].partition("<style>")[2].partition("</style>")[0])
"""The policy of the page. It has its style sheet and loads nothing, whatever the site allows (S7)."""


def as_html(problem: Problem) -> str:
    if problem.page:
        return problem.page
    logged = f", logged as <code>{escape(problem.id)}</code>" if problem.id else ""
    shown = f"<pre>{escape(problem.traceback)}</pre>\n" if problem.traceback else ""
    title, detail, code = _escaped(problem.title, problem.detail, problem.code)
    top, middle, below, status, end, rest = _PAGE
    return f"{top}{title}{middle}{title}{below}{detail}{status}{code}{logged}{end}{shown}{rest}"


@lru_cache(maxsize=256)
def _escaped(*texts: str) -> list[str]:
    """Return the texts for HTML. Most error pages of a site have the same."""
    return list(map(escape, texts))


_PLAIN = "text/plain"
_PROBLEM_JSON = ("application/problem+json", as_json)
_WRITERS: dict[str, tuple[str, Callable[[Problem], str]]] = {
    "text/html": ("text/html; charset=UTF-8", as_html),
    "application/problem+json": _PROBLEM_JSON,
    "application/json": _PROBLEM_JSON,
    _PLAIN: ("text/plain; charset=UTF-8", as_text),
}
"""How each type is written. If the client weights several equally, the first listed wins."""
CHECKED.update((NO_STORE, POLICY), (("Content-Type", kind) for kind, _ in _WRITERS.values()))


def best_type(accept: str | None) -> str:
    """Return the type that an Accept header asks for, among those that we can write.

    Of types with the same q-value, one that the header names beats one that it only allows by ``*``. If it
    names none, plain text wins: ``*/*`` is sent by tools, and by scripts that did not say what they want.
    """
    return _best_type((bounded(accept) or "").lower())


@lru_cache(maxsize=256)
def _best_type(header: str) -> str:
    asked = dict(accepted(header, list(_WRITERS)))

    def wanted(name: str) -> tuple[float, bool, bool]:
        return asked[name], name != _PLAIN and name in header, name == _PLAIN

    return max((name for name in _WRITERS if name in asked), key=wanted, default=_PLAIN)


def out_of_descriptors(error: BaseException | None) -> bool:
    """Return whether the cause of an error is that the process or the machine had no file descriptor left (S15).
    That is temporary."""
    lacking = errno.EMFILE, errno.ENFILE
    return any(isinstance(one, OSError) and one.errno in lacking for one in chain_of(error))


def text_of(value: object) -> str:
    """Return ``str(value)``, or what prevents it."""
    try:
        return shortened(str(value), LONGEST_DETAIL)
    except Exception as error:
        return f"<{type(value).__name__}, whose str() raises {type(error).__name__}>"


def one_line(text: str) -> str:
    """Return a text as one line of a log, with escapes for control and other unprintable characters."""
    return text if text.isprintable() else repr(text)[1:-1]
