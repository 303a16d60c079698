"""The page of an error for a visitor who has the key of debug mode (S17): what ``pipeline explain`` tells and more.

It has the cause, the frames of an exception with the lines around each, the way to the view, the request, and what
the databases were asked, if the element ``inspector`` has noted that. There is no console, and no value of a
variable. Cookies and credentials are masked.
"""

from __future__ import annotations

import linecache
import re
import shlex
import traceback
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from traceback import walk_tb
from types import CodeType, SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from webob.exc import HTTPException, WSGIHTTPException

from pipeline.between import Step, step_of_element
from pipeline.explaining.causes import Cause, Late, Way, causes
from pipeline.explaining.changes import told_state
from pipeline.explaining.recording import Part
from pipeline.explaining.remedies import remedy_of
from pipeline.explaining.walking import Walk, look_up, walk_again
from pipeline.foreign import foreign
from pipeline.http.error_pages import Problem, text_of
from pipeline.http.tracebacks import chain_of, traceback_of
from pipeline.ini import Source
from pipeline.order import Contract
from pipeline.telling.secrets import masked_query, told_variable, value_of
from pipeline.telling.styling import HAS_TEMPLATES, environment, policy
from pipeline.telling.words import WATCHERS, header_name, is_header, is_of_the_site, line_of_the_site

MOST_FRAMES = 60
MOST_CAUSES = 5
AROUND = 4
"""Lines that are shown before and after the line of a frame."""
LONGEST_LINE = 500
Ways = list[tuple[str, list[str]]]
"""The way to the view: titles, each with its lines."""


def tell(request: Any, error: Exception, problem: Problem) -> Problem:
    """Return the problem with what a developer may see. Traversal and the look-up of the view run again.

    Raises nothing: an error of this page itself is shown on the page.
    """
    if not isinstance(error, WSGIHTTPException):
        problem = problem._replace(traceback=traceback_of(error))
    try:
        cause, ways = told_of(request, error)
        if isinstance(error, WSGIHTTPException) or not HAS_TEMPLATES:
            lines = [*lines_of(cause, ways), "", problem.traceback]
            problem = problem._replace(traceback="\n".join(lines).rstrip())
        if not HAS_TEMPLATES:  # the text stands on the built-in page
            return problem
        page = page_of(request, error, problem, cause=cause, ways=ways)
        return problem._replace(page=page, headers=[*problem.headers, policy()])
    except Exception as failure:
        text = f"This page could not find out more:\n{traceback_of(failure)}"
        return problem._replace(traceback=f"{problem.traceback}\n\n{text}".strip())


def told_of(request: Any, error: Exception) -> tuple[Cause, Ways]:
    """Return where an error arose and why, and the way to the view. That is not walked again if the database cannot
    be read once more, such as after a change that could not be stored."""
    try:
        if request.read_afresh is not None:
            request.read_afresh(request)
        way, late = passed(request, error)
    except Exception:
        way, late = passed(request, error, reads=False)
    if not way.parts:  # no element has met it
        frames = traceback.extract_tb(error.__traceback__)
        where = line_of_the_site(error) or (f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else "")
        return Cause(where, f"{type(error).__name__}: {text_of(error)}", remedy_of(error)), []
    return next(causes(way, 500, Path(ini_of(request)).parent, late)), list(way.lines())


def lines_of(cause: Cause, ways: Ways) -> Iterator[str]:
    """Yield what is known of an error, as text."""
    yield from cause.lines()
    for title, lines in ways:
        yield f"\n{title}"
        yield from lines


# The parts that an exception has passed, found by its frames: nothing watches the site.

FIRST: dict[str, Any] = {"context": None, "view_name": "", "virtual_root": None}
FIRST |= dict.fromkeys("default_steps more_steps namespaces subpath".split(), ())  # noqa: SIM905
"""The fields that traversal sets, as they are before it."""
_FOREIGN = foreign.__code__.co_filename
_ERROR_VIEW = "call_error_view"
"""The name of the function that calls an error view."""


