"""The work that replicas of PostgreSQL take from the primary: ``python -m bench.replicas``.

One site with ``read_urls`` and one without, on the same primary with two replicas, in turn. Of 100 requests 10, 50
or 90 read, each through a session of SQLAlchemy; the others write a row. Visitors send back what they are told, as
browsers do; each makes ten requests. The figures are ratios, with replicas to without: of the processor time of
the primary, and of the time of a request. All servers share the processors of this machine, so that the
replicas take from the requests what the primary saves.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from sqlalchemy import text
from webob import Request as Asked

from pipeline import Pipeline, Response, element
from pipeline.elements.causal import HEADER, causal
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.sql import sql
from pipeline.elements.transaction import transaction
from servers.base import Server, children
from servers.standby import replicated

ROUNDS = 8
VISITORS = 60
"""Visitors in a round, of ten requests each."""


@element
def table() -> Any:
    """The end of the pipeline: GET reads 20 rows of a table, POST adds one."""

    def table(request: Any, response: Response) -> None:
        if request.method == "POST":
            request.sql.execute(text("INSERT INTO t (what) VALUES ('a new row')"))
        else:
            query = "SELECT id, what FROM t WHERE id % 97 = :n ORDER BY what, id DESC LIMIT 20"
            rows = request.sql.execute(text(query), {"n": random.randrange(97)}).all()
            response.text = str(len(rows))

    return table


def processor_time(server: Server) -> float:
    """Return the seconds of processor time of a server, of its running processes and those that have ended."""
    first = server.process.pid if server.process else 0
    ticks = 0
    for pid in (first, *children(first)):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11 : 15 if pid == first else 13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def visit(app: Any, share: int, times: list[float]) -> None:
    told = ""
    for _ in range(10):
        asked = Asked.blank("/", method="GET" if random.randrange(100) < share else "POST")
        if told:
            asked.headers[HEADER] = told
        begun = time.perf_counter()
        answer = asked.get_response(app)
        times.append(time.perf_counter() - begun)
        if answer.status_int != 200:
            raise RuntimeError(answer.text)
        told = answer.headers.get(HEADER, told)


def missing(what: str, remedy: str) -> NoReturn:
    raise SystemExit(f"{what} is missing: {remedy}")


class Replicated:
    """One site with ``read_urls`` and one without, on the same primary with two replicas."""

    def __init__(self, stack: ExitStack, directory: Path) -> None:
        statements = (
            "CREATE TABLE t (id bigserial PRIMARY KEY, what varchar(80))",
            "INSERT INTO t (what) SELECT md5(n::text) FROM generate_series(1, 5000) n",
        )
        primary, replicas = stack.enter_context(replicated(directory, missing, statements, (0, 0)))
        self.primary = primary
        urls = tuple(one.url("site") for one in replicas)
        self.apps = {}
        for name, options in {"alone": {}, "replicas": {"read_urls": urls}}.items():
            database = sql(url=primary.url("site", None) + f"?application_name={name}", **options)
            parts = (retry(), database, errors(), transaction(), table())
            self.apps[name] = Pipeline(causal(keys=str(directory / "keys")), *parts)
        for app in self.apps.values():
            visit(app, 50, [])
        time.sleep(1)

    def took(self, share: int, waits: dict[str, list[float]] | None = None) -> dict[str, float]:
        """Return the microseconds of the primary's processor time for each request of both sites, in turn.

        share   how many of a hundred requests read
        waits   what the seconds of each request are added to, by the name of the site
        """
        worked = dict.fromkeys(self.apps, 0.0)
        waits = {name: [] for name in self.apps} if waits is None else waits
        for number in range(ROUNDS):
            for name in sorted(self.apps, reverse=bool(number % 2)):
                before = processor_time(self.primary)
                for _ in range(VISITORS):
                    visit(self.apps[name], share, waits[name])
                worked[name] += processor_time(self.primary) - before
        return {name: 1e6 * seconds / ROUNDS / VISITORS / 10 for name, seconds in worked.items()}


def main() -> None:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        directory.chmod(0o755)
        replicated = Replicated(stack, directory)
        for share in (10, 50, 90):
            waits = {name: list[float]() for name in replicated.apps}
            took = replicated.took(share, waits)
            middle = {name: statistics.median(times) for name, times in waits.items()}
            work, wait = (found["replicas"] / found["alone"] for found in (took, middle))
            requests = f"{share} % reads, {len(waits['alone']):,} requests each"
            print(f"{requests}: processor time of the primary {work:.2f}, time of a request {wait:.2f}")


if __name__ == "__main__":
    main()
