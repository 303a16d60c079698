"""The private servers themselves: they start, are killed, come back with their data, and stop."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import pytest
import zodburi
from ZODB.DB import DB

from servers.base import connects
from servers.fixtures import running
from servers.mariadb import MariaDB
from servers.postgres import Postgres
from servers.toxiproxy import Toxiproxy
from servers.zeo import ZEO

pytestmark = pytest.mark.servers


def put_and_get(uri: str) -> None:
    """Write to a new database, and read it through a second opening."""
    factory, options = zodburi.resolve_uri(uri)
    db = DB(factory(), **options)
    with db.transaction() as connection:
        connection.root()["key"] = "value"
    db.close()
    db = DB(factory(), **options)
    with db.transaction() as connection:
        assert connection.root()["key"] == "value"
    db.close()


def test_postgres(postgres: Postgres, new_name: Callable[[], str]) -> None:
    name = new_name()
    postgres.create(name)
    put_and_get(postgres.uri(name))


def test_postgres_is_killed_and_comes_back(
    servers_dir: Path, missing: Callable[[str, str], NoReturn]
) -> None:
    """One of its own: it looks through all its files then, which are many after other tests."""
    with running(Postgres, servers_dir, missing) as postgres:
        postgres.create("site")
        postgres.ask("CREATE TABLE t (i integer); INSERT INTO t VALUES (7)", "site")
        postgres.kill()
        assert not connects(postgres.port)
        postgres.start()
        assert postgres.ask("SELECT i FROM t", "site") == "7"


def test_mariadb(mariadb: MariaDB, new_name: Callable[[], str]) -> None:
    name = new_name()
    mariadb.create(name)
    put_and_get(mariadb.uri(name))


def test_each_connection_to_mariadb_is_prepared_alike(mariadb: MariaDB, new_name: Callable[[], str]) -> None:
    """The last one costs no more questions than the first."""
    name = new_name()
    mariadb.create(name)
    factory, options = zodburi.resolve_uri(mariadb.uri(name))
    db = DB(factory(), **options)
    asked, connections = [], []
    for _ in range(4):
        connections.append(db.open())
        connections[-1].root()
        asked.append(int(mariadb.ask("SHOW GLOBAL STATUS LIKE 'Com_show_variables'").split()[1]))
    for connection in connections:
        connection.close()
    db.close()
    assert len({after - before for before, after in pairwise(asked)}) == 1


@pytest.mark.parametrize("keep_history", ["true", "false"])
def test_tables_that_a_killed_process_has_left_unfinished(
    mariadb: MariaDB, new_name: Callable[[], str], keep_history: str
) -> None:
    """It was killed behind any of its statements. None of the tables is dropped."""
    name = new_name()
    mariadb.create(name)
    uri = mariadb.uri(name, options=f"keep_history={keep_history}")
    put_and_get(uri)
    of_it = f"table_schema = '{name}' AND table_type = 'BASE TABLE'"
    tables = mariadb.ask(f"SELECT table_name FROM information_schema.tables WHERE {of_it}").split()
    assert "commit_row_lock" in tables
    first = ["commit_row_lock", *(table for table in tables if table != "commit_row_lock")]
    for left in range(1, len(first) + 1):
        dropped = "DROP VIEW IF EXISTS current_object_state;"
        dropped += "".join(f"DROP TABLE `{table}`;" for table in first[left:])
        emptied = "".join(f"DELETE FROM `{table}`;" for table in first[:left])
        mariadb.ask(f"SET foreign_key_checks = 0; {dropped} {emptied} CREATE OR REPLACE TABLE own (i int)", name)
        put_and_get(uri)
        assert mariadb.ask("SELECT COUNT(*) FROM commit_row_lock", name) == "1"
        assert mariadb.ask("SHOW TABLES LIKE 'own'", name) == "own"


def test_zeo(zeo: ZEO) -> None:
    put_and_get(zeo.uri())


def test_toxiproxy_cuts_and_cures(toxiproxy: Toxiproxy, postgres: Postgres) -> None:
    proxy = toxiproxy.proxy(postgres.port)
    assert connects(proxy.port)
    proxy.cut()
    assert not connects(proxy.port)
    proxy.cure()
    assert connects(proxy.port)
