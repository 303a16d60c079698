"""Sources of a ZODB: a URI, or an application that has opened the database."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from traceback import walk_tb
from typing import Any
from urllib.parse import parse_qs, urlsplit

from zc.lockfile import LockError
from ZODB.DB import DB

from pipeline.database import forks, instead
from pipeline.database.connections import own
from pipeline.database.outages import Outage
from pipeline.database.places import loggable_uri, without_secrets
from pipeline.database.storages import DAMAGES, open_database, storage_of, watch_files
from pipeline.database.written import short_name
from pipeline.interfaces import ConfigurationError

POOL_SIZE = 16
"""Connections that are kept open, each with a warm cache. Most servers have fewer threads."""
OF_DATABASES = ("cache_size", "cache_size_bytes", "pool_size", "pool_timeout")
"""Settings of a ZODB DB that a URI may also have."""
TIMED_OUT = (1205, 1969, 3024)
"""Errors of MariaDB and MySQL: a statement or a lock took too long."""
UNANSWERED = frozenset({None, "25P03", 1153, -1, *range(2000, 3000)})
"""Codes of errors after which the connection is gone. Without one the server has not answered; by 2000 and more the
client of MySQL speaks for itself. 25P03, 1153: a limit of idle transactions, and of packets."""


class Source:
    """The storage of a URI, and the options of its database."""

    def __init__(self, uri: str, settings: Mapping[str, Any], name: str | None = None) -> None:
        self.uri = self.made_of = uri
        self.shown = loggable_uri(uri)
        self.short_name = short_name(self.shown, *parse_qs(urlsplit(uri).query).get("storage", ()))
        self.outage: Outage
        others = ("server_sync", "lock_timeout", "statement_timeout")
        try:
            self.storage, self.options = storage_of(uri, **{key: settings.get(key) for key in others})  # type: ignore[arg-type]
        except Exception as error:
            hint = "; RelStorage calls it postgres://" if uri.startswith("postgresql:") else ""
            what = without_secrets(f"{type(error).__name__}: {error}", uri)
            raise ConfigurationError(
                f"zodb: {self.shown!r} is not a valid URI of a database: {what}{hint}"
            ) from None
        if "connection_pool_size" not in uri:  # zodburi has a default of its own
            self.options["pool_size"] = POOL_SIZE
        self.options.update({key: settings[key] for key in OF_DATABASES if key in settings})
        if name is not None:
            self.options["database_name"] = name
        self.name: str = self.options["database_name"]

    def open(self, databases: dict[str, DB]) -> DB:
        options = dict(self.options)
        # The connections that are kept here count as used for ZODB, which would warn of too many.
        options["pool_size"] = sys.maxsize
        options.pop("pool_timeout", None)
        return open_database(lambda: instead.storage(self.uri, self.storage), databases, **options)

    def describe(self, error: Exception) -> tuple[Exception, str, bool]:
        """Return the reason why the database cannot be opened, its state in words, and whether it is damaged."""
        if isinstance(error, LockError):
            who = "another process has it open; for several there are ZEO and RelStorage"
            if (parent := forks.parent()) is not None:
                who = (
                    f"process {parent}, from which this one was forked, has it open, or another one; load the "
                    f"application after the fork (uWSGI: lazy-apps) and let one process serve it, or use ZEO or "
                    f"RelStorage"
                )
            return LockError(f"{error}: {who}"), "cannot be opened", False
        if isinstance(error, DAMAGES):
            what = f"{type(error).__name__}: {error}"
            hint = (
                "stop the server, keep a copy of the file, and restore it from a backup (repozo) or save what can "
                "be read (python -m ZODB.fsrecover)"
            )
            return RuntimeError(f"{what}: {hint}"), "is damaged or is not a Data.fs", True
        number = getattr(error, "errno", None)  # of MySQL
        was_answered = getattr(error, "pgcode", None) or (isinstance(number, int) and 1000 <= number < 2000)
        return error, "cannot be opened" if was_answered else "cannot be reached", False


def is_avoidable(error: BaseException, lost: tuple[type[BaseException], ...]) -> bool:
    """Return whether a new connection may avoid an error: it is one of ``lost``, the server has ended what took too
    long, or the server has given no answer, so that an error of psycopg2 has no code."""
    if getattr(error, "errno", None) == -1:  # mysql-connector-python hides that of the server
        error = error.__cause__ or error
    return (
        isinstance(error, lost)
        or getattr(error, "errno", None) in TIMED_OUT
        or getattr(error, "pgcode", "") is None
    )


def note_statement(error: Any) -> None:
    """Note on an error of RelStorage, as SQLAlchemy does, that the connection is lost and at which statement: if it
    is lost there in each attempt, that statement is at fault (``retry``)."""
    if getattr(error, "pgcode", getattr(error, "errno", 0)) in UNANSWERED:
        frames = (frame for frame, _ in walk_tb(error.__traceback__))
        own = [one.f_code.co_name for one in frames if one.f_globals["__name__"].startswith("relstorage.")]
        error.connection_invalidated, error.statement = True, f"of RelStorage: {'/'.join(own)}"


def lost_exceptions(storage: Any) -> tuple[type[BaseException], ...]:
    """Return the exceptions of a storage that a new connection may avoid. The statements of RelStorage are its own,
    so that its database, and no request, is at fault: one that was demoted raises InternalError, say."""
    names = {"ZEO.Exceptions": "ClientDisconnected", "relstorage.adapters.interfaces": "UnableToAcquireLockError"}
    found = [getattr(sys.modules[module], name) for module, name in names.items() if module in sys.modules]
    driver = getattr(getattr(storage, "_adapter", None), "driver", None)  # RelStorage
    if driver is not None:
        module = driver.driver_module
        found += [*driver.disconnected_exceptions, module.InternalError, module.NotSupportedError]
    return tuple(found)


class Given:
    """A database that the application has opened itself."""

    outage: Outage

    def __init__(self, db: DB) -> None:
        self.db = self.made_of = db
        self.process = os.getpid()
        self.name: str = db.database_name
        self.shown = f"{self.name!r} of the application"
        self.short_name = short_name(self.shown)
        self.options = {"pool_size": db.getPoolSize()}
        watch_files(db.storage)
        for connection in db.pool:  # one that has committed, such as the root, has kept the method
            vars(connection._normal_storage).pop("tpc_vote", None)
        for one in db.databases.values():
            own(one)

    def open(self, databases: dict[str, DB]) -> DB:
        if os.getpid() != self.process:
            raise RuntimeError(
                f"process {self.process}, from which this one was forked, has opened it (R12); load the "
                f"application after the fork"
            )
        storage = instead.storage(f"given:{self.name}", lambda: self.db.storage)
        if storage is self.db.storage:
            return self.db
        return open_database(lambda: storage, databases, database_name=self.name)

    def describe(self, error: Exception) -> tuple[Exception, str, bool]:
        """Return why the database cannot be used, what is the matter with it, and that it is not damaged."""
        return error, "cannot be used", False
