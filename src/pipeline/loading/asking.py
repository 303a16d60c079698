"""One request from the command line: its environ, and the answer of an app."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from webob import Request

from pipeline.interfaces import ConfigurationError


def request_of(method: str, path: str, headers: Sequence[str], data: Sequence[str]) -> dict[str, Any]:
    """Return the environ of a request."""
    environ: dict[str, Any] = Request.blank(path, base_url="http://localhost", method=method.upper()).environ
    environ["REMOTE_ADDR"] = "127.0.0.1"
    request = Request(environ)
    if data:
        parts = [Path(part[1:]).read_bytes() if part.startswith("@") else part.encode() for part in data]
        request.body = b"&".join(parts)
        kind = "application/json" if request.body[:1] in (b"{", b"[") else "application/x-www-form-urlencoded"
        request.content_type = kind
    given: dict[str, list[str]] = {}
    for name, value in map(header_of, headers):
        given.setdefault(name.title(), []).append(value)
    for name, values in given.items():  # one that is sent twice is a list
        request.headers[name] = ("; " if name == "Cookie" else ", ").join(values)
    return environ


def header_of(text: str) -> tuple[str, str]:
    """Return the name and the value of a header of the command line. Raise ConfigurationError if it has none."""
    name, colon, value = text.partition(":")
    if not colon:
        raise ConfigurationError(f"{text!r} is not a header of the form 'Name: value'")
    return name.strip(), value.strip()


def say_read_only(path: str) -> None:
    """Say on the terminal that a database can only be read."""
    print(
        f"{path} is open read-only, since another process has it, such as the server of the site. Nothing can be "
        f"stored.",
        file=sys.stderr,
        flush=True,
    )


def answer_of(app: Any, environ: dict[str, Any]) -> tuple[str, list[tuple[str, str]], bytes, BaseException | None]:
    """Return status, headers and body of an answer, and the exception that ended it, as a server meets it."""
    status, headers = "500 Internal Server Error", list[tuple[str, str]]()  # a server's answer to an exception
    blocks: list[bytes] = []
    escaped = None
    try:
        status, headers, body, _ = Request(environ).call_application(app, catch_exc_info=True)
        try:
            blocks.extend(body)
        finally:
            getattr(body, "close", bool)()
    except Exception as error:
        escaped = error
    return status, headers, b"".join(blocks), escaped
