"""Copies of SQL databases. Every connection that SQLAlchemy opens is one to the copy. Each engine has a class of
its own, which derives from ``SqlCopy``."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from pipeline.database import forks
from pipeline.interfaces import ConfigurationError
from pipeline.options import on_demand
from pipeline.staging.runs import point, running

EXECUTE = ("do_execute", "do_executemany", "do_execute_no_params")
CALLS = dict.fromkeys(EXECUTE, "sql.execute") | {"do_commit": "sql.commit", "do_rollback": "sql.rollback"}
"""The calls of a driver that are points, by the method of the dialect that makes them."""
PLACE = ("host", "port", "unix_socket", "dbname", "database", "db")
"""The options of drivers that say which database it is."""
TIME = re.compile(r"\d{4}-\d\d-\d\d[ T][\d:.]+")
"""A time of day in a text. It differs from run to run."""
Faults = Mapping[str, Callable[[str], BaseException]]
Signature = tuple[bytes, int, int]
LOCKED = 0.1
"""Seconds that a run waits for a lock of another connection, which here is its own."""
NOTHING: Signature = (b"", 0, 0)


class SqlCopy(Protocol):
    """The copy of one database. It is made with ``(directory, dialect, arguments, options)``, the latter two
    those with which the driver would connect to the original."""

    name: str
    """The name of the database in findings."""

    def redirect(self, arguments: list[Any], options: dict[str, Any]) -> None:
        """Have the driver connect to the copy."""

    def check(self, statement: str) -> None:
        """Raise ConfigurationError if a statement reaches the original."""

    def freeze(self) -> None:
        """Let what is stored now be the state before each run."""

    def reset(self) -> None:
        """Return to the state before each run. No connection of a pool is open."""

    def changed(self) -> tuple[Any, ...]:
        """Return what differs from the state before the run, or () if nothing does."""

    def faults(self, target: Any, has_ended: bool) -> Faults:
        """Return what the driver raises, by the kind of the fault.

        target     cursor, or connection, of the driver
        has_ended  whether the transaction has ended, so that it can have no conflict
        """

    def drop(self) -> None:
        """Remove what is not in the directory of the copies."""


class SQLite(SqlCopy):
    """The copy of an SQLite file. A statement that attaches a file opens it, which is noticed as an effect."""

    def __init__(self, directory: Path, dialect: Any, arguments: list[Any], options: dict[str, Any]) -> None:
        self.name = str(arguments[0]) if arguments else ":memory:"
        self.error: Any = getattr(dialect, "loaded_dbapi", dialect.dbapi).OperationalError
        self.file = directory / f"{len(list(directory.glob('*.sqlite')))}.sqlite"
        self.image = b""
        self.known = NOTHING
        """The signature of the image."""
        path = self.name.removeprefix("file:").partition("?")[0]
        if ":memory:" not in self.name and Path(path).exists():
            source = sqlite3.connect(f"file:{path}?mode=ro", uri=True)  # others may write to it
            with closing(source), closing(sqlite3.connect(self.file)) as target:
                source.backup(target)
        else:
            self.file.touch()

    def redirect(self, arguments: list[Any], options: dict[str, Any]) -> None:
        arguments[:] = [str(self.file)]
        options.pop("uri", None)
        options["check_same_thread"] = False
        run = running()
        if run is not None and run.is_alone:
            options["timeout"] = LOCKED

    def freeze(self) -> None:
        self.image, self.known = self.file.read_bytes(), signature(self.file)

    def reset(self) -> None:
        if not self.file.exists() or signature(self.file) != self.known:
            for extra in ("-journal", "-wal", "-shm"):
                Path(f"{self.file}{extra}").unlink(missing_ok=True)
            self.file.write_bytes(self.image)
            self.known = signature(self.file)

    def changed(self) -> tuple[str, ...]:
        """Return all that is in the file, or () if it is as before."""
        if not self.file.exists() or signature(self.file) == self.known:
            return ()
        now, before = sqlite3.connect(self.file), sqlite3.connect(":memory:")
        with closing(now), closing(before):
            if self.image:
                before.deserialize(self.image)
            lines = dump(now)
            return () if lines == dump(before) else lines

    def faults(self, target: Any, has_ended: bool) -> Faults:
        busy = partial(self.fault, "database is locked", "SQLITE_BUSY", 5)
        broken = partial(self.fault, "disk I/O error", "SQLITE_IOERR", 10)
        return {"conflict": broken if has_ended else busy, "error": broken}

    def fault(self, said: str, name: str, code: int, text: str) -> BaseException:
        """Return an error as the driver raises it."""
        error: BaseException = self.error(f"{said} ({text})")
        error.__dict__.update(sqlite_errorname=name, sqlite_errorcode=code)
        return error


def signature(file: Path) -> Signature:
    """Return what differs after a transaction that has changed a file: SQLite's counter of changes, and the
    sizes."""
    with file.open("rb") as opened:
        header = opened.read(28)
    log = Path(f"{file}-wal")
    return header[24:], file.stat().st_size, log.stat().st_size if log.exists() else 0


def dump(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Return all that is in an SQLite database, with one word for each time of day."""
    return tuple(TIME.sub("TIME", line) for line in connection.iterdump())


