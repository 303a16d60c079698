"""The body of a request. It is checked before any element sees the request, and refused if it cannot be read (R11).

``check_body`` puts a checked stream in the place of ``wsgi.input``. So no reader (a view, an element, WebOb or a
foreign application) takes an unreadable body for an empty or a complete one:

* a chunked body is read as its server offers it, or refused with 411 if the server does not decode it, or does not
  tell a whole one from a part. A further transfer coding, such as gzip, is a 501: no server decodes it;
* a Content-Length that is not a decimal number is a 400, and so is one together with a Transfer-Encoding (S11);
* a body of up to 64 KiB is read as a whole when it is first used, so that it can be read again;
* if a body breaks off, is malformed, or comes too slowly, its reader gets a 400 or 408, and it is logged. The
  exception is also an ``OSError``, which foreign frameworks expect for a broken body;
* a fault of the server's own code is not the client's: the reader gets a ``RuntimeError``, and the answer is 500;
* the rest of a body that no reader wanted is read before the answer is sent, up to a limit, if a proxy that
  ``vhost`` trusts passes it on. Otherwise the server closes a connection with unread bytes, which resets it, and
  the proxy makes a 502 of the answer.
"""

from __future__ import annotations

import errno
import io
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import Any
from urllib.parse import quote

from webob.exc import (
    HTTPBadRequest,
    HTTPClientError,
    HTTPError,
    HTTPException,
    HTTPLengthRequired,
    HTTPNotImplemented,
    HTTPRequestEntityTooLarge,
    HTTPRequestTimeout,
)

from pipeline.http.error_pages import one_line, out_of_descriptors
from pipeline.request import Request

log = logging.getLogger("pipeline.http")

LONGEST = 1024 * 1024 * 1024
"""Upper limit of the bytes of a chunked body that is copied for an application which needs a Content-Length."""
LONGEST_REST = 64 * 1024 * 1024
"""Upper limit of the bytes of a body that are read only to let the answer reach the client."""
_SECONDS = 10.0
"""Seconds after which no further block of them is read."""
_IN_MEMORY = 64 * 1024
_BLOCK = 64 * 1024
_SLOW = (errno.EAGAIN, errno.ETIMEDOUT)
_OF_CLIENTS = (OSError, EOFError, ValueError)
"""Built-in exceptions by which servers tell of a body that breaks off or is malformed."""
_UNSURE = ("Granian",)
"""Servers that set ``wsgi.input_terminated``, although a chunked body that breaks off ends without an error."""


class BrokenBody(HTTPBadRequest, OSError):
    """A body that breaks off or is malformed: 400."""


class SlowBody(HTTPRequestTimeout, OSError):
    """A body that did not come in the time that the server allows: 408."""


def check_body(request: Request) -> None:
    """Check the body of a request that has a CONTENT_LENGTH or an HTTP_TRANSFER_ENCODING in its environ."""
    environ = request.environ
    length: str = environ.get("CONTENT_LENGTH") or ""
    if coding := environ.get("HTTP_TRANSFER_ENCODING"):
        if coding.strip(" \t").lower() != "chunked":  # RFC 9112 section 6.1: a server decodes no other
            raise _refused(environ, HTTPNotImplemented("The body may have the transfer coding chunked alone."))
        if length:
            raise _refused(environ, HTTPBadRequest("Content-Length and Transfer-Encoding contradict each other."))
        if not environ.get("wsgi.input_terminated") or environ.get("SERVER_SOFTWARE", "").startswith(_UNSURE):
            uwsgi = sys.modules.get("uwsgi")  # only there in a process of uWSGI
            if not hasattr(uwsgi, "chunked_read"):
                error = HTTPLengthRequired("This server takes no chunked body. Please send a Content-Length.")
                raise _refused(environ, error)
            environ["wsgi.input"] = io.BufferedReader(_Chunks(uwsgi))
            environ["wsgi.input_terminated"] = True
        environ["wsgi.input"] = CheckedBody(environ, None)
    elif length and length != "0":
        if not (length.isascii() and length.isdecimal()):
            raise _refused(environ, HTTPBadRequest("The Content-Length is not one decimal number."))
        if len(length) > 18:
            raise _refused(environ, HTTPRequestEntityTooLarge("The Content-Length is too large."))
        body = CheckedBody(environ, left := int(length))
        environ["wsgi.input"] = ShortBody(body) if left <= _IN_MEMORY else body


def drain_at_end(request: Request) -> None:
    """Have the rest of the body read before the answer is sent."""
    environ = request.environ
    body = environ["wsgi.input"]
    body = body.body if type(body) is ShortBody else body
    if type(body) is CheckedBody:
        request.on_close(partial(drain, body, environ, environ.get("pipeline.response")))


