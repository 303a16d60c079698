"""The base of the copies on a server: connections of their own, and the rows that a run has changed."""

from __future__ import annotations

import datetime
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import create_engine, inspect
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from pipeline.database.places import without_secrets
from pipeline.interfaces import ConfigurationError
from pipeline.staging.sql_copy import TIME, Faults, SqlCopy

Table = tuple[str | None, str]
"""Schema, None for that of the connection, and name."""
Rows = dict[Table, list[tuple[Any, ...]]]
PREFIX = "prove_"
"""The names of the databases that are made begin with this."""
FROZEN = "prove_frozen"
"""The schema of PostgreSQL that has the rows before each run."""


class ServerCopy(SqlCopy):
    """The copy of a database, as another database of the same server."""

    asks_for_name = ""
    """The query for the name of the database of a connection."""
    words: tuple[str, ...] = ("database",)
    """The options in which a driver takes the name of the database."""

    def __init__(self, directory: Path, dialect: Any, arguments: list[Any], options: dict[str, Any]) -> None:
        self.driver: Any = getattr(dialect, "loaded_dbapi", dialect.dbapi)
        self.url = f"{dialect.name}+{dialect.driver}://"
        self.arguments, self.options = arguments, options
        self.word = next((word for word in self.words if word in options), self.words[0])
        token = secrets.token_hex(6)
        self.copy, self.frozen = f"{PREFIX}{token}_copy", f"{PREFIX}{token}_frozen"
        shown = f"{dialect.name}://{options.get('host', '')}/{options.get(self.word, '')}"
        self.original = self.engine(None)
        try:
            with self.original.connect() as connection:
                self.name = str(run(connection, self.asks_for_name).scalar())
                self.make(connection)
        except (DBAPIError, ConfigurationError) as error:
            self.drop()
            what = str(getattr(error, "orig", error)).strip()
            raise ConfigurationError(f"{shown} cannot be copied, so it is not opened: {self.cause(what)}") from None
        except BaseException:
            self.drop()
            raise
        self.look = self.engine(self.copy)
        self.tables: dict[Table, Shape] = {}
        self.rows: Rows = {}

    def make(self, connection: Connection) -> None:
        """Make the database ``copy`` of that of the connection."""
        raise NotImplementedError

    def cause(self, what: str) -> str:
        """Return why the copy cannot be made, with what to do, without secrets."""
        for secret in map(str, filter(None, (self.options.get(key) for key in ("password", "passwd")))):
            what = what.replace(secret, "***")
        return without_secrets(what)

    def engine(self, database: str | None) -> Engine:
        """Return an engine for one database of the server, or for the original. It is not redirected."""
        options = dict(self.options)
        if database is not None:
            options[self.word] = database

        def connect() -> Any:
            return self.driver.connect(*self.arguments, **options)

        return create_engine(self.url, creator=connect, poolclass=NullPool, isolation_level="AUTOCOMMIT")

    def redirect(self, arguments: list[Any], options: dict[str, Any]) -> None:
        options[self.word] = self.copy

    def note_rows(self) -> None:
        """Note the rows that are there before each run."""
        with self.look.connect() as connection:
            self.tables = dict(shapes(connection))
            self.rows = dict(rows_of(connection, self.tables))

    def changed_rows(self) -> tuple[Any, ...]:
        """Return the rows that are gone and those that are new, for each table that differs."""
        with self.look.connect() as connection:
            now = dict(rows_of(connection, dict(shapes(connection))))
        return tuple(differences(self.tables, self.rows, now))

    def faults(self, target: Any, has_ended: bool) -> Faults:
        """Return real faults: the server itself reports the conflict, and ends the connection."""

        def conflict(text: str) -> BaseException:
            return raised(lambda: self.conflict(connection_of(target).cursor(), text))

        def lost(text: str) -> BaseException:
            cursor = connection_of(target).cursor()
            cursor.execute("ROLLBACK")
            self.end_connection(cursor)
            return raised(lambda: asked_until_it_fails(cursor))

        return {"conflict": lost if has_ended else conflict, "error": lost}

    def conflict(self, cursor: Any, text: str) -> None:
        """Have the server end the transaction with a conflict."""
        raise NotImplementedError

    def end_connection(self, cursor: Any) -> None:
        """Have the server end the connection of a cursor."""
        raise NotImplementedError

    def end_others(self, connection: Connection, database: str) -> None:
        """End the connections to a database that a run has left open."""
        raise NotImplementedError

    def drop(self) -> None:
        """Remove what was made."""
        try:
            with self.original.connect() as connection:
                for database in (self.copy, self.frozen):
                    self.end_others(connection, database)
                    run(connection, f"DROP DATABASE IF EXISTS {database}")
        except DBAPIError:
            if hasattr(self, "look"):  # it was made
                raise


def connection_of(target: Any) -> Any:
    """Return the connection of a cursor, or the connection itself."""
    if hasattr(target, "cursor"):
        return target
    names = [name for name in ("_c", "_connection", "connection") if hasattr(target, name)]
    return getattr(target, names[0])  # pg8000, mysql-connector, the others


