"""The copies on a server: connections of their own, and the rows that a run has changed.

The statements of each server are in ``statements.toml``. A run that has changed rows alone is undone by the rows
that were there before it. After any other change, the copy is made again. If it always were, a proof of the 900
runs of a small site on PostgreSQL would take two to three times as long.
"""

from __future__ import annotations

import datetime
import os
import re
import secrets
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, inspect, text
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from pipeline.database.places import without_secrets
from pipeline.database.sql_errors import code_of
from pipeline.interfaces import ConfigurationError
from pipeline.staging.sql_copy import TIME, WORDS, Faults
from pipeline.telling.words import texts_of

STATEMENTS = texts_of(Path(__file__).with_name("statements.toml"))
Table = tuple[str | None, str]
"""Schema, None for that of the connection, and name."""
Keys = dict[str, Table]
"""The table whose key a column has, by the name of the column: its own, or one that it refers to."""
Rows = dict[Table, list[tuple[Any, ...]]]
PREFIX = "prove_"
"""The names of the databases that are made begin with this."""
IN_USE, NOT_ALLOWED = "55006", "42501"
"""SQLSTATEs: others are connected to the template; the role does not own it, or may not create databases."""
ENVIRONMENT = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD"}
ENVIRONMENT |= {"sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT"}
AUTO_INCREMENT = re.compile(r" AUTO_INCREMENT=\d+")
"""The next number of a table. It is not put back: that would make the table again, and new numbers are compared by
their order."""
NAMED = re.compile(
    r"\b(USE\s|(?:FROM|JOIN|INTO|UPDATE|TABLE|EXISTS|IGNORE|TRUNCATE|CALL)\s(?=\s*[^\s.;()]+\.))\s*`?([^\s`.;()]+)",
    re.IGNORECASE,
)
"""A database that a statement names before a table. It does not find those behind a comma."""
REFERS_OUT = re.compile(r"REFERENCES `[^`]+`\.`")


