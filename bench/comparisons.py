"""The published comparisons that this project grew from, taken anew: one process against several, INET against UNIX
sockets, a dynamic page against a static file. (That of small blocks is the suite ``blocks``.)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial

from bench.contenders import PATH
from bench.measure import Figure, Result, Table, flat
from bench.servers import Missing, Server, Servers, in_turn

CONNECTIONS = 8
PROCESSES = {"1 process": "gunicorn", "2 processes": "gunicorn x 2", "4 processes": "gunicorn x 4"}
BEHIND_NGINX = {"waitress": "waitress", "gunicorn": "gunicorn", "uWSGI": "uWSGI socket"}
DYNAMIC = ("waitress", "gunicorn", "uWSGI", "mod_wsgi")
STATIC = {"nginx": "nginx", "Apache": "apache2"}


def comparisons(rounds: int = 5, seconds: float = 1) -> Result:
    """Requests in a second of eight connections to a page of this pipeline, without a database."""

    def taken(start: Mapping[str, Callable[[], Server]]) -> dict[str, Figure]:
        started = {}
        for name, run in start.items():
            try:
                started[name] = run()
            except Missing as missing:
                print(f"{name} is left out: {missing}", file=sys.stderr)
        try:
            return {name: rate for name, rate, _ in in_turn(started, CONNECTIONS, rounds, seconds)}
        except Missing as missing:  # wrk itself
            print(missing, file=sys.stderr)
            return {}

    with Servers() as servers:
        processes = taken({label: partial(servers.start, name, "pipeline") for label, name in PROCESSES.items()})
    sockets: dict[str, dict[str, Figure]] = {}
    for label, name in BEHIND_NGINX.items():
        with Servers() as servers:
            before = partial(_before, servers, name)
            sockets[label] = taken({"INET": before, "UNIX": partial(before, unix=True)})
    with Servers() as servers:
        pages = {f"dynamic, {name}": partial(servers.start, name, "pipeline") for name in DYNAMIC}
        files = {
            f"static, {label}": partial(servers.static, name, PATH, b"hello") for label, name in STATIC.items()
        }
        static = taken({**pages, **files})
    title = "Behind nginx by an INET or a UNIX socket, a connection for each request"
    return {
        "processes": Table("One process against several", "requests/s", {"gunicorn": processes}, "median"),
        "sockets": Table(title, "requests/s", sockets, "median"),
        "static": flat("A dynamic page against a static file", static, "", "requests/s", "median"),
    }


def _before(servers: Servers, name: str, unix: bool = False) -> Server:
    """nginx before a server."""
    return servers.nginx(servers.start_behind(name, "pipeline", unix))