def asked_until_it_fails(cursor: Any) -> None:
    """Use a connection that the server is about to end."""
    for _ in range(1000):
        cursor.execute("SELECT 1")
        cursor.fetchall()


def raised(call: Callable[[], None]) -> BaseException:
    """Return what a call of a driver raises."""
    try:
        call()
    except Exception as error:
        return error
    return RuntimeError("prove: the server has not reported the fault that it was asked for")


class Shape(NamedTuple):
    """The keys of a table, by which its rows are compared."""

    key: str
    """The column that is its key; "" if there is none, or several."""
    references: dict[str, Table]
    """The table whose key a column has, by the name of the column."""
    parents: frozenset[Table]
    """The other tables that must have their rows before it."""


def shapes(connection: Connection) -> Iterator[tuple[Table, Shape]]:
    """Yield each table of a database."""
    found = inspect(connection)
    schemas: list[str | None] = [None]
    if connection.dialect.name == "postgresql":
        others = (found.default_schema_name, "information_schema", FROZEN)
        schemas += [one for one in found.get_schema_names() if one not in others and not one.startswith("pg_")]
    for schema in schemas:
        keys = found.get_multi_pk_constraint(schema)
        references = found.get_multi_foreign_keys(schema)
        for (_, table), key in keys.items():
            columns = key["constrained_columns"]
            foreign = [
                (one["constrained_columns"], (one["referred_schema"], one["referred_table"]))
                for one in references.get((schema, table), ())
            ]
            yield (schema, table), Shape(
                columns[0] if len(columns) == 1 else "",
                {names[0]: parent for names, parent in foreign if len(names) == 1},
                frozenset(parent for _, parent in foreign) - {(schema, table)},
            )


def rows_of(connection: Connection, tables: Iterable[Table]) -> Iterator[tuple[Table, list[tuple[Any, ...]]]]:
    """Yield the rows of each table, the names of its columns first."""
    for table in tables:
        result = run(connection, f"SELECT * FROM {quoted(connection, *table)}")
        yield table, [tuple(result.keys()), *map(tuple, result)]


def run(connection: Connection, statement: str) -> Any:
    """Execute a statement in which % has no meaning."""
    return connection.exec_driver_sql(statement, execution_options={"no_parameters": True})


def quoted(connection: Connection, *names: str | None) -> str:
    """Return a name for a statement, behind that of its schema if there is one."""
    quote = connection.dialect.identifier_preparer.quote_identifier
    return ".".join(quote(name) for name in names if name is not None)


def differences(tables: dict[Table, Shape], before: Rows, now: Rows) -> Iterator[tuple[Any, ...]]:
    """Yield each table that differs: its name, the rows that are gone, and those that are new."""
    new_keys = {table: dict(numbered(shape, before.get(table, []), now.get(table, []))) for table, shape in
                tables.items()}
    for table in sorted({*before, *now}, key=str):
        shape = tables.get(table, Shape("", {}, frozenset()))
        old, new = before.get(table, []), now.get(table, [])
        if old == new:
            continue
        old_rows = Counter(masked(table, shape, old, {}))
        new_rows = Counter(masked(table, shape, new, new_keys))
        gone, added = old_rows - new_rows, new_rows - old_rows
        if gone or added:
            yield table[1], tuple(sorted(gone.elements())), tuple(sorted(added.elements()))


def numbered(shape: Shape, before: list[tuple[Any, ...]], now: list[tuple[Any, ...]]) -> Iterator[tuple[int, str]]:
    """Yield the new keys of a table, with a name for each: a sequence gives other numbers after an abort."""
    if shape.key and now and shape.key in now[0]:
        index = now[0].index(shape.key)
        known = {row[index] for row in before[1:] if len(row) > index}
        new = [row[index] for row in now[1:] if isinstance(row[index], int) and row[index] not in known]
        for number, key in enumerate(sorted(new), 1):
            yield key, f"new {number}"


def masked(
    table: Table, shape: Shape, rows: list[tuple[Any, ...]], new_keys: dict[Table, dict[int, str]]
) -> Iterator[str]:
    """Yield the rows of a table as texts, without what differs from run to run."""
    columns = rows[0] if rows else ()
    of_columns = [
        new_keys.get(table if column == shape.key else shape.references.get(column, (None, "")), {})
        for column in columns
    ]
    for row in rows:
        yield repr(tuple(plain(value, keys) for value, keys in zip(row, of_columns, strict=True)))


def plain(value: Any, keys: dict[int, str]) -> Any:
    """Return a value of a column. Times and random ids are one word."""
    if isinstance(value, int):
        return keys.get(value, value)
    if isinstance(value, (datetime.date, datetime.time)):
        return "TIME"
    if isinstance(value, UUID):
        return "UUID"
    if isinstance(value, (memoryview, bytearray)):
        return bytes(value)
    if isinstance(value, (dict, list, set)):
        value = repr(value)
    return TIME.sub("TIME", value) if isinstance(value, str) else value