def drain(body: CheckedBody, environ: dict[str, Any], response: Any) -> None:
    """Read the rest of a body that a proxy passes on, before the answer is sent. If it is too long or too slow, the
    answer says that the connection is closed.

    A proxy such as nginx has the whole body before it asks the site, and makes a 502 of an answer that comes too
    early. Any other client may stall, which would hold a thread at each address: its answer does not wait. A client
    that waits for "100 Continue" has not sent the body, and is not asked for it.
    """
    if body.left == 0 or body.failure is not None:
        return
    if environ.get("HTTP_EXPECT") and not body.given:
        return
    ends, limit = time.monotonic() + _SECONDS, body.given + LONGEST_REST
    if body.left is None or body.left <= LONGEST_REST:
        with suppress(Exception):  # the client has gone, most likely
            while body.given < limit and time.monotonic() < ends:
                if not body.read(_BLOCK):
                    return
    if response is not None:
        close_connection(environ, response.headers)


def give_length(request: Request) -> None:
    """Give a chunked body a Content-Length. Without it a PEP 3333 application would take it for empty.

    The body is copied into memory or a temporary file, which is closed with the request.
    """
    environ = request.environ
    if environ.get("CONTENT_LENGTH") or not environ["HTTP_TRANSFER_ENCODING"]:
        return
    copy = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115
    request.on_close(copy.close)
    stream = environ["wsgi.input"]
    length = 0
    while block := stream.read(_BLOCK):
        length += len(block)
        if length > LONGEST:
            raise HTTPRequestEntityTooLarge(f"A body without a Content-Length may have {LONGEST} bytes at most.")
        copy.write(block)
    copy.seek(0)
    environ["wsgi.input"] = copy
    environ["CONTENT_LENGTH"] = str(length)
    del environ["HTTP_TRANSFER_ENCODING"]


class CheckedBody:
    """A request body that raises an error if it cannot be read to its end. It has every method of PEP 3333, and
    ``seek`` if the stream of the server has it. The server is never asked for a negative number of bytes: some
    servers take it for all, some wait for more than the body, and some fail."""

    def __init__(self, environ: dict[str, Any], length: int | None) -> None:
        # The environ is not kept, since it refers to this body.
        self.asked = environ.get("REQUEST_METHOD", ""), environ.get("PATH_INFO", "")
        self.stream = environ["wsgi.input"]
        self.left = length
        """Bytes that are left; None if the length is not known."""
        self.given = 0
        """Bytes that were read."""
        self.failure: tuple[type[Exception], str] | None = None

    def read(self, size: int | None = -1) -> bytes:
        left = self.left
        if left is None:
            if size is None or size < 0:
                return b"".join(iter(partial(self.read, _BLOCK), b""))
            return self._receive(self.stream.read, size)
        wanted = left if size is None or size < 0 else min(size, left)
        if not wanted:
            return b""
        block = self._receive(self.stream.read, wanted)
        if len(block) == wanted:
            return block
        blocks = [block]  # a server may return less than it was asked for
        while wanted := wanted - len(block):
            blocks.append(block := self._receive(self.stream.read, wanted))
        return b"".join(blocks)

    def readline(self, size: int | None = -1) -> bytes:
        left = self.left
        if left is None:
            if size is None or size < 0:
                return b"".join(self._line())
            return self._receive(self.stream.readline, size)
        wanted = left if size is None or size < 0 else min(size, left)
        return self._receive(self.stream.readline, wanted) if wanted else b""

    def _line(self) -> Iterator[bytes]:
        """Yield the parts of the next line of a body whose length is not known."""
        part = b""
        while not part.endswith(b"\n") and (part := self.readline(_BLOCK)):
            yield part

    def readlines(self, hint: int | None = -1) -> list[bytes]:
        return list(self)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        seekable = getattr(self.stream, "seekable", None)
        return seekable is not None and bool(seekable())

    def tell(self) -> int:
        return self.stream.tell()  # type: ignore[no-any-return]

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        before: int = self.stream.tell()
        after: int = self.stream.seek(offset, whence)
        self.given += after - before
        if self.left is not None:
            self.left -= after - before
        return after

    def close(self) -> None:
        """Do nothing: the stream belongs to the server (PEP 3333)."""

    def _receive(self, read: Callable[[int], bytes], size: int) -> bytes:
        if self.failure is not None:
            kind, detail = self.failure
            raise kind(detail)
        try:
            block = read(size)
        except (HTTPException, MemoryError):
            raise
        except Exception as error:
            if out_of_descriptors(error):
                raise
            # Servers have exceptions of their own for a bad body, such as gunicorn's ``InvalidChunkSize``.
            if not isinstance(error, _OF_CLIENTS) and type(error).__module__ == "builtins":
                raise self._faulty(f"raised {type(error).__name__}: {error}") from error
            kind = SlowBody if _is_slow(error) else BrokenBody
            raise self._failed(kind, f"{type(error).__name__}: {error}") from error
        if self.left is not None:
            if not block:
                raise self._failed(BrokenBody, f"{self.left} bytes are missing")
            if len(block) > self.left:
                raise self._faulty(f"returned {len(block)} bytes where {self.left} were left")
            self.left -= len(block)
        self.given += len(block)
        return block

    def _failed(self, kind: type[HTTPClientError], why: str) -> HTTPClientError:
        slow = kind is SlowBody
        detail = "The body of the request came too slowly." if slow else "The body of the request broke off."
        self.failure = kind, detail
        method, path = self.asked
        _tell(method, path, kind.code, f"the body failed after {self.given} bytes: {why}")
        return kind(detail)

    def _faulty(self, why: str) -> RuntimeError:
        """Return the error for a fault of the server's own code, which is not the client's doing."""
        kind = type(self.stream)
        detail = f"wsgi.input of the server ({kind.__module__}.{kind.__qualname__}) {why}, after {self.given} bytes"
        self.failure = RuntimeError, detail
        return RuntimeError(detail)


