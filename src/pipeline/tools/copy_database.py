"""``pipeline copy-database FROM TO``: an object database, with its history and blobs, to another storage.

Both are URIs as the element ``zodb`` takes them. The work is done by ZODB's own copying of storages,
transaction by transaction, each whole or not at all. So a copy that was interrupted is the beginning of
its source, and ``--continue`` copies the rest of it; in the same way it brings a copy up to date.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any

from ZODB.blob import copyTransactionsFromTo, is_blob_record
from ZODB.config import BaseConfig
from ZODB.FileStorage.FileStorage import FileIterator, FileStorage
from ZODB.FileStorage.format import CorruptedError
from ZODB.interfaces import IBlobStorage, IBlobStorageRestoreable
from ZODB.POSException import POSKeyError
from ZODB.TimeStamp import TimeStamp
from ZODB.utils import load_current, p64, u64, z64
from zodburi import resolve_uri

from pipeline.database.places import loggable_uri, scheme_of, without_secrets
from pipeline.database.storages import RELSTORAGE, file_of, patiently, storage_of, with_option
from pipeline.interfaces import ConfigurationError
from pipeline.loading.command_line import options_of, parser_of
from pipeline.telling.errors import refusal

READ_ONLY = ("file", "zeo", *RELSTORAGE)
"""Schemes whose URIs take ``read_only``. Those of ZConfig have it in their file."""


class Transactions:
    """The source as what copies it sees it: its transactions from ``start`` on, counted for the progress.

    It does not offer the iteration over current records alone, which would lose the history, and which
    cannot be continued.
    """

    def __init__(self, storage: Any, start: bytes | None, progress: Lines, interruption: Interruption) -> None:
        self.storage, self.start, self.progress, self.interruption = storage, start, progress, interruption

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.storage, name)
        return partial(self.find_blob, found) if name in ("loadBlob", "openCommittedBlobFile") else found

    def find_blob(self, find: Callable[..., Any], oid: bytes, tid: bytes, *blob: Any) -> Any:
        """Find the file of a blob. The copying leaves out one that is missing, without a word."""
        try:
            return find(oid, tid, *blob)
        except POSKeyError:
            self.progress.without_blob.append(tid)
            raise

    def iterator(self) -> Transactions:
        return self

    def __len__(self) -> int:
        return int(self.progress.total)

    def __iter__(self) -> Iterator[Any]:
        knows_blobs = has_blobs(self.storage)
        with transactions_of(self.storage, self.start) as transactions:
            for transaction in transactions:
                if not knows_blobs and any(is_blob_record(record.data) for record in transaction):
                    raise refusal("blobs without a directory", moment=moment(transaction.tid))
                yield transaction
                self.progress.update()  # the next one is asked for, so this one is committed
                if self.interruption.wanted:
                    raise KeyboardInterrupt


class Interruption:
    """Handler of Ctrl-C and SIGTERM. It ends the copy between two transactions; the second signal ends it at once.

    In the middle of one, the driver of a database would wait for an answer that was read already.
    """

    def __init__(self) -> None:
        self.copying = False
        self.wanted = False

    def __call__(self, number: int, frame: object) -> None:
        if self.wanted or not self.copying:
            raise KeyboardInterrupt
        self.wanted = True

    def __enter__(self) -> Interruption:
        self.before = {number: signal.signal(number, self) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)


class WithBlobs:
    """A ZEO client as the target of a copy with blobs: it can store one, but not restore one."""

    def __init__(self, storage: Any) -> None:
        self.storage = storage
        self.fshelper = storage.fshelper

    def __getattr__(self, name: str) -> Any:
        return getattr(self.storage, name)

    def restoreBlob(
        self, oid: bytes, serial: bytes, data: bytes, file: str, previous: bytes | None, transaction: Any
    ) -> None:
        try:
            current = load_current(self.storage, oid)[1]
        except POSKeyError:
            current = z64
        self.storage.storeBlob(oid, current, data, file, "", transaction)


def main(argv: Sequence[str]) -> int:
    """Run the command; its exit status: 0 done, 1 refused, interrupted, or without some blobs."""
    options = options_of(parser_of("copy-database"), argv)
    progress = Lines()
    try:
        with (
            Interruption() as interruption,
            opened(options.source, reads=True) as source,
            opened(options.target) as target,
        ):
            if options.source == options.target:
                raise ConfigurationError("FROM and TO are the same")
            refuse_cut(source)
            last = where_to_begin(source, target, options.go_on)
            refuse_to_lose_blobs(source, target)
            start = last and p64(u64(last) + 1)
            with transactions_of(source, start) as transactions:
                progress.total = sum(1 for _ in transactions)
                refuse_cut(source, getattr(transactions, "_pos", None))
            copy(source, target, start, progress, interruption)
            count, end = progress.total, target.lastTransaction()
    except ConfigurationError as error:
        print(f"pipeline copy-database: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, Exception) as error:
        reason = "interrupted"
        if not isinstance(error, KeyboardInterrupt):
            reason = without_secrets(f"{type(error).__name__}: {error}", options.source, options.target)
        print(
            f"pipeline copy-database: {reason}, after {progress.n} of {progress.total} transactions.\n"
            f"FROM, {loggable_uri(options.source)}, is as it was. "
            f"To go on where this ended, give the same FROM and TO:\n\n"
            f"    pipeline copy-database --continue FROM TO\n",
            file=sys.stderr,
        )
        return 1
    until = f", the last of them of {moment(end)}" if count else ""
    print(f"Copied {count} transaction{'s' * (count != 1)}{until}.")
    if progress.without_blob:
        print(
            f"pipeline copy-database: {len(progress.without_blob)} files of blobs are not in FROM, nor in TO, the "
            f"first of {moment(progress.without_blob[0])}. If the directory of blobs in the URI of FROM is not "
            f"theirs, empty TO, and copy again with theirs",
            file=sys.stderr,
        )
    return int(bool(progress.without_blob))


class Lines:
    """The progress in lines, on a terminal: one each few seconds."""

    EVERY = 5.0
    """Seconds between two lines."""

    def __init__(self) -> None:
        self.n = self.total = 0
        self.without_blob: list[bytes] = []
        """The transactions of blobs whose files are not in the source, one for each."""
        self.next = time.monotonic() + self.EVERY if sys.stderr.isatty() else math.inf

    def update(self) -> None:
        """Count a transaction."""
        self.n += 1
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + self.EVERY
            print(f"{self.n} of {self.total} transactions", file=sys.stderr, flush=True)


@contextmanager
def transactions_of(storage: Any, start: bytes | None) -> Iterator[Iterator[Any]]:
    """The transactions of a storage from ``start`` on; some storages hold a file open for them."""
    transactions = storage.iterator(start)
    try:
        yield transactions
    finally:
        getattr(transactions, "close", bool)()


def moment(tid: bytes) -> str:
    """When a transaction was committed."""
    return f"{TimeStamp(tid)} UTC"


def make_read_only(section: BaseConfig) -> None:
    """Have a storage of ZConfig, and those that it is around, opened read-only: ZODB cuts a file otherwise."""
    if hasattr(section.config, "read_only"):
        section.config.read_only = True
    for value in vars(section.config).values():
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, BaseConfig):
                make_read_only(inner)


@contextmanager
def opened(uri: str, reads: bool = False) -> Iterator[Any]:
    """The storage of a URI, closed in the end; ConfigurationError if it cannot be opened.

    reads  whether it is not to be written
    """
    scheme = scheme_of(uri)
    try:
        factory, _ = storage_of(with_option(uri, "read_only", 1) if reads and scheme in READ_ONLY else uri)
        if reads and scheme == "zconfig":
            factory, _ = resolve_uri(uri)
            make_read_only(factory.__self__)
        storage = patiently(factory)
    except Exception as error:
        reason = without_secrets(f"{type(error).__name__}: {error}", uri)
        raise ConfigurationError(f"{loggable_uri(uri)} cannot be opened: {reason}") from error
    with closing(storage):
        yield storage


def refuse_cut(source: Any, place: int | None = None) -> None:
    """Refuse a Data.fs that cannot be read from a place on: ZODB leaves out the rest, and only logs it.

    place  where ZODB has stopped to read; by default where it did when it opened the file. A commit that has begun
           there and has not ended is left out, too: it was not acknowledged
    """
    file = file_of(source)
    if not isinstance(file, FileStorage):
        return
    place, path = place or file.getSize(), file._file_name
    while place < (size := os.path.getsize(path)):
        with suppress(CorruptedError):
            if file._read_txn_header(place).status == "c":
                return
            rest = FileIterator(path, pos=place)
            if any(True for _ in rest):  # another process has committed meanwhile
                place = rest._pos
                continue
        raise ConfigurationError(
            f"FROM, {path}, cannot be read from byte {place} on, of {size}: it was cut, or is damaged. Nothing is "
            f"copied. Copy a whole file, from a backup, or save what can be read (python -m ZODB.fsrecover)"
        )


def where_to_begin(source: Any, target: Any, go_on: bool) -> bytes | None:
    """The last transaction that need not be copied any more; ConfigurationError if the target is something else."""
    last: bytes = target.lastTransaction() or z64
    if last == z64:
        return None
    if not go_on:
        raise refusal("not empty", moment=moment(last))
    with transactions_of(source, last) as transactions:
        found = next((transaction.tid for transaction in transactions), None)
    if found != last:
        when = moment(last)
        raise ConfigurationError(f"TO is not a beginning of FROM: its last transaction, of {when}, is not in FROM")
    return last


def has_blobs(storage: Any) -> bool:
    """Return whether there can be blobs in a storage, and a place for them here."""
    try:
        return IBlobStorage.providedBy(storage) and bool(storage.temporaryDirectory())
    except AttributeError:  # ZEO whose server has blobs, and whose URI gives no directory for them
        return False


def refuse_to_lose_blobs(source: Any, target: Any) -> None:
    if has_blobs(source) and not has_blobs(target):
        raise refusal("no place for blobs")
    if IBlobStorage.providedBy(source) and not has_blobs(source):
        raise ConfigurationError("FROM may have blobs: give its URI blob_dir=/a/directory, a cache to read them by")


def copy(source: Any, target: Any, start: bytes | None, progress: Lines, interruption: Interruption) -> None:
    """Copy the transactions from ``start`` on."""
    transactions = Transactions(source, start, progress, interruption)
    interruption.copying = True
    if getattr(target, "restore", None) is None:
        raise ConfigurationError("TO cannot take a copy: its storage has no way to restore transactions")
    if has_blobs(target) and not IBlobStorageRestoreable.providedBy(target):
        copyTransactionsFromTo(transactions, WithBlobs(target))
    else:
        target.copyTransactionsFrom(transactions)
