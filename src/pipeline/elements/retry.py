"""``retry``: tries a request again, from the start, if it met a transient error (R2)."""

from __future__ import annotations

import io
import logging
import random
import sys
import time
from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from types import FrameType
from typing import Any

from pipeline.composition import element
from pipeline.interfaces import Handler
from pipeline.request import Request
from pipeline.response import Response

log = logging.getLogger("pipeline.retry")

LONGEST_PAUSE = 0.1
"""Seconds between two attempts, on average, at most. Longer ones would help nobody: where eight writers meet on
one object all the time, an attempt fails as often after a second as after a tenth of it."""
# 503s of 8 writers of one object in 2 processes, on ZEO, PostgreSQL, MariaDB: 0.26, 0.52, 0.04 % with 20 attempts;
# 2.8, 24, 0.05 % with 20, one at a time in a process; none with 100 (at most 60, 8 s), or 0, 0.11, 0 % when busy.
IN_MEMORY = 64 * 1024
"""Bytes of a body that are kept in memory; a longer one is kept in a temporary file."""


class EnvironChanged(Exception):
    """Under ``debug``: a further attempt would not start with what the first one started with."""


class RetryRequest(Request):
    """What ``retry`` adds to a request."""

    attempt: int = 1
    """Which attempt at the request this is."""


@element(adds=RetryRequest, outside={"database": "every attempt needs a fresh connection state"})
def retry(
    next: Handler,
    *,
    attempts: int = 100,
    delay: float = 0.005,
    patience: float = 20.0,
    body_limit: int = 64 * 1024 * 1024,
    debug: bool = False,
) -> Handler:
    """Try a request again that failed with a transient error, such as a write conflict.

    attempts    how often a request is tried at most; 1 is never again
    delay       seconds before the second attempt, on average; doubled for each further one up to 0.1, and
                jittered, so that those who met do not meet again
    patience    seconds after the first failure from which on one more attempt is the last: a view that takes a
                second is tried some twenty times, one that takes a minute three times
    body_limit  bytes of a request body that are kept for another attempt, in memory or in a temporary
                file. A longer body is read once, and its request is not tried again
    debug       whether it is an error if an attempt would not start with the environ of the first: it names
                the key and the element that changed it. Slow

    Every attempt starts with the environ, request, response and body of the first; what the one before had
    opened is closed before the pause. Nothing is tried again once something is committed. A view that must
    not run twice sets ``request.attempts_left = 0``. When attempts run out, ``errors`` answers 503.
    """
    if attempts < 2:
        return next
    more = attempts - 1

    def retry(request: RetryRequest, response: Response) -> None:
        environ = request.environ
        request.attempts_left = more
        body = None
        if (
            "CONTENT_LENGTH" in environ
            or environ["REQUEST_METHOD"] != "GET"
            or "HTTP_TRANSFER_ENCODING" in environ
        ):
            body = keep_body(request, body_limit) if has_body(environ) else None
        if request._closers:
            request._closers_before = len(request._closers)
        first_environ = environ.copy()
        first_request = request.snapshot()
        first_response = response.snapshot()
        call = Watch(environ, next) if debug else next
        try:
            call(request, response)
        except Exception as error:
            failure = error
        else:
            if body is not None and body.unkept:
                tell_unkept(request, body, request.verdict.error if request.verdict is not None else None)
            return
        try:
            again(call, request, response, failure, body, first_environ, first_request, first_response)
        finally:
            del failure  # its traceback refers to this frame

    def again(
        call: Handler,
        request: RetryRequest,
        response: Response,
        failure: Exception,
        body: Body | None,
        first_environ: dict[str, Any],
        first_request: Any,
        first_response: Any,
    ) -> None:
        """Make further attempts, after one that failed; raise the last failure if none is left, or if something
        was committed (R2a), also where there is no element ``transaction`` that says so."""
        end = time.monotonic() + patience
        try:
            while True:
                request.outcome = request.outcome or getattr(request.tm_in_use, "outcome", "")
                if not request.attempts_left or not request.judge(failure).transient:
                    if body is not None and body.unkept:
                        tell_unkept(request, body, failure)
                    raise failure
                log.info("%s, attempt %d: %s", asked(request), request.attempt, type(failure).__name__)
                request.close(request._closers_before)
                environ = request.environ
                environ.clear()
                environ.update(first_environ)
                if body is not None:
                    environ["wsgi.input"] = body.reader()
                attempt, left = request.attempt, request.attempts_left
                request.restore(first_request)
                request.attempt = attempt + 1
                request.attempts_left = left - 1 if time.monotonic() < end else 0
                response.restore(first_response)
                time.sleep(random.uniform(0, 2) * min(delay * 2 ** (attempt - 1), LONGEST_PAUSE))
                try:
                    call(request, response)
                    break
                except Exception as error:
                    failure = error
        finally:
            del failure
        if request.verdict is None or not request.verdict.transient:
            log.info("%s: repaired after %d attempts", asked(request), request.attempt)

    return retry


def asked(request: RetryRequest) -> str:
    return f"{request.method} {request.path_info_safe}"


