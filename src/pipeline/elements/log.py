"""``log``: one line for each request, in the Combined Log Format, when it is closed."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Literal
from urllib.parse import quote

from pipeline.composition import element
from pipeline.interfaces import ConfigurationError, Facts, Handler
from pipeline.measuring.measures import attempts, view_name
from pipeline.request import PATH_SAFE, Request
from pipeline.response import Response

problems = logging.getLogger("pipeline.log")

LONGEST = 4096
"""Characters of a request line or header that are written: no client fills the disk with one request."""

_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), 34, 92, *range(127, 160), 0x2028, 0x2029)}
"""Quotes, backslashes, control characters and ends of lines, so that no client writes a line of its own."""

_SENT = "".join(map(chr, range(33, 127))).translate({34: None, 92: None})
"""The characters of a URL that are written as they were sent. Others are percent-encoded: a program that reads
the log splits the request line at its blanks and at its quotes."""

_PLAIN = re.compile(r"[!#-\[\]-~]{1,4096}")
"""A text of these characters alone, which is written as it is."""

_USUAL = frozenset(("-", "GET", "HEAD", "POST", "HTTP/1.0", "HTTP/1.1"))
"""Texts that need not be compared with it: 2.2 % of a plain page."""

STREAMS = ("stdout", "stderr")
"""Streams that ``file`` may name in place of a path."""


def _facts(*, file: str | None, **options: Any) -> Facts:
    return Facts(writes=() if file is None or file in STREAMS else (file,))


@element(
    facts=_facts,
    outside=dict.fromkeys(
        ("vhost", "retry", "database", "errors"),
        "each request is one line, with the answer that the visitor got and the address that was asked",
    )
)
def log(
    next: Handler,
    *,
    logger: str = "pipeline.access",
    file: str | None = None,
    format: Literal["combined", "json"] = "combined",
) -> Handler:
    """Write one line for each request: host, user, time, request line, status, bytes, referrer, agent, and
    the seconds until the request was closed.

    logger  name of the logger; lines are of level INFO
    file    path of a file that gets the lines instead of the logger, in a quarter of the time. Several processes
            may write to it, and it may be renamed (logrotate): within a second a new one is made. Or stdout or
            stderr, for journald or a container: it gets the lines that the logger would write, as fast
    format  combined, the Combined Log Format with the seconds at its end; or json, a JSON object with the same
            fields, and with the times of the elements if ``timing`` stands in the pipeline; default combined

    The id that ``request_id`` gave the request stands behind the seconds, or in the JSON object.
    The URL in the request line is as the client sent it, percent-encoded, where the server passes that on
    (REQUEST_URI or RAW_URI); else it is made of the decoded path. The bytes are those of the body that the server
    took, and "-" for a file that the server sent by its own means: the server does not say how much it sent.
    """
    access = logging.getLogger(logger)
    append = None if file is None else append_to_stream(file) if file in STREAMS else LogFile(file).append
    always = append is not None and file not in STREAMS
    line_of = _line if format == "combined" else _json_line
    record_of = Records(access)

    def log(request: Request, response: Response) -> None:
        if always or access.isEnabledFor(logging.INFO):
            started = time.monotonic()
            environ = request.environ
            path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")  # ``vhost`` rewrites both

            def write() -> None:
                line = line_of(request, response, path, time.monotonic() - started)
                if append is not None:
                    append(line)
                else:
                    access.handle(record_of(line))

            request.on_close(write)
        next(request, response)

    return log


class Records:
    """Makes the records of a logger. They name no place in the code, and copy what is the same in each of them:
    12,000 instructions for each request, in place of the 40,000 of ``logger.info``."""

    def __init__(self, logger: logging.Logger) -> None:
        self.logger = logger
        self.first = self._made("")

    def _made(self, line: str) -> logging.LogRecord:
        return self.logger.makeRecord(self.logger.name, logging.INFO, __file__, 0, "%s", (line,), None, "log")

    def __call__(self, line: str) -> logging.LogRecord:
        if logging.getLogRecordFactory() is not logging.LogRecord:
            return self._made(line)
        if self.first.process != os.getpid():
            self.first = self._made("")
        record = object.__new__(logging.LogRecord)
        record.__dict__ = values = self.first.__dict__.copy()
        now = time.time()
        values["relativeCreated"] += (now - values["created"]) * 1000
        values["args"], values["created"], values["msecs"] = (line,), now, int(now % 1 * 1000) + 0.0
        values["thread"], values["threadName"] = threading.get_ident(), threading.current_thread().name
        return record


def append_to_stream(name: str) -> Callable[[str], None]:
    """Return what appends a line to a standard stream of the process, by one write."""
    stream = getattr(sys, name)
    try:
        descriptor = stream.fileno()
    except (AttributeError, OSError):  # mod_wsgi has an object of its own, which writes to the log of Apache
        return partial(print, file=stream, flush=True)

    def append(line: str) -> None:
        try:
            os.write(descriptor, f"{line}\n".encode("utf-8", "backslashreplace"))
        except OSError as error:
            problems.warning("%s cannot be written, a line is lost: %s", name, error.strerror)

    return append


class LogFile:
    """A file that lines are appended to, each by one write, so that processes and threads do not mix them.

    It is opened when a process first writes, and anew when there is another file at its path, or none.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.descriptor: int | None = None
        self.mode = 0o666
        """Mode of a new file: that of the one in its place before, so that no other user may read it (S26)."""
        self.looked = 0
        """Second in which the path was last looked at."""
        try:
            os.close(self._opened())
        except OSError as error:
            raise ConfigurationError(f"log: file {path} cannot be written: {error.strerror}") from error

    def append(self, line: str) -> None:
        """Append a line. If that fails, a warning says so, once a second."""
        second = int(time.time())
        try:
            if self.descriptor is None or second != self.looked:
                self._look()
            os.write(self.descriptor, f"{line}\n".encode("utf-8", "backslashreplace"))  # type: ignore[arg-type]
        except OSError as error:
            if second != self.looked:
                problems.warning("%s cannot be written, lines are lost: %s", self.path, error.strerror)
        self.looked = second

    def _look(self) -> None:
        """Open the file if it is not open, or if the open one is not at its path any more."""
        if self.descriptor is None:
            self.descriptor = self._opened()
            return
        held = os.fstat(self.descriptor)
        self.mode = held.st_mode & 0o666
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(self.path), held):
                return
        new = self._opened()
        os.dup2(new, self.descriptor, inheritable=False)  # at once: another thread writes to one of them
        os.close(new)

    def _opened(self) -> int:
        opened = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, self.mode)
        self.mode = os.fstat(opened).st_mode & 0o666
        return opened


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_stamp = (0, "")
"""The last second in which a line was written, and how the log writes it."""


