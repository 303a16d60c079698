"""The page of an error for a visitor who has the key of debug mode (S17): what ``pipeline explain`` tells and more.

It has the cause, the frames of an exception with the lines around each, the way to the view, the request, and what
the databases were asked, if the element ``inspector`` has noted that. There is no console, and no value of a
variable. Cookies and credentials are masked.
"""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from webob.exc import HTTPException, WSGIHTTPException

from pipeline.explaining.candidates import Look
from pipeline.explaining.causes import Cause, Failure, Late, last_frame, of_error, of_late, of_zope
from pipeline.explaining.lines import look_lines, look_title, walk_lines
from pipeline.explaining.passed import passed
from pipeline.explaining.remedies import remedy_of
from pipeline.explaining.repeating import command_of, ini_of, test_of
from pipeline.explaining.walking import Walk
from pipeline.http.error_pages import Problem, text_of, traceback_of
from pipeline.telling.secrets import told_variable, value_of
from pipeline.telling.styling import policy, style
from pipeline.telling.words import is_of_the_site

WATCHERS = {str(Path(__file__).parents[1] / "inspector" / name) for name in ("recording.py", "inspecting.py")}
"""Files whose frames say nothing about an error."""
MOST_FRAMES = 60
MOST_CAUSES = 5
AROUND = 4
"""Lines that are shown before and after the line of a frame."""
LONGEST_LINE = 500


class Told(NamedTuple):
    """The facts about an error."""

    cause: Cause
    walk: Walk | None
    look: Look | None


def tell(request: Any, error: Exception, problem: Problem) -> Problem:
    """Return the problem with what a developer may see. Traversal and the look-up of the view run again.

    Raises nothing: what fails here is told in the place of it.
    """
    if not isinstance(error, WSGIHTTPException):
        problem = problem._replace(traceback=traceback_of(error))
    try:
        told = told_of(request, error)
        if isinstance(error, WSGIHTTPException):
            problem = problem._replace(traceback="\n".join(lines_of(told)))
        headers = [*problem.headers, policy()]
        return problem._replace(page=page_of(request, error, problem, told), headers=headers)
    except Exception as failure:
        text = f"This page could not find out more:\n{traceback_of(failure)}"
        return problem._replace(traceback=f"{problem.traceback}\n\n{text}".strip())


def told_of(request: Any, error: Exception) -> Told:
    """Return where an error arose and why. The way to the view is not walked again if the database cannot be read
    once more, such as after a change that could not be stored."""
    try:
        if request.read_afresh is not None:
            request.read_afresh(request)
        way = passed(request, error)
    except Exception:
        way = passed(request, error, reads=False)
    if not way.visits:
        return Told(unplaced(error), None, None)
    if way.walk is not None and way.walk.cause is not None:
        return Told(of_zope(way.walk, 500), way.walk, None)
    if way.when:
        return Told(of_late(Late(way.when, error), way.visits[-1], way.look), way.walk, way.look)
    ini = ini_of(request)
    directory = Path(ini).parent if ini else Path.cwd()
    cause = of_error(Failure(error, way.visits[-1], way.visits, way.walk, way.look, directory))
    return Told(cause, way.walk, way.look)


def unplaced(error: Exception) -> Cause:
    """Return the cause of an error that no element has met."""
    frames = traceback.extract_tb(error.__traceback__)
    where = last_frame(error) or (f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else "")
    return Cause(where, f"{type(error).__name__}: {text_of(error)}", remedy_of(error))


def lines_of(told: Told) -> Iterator[str]:
    """Yield what is known of an error, as text."""
    yield f"why     {told.cause.why}"
    yield f"where   {told.cause.where}"
    if told.cause.remedy:
        yield f"change  {told.cause.remedy}"
    if told.walk is not None:
        yield "\nTraversal"
        yield from walk_lines(told.walk)
    if told.look is not None:
        yield f"\nView {look_title(told.look)}"
        yield from look_lines(told.look)


# The page.


def page_of(request: Any, error: Exception, problem: Problem, told: Told) -> str:
    """Return the page of an error."""
    environ = request.environ
    asked = f"{environ['REQUEST_METHOD']} {request.path_info_safe}"
    logged = f" It was logged as <code>{escape(problem.id)}</code>." if problem.id else ""
    parts = [cause_section(told.cause)]
    if not isinstance(error, HTTPException):
        parts += [frames_section(one, number) for number, one in enumerate(chain_of(error))]
        text = f"<details><summary>To copy</summary>\n<pre>{escape(problem.traceback)}</pre></details>\n"
        parts.append(section("Traceback", text))
    parts += [way_section(request, told), databases_section(request), request_section(request)]
    parts.append(repeat_section(request))
    return f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(problem.code)} {escape(asked)}</title>
