"""``python -m bench.ztk_served [gunicorn]``: the Grok site here and on zope.app.wsgi, on Granian with two workers.

Both servers run at once and are asked by turns, by wrk with keep-alive. The best of the rounds counts. It needs
wrk, and ``pip install granian gunicorn`` in the environment of ``make test-ztk``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from socket import create_connection, create_server
from typing import Any

import zope.app.wsgi

from bench import ztk_site
from pipeline.ztk import WSGIPublisherApplication

APPS = {"Zope": zope.app.wsgi.WSGIPublisherApplication, "here": WSGIPublisherApplication}
PAGES = {"Grok page": ztk_site.PATH, "plain ZTK page": f"{ztk_site.PATH}/plain"}
CONNECTIONS = 8


SERVERS = {
    "granian": "granian --interface wsgi --workers 2 --blocking-threads 1 --port {port} --log-level warning "
    "--factory bench.ztk_served:app",
    "gunicorn": "gunicorn --workers 2 --worker-class gthread --threads 1 --bind 127.0.0.1:{port} "
    "--log-level warning bench.ztk_served:app()",
}


def app() -> Any:
    """Make an application in a worker; the environment says which."""
    return APPS[os.environ["APP"]](ztk_site.make())


def started(name: str) -> tuple[subprocess.Popen[bytes], int]:
    """Start a server. Return it and its port when it listens and all workers have answered."""
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = SERVERS["gunicorn" if "gunicorn" in sys.argv else "granian"]
    command = server.format(port=port).split()
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-m", *command], env={**os.environ, "APP": name})
    for _ in range(300):
        try:
            create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            time.sleep(0.1)
    return process, port


def rate(port: int, path: str, seconds: float) -> float:
    """Return the requests per second."""
    url = f"http://127.0.0.1:{port}{path}"
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}", url]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"Requests/sec: +([\d.]+)", said)
    if found is None or "Non-2xx" in said:
        raise RuntimeError(f"wrk {url}: {said}")
    return float(found[1])


def main() -> None:
    rounds, seconds = 8, 2
    servers = {name: started(name) for name in APPS}
    print(f"{'':<20}{'Zope':>8}{'here':>8}{'ratio':>8}   (requests/s, best of {rounds} rounds of {seconds} s)")
    try:
        for _, port in servers.values():
            rate(port, ztk_site.PATH, seconds)
        for page, path in PAGES.items():
            best = dict.fromkeys(APPS, 0.0)
            for _ in range(rounds):
                for name, (_, port) in servers.items():
                    best[name] = max(best[name], rate(port, path, seconds))
            zope, here = best.values()
            print(f"{page:<20}{zope:>8.0f}{here:>8.0f}{here / zope:>8.2f}")
    finally:
        for process, _ in servers.values():
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
