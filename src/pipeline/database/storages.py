"""Open the storage of a URI. New files are private to their owner; other processes that start are waited for."""

from __future__ import annotations

import logging
import os
import random
import shutil
import sys
import time
import traceback
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

import zodburi
from zc.lockfile import LockError
from ZODB.DB import DB
from ZODB.FileStorage.FileStorage import CorruptedFileStorageError, FileStorage, FileStorageFormatError
from ZODB.FileStorage.format import CorruptedError
from ZODB.POSException import ConflictError
from ZODB.utils import z64

from pipeline.database import forks, instead
from pipeline.database.connections import own
from pipeline.database.places import is_at, make_directories, make_file
from pipeline.interfaces import Unavailable
from pipeline.options import resolve

log = logging.getLogger("pipeline.database")

T = TypeVar("T")

STARTED = time.time()
"""The time when this process began, nearly. A file that was changed before is of an earlier one."""
ZEO_TIMEOUT = 5
"""Seconds that a request waits for a ZEO server. ZEO's own default is 30, longer than a visitor waits."""
PATIENCE = 30.0
"""Seconds for which an open is tried again while other processes make the tables."""
LOCK_PATIENCE = 30.0
"""Seconds for which a new process waits for a file that its predecessor has. The servers of ``pipeline deploy``
give requests so long to finish at a reload."""
RELSTORAGE = ("postgres", "mysql", "mariadb", "sqlite", "oracle")
"""Schemes of URIs that RelStorage opens."""
MADE_AT_ONCE = frozenset({"23505", "42P07", "42710", "42723", "40001", "40P01", "XX000"})
"""SQLSTATEs of PostgreSQL if another process makes the same tables: an object exists already, or is changed."""
DAMAGES = (CorruptedFileStorageError, FileStorageFormatError, CorruptedError)
"""Exceptions for a Data.fs that cannot be read."""


def storage_of(
    uri: str,
    *,
    server_sync: bool = False,
    lock_timeout: int | None = None,
    statement_timeout: float | None = None,
) -> tuple[Callable[[], Any], dict[str, Any]]:
    """Return the function that opens the storage of a URI, and the options of its database, as zodburi does.

    The keyword options are those of the element ``zodb`` that a URI cannot have.
    """
    scheme = uri.partition(":")[0]
    if scheme == "zeo":
        uri = with_option(uri, "wait_timeout", ZEO_TIMEOUT)
    if scheme in RELSTORAGE and lock_timeout is not None:
        uri = with_option(uri, "commit_lock_timeout", lock_timeout)
    if scheme == "postgres":
        factory, of_database = resolve("pipeline.database.postgres:resolver")(uri)
        options = zodburi.resolve_uri(f"memory://?{urlencode(of_database)}")[1]
    else:
        factory, options = zodburi.resolve_uri(uri)

    def open() -> Any:
        if scheme == "file":
            return _open_file(uri, factory)
        make_directories(uri)
        storage = factory()
        if scheme == "zeo" and server_sync:
            storage.sync = partial(ask_for_news, storage)
        elif scheme in RELSTORAGE and statement_timeout is not None:
            _limit(storage, statement_timeout)
        return storage

    return open, options


