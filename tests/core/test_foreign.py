"""Foreign middleware at every position of a full pipeline: request, closing and commit survive."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any
from wsgiref.validate import validator

import pytest
from persistent.mapping import PersistentMapping
from webob.exc import HTTPConflict
from ZODB.DB import DB
from ZODB.POSException import ConflictError

from pipeline import Pipeline, element, view
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.log import log
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.vhost import vhost
from pipeline.elements.zodb import zodb
from pipeline.paste import load
from pipeline.publisher import publisher

# The four kinds of middleware, and what goes on in the wild.


def copies_environ(app: Any) -> Any:
    def middleware(environ: dict[str, Any], start_response: Any) -> Any:
        return app({**environ, "foreign.copied": True}, start_response)

    return middleware


def adds_header(app: Any) -> Any:
    def middleware(environ: dict[str, Any], start_response: Any) -> Any:
        def start(status: str, headers: Any, exc_info: Any = None) -> Any:
            return start_response(status, [*headers, ("X-Foreign", "1")], exc_info)

        return app(environ, start)

    return middleware


def replaces_body(app: Any) -> Any:
    """Reads it all, closes it, and answers another."""

    def middleware(environ: dict[str, Any], start_response: Any) -> Any:
        started: list[Any] = []

        def start(status: str, headers: Any, exc_info: Any = None) -> Any:
            started[:] = [status, headers]
            return started.append

        blocks = app(environ, start)
        try:
            body = b"".join(blocks)
        finally:
            if hasattr(blocks, "close"):
                blocks.close()
        status, headers = started
        if body:
            body += b" (replaced)"
            headers = [(name, value) for name, value in headers if name.lower() != "content-length"]
        start_response(status, headers)
        return [body]

    return middleware


class Passing:
    """A body that passes each block on, and closes what it wraps, as PEP 3333 asks."""

    def __init__(self, blocks: Any) -> None:
        self.blocks = blocks
        self.iterator = iter(blocks)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self.iterator).replace(b"\n", b"\r")

    def close(self) -> None:
        if hasattr(self.blocks, "close"):
            self.blocks.close()


def wraps_body(app: Any) -> Any:
    return lambda environ, start_response: Passing(app(environ, start_response))


def is_a_generator(app: Any) -> Any:
    def middleware(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
        blocks = app(environ, start_response)
        try:
            yield from blocks
        finally:
            if hasattr(blocks, "close"):
                blocks.close()

    return middleware


def answers_itself(app: Any) -> Any:
    def middleware(environ: dict[str, Any], start_response: Any) -> Any:
        if environ["PATH_INFO"] != "/itself":
            return app(environ, start_response)
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "6")])
        return [b"itself"]

    return middleware


FOREIGN: dict[str, tuple[Callable[[Any], Any], ...]] = {
    middleware.__name__: (middleware,)
    for middleware in (
        copies_environ,
        adds_header,
        replaces_body,
        wraps_body,
        is_a_generator,
        answers_itself,
        validator,
    )
} | {
    "all four": (copies_environ, adds_header, replaces_body, answers_itself),
    "all four, reversed": (answers_itself, replaces_body, adds_header, copies_environ),
    "wrapped twice": (wraps_body, copies_environ, wraps_body, validator),
}


def filter_factory(global_conf: Any, *, kinds: str) -> Callable[[Any], Any]:
    """All middlewares of an entry of FOREIGN, the first outermost."""

    def around(app: Any) -> Any:
        for middleware in reversed(FOREIGN[kinds]):
            app = middleware(app)
        return app

    return around


# The site.


class Counter(PersistentMapping):
    """What is counted up."""


class Stream:
    """A body that counts how often it is closed, and reads the database until it is."""

    def __init__(self, counter: Counter) -> None:
        self.counter = counter
        self.closed = 0
        self.blocks = iter(["a\n", "b\n", "c\n"])

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> bytes:
        return f"{self.counter['n']}{next(self.blocks)}".encode()

    def close(self) -> None:
        self.closed += 1
        notes.append("stream closed")


notes: list[Any] = []
"""What elements and views have seen in the current test."""
streams: list[Stream] = []


def find_root(mapping: Any) -> Any:
    if "site" not in mapping:
        mapping["site"] = PersistentMapping(counter=Counter(n=0))
    return mapping["site"]


def check(request: Any, login: str, password: str) -> str | None:
    return login if password == "right" else None


@element(outside={"log": "it sees the request first"})
def first(next: Any) -> Any:
    def first(request: Any, response: Any) -> None:
        notes.append(request)
        request.on_close(lambda: notes.append("first closed"))
        response.headers["X-First"] = "1"
        next(request, response)

    return first


def seen(request: Any) -> None:
    notes.append(request)
    request.on_close(lambda: notes.append("view closed"))


@view(context=Counter)
def show(context: Counter, request: Any) -> str:
    seen(request)
    return f"{context['n']} {request.principal} {request.environ['REMOTE_USER']} {request.context is context}"


@view(context=Counter, name="stream")
def stream(context: Counter, request: Any) -> Stream:
    seen(request)
    streams.append(Stream(context))
    return streams[-1]


@view(context=Counter, name="add", methods=("POST",), permission="edit")
def add(context: Counter, request: Any) -> str:
    seen(request)
    context["n"] += int(request.POST["by"])
    attempts = sum(note is request for note in notes)
    if "conflict" in request.GET and attempts < 3:
        raise ConflictError
    if "fail" in request.GET:
        raise HTTPConflict("It is wrong.")
    if "crash" in request.GET:
        raise ZeroDivisionError
    return str(context["n"])


@view(context=ZeroDivisionError)
def divided(error: ZeroDivisionError, request: Any, response: Any) -> str:
    return f"divided, at {request.root['counter']['n']}"


ELEMENTS = ["first", "log", "vhost", "retry", "zodb", "errors", "transaction", "authenticate", "traverse"]
POSITIONS = range(len(ELEMENTS) + 1)
_numbers = count()


def site_parts() -> list[Any]:
    return [
        first(),
        log(),
        vhost(),
        retry(delay=0.0),
        zodb(uri=f"memory://foreign_{next(_numbers)}", root=f"{__name__}:find_root"),
        errors(),
        transaction(),
        authenticate(check=check),
        traverse(),
        publisher(scan=(__name__,)),
    ]


def from_python(kinds: str, position: int, directory: Path) -> Any:
    parts = site_parts()
    return Pipeline(*parts[:position], *FOREIGN[kinds], *parts[position:])


def from_ini(kinds: str, position: int, directory: Path) -> Any:
    names = [*ELEMENTS[:position], "foreign", *ELEMENTS[position:], "publisher"]
    ini = directory / "site.ini"
    egg = "".join(
        f"[filter:{name}]\nuse = egg:wsgi-pipeline#{name}\n{OPTIONS.get(name, '')}\n" for name in ELEMENTS[1:]
    )
    ini.write_text(
        f"[pipeline:main]\npipeline = {' '.join(names)}\n\n"
        f"[filter:first]\npaste.filter_factory = {__name__}:first\n\n"
        f"[filter:foreign]\npaste.filter_factory = {__name__}:filter_factory\nkinds = {kinds}\n\n"
        f"{egg}[app:publisher]\nuse = egg:wsgi-pipeline#publisher\nscan = {__name__}\n"
    )
    return load(f"config:{ini}", number=str(next(_numbers)))


OPTIONS = {
    "retry": "delay = 0\n",
    "zodb": f"uri = memory://foreign_ini_%(number)s\nroot = {__name__}:find_root\n",
    "authenticate": f"check = {__name__}:check\n",
}

LOGIN = {"HTTP_AUTHORIZATION": "Basic " + b64encode(b"ada:right").decode()}
FORM: dict[str, Any] = {"CONTENT_TYPE": "application/x-www-form-urlencoded", **LOGIN}


@pytest.fixture(autouse=True)
def nothing_noted() -> Iterator[None]:
    notes.clear()
    streams.clear()
    yield
    notes.clear()
    streams.clear()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[DB]:
    """The databases of which a connection was opened, once for each connection."""
    opened: list[DB] = []
    open_it = DB.open

    def counted(db: DB, *arguments: Any, **options: Any) -> Any:
        opened.append(db)
        return open_it(db, *arguments, **options)

    monkeypatch.setattr(DB, "open", counted)
    return opened


@pytest.mark.parametrize("position", POSITIONS, ids=[*(f"outside {name}" for name in ELEMENTS), "innermost"])
@pytest.mark.parametrize("kinds", FOREIGN)
@pytest.mark.parametrize("build", [from_python, pytest.param(from_ini, marks=pytest.mark.once)])
def test_foreign_middleware(
    build: Any,
    kinds: str,
    position: int,
    call: Any,
    opened: list[DB],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="pipeline.access")
    app = build(kinds, position, tmp_path)
    replaced = " (replaced)" if replaces_body in FOREIGN[kinds] else ""
    added = ["1"] if adds_header in FOREIGN[kinds] else []
    requests: list[Any] = []

    def ask(path: str, *arguments: Any, **extra: Any) -> Any:
        notes.clear()
        caplog.clear()
        answer = call(app, path, *arguments, **(LOGIN | extra))
        met = {id(note): note for note in notes if not isinstance(note, str)}
        assert len(met) == 1, "it is one request for all"
        requests.extend(met.values())
        assert notes.count("first closed") == 1 and notes[-1] == "first closed"
        assert requests[-1].closers in (None, [])
        assert answer.headers.getall("X-First") == ["1"]
        lines = [record.getMessage() for record in caplog.records if record.name == "pipeline.access"]
        assert len(lines) == 1 and f'" {answer.status} ' in lines[0]
        return answer

    # The request, its principal and its context are the same for all.
    shown = ask("/counter/")
    assert shown.status == 200 and shown.text == f"0 ada ada True{replaced}"
    assert shown.headers.getall("X-Foreign") == added
    assert notes.count("view closed") == 1

    at_first = len(opened)

    # What a view changed is committed; behind a body that was made or a header that was put on.
    added_up = ask("/counter/add", "POST", b"by=5", **FORM)
    assert (added_up.status, added_up.text) == (200, f"5{replaced}")

    # A conflict is tried again, with the body of the first attempt; closers of an attempt run after it.
    again = ask("/counter/add?conflict", "POST", b"by=2", **FORM)
    assert (again.status, again.text) == (200, f"7{replaced}")
    assert notes.count("view closed") == 2 and again.headers.getall("X-Foreign") == added

    # What fails is not committed, and is answered once, by whoever answers errors.
    refused = ask("/counter/add?fail", "POST", b"by=10", **FORM)
    assert refused.status == 409 and b"It is wrong." in refused.body
    crashed = ask("/counter/add?crash", "POST", b"by=10", **FORM)
    assert crashed.status == 500 and crashed.text.startswith("divided, at 7")

    # A stream reads the database until it is closed, which it is once.
    streamed = ask("/counter/stream")
    eol = "\r" if wraps_body in FOREIGN[kinds] else "\n"
    assert streamed.text == f"7a{eol}7b{eol}7c{eol}{replaced}"
    assert [stream.closed for stream in streams] == [1]
    headed = ask("/counter/stream", "HEAD")
    assert (headed.status, headed.body) == (200, b"")
    assert [stream.closed for stream in streams] == [1, 1]

    # Whoever answers by itself is passed on as any other, and what is inside of it is not asked.
    if position > 1:  # the log is outside of it
        itself = ask("/itself")
        if answers_itself in FOREIGN[kinds]:
            assert (itself.status, itself.text) == (200, "itself" + replaced * ("reversed" not in kinds))
        else:
            assert itself.status == 404
        assert "view closed" not in notes

    assert ask("/counter/").text.startswith("7 ")
    assert len(opened) == at_first, "one connection served all, since each was given back"
    assert len(set(map(id, requests))) == len(requests)


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("kinds", FOREIGN)
@pytest.mark.parametrize("read", [0, 1, 2])
def test_a_client_that_goes_away(kinds: str, position: int, read: int, environ: Any, tmp_path: Path) -> None:
    """The server calls close() early: the stream, the connection and all else are closed, once (R7)."""
    app = from_python(kinds, position, tmp_path)
    given = environ("/counter/stream", **LOGIN)
    body = app(given, lambda status, headers, exc_info=None: None)
    blocks = iter(body)
    for _ in range(read):
        next(blocks, None)
    for _ in range(2):  # a server may even call it twice
        if hasattr(body, "close"):
            body.close()
    assert [stream.closed for stream in streams] == [1]
    assert notes.count("first closed") == notes.count("view closed") == 1
    assert not [key for key in given if key.startswith("pipeline.")]


def asks_twice(app: Any) -> Any:
    """As one that tries again does: the second answer counts."""

    def middleware(environ: dict[str, Any], start_response: Any) -> Any:
        blocks = app(dict(environ), lambda status, headers, exc_info=None: None)
        if hasattr(blocks, "close"):
            blocks.close()
        return app(dict(environ), start_response)

    return middleware


def hands_on_environ(app: Any) -> Any:
    return lambda environ, start_response: app(environ, start_response)


def catches_errors(app: Any) -> Any:
    def middleware(environ: dict[str, Any], start_response: Any) -> Any:
        try:
            return app(environ, start_response)
        except ZeroDivisionError:
            start_response("503 Caught", [("Content-Type", "text/plain")])
            return [b"caught"]

    return middleware


@pytest.mark.parametrize("position", POSITIONS)
def test_a_middleware_that_asks_twice(position: int, call: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """It is the same request again, from the start; every body is closed once, also the one not wanted."""
    monkeypatch.setitem(FOREIGN, "asks_twice", (asks_twice,))
    app = from_python("asks_twice", position, tmp_path)
    assert call(app, "/counter/", **LOGIN).text == "0 ada ada True"
    assert call(app, "/counter/stream", **LOGIN).text == "0a\n0b\n0c\n"
    assert [stream.closed for stream in streams] == [1, 1]


@pytest.mark.parametrize("position", range(1, len(POSITIONS)))
def test_a_middleware_that_catches_errors(position: int, call: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """What it makes of an error is an answer like any other, and a 503 aborts (R3)."""
    monkeypatch.setitem(FOREIGN, "catches_errors", (catches_errors,))
    app = from_python("catches_errors", position, tmp_path)
    assert call(app, "/counter/", **LOGIN).text.startswith("0 ")
    answer = call(app, "/counter/add?crash", "POST", b"by=10", **FORM)
    caught = position > ELEMENTS.index("errors")
    assert (answer.status, answer.text) == ((503, "caught") if caught else (500, "divided, at 0"))
    assert call(app, "/counter/", **LOGIN).text.startswith("0 ")


@pytest.mark.parametrize("middleware", [hands_on_environ, copies_environ, asks_twice, is_a_generator])
@pytest.mark.parametrize("position", POSITIONS)
def test_the_same_middleware_at_two_positions(middleware: Any, position: int, call: Any, tmp_path: Path) -> None:
    """What the elements between them have set on the request stays, whether or not they copy the environ."""
    for second in range(position + 1, len(POSITIONS)):
        parts = site_parts()
        app = Pipeline(*parts[:position], middleware, *parts[position:second], middleware, *parts[second:])
        assert call(app, "/counter/", **LOGIN).text == "0 ada ada True", second
        assert call(app, "/counter/stream", **LOGIN).text.split() == ["0a", "0b", "0c"], second
        if middleware is not asks_twice:
            answer = call(app, "/counter/add?conflict", "POST", b"by=2", **FORM)
            assert (answer.status, answer.text) == (200, "2"), second
        notes.clear()
