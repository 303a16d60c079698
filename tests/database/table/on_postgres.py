"""The databases of the rows that need PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg2
import zodburi
from ZODB.DB import DB

from database.table import tables
from database.table.objects import Objects
from database.table.tables import Tables
from servers.postgres import Postgres

NewName = Callable[[], str]


def create(server: Postgres, new_name: NewName) -> str:
    """Create a database that does not wait for the disk. Return its name."""
    server.create(name := new_name())
    server.ask(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    return name


def objects_in_postgres(server: Postgres, new_name: NewName) -> Objects:
    """Return the kit for a ZODB in PostgreSQL."""
    name = create(server, new_name)
    factory, options = zodburi.resolve_uri(server.uri(name))
    db = DB(factory(), **options)
    return Objects(server.uri(name), lambda: Reader(db), db.close)


class Reader:
    """A second opening of a ZODB. To open it anew for each reading would take longer than a row."""

    def __init__(self, db: DB) -> None:
        self.db = db
        self.transaction = db.transaction

    def close(self) -> None:
        """Keep it open."""


def tables_in_postgres(
    server: Postgres, new_name: NewName, port: int | None = None, driver: str = "psycopg2"
) -> Tables:
    """Return the kit for a database of PostgreSQL. Requests reach it by a port, of a proxy for example."""
    name = create(server, new_name)
    connection = psycopg2.connect(host="127.0.0.1", port=server.port, user="postgres", dbname=name)
    connection.autocommit = True

    def read(query: str) -> list[tuple[str, str]]:
        with connection.cursor() as cursor:
            cursor.execute(query)
            rows: list[Any] = cursor.fetchall()
            return rows

    with connection.cursor() as cursor:
        cursor.execute(tables.CREATE)
    return Tables(server.url(name, port).replace("psycopg2", driver), read, connection.close)


ON_POSTGRES = {"ZODB in PostgreSQL": objects_in_postgres, "PostgreSQL": tables_in_postgres}
