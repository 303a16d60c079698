"""The copy of a MariaDB or MySQL database: a database whose tables are filled again if a run changes them."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from pipeline.interfaces import ConfigurationError
from pipeline.staging.sql_servers import ServerCopy, quoted, rows_of, run

TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = '{}' AND table_type = 'BASE TABLE'"
COLUMNS = """
SELECT column_name FROM information_schema.columns
WHERE table_schema = '{}' AND table_name = :table AND coalesce(generation_expression, '') = ''
ORDER BY ordinal_position
"""
MORE = """
SELECT 'view', table_name FROM information_schema.views WHERE table_schema = '{0}'
UNION SELECT 'trigger', trigger_name FROM information_schema.triggers WHERE trigger_schema = '{0}'
UNION SELECT 'routine', routine_name FROM information_schema.routines WHERE routine_schema = '{0}'
"""
OTHERS = "SELECT id FROM information_schema.processlist WHERE db = '{}' AND id <> connection_id()"
AUTO_INCREMENT = re.compile(r" AUTO_INCREMENT=\d+")
"""The next number of a table. It is not put back: that would make the table again, and new numbers are compared by
their order."""
NAMED = re.compile(
    r"\b(USE\s|(?:FROM|JOIN|INTO|UPDATE|TABLE|EXISTS|IGNORE|TRUNCATE|CALL)\s(?=\s*[^\s.;()]+\.))\s*`?([^\s`.;()]+)",
    re.IGNORECASE,
)
"""A database that a statement names before a table. It does not find those behind a comma."""
REFERS_OUT = re.compile(r"REFERENCES `[^`]+`\.`")
NUMBER = "SHOW GLOBAL STATUS LIKE 'Innodb_lsn_current'"
"""The length of the log of changes. It grows by each change, also in other databases and by what is rolled back.
MySQL does not tell it."""


class MariaDB(ServerCopy):
    """The copy of a MariaDB or MySQL database."""

    asks_for_name = "SELECT database()"
    words = ("database", "db")

    def make(self, connection: Connection) -> None:
        more = run(connection, MORE.format(self.name)).all()
        if more:
            named = ", ".join(f"{kind} {name}" for kind, name in more)
            raise ConfigurationError(f"it has what is bound to the name of its database: {named}")
        # at this level the rows are read without locks
        run(connection, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        run(connection, f"CREATE DATABASE {self.copy} {self.charset(connection)}")
        made = structure(connection, self.name)
        self.known = ""
        self.structure: dict[str, str] = {}
        with self.engine(self.copy).connect() as target:
            for table, create in made.items():
                if REFERS_OUT.search(create):
                    raise ConfigurationError(f"the table {table} refers to another database")
                self.fill(target, self.name, self.copy, table, create)

    def charset(self, connection: Connection) -> str:
        """Return the defaults of the database as words of a statement."""
        charset, collation = run(connection, "SELECT @@character_set_database, @@collation_database").one()
        return f"CHARACTER SET {charset} COLLATE {collation}"

    def cause(self, what: str) -> str:
        if "Access denied" in what:
            what = rf"{what}. The user needs: GRANT ALL ON `prove\_%`.* TO ..."
        return super().cause(what)

    def check(self, statement: str) -> None:
        """Refuse a statement that names the original: it would reach it."""
        if any(found.group(2) == self.name for found in NAMED.finditer(statement)):
            raise ConfigurationError(f"a statement names the database {self.name}, so it would change the original")

    def fill(self, connection: Connection, source: str, target: str, table: str, create: str = "") -> None:
        """Give a table the rows of another one, and make it first if ``create`` is given. The database of the
        connection is the target."""
        names = connection.execute(text(COLUMNS.format(source)), {"table": table}).scalars()
        columns = ", ".join(quoted(connection, name) for name in names)
        here, there = quoted(connection, target, table), quoted(connection, source, table)
        run(connection, "SET SESSION foreign_key_checks = 0, SESSION unique_checks = 0")
        if create:
            run(connection, f"DROP TABLE IF EXISTS {here}")
            run(connection, create)
        run(connection, "START TRANSACTION")
        run(connection, f"DELETE FROM {here}")
        run(connection, f"INSERT INTO {here} ({columns}) SELECT {columns} FROM {there}")
        run(connection, "COMMIT")

    def freeze(self) -> None:
        self.note_rows()
        with self.look.connect() as connection:
            self.structure = structure(connection, self.copy)
            run(connection, f"DROP DATABASE IF EXISTS {self.frozen}")
            run(connection, f"CREATE DATABASE {self.frozen} {self.charset(connection)}")
        with self.engine(self.frozen).connect() as connection:
            for table, create in self.structure.items():
                self.fill(connection, self.copy, self.frozen, table, create)
            self.known = number(connection)

    def reset(self) -> None:
        if not self.structure and not self.known:
            return
        with self.look.connect() as connection:
            self.end_others(connection, self.copy)
            if number(connection) != self.known or not self.known:
                now = structure(connection, self.copy)
                run(connection, "SET SESSION foreign_key_checks = 0")
                for table in {*now} - {*self.structure}:
                    run(connection, f"DROP TABLE {quoted(connection, table)}")
                for table, create in self.structure.items():
                    if now.get(table) != create:
                        self.fill(connection, self.frozen, self.copy, table, create)
                    elif dict(rows_of(connection, [(None, table)])) != {(None, table): self.rows[None, table]}:
                        self.fill(connection, self.frozen, self.copy, table)
                self.known = number(connection)

    def changed(self) -> tuple[Any, ...]:
        with self.look.connect() as connection:
            if self.known and number(connection) == self.known:
                return ()
        return self.changed_rows()

    def end_others(self, connection: Connection, database: str) -> None:
        for one in run(connection, OTHERS.format(database)).scalars().all():
            try:
                run(connection, f"KILL {one}")
            except DBAPIError:  # it has ended in the meantime
                continue

    def conflict(self, cursor: Any, text: str) -> None:
        cursor.execute("ROLLBACK")  # as the server does
        cursor.execute(f"SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = '{text}'")

    def end_connection(self, cursor: Any) -> None:
        cursor.execute("SELECT connection_id()")
        one = cursor.fetchall()[0][0]
        with self.look.connect() as connection:
            run(connection, f"KILL {one}")


def number(connection: Connection) -> str:
    """Return a number that grows by each change, or "" if the server has none."""
    row = run(connection, NUMBER).first()
    return str(row[1]) if row is not None else ""


def structure(connection: Connection, database: str) -> dict[str, str]:
    """Return the statement that makes each table of a database."""
    names = run(connection, TABLES.format(database)).scalars().all()
    made = {}
    for name in names:
        create = run(connection, f"SHOW CREATE TABLE {quoted(connection, database, name)}").one()[1]
        made[name] = AUTO_INCREMENT.sub("", create)
    return made
