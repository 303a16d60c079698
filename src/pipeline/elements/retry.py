"""``retry``: a request that failed with a transient error is tried again, from the start (R2)."""

from __future__ import annotations

import io
import logging
import random
import time
from contextlib import suppress
from tempfile import SpooledTemporaryFile
from typing import Any, NamedTuple, NoReturn

from pipeline.composition import element
from pipeline.http.bodies import ShortBody
from pipeline.interfaces import Facts, Handler
from pipeline.ranges import at_least
from pipeline.request import Request
from pipeline.response import Response

log = logging.getLogger("pipeline.retry")

LONGEST_PAUSE = 0.1
"""Upper limit of the seconds between two attempts, on average. Longer pauses do not help: where eight writers
change one object all the time, an attempt fails as often after a second as after a tenth of a second."""
# Share of 503s with 8 writers of one object in 2 processes, on ZEO, PostgreSQL and MariaDB. With 20 attempts: 0.26,
# 0.52 and 0.04 %; with 20, and one request at a time in a process: 2.8, 24 and 0.05 %. With 100 attempts: none (at
# most 60 attempts, 8 s), or 0, 0.11 and 0 % on a busy machine.
LOSSES = 4
"""Attempts in a row that may lose their connection at one statement."""
IN_MEMORY = 64 * 1024
"""Bytes of a body that are kept in memory. A longer body is kept in a temporary file."""


class RetryRequest(Request):
    """The attributes that ``retry`` adds to a request."""

    attempt: int = 1
    """Number of this attempt at the request, from 1 on."""


class Start(NamedTuple):
    """The environ, request, response and body as the first attempt found them."""

    environ: dict[str, Any]
    request: Any
    response: Any
    body: ReplayableBody | ShortBody | None

    def restore(self, request: RetryRequest, response: Response) -> None:
        """Make the request and the response what they were, for a further attempt."""
        environ = request.environ
        environ.clear()
        environ.update(self.environ)
        if self.body is not None:
            environ["wsgi.input"] = self.body.reader()
        attempt, left = request.attempt, request.attempts_left
        request.restore(self.request)
        request.attempt, request.attempts_left = attempt + 1, left - 1
        response.restore(self.response)


@element(
    adds=RetryRequest,
    provides=("attempts",),
    outside={"database": "every attempt needs a fresh connection state"},
    facts=lambda **options: Facts(useless_without="database"),
)
def retry(
    next: Handler,
    *,
    attempts: int = 100,
    delay: float = 0.005,
    patience: float = 20.0,
    body_limit: int = 64 * 1024 * 1024,
) -> Handler:
    """Try a request again if it failed with a transient error, such as a write conflict.

    attempts    upper limit of the attempts at one request; 1 means that nothing is tried again
    delay       seconds before the second attempt, on average. The pause doubles for each further attempt, up to
                0.1. It is random, so that requests which met in a conflict do not meet again
    patience    seconds after the first failure. After this time one last attempt is made: a view that takes a
                second is tried some twenty times, one that takes a minute three times
    body_limit  bytes of a request body that are kept for another attempt, in memory or in a temporary
                file. A longer body is read once, and its request is not tried again

    Every attempt starts with the environ, request, response and body of the first. All that an attempt has opened
    is closed before the pause. Nothing is tried again once something is committed. A view that must not run twice
    sets ``request.attempts_left = 0``. When no attempt is left, ``errors`` answers 503. A statement at which four
    attempts in a row lose their connection is a 500, since a fifth one would, too.
    """
    at_least(1, attempts=attempts)
    at_least(0, delay=delay, patience=patience, body_limit=body_limit)
    if attempts < 2:
        return next
    more = attempts - 1

    def retry(request: RetryRequest, response: Response) -> None:
        environ = request.environ
        request.attempts_left = more
        body = None
        if request.announces_body or environ["REQUEST_METHOD"] != "GET":
            body = keep_body(request, body_limit) if has_body(environ) else None
        if request.closers:
            request.closers_before = len(request.closers)
        first_environ = environ.copy()
        first_request = request.snapshot()
        first_response = response.snapshot()
        try:
            next(request, response)
        except Exception as error:
            failure = error
        else:
            if body is not None and body.unkept:
                tell_unkept(request, body, request.verdict.error if request.verdict is not None else None)
            return
        start = Start(first_environ, first_request, first_response, body)
        try:
            try_again(request, response, failure, start)
        finally:
            del failure  # its traceback refers to this frame

    def try_again(request: RetryRequest, response: Response, failure: Exception, start: Start) -> None:
        """Make further attempts after one that failed. Raise the last failure if no attempt is left."""
        end, losses = time.monotonic() + patience, 1
        try:
            while True:
                if not may_try_again(request, failure, start.body):
                    raise failure
                log.info("%s, attempt %d: %s", asked(request), request.attempt, type(failure).__name__)
                request.close(request.closers_before)
                start.restore(request, response)
                if time.monotonic() >= end:
                    request.attempts_left = 0
                time.sleep(random.uniform(0, 2) * min(delay * 2.0 ** min(request.attempt - 2, 99), LONGEST_PAUSE))
                try:
                    next(request, response)
                    break
                except Exception as error:
                    losses = losses + 1 if lost_at_one_statement(failure, error) else 1
                    failure = error
                    if losses == LOSSES:
                        refuse_statement(failure)
        finally:
            del failure  # its traceback refers to this frame
        if request.verdict is None or not request.verdict.transient:
            log.info("%s: repaired after %d attempts", asked(request), request.attempt)

    return retry