def has_body(environ: dict[str, Any]) -> bool:
    """Whether the request has a body, as far as can be told without reading it (RFC 9112 section 6.3)."""
    length = environ.get("CONTENT_LENGTH")
    if length:
        return bool(length != "0")
    return "HTTP_TRANSFER_ENCODING" in environ or (
        environ["REQUEST_METHOD"] not in ("GET", "HEAD") and bool(environ.get("wsgi.input_terminated"))
    )


def keep_body(request: RetryRequest, limit: int) -> Body:
    """Have the body kept while it is read, in the place of ``wsgi.input``."""
    environ = request.environ
    length = environ.get("CONTENT_LENGTH")
    body = Body(request, environ["wsgi.input"], int(length) if length else None, limit)
    if body.left is not None and body.left > limit:
        body.give_up(f"it is longer than body_limit, {limit} bytes")
    else:
        request.on_close(body.forget)
        environ["wsgi.input"] = body.reader()
    return body


def tell_unkept(request: RetryRequest, body: Body, error: BaseException | None) -> None:
    """Say that a request would have been tried again if its body had been kept."""
    if error is not None and request.judge(error).transient:
        log.warning(
            "%s: not tried again after %s, since its body was not kept: %s",
            asked(request),
            type(error).__name__,
            body.unkept,
        )


class Body(io.RawIOBase):
    """A request body that is kept while it is read, and is read again from there.

    It reads ahead of the application only to fill the buffer around it, and never more than the request has:
    some servers would wait for more.
    """

    unkept = ""
    """Why the body cannot be read again; empty if it can."""

    def __init__(self, request: RetryRequest, stream: Any, left: int | None, limit: int) -> None:
        self.request: RetryRequest | None = request
        self.stream = stream
        self.left = left
        """Bytes that are left in the stream; None is until it ends."""
        self.limit = limit
        # Closed with the request. A body that is known to be short needs no file that could go to the disk.
        is_short = left is not None and left <= IN_MEMORY
        self.spool: Any = io.BytesIO() if is_short else SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115
        self.kept = self.position = 0

    def reader(self) -> io.BufferedReader:
        """Return the stream that an attempt reads, from the start."""
        self.position = 0
        return io.BufferedReader(self)

    def close(self) -> None:
        """Closed with the request, and not by an application that closes what it reads."""

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
        """Stop keeping the body, so that the request is not tried again."""
        self.unkept = reason
        if self.request is not None:
            self.request.attempts_left = 0
        self.kept = self.position = 0
        self.forget()

    def forget(self) -> None:
        """Close the file that keeps the body, and leave no reference cycle: the environ refers to this object."""
        self.request = None
        try:
            self.spool.close()
        except OSError:  # the disk is full, and the file is dropped in any case
            pass


class Watch:
    """Finds out which element changed what in the environ, as far as a further attempt would see it.

    The environ is put back between attempts; what is changed inside of its values is not. The environ is
    compared whenever a handler is entered and left: what changed in between was done by the innermost
    one that had been entered.
    """

    def __init__(self, environ: dict[str, Any], next: Handler) -> None:
        self.environ = environ
        self.next = next
        self.first = self.last = frozen(environ)
        self.inside: list[str] = ["retry"]
        self.blamed: dict[str, str] = {}
        self.seen: list[str] = []

    def __call__(self, request: RetryRequest, response: Response) -> None:
        """Call the next handler and watch it; EnvironChanged if the environ is not that of the first."""
        now = frozen(self.environ)
        for key in changes(self.first, now):
            raise EnvironChanged(
                f"attempt {request.attempt} would start with another environ than the first: {key!r} was "
                f"changed in place by {self.blamed.get(key, 'somebody')}, one of {', '.join(self.seen)}; "
                f"it is now {self.environ.get(key)!r:.200}"
            )
        self.last = now
        before = sys.getprofile()
        sys.setprofile(self.profile)
        try:
            self.next(request, response)
        finally:
            sys.setprofile(before)

    def profile(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_varnames[code.co_argcount - 2 : code.co_argcount] != ("request", "response"):
            return
        if event in ("call", "return"):
            now = frozen(self.environ)
            for key in changes(self.last, now):
                self.blamed[key] = self.inside[-1]
            self.last = now
        if event == "call":
            self.inside.append(code.co_name)
            if code.co_name not in self.seen:
                self.seen.append(code.co_name)
        elif event == "return":
            self.inside.pop()


def frozen(value: Any, depth: int = 5) -> Any:
    """Something that is equal only as long as ``value`` is not changed; objects count as what they are."""
    if isinstance(value, dict) and depth:
        return {key: frozen(value[key], depth - 1) for key in list(value)}
    if isinstance(value, (list, tuple)) and depth:
        return [frozen(item, depth - 1) for item in value]
    if isinstance(value, (set, bytearray)):
        return type(value)(value)
    return value if isinstance(value, (str, bytes, int, float)) else id(value)


def changes(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """The keys by which two frozen environs differ; the body of each attempt is another reader."""
    for key in [*before, *(key for key in after if key not in before)]:
        if key != "wsgi.input" and before.get(key, KeyError) != after.get(key, KeyError):
            yield key
