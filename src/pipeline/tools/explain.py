"""``pipeline explain INI METHOD /path``: run one request, and show the way it took and why it was answered so."""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple

from pipeline.database.instead import read_only_if_locked
from pipeline.explaining.causes import Cause, Late, Way, causes, way_of
from pipeline.explaining.changes import BODY
from pipeline.explaining.recording import Part, Recorder
from pipeline.loading.asking import answer_of, request_of, say_read_only
from pipeline.loading.building import build
from pipeline.loading.command_line import options_of, parser_of, split_name
from pipeline.telling.findings import put_json
from pipeline.telling.secrets import masked_query
from pipeline.telling.words import bold, short

LONGEST = 116
"""Characters of a line."""
ACCESS = "pipeline.access"
"""The logger of the access log, unless its element names another."""
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
        if record.name != ACCESS:
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
    way: Way

    @property
    def failed(self) -> bool:
        """True if the answer is an error, or does not come to its end."""
        return self.escaped is not None or int(self.line[:3]) >= 400


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    parser = parser_of("explain")
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
        asked = f"{options.method.upper()} {masked_query(options.path)}"
        put(explained, asked, options.commit, options.long or explained.failed)
    return 1 if explained.failed else 0


def explain(
    ini: str, environ: dict[str, Any], words: list[str], *, user: str | None = None, commit: bool = False
) -> Explained:
    """Run one request through an ini, and return what is to be said of it."""
    recorder = Recorder(user, commit)
    built = build(ini, words, recorder.watch, recorder.opened)
    recorder.listen_to_sql()
    log = Log()
    logger = logging.getLogger()
    level = logger.level
    logger.addHandler(log)
    logger.setLevel(min(level, logging.INFO))
    access = logging.getLogger(ACCESS)
    access_level = access.level
    access.setLevel(logging.CRITICAL)  # ``file = stdout`` of ``log`` would write between our lines
    began = perf_counter()
    try:
        with read_only_if_locked(say_read_only):
            line, headers, sent, escaped = answer_of(built.app, environ)
    finally:
        logger.removeHandler(log)
        logger.setLevel(level)
        access.setLevel(access_level)
    seconds = perf_counter() - began
    if recorder.record is not None:
        recorder.record.status, recorder.record.headers = line, headers
    way, late = way_of(recorder.record), log.late
    if escaped is not None and all(one.error is not escaped for one in late):
        late.append(Late("it reached the server", escaped))
    found = list(causes(way, int(line[:3]), split_name(ini)[0].parent, late))
    return Explained(recorder, line, headers, sent, seconds, log.lines, found, escaped, way)


def as_dict(explained: Explained) -> dict[str, Any]:
    """Return what is to be said of a request, for JSON."""
    recorder = explained.recorder
    record, walk, look = recorder.record, explained.way.walk, explained.way.look
    made_of = record.made_of if record is not None else None
    return {
        "status": explained.line,
        "headers": explained.headers,
        "seconds": explained.seconds,
        "broken_by": None if explained.escaped is None else type(explained.escaped).__name__,
        "causes": [cause._asdict() for cause in explained.causes],
        "parts": [
            {
                "name": part.name,
                "where": part.step.where,
                "foreign": part.step.element is None,
                "own_seconds": part.own,
                "request": shown(part.inward),
                "response": part.answered,
                "raised": None if part.error is None else type(part.error).__name__,
            }
            for part in explained.way.parts
        ],
        "traversal": [
            {**taken._asdict(), "obj": short(taken.obj)} for taken in (walk.steps if walk is not None else ())
        ],
        "view": look
        and {
            **{name: getattr(look, name) for name in ("context", "name", "method")},
            "candidates": [candidate.as_dict() for candidate in look.candidates],
        },
        "attempts": recorder.attempts,
        "objects": {"loaded": recorder.loads, "changed": recorder.changed, "stored": recorder.stores},
        "made_of": made_of
        and {
            **made_of._asdict(),
            "objects": [one._asdict() for one in made_of.objects],
            "vary_lacks": record.vary_lacks if record is not None else [],
        },
        "kept": record.kept if record is not None else "",
        "statements": recorder.statements,
        "log": explained.log,
    }


def put(explained: Explained, asked: str, commit: bool, long: bool) -> None:
    """Print what is to be said of a request; or a line for each element, and what the databases were asked."""
    parts = explained.way.parts
    broken = ", then broken off" if explained.escaped is not None else ""
    took = f"{explained.seconds * 1000:.1f} ms"
    print(f"{bold(f'{asked} -> {explained.line}')}, {len(explained.body)} bytes{broken}, {took}")
    for cause in explained.causes:
        print()
        for line in cause.lines():
            print(textwrap.fill(line, LONGEST, subsequent_indent=" " * 8, break_on_hyphens=False))
    if parts:
        hint = "" if long else " and the names of its changes; --long shows more"
        print(f"\n{bold('Elements')}, outermost first, each with its own time{hint}")
        width = max(len(part.name) for part in parts)
        for part in parts:
            put_part(part, width, long)
    for title, lines in sections(explained, commit, long):
        print(f"\n{title}", *lines, sep="\n")


def sections(explained: Explained, commit: bool, long: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield what is to be said behind the elements: a title, and its lines."""
    recorder, record = explained.recorder, explained.recorder.record
    for title, way in explained.way.lines() if long else ():
        yield bold(title), way
    made_of: list[str] = []
    if record is not None:
        made_of += record.made_of.lines() if long and record.made_of is not None else ()
        if lacking := ", ".join(record.vary_lacks):
            made_of.append(f"Vary does not name {lacking}: a cache may send this page to other requests")
        made_of += [f"keep: {record.kept}"] if record.kept else []
    if made_of:
        yield bold("Made of"), [textwrap.indent(line, "  ") for line in made_of]
    database = [f"{recorder.loads} objects loaded"] if recorder.loads else []
    if recorder.changed or recorder.stores:
        database.append(f"{recorder.changed} changed, {recorder.stores} stored")
    if recorder.statements:
        database.append(f"{len(recorder.statements)} SQL statements")
    if database:
        undone = "" if commit else "; nothing is committed without --commit"
        statements = [f"  {short(' '.join(one.split()), 110)}" for one in recorder.statements[:50] if long]
        yield f"{bold('Database')}: {', '.join(database)}{undone}", statements
    if recorder.attempts > 1:
        yield f"{bold('Attempts')}: {recorder.attempts}", []
    if log := [line for line in explained.log if long or not line.startswith(("INFO ", "DEBUG "))]:
        yield bold("Log"), [textwrap.indent(line, "  ") for line in log]


def put_part(part: Part, width: int, long: bool) -> None:
    """Print one part of the pipeline, with what it changed."""
    raised = f"  raised {type(part.error).__name__}" if part.error is not None else ""
    foreign = "  (foreign)" if part.step.element is None else ""
    line = f"  {part.name:{width}} {part.own * 1000:8.2f} ms{foreign}{raised}"
    if not long:
        names = ", ".join([*shown(part.inward), *part.answered])
        print(short(f"{line}  {names}".rstrip(), LONGEST))
        return
    print(line)
    for name, value in shown(part.inward).items():
        print(f"  {'':{width}}    in   {name} = {value}")
    for name, value in part.answered.items():
        print(f"  {'':{width}}    out  {name}: {value}")


def shown(changed: Mapping[str, str]) -> dict[str, str]:
    """Return the changes to a request, with the names by which code reads them."""
    return {
        name if name.startswith("request.") or name == BODY else f"environ[{name!r}]": value
        for name, value in changed.items()
    }
