"""Parts of ``check_element``: they stand around an element, send requests, and note what the element does."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import islice
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any, NamedTuple
from weakref import ref
from wsgiref.validate import validator

from pipeline.composition import Element, Offers, element
from pipeline.interfaces import Handler
from pipeline.request import Request
from pipeline.response import Response
from pipeline.telling.words import texts_of

Act = Callable[[Any, Response], None]
"""A function that the end of the pipeline calls with a request and its response."""


class Failed(Exception):
    """An error of an inner part."""


class Interrupted(BaseException):
    """An error that no element may answer, such as SystemExit."""


class NotConforming(AssertionError):
    """An element that breaks a rule of the element protocol. ``rule`` is its name in ``RULES``."""

    def __init__(self, element: str, rule: str, found: str) -> None:
        super().__init__(f"{element} breaks the rule {rule!r}: {RULES[rule]} Found: {found}")
        self.rule = rule


RULES: dict[str, str] = texts_of(Path(__file__).with_name("rules.toml"))
"""The rules of the element protocol that ``check_element`` checks, in words."""


class Blocks:
    """A streamed body. It counts how often it was read and closed."""

    def __init__(self) -> None:
        self.left = [b"first ", b"second ", b"third"]
        self.read = self.closed = 0

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if not self.left:
            raise StopIteration
        self.read += 1
        return self.left.pop(0)

    def close(self) -> None:
        self.closed += 1

    def look(self, watch: Watch) -> None:
        """Note if the body was used before the server asked for it."""
        if self.read:
            watch.note("streams", f"when it had answered, {self.read} blocks were read")
        if self.closed:
            watch.note("closed", "it was closed when the element had answered, before the server could read it")


def page(request: Any, response: Response) -> None:
    """Answer with a small page."""
    response.app_iter = [b"<html><head><title>x</title></head><body>", b"page", b"</body></html>"]


def streaming(blocks: Blocks, length: int | None = None) -> Act:
    """Return a function that answers with a stream, as the publisher does."""

    def act(request: Any, response: Response) -> None:
        if length is not None:
            response.content_length = length
        response.app_iter = blocks
        request.close_with(blocks)

    return act


def failing(error: BaseException) -> Act:
    """Return a function that begins an answer, and fails."""

    def act(request: Any, response: Response) -> None:
        response.headers["X-Inner"] = "begun"
        response.app_iter = [b"half an answer"]
        raise error

    return act


class Watch:
    """Notes what an element does with one request at a time. The first fault that it finds counts."""

    def __init__(self) -> None:
        self.inner_watches: list[Callable[[Any], None]] = []
        """Functions that see the request when the element hands it on."""
        self.when_answered: Callable[[Watch], None] | None = None
        """Function that is called when the handler of the element has returned."""
        self.begin()

    def begin(self) -> None:
        """Forget the request before."""
        self.fault: tuple[str, str] | None = None
        self.got: tuple[Any, Any] | None = None
        """The request and the response that the element was called with, while it is at work."""
        self.has_answered = False
        self.raised: BaseException | None = None
        self.outer_names: frozenset[str] = frozenset()
        self.new_names: set[str] = set()
        self.left: tuple[str, dict[str, str], Any] | None = None
        """Status, headers and body of the response when the handler has returned."""
        self.attempts = 0
        self.request: Any = None
        """A weak reference to the request, when it was handed on."""

    def note(self, rule: str, found: str) -> None:
        self.fault = self.fault or (rule, found)

    def around(self, watched: Element) -> Element:
        """Return the element with this watch around its handler, and around the next handler that it is given."""

        def factory(next: Handler, **options: Any) -> Offers:
            made = watched.factory(partial(self.handed_on, next), **options)
            offers = made if isinstance(made, Offers) else Offers(made)
            if not callable(offers.handler):
                raise NotConforming(watched.name, "load", f"it returned {offers.handler!r}")
            return Offers(partial(self.called, offers.handler), **offers.attributes)

        made = Element(factory, watched.contract, watched.options)
        made.signature = watched.signature
        return made

    def called(self, handler: Handler, request: Request, response: Response) -> None:
        """Call the handler of the element."""
        self.raised = self.left = None
        self.outer_names = frozenset(request.__dict__)
        response.headers["X-Outer"] = "kept"
        self.got, self.has_answered = (request, response), False
        try:
            result: Any = handler(request, response)  # type: ignore[func-returns-value]
            if result is not None:
                self.note("result", f"it returned {result!r:.80}")
            self.left = (response.status, dict(response.headerlist), response.app_iter)
            if self.when_answered is not None:
                self.when_answered(self)
        except BaseException as error:
            self.raised = error
            raise
        finally:
            self.new_names |= request.__dict__.keys() - self.outer_names
            self.got = None

    def handed_on(self, next: Handler, request: Request, response: Response) -> None:
        """Call the next handler."""
        if self.got is None:
            self.note("once", "it called the next handler when it had answered already")
        elif self.has_answered:
            self.note("once", "it called the next handler again, which had answered")
        elif request is not self.got[0] or response is not self.got[1]:
            self.note("same", f"it handed on {request!r:.60} and {response!r:.60}")
        self.request = ref(request)
        self.attempts += 1
        self.new_names |= request.__dict__.keys() - self.outer_names
        for look in self.inner_watches:
            look(request)
        next(request, response)
        self.has_answered = True


@element
def ending(*, act: Act) -> Any:
    """The end of a pipeline, which does what a test wants."""

    def ending(request: Request, response: Response) -> None:
        act(request, response)

    return ending


def provider(thing: str) -> Element:
    """Return an element that provides a thing which the element under test requires."""

    def provide(next: Handler) -> Any:
        def provide(request: Any, response: Response) -> None:
            request.context = {}
            next(request, response)

        if thing == "root":
            return Offers(next, root=lambda request: {})
        return provide if thing == "context" else next

    provide.__name__ = f"provides_{thing}"
    return element(provides=(thing,))(provide)


def copying(app: Any) -> Any:
    """A foreign middleware that copies the environ, and checks both sides against PEP 3333."""
    checked = validator(app)

    def copying(environ: dict[str, Any], start_response: Any) -> Any:
        return checked({**environ}, start_response)

    return copying


class Sent(NamedTuple):
    """The answer to a request, as the server sees it."""

    status: str
    headers: list[tuple[str, str]]
    body: bytes
    error: BaseException | None
    """The error that the server saw, or that broke a rule of PEP 3333."""
    logged: list[logging.LogRecord]

    @property
    def shape(self) -> tuple[str, list[str]]:
        """The status and the names of the headers. Their values may differ between two requests."""
        return self.status, sorted(name.lower() for name, _ in self.headers)

    @property
    def errors(self) -> Iterator[BaseException]:
        """The errors that the server saw, and those in the log."""
        if self.error is not None:
            yield self.error
        for record in self.logged:
            if record.exc_info and record.exc_info[1] is not None:
                yield record.exc_info[1]


def send(
    app: Any,
    path: str,
    environ: Mapping[str, Any],
    records: list[logging.LogRecord],
    blocks: int | None = None,
    **more: Any,
) -> Sent:
    """Send one request under wsgiref's validator.

    records  what the pipeline logs meanwhile
    blocks   number of blocks that are read before the client goes away; default: all
    more     what ``webob.Request.blank`` takes
    """
    errors = io.StringIO()
    given: dict[str, Any] = {**environ, "wsgi.errors": errors}
    request = Request.blank(path, given, **more)
    request.environ.pop("webob.is_body_seekable", None)  # the validator's input can be read once, as a server's
    status, headers, read = "", list[tuple[str, str]](), list[bytes]()
    failure: BaseException | None = None
    try:
        status, headers, body, _ = request.call_application(validator(app), catch_exc_info=True)
        try:
            read.extend(islice(body, blocks))
        finally:
            body.close()
        if errors.getvalue():
            raise AssertionError(errors.getvalue())
    except (Exception, Interrupted) as error:
        failure = error
    return Sent(status, headers, b"".join(read), failure, records)


@contextmanager
def logged() -> Iterator[list[logging.LogRecord]]:
    """Collect what the pipeline logs, in the place of its handlers: the test means the errors that it makes."""
    log, collector = logging.getLogger("pipeline"), BufferingHandler(sys.maxsize)
    before = log.handlers, log.propagate, log.level, log.disabled
    log.handlers, log.propagate, log.disabled = [collector], False, False
    log.setLevel(logging.INFO)
    try:
        yield collector.buffer
    finally:
        log.handlers, log.propagate, level, log.disabled = before
        log.setLevel(level)
