"""``python -m bench.ztk``: a Grok site here and on zope.app.wsgi, bare applications, rounds by turns.

Each figure is the shortest of its rounds; both applications run in one process on one database.
"""

from __future__ import annotations

import gc
import io
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import zope.app.wsgi

from bench import ztk_site
from pipeline.ztk import WSGIPublisherApplication

BROWSER = {
    "HTTP_USER_AGENT": "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "HTTP_ACCEPT": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "HTTP_ACCEPT_LANGUAGE": "en-US,en;q=0.5",
    "HTTP_ACCEPT_ENCODING": "gzip, deflate, br",
    "HTTP_COOKIE": "first=1; second=two",
    "HTTP_CONNECTION": "keep-alive",
}
EDITOR = {"HTTP_AUTHORIZATION": "Basic ZWRpdG9yOnNlY3JldA=="}
CASES: dict[str, tuple[str, dict[str, str], str]] = {
    "Grok page": (ztk_site.PATH, {}, "200"),
    "Grok page, browser's headers": (ztk_site.PATH, BROWSER, "200"),
    "Grok page, principal with roles": (ztk_site.PATH, EDITOR, "200"),
    "plain ZTK page": (f"{ztk_site.PATH}/plain", {}, "200"),
    "write": (f"{ztk_site.PATH}/write", {}, "200"),
    "not found": ("/one/two/none", {}, "404"),
}


def environ_of(path: str, headers: Mapping[str, str]) -> dict[str, Any]:
    """Return the environ of a GET."""
    return {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8080",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "127.0.0.1:8080",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        **headers,
    }


def asked(app: Any, path: str, headers: dict[str, str], status: str) -> Callable[[int], float]:
    """Return a function that asks ``app`` some times and returns the seconds for one."""
    environ = environ_of(path, headers)
    found: list[str] = []

    def start_response(status: str, headers: Any, exc_info: Any = None) -> None:
        found[:] = [status]

    def ask(times: int) -> float:
        start = time.perf_counter()
        for _ in range(times):
            b"".join(app(environ.copy(), start_response))
        taken = (time.perf_counter() - start) / times
        if not found[0].startswith(status):
            raise RuntimeError(f"{path}: {found[0]}, not {status}")
        return taken

    return ask


def main() -> None:
    policy = "--no-policy" not in sys.argv
    rounds = next((int(word) for word in sys.argv[1:] if word.isdigit()), 300)
    db = ztk_site.make(policy)
    plain = zope.app.wsgi.WSGIPublisherApplication(db)
    ours = WSGIPublisherApplication(db)
    gc.freeze()
    print(f"{'':<36}{'Zope':>8}{'here':>8}{'ratio':>8}   (microseconds, shortest of {rounds} rounds)")
    for name, (path, headers, status) in CASES.items():
        askers = [asked(app, path, headers, status) for app in (plain, ours)]
        times = 20
        for ask in askers:
            ask(10 * times)
        best = [1.0, 1.0]
        for _ in range(rounds):
            best = [min(shortest, ask(times)) for shortest, ask in zip(best, askers, strict=True)]
        print(f"{name:<36}{best[0] * 1e6:>8.0f}{best[1] * 1e6:>8.0f}{best[1] / best[0]:>8.2f}")


if __name__ == "__main__":
    main()