def passed(request: Any, error: BaseException, reads: bool = True) -> tuple[Way, list[Late]]:
    """Return the way of a request up to an exception, and the exception if it was raised when all parts had
    returned. Traversal and the look-up of the view run again.

    reads  whether they can, so that there is a walk and a look
    """
    pipeline = request.pipeline
    contracts = pipeline.all_contracts if pipeline is not None else ()
    last, middleware = left_last(error, contracts)
    late = []
    if last < 0 and middleware is None:
        in_error_view = any(frame.f_code.co_name == _ERROR_VIEW for frame, _ in walk_tb(error.__traceback__))
        late = [Late("the error view failed" if in_error_view else "the body or an output filter failed", error)]
        last = len(contracts) - 1
    steps = [step_of_element(contract.element) for contract in contracts[: last + 1]]
    walks = next((step for step in steps if reads and step.facts.walks), None)
    walk = walk_again(request, FIRST, walks.element.options) if walks is not None else None
    noted: Walk | None = getattr(request, "zope_walk", None)
    if noted is not None and noted.decides():
        walk = noted
    at_end = last >= 0 and last == len(contracts) - 1
    had_context = reads and request.views is not None and (at_end or request.context is not None)
    look = look_up(request) if had_context else None
    if middleware is not None:
        found = SimpleNamespace(__code__=middleware, __name__=middleware.co_qualname.partition(".")[0])
        steps.append(Step(None, found, Source({}, found), {}))
    parts = [part_of(step, told_state(request)) for step in steps]
    if at_end and look is not None:
        parts[last].look, parts[last].views = look, request.views
    if parts and not late:
        parts[-1].error = error
    return Way(parts, walk, look), late


def left_last(error: BaseException, contracts: Sequence[Contract]) -> tuple[int, CodeType | None]:
    """Return the place of the element that an exception has left last, or -1, and the code of the foreign app or
    middleware inside of it that has raised the exception, or None."""
    codes = {getattr(contract.handler, "__code__", None): place for place, contract in enumerate(contracts)}
    last, middleware, in_foreign = -1, None, False
    for frame, _ in walk_tb(error.__traceback__):
        code = frame.f_code
        if code in codes:
            last, middleware = codes[code], None
        elif in_foreign and code.co_filename != _FOREIGN:
            middleware = code
        in_foreign = code.co_filename == _FOREIGN
    return last, middleware


def part_of(step: Step, state: Mapping[str, str]) -> Part:
    """Return a part, with what is known when it is over."""
    part = Part()
    part.step, part.request = step, state
    part.fields = FIRST if step.facts.walks else None
    return part


# The page.


def page_of(request: Any, error: Exception, problem: Problem, **told: Any) -> str:
    """Return the page of an error, with what is told of it."""
    ini = ini_of(request)
    return environment().get_template("error.html").render(
        problem=problem,
        asked=f"{request.environ['REQUEST_METHOD']} {request.path_info_safe}",
        errors=[] if isinstance(error, HTTPException) else list(errors_of(error)),
        record=getattr(request, "inspected", None),
        command=command_of(request, ini) if ini else "",
        test=test_of(request, ini) if ini else None,
        **asked_of(request),
        **told,
    )


class Frame(NamedTuple):
    """One frame: the file, the line, the function, and the lines around."""

    file: str
    line: int
    name: str
    ours: bool
    is_open: bool
    lines: list[tuple[int, str]]


def errors_of(error: Exception) -> Iterator[tuple[str, list[Frame]]]:
    """Yield each error of a chain: a title, and its frames, the innermost first. The first of the site is open."""
    for number, one in enumerate(islice(chain_of(error, has_hidden=False), MOST_CAUSES)):
        shown: list[Frame] = []
        opened = number > 0
        for frame, line in reversed(list(walk_tb(one.__traceback__))):
            file = frame.f_code.co_filename
            if file in WATCHERS or len(shown) == MOST_FRAMES:
                continue
            ours = not is_of_the_site(file)
            lines = lines_around(file, line, frame.f_globals)
            shown.append(Frame(file, line, frame.f_code.co_qualname, ours, not ours and not opened, lines))
            opened = opened or not ours
        yield f"{'Caused by ' if number else ''}{type(one).__name__}: {text_of(one)[:300]}", shown