def patiently(open: Callable[[], T]) -> T:
    """Call ``open``, and repeat it while other processes make the tables or the root of a new database."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return open()
        except Exception as error:
            made_at_once = isinstance(error, ConflictError) or getattr(error, "pgcode", "") in MADE_AT_ONCE
            if not made_at_once or time.monotonic() > end:
                raise
        time.sleep(random.uniform(0.01, 0.1))


def database_at(uri: str) -> DB:
    """Open the database at a URI for zodburi, as the element ``zodb`` does. The caller closes it."""
    factory, options = storage_of(uri)
    return open_database(factory, **options)


def open_database(factory: Callable[[], Any], databases: dict[str, DB] | None = None, **options: Any) -> DB:
    """Open the database in a storage, with ``patiently``. It can refer to the other ``databases``."""

    def open() -> DB:
        storage = factory()
        try:
            db = DB(storage, databases=databases, **options)
        except BaseException:
            if databases is not None:
                databases.pop(options["database_name"], None)
            storage.close()
            raise
        own(db)  # and not before: the view does not commit the root of a new database
        return db

    return patiently(open)


def with_option(uri: str, name: str, value: object) -> str:
    """Return a URI with an option, unless it has that option already."""
    if f"{name}=" in uri:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}{name}={value}"


def _open_file(uri: str, factory: Callable[[], Any]) -> Any:
    """Open a FileStorage. New files and directories are private to their owner."""
    path, _, query = uri.removeprefix("file://").partition("?")
    if not int(dict(parse_qsl(query)).get("read_only", 0)):
        if not os.path.exists(path):
            tell_new(path)
        for name in (path, f"{path}.tmp"):
            make_file(name, 0o600)
        make_directories(uri)
    try:
        storage = _when_free(path, factory)
    except Exception as error:
        tell = instead.tell_locked.get()
        if tell is None or not isinstance(error, LockError) or (storage := open_to_read(uri)) is None:
            raise
        tell(path)
    file = file_of(storage)
    if isinstance(file, FileStorage) and not file.isReadOnly():  # a pack makes a new file, in the place of the old
        file.packer = partial(_alike, path, f"{path}.pack", file.packer)
        file._save_index = partial(_alike, path, f"{path}.index.index_tmp", file._save_index)
    watch_files(storage)
    return storage


def tell_new(path: str) -> None:
    """Log that a file is going to be made beside one of an earlier process: most likely its URI was changed."""
    files = [one for one in Path(path).absolute().parent.glob("*.fs") if one.is_file()]
    if others := [one.name for one in files if one.stat().st_mtime < STARTED]:
        log.warning("%s is a new database, beside %s: is the option uri what it was?", path, ", ".join(others))


def file_of(storage: Any) -> Any:
    """Return the FileStorage that a storage of blobs is around, or the storage itself."""
    return getattr(storage, "_BlobStorage__storage", storage)


def watch_files(storage: Any) -> None:
    """Have a FileStorage refuse commits, and ``health`` tell it, if another file or directory is at its path."""
    file = file_of(storage)
    if not isinstance(file, FileStorage) or "server_status" in vars(file):
        return
    held: dict[str, int] = {}
    if blobs := getattr(getattr(storage, "fshelper", None), "base_dir", "").rstrip(os.sep):
        held[blobs] = os.open(blobs, os.O_RDONLY)  # while it is open, no other directory gets its inode
        weakref.finalize(file, os.close, held[blobs])
    need_same = partial(_need_same, file._file_name, weakref.proxy(file), held)
    file.server_status = need_same  # ``health`` asks for it
    file.tpc_vote = partial(_vote_in_same, need_same, file.tpc_vote)


def _vote_in_same(need_same: Callable[[], None], vote: Callable[..., Any], *arguments: Any) -> Any:
    """Vote for a transaction, unless no other process would find it."""
    need_same()
    return vote(*arguments)


def _need_same(path: str, storage: Any, directories: dict[str, int]) -> None:
    """Raise Unavailable if the file that is open, or a directory of its blobs, is not the one at its path: a copy
    was moved over it, or it was moved or removed. Also if another process has written the file, as ``cp`` does."""
    with storage._lock:  # a pack puts a new file at the path
        places = {path: storage._file.fileno(), **directories}
        others = [place for place, opened in places.items() if not is_at(os.fstat(opened), place)]
        ends = (storage._pos, getattr(storage, "_nextpos", 0))  # the second one once a commit is voted for
        if not storage.isReadOnly() and os.fstat(places[path]).st_size not in ends:
            raise Unavailable(
                f"{path} does not end where this process has written last: a copy was written over it, or another "
                f"process writes it, too. Nothing is stored in it. Stop all processes that have it open, and start "
                f"the server again"
            )
    for place in others:
        kind = "directory" if place in directories else "file"
        raise Unavailable(
            f"{place} is not the {kind} that this process has open: it was replaced, moved or removed. Nothing is "
            f"stored in it. Start the server again; what was stored since is in the old {kind}, if it is still "
            f"somewhere"
        )


_waited_for: set[str] = set()
"""The files that this process has waited for."""


def _when_free(path: str, factory: Callable[[], Any]) -> Any:
    """Open a FileStorage. At the first use of a file wait while another process has it: at a reload the predecessor
    of this process still has requests to finish (R9)."""
    end = time.monotonic() + LOCK_PATIENCE
    while True:
        try:
            return factory()
        except Exception as error:
            _close_half_open(error)
            if not isinstance(error, LockError) or not _may_wait(path) or time.monotonic() >= end:
                _waited_for.add(path)
                raise
        time.sleep(0.05)


def _may_wait(path: str) -> bool:
    """Return whether the process that has a file may end, as its lock says: not this one, and not its parent. The
    predecessor in another container may have the number of either, so that it is asked for its files (R9, R15)."""
    lock = f"{path}.lock"
    with suppress(OSError, ValueError):
        holder = int(Path(lock).read_text())
        if path in _waited_for or instead.tell_locked.get() is not None:
            return False
        if holder not in (os.getpid(), os.getppid(), forks.parent()):
            return True
        held = os.stat(lock)
        # Another thread may close one of them meanwhile.
        return not any(is_at(held, file) for file in Path(f"/proc/{holder}/fd").iterdir())
    return False


def open_to_read(uri: str) -> Any:
    """Open a storage read-only, also a FileStorage that another process has. Return None if nothing is in it: a
    DB would make its root."""
    log = logging.getLogger("ZODB.FileStorage")
    level = log.level
    log.setLevel(logging.ERROR)  # it would say that the index is older than the file
    try:
        storage = zodburi.resolve_uri(with_option(uri, "read_only", 1))[0]()
    finally:
        log.setLevel(level)
    if storage.lastTransaction() != z64:
        return storage
    storage.close()
    return None


def _close_half_open(error: Exception) -> None:
    """Close the files, and the lock, that a FileStorage leaves open if it fails while it is made."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        storage = frame.f_locals.get("self")
        if isinstance(storage, FileStorage):
            for name in ("_files", "_file", "_tfile", "_lock_file"):
                file = getattr(storage, name, None)
                if file is not None:
                    file.close()


