"""The budgets: what may take how much longer than what, in one run. All ratios that are judged stand here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bench.measure import Result


class Budget(NamedTuple):
    """``over`` / ``under``, each a row of a table or a row and a column, is ``most`` at most."""

    what: str
    most: float
    suite: str
    table: str
    over: tuple[str, ...]
    under: tuple[str, ...]


class Verdict(NamedTuple):
    """A budget, and what was found."""

    budget: Budget
    ratio: float
    most: float

    @property
    def met(self) -> bool:
        """A difference that is negative is noise, and meets nothing."""
        return 0 < self.ratio <= self.most


PYRAMID = "Pyramid + tm + retry + zodbconn"
CONNECTIONS = ("1", "8", "120")
BLOCK_SERVERS = ("waitress", "gunicorn", "uWSGI", "mod_wsgi")

REQUESTS = {
    "query that is not read": (0.45, 1.1),
    "query of 3 fields": (0.40, 1.9),
    "the same by request.GET": (0.50, 2.1),
    "arguments (a: int, b: str)": (0.55, 2.1),
    "3 cookies": (0.36, 1.2),
    "POST of 5 fields": (0.30, 2.0),
    "JSON": (0.34, 1.4),
    "redirect": (0.25, 2.5),
    "404 without headers": (0.25, 1.6),
    "404 of a browser": (0.25, 0.9),
    "500": (0.60, 2.9),
    "signed session": (0.35, None),
    "static file of 2 kB": (0.80, 2.0),
    "its 304": (0.80, 2.0),
}
"""For each kind of request, at most so much of what Pyramid takes, and of what Falcon takes."""

BUDGETS = (
    Budget("without database / Pyramid, traversal", 0.33, "inprocess", "page", ("pipeline",), ("Pyramid",)),
    Budget("without database / Falcon", 0.80, "inprocess", "page", ("pipeline",), ("Falcon",)),
    Budget(
        "without database / wheezy.web, which only routes",
        1.10,
        "inprocess",
        "page",
        ("pipeline",),
        ("wheezy.web",),
    ),
    Budget(f"read from a ZODB / {PYRAMID}", 0.20, "zodb", "read", ("pipeline",), (PYRAMID,)),
    Budget("read from a ZODB / Zope", 0.08, "zodb", "read", ("pipeline",), ("Zope",)),
    Budget(
        "one more no-op element / one more WSGI middleware that wraps start_response",
        0.20,
        *("elements", "elements"),
        *(("elements", "one more"), ("middlewares", "one more")),
    ),
    *(
        Budget(f"{row} / {peer}", most, "requests", "requests", (row, "pipeline"), (row, peer))
        for row, goals in REQUESTS.items()
        for peer, most in zip(("Pyramid", "Falcon"), goals, strict=True)
        if most is not None
    ),
    Budget("one view among 100,000 / one among 10", 1.1, "growth", "views", ("page", "100000"), ("page", "10")),
    Budget(
        "depth 64 / 64 times the cost of one more segment",
        1.1,
        *("growth", "segments"),
        *(("one more segment, up to 64",), ("one more segment, up to 16",)),
    ),
    *(
        Budget(
            f"requests per second on waitress, connections {number}: bare WSGI app / pipeline",
            1.08,
            *("served", "waitress"),
            *(("bare WSGI", number), ("pipeline", number)),
        )
        for number in CONNECTIONS
    ),
    *(
        Budget(
            f"requests per second on waitress, connections {number}: {PYRAMID} / pipeline with ZODB",
            0.50,
            *("served", "waitress"),
            *((PYRAMID, number), ("pipeline, ZODB", number)),
        )
        for number in CONNECTIONS
    ),
    *(
        Budget(
            f"{server}: 128-byte blocks with coalesce / 64 KiB blocks without",
            1.5,
            *("blocks", "blocks"),
            *(("128 bytes, coalesce", server), ("64 KiB", server)),
        )
        for server in BLOCK_SERVERS
    ),
    *(
        Budget(
            f"etc/deploy.ini ready / importing what it is made of: {table}",
            most,
            *("startup", table),
            *(("etc/deploy.ini, ready",), ("importing alone",)),
        )
        for table, most in (("time", 2.2), ("memory", 1.5))
    ),
)


def verdicts(results: Mapping[str, Result], factor: float = 1) -> Iterator[Verdict]:
    """Each budget that ``results``, by suite, say something of; ``factor`` times the budget is allowed."""
    for budget in BUDGETS:
        table = results.get(budget.suite, {}).get(budget.table)
        if table is not None:
            over, under = table.value(*budget.over), table.value(*budget.under)
            if over is not None and under is not None:
                yield Verdict(budget, over / under, budget.most * factor)