<style>
{style()}</style>
</head>
<body>
<main>
<h1>{escape(problem.title)}</h1>
<p><span class="badge s{escape(problem.code[:1])}">{escape(problem.code)}</span>
<span class="path">{escape(asked)}</span></p>
<p class="quiet">The visitor reads: {escape(problem.detail)}{logged}</p>
{"".join(parts)}</main>
</body>
</html>
"""


def section(title: str, body: str) -> str:
    """Return a section with a heading; nothing if it is empty."""
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}</section>\n" if body else ""


def pairs(values: Iterable[tuple[str, str]]) -> str:
    """Return names and values."""
    rows = "".join(f"<dt>{escape(name)}</dt><dd><code>{escape(value)}</code></dd>\n" for name, value in values)
    return f'<dl class="pairs">\n{rows}</dl>\n' if rows else ""


def cause_section(cause: Cause) -> str:
    """Return why, where, and what to change."""
    remedy = f"<p>{escape(cause.remedy)}</p>\n" if cause.remedy else ""
    where = f'<p class="quiet"><code>{escape(cause.where)}</code></p>'
    return section("Why", f'<div class="cause">\n<p>{escape(cause.why)}</p>\n{where}\n{remedy}</div>\n')


def chain_of(error: BaseException) -> list[BaseException]:
    """Return an error and the errors that it came of, the last one first."""
    found: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and len(found) < MOST_CAUSES and following not in found:
        found.append(following)
        suppressed = following.__suppress_context__
        following = following.__cause__ or (None if suppressed else following.__context__)
    return found


def frames_section(error: BaseException, number: int) -> str:
    """Return the frames of an error, the innermost first. Those of the site are open."""
    frames = [pair for pair in traceback.walk_tb(error.__traceback__) if pair[0].f_code.co_filename not in WATCHERS]
    frames = frames[-MOST_FRAMES:]
    shown = []
    opened = False
    for frame, line in reversed(frames):
        code = frame.f_code
        ours = not is_of_the_site(code.co_filename)
        is_open = number == 0 and not ours and not opened
        opened = opened or is_open
        shown.append(frame_item(code.co_filename, line, code.co_qualname, frame.f_globals, ours, is_open))
    title = f"{'Caused by ' if number else ''}{type(error).__name__}: {text_of(error)[:300]}"
    return section(title, "".join(shown) or "<p>It has no frames.</p>\n")


def frame_item(file: str, line: int, name: str, variables: dict[str, Any], ours: bool, is_open: bool) -> str:
    """Return one frame: the file, the line, the function, and the lines around."""
    linecache.checkcache(file)
    lines = linecache.getlines(file, variables)
    first = max(1, line - AROUND)
    rows = ""
    for number in range(first, min(len(lines), line + AROUND) + 1):
        text = escape(lines[number - 1].rstrip()[:LONGEST_LINE] or " ")
        here = ' class="here"' if number == line else ""
        rows += f"<li{here}><span>{number}</span><code>{text}</code></li>\n"
    source = f"<ol>\n{rows}</ol>\n" if rows else "<p>The source is not there.</p>\n"
    kind = "frame ours" if ours else "frame"
    title = f"<code>{escape(name)}</code> in <code>{escape(file)}</code>, line {line}"
    state = " open" if is_open else ""
    return f'<details class="{kind}"{state}><summary>{title}</summary>\n{source}</details>\n'


def way_section(request: Any, told: Told) -> str:
    """Return the parts that the request passed, with the time of each, and the way from the root to the view."""
    record = getattr(request, "inspected", None)
    text = ""
    if record is not None:
        rows = "".join(
            f'<tr><th scope="row"><span class="name">{escape(part.name)}</span></th>'
            f'<td class="number">{_taken(record, part)}</td><td>{escape(part.raised)}</td></tr>\n'
            for part in record.parts
            if part.attempt == record.attempts
        )
        head = '<tr><th scope="col">Element</th><th scope="col">Own time</th><th scope="col">Raised</th></tr>'
        text = f"<table><thead>{head}</thead>\n<tbody>\n{rows}</tbody></table>\n" if rows else ""
    for title, lines in (
        ("Traversal", list(walk_lines(told.walk)) if told.walk is not None else []),
        (f"View {look_title(told.look)}", list(look_lines(told.look))) if told.look is not None else ("", []),
    ):
        if lines:
            text += f"<h3>{escape(title)}</h3>\n<pre>{escape(chr(10).join(lines))}</pre>\n"
    return section("The way it took", text)


def _taken(record: Any, part: Any) -> str:
    return f"{record.own(part) * 1_000:.2f} ms" if part.ended else ""


def databases_section(request: Any) -> str:
    """Return what the databases were asked, if the inspector has noted it."""
    record = getattr(request, "inspected", None)
    if record is None:
        hint = "Put the element inspector outermost into the pipeline: it notes the statements and the objects."
        return section("Databases", f'<p class="quiet">{hint}</p>\n')
    noted = [note for note in record.notes if note.kind != "log"]
    if not noted:
        return ""
    rows = "".join(
        f'<li><span class="quiet">{note.kind}</span><span>{note.seconds * 1_000:.2f} ms</span>'
        f"<code>{escape(note.text)}</code></li>\n"
        for note in noted
    )
    return section("Databases", f'<ol class="notes">\n{rows}</ol>\n')


def request_section(request: Any) -> str:
    """Return the headers and the form of the request, with the secrets masked."""
    environ: Mapping[str, Any] = request.environ
    headers = [
        (name.removeprefix("HTTP_").replace("_", "-").title(), told_variable(name, environ[name]))
        for name in sorted(environ)
        if name.startswith("HTTP_") or name in ("CONTENT_TYPE", "CONTENT_LENGTH")
    ]
    asked = [
        ("Query", told_variable("QUERY_STRING", environ.get("QUERY_STRING", ""))),
        ("Client", str(environ.get("REMOTE_ADDR", ""))),
        ("Principal", request.principal or "not logged in"),
    ]
    form = request.__dict__.get("form")
    fields = [(str(name), value_of(str(name), value)) for name, value in list(form.items())[:100]] if form else []
    text = pairs((name, value) for name, value in asked if value) + f"<h3>Headers</h3>\n{pairs(headers)}"
    if fields:
        text += f"<h3>Form</h3>\n{pairs(fields)}"
    return section("The request", text)


def repeat_section(request: Any) -> str:
    """Return the command and the test that repeat the request, to copy."""
    ini = ini_of(request)
    if not ini:
        return ""
    test = f"<details><summary>As a test</summary>\n<pre>{escape(test_of(request, ini))}</pre></details>\n"
    return section("Repeat it", f"<pre>{escape(command_of(request, ini))}</pre>\n{test}")
