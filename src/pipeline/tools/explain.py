"""``pipeline explain INI METHOD /path``: run one request, and show the way it took and why it was answered so."""

from __future__ import annotations

import argparse
import logging
import textwrap
from collections.abc import Sequence
from time import perf_counter
from typing import Any, NamedTuple

from pipeline.database.only_look import if_locked
from pipeline.explaining.causes import Cause, Late, causes, no_branch, path_of
from pipeline.explaining.lines import look_lines, look_title, walk_lines
from pipeline.explaining.watching import Recorder, Visit
from pipeline.loading.asking import answer_of, request_of, say_read_only
from pipeline.loading.building import around, build
from pipeline.loading.command_line import add_variables, options_of, split_name
from pipeline.telling.findings import put_json
from pipeline.telling.words import bold, short

EPILOG = """\
examples:
  pipeline explain site.ini GET /docs/page
  pipeline explain site.ini POST /counter/next --user admin
  pipeline explain site.ini GET / -H "Accept: application/json" -H "Host: www.example.com"
  pipeline explain site.ini POST /@@edit -d "title=New" -d "text=..." --commit

The request runs in this process, with the databases of the ini. What it changes is aborted at its end, unless
--commit is given; what a view does elsewhere (mail, files) is done. Exit status: 0 below 400, 1 from 400 on."""


LONGEST = 116
"""Characters of a line."""
WHEN = {
    "closing ": "a function of request.on_close failed; the answer was sent all the same",
    "in mid-stream": "the body failed in mid-stream, when its status and its first blocks were sent",
    "in an error view": "the error view failed",
}
"""The meaning of a logged exception that no part of the pipeline has seen, by a part of the message."""


class Log(logging.Handler):
    """Keeps the records of a request."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []
        self.late: list[Late] = []
        """The exceptions that were logged."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.name != "pipeline.access":
            said = record.getMessage()
            self.lines.append(f"{record.levelname} {record.name}: {said}")
            if record.exc_info and record.exc_info[1] is not None and record.levelno >= logging.ERROR:
                when = next((WHEN[mark] for mark in WHEN if mark in said), "the body or an output filter failed")
                self.late.append(Late(when, record.exc_info[1]))


class Explained(NamedTuple):
    """A request that was run, and its answer."""

    recorder: Recorder
    line: str
    headers: list[tuple[str, str]]
    body: bytes
    seconds: float
    log: list[str]
    causes: list[Cause]
    escaped: BaseException | None
    """The exception that reached the server, or None."""

    @property
    def failed(self) -> bool:
        """True if the answer is an error, or does not come to its end."""
        return self.escaped is not None or int(self.line[:3]) >= 400


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="pipeline explain",
        description="Runs one request through an ini. Shows each element with its time and what it changed, each "
        "step of traversal, every view that was a candidate, and why the answer is what it is.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("ini", metavar="INI", help="the ini, such as etc/deploy.ini, or etc/deploy.ini#name")
    parser.add_argument("method", metavar="METHOD", help="GET, POST, ...")
    parser.add_argument("path", metavar="/path", help="the path, percent-encoded, with a query if there is one")
    add_variables(parser)
    parser.add_argument("-H", metavar="HEADER", dest="headers", action="append", default=[], help="'Name: value'")
    parser.add_argument("-d", metavar="DATA", dest="data", action="append", default=[], help="the body, or @FILE")
    parser.add_argument("--user", metavar="NAME", help="ask as this user, without a password")
    parser.add_argument("--commit", action="store_true", help="commit what the request changes")
    further = "show all that each element changed, traversal, the candidates and the log, as an error has them"
    parser.add_argument("--long", action="store_true", help=further)
    parser.add_argument("--json", action="store_true", help="print the same as JSON")
    options = options_of(parser, arguments)
    if not options.path.startswith("/"):
        parser.error(f"the path {options.path!r} must start with /")
    explained = explain(
        options.ini,
        request_of(options.method, options.path, options.headers, options.data),
        options.variables,
        user=options.user,
        commit=options.commit,
    )
    if options.json:
        put_json(as_dict(explained))
    else:
        asked = f"{options.method.upper()} {options.path}"
        put(explained, asked, options.commit, options.long or explained.failed)
    return 1 if explained.failed else 0


def explain(
    ini: str, environ: dict[str, Any], words: list[str], *, user: str | None = None, commit: bool = False
) -> Explained:
    """Run one request through an ini, and return what is to be said of it."""
    recorder = Recorder(user, commit)
    missed: list[Cause] = []
    watchers = [around(recorder.watch, recorder.opened)]
    built = build(ini, words, watchers, lambda *found: missed.append(no_branch(*found)))
    recorder.listen_to_sql()
    log = Log()
    logger = logging.getLogger()
    level = logger.level
    logger.addHandler(log)
    logger.setLevel(min(level, logging.INFO))
    began = perf_counter()
    try:
        with if_locked(say_read_only):
            line, headers, sent, escaped = answer_of(built.app, environ)
    finally:
        logger.removeHandler(log)
        logger.setLevel(level)
    seconds = perf_counter() - began
    late = log.late
    if escaped is not None and all(one.error is not escaped for one in late):
        late.append(Late("it reached the server", escaped))
    found = list(causes(recorder, int(line[:3]), split_name(ini)[0].parent, late, missed))
    return Explained(recorder, line, headers, sent, seconds, log.lines, found, escaped)


