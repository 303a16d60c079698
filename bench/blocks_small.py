"""``python -m bench.blocks_small``: what small blocks cost on waitress and gunicorn, with ``coalesce`` and without.

2.5 MB of a page in blocks of 128 bytes, by a view behind ``log errors traverse coalesce``, against the same
in blocks of 64 KiB without ``coalesce``. Times are those of a client on the same machine, from the request to
the last byte; the ratio is that of the medians. What takes fifty times as long is measured apart: whatever comes
behind it finds a machine that is wide awake.
"""

from __future__ import annotations

import http.client
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from socket import create_connection, create_server
from typing import Any

from pipeline import Pipeline, Request, Response, view
from pipeline.elements.coalesce import coalesce
from pipeline.elements.errors import errors
from pipeline.elements.log import log
from pipeline.elements.traverse import traverse
from pipeline.publisher import publisher

SIZE = 2_500_000
SMALL = b"<p>a line</p>".ljust(127) + b"\n"
LARGE = SMALL * 512
ROUNDS = 40
IN_TURN = {"64 KiB": "/large", "128 bytes, coalesce": "/small?coalesce"}
APART = {"128 bytes": "/small"}


@view(context=dict, name="small")
def small(context: Any, request: Request, response: Response) -> Iterator[bytes]:
    return blocks(SMALL)


@view(context=dict, name="large")
def large(context: Any, request: Request, response: Response) -> Iterator[bytes]:
    return blocks(LARGE)


def blocks(block: bytes) -> Iterator[bytes]:
    for _ in range(SIZE // len(block)):
        yield block


def site(*elements: Any) -> Pipeline:
    return Pipeline(log(), errors(), traverse(root=dict), *elements, publisher(scan=(__name__,)))


def app(environ: Any, start_response: Any) -> Any:
    chosen = COALESCED if environ["QUERY_STRING"] == "coalesce" else PLAIN
    return chosen(environ, start_response)


PLAIN, COALESCED = site(), site(coalesce())


def fetch(port: int, path: str) -> float:
    """Milliseconds."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    client.connect()
    began = time.perf_counter()
    client.request("GET", path)
    length = len(client.getresponse().read())
    took = time.perf_counter() - began
    client.close()
    if length < SIZE * 0.97:
        raise SystemExit(f"{path}: only {length} bytes came")
    return took * 1_000


def measured(command: list[str], port: int, rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Milliseconds by kind of block, least first."""
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            try:
                create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        times: dict[str, list[float]] = {kind: [] for kind in (*IN_TURN, *APART)}
        for paths in (IN_TURN, APART):
            for _ in range(rounds):
                for kind, path in paths.items():
                    times[kind].append(fetch(port, path))
    finally:
        server.terminate()
        server.wait()
    return {kind: sorted(found) for kind, found in times.items()}


def servers(port: int) -> dict[str, list[str]]:
    module = f"{__spec__.name}:app"
    run = [sys.executable, "-W", "ignore", "-m"]
    return {
        "waitress": [*run, "waitress", f"--listen=127.0.0.1:{port}", module],
        "gunicorn": [*run, "gunicorn", "--no-control-socket", f"--bind=127.0.0.1:{port}", module],
    }


def unused_port() -> int:
    with create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def main() -> None:
    for name in ("waitress", "gunicorn"):
        port = unused_port()
        times = measured(servers(port)[name], port)
        print(f"\n{name:28} {'least ms':>9} {'median':>9} {'ratio':>7}")
        for kind, found in times.items():
            median = statistics.median(found)
            ratio = median / statistics.median(times["64 KiB"])
            print(f"{kind:28} {found[0]:9.2f} {median:9.2f} {ratio:7.2f}")


if __name__ == "__main__":
    main()
