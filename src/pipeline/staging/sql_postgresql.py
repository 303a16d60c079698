"""The copy of a PostgreSQL database: another database, made of a template.

A run that has changed rows alone is undone by rows that lie in a schema of the copy. After any other change, the
copy is made again of a template. If it always were, a proof of the 900 runs of a small site would take two to three
times as long.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any

from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from pipeline.database.sql_errors import code_of
from pipeline.interfaces import ConfigurationError
from pipeline.staging.sql_servers import FROZEN, ServerCopy, quoted, run

IN_USE, NOT_ALLOWED = "55006", "42501"
"""SQLSTATEs: others are connected to the template; the role does not own it, or may not create databases."""
LIKE = """
SELECT pg_encoding_to_char(encoding), datcollate, datctype FROM pg_database WHERE datname = current_database()
"""
COMMITTED = """
SELECT coalesce(bool_or(txid_status(id) = 'committed'), false)
FROM generate_series({first}, txid_snapshot_xmax(txid_current_snapshot()) - 1) AS id
"""
"""Tells whether a transaction of the server has stored something since its next transaction id was ``first``. A
transaction of another database counts, too: then the rows are read, and are found to be the same."""
NEXT = "SELECT txid_snapshot_xmax(txid_current_snapshot())"
END_OTHERS = """
SELECT pg_terminate_backend(pid), pg_sleep(0.002) FROM pg_stat_activity
WHERE datname = '{}' AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
PREPARED = "SELECT gid FROM pg_prepared_xacts WHERE database = '{}'"
SPECIAL = """
SELECT EXISTS (SELECT 1 FROM pg_trigger WHERE NOT tgisinternal) OR EXISTS (SELECT 1 FROM pg_inherits
JOIN pg_class ON oid = inhrelid WHERE relkind = 'r') OR EXISTS (SELECT 1 FROM pg_rewrite WHERE rulename <> '_RETURN'
AND oid >= 16384) OR EXISTS (SELECT 1 FROM pg_largeobject_metadata)
"""
"""Tells whether a row that is put back does more than that, or whether more than rows can change."""
STRUCTURE = """
SELECT md5(string_agg(t, ',' ORDER BY t)) FROM (
SELECT format('%s %s %s %s', attrelid, attname, atttypid, attnotnull) AS t FROM pg_attribute
WHERE attrelid >= 16384 AND attnum > 0 AND NOT attisdropped
UNION SELECT format('%s %s', oid, relname) FROM pg_class WHERE oid >= 16384
UNION SELECT format('%s %s', oid, prosrc) FROM pg_proc WHERE oid >= 16384
UNION SELECT format('%s %s', oid, tgname) FROM pg_trigger WHERE NOT tgisinternal
UNION SELECT format('%s %s', oid, conname) FROM pg_constraint WHERE oid >= 16384) AS all_of_it
"""
SEQUENCES = """
SELECT format('%I.%I', schemaname, sequencename), coalesce(last_value, start_value), last_value IS NOT NULL
FROM pg_sequences
"""
COLUMNS = """
SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
WHERE attrelid = '{}'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
"""
ENVIRONMENT = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD"}
ENVIRONMENT |= {"sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT"}