class ServerCopy:
    """The copy of a database, as another database of the same server."""

    server = ""
    """The server in ``statements.toml``."""

    def __init__(self, directory: Path, dialect: Any, arguments: list[Any], options: dict[str, Any]) -> None:
        self.directory = directory
        self.driver: Any = getattr(dialect, "loaded_dbapi", dialect.dbapi)
        self.url = f"{dialect.name}+{dialect.driver}://"
        self.arguments, self.options = arguments, options
        word = "dbname" if dialect.driver.startswith("psycopg") else "database"
        self.word = next((word for word in WORDS if word in options), word)
        self.sql: dict[str, Any] = STATEMENTS[self.server]
        token = secrets.token_hex(6)
        self.copy, self.frozen = f"{PREFIX}{token}_copy", f"{PREFIX}{token}_frozen"
        shown = f"{dialect.name}://{options.get('host', '')}/{options.get(self.word, '')}"
        self.original, self.look = self.engine(None), self.engine(self.copy)
        self.ends = ExitStack()
        self.control: Connection
        """A connection to ``frozen``. It stays open, since one that ends would be in the way for a moment."""
        self.known: Any = None
        """The state of its changes that the server has told at the begin of the run."""
        self.structure: Any = None
        self.refill: list[str] = []
        """The statements that put back all rows; none if that does not put back all."""
        self.keys: dict[Table, Keys] = {}
        self.rows: Rows = {}
        try:
            with self.original.connect() as connection:
                self.name = str(self.ask(connection, "name").scalar())
                if bound := self.ask(connection, "bound", self.name).all():
                    named = ", ".join(f"{kind} {name}" for kind, name in bound)
                    raise ConfigurationError(f"a copy would still write to the original, or elsewhere: {named}")
                self.make(connection)
        except BaseException as error:
            with suppress(DBAPIError):
                self.drop()
            if not isinstance(error, (DBAPIError, ConfigurationError)):
                raise
            what = str(getattr(error, "orig", error)).strip()
            raise ConfigurationError(f"{shown} cannot be copied, so it is not opened: {self.cause(what)}") from None

    def ask(self, connection: Connection, key: str, *places: object, **names: object) -> Any:
        """Execute one of the statements of the server, or several. Return the result of the last one."""
        found = self.sql[key]
        result = None
        for statement in [found] if isinstance(found, str) else found:
            result = run(connection, statement.format(*places, copy=self.copy, frozen=self.frozen, **names))
        return result

    def make(self, connection: Connection) -> None:
        """Make the database ``copy`` of that of the connection."""
        raise NotImplementedError

    def cause(self, what: str) -> str:
        """Return why the copy cannot be made, with what to do, without secrets."""
        if self.sql["denied"] in what:
            what = f"{what}. {self.sql['grant']}"
        for secret in map(str, filter(None, (self.options.get(key) for key in ("password", "passwd")))):
            what = what.replace(secret, "***")
        return without_secrets(what)

    def engine(self, database: str | None) -> Engine:
        """Return an engine for one database of the server, or for the original. It is not redirected."""
        options = dict(self.options)
        if database is not None:
            options[self.word] = database
        connect = partial(self.driver.connect, *self.arguments, **options)
        return create_engine(self.url, creator=connect, poolclass=NullPool, isolation_level="AUTOCOMMIT")

    def redirect(self, arguments: list[Any], options: dict[str, Any]) -> None:
        options[self.word] = self.copy

    def check(self, statement: str) -> None:
        """Raise ConfigurationError if a statement reaches the original."""

    def freeze(self) -> None:
        self.ends.close()
        with self.look.connect() as connection:
            self.end_others(connection, self.copy)
            self.ask(connection, "empty")
            tables, is_ordered = in_order(connection)
            self.keys = dict(keys_of(connection, tables))
            self.rows = dict(rows_of(connection, tables))
            is_special = "special" in self.sql and (not is_ordered or self.ask(connection, "special").scalar())
            self.refill = [] if is_special else list(self.kept(connection, tables))
            self.structure = self.structure_of(connection)
            self.ask(connection, "template")
        self.control = self.ends.enter_context(self.engine(self.frozen).connect())
        self.known = self.now()

    def kept(self, connection: Connection, tables: Iterable[Table]) -> Iterator[str]:
        """Keep the rows of all tables. Yield the statements that put them back."""
        names = {table: quoted(connection, *table) for table in tables}
        yield from self.sql["begin"]
        yield from (f"DELETE FROM {name}" for name in reversed(names.values()))
        for number, ((schema, table), name) in enumerate(names.items()):
            kept = f"{self.frozen}.kept{number}"
            columns = columns_of(connection, schema or connection.dialect.default_schema_name, table)
            if columns:
                run(connection, f"CREATE TABLE {kept} AS SELECT {columns} FROM {name}")
                yield f"INSERT INTO {name} ({columns}) {self.sql['overriding']} SELECT {columns} FROM {kept}"
        if "sequences" in self.sql:
            yield from self.ask(connection, "sequences").scalars()
        yield "COMMIT"

    def structure_of(self, connection: Connection) -> Any:
        """Return what differs when anything but rows has changed."""
        return self.ask(connection, "structure").scalar()

    def now(self) -> Any:
        """Return what the server tells of its changes, or None if it tells nothing."""
        row = self.ask(self.control, "now").first()
        return None if row is None else row[-1]

    def has_stored(self) -> bool:
        """Return whether something may have been stored since the begin of the run."""
        if "has_stored" in self.sql:
            return bool(self.ask(self.control, "has_stored", self.known).scalar())
        return self.known is None or self.now() != self.known

    def reset(self) -> None:
        self.end_others(self.control, self.copy)
        if not self.has_stored():
            return
        with self.look.connect() as connection:
            is_refilled = bool(self.refill) and self.structure_of(connection) == self.structure
            if is_refilled:
                self.put_back(connection)
        if not is_refilled:
            self.make_again()
        self.known = self.now()

    def put_back(self, connection: Connection) -> None:
        """Put back all rows."""
        for statement in self.refill:
            run(connection, statement)

    def make_again(self) -> None:
        """Make the copy again, as it was before each run."""
        raise NotImplementedError

    def changed(self) -> tuple[Any, ...]:
        """Return the rows that are gone and those that are new, for each table that differs."""
        if not self.has_stored():
            return ()
        with self.look.connect() as connection:
            now = dict(rows_of(connection, in_order(connection)[0]))
        return tuple(differences(self.keys, self.rows, now))

    def faults(self, target: Any, has_ended: bool) -> Faults:
        """Return real faults: the server itself reports the conflict, and ends the connection."""
        conflict, lost = partial(raised, self.conflict, target), partial(raised, self.lose, target)
        return {"conflict": lost if has_ended else conflict, "error": lost}

    def conflict(self, cursor: Any, text: str) -> None:
        """Have the server end the transaction with a conflict."""
        for statement in self.sql["conflict"]:
            cursor.execute(statement.format(text))

    def lose(self, cursor: Any, text: str) -> None:
        """Have the server end the connection of a cursor, and use it until that is noticed."""
        cursor.execute("ROLLBACK")
        cursor.execute(self.sql["me"])
        with self.look.connect() as connection:
            self.ask(connection, "end", cursor.fetchall()[0][0])
        for _ in range(1000):
            cursor.execute("SELECT 1")
            cursor.fetchall()

    def end_others(self, connection: Connection, database: str) -> None:
        """End the connections to a database that a run has left open."""
        for _ in range(1000):  # until they have ended
            others = self.ask(connection, "others", database).scalars().all()
            for one in others:
                with suppress(DBAPIError):  # it has ended in the meantime
                    self.ask(connection, "end", one)
            if not others:
                return

    def drop(self) -> None:
        """Remove what was made."""
        self.ends.close()
        with self.original.connect() as connection:
            for database in (self.copy, self.frozen):
                self.end_others(connection, database)
                run(connection, f"DROP DATABASE IF EXISTS {database}")


