"""Copies of the databases of a site, so that a run leaves nothing behind.

A ZODB is a ``DemoStorage`` over the site's own storage, which is opened read-only. That of a RelStorage is copied
first, and that of a ZEO server is read as it was at the begin. SQL databases are copied (``sql_copies``).
A database that cannot be copied is refused, and never touched.
"""

from __future__ import annotations

import io
import os
import pickle
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from pickletools import genops
from typing import Any, NamedTuple

from ZODB.blob import copyTransactionsFromTo
from ZODB.DemoStorage import DemoStorage
from ZODB.FileStorage import FileStorage
from ZODB.MappingStorage import MappingStorage
from ZODB.mvccadapter import HistoricalStorageAdapter
from ZODB.utils import get_pickle_metadata, p64, u64

from pipeline.database import forks, instead
from pipeline.database.places import files_of, loggable_uri
from pipeline.database.storages import RELSTORAGE, open_to_read
from pipeline.database.stored import comparable
from pipeline.interfaces import ConfigurationError
from pipeline.paste import Step
from pipeline.staging.runs import point, running
from pipeline.staging.sql_copies import SqlCopies


class Stored(NamedTuple):
    """The changes that a run has stored."""

    transactions: tuple[Any, ...]
    """For each transaction of a ZODB: its note, and how many objects of which class it has stored."""
    tables: tuple[Any, ...]
    """For each SQL database that differs from what it was: all that is in it."""

    @property
    def is_nothing(self) -> bool:
        """True if nothing was stored."""
        return not self.transactions and not self.tables