class ShortBody:
    """A short request body. It is read as a whole when it is first used, and it can be read again: ``retry`` needs
    no copy of it."""

    unkept = ""
    """The reason why the body cannot be read again; it always can."""

    def __init__(self, body: CheckedBody) -> None:
        self.body = body
        self.whole: io.BytesIO | None = None

    @property
    def given(self) -> int:
        """Bytes that were read."""
        return self.whole.tell() if self.whole is not None else 0

    def reader(self) -> ShortBody:
        """Return the body, to be read from its start."""
        if self.whole is not None:
            self.whole.seek(0)
        return self

    def _read(self) -> io.BytesIO:
        if self.whole is None:
            self.whole = io.BytesIO(self.body.read())
        return self.whole

    def read(self, size: int | None = -1) -> bytes:
        return (self.whole or self._read()).read(size)

    def __getattr__(self, name: str) -> Any:
        """Return a further method of a file, which reads the body as a whole."""
        if name not in ("readline", "readlines", "readable", "seekable", "tell", "seek"):
            raise AttributeError(name)
        return getattr(self._read(), name)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._read())

    def __enter__(self) -> ShortBody:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: the body belongs to the server (PEP 3333)."""


class _Chunks(io.RawIOBase):
    """The chunked body of a request under uWSGI, read by its module ``uwsgi``.

    A malformed chunk raises an error, but a chunk size such as "zz" ends the body without one. So uWSGI cannot tell
    an empty body from a malformed one, and a body without any byte is refused.
    """

    def __init__(self, uwsgi: Any) -> None:
        self.uwsgi = uwsgi
        self.chunk = memoryview(b"")
        self.began = self.ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self.chunk and not self.ended:
            self.chunk = memoryview(self._next())
            self.ended = not self.chunk
        size = min(len(buffer), len(self.chunk))
        buffer[:size] = self.chunk[:size]
        self.chunk = self.chunk[size:]
        return size

    def _next(self) -> bytes:
        start, options = time.monotonic(), self.uwsgi.opt
        patience = float(options.get("chunked-input-timeout") or options.get("socket-timeout") or 4)
        try:
            chunk: bytes = self.uwsgi.chunked_read()
        except OSError as error:  # the same error for all failures
            if (waited := time.monotonic() - start) >= patience - 0.1:
                raise TimeoutError(
                    f"{error}; no chunk for {waited:.0f} s (if chunked bodies always fail, "
                    f"uWSGI's HTTP router needs the option http-chunked-input)"
                ) from error
            raise
        if not chunk and not self.began:
            raise OSError("uWSGI cannot tell this chunked body from an empty one")
        self.began = True
        return chunk


def _refused(environ: dict[str, Any], error: HTTPError) -> HTTPError:
    """Log a refusal, and close the connection, so that the rest of the body is not read as a request."""
    _tell(environ.get("REQUEST_METHOD", ""), environ.get("PATH_INFO", ""), error.code, error.detail or "")
    close_connection(environ, error.headers)
    return error


def close_connection(environ: dict[str, Any], headers: Any) -> None:
    """Have the server close the connection.

    PEP 3333 leaves ``Connection`` to the server. The handlers of wsgiref refuse the header, and close every
    connection themselves. Their ``wsgi.file_wrapper`` tells them, because their names differ: "WSGIServer/0.2
    CPython/3.11.7", "WSGIServer CPython/3.15.2", and that of Apache for a CGI script.
    """
    of_wsgiref = getattr(environ.get("wsgi.file_wrapper"), "__module__", None) == "wsgiref.util"
    if not of_wsgiref and environ.get("SERVER_PROTOCOL", "").startswith("HTTP/1."):
        headers["Connection"] = "close"


def _is_slow(error: Exception) -> bool:
    text = str(error).lower()
    says_so = "timeout" in text or "timed out" in text
    return says_so or isinstance(error, TimeoutError) or getattr(error, "errno", None) in _SLOW


def _tell(method: str, path: str, status: int, why: str) -> None:
    asked = f"{method} {quote(path.encode('latin-1', 'replace'), safe='/')}"
    log.info("%.200s: %d, %.300s", one_line(asked), status, one_line(why))
