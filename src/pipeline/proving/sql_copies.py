"""Copies of SQL databases. Every connection that SQLAlchemy opens is one to the copy."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.proving.runs import point

TIME = re.compile(r"\d{4}-\d\d-\d\d[ T][\d:.]+")
Signature = tuple[bytes, int, int]
EXECUTE = ("do_execute", "do_executemany", "do_execute_no_params")
CALLS = dict.fromkeys(EXECUTE, "sql.execute") | {"do_commit": "sql.commit", "do_rollback": "sql.rollback"}
"""The calls of a driver that are points, by the method of the dialect that makes them."""


class SqlCopies:
    """The copies of the SQL databases that a site opens."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files: dict[str, Path] = {}
        """The copy of each SQLite file."""
        self.images: dict[Path, tuple[bytes, Signature]] = {}
        """The copies as they are at the beginning of a run, with their signatures."""
        self.refused = ""
        """Why a database of the site cannot be copied."""
        self._watched: list[Any] = []

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Have each connection of SQLAlchemy be one to a copy."""
        try:
            from sqlalchemy import Engine, event
        except ImportError:
            yield
            return
        event.listen(Engine, "do_connect", self.connect)
        try:
            yield
        finally:
            event.remove(Engine, "do_connect", self.connect)
            for dialect in self._watched:
                for name in CALLS:
                    dialect.__dict__.pop(name, None)

    def connect(self, dialect: Any, record: object, arguments: list[Any], options: dict[str, Any]) -> None:
        """Put the copy in the place of a database that is about to be connected to."""
        if dialect.name != "sqlite":
            self.refused = (
                f"a database of {dialect.name} cannot be copied, so it is not opened: a site can be proved with "
                f"sqlite://. Name such a database by a variable of the ini"
            )
            raise RuntimeError(self.refused)
        arguments[:] = [str(self.file(str(arguments[0]) if arguments else ":memory:"))]
        options.pop("uri", None)
        options["check_same_thread"] = False
        if not any(one is dialect for one in self._watched):
            self._watched.append(dialect)
            for name, called in CALLS.items():
                setattr(dialect, name, watched(getattr(dialect, name), called, faults_of(dialect)))

    def file(self, name: str) -> Path:
        """Return the copy of an SQLite file."""
        copy = self.files.get(name)
        if copy is None:
            copy = self.files[name] = self.directory / f"{len(self.files)}.sqlite"
            path = name.removeprefix("file:").partition("?")[0]
            if ":memory:" not in name and Path(path).exists():
                copied(Path(path), copy)
                self.images[copy] = copy.read_bytes(), signature(copy)  # a run may be the first to connect
        return copy

    def freeze(self) -> None:
        """Let what is stored now be the state before each run."""
        for file in self.files.values():
            self.images[file] = file.read_bytes(), signature(file)

    def reset(self) -> None:
        """Return to the state before each run."""
        for file in self.files.values():
            image, known = self.images.get(file, (b"", (b"", 0, 0)))
            if not file.exists() or signature(file) != known:
                for extra in ("-journal", "-wal", "-shm"):
                    Path(f"{file}{extra}").unlink(missing_ok=True)
                file.write_bytes(image)
                self.images[file] = image, signature(file)

    def changed(self) -> tuple[Any, ...]:
        """Return what is in the databases that differ from their state before the run."""
        found = []
        for name, file in self.files.items():
            image, known = self.images.get(file, (b"", (b"", 0, 0)))
            if file.exists() and signature(file) != known and (lines := dump(file)) != dump_of(image):
                found.append((name, lines))
        return tuple(found)


def watched(
    call: Callable[..., Any], name: str, kinds: Mapping[str, Callable[[str], BaseException]]
) -> Callable[..., Any]:
    """Return a call of a driver with a point before and after it."""

    def watched(*arguments: Any, **options: Any) -> Any:
        if name != "sql.rollback":  # one that fails means that the connection is lost, which has rolled back
            point(f"{name}:before", kinds=kinds)
        result = call(*arguments, **options)
        point(f"{name}:after", kinds=kinds)
        return result

    return watched


def faults_of(dialect: Any) -> Mapping[str, Callable[[str], BaseException]]:
    """Return the exceptions of a driver, by the kind of the fault."""
    error = getattr(dialect, "loaded_dbapi", dialect.dbapi).OperationalError
    return {
        "conflict": lambda text: error(f"database is locked ({text})"),
        "error": lambda text: error(f"disk I/O error ({text})"),
    }


def signature(file: Path) -> Signature:
    """Return what differs after a transaction that has changed a file: SQLite's counter of changes, and the
    sizes."""
    with file.open("rb") as opened:
        header = opened.read(28)
    log = Path(f"{file}-wal")
    return header[24:], file.stat().st_size, log.stat().st_size if log.exists() else 0


def copied(file: Path, copy: Path) -> None:
    """Copy an SQLite file that others may write to."""
    source = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    target = sqlite3.connect(copy)
    try:
        source.backup(target)
    finally:
        source.close()
        target.close()


def dump(file: Path) -> tuple[str, ...]:
    """Return all that is in an SQLite file, with one word for each time of day."""
    connection = sqlite3.connect(file)
    try:
        return tuple(TIME.sub("TIME", line) for line in connection.iterdump())
    finally:
        connection.close()


def dump_of(image: bytes) -> tuple[str, ...]:
    """Return all that is in the image of an SQLite file."""
    connection = sqlite3.connect(":memory:")
    try:
        if image:
            connection.deserialize(image)
        return tuple(TIME.sub("TIME", line) for line in connection.iterdump())
    finally:
        connection.close()
