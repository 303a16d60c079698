"""The client of the tests: one request to a WSGI app, under wsgiref's validator, read to its end and closed."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any
from urllib.parse import unquote_to_bytes
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest
import webob


class Answer(webob.Response):
    """An answer, read to its end and closed. Its ``status`` is a number."""

    status = property(lambda self: self.status_int, webob.Response.status.fset)

    @property
    def line(self) -> str:
        """The status with its reason."""
        return f"{self._status}"

    def __repr__(self) -> str:
        return f"<{self.line} {self.headers!r} {self.body!r:.200}>"


def environ_of(path: str, method: str, body: bytes, extra: dict[str, Any]) -> dict[str, Any]:
    """Return the environ of a request for `path`, percent-encoded, with a query or without."""
    path, _, query = path.partition("?")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query,
        "wsgi.input": io.BytesIO(body),
    }
    if body or method in ("POST", "PUT"):
        environ["CONTENT_LENGTH"] = str(len(body))
    environ.update(extra)
    setup_testing_defaults(environ)
    return environ


def ask(
    app: Any,
    path: str = "/",
    method: str = "GET",
    body: bytes = b"",
    *,
    environ: dict[str, Any] | None = None,
    valid: bool = True,
    **extra: Any,
) -> Answer:
    """Send one request. Every answer keeps HTTP's rules, and leaves the environ without a trace.

    environ  is added to that of the request, and so is what is named by keyword
    valid    False for an environ that breaks PEP 3333 itself, which the validator would refuse
    """
    errors = io.StringIO()
    sent = environ_of(path, method, body, {"wsgi.errors": errors, **(environ or {}), **extra})
    started: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        started.append((status, headers))
        return lambda block: pytest.fail("write() was used")

    blocks = (validator(app) if valid else app)(sent, start_response)
    try:
        whole = b"".join(blocks)
    finally:
        if hasattr(blocks, "close"):
            blocks.close()
    [(status, headers)] = started
    assert not [key for key in sent if key.startswith("pipeline.")], "the environ was left clean"
    assert errors.getvalue() == ""
    lengths = [value for name, value in headers if name.lower() == "content-length"]
    assert len(lengths) <= 1
    if method == "HEAD" or int(status[:3]) in (204, 304) or status < "2":
        assert whole == b"", "no body where HTTP has none"
    elif lengths:
        assert lengths == [str(len(whole))], "Content-Length is right or absent"
    return Answer(status=status, headerlist=list(headers), app_iter=[whole])


@contextmanager
def served(app: Any, host: str = "127.0.0.1") -> Iterator[str]:
    """Serve an app by waitress, and give its address under a name of this machine."""
    from waitress.server import create_server  # not every environment has it

    server = create_server(app, host="127.0.0.1", port=0, threads=4)
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.effective_port}"
    finally:

        def stop() -> None:
            for channel in list(server.active_channels.values()):
                channel.handle_close()
            server.close()

        with suppress(OSError):  # a request that has just ended has woken the server, and it has stopped already
            server.trigger.pull_trigger(stop)  # in its own thread, or it would wait at a socket that is closed
        thread.join(10)
