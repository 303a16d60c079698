"""The databases of the quick rows, in files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from ZODB.DB import DB
from ZODB.FileStorage import FileStorage

from database.table import tables
from database.table.objects import Objects
from database.table.tables import Tables


def objects_in_a_file(directory: Path) -> Objects:
    """Return the kit for a ZODB in a file."""
    path = f"{directory}/Data.fs"
    return Objects(f"file://{path}", lambda: DB(FileStorage(path, read_only=True)))


def tables_in_a_file(directory: Path) -> Tables:
    """Return the kit for a database of SQLite."""
    path = f"{directory}/tables.sqlite"

    def read(query: str) -> list[tuple[str, str]]:
        with closing(sqlite3.connect(path)) as connection:
            return connection.execute(query).fetchall()

    with closing(sqlite3.connect(path)) as connection:
        connection.execute(tables.CREATE)
    return Tables(f"sqlite:///{path}", read)


QUICK = {"ZODB in a file": objects_in_a_file, "SQLite": tables_in_a_file}