def lines_around(file: str, line: int, variables: dict[str, Any]) -> list[tuple[int, str]]:
    """Return the lines of a file around one of them, with their numbers."""
    linecache.checkcache(file)
    lines = linecache.getlines(file, variables)
    first = max(1, line - AROUND)
    last = min(len(lines), line + AROUND)
    return [(number, lines[number - 1].rstrip()[:LONGEST_LINE] or " ") for number in range(first, last + 1)]


def asked_of(request: Any) -> dict[str, list[tuple[str, str]]]:
    """Return the headers and the form of the request, with the secrets masked."""
    environ: Mapping[str, Any] = request.environ
    asked = [
        ("Query", told_variable("QUERY_STRING", environ.get("QUERY_STRING", ""))),
        ("Client", str(environ.get("REMOTE_ADDR", ""))),
        ("Principal", request.principal or "not logged in"),
    ]
    sent = sorted(filter(is_header, environ))
    headers = [(header_name(name), told_variable(name, environ[name])) for name in sent]
    form = list((request.__dict__.get("form") or {}).items())[:100]
    fields = [(str(name), value_of(str(name), value)) for name, value in form]
    return {"asked_for": [pair for pair in asked if pair[1]], "headers": headers, "form": fields}


def ini_of(request: Any) -> str:
    """Return the path of the ini that the request's pipeline comes from, or ""."""
    pipeline = request.pipeline
    contracts = pipeline.all_contracts if pipeline is not None else ()
    sources = (contract.element.source for contract in contracts)
    files = [str(source.file) for source in sources if source is not None]
    return next((file.removeprefix(f"{Path.cwd()}/") for file in files), "")


def address_of(request: Any) -> str:
    """Return the path of a request with its query, percent-encoded."""
    environ = request.environ
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    query = masked_query(environ.get("QUERY_STRING", ""))
    return quote(path.encode("latin-1")) + (f"?{query}" if query else "")


def fields_of(request: Any) -> dict[str, str]:
    """Return the fields of the form of a request, if its body was one; without files."""
    form = request.__dict__.get("form") if request.environ["REQUEST_METHOD"] not in ("GET", "HEAD") else None
    return {str(name): value_of(str(name), value) for name, value in (form or {}).items() if isinstance(value, str)}


def command_of(request: Any, ini: str) -> str:
    """Return the ``pipeline explain`` that runs a request again."""
    environ = request.environ
    words = ["pipeline", "explain", ini, environ["REQUEST_METHOD"], address_of(request)]
    host = environ.get("HTTP_HOST", "localhost")
    if host.partition(":")[0] not in ("localhost", "127.0.0.1"):
        words += ["-H", f"Host: {host}"]
    if fields := fields_of(request):
        words += ["-d", urlencode(fields)]
    if request.principal:
        words += ["--user", str(request.principal)]
    return shlex.join(words)


def test_of(request: Any, ini: str) -> dict[str, Any]:
    """Return the values for a test of pytest that sends a request and fails as long as the answer is an error."""
    method, address = request.environ["REQUEST_METHOD"], address_of(request)
    name = re.sub(r"[^a-z0-9]+", "_", f"{method} {address.partition('?')[0]}".lower()).strip("_")
    fields = fields_of(request)
    call = f"{method.lower()}({address!r}{f', {fields!r}' if fields else ''})"
    if method not in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
        call = f"request({address!r}, method={method!r})"
    return {"name": name, "call": call, "ini": repr(ini), "login": request.principal and repr(request.principal)}
