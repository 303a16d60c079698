"""The site under mod_python, which is not a WSGI server: the handler that calls the application.

The handler of mod_python itself answers every status as 200 and takes no ``exc_info``. mod_python ends the
process if a table of its own is asked by ``table[key]`` for a header that is not UTF-8; ``get`` is safe.
"""

from __future__ import annotations

import os
import socket
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import unquote_to_bytes

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
OK = 0
"""The value that a handler returns when it has answered."""
NOT_FOUND = 404


class Body:
    """The body of a request, as ``wsgi.input``."""

    def __init__(self, req: Any) -> None:
        self.req = req

    def read(self, size: int = -1) -> bytes:
        return bytes(self.req.read(size) if size >= 0 else self.req.read())

    def readline(self, size: int = -1) -> bytes:
        return bytes(self.req.readline(size) if size >= 0 else self.req.readline())

    def readlines(self, hint: int = -1) -> list[bytes]:
        return list(self)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")


def handler_of(application: App, prefix: str = "") -> Callable[[Any], int]:
    """Return the handler of mod_python that calls an application.

    prefix  the path of the site on the server, such as "/app"
    """

    def handler(req: Any) -> int:
        answer = Answer(req)
        environ = environ_of(req, prefix)
        if environ is None:
            return NOT_FOUND
        blocks = application(environ, answer.start)
        try:
            for block in blocks:
                if block:
                    answer.write(block)
            answer.send_headers()
        except Exception:
            if not answer.sent:
                raise  # Apache has a page for it
            traceback.print_exc()
            break_off(req.connection)
        finally:
            if hasattr(blocks, "close"):
                blocks.close()
        return OK

    return handler


def break_off(connection: Any) -> None:
    """End the connection of a client, which sees then that its answer is incomplete.

    mod_python has no call for it. Apache would add a page of its own to the answer, and end it as a complete one.
    """
    ends = connection.local_addr, connection.client_addr
    for name in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(name))) as found:
                if (found.getsockname()[:2], found.getpeername()[:2]) == ends:
                    found.shutdown(socket.SHUT_RDWR)
        except OSError:  # it is not a socket, or it is not connected
            continue


class Answer:
    """The answer, as ``start_response`` and the blocks of the body tell it."""

    def __init__(self, req: Any) -> None:
        self.req = req
        self.status = ""
        self.headers: list[tuple[str, str]] = []
        self.sent = False

    def start(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], None]:
        if exc_info is not None and self.sent:
            raise exc_info[1].with_traceback(exc_info[2])
        self.status, self.headers = status, headers
        return self.write

    def send_headers(self) -> None:
        """Give Apache the status and the headers. It sends them with the first block, or at the end."""
        if self.sent:
            return
        self.sent = True
        req = self.req
        req.status = int(self.status[:3])
        for name, value in self.headers:
            if name.lower() == "content-type":
                req.content_type = value
            elif name.lower() == "content-length":
                req.set_content_length(int(value))
            else:
                req.err_headers_out.add(name, value)  # also of answers that are errors

    def write(self, block: bytes) -> None:
        self.send_headers()
        self.req.write(block, 1)  # 1: send it at once


def environ_of(req: Any, prefix: str) -> dict[str, Any] | None:
    """Return the environ of a request, with the path and the headers as they were sent. None for a path that does
    not begin with the prefix: Apache has made it another one, such as ``/app/x`` of ``//app/x``."""
    raw, _, query = req.unparsed_uri.partition("?")
    path = raw
    if "://" in raw[:8]:  # the absolute form
        path = f"/{raw.partition('://')[2].partition('/')[2]}"
    decoded = unquote_to_bytes(path).decode("latin-1")
    if not f"{decoded}/".startswith(f"{prefix}/"):
        return None
    environ: dict[str, Any] = {
        "REQUEST_METHOD": req.method,
        "REQUEST_URI": req.unparsed_uri,
        "SCRIPT_NAME": prefix,
        "PATH_INFO": decoded[len(prefix) :],
        "QUERY_STRING": query,
        "SERVER_PROTOCOL": req.protocol,
        "SERVER_NAME": req.server.server_hostname or req.connection.local_ip,
        "SERVER_PORT": str(req.connection.local_addr[1]),
        "REMOTE_ADDR": req.useragent_ip,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "https" if req.is_https() else "http",
        "wsgi.input": Body(req),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for name in req.headers_in:
        key = name.upper().replace("-", "_")
        if "_" in name:  # it would be taken for another header
            continue
        if key not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            key = f"HTTP_{key}"
        try:
            value = req.headers_in.get(name)  # mod_python has read it as UTF-8: WSGI has a character for each byte
            environ[key] = value.encode("utf-8", "surrogateescape").decode("latin-1")
        except UnicodeDecodeError:  # it is not UTF-8, and cannot be had
            continue
    return environ