class Copies:
    """The copies of the databases that a site opens."""

    def __init__(self) -> None:
        memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.directory = Path(tempfile.mkdtemp(prefix="prove", dir=memory))
        self.bases: dict[str, Any] = {}
        """The storage below the copy, by URI. It stays when its database is closed."""
        self.ends = ExitStack()
        """Closes the storages at the end, and removes the directory."""
        self.ends.callback(shutil.rmtree, self.directory, ignore_errors=True)
        self.storages: dict[str, WatchedStorage] = {}
        """The copy of the present run, by URI."""
        self.files: dict[str, Path] = {}
        """The file that an element of the site writes to, by the path that the ini names."""
        self.data: dict[Path, dict[str, bytes]] = {}
        """Those of elements that provide a database, each with what is in it before each run."""
        self.sql = SqlCopies(self.directory)
        self.is_frozen = False
        self.left: Path | None = None
        """The directory in which a process that ends leaves what it has stored, for another one to look at."""

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Have every database that this process opens be a copy."""
        with self.ends, instead.of_databases(self.storage), self.sql.in_use():
            yield

    def storage(self, uri: str, open: Callable[[], Any]) -> Any:
        """Return the copy of the storage of a URI."""
        base = self.bases.get(uri)
        if base is None:
            base = self.bases[uri] = DemoStorage(base=self.original(uri, open), close_base_on_close=False)
            self.ends.callback(base.changes.close)
        if not self.is_frozen:
            return base
        changes = self.left and self.files_at(self.left / str(list(self.bases).index(uri)))
        copy = self.storages[uri] = WatchedStorage(base=base, changes=changes, close_base_on_close=False)
        return copy

    def original(self, uri: str, open: Callable[[], Any]) -> Any:
        """Return the storage of a URI for reading, or an empty one if nothing is stored there.

        Raise ConfigurationError if it cannot be copied.
        """
        scheme = uri.partition(":")[0]
        if scheme == "given":
            return open()
        if scheme == "memory" or (scheme == "file" and not os.path.exists(next(files_of(uri), ""))):
            return MappingStorage()
        if scheme not in ("file", "zeo", *RELSTORAGE):
            raise ConfigurationError(
                f"{loggable_uri(uri)} cannot be copied, so it is not opened: a site can be proved with file://, "
                f"zeo://, memory:// and RelStorage. Make a copy by pipeline copy-database, and name it by a "
                f"variable of the ini"
            )
        storage = open_to_read(uri)
        if storage is None:
            return MappingStorage()
        if scheme not in RELSTORAGE:
            self.ends.callback(storage.close)
            return AsOf(storage) if scheme == "zeo" else storage
        copy = self.files_at(self.directory / f"base{len(self.bases)}")
        self.ends.callback(copy.close)
        with closing(storage):
            copyTransactionsFromTo(storage, copy)
        return copy

    def files_at(self, directory: Path) -> FileStorage:
        """Return the storage in a directory, which is made."""
        directory.mkdir(exist_ok=True)
        return FileStorage(f"{directory}/Data.fs", blob_dir=f"{directory}/blobs")

    def redirect(self, step: Step, options: dict[str, str]) -> None:
        """Have an element write to a file of the copies in the place of one of the site, such as its log. A
        file that is there is copied first."""
        is_data = step.element is not None and "database" in step.element.contract.provides
        for path in step.facts.writes:
            for name, value in options.items():
                if value == path:
                    options[name] = self.place_of(path, is_data)

    def place_of(self, path: str, is_data: bool) -> str:
        """Return the file or directory that stands for one of the site."""
        copy = self.files.get(path)
        if copy is None:
            copy = self.files[path] = self.directory / f"file{len(self.files)}"
            if os.path.isfile(path):
                shutil.copy(path, copy)
            elif os.path.isdir(path):
                shutil.copytree(path, copy)
            elif path.endswith("/"):
                copy.mkdir()
            if is_data:
                self.data[copy] = {}
        return f"{copy}/" if path.endswith("/") else str(copy)

    def freeze(self) -> None:
        """Let what is stored now be the state before each run."""
        forks.close_all()
        self.is_frozen = True
        self.sql.freeze()
        self.data = {path: content(path) for path in self.data}

    def thaw(self) -> None:
        """Have what is stored from now on be part of the state before each run."""
        if self.is_frozen:  # what an application has opened while it was loaded is as it is
            self.reset()
        self.is_frozen = False

    def reset(self) -> None:
        """Return to the state before each run."""
        forks.close_all()
        self.storages.clear()
        self.sql.reset()
        if self.left is not None:
            shutil.rmtree(self.left, ignore_errors=True)
            self.left.mkdir()
        for path, _ in self.changed_data():
            restore(path, self.data[path])

    def logs(self) -> list[Path]:
        """Return the files that elements write to, but for databases; such as an access log."""
        return [path for path in self.files.values() if path.is_file() and path not in self.data]

    @contextmanager
    def on_disk(self) -> Iterator[None]:
        """Have a process that ends leave what it has stored."""
        self.left = self.directory / "left"
        try:
            yield
        finally:
            self.reset()
            self.left = None

    def stored(self) -> Stored:
        """Return what was stored since the last reset."""
        transactions = []
        for _, storage in sorted(self.storages.items()):
            for transaction in transactions_of(storage):
                kinds = Counter(".".join(get_pickle_metadata(record.data)) for record in transaction if record.data)
                transactions.append((transaction.description, tuple(sorted(kinds.items()))))
        return Stored(tuple(transactions), (*self.sql.changed(), *self.changed_data()))

    def changed_data(self) -> Iterator[tuple[Path, Any]]:
        """Yield the files of databases that differ from what they were, with what is in them."""
        for path, image in self.data.items():
            if (now := content(path)) != image:
                yield path, now

    def values(self) -> tuple[Any, ...]:
        """Return the values that were stored since the last reset, without ids and times."""
        found = []
        for _, storage in sorted(self.storages.items()):
            last = {record.oid: record.data for one in transactions_of(storage) for record in one}
            found += sorted(repr(plain(data)) for data in last.values() if data)
        return tuple(found), self.sql.changed(), *self.changed_data()


def transactions_of(storage: Any) -> Iterator[Any]:
    """Yield the transactions that a run has stored, without those of jobs: they come when they come."""
    return (one for one in storage.changes.iterator() if LATER not in one.extension)


def content(path: Path) -> dict[str, bytes]:
    """Return what is in a file, by ".", or in the files of a directory, by their names."""
    return {str(one.relative_to(path)): one.read_bytes() for one in (path, *path.rglob("*")) if one.is_file()}


def restore(path: Path, image: Mapping[str, bytes]) -> None:
    """Make a file or a directory what it was."""
    if path.is_dir():
        shutil.rmtree(path)
        path.mkdir()
    else:
        path.unlink(missing_ok=True)
    for name, data in image.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


LATER = "pipeline_later"
"""The extension of a transaction that a thread has begun when that of the request was stored: that of a job."""


class WatchedStorage(DemoStorage):  # type: ignore[misc]
    """A storage whose reads are points. What is written stays in ``changes``."""

    is_answered = False
    """True if the transaction of the request is stored."""

    def tpc_begin(self, transaction: Any, *given: Any, **named: Any) -> None:
        if self.is_answered and running() is None:
            transaction.extension = {**transaction.extension, LATER: True}
        super().tpc_begin(transaction, *given, **named)

    def tpc_finish(self, transaction: Any, *given: Any) -> Any:
        tid = super().tpc_finish(transaction, *given)
        self.is_answered = self.is_answered or running() is not None
        return tid

    def loadBefore(self, oid: bytes, tid: bytes) -> Any:
        point("load")
        return super().loadBefore(oid, tid)

    def loadBlob(self, oid: bytes, serial: bytes) -> Any:
        point("load blob")
        return super().loadBlob(oid, serial)


class AsOf(HistoricalStorageAdapter):  # type: ignore[misc]
    """A storage that others write to, as it was when it was opened. It must not be packed meanwhile."""

    def __init__(self, storage: Any) -> None:
        self.last = storage.lastTransaction()
        self.end = p64(u64(self.last) + 1)
        super().__init__(storage, self.end)

    def lastTransaction(self) -> bytes:
        """Return the id of the last transaction that is seen."""
        return bytes(self.last)

    def loadBefore(self, oid: bytes, tid: bytes) -> Any:
        """Return data, its id, and the id of what replaced it, None if that is not seen."""
        found = self._storage.loadBefore(oid, min(tid, self.end))
        if found is not None and found[2] is not None and found[2] >= self.end:
            return (*found[:2], None)
        return found

    def getTid(self, oid: bytes) -> bytes:
        """Return the id of the last transaction that has stored an object."""
        return bytes(self.load(oid)[1])


SHORT = 8
"""Bytes of a value that is compared: longer ones may be a time, or made by chance."""


class WithoutReferences(pickle.Unpickler):
    """Loads one word in the place of another object, and a list in one order in the place of a set."""

    def persistent_load(self, reference: Any) -> Any:
        return "reference"

    def find_class(self, module: str, name: str) -> Any:
        return partial(sorted, key=repr) if name in ("set", "frozenset") else super().find_class(module, name)


def plain(data: bytes) -> list[Any]:
    """Return the words of a record, to compare what two runs have stored. A reference to another object is one
    word, since ids differ from run to run."""
    unpickler = WithoutReferences(io.BytesIO(data))
    both = comparable((unpickler.load(), unpickler.load()))
    words = [(code.name, word) for code, word, _ in genops(both)] if isinstance(both, bytes) else [both]
    return ["bytes" if isinstance(one[1], bytes) and len(one[1]) > SHORT else one for one in words]
