"""The listener of the probes: clients that send half a request do not keep the others out (S12)."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from socket import create_connection
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from ports import unused_port

LISTEN = "import sys; from pipeline.running.process import listen_for_probes; listen_for_probes(*sys.argv[1:])"


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    port = unused_port()
    command = [sys.executable, "-W", "ignore", "-c", LISTEN, f"127.0.0.1:{port}", str(tmp_path)]
    with subprocess.Popen(command) as process:
        try:
            yield port
        finally:
            process.kill()


def probed(port: int) -> int:
    """Ask as an orchestrator does, which waits for three seconds, three times."""
    end = time.monotonic() + 9
    while True:
        try:
            with urlopen(f"http://127.0.0.1:{port}/alive", timeout=3) as answer:
                return int(answer.status)
        except HTTPError as error:
            with error:
                return error.code
        except OSError:
            if time.monotonic() > end:
                raise


@pytest.mark.parametrize("many", [0, 99, 400])
def test_half_sent_requests_keep_no_probe_out(many: int, port: int) -> None:
    """The directory has no process: 503 is the answer."""
    assert probed(port) == 503
    with ExitStack() as stack:
        for _ in range(many):
            one = stack.enter_context(create_connection(("127.0.0.1", port), 3))
            one.sendall(b"GET /alive HTTP/1.1\r\nHost: a\r\nX-")
        assert probed(port) == 503
