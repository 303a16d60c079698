"""``sql`` behind PgBouncer in mode "transaction": every write that is acknowledged is stored, once.

Each transaction may run on another connection to the server, so nothing may be kept there from one to the next.
What is stored is read from PostgreSQL, without PgBouncer.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from asking import ask
from database.table import axes
from database.table.on_postgres import tables_in_postgres
from database.table.run import Bench
from faults.length import length
from pipeline import Request, Response
from pipeline.database import sql_databases as module
from pipeline.testing import Ledger
from servers.fixtures import Skip, running
from servers.pgbouncer import PgBouncer
from servers.postgres import Postgres
from servers.sql_places import Place, site

pytestmark = [pytest.mark.servers, pytest.mark.timeout(length(120, 900))]

TABLES = 8
SECONDS = length(4, 60)
DRIVERS = ["psycopg2", "psycopg", "pg8000"]
EACH = length(20, 1)
"""Each driver has every twentieth row of R13's table, and other ones than the next driver."""


@pytest.fixture
def bouncer(postgres: Postgres, servers_dir: Path, missing: Skip, new_name: Any) -> Iterator[tuple[PgBouncer, str]]:
    name = new_name()
    postgres.create(name)
    for number in range(TABLES):
        postgres.ask(f"CREATE TABLE t{number} (v text)", name)
    with running(PgBouncer, servers_dir, missing, server=postgres) as server:
        yield server, name
        module.close_all()
        module._databases.clear()


def place_of(bouncer: tuple[PgBouncer, str], driver: str) -> Place:
    """The database behind PgBouncer, by a driver."""
    server, name = bouncer
    url = make_url(server.server.url(name, server.port)).set(drivername=f"postgresql+{driver}")
    return Place("postgres", url.render_as_string(hide_password=False), server, name)


each_driver = pytest.mark.parametrize("driver", DRIVERS)


@each_driver
def test_what_is_acknowledged_is_stored(driver: str, bouncer: Any, need_packages: Any) -> None:
    need_packages(driver)
    (server, name), place = bouncer, place_of(bouncer, driver)

    def view(request: Request, response: Response) -> list[bytes]:
        visitor, _, number = request.path[1:].partition("/")
        for table in range(TABLES):  # each is another statement, so that names of statements would meet
            query = text(f"SELECT v FROM t{(table + int(visitor)) % TABLES} WHERE v = :v")
            request.sql.execute(query, {"v": "-"}).all()
        request.sql.execute(text(f"INSERT INTO t{visitor} VALUES (:v)"), {"v": f"{visitor}/{number}"})
        return [b"done"]

    app = site(place, view, pool_size=TABLES)

    def visit(visitor: int) -> Counter[Any]:
        return Counter(
            (ask(app, f"/{visitor}/{number}", "POST").status, f"{visitor}/{number}") for number in range(60)
        )

    with ThreadPoolExecutor(TABLES) as pool:
        answers = sum(pool.map(visit, range(TABLES)), Counter())
    assert {status for status, _ in answers} == {200}
    union = " UNION ALL ".join(f"SELECT v FROM t{number}" for number in range(TABLES))
    stored = Counter(server.server.ask(union, name).split())
    assert stored == Counter(value for _, value in answers)


@each_driver
def test_the_ledger_while_connections_are_ended__R4(driver: str, bouncer: Any, need_packages: Any) -> None:
    """Connections to the server are ended again and again, in COMMIT too. No answer is a plain 500."""
    need_packages(driver)
    (server, name), place = bouncer, place_of(bouncer, driver)

    def view(request: Request, response: Response) -> list[bytes]:
        request.sql.execute(text("INSERT INTO t0 VALUES (:v)"), {"v": request.GET["v"]})
        return [b"done"]

    app, ledger, lock = site(place, view, attempts=50, pool_size=TABLES), Ledger(), Lock()
    answers: Counter[tuple[int, str]] = Counter()
    end = time.monotonic() + SECONDS

    def write(visitor: int) -> None:
        while time.monotonic() < end:
            with lock:
                id = ledger.send()
            answer = ask(app, f"/?v={id}", "POST")
            outcome = answer.headers.get("X-Outcome", "")
            with lock:
                ledger.answered(id, answer.status, outcome)
                answers[answer.status, outcome] += 1

    kill = f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{name}'"
    with ThreadPoolExecutor(TABLES) as pool:
        done = [pool.submit(write, visitor) for visitor in range(TABLES)]
        while time.monotonic() < end:
            server.server.ask(kill)
            time.sleep(0.3)
        for one in done:
            one.result()
    assert set(answers) <= {(200, ""), (503, ""), (500, "unknown")}, answers
    assert ledger.counts()["acknowledged"] > 20
    assert ledger.judge(server.server.ask("SELECT v FROM t0", name).split()) == []


@each_driver
def test_r13_each_row_is_allowed_or_raised_and_thrown_away(
    driver: str, bouncer: Any, postgres: Postgres, new_name: Any, need_packages: Any
) -> None:
    need_packages(driver)
    server, _ = bouncer
    with Bench(lambda: tables_in_postgres(postgres, new_name, server.port, driver)) as bench:
        rows = list(axes.rows_of(bench.kit.kind))
        assert bench.red(rows[DRIVERS.index(driver) :: EACH]) == []
