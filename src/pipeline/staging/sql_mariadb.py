"""The copy of a MariaDB or MySQL database: a database whose tables are filled again if a run changes them."""

from __future__ import annotations

import re

from sqlalchemy.engine import Connection

from pipeline.interfaces import ConfigurationError
from pipeline.staging.sql_servers import ServerCopy, columns_of, quoted, rows_of, run

AUTO_INCREMENT = re.compile(r" AUTO_INCREMENT=\d+")
"""The next number of a table. It is not put back: that would make the table again, and new numbers are compared by
their order."""
NAMED = re.compile(
    r"\b(USE\s|(?:FROM|JOIN|INTO|UPDATE|TABLE|EXISTS|IGNORE|TRUNCATE|CALL)\s(?=\s*[^\s.;()]+\.))\s*`?([^\s`.;()]+)",
    re.IGNORECASE,
)
"""A database that a statement names before a table. It does not find those behind a comma."""
REFERS_OUT = re.compile(r"REFERENCES `[^`]+`\.`")


class MariaDB(ServerCopy):
    """The copy of a MariaDB or MySQL database."""

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

    def make_again(self, control: Connection) -> None:
        with self.look.connect() as connection:
            self.create(connection, self.structure)
            super().put_back(connection)
