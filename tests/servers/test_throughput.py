"""Requests per second of each server on the demo's first page out of ZEO. ``make faults`` runs it."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from faults.length import length
from ports import unused_port
from servers.base import Missing, find
from servers.deployed import Deployed, as_user, deployed

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900)]

SECONDS = length(short=0, full=8)
CONNECTIONS = (8, 120)
SERVERS = ("waitress", "gunicorn", "granian", "apache", "uwsgi", "nginx", "nginx --behind granian")


class Waitress(Deployed):
    """``pipeline serve`` as it is without a word about the server."""

    def __init__(self, python: Path, ini: Path, directory: Path, uri: str) -> None:
        self.port = unused_port()
        self.directory = directory
        directory.mkdir()
        self.printed = ""
        self.as_user = as_user
        serve = f"{python.with_name('pipeline')} serve {ini} --no-reload --port {self.port} '{uri}'"
        self.commands = {"start": [serve], "check": [f"curl -sf http://127.0.0.1:{self.port}/@@health"]}
        self.running: list[subprocess.Popen[bytes]] = []


@contextmanager
def serving(server: str, python: Path, inis: Path, directory: Path) -> Iterator[Deployed]:
    uri = f"zodb_uri={(inis / 'uri').read_text()}"
    if server != "waitress":
        with deployed(
            python, inis / "matrix.ini", directory, server, "--workers", "2", "--threads", "4", uri
        ) as site:
            yield site
        return
    site = Waitress(python, inis / "matrix.ini", directory, uri)
    try:
        site.start()
        yield site
    finally:
        site.kill()


@pytest.mark.skipif(not SECONDS, reason="make faults runs it: figures of a machine that does nothing else")
def test_throughput(python: Path, inis: Path, public_dir: Path, missing: Callable[[str, str], NoReturn]) -> None:
    """Every answer is proved by a line of the access log."""
    try:
        wrk = find("wrk", "apt install wrk")
    except Missing as error:
        missing(*error.args)
    rates: dict[tuple[str, int], float] = {}
    for server in SERVERS:
        with serving(server, python, inis, public_dir / f"rate-{re.sub(r'[^a-z]', '', server)}") as site:
            for connections in CONNECTIONS:
                measure(wrk, site, connections, 1)
                rates[server, connections] = measure(wrk, site, connections, SECONDS)
                print(f"{server}, {connections} connections: {rates[server, connections]:.0f}")
    for server in SERVERS:
        told = [
            f"{rates[server, many]:7.0f} ({rates[server, many] / rates['waitress', many]:.2f})"
            for many in CONNECTIONS
        ]
        print(f"{server:24} {'  '.join(told)}")
    for many in CONNECTIONS:
        assert rates["granian", many] >= 2 * rates["waitress", many]


def measure(wrk: str, site: Deployed, connections: int, seconds: int) -> float:
    """Return requests per second."""
    before = logged(site)
    command = [
        wrk,
        "-t1",
        f"-c{connections}",
        f"-d{seconds}s",
        "--timeout",
        "20s",
        f"http://127.0.0.1:{site.port}/",
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Non-2xx" not in said, said
    if errors := re.search(r"connect (\d+), read \d+, write (\d+), timeout (\d+)", said):
        # uWSGI closes the connection after each answer, which wrk calls an error of reading.
        assert errors.groups() == ("0", "0", "0"), said
    requests = int(re.search(r"(\d+) requests in", said)[1])  # type: ignore[index]
    time.sleep(0.5)
    assert requests <= logged(site) - before <= requests + connections, said
    return float(re.search(r"Requests/sec: +([\d.]+)", said)[1])  # type: ignore[index]


def logged(site: Deployed) -> int:
    return len(re.findall(r'"GET / HTTP/1\.[01]" 200 ', site.said()))