def as_dict(explained: Explained) -> dict[str, Any]:
    """Return what is to be said of a request, for JSON."""
    recorder = explained.recorder
    path = path_of(recorder.visits)
    walk = next((visit.walk for visit in path if visit.walk is not None), None)
    look = next((visit.look for visit in reversed(path) if visit.look is not None), None)
    return {
        "status": explained.line,
        "headers": explained.headers,
        "seconds": explained.seconds,
        "broken_by": None if explained.escaped is None else type(explained.escaped).__name__,
        "causes": [cause._asdict() for cause in explained.causes],
        "parts": [
            {
                "name": visit.name,
                "where": visit.step.where,
                "foreign": visit.step.element is None,
                "own_seconds": visit.own,
                "request": visit.changed(),
                "response": visit.answered(),
                "raised": None if visit.error is None else type(visit.error).__name__,
            }
            for visit in path
        ],
        "traversal": [
            {**taken._asdict(), "obj": short(taken.obj)} for taken in (walk.steps if walk is not None else ())
        ],
        "view": None
        if look is None
        else {
            "context": look.context,
            "name": look.name,
            "method": look.method,
            "candidates": [candidate.as_dict() for candidate in look.candidates],
        },
        "attempts": recorder.attempts,
        "objects": {"loaded": recorder.loads, "changed": recorder.changed, "stored": recorder.stores},
        "made_of": None
        if recorder.made_of is None
        else {
            **recorder.made_of._asdict(),
            "objects": [one._asdict() for one in recorder.made_of.objects],
            "vary_lacks": vary_lacks(explained),
        },
        "kept": recorder.kept,
        "statements": recorder.statements,
        "log": explained.log,
    }


def put(explained: Explained, asked: str, commit: bool, long: bool) -> None:
    """Print what is to be said of a request; or a line for each element, and what the databases were asked."""
    recorder = explained.recorder
    path = path_of(recorder.visits)
    broken = ", then broken off" if explained.escaped is not None else ""
    took = f"{explained.seconds * 1000:.1f} ms"
    print(f"{bold(f'{asked} -> {explained.line}')}, {len(explained.body)} bytes{broken}, {took}")
    for cause in explained.causes:
        print()
        _put("why     ", cause.why)
        _put("where   ", cause.where)
        if cause.remedy:
            _put("change  ", cause.remedy)
    if path:
        hint = "" if long else " and the names of its changes; --long shows more"
        print(f"\n{bold('Elements')}, outermost first, each with its own time{hint}")
        width = max(len(visit.name) for visit in path)
        for visit in path:
            put_visit(visit, width, long)
    if long:
        put_way(path)
    put_made_of(explained, long)
    put_database(recorder, commit, long)
    if recorder.attempts > 1:
        print(f"\n{bold('Attempts')}: {recorder.attempts}")
    if log := [line for line in explained.log if long or not line.startswith(("INFO ", "DEBUG "))]:
        print(f"\n{bold('Log')}")
        for line in log:
            print(textwrap.indent(line, "  "))


def put_way(path: list[Visit]) -> None:
    """Print the steps of traversal, and the candidates for the view."""
    for visit in path:
        if visit.walk is not None:
            print(f"\n{bold('Traversal')}")
            print("\n".join(walk_lines(visit.walk)))
    for visit in path:
        if visit.look is not None:
            print(f"\n{bold('View')} {look_title(visit.look)}")
            print("\n".join(look_lines(visit.look)))


def vary_lacks(explained: Explained) -> list[str]:
    """Return the headers that ``Vary`` should name, and does not; of an answer that caches may keep."""
    made_of = explained.recorder.made_of
    return made_of.lacking_in(explained.headers) if made_of is not None and explained.line[:3] == "200" else []


def put_made_of(explained: Explained, long: bool) -> None:
    """Print what the page is made of; or only what is wrong with it, and how it was kept."""
    recorder = explained.recorder
    lines = list(recorder.made_of.lines()) if long and recorder.made_of is not None else []
    if lacking := vary_lacks(explained):
        lines.append(f"Vary does not name {', '.join(lacking)}: a cache may send this page to other requests")
    if recorder.kept:
        lines.append(f"keep: {recorder.kept}")
    if lines:
        print(f"\n{bold('Made of')}")
        print(textwrap.indent("\n".join(lines), "  "))


def put_database(recorder: Recorder, commit: bool, long: bool) -> None:
    """Print what the request did in databases."""
    database = [f"{recorder.loads} objects loaded"] if recorder.loads else []
    if recorder.changed or recorder.stores:
        database.append(f"{recorder.changed} changed, {recorder.stores} stored")
    if recorder.statements:
        database.append(f"{len(recorder.statements)} SQL statements")
    if database:
        undone = "" if commit else "; nothing is committed without --commit"
        print(f"\n{bold('Database')}: {', '.join(database)}{undone}")
    for statement in recorder.statements[:50] if long else ():
        print(f"  {short(' '.join(statement.split()), 110)}")


def put_visit(visit: Visit, width: int, long: bool) -> None:
    """Print one part of the pipeline, with what it changed."""
    raised = f"  raised {type(visit.error).__name__}" if visit.error is not None else ""
    foreign = "  (foreign)" if visit.step.element is None else ""
    line = f"  {visit.name:{width}} {visit.own * 1000:8.2f} ms{foreign}{raised}"
    if not long:
        names = ", ".join(name.removeprefix("header ") for name in (*visit.changed(), *visit.answered()))
        print(short(f"{line}  {names}".rstrip(), LONGEST))
        return
    print(line)
    for name, value in visit.changed().items():
        print(f"  {'':{width}}    in   {name} = {value}")
    for name, value in visit.answered().items():
        print(f"  {'':{width}}    out  {name}: {value}")


def _put(title: str, text: str) -> None:
    print(textwrap.fill(text, LONGEST, initial_indent=title, subsequent_indent=" " * 8, break_on_hyphens=False))
