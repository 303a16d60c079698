"""The copy of an SQLite file, which is restored from its image, and what all copies of SQL databases share."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.staging.runs import running

TIME = re.compile(r"\d{4}-\d\d-\d\d[ T][\d:.]+")
"""A time of day in a text. It differs from run to run."""
Faults = Mapping[str, Callable[[str], BaseException]]
WORDS = ("dbname", "database", "db")
"""The options in which a driver takes the name of the database."""
LOCKED = 0.1
"""Seconds that a run waits for a lock of another connection, which here is its own."""


class SQLite:
    """The copy of an SQLite file. A statement that attaches a file opens it, which is noticed as an effect.

    The copies of other engines are made with the same arguments, ``(directory, dialect, arguments, options)``, the
    latter two those with which the driver would connect to the original, and have the same methods.
    """

    def __init__(self, directory: Path, dialect: Any, arguments: list[Any], options: dict[str, Any]) -> None:
        self.name = str(arguments[0]) if arguments else ":memory:"
        """The name of the database in findings."""
        self.error: Any = getattr(dialect, "loaded_dbapi", dialect.dbapi).OperationalError
        self.file = directory / f"{len(list(directory.glob('*.sqlite')))}.sqlite"
        path = self.name.removeprefix("file:").partition("?")[0]
        if ":memory:" not in self.name and Path(path).exists():
            source = sqlite3.connect(f"file:{path}?mode=ro", uri=True)  # others may write to it
            with closing(source), closing(sqlite3.connect(self.file)) as target:
                source.backup(target)
        else:
            self.file.touch()
        self.freeze()

    def redirect(self, arguments: list[Any], options: dict[str, Any]) -> None:
        """Have the driver connect to the copy."""
        arguments[:] = [str(self.file)]
        options.pop("uri", None)
        options["check_same_thread"] = False
        run = running()
        if run is not None and run.gate is None:
            options["timeout"] = LOCKED

    def check(self, statement: str) -> None:
        """Raise ConfigurationError if a statement reaches the original."""

    def freeze(self) -> None:
        """Let what is stored now be the state before each run: an image of the file, what is in it, and its
        signature."""
        self.image, self.lines, self.known = self.file.read_bytes(), dump(self.file), signature(self.file)

    def reset(self) -> None:
        """Return to the state before each run. No connection of a pool is open."""
        if not self.file.exists() or signature(self.file) != self.known:
            for extra in ("-journal", "-wal", "-shm"):
                Path(f"{self.file}{extra}").unlink(missing_ok=True)
            self.file.write_bytes(self.image)
            self.known = signature(self.file)

    def changed(self) -> tuple[str, ...]:
        """Return all that is in the file, or () if it is as before."""
        if not self.file.exists() or signature(self.file) == self.known:
            return ()
        lines = dump(self.file)
        return () if lines == self.lines else lines

    def faults(self, target: Any, has_ended: bool) -> Faults:
        """Return what the driver raises, by the kind of the fault.

        target     cursor, or connection, of the driver
        has_ended  whether the transaction has ended, so that it can have no conflict
        """
        busy = partial(self.fault, "database is locked", "SQLITE_BUSY", 5)
        broken = partial(self.fault, "disk I/O error", "SQLITE_IOERR", 10)
        return {"conflict": broken if has_ended else busy, "error": broken}

    def drop(self) -> None:
        """Remove what is not in the directory of the copies."""

    def fault(self, said: str, name: str, code: int, text: str) -> BaseException:
        """Return an error as the driver raises it."""
        error: BaseException = self.error(f"{said} ({text})")
        error.__dict__.update(sqlite_errorname=name, sqlite_errorcode=code)
        return error


def signature(file: Path) -> tuple[bytes, int, int]:
    """Return what differs after a transaction that has changed a file: SQLite's counter of changes, and the
    sizes."""
    with file.open("rb") as opened:
        header = opened.read(28)
    log = Path(f"{file}-wal")
    return header[24:], file.stat().st_size, log.stat().st_size if log.exists() else 0


def dump(file: Path) -> tuple[str, ...]:
    """Return all that is in an SQLite file, with one word for each time of day."""
    with closing(sqlite3.connect(file)) as connection:
        return tuple(TIME.sub("TIME", line) for line in connection.iterdump())
