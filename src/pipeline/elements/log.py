"""``log``: one line for each request, in the Combined Log Format, when it is closed."""

from __future__ import annotations

import logging
import time
from typing import Any

from pipeline.composition import element
from pipeline.interfaces import Handler
from pipeline.request import Request
from pipeline.response import Response

LONGEST = 4096
"""Characters of a request line or header that are written: no client fills the disk with one request."""

_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), 34, 92, *range(127, 160), 0x2028, 0x2029)}
"""Quotes, backslashes, control characters and ends of lines, so that no client writes a line of its own."""


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
    """
    access = logging.getLogger(logger)

    def log(request: Request, response: Response) -> None:
        if access.isEnabledFor(logging.INFO):
            started = time.monotonic()
            environ = request.environ
            asked = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")

            def write() -> None:
                access.info("%s", _line(request, response, asked, time.monotonic() - started))

            request.on_close(write)
        next(request, response)

    return log


def _line(request: Request, response: Response, asked: str, seconds: float) -> str:
    environ = request.environ
    query = environ.get("QUERY_STRING")
    return "{} - {} [{}] {} {} {} {} {} {:.6f}".format(
        environ.get("REMOTE_ADDR") or "-",
        _bare(request.principal or "-"),
        time.strftime("%d/%b/%Y:%H:%M:%S %z"),
        _quoted(
            f"{environ.get('REQUEST_METHOD', '-')} {asked}{'?' + query if query else ''} "
            f"{environ.get('SERVER_PROTOCOL', '-')}"
        ),
        response._status[:3],
        request.bytes_sent,
        _quoted(environ.get("HTTP_REFERER", "-")),
        _quoted(environ.get("HTTP_USER_AGENT", "-")),
        seconds,
    )


def _quoted(text: Any) -> str:
    return f'"{str(text)[:LONGEST].translate(_ESCAPES)}"'


def _bare(text: str) -> str:
    return text.translate(_ESCAPES).replace(" ", "\\x20")
