"""``check_element``: whether an element keeps the element protocol."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Barrier, BrokenBarrierError, Thread
from typing import Any

from transaction.interfaces import TransientError
from webob.exc import HTTPException

from pipeline.attributes import declaration
from pipeline.composition import Element, Pipeline
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.interfaces import ConfigurationError, OrderError
from pipeline.request import Request
from pipeline.response import Response
from pipeline.running.auditing import listening
from pipeline.testing.declarations import Opened, attributes_of, check_declarations, fits, hints_of
from pipeline.testing.faults import FakeDataManager, fault
from pipeline.testing.guard import EnvironChanged, guard_environ
from pipeline.testing.probes import (
    RULES,
    Act,
    Blocks,
    Failed,
    Interrupted,
    NotConforming,
    Sent,
    Watch,
    copying,
    ending,
    failing,
    logged,
    page,
    provider,
    send,
    streaming,
)

__all__ = ["RULES", "NotConforming", "check_element"]

WAIT = 5.0
"""Seconds that one request waits for another in the check of the rule "threads"."""


def check_element(
    element: Element,
    *,
    outside: Iterable[Any] = (),
    inside: Iterable[Any] = (),
    path: str = "/",
    environ: Mapping[str, Any] | None = None,
    write: Callable[[Any], object] | None = None,
    stored: Callable[[], object] | None = None,
) -> None:
    """Check that an element keeps the element protocol. Raise NotConforming for the first rule that it breaks.

    element  the element with its options, such as ``filestore(path="store.json")``
    outside  elements that must stand outside of it. Without them, stand-ins provide what it requires
    inside   elements that must stand inside of it
    path     path of a request that reaches the inner parts
    environ  further keys of the environ of that request, such as HTTP_AUTHORIZATION
    write    ``(request)`` makes a change that the element stores, each time another one
    stored   ``()`` returns all that the element keeps, such as the names and contents of the files in its directory

    The element is linked into pipelines with ends that answer, stream, fail and wait, alone and between foreign
    middleware, and ``wsgiref.validate`` stands on both sides. Both exits are taken, also by a client that goes
    away. ``RULES`` has each rule in words.

    An element that takes part in transactions is given with ``write`` and ``stored``. Then changes are committed,
    aborted, and refused by another data manager at each step of the commit.
    """
    if not isinstance(element, Element) or element.is_end:
        raise TypeError(f"{element!r} is not an element that stands around others; give it as element(option=...)")
    if (write is None) != (stored is None):
        raise TypeError("give write and stored together: what is stored is compared before and after a write")
    check_declarations(element)
    checks = Checks(element, outside, inside, path, environ or {})
    opened = Opened()
    with listening(opened.note):
        for foreign in (False, True):
            checks.link(foreign)
            checks.ordinary_requests()
            checks.streams()
            checks.errors()
        checks.is_forgotten()
        checks.second_attempt()
        checks.threads()
        if write is not None and stored is not None:
            checks.transactions(write, stored)
    for found in opened.undeclared(element.facts):
        raise NotConforming(element.name, "facts", found)


@dataclass
class Checks:
    """One element under test, in a pipeline that is made for it."""

    element: Element
    outside: Iterable[Any]
    inside: Iterable[Any]
    path: str
    environ: Mapping[str, Any]
    act: Act = page
    foreign: bool = False
    alone: tuple[str, Sequence[str]] = ("", ())
    """Status and names of the headers of an ordinary answer."""
    alone_streaming: tuple[str, Sequence[str]] = ("", ())
    """Those of a stream. Middleware makes every body a stream."""

    def __post_init__(self) -> None:
        self.outside, self.inside = list(self.outside), list(self.inside)
        contracts = [part.contract for part in self.outside if isinstance(part, Element)]
        provided = {thing for contract in contracts for thing in contract.provides}
        self.outside += [provider(thing) for thing in self.element.contract.unmet() if thing not in provided]

    def link(self, foreign: bool) -> None:
        """Make the pipeline of the next checks, alone or between foreign middleware."""
        self.foreign = foreign
        between = (copying,) if foreign else ()
        self.watch = Watch()
        around = (*self.outside, *between, self.watch.around(self.element), *between)
        self.pipeline = self.linked(*around)

    def linked(self, *parts: Any) -> Pipeline:
        def act(request: Any, response: Response) -> None:
            self.act(request, response)

        try:
            return Pipeline(*parts, *self.inside, ending(act=act))
        except OrderError:
            raise
        except (ConfigurationError, TypeError) as error:
            raise self.broken("load", f"{type(error).__name__}: {error}") from error

    def broken(self, rule: str, found: str) -> NotConforming:
        where = ", between foreign middleware" if self.foreign else ""
        return NotConforming(self.element.name, rule, f"{found}{where}")

    def send(self, act: Act, *, watch: Watch | None = None, blocks: int | None = None, **more: Any) -> Sent:
        """Send a request to an end that does ``act``. Raise NotConforming if the watch has found a fault."""
        watch = watch or self.watch
        watch.begin()
        self.act = act
        with logged() as records:
            sent = send(self.pipeline, self.path, self.environ, records, blocks, **more)
        if watch.fault is not None:
            raise self.broken(*watch.fault)
        for record in sent.logged:
            if str(record.msg).startswith("closing ") and record.exc_info:
                raise self.broken("clean-up", f"{record.getMessage()}: {record.exc_info[1]!r}")
        return sent

    def ordinary_requests(self) -> None:
        """Send ordinary requests: each status, HEAD, and forms."""
        self.watch.inner_watches = [self.attributes_are_provided]
        sent = self.send(page)
        self.watch.inner_watches = []
        if not self.watch.attempts:
            found = f"the answer was {sent.status or repr(sent.error)} before"
            raise self.broken("reached", found)
        self.is_answered(sent)
        self.attributes_are_declared()
        if not self.foreign:
            self.alone = self.send(page).shape  # in which nothing was made on first use
        for status in ("204 No Content", "302 Found", "304 Not Modified", "404 Not Found", "500 Sorry"):
            self.is_answered(self.send(answering(status)))
        self.is_answered(self.send(page, method="HEAD"))
        for content_type, form in FORMS.items():
            self.body_is_left(content_type, form)

    def is_answered(self, sent: Sent) -> None:
        for error in (self.watch.raised, sent.error):
            if error is not None and not isinstance(error, HTTPException):  # which is an answer
                rule = "length" if "Content-Length" in str(error) else "answer"
                raise self.broken(rule, f"it raised {error!r}") from error

    def attributes_are_provided(self, request: Any) -> None:
        """Read each attribute that the element declares."""
        for name, cls in attributes_of(self.element):
            try:
                value = getattr(request, name)
            except Exception as error:
                self.watch.note("provided", f"reading request.{name} raised {error!r}")
                return
            hint = hints_of(cls).get(name, Any)
            if not fits(value, hint):
                self.watch.note("types", f"request.{name} is {value!r:.80}, and its declared type is {hint}")

    def attributes_are_declared(self) -> None:
        declared = {name for name, _ in attributes_of(self.element)}
        core = {*dir(Request), *Request.__annotations__}
        for name in sorted(self.watch.new_names - declared - core):
            raise self.broken("declared", f"it set request.{name}")

    def body_is_left(self, content_type: str, form: bytes) -> None:
        """Send a form on an input that cannot be rewound, and read it inside."""
        read: list[bytes] = []

        def reading(request: Any, response: Response) -> None:
            environ = request.environ
            with suppress(Exception):  # an error is clear: no application takes it for an empty body (R11)
                read.append(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
            page(request, response)

        self.is_answered(self.send(reading, method="POST", body=form, content_type=content_type))
        if read not in ([], [form]):
            found = f"the inner parts read {read[0]!r:.60} in place of {form!r:.60}, {content_type}"
            raise self.broken("body", found)

    def streams(self) -> None:
        """Stream an answer: to its end, to a client that goes away, and with its length."""
        for stop in (None, 1):
            blocks = Blocks()
            self.watch.when_answered = blocks.look
            sent = self.send(streaming(blocks), blocks=stop)
            self.watch.when_answered = None
            self.is_answered(sent)
            if stop is None and not self.foreign:
                self.alone_streaming = sent.shape
            elif stop is None and sent.shape != self.alone_streaming:
                raise self.broken("neighbours", f"the answer was {sent.shape}; alone it is {self.alone_streaming}")
            if self.watch.attempts and blocks.closed != 1:
                reader = "all of it was read" if stop is None else "the client went away after the first block"
                raise self.broken("closed", f"it was closed {blocks.closed} times, when {reader}")
        length = len(b"".join(Blocks().left))
        self.is_answered(self.send(streaming(Blocks(), length)))

    def errors(self) -> None:
        """Let an inner part fail."""
        error = Failed("an inner part failed")
        self.send(failing(error))
        watch = self.watch
        if watch.raised is not None:
            if error not in causes(watch.raised):
                raise self.broken("first error", f"{watch.raised!r} took the place of {error!r}")
        elif watch.left is not None:
            status, headers, body = watch.left
            if status < "4" and (body == [b"half an answer"] or not body):
                found = f"after {error!r} it returned, and the answer was {status} {body!r:.60}"
                raise self.broken("errors", found)
            if "X-Inner" in headers or "X-Outer" not in headers:
                what = "has a header of the inner part" if "X-Inner" in headers else "lacks a header from outside"
                raise self.broken("taken back", f"its answer {status} {what}")
        interrupt = Interrupted()
        sent = self.send(failing(interrupt))
        if sent.error is not interrupt:
            raise self.broken("interrupts", f"after {interrupt!r} the answer was {sent.status or repr(sent.error)}")

    def is_forgotten(self) -> None:
        """Find requests that are referred to after they are closed."""
        for act in (page, streaming(Blocks())):
            self.send(act)
            request_of_before = self.watch.request
            self.watch.begin()  # it refers to the body
            if request_of_before() is not None:  # a cycle may refer to it
                gc.collect()
            request = request_of_before()
            if request is not None:
                kinds = sorted({type(one).__name__ for one in gc.get_referrers(request)} - {"frame"})
                raise self.broken("forgotten", f"it is still referred to by an object of {', '.join(kinds)}")

    def second_attempt(self) -> None:
        """Let the first attempt at a request fail with a transient error."""
        self.foreign = False
        watch, seen = Watch(), list[dict[str, Any]]()
        once = fault(error=partial(TransientError, "another request was first"), at="exit", times=1)
        watched = (*self.outside, watch.around(self.element))
        again = (retry(delay=0.0), guard_environ())
        if self.element.name == retry.name:
            self.pipeline = self.linked(*watched, guard_environ(), once)
        else:
            try:
                self.pipeline = self.linked(*again, *watched, once)
            except OrderError:
                self.pipeline = self.linked(*watched, *again, once)
        watch.inner_watches = [lambda request: seen.append(plain_values(request, self.element))]
        sent = self.send(page, watch=watch)
        for error in sent.errors:
            if isinstance(error, EnvironChanged):
                raise self.broken("environ", str(error))
        if sent.shape != self.alone:
            raise self.broken("attempts", f"the answer was {sent.shape}; without an error it is {self.alone}")
        for values in seen[1:]:
            for name in sorted(values.keys() | seen[0].keys()):
                first, second = (one.get(name, "not set") for one in (seen[0], values))
                if first != second and self.element.name != retry.name:
                    raise self.broken("attempts", f"request.{name} was {first!r:.60}, and then {second!r:.60}")

    def threads(self) -> None:
        """Send two requests, each of which waits inside for the other."""
        barrier = Barrier(2)
        failures: list[BaseException] = []

        def meet(request: Any, response: Response) -> None:
            try:
                barrier.wait(WAIT)
            except BrokenBarrierError as error:
                failures.append(error)
            page(request, response)

        self.act = meet
        self.pipeline = self.linked(*self.outside, self.element)
        with logged() as records:
            asked = (self.pipeline, self.path, self.environ, records)
            threads = [Thread(target=send, args=asked) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if failures:
            raise self.broken("threads", f"a request waited {WAIT:g} s for another one to reach the inner parts")

    def transactions(self, write: Callable[[Any], object], stored: Callable[[], object]) -> None:
        """Commit changes, and refuse changes at each step of a commit."""
        self.foreign = False
        try:
            self.pipeline = self.linked(*self.outside, self.element, transaction())
        except OrderError:
            self.pipeline = self.linked(*self.outside, transaction(), self.element)

        def change(rule: str, when: str, then: Act = page, *, is_stored: bool = False) -> None:
            """Make a change and do ``then``. Check whether the change is stored afterwards."""
            before = stored()

            def act(request: Any, response: Response) -> None:
                write(request)
                if stored() != before:
                    self.watch.note("commit", f"before the commit there was {stored()!r:.200}")
                then(request, response)

            self.send_in_time(act)
            after = stored()
            if (after != before) is not is_stored:
                raise self.broken(rule, f"{when} there was {after!r:.200}, and before {before!r:.200}")

        def commit_and_write(request: Any, response: Response) -> None:
            request.tm.commit()
            first.append(stored())
            request.tm.begin()
            write(request)
            page(request, response)

        first: list[object] = []
        change("commit", "after a commit", is_stored=True)
        change("commit", "after two commits in one request", commit_and_write, is_stored=True)
        if stored() in first:
            raise self.broken("commit", f"a second commit in one request stored nothing: {first[0]!r:.200}")
        change("refused", "after an error", failing(Failed("an inner part failed")))
        change("refused", "after a 409", answering("409 Conflict"))
        for key, place in {"": "before", "~": "after"}.items():
            for step in ("tpc_begin", "commit", "tpc_vote"):
                when = f"when a data manager {place} that of the element had failed in {step}"
                change("refused", when, refusing(key, step))
        change("refused", "after refused changes and a commit", is_stored=True)

    def send_in_time(self, act: Act) -> None:
        """Send a request, which must not wait for a lock that an earlier one has left."""
        failures: list[Exception] = []

        def run() -> None:
            try:
                self.send(act, method="POST")
            except Exception as error:
                failures.append(error)

        thread = Thread(target=run, daemon=True)
        thread.start()
        thread.join(WAIT)
        if thread.is_alive():
            raise self.broken("refused", f"a later change waited {WAIT:g} s")
        if failures:
            raise failures[0]


FORMS = {
    "application/x-www-form-urlencoded": b"a=1&b=2",
    "multipart/form-data; boundary=limit": (
        b'--limit\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'
        b'--limit\r\nContent-Disposition: form-data; name="b"; filename="b.txt"\r\n\r\n2\r\n'
        b"--limit--\r\n"
    ),
}
"""The bodies of forms, by their types. An element may keep the one in memory, and the other in files."""


def answering(status: str) -> Act:
    """Return a function that answers with a status, and without a body where HTTP has none."""

    def act(request: Any, response: Response) -> None:
        response.status = status
        if status[:3] not in ("204", "304"):
            response.app_iter = [b"a body"]
        if status[:3] == "302":
            response.location = "/elsewhere"

    return act


def refusing(key: str, step: str) -> Act:
    """Return a function that answers, and lets a data manager fail in a step of the commit.

    key  the place of that data manager among the others
    """

    def act(request: Any, response: Response) -> None:
        FakeDataManager(request.tm, key=key, fails={step: Failed("another data manager refused")}).join()
        page(request, response)

    return act


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, and the errors from which it was raised."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:  # it may be raised from itself
        seen.append(error)
        yield error
        error = error.__cause__


def plain_values(request: Any, element: Element) -> dict[str, Any]:
    """Return the values of the attributes that an element declares, as far as two requests can be compared by them.
    Nothing is made on first use."""
    values = {}
    for name, cls in attributes_of(element):
        value = request.__dict__.get(name, declaration(cls, name))
        if value is None or isinstance(value, (str, bytes, int, float, tuple)):
            values[name] = value
    return values