def _time() -> str:
    global _stamp
    second, text = _stamp
    now = int(time.time())
    if now != second:
        local = time.localtime(now)  # %b would be the month in the language of the locale
        text = time.strftime(f"%d/{_MONTHS[local.tm_mon - 1]}/%Y:%H:%M:%S %z", local)
        _stamp = (now, text)
    return text


def _line(request: Request, response: Response, path: str, seconds: float) -> str:
    environ = request.environ
    get = environ.get
    sent = request.bytes_sent
    asked = _asked(environ, path)  # without the key of debug mode, which is taken out by now
    id = getattr(request, "_request_id", "")
    return (
        f"{get('REMOTE_ADDR') or '-'} - {_bare(request.principal) if request.principal else '-'} [{_time()}] "
        f'"{_bare(get("REQUEST_METHOD", "-"))} {asked} {_bare(get("SERVER_PROTOCOL", "-"))}" '
        f"{response.status_line[:3]} {'-' if sent is None else sent} "
        f"{_quoted(get('HTTP_REFERER', '-'))} {_quoted(get('HTTP_USER_AGENT', '-'))} {seconds:.6f}"
        f"{id and ' '}{id}"
    )


def _json_line(request: Request, response: Response, path: str, seconds: float) -> str:
    """Return the line of a request as a JSON object: ASCII, without an end of line in it."""
    environ = request.environ
    now = time.time()
    fields: dict[str, Any] = {
        "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03}Z",
        "host": environ.get("REMOTE_ADDR") or None,
        "user": request.principal,
        "method": environ.get("REQUEST_METHOD"),
        "url": _asked(environ, path),
        "protocol": environ.get("SERVER_PROTOCOL"),
        "status": int(response.status_line[:3]),
        "bytes": request.bytes_sent,
        "referrer": environ.get("HTTP_REFERER"),
        "agent": environ.get("HTTP_USER_AGENT"),
        "seconds": round(seconds, 6),
    }
    fields = {name: value[:LONGEST] if isinstance(value, str) else value for name, value in fields.items()}
    ids = ((name, request.__dict__.get(name)) for name in ("_request_id", "error_id"))
    fields |= {name.lstrip("_"): id for name, id in ids if id}
    if (measures := request.measures) is not None:
        fields |= {
            "view": view_name(measures.view) or None,
            "attempts": attempts(request),
            "elements": {part: round(took, 6) for part, took in measures.own_times().items()},
        }
        if measures.span is not None and (traced := measures.span.get_span_context()).is_valid:
            fields |= {"trace_id": f"{traced.trace_id:032x}", "span_id": f"{traced.span_id:016x}"}
    return json.dumps(fields)


def _asked(environ: dict[str, Any], path: str) -> str:
    """Return the URL as the client sent it, or as the client could have sent it. It has no blank and no quote."""
    sent = environ.get("REQUEST_URI") or environ.get("RAW_URI")
    if not sent:
        sent = quote(path[:LONGEST], "/" + PATH_SAFE, "latin-1", "replace") or "/"
        if query := environ.get("QUERY_STRING"):
            sent += f"?{query}"
    return sent if _PLAIN.fullmatch(sent) else quote(sent[:LONGEST], _SENT, "latin-1", "replace")


def _quoted(text: str) -> str:
    if text == "-":
        return '"-"'
    text = text[:LONGEST]
    if '"' in text or "\\" in text or not text.isprintable():
        text = text.translate(_ESCAPES)
    return f'"{text}"'


def _bare(text: str) -> str:
    if text in _USUAL or _PLAIN.fullmatch(text):
        return text
    return text[:LONGEST].translate(_ESCAPES).replace(" ", "\\x20")
