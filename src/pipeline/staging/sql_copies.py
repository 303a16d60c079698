"""Copies of SQL databases. Every connection that SQLAlchemy opens is one to the copy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any
from unittest import mock

from pipeline.database import forks
from pipeline.interfaces import ConfigurationError
from pipeline.options import on_demand
from pipeline.staging.runs import point
from pipeline.staging.sql_copy import WORDS, SQLite

EXECUTE = ("do_execute", "do_executemany", "do_execute_no_params")
CALLS = dict.fromkeys(EXECUTE, "sql.execute") | {"do_commit": "sql.commit", "do_rollback": "sql.rollback"}
"""The calls of a driver that are points, by the method of the dialect that makes them."""
PLACE = ("host", "port", "unix_socket", *WORDS)
"""The options of drivers that say which database it is."""

ENGINES: dict[str, Callable[..., Any]] = {
    "sqlite": SQLite,
    "postgresql": on_demand("pipeline.staging.sql_servers:PostgreSQL"),
    "mysql": on_demand("pipeline.staging.sql_servers:MariaDB"),
    "mariadb": on_demand("pipeline.staging.sql_servers:MariaDB"),
}
"""The class of the copy for each dialect of SQLAlchemy."""


class SqlCopies:
    """The copies of the SQL databases that a site opens."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.copies: dict[tuple[str, ...], Any] = {}
        """The copies by the place of the original."""
        self.refused = ""
        """Why a database of the site cannot be copied."""
        self.is_frozen = False
        self._copied, self._watched = ExitStack(), ExitStack()
        """Functions that drop the copies, and those that end the watching of their drivers, which come first."""
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
        with self._copied, self._watched:
            self._watched.callback(forks.close_all)
            event.listen(Engine, "do_connect", self.connect)
            self._watched.callback(event.remove, Engine, "do_connect", self.connect)
            yield

    def connect(self, dialect: Any, record: object, arguments: list[Any], options: dict[str, Any]) -> Any:
        """Return a connection to the copy in the place of one to the database."""
        with self.noting():
            copy = self.copy_of(dialect, arguments, options)
        arguments, options = list(arguments), dict(options)  # some versions give each connect the same ones
        copy.redirect(arguments, options)
        if getattr(dialect.do_commit, "func", None) != self.call:  # else it is watched already
            for name, called in CALLS.items():
                call = partial(self.call, getattr(dialect, name), called, copy)
                self._watched.enter_context(mock.patch.object(dialect, name, call))
        return dialect.connect(*arguments, **options)

    def copy_of(self, dialect: Any, arguments: list[Any], options: dict[str, Any]) -> Any:
        """Return the copy of a database."""
        family = "mysql" if dialect.name == "mariadb" else dialect.name
        place = (family, *map(str, arguments[:1]), *(str(options.get(name, "")) for name in PLACE))
        with self._lock:
            copy = self.copies.get(place)
            if copy is None:
                if dialect.name not in ENGINES:
                    raise ConfigurationError(
                        f"a database of {dialect.name} cannot be copied, so it is not opened: a site can be proved "
                        f"with {', '.join(sorted(ENGINES))}. Name such a database by a variable of the ini"
                    )
                if os.getpid() != self._process:
                    raise ConfigurationError("a database that only a process opens that is to end is not copied")
                make = ENGINES[dialect.name]
                copy = self.copies[place] = make(self.directory, dialect, list(arguments), dict(options))
                self._copied.callback(copy.drop)
                if self.is_frozen:
                    copy.freeze()
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

    def call(self, call: Callable[..., Any], name: str, copy: Any, *arguments: Any, **options: Any) -> Any:
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