class PostgreSQL(ServerCopy):
    """The copy of a PostgreSQL database: another database, made of a template."""

    server = "postgresql"

    def make(self, connection: Connection) -> None:
        try:
            self.ask(connection, "make", name=self.name)
        except DBAPIError as error:
            if code_of(error.orig) not in (IN_USE, NOT_ALLOWED):
                raise
            self.load(connection, error)

    def load(self, connection: Connection, error: DBAPIError) -> None:
        """Copy by a dump, since a template must have no other connection and be owned by the role."""
        encoding, collate, kind = self.ask(connection, "like").one()
        self.ask(connection, "load", encoding=encoding, collate=collate, kind=kind)
        dump, psql = shutil.which("pg_dump"), shutil.which("psql")
        if dump is None or psql is None:
            raise ConfigurationError(
                f"{str(error.orig).strip()}. Stop the programs that are connected to it and let the role own it, "
                f"or install pg_dump and psql"
            )
        named = {word: str(self.options[key]) for key, word in ENVIRONMENT.items() if self.options.get(key)}
        file = str(self.directory / f"{self.copy}.sql")
        for command in (
            [dump, "--no-owner", "--no-privileges", "--file", file, "--dbname", self.name],
            [psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "--file", file, "--dbname", self.copy],
        ):
            done = subprocess.run(command, env={**os.environ, **named}, capture_output=True)
            if done.returncode:
                raise ConfigurationError(done.stderr.decode("utf-8", "replace").strip())

    def reset(self) -> None:
        if self.ask(self.control, "prepared", self.copy).first() is not None:
            with self.look.connect() as connection:
                for (gid,) in self.ask(connection, "prepared", self.copy):
                    run(connection, f"ROLLBACK PREPARED '{gid}'")
        super().reset()

    def make_again(self) -> None:
        self.end_others(self.control, self.copy)
        self.ask(self.control, "again")