def _alike(path: str, copy: str, write: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that writes what is made of a file, with the rights of that file (S26)."""
    with suppress(FileNotFoundError):
        make_file(copy, os.stat(path).st_mode & 0o777)
    return write(*arguments)


def _move_rest(file: Any, name: str, position: int) -> None:
    """Move what an interrupted commit has left at the end of a file to a new one, with the rights of that file
    (S26). ZODB would let others read it."""
    rest = next(path for number in count() if not os.path.exists(path := f"{name}.tr{number}"))
    log.warning("%s ends with a commit that was interrupted, or with damages: that part is moved to %s", name, rest)
    make_file(rest, os.fstat(file.fileno()).st_mode & 0o777)
    file.seek(position)
    with open(rest, "wb") as new:
        shutil.copyfileobj(file, new)
    file.seek(position)
    file.truncate()


sys.modules["ZODB.FileStorage.FileStorage"]._truncate = _move_rest  # type: ignore[attr-defined]


def ask_for_news(storage: Any) -> None:
    """Have a ZEO client know of each commit that was acknowledged to any client before now.

    An answer alone does not tell. The server sends the news of a commit in its next turn, and may read and answer a
    question of the same client in this one. So the question is which transaction is the last one. If the client
    does not know that one yet, its news arrive before the answer to a further question.
    """
    if storage.lastTransaction() < storage._call("lastTransaction"):
        storage.ping()


def _limit(storage: Any, seconds: float) -> None:
    """Have the statements of a RelStorage end after so many seconds. Close it if its database has no such limit."""
    adapter = storage._adapter
    statement = {
        "PostgreSQLAdapter": f"SET SESSION statement_timeout = {round(seconds * 1000)}",
        "MariaDBAdapter": f"SET SESSION max_statement_time = {seconds}",
        "MySQLAdapter": f"SET SESSION max_execution_time = {round(seconds * 1000)}",
    }.get(type(adapter).__name__)
    if statement is None:
        storage.close()
        raise ValueError("statement_timeout is for PostgreSQL, MySQL and MariaDB")

    def limit(cursor: Any, restart: bool = False) -> None:
        cursor.execute(statement)
        cursor.connection.commit()  # or PostgreSQL takes the setting back with the transaction

    adapter.connmanager.add_on_load_opened(limit)
    adapter.connmanager.add_on_store_opened(limit)
