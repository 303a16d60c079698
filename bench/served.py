"""The suite ``served``: requests per second and the 99th percentile, by wrk with keep-alive, on several servers."""

from __future__ import annotations

import sys

from bench.budgets import CONNECTIONS
from bench.measure import Figure, Result, Table
from bench.servers import Missing, Servers, in_turn
from bench.serving import APPS

SERVERS = ("waitress", "gunicorn", "gunicorn x 2", "Granian", "Granian x 2", "uWSGI", "mod_wsgi")
SERVED = [name for name in APPS if name != "blocks"]


def served(rounds: int = 5, seconds: float = 1) -> Result:
    """One server after the other, each with all apps, which are asked in turn."""
    tables: Result = {}
    for name in SERVERS:
        rates: dict[str, dict[str, Figure]] = {app: {} for app in SERVED}
        p99s: dict[str, dict[str, Figure]] = {app: {} for app in SERVED}
        try:
            with Servers() as servers:
                started = {app: servers.start(name, app) for app in SERVED}
                for number in CONNECTIONS:
                    for app, rate, p99 in in_turn(started, int(number), rounds, seconds):
                        rates[app][number], p99s[app][number] = rate, p99
        except Missing as missing:
            print(f"{name} is left out: {missing}", file=sys.stderr)
            continue
        tables[name] = Table(f"{name}: requests per second, by connections", "requests/s", rates, "median")
        tables[f"{name} p99"] = Table(
            f"{name}: 99 of 100 are answered within, by connections", "ms", p99s, "median"
        )
    return tables
