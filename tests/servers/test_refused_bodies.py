"""A refusal reaches the client through every proxy: the rest of the body is read before the answer is sent.

Without that nginx and Apache answer 502, since the server behind them closes a connection with unread bytes.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import NoReturn

import pytest

from servers.test_matrix import need, start

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]
TARGETS = ("nginx", "nginx --behind granian", "nginx --behind uwsgi", "apache", "lighttpd")
TIMES = 40 if os.environ.get("PIPELINE_FAULTS") == "full" else 6
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
KINDS: dict[str, tuple[str, str, str, bytes]] = {
    "PUT to a page": ("PUT", "/", "application/octet-stream", bytes(1_000_000)),
    "POST to a page": ("POST", "/@@process-not", FORM, b"a=" + b"x" * 1_000_000),
    "without a login": ("PUT", "/@@edit", "text/plain", bytes(1_000_000)),
    "JSON of 3 MB": ("POST", "/@@echo", JSON, json.dumps({"a": "x" * 3_000_000}).encode()),
    "a long field": ("POST", "/@@echo", FORM, b"a=" + b"x" * 2_500_000),
    "a bad boundary": ("POST", "/@@echo", "multipart/form-data", bytes(1_000_000)),
    "another type": ("POST", "/@@echo", "application/x-nothing", bytes(1_000_000)),
    "too many fields": ("POST", "/@@echo", FORM, b"a=1&" * 300_000),
    "GET with a body": ("GET", "/", FORM, bytes(1_000_000)),
}


@pytest.mark.parametrize("target", TARGETS)
def test_a_refused_body_is_no_bad_gateway(
    target: str, python: Path, inis: Path, public_dir: Path, missing: Callable[[str, str], NoReturn]
) -> None:
    need(target, python, missing)
    found: Counter[str] = Counter()
    with start(target, python, inis, public_dir) as server:
        for kind, (method, path, content_type, body) in KINDS.items():
            for _ in range(TIMES):
                with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)) as connection:
                    try:
                        connection.request(method, path, body, {"Content-Type": content_type})
                        status = str(connection.getresponse().status)
                    except OSError as error:
                        status = type(error).__name__
                    found[f"{kind}: {status}"] += 1
    print(target, dict(found))
    assert not [name for name in found if not name.rpartition(": ")[2].startswith(("2", "3", "4"))], found


@pytest.mark.parametrize("target", ["gunicorn", "granian"])
@pytest.mark.parametrize("pause", [None, 0.3])
def test_a_client_that_stalls_holds_no_thread(
    target: str,
    pause: float | None,
    python: Path,
    inis: Path,
    public_dir: Path,
    missing: Callable[[str, str], NoReturn],
) -> None:
    """It announces a body and sends a byte, then nothing, or a byte from time to time. The 404 does not wait."""
    need(target, python, missing)
    with (
        start(target, python, inis, public_dir) as server,
        closing(socket.create_connection(("127.0.0.1", server.port), timeout=5)) as client,
    ):
        client.sendall(b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nx")
        stopping = threading.Event()

        def drip() -> None:
            with suppress(OSError):
                while pause is not None and not stopping.wait(pause):
                    client.sendall(b"x")

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            assert client.recv(1000).split()[1] in (b"404", b"400"), "it is answered"
        finally:
            stopping.set()
            dripping.join()
