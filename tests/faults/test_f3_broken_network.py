"""F3: the network to the database is slow, silent or cut: at the begin, at the vote, at the commit (R2, R4).

What was cut before the commit is tried again or refused. What was cut during the commit may be stored or
not: it is never tried again, and the answer says so.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import pytest

from faults.conftest import Figures
from faults.judge import Writers, rows_in, stored_in
from faults.length import length
from faults.load import Answer, get, post
from faults.serving import SQL_ORDER, TABLES, Site
from servers.base import wait_until
from servers.mariadb import MariaDB
from servers.postgres import Postgres
from servers.toxiproxy import Proxy, Toxiproxy
from servers.zeo import ZEO

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900)]

TIMES = length(short=1, full=10)


class Toxic(NamedTuple):
    """What is done to the connections to the database, and for how many seconds."""

    name: str
    kind: str
    attributes: dict[str, int]
    seconds: float

    def described(self) -> dict[str, object]:
        return {
            "name": f"{self.kind}-downstream",
            "type": self.kind,
            "stream": "downstream",
            "attributes": self.attributes,
        }


TOXICS = (
    Toxic("latency of 200 ms", "latency", {"latency": 200}, 1.0),
    Toxic("silence, then cut", "timeout", {"timeout": 300}, 0.5),
    Toxic("reset", "reset_peer", {"timeout": 0}, 0.2),
    Toxic("cut before the answer", "limit_data", {"bytes": 0}, 0.3),
)

STEPS = {"zodb": ("begin", "tpc_vote", "tpc_finish"), "sql": ("begin", "statement", "tpc_vote")}
"""What comes just before the database is asked to begin, to vote, to commit: a step of a data manager. A
session that commits in one phase does so when it is asked to vote; before that, it is asked to execute."""


class Broken:
    """Writes whose connection to the database breaks."""

    def __init__(self, site: Site, proxy: Proxy) -> None:
        self.site = site
        self.proxy = proxy
        self.writers = Writers("/@@broken")
        self.problems: list[str] = []
        self.outcomes: Counter[str] = Counter()
        self.slowest_recovery = 0.0

    def run(self, kind: str, times: int) -> None:
        for toxic in TOXICS:
            for moment, step in zip(("begin", "vote", "commit"), STEPS[kind], strict=True):
                for number in range(times):
                    self.write(toxic, moment, step, f"{toxic.kind}-{moment}-{number}")

    def write(self, toxic: Toxic, moment: str, step: str, id: str) -> None:
        """One write, and what is wrong with its answer."""
        query = {
            "id": id,
            "step": step,
            "toxic": json.dumps(toxic.described()),
            "proxy": self.proxy.name,
            "control": self.proxy.control,
            "seconds": toxic.seconds,
        }
        if moment == "begin":
            self.proxy.poison(**toxic.described())
        self.writers.ledger.sent(id)
        answer = post(self.site.port, f"/@@broken?{urlencode(query)}", b"")
        self.writers.enter(id, answer)
        if moment != "begin":
            time.sleep(toxic.seconds)
        self.proxy.cure()
        cured = time.monotonic()
        wait_until(lambda: get(self.site.port, "/").status == 200, 10, "the site reads again")
        self.slowest_recovery = max(self.slowest_recovery, time.monotonic() - cured)
        attempts = int(get(self.site.port, f"/@@attempts?id={id}").body)
        outcome = self.judge(toxic, moment, answer, attempts)
        self.outcomes[f"{outcome} at {moment}"] += 1

    def judge(self, toxic: Toxic, moment: str, answer: Answer, attempts: int) -> str:
        said = answer.headers.get("x-outcome", "")
        where = f"{toxic.name} at {moment}: {answer.status} {said} after {attempts} attempts"
        unknown = said == "unknown"
        if answer.status == 200:
            if moment == "commit" and attempts > 1:
                self.problems.append(f"{where}: tried again after a commit whose outcome is unknown")
            return "stored" if attempts == 1 else "stored by a further attempt"
        if toxic.kind == "latency":
            self.problems.append(f"{where}: refused, though all was only slow")
        if unknown:
            if moment != "commit":
                self.problems.append(f"{where}: said to be unknown, and it is known")
            if attempts > 1:
                self.problems.append(f"{where}: tried again after a commit whose outcome is unknown")
            return "said to be unknown"
        if answer.status != 503 or "retry-after" not in answer.headers:
            self.problems.append(f"{where}: neither 503 with Retry-After nor said to be unknown")
        if moment == "commit":
            self.problems.append(f"{where}: the answer does not say that it is unknown")
        return "refused by 503"


@pytest.fixture
def proxies(toxiproxy: Toxiproxy) -> Iterator[Callable[[int], Proxy]]:
    yield toxiproxy.proxy


def measure(figures: Figures, name: str, site: Site, proxy: Proxy, stored: Callable[[], dict[str, int]]) -> None:
    broken = Broken(site, proxy)
    site.start()
    try:
        site.prepare()
        broken.run("sql" if name.startswith("sql") else "zodb", TIMES)
    finally:
        proxy.cure()
        site.stop()
    problems = broken.problems + broken.writers.ledger.judge(stored())
    outcomes = ", ".join(f"{times} {outcome}" for outcome, times in sorted(broken.outcomes.items()))
    figures(
        "F3",
        name,
        f"{len(broken.writers.ledger.states)} writes on a network slow, silent, reset or cut: {outcomes}; "
        f"{len(problems)} lost, stored twice, tried again or wrongly answered; "
        f"reads again at most {broken.slowest_recovery:.1f} s after the network was well",
    )
    assert problems == []


def test_postgres(
    figures: Figures,
    place: Path,
    postgres: Postgres,
    proxies: Callable[[int], Proxy],
    new_name: Callable[[], str],
) -> None:
    postgres.create(name := new_name())
    proxy = proxies(postgres.port)
    site = Site(place, postgres.uri(name, proxy.port))
    measure(figures, "PostgreSQL", site, proxy, lambda: stored_in(postgres.uri(name))[0])


def test_sql(
    figures: Figures,
    place: Path,
    postgres: Postgres,
    proxies: Callable[[int], Proxy],
    new_name: Callable[[], str],
) -> None:
    postgres.create(name := new_name())
    postgres.ask(TABLES, name)
    proxy = proxies(postgres.port)
    site = Site(place, postgres.url(name, proxy.port), order=SQL_ORDER)
    measure(figures, "sql on PostgreSQL", site, proxy, lambda: rows_in(postgres, name))


def test_mariadb(
    figures: Figures,
    place: Path,
    mariadb: MariaDB,
    proxies: Callable[[int], Proxy],
    new_name: Callable[[], str],
) -> None:
    mariadb.create(name := new_name())
    proxy = proxies(mariadb.port)
    site = Site(place, mariadb.uri(name, proxy.port))
    measure(figures, "MariaDB", site, proxy, lambda: stored_in(mariadb.uri(name))[0])


def test_zeo(figures: Figures, place: Path, zeo: ZEO, proxies: Callable[[int], Proxy]) -> None:
    proxy = proxies(zeo.port)
    site = Site(place, zeo.uri(proxy.port))
    measure(figures, "ZEO", site, proxy, lambda: stored_in(zeo.uri())[0])


def test_control(
    figures: Figures,
    place: Path,
    postgres: Postgres,
    proxies: Callable[[int], Proxy],
    new_name: Callable[[], str],
) -> None:
    """Everything is tried again, also a commit whose outcome is unknown."""
    postgres.create(name := new_name())
    proxy = proxies(postgres.port)
    site = Site(place, postgres.uri(name, proxy.port), bugs=["retry_everything"])
    broken = Broken(site, proxy)
    lost_answer = TOXICS[-1]
    site.start()
    try:
        site.prepare()
        for number in range(2):
            broken.write(lost_answer, "commit", "tpc_finish", f"{number}")
    finally:
        proxy.cure()
        site.stop()
    problems = broken.problems + broken.writers.ledger.judge(stored_in(postgres.uri(name))[0])
    figures("F3", "control: everything retried", f"found: {'; '.join(problems)}")
    assert any("tried again after a commit" in problem for problem in problems)
    assert any("is stored 2 times" in problem for problem in problems)
