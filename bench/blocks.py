"""The suite ``blocks``: the time to deliver 2.5 MB in blocks of several sizes, with and without ``coalesce``.

A client on the same machine takes the time from the request to the end of the connection, and compares what it got.
"""

from __future__ import annotations

import http.client
import io
import socket
import sys
import time

from bench.block_site import content
from bench.measure import Figure, Result, Table
from bench.servers import Missing, Server, Servers
from bench.serving import ran

IN_TURN = {
    "64 KiB": "/65536",
    "64 KiB, coalesce": "/65536?coalesce",
    "8 KiB": "/8192",
    "8 KiB, coalesce": "/8192?coalesce",
    "128 bytes, coalesce": "/128?coalesce",
    "the file": "/file",
}
APART = {"128 bytes": "/128"}
"""Takes fifty times as long: whatever comes behind it finds a machine that is wide awake."""
SERVERS = {"waitress": "waitress", "gunicorn": "gunicorn", "uWSGI": "uWSGI http-socket", "mod_wsgi": "mod_wsgi"}


def blocks(rounds: int = 40, seconds: float = 0) -> Result:
    """One server after the other; the kinds of blocks in turn, but for one."""
    data = content()
    rows: dict[str, dict[str, Figure]] = {kind: {} for kind in (*IN_TURN, *APART)}
    for column, name in {**SERVERS, "nginx": "nginx"}.items():
        kinds = {"the file": "/file"} if name == "nginx" else IN_TURN
        try:
            with Servers() as servers:
                if name == "nginx":
                    server = servers.static("nginx", "/file", data)
                else:
                    server = servers.start(name, "blocks", "/file", data)
                for paths, times in ((kinds, rounds), ({} if name == "nginx" else APART, max(1, rounds // 5))):
                    for kind, taken in fetched(server, paths, data, times).items():
                        rows[kind][column] = Figure.of(taken)
        except Missing as missing:
            print(f"{name} is left out: {missing}", file=sys.stderr)
    title = "2.5 MB in blocks; the file by wsgi.file_wrapper, or by nginx itself"
    return {"blocks": Table(title, "ms", rows, "median")}


def fetched(server: Server, paths: dict[str, str], data: bytes, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each round, by kind."""
    counted = server.counts.exists()
    before = ran(server.counts) if counted else 0
    found: dict[str, list[float]] = {kind: [] for kind in paths}
    for _ in range(rounds):
        for kind, path in paths.items():
            found[kind].append(fetch(server.port, path, data))
    if counted and ran(server.counts) - before != rounds * len(paths):
        raise SystemExit(f"{server.name} did not run its application for every request")
    return found


def fetch(port: int, path: str, data: bytes) -> float:
    """Milliseconds for one answer. It is read as it comes, and looked at when the time is taken."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        parts = []
        began = time.perf_counter()
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        while part := client.recv(262_144):
            parts.append(part)
        took = time.perf_counter() - began
    if body_of(b"".join(parts)) != data:
        raise SystemExit(f"{path}: {b''.join(parts)[:200]!r} is not what was to come")
    return took * 1_000


class _Answer(io.BytesIO):
    """The file from which http.client reads an answer."""

    def makefile(self, mode: str) -> io.BytesIO:
        return self


def body_of(answer: bytes) -> bytes:
    """The body of an answer, whether it came in chunks or not."""
    response = http.client.HTTPResponse(_Answer(answer))  # type: ignore[arg-type]
    response.begin()
    return response.read()
