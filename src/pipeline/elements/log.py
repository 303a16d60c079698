"""``log``: one line for each request, in the Combined Log Format, when it is closed."""

from __future__ import annotations

import logging
import time
from typing import Any
from urllib.parse import quote

from pipeline.composition import element
from pipeline.interfaces import Handler
from pipeline.request import PATH_SAFE, Request
from pipeline.response import Response

LONGEST = 4096
"""Characters of a request line or header that are written: no client fills the disk with one request."""

_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), 34, 92, *range(127, 160), 0x2028, 0x2029)}
"""Quotes, backslashes, control characters and ends of lines, so that no client writes a line of its own."""

_SENT = "".join(map(chr, range(33, 127))).translate({34: None, 92: None})
"""The characters of a URL that are written as they were sent. Others are percent-encoded: a program that reads
the log splits the request line at its blanks and at its quotes."""


@element(
    outside=dict.fromkeys(
        ("vhost", "retry", "database", "errors"),
        "each request is one line, with the answer that the visitor got and the address that was asked",
    )
)
def log(next: Handler, *, logger: str = "pipeline.access") -> Handler:
    """Write one line for each request: host, user, time, request line, status, bytes, referrer, agent, and
    the seconds it took until it was closed.

    logger  name of the logger; lines are of level INFO

    The URL in the request line is as the client sent it, percent-encoded, where the server passes that on
    (REQUEST_URI or RAW_URI); else it is made of the decoded path. The bytes are those of the body that the server
    took, and "-" for a file that the server sent by its own means: how much of it, the server does not say.
    """
    access = logging.getLogger(logger)

    def log(request: Request, response: Response) -> None:
        if access.isEnabledFor(logging.INFO):
            started = time.monotonic()
            environ = request.environ
            path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")  # ``vhost`` rewrites both

            def write() -> None:
                access.info("%s", _line(request, response, path, time.monotonic() - started))

            request.on_close(write)
        next(request, response)

    return log


def _line(request: Request, response: Response, path: str, seconds: float) -> str:
    environ = request.environ
    sent = request.bytes_sent
    asked = _asked(environ, path)  # without the key of debug mode, which is taken out by now
    return "{} - {} [{}] {} {} {} {} {} {:.6f}".format(
        environ.get("REMOTE_ADDR") or "-",
        _bare(request.principal or "-"),
        time.strftime("%d/%b/%Y:%H:%M:%S %z"),
        f'"{_bare(environ.get("REQUEST_METHOD", "-"))} {asked} {_bare(environ.get("SERVER_PROTOCOL", "-"))}"',
        response._status[:3],
        "-" if sent is None else sent,
        _quoted(environ.get("HTTP_REFERER", "-")),
        _quoted(environ.get("HTTP_USER_AGENT", "-")),
        seconds,
    )


def _asked(environ: dict[str, Any], path: str) -> str:
    """Return the URL as the client sent it, or as the client could have sent it. It has no blank and no quote."""
    sent = environ.get("REQUEST_URI") or environ.get("RAW_URI")
    if not sent:
        sent = quote(path[:LONGEST], "/" + PATH_SAFE, "latin-1", "replace") or "/"
        if query := environ.get("QUERY_STRING"):
            sent += f"?{query}"
    return quote(sent[:LONGEST], _SENT, "latin-1", "replace")


def _quoted(text: Any) -> str:
    return f'"{str(text)[:LONGEST].translate(_ESCAPES)}"'


def _bare(text: str) -> str:
    return text[:LONGEST].translate(_ESCAPES).replace(" ", "\\x20")
