"""The copy of a PostgreSQL database: another database, made of a template."""

from __future__ import annotations

import os
import shutil
import subprocess

from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from pipeline.database.sql_errors import code_of
from pipeline.interfaces import ConfigurationError
from pipeline.staging.sql_servers import ServerCopy, run

IN_USE, NOT_ALLOWED = "55006", "42501"
"""SQLSTATEs: others are connected to the template; the role does not own it, or may not create databases."""
ENVIRONMENT = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD"}
ENVIRONMENT |= {"sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT"}


class PostgreSQL(ServerCopy):
    """The copy of a PostgreSQL database."""

    server = "postgresql"
    overriding = "OVERRIDING SYSTEM VALUE"

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

    def is_plain(self, connection: Connection, is_ordered: bool) -> bool:
        return is_ordered and not self.ask(connection, "special").scalar()

    def has_stored(self, control: Connection) -> bool:
        return bool(self.ask(control, "has_stored", self.known).scalar())

    def reset(self) -> None:
        if self.control is not None and self.ask(self.control, "prepared", self.copy).first() is not None:
            with self.look.connect() as connection:
                for (gid,) in self.ask(connection, "prepared", self.copy):
                    run(connection, f"ROLLBACK PREPARED '{gid}'")
        super().reset()

    def make_again(self, control: Connection) -> None:
        self.end_others(control, self.copy)
        self.ask(control, "again")
