"""Calling the site in this process, as a server would, without one."""

from __future__ import annotations

from io import BytesIO
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def environ_of(target: str, method: str = "GET", body: bytes = b"") -> dict[str, Any]:
    """The environ of a request, with what PEP 3333 asks for and no more."""
    path, query = urlsplit(target)[2:4]
    environ = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": "localhost",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": BytesIO(body),
        "wsgi.errors": None,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    if body:
        environ["CONTENT_LENGTH"] = str(len(body))
    return environ


def take(app: Any, target: str, method: str = "GET", *, body: bytes = b"", blocks: int | None = None) -> Reply:
    """Send a request, take so many blocks of the answer (all of them), and close it in any case."""
    started: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        started.append((status, headers))
        return lambda data: None

    answer = app(environ_of(target, method, body), start_response)
    taken: list[bytes] = []
    try:
        iterator = iter(answer)
        while blocks is None or len(taken) < blocks:
            try:
                taken.append(next(iterator))
            except StopIteration:
                break
    finally:
        if hasattr(answer, "close"):
            answer.close()
    status, headers = started[-1]
    return Reply(int(status[:3]), {name.lower(): value for name, value in headers}, b"".join(taken))