class MariaDB(ServerCopy):
    """The copy of a MariaDB or MySQL database: a database whose tables are filled again if a run changes them."""

    server = "mysql"

    def make(self, connection: Connection) -> None:
        charset, collation = self.ask(connection, "charset").one()
        self.ask(connection, "make", charset=charset, collation=collation)
        made = self.tables_of(connection, self.name)
        for table, create in made.items():
            if REFERS_OUT.search(create):
                raise ConfigurationError(f"the table {table} refers to another database")
        with self.look.connect() as target:
            # at this level the rows are read without locks
            run(target, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            self.create(target, made)
            self.ask(target, "begin")
            for table in made:
                columns, source = columns_of(target, self.name, table), quoted(target, self.name, table)
                run(target, f"INSERT INTO {quoted(target, table)} ({columns}) SELECT {columns} FROM {source}")
            run(target, "COMMIT")

    def check(self, statement: str) -> None:
        """Refuse a statement that names the original: it would reach it."""
        if any(found.group(2) == self.name for found in NAMED.finditer(statement)):
            raise ConfigurationError(f"a statement names the database {self.name}, so it would change the original")

    def create(self, connection: Connection, tables: dict[str, str]) -> None:
        """Make the tables of the copy, in the place of those that are there."""
        run(connection, "SET SESSION foreign_key_checks = 0")
        for table in self.tables_of(connection, self.copy):
            run(connection, f"DROP TABLE {quoted(connection, table)}")
        for statement in tables.values():
            run(connection, statement)

    def tables_of(self, connection: Connection, database: str) -> dict[str, str]:
        """Return the statement that makes each table of a database."""
        made = {}
        for name in self.ask(connection, "tables", database).scalars().all():
            create = run(connection, f"SHOW CREATE TABLE {quoted(connection, database, name)}").one()[1]
            made[name] = AUTO_INCREMENT.sub("", create)
        return made

    def structure_of(self, connection: Connection) -> dict[str, str]:
        return self.tables_of(connection, self.copy)

    def put_back(self, connection: Connection) -> None:
        if dict(rows_of(connection, self.rows)) != self.rows:
            super().put_back(connection)

    def make_again(self) -> None:
        with self.look.connect() as connection:
            self.create(connection, self.structure)
            super().put_back(connection)


def raised(call: Callable[[Any, str], None], target: Any, text: str) -> BaseException:
    """Return what a driver raises when a call has used a cursor of a connection, or of that of another cursor."""
    if not hasattr(target, "cursor"):  # that of pg8000, of mysql-connector, of the others
        names = [name for name in ("_c", "_connection", "connection") if hasattr(target, name)]
        target = getattr(target, names[0])
    try:
        call(target.cursor(), text)
    except Exception as error:
        return error
    return RuntimeError("prove: the server has not reported the fault that it was asked for")


def in_order(connection: Connection) -> tuple[list[Table], bool]:
    """Return the tables of a database, each behind those that must have their rows before it, and whether there is
    such an order."""
    found = inspect(connection)
    schemas: list[str | None] = [None]
    if connection.dialect.name == "postgresql":
        others = (found.default_schema_name, "information_schema")
        named = [one for one in found.get_schema_names() if not one.startswith(("pg_", PREFIX))]
        schemas += [one for one in named if one not in others]
    *tables, (_, left_out) = found.sort_tables_on_foreign_key_dependency(schemas)
    return [table for table, _ in tables if table is not None], not left_out


def keys_of(connection: Connection, tables: Sequence[Table]) -> Iterator[tuple[Table, Keys]]:
    """Yield the columns of each table that have keys. The server is asked once for each schema."""
    found = inspect(connection)
    for schema in dict.fromkeys(schema for schema, _ in tables):
        references = found.get_multi_foreign_keys(schema)
        for (_, table), key in found.get_multi_pk_constraint(schema).items():
            own = {**key, "referred_schema": schema, "referred_table": table}
            yield (schema, table), {
                one["constrained_columns"][0]: (one["referred_schema"], one["referred_table"])
                for one in (*references.get((schema, table), ()), own)
                if len(one["constrained_columns"]) == 1
            }


def columns_of(connection: Connection, schema: str | None, table: str) -> str:
    """Return the columns of a table that are not computed from others, as words of a statement."""
    names = connection.execute(text(STATEMENTS["columns"]), {"schema": schema, "table": table}).scalars()
    return ", ".join(quoted(connection, name) for name in names)


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


def differences(keys: dict[Table, Keys], before: Rows, now: Rows) -> Iterator[tuple[Any, ...]]:
    """Yield each table that differs: its name, the rows that are gone, and those that are new."""
    new_keys = {table: numbered(table, of, before.get(table, []), now.get(table, [])) for table, of in keys.items()}
    for table in sorted((one for one in {*before, *now} if before.get(one) != now.get(one)), key=str):
        old = Counter(masked(keys.get(table, {}), before.get(table, []), {}))
        new = Counter(masked(keys.get(table, {}), now.get(table, []), new_keys))
        if old != new:
            yield table[1], tuple(sorted((old - new).elements())), tuple(sorted((new - old).elements()))


def numbered(
    table: Table, keys: Keys, before: list[tuple[Any, ...]], now: list[tuple[Any, ...]]
) -> dict[int, str]:
    """Return a name for each new key of a table: a sequence gives other numbers after an abort."""
    known, new = (
        {one for row in rows[1:] for name, one in zip(rows[0], row, strict=True) if keys.get(name) == table}
        for rows in (before, now)
    )
    keys_made = sorted(key for key in new - known if isinstance(key, int))
    return {key: f"new {number}" for number, key in enumerate(keys_made, 1)}


def masked(keys: Keys, rows: list[tuple[Any, ...]], new_keys: dict[Table, dict[int, str]]) -> Iterator[str]:
    """Yield the rows of a table as texts, without what differs from run to run."""
    columns = rows[0] if rows else ()
    of_columns = [new_keys.get(keys[column], {}) if column in keys else {} for column in columns]
    for row in rows:
        yield repr(tuple(plain(value, names) for value, names in zip(row, of_columns, strict=True)))


def plain(value: Any, names: dict[int, str]) -> Any:
    """Return a value of a column. Times are one word.

    names  those of new keys
    """
    if isinstance(value, int):
        return names.get(value, value)
    if isinstance(value, (datetime.date, datetime.time)):
        return "TIME"
    if isinstance(value, memoryview):
        value = bytes(value)
    return value if value is None else TIME.sub("TIME", str(value))