class PostgreSQL(ServerCopy):
    """The copy of a PostgreSQL database."""

    asks_for_name = "SELECT current_database()"
    words: tuple[str, ...] = ("dbname", "database")

    def __init__(self, directory: Any, dialect: Any, arguments: list[Any], options: dict[str, Any]) -> None:
        if dialect.driver == "pg8000":
            self.words = ("database",)
        super().__init__(directory, dialect, arguments, options)
        self.template = self.engine(self.frozen)
        self.control: Connection | None = None
        """A connection to the template. It stays open, since one that ends would be in the way for a moment."""
        self.first = 0
        """The next transaction id of the server at the begin of the run."""
        self.refill: list[str] = []
        """The statements that put back all rows; none if that does not put back all."""
        self.structure: Any = None

    def make(self, connection: Connection) -> None:
        try:
            run(connection, f'CREATE DATABASE {self.copy} TEMPLATE "{self.name}"')
        except DBAPIError as error:
            if code_of(error.orig) not in (IN_USE, NOT_ALLOWED):
                raise
            self.load(connection, error)

    def load(self, connection: Connection, error: DBAPIError) -> None:
        """Copy by a dump, since a template must have no other connection and be owned by the role."""
        encoding, collate, kind = run(connection, LIKE).one()
        like = f"ENCODING '{encoding}' LC_COLLATE '{collate}' LC_CTYPE '{kind}'"
        run(connection, f"CREATE DATABASE {self.copy} TEMPLATE template0 {like}")
        dump, psql = shutil.which("pg_dump"), shutil.which("psql")
        if dump is None or psql is None:
            raise ConfigurationError(
                f"{str(error.orig).strip()}. Stop the programs that are connected to it and let the role own it, "
                f"or install pg_dump and psql"
            )
        environ = dict(os.environ)
        environ.update(
            {ENVIRONMENT[key]: str(value) for key, value in self.options.items() if key in ENVIRONMENT and value}
        )
        dumped = subprocess.Popen(
            [dump, "--no-owner", "--no-privileges", "--dbname", self.name],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        loaded = subprocess.run(
            [psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "--dbname", self.copy],
            env=environ,
            stdin=dumped.stdout,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        said = dumped.communicate()[1] + loaded.stderr
        if dumped.returncode or loaded.returncode:
            raise ConfigurationError(said.decode("utf-8", "replace").strip())

    def cause(self, what: str) -> str:
        if "permission denied to create database" in what:
            what = f"{what}. Use a role that may: ALTER ROLE ... CREATEDB"
        return super().cause(what)

    def freeze(self) -> None:
        self.close_control()
        with self.look.connect() as connection:
            self.end_others(connection, self.copy)
            run(connection, f"DROP SCHEMA IF EXISTS {FROZEN} CASCADE")
        self.note_rows()
        with self.look.connect() as connection:
            self.end_others(connection, self.copy)
            self.refill = list(self.kept(connection))
            self.structure = run(connection, STRUCTURE).scalar()
            run(connection, f"DROP DATABASE IF EXISTS {self.frozen}")
            run(connection, f"CREATE DATABASE {self.frozen} TEMPLATE {self.copy}")
        self.control = self.template.connect()
        self.first = int(run(self.control, NEXT).scalar_one())

    def reset(self) -> None:
        if self.control is None:
            return
        self.end_others(self.control, self.copy)
        if run(self.control, PREPARED.format(self.copy)).first() is not None:
            self.end_prepared()
        if not self.has_stored():
            return
        if not self.is_refilled():
            self.end_others(self.control, self.copy)
            run(self.control, f"DROP DATABASE IF EXISTS {self.copy}")
            run(self.control, f"CREATE DATABASE {self.copy} TEMPLATE {self.frozen}")
        self.first = int(run(self.control, NEXT).scalar_one())

    def kept(self, connection: Connection) -> Iterator[str]:
        """Keep the rows in a schema of the copy. Yield the statements that put them back."""
        if run(connection, SPECIAL).scalar():
            return
        try:
            parents = {table: shape.parents for table, shape in self.tables.items()}
            order = list(TopologicalSorter(parents).static_order())
        except CycleError:
            return
        names = {table: quoted(connection, *table) for table in order}
        yield from (f"DELETE FROM {names[table]}" for table in reversed(order))
        run(connection, f"CREATE SCHEMA {FROZEN}")
        for number, table in enumerate(order):
            kept = f"{FROZEN}.kept{number}"
            run(connection, f"CREATE TABLE {kept} AS TABLE {names[table]}")
            columns = run(connection, COLUMNS.format(names[table])).scalar()
            if columns:
                values = f"({columns}) OVERRIDING SYSTEM VALUE SELECT {columns}"
                yield f"INSERT INTO {names[table]} {values} FROM {kept}"
        for name, value, is_called in run(connection, SEQUENCES):
            yield f"SELECT setval('{name}', {value}, {is_called})"

    def is_refilled(self) -> bool:
        """Put back all rows, if that undoes the run. Return whether it does."""
        if not self.refill:
            return False
        with self.look.connect() as connection:
            if run(connection, STRUCTURE).scalar() != self.structure:
                return False
            run(connection, "SET synchronous_commit = off")
            run(connection, "BEGIN")
            for statement in self.refill:
                run(connection, statement)
            run(connection, "COMMIT")
        return True

    def changed(self) -> tuple[Any, ...]:
        return self.changed_rows() if self.has_stored() else ()

    def has_stored(self) -> bool:
        """Return whether a transaction was committed since the begin of the run."""
        if self.control is None:
            return False
        return bool(run(self.control, COMMITTED.format(first=self.first)).scalar())

    def end_prepared(self) -> None:
        """Roll back what a run has prepared and not ended: it would keep its locks."""
        with self.look.connect() as connection:
            for (gid,) in run(connection, PREPARED.format(self.copy)):
                run(connection, f"ROLLBACK PREPARED '{gid}'")
            self.end_others(connection, self.copy)

    def close_control(self) -> None:
        """Close the connection to the template."""
        if self.control is not None:
            self.control.close()
            self.control = None

    def conflict(self, cursor: Any, text: str) -> None:
        cursor.execute(f"DO $$ BEGIN RAISE SQLSTATE '40001' USING MESSAGE = '{text}'; END $$")

    def end_connection(self, cursor: Any) -> None:
        cursor.execute("SELECT pg_backend_pid()")
        number = cursor.fetchone()[0]
        with self.look.connect() as connection:
            run(connection, f"SELECT pg_terminate_backend({number})")

    def end_others(self, connection: Connection, database: str) -> None:
        for _ in range(1000):  # until they have ended
            if not run(connection, END_OTHERS.format(database)).all():
                return

    def drop(self) -> None:
        if hasattr(self, "control"):
            self.close_control()
        super().drop()
