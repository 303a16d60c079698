"""Asking a WSGI application without a server."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote_to_bytes

NONE: Mapping[str, Any] = MappingProxyType({})


def environ_of(method: str, path: str, headers: Mapping[str, Any] = NONE, body: bytes = b"") -> dict[str, Any]:
    """Return the environ of a request; the path may have a query."""
    path, _, query = path.partition("?")
    environ = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query,
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "localhost",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.url_scheme": "http",
        "wsgi.version": (1, 0),
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        **headers,
    }
    if body:
        environ["CONTENT_LENGTH"] = str(len(body))
    return environ


class Answer:
    """What an application answered."""

    def __init__(self, app: Any, environ: dict[str, Any]) -> None:
        self.environ = environ
        self.status = ""
        self.headers: list[tuple[str, str]] = []
        body = app(environ, self.start_response)
        try:
            self.body = b"".join(body)
        finally:
            if hasattr(body, "close"):
                body.close()

    def start_response(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
        self.status, self.headers = status, headers

    @property
    def text(self) -> str:
        return self.body.decode()


def ask(app: Any, method: str, path: str, headers: Mapping[str, Any] = NONE, body: bytes = b"") -> Answer:
    """Ask an application once."""
    return Answer(app, environ_of(method, path, headers, body))
