"""Several instances of a site on one database: one site, for whoever looks at it from outside.

Two of them stand behind nginx, on PostgreSQL: the counter is unique and without a gap, what one instance has
acknowledged the other one shows, and either can be killed without a lost write. Four of them start at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import pytest
import webob

from faults.judge import Writers, stored_in
from faults.length import length
from faults.load import Client, get
from faults.serving import Site
from pipeline import Pipeline, Request, Response, element
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import close_all, zodb
from servers.base import connects, wait_until
from servers.fixtures import running
from servers.mariadb import MariaDB
from servers.nginx import Nginx
from servers.postgres import Postgres
from servers.zeo import ZEO

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]

SECONDS = length(short=3.0, full=30.0)
KILLS = length(short=2, full=20)


class Pair:
    """Two instances, and nginx in front of them."""

    def __init__(self, first: Site, second: Site, nginx: Nginx) -> None:
        self.instances = (first, second)
        self.nginx = nginx

    @property
    def uri(self) -> str:
        return self.instances[0].uri


@pytest.fixture
def pair(
    servers_dir: Path,
    postgres: Postgres,
    new_name: Callable[[], str],
    missing: Callable[[str, str], NoReturn],
) -> Iterator[Pair]:
    postgres.create(name := new_name())
    first, second = (Site(servers_dir / name / side, postgres.uri(name)) for side in ("a", "b"))
    try:
        first.start()
        first.prepare()
        second.start()
        ports = [first.port, second.port]
        with running(Nginx, servers_dir, missing, upstreams=ports) as nginx:
            yield Pair(first, second, nginx)
    finally:
        first.stop()
        second.stop()


def test_the_counter_is_unique_and_without_a_gap(pair: Pair) -> None:
    writers = Writers("/@@add")
    with writers.on(pair.nginx.port, 8):
        time.sleep(SECONDS)
    stored, value = stored_in(pair.uri)
    assert writers.ledger.judge(stored) == []
    values = sorted(int(answer.body) for answer in writers.answers if answer.status == 200)
    assert values == list(range(1, value + 1))
    assert len(values) > SECONDS
    served = [instance.said().count("attempt") for instance in pair.instances]
    print(f"two instances: {len(values)} increments in {SECONDS:.0f} s, each value once; retried: {served}")


def test_what_one_acknowledges_the_other_shows(pair: Pair) -> None:
    ends = [Client(instance.port) for instance in pair.instances]
    for number in range(length(short=100, full=1000)):
        writer, reader = ends[number % 2], ends[1 - number % 2]
        assert writer.ask("POST", f"/@@write?id={number}", b"").status == 200
        assert reader.ask("GET", f"/@@has?id={number}").body == b"1"
    for end in ends:
        end.close()


def test_either_can_be_killed(pair: Pair) -> None:
    """Under load; nginx gives the requests to the other one meanwhile."""
    writers = Writers("/@@add", gateway=True)
    waits = []
    with writers.on(pair.nginx.port, 6) as load:
        load.wait_for_success(time.monotonic())
        for number in range(KILLS):
            instance = pair.instances[number % 2]
            time.sleep(0.5)
            instance.kill()
            killed = time.monotonic()
            waits.append(load.wait_for_success(killed) - killed)
            time.sleep(0.5)
            instance.start()
    stored, value = stored_in(pair.uri)
    counts = writers.ledger.counts()
    print(f"two instances: {KILLS} kills, {counts}, the next success within {max(waits):.2f} s")
    assert writers.ledger.judge(stored) == []
    assert value == sum(stored.values())
    values = [int(answer.body) for answer in writers.answers if answer.status == 200]
    assert len(values) == len(set(values))
    assert max(waits) < 3
    assert counts["acknowledged"] > KILLS


@pytest.mark.parametrize("kind", ["postgres", "mariadb", "zeo"])
def test_the_first_start_of_four_processes_on_an_empty_database(
    kind: str, servers_dir: Path, new_name: Callable[[], str], request: pytest.FixtureRequest
) -> None:
    """One makes the tables and the site, the others wait: no request fails, and nothing untrue is logged."""
    server: Postgres | MariaDB | ZEO = request.getfixturevalue(kind)
    name = new_name()
    if not isinstance(server, ZEO):
        server.create(name)
    uri = server.uri() if isinstance(server, ZEO) else server.uri(name)
    sites = [Site(servers_dir / name / f"{number}", uri) for number in range(4)]
    try:
        for site in sites:
            site.launch()
        for site in sites:
            wait_until(lambda site=site: connects(site.port), 60, "the site is up")  # type: ignore[misc]
        with ThreadPoolExecutor(40) as pool:
            answers = list(pool.map(lambda number: get(sites[number % 4].port, "/"), range(40)))
    finally:
        for site in sites:
            site.stop()
    said = "".join(site.said() for site in sites)
    assert [answer.status for answer in answers] == [200] * 40, said[-8000:]
    assert "cannot be" not in said and "Traceback" not in said, said[-8000:]
    assert stored_in(uri) == ({}, 0)


def test_statements_and_locks_that_take_too_long(
    servers_dir: Path, new_name: Callable[[], str], postgres: Postgres, mariadb: MariaDB
) -> None:
    """``statement_timeout`` and ``lock_timeout``: the server is told of both, on every connection."""
    for server, statements in (
        (postgres, ("SHOW statement_timeout", "SHOW lock_timeout", "SELECT pg_sleep(5)")),
        (mariadb, ("SELECT @@max_statement_time", "SELECT @@innodb_lock_wait_timeout", "SELECT SLEEP(5)")),
    ):
        server.create(name := new_name())
        options = {"statement_timeout": 0.5, "lock_timeout": 3, "root": ""}
        answers = asked_in_process(server.uri(name), statements, **options)
        assert answers[0] in ("500ms", "0.5")
        assert answers[1] in ("3s", "3")
        assert answers[2] == "tried again", server


def asked_in_process(uri: str, statements: tuple[str, ...], **options: Any) -> list[str]:
    """What a request gets for statements over its connections: the last is tried again if it is worth it."""
    found: list[str] = []

    @element
    def ask() -> Any:
        def ask(request: Request, response: Response) -> None:
            load = request.zodb._storage._load_connection.cursor
            if request.attempt > 1:
                found.append("tried again")
                return
            if "x" not in request.zodb.root():
                request.zodb.root()["x"] = 1  # which has the storage open a connection to write
                return
            store = request.zodb._storage._store_connection_pool.borrow()
            load.execute(statements[0])
            found.append(str(load.fetchall()[0][0]))
            store.cursor.execute(statements[1])
            found.append(str(store.cursor.fetchall()[0][0]))
            request.zodb._storage._store_connection_pool.replace(store)
            load.execute(statements[2])
            found.append(f"{load.fetchall()}")

        return ask

    database = zodb(uri=uri, **options)
    app = Pipeline(retry(), database, errors(), transaction(), ask())
    try:
        for _ in range(2):  # what one request commits is nothing that another one has committed by itself (R2a)
            assert webob.Request.blank("/").get_response(app).status_int == 200
    finally:
        close_all()
    return found