def lost_at_one_statement(*errors: Exception) -> bool:
    """Return whether all attempts have lost their connection to the database at the same statement."""
    lost = {vars(error).get("connection_invalidated") and vars(error)["statement"] for error in errors}
    return len(lost) == 1 and all(lost)


def refuse_statement(error: Exception) -> NoReturn:
    """Raise an error that is not tried again."""
    raise RuntimeError(
        f"{LOSSES} attempts in a row have lost their connection to the database at the same statement, "
        f"{vars(error)['statement']!r:.200}. It may exceed a limit of the server, such as max_allowed_packet or "
        f"idle_in_transaction_session_timeout"
    ) from error


def may_try_again(request: RetryRequest, failure: Exception, body: ReplayableBody | ShortBody | None) -> bool:
    """Return whether a further attempt may be made.

    No attempt is made once something is committed (R2a). That also holds in a pipeline without ``transaction``, so
    the transaction manager is asked here.
    """
    request.outcome = request.outcome or getattr(request.tm_in_use, "outcome", "")
    if request.attempts_left and request.judge(failure).transient:
        return True
    if body is not None and body.unkept:
        tell_unkept(request, body, failure)
    return False


def asked(request: RetryRequest) -> str:
    return f"{request.method} {request.path_info_safe}"


def has_body(environ: dict[str, Any]) -> bool:
    """Return whether the request may have a body; nothing is read to find out (RFC 9112 section 6.3)."""
    if length := environ.get("CONTENT_LENGTH"):
        return bool(length != "0")
    return "HTTP_TRANSFER_ENCODING" in environ or (
        environ["REQUEST_METHOD"] not in ("GET", "HEAD") and bool(environ.get("wsgi.input_terminated"))
    )


def keep_body(request: RetryRequest, limit: int) -> ReplayableBody | ShortBody:
    """Put a body that is kept while it is read in the place of ``wsgi.input``."""
    environ = request.environ
    length = environ.get("CONTENT_LENGTH")
    stream = environ["wsgi.input"]
    if type(stream) is ShortBody and int(length or 0) <= limit:
        return stream
    body = ReplayableBody(request, stream, int(length) if length else None, limit)
    if body.left is not None and body.left > limit:
        body.give_up(f"it is longer than body_limit, {limit} bytes")
    else:
        request.on_close(body.forget)
        environ["wsgi.input"] = body.reader()
    return body


def tell_unkept(request: RetryRequest, body: ReplayableBody | ShortBody, error: BaseException | None) -> None:
    """Log that a request is not tried again because its body was not kept."""
    if error is not None and request.judge(error).transient:
        what = "%s: not tried again after %s, because its body was not kept: %s"
        log.warning(what, asked(request), type(error).__name__, body.unkept)


class ReplayableBody(io.RawIOBase):
    """A request body that is kept while it is read, so that a further attempt can read it again.

    It reads ahead of the application only to fill the buffer around it, and never beyond the end of the body: some
    servers would wait for more.
    """

    unkept = ""
    """The reason why the body cannot be read again, or ""."""

    def __init__(self, request: RetryRequest, stream: Any, left: int | None, limit: int) -> None:
        self.request: RetryRequest | None = request
        self.stream = stream
        self.left = left
        """Bytes that are left in the stream; None if the length is not known."""
        self.limit = limit
        self.spool: Any = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115  # closed with the request
        self.kept = self.position = 0

    def reader(self) -> io.BufferedReader:
        """Return the stream that an attempt reads, from the start of the body."""
        self.position = 0
        return io.BufferedReader(self)

    def close(self) -> None:
        """Do nothing: the body is closed with the request, and not by an application that closes its input."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return not self.unkept

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_CUR:
            offset += self.position
        if self.unkept or whence == io.SEEK_END or not 0 <= offset <= self.kept:
            raise io.UnsupportedOperation("a request body can be read again only as far as it was read")
        self.position = offset
        return offset

    def readinto(self, buffer: Any) -> int:
        if self.position < self.kept:
            self.spool.seek(self.position)
            block = self.spool.read(min(len(buffer), self.kept - self.position))
        else:
            size = len(buffer) if self.left is None else min(len(buffer), self.left)
            block = self.stream.read(size) if size else b""
            if self.left is not None:
                self.left -= len(block)
            if not self.unkept:
                self._keep(block)
        buffer[: len(block)] = block
        self.position += len(block)
        return len(block)

    def _keep(self, block: bytes) -> None:
        if self.kept + len(block) > self.limit:
            self.give_up(f"it is longer than body_limit, {self.limit} bytes")
            return
        try:
            self.spool.seek(self.kept)
            self.spool.write(block)
        except OSError as error:  # the disk is full, say
            self.give_up(f"{error}")
        else:
            self.kept += len(block)

    def give_up(self, reason: str) -> None:
        """Stop keeping the body, and have no further attempt made."""
        self.unkept = reason
        if self.request is not None:
            self.request.attempts_left = 0
        self.kept = self.position = 0
        self.forget()

    def forget(self) -> None:
        """Close the temporary file. Drop the request, whose environ refers to this body: no cycle is left."""
        self.request = None
        with suppress(OSError):  # the disk is full: the rest of the buffer cannot be written
            self.spool.close()