ENGINES: dict[str, Callable[..., Any]] = {
    "sqlite": SQLite,
    "postgresql": on_demand("pipeline.staging.sql_servers:PostgreSQL"),
    "mysql": on_demand("pipeline.staging.sql_servers:MariaDB"),
    "mariadb": on_demand("pipeline.staging.sql_servers:MariaDB"),
}
"""The ``SqlCopy`` of each dialect of SQLAlchemy."""


class SqlCopies:
    """The copies of the SQL databases that a site opens."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.copies: dict[tuple[str, ...], SqlCopy] = {}
        """The copies by the place of the original."""
        self.refused = ""
        """Why a database of the site cannot be copied."""
        self.is_frozen = False
        self._watched: list[Any] = []
        self._lock = Lock()
        self._process = os.getpid()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Have each connection of SQLAlchemy be one to a copy."""
        try:
            from sqlalchemy import event
            from sqlalchemy.engine import Engine  # SQLAlchemy 1.4 has it there alone
        except ImportError:
            yield
            return
        event.listen(Engine, "do_connect", self.connect)
        try:
            yield
        finally:
            with ExitStack() as stack:  # each step, whatever the others raise
                for copy in self.copies.values():
                    stack.callback(copy.drop)
                stack.callback(forks.close_all)
                event.remove(Engine, "do_connect", self.connect)
                for dialect in self._watched:
                    for name in CALLS:
                        dialect.__dict__.pop(name, None)

    def connect(self, dialect: Any, record: object, arguments: list[Any], options: dict[str, Any]) -> Any:
        """Return a connection to the copy in the place of one to the database."""
        copy = self.copy_of(dialect, arguments, options)
        arguments, options = list(arguments), dict(options)  # some versions give each connect the same ones
        copy.redirect(arguments, options)
        if not any(one is dialect for one in self._watched):
            self._watched.append(dialect)
            for name, called in CALLS.items():
                setattr(dialect, name, partial(self.call, getattr(dialect, name), called, copy))
        return dialect.connect(*arguments, **options)

    def copy_of(self, dialect: Any, arguments: list[Any], options: dict[str, Any]) -> SqlCopy:
        """Return the copy of a database."""
        family = "mysql" if dialect.name == "mariadb" else dialect.name
        place = (family, *map(str, arguments[:1]), *(str(options.get(name, "")) for name in PLACE))
        with self._lock:
            copy = self.copies.get(place)
            if copy is None:
                with self.noting():
                    copy = self.copies[place] = self.made(dialect, arguments, options)
                if self.is_frozen:
                    copy.freeze()
        return copy

    def made(self, dialect: Any, arguments: list[Any], options: dict[str, Any]) -> SqlCopy:
        """Make the copy of a database."""
        make = ENGINES.get(dialect.name)
        if make is None:
            raise ConfigurationError(
                f"a database of {dialect.name} cannot be copied, so it is not opened: a site can be proved with "
                f"{', '.join(sorted(ENGINES))}. Name such a database by a variable of the ini"
            )
        if os.getpid() != self._process:
            raise ConfigurationError("a database that only a process opens that is to end is not copied")
        copy: SqlCopy = make(self.directory, dialect, list(arguments), dict(options))
        return copy

    def freeze(self) -> None:
        """Let what is stored now be the state before each run."""
        self.is_frozen = True
        for copy in self.copies.values():
            copy.freeze()

    def reset(self) -> None:
        """Return to the state before each run."""
        for copy in self.copies.values():
            copy.reset()

    def changed(self) -> tuple[Any, ...]:
        """Return what is in the databases that differ from their state before the run."""
        found = [(copy.name, copy.changed()) for copy in self.copies.values()]
        return tuple(one for one in found if one[1])

    def call(self, call: Callable[..., Any], name: str, copy: SqlCopy, *arguments: Any, **options: Any) -> Any:
        """Call a driver, with a point before and after it."""
        if name == "sql.execute":
            with self.noting():
                copy.check(arguments[1])
        if name != "sql.rollback":  # one that fails means that the connection is lost, which has rolled back
            point(f"{name}:before", kinds=copy.faults(arguments[0], False))
        result = call(*arguments, **options)
        point(f"{name}:after", kinds=copy.faults(arguments[0], name != "sql.execute"))
        return result

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note why a site is refused: it may swallow the exception."""
        try:
            yield
        except ConfigurationError as error:
            self.refused = str(error)
            raise
