"""``sql`` behind PgBouncer in mode "transaction": every write that is acknowledged is stored, once.

Each transaction may run on another connection to the server, so nothing may be kept there from one to the next.
What is stored is read from PostgreSQL, without PgBouncer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from asking import ask
from pipeline import Request, Response
from pipeline.database import sql_databases as module
from servers.fixtures import Skip, running
from servers.pgbouncer import PgBouncer
from servers.postgres import Postgres
from servers.sql_places import Place, site

pytestmark = [pytest.mark.servers, pytest.mark.timeout(120)]

TABLES = 8


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


@pytest.mark.parametrize("driver", ["psycopg2", "psycopg", "pg8000"])
def test_what_is_acknowledged_is_stored(driver: str, bouncer: Any, need_packages: Any) -> None:
    need_packages(driver)
    server, name = bouncer
    url = make_url(server.server.url(name, server.port)).set(drivername=f"postgresql+{driver}")
    place = Place("postgres", url.render_as_string(hide_password=False), server, name)

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
