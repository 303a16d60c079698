"""A key-value store in a JSON file, as an element: ``request.store``, in the transaction of the request."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, MutableMapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from transaction.interfaces import IDataManager, TransientError
from zope.interface import implementer

from pipeline import element
from pipeline.composition import Offers
from pipeline.database.transactions import DatabaseRequest
from pipeline.interfaces import Facts, Handler
from pipeline.request import on_first_use


class Conflict(TransientError):  # type: ignore[misc]
    """Another request has written to the store since this one has read it."""


class StoreRequest(DatabaseRequest):
    """What ``filestore`` adds to a request."""

    store: Store = on_first_use(dropped=True)
    """The store as it was when this request first read it, with the changes of this request."""


def facts(*, path: str) -> Facts:
    """Return what an operator must know: the file is written, and reading it tells whether it can be used."""
    return Facts(writes=(path,), probe=lambda request: request.store)


@element(
    adds=StoreRequest,
    provides=("database",),
    facts=facts,
    inside={"retry": "every attempt reads the file anew"},
    outside={"errors": "error views may read the store"},
)
def filestore(next: Handler, *, path: str) -> Offers:
    """Provide ``request.store``, a mapping of str to JSON values, kept in a file.

    path  of the file; it is made by the first commit
    """
    file = Path(path)

    def open_store(request: StoreRequest) -> Store:
        store = Store(file, request)
        request.on_close(store.close, last=True)
        return store

    return Offers(next, store=open_store)


@implementer(IDataManager)
class Store(MutableMapping[str, Any]):
    """The values in a file. The first change joins the transaction of the request."""

    def __init__(self, file: Path, request: StoreRequest) -> None:
        self.file = file
        self.request: StoreRequest | None = request
        self.transaction_manager: Any = None
        self.read = file.read_bytes() if file.exists() else b"{}"
        self.values_by_key: dict[str, Any] = json.loads(self.read)
        self.undo = ExitStack()

    def __getitem__(self, key: str) -> Any:
        return self.values_by_key[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_key)

    def __len__(self) -> int:
        return len(self.values_by_key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._join()
        self.values_by_key[key] = value

    def __delitem__(self, key: str) -> None:
        self._join()
        del self.values_by_key[key]

    def _join(self) -> None:
        """Join the transaction, which refuses if it was begun to read (R8)."""
        if self.request is None:
            raise RuntimeError("the request of this store is closed")
        if self.transaction_manager is None:
            tm = self.request.tm
            tm.get().join(self)
            self.transaction_manager = tm

    def close(self) -> None:
        """Forget the request: nothing can be written any more."""
        self.request = None

    # IDataManager: votes with the file locked, and replaces the file as the last step. Each step may fail, and
    # another manager may refuse the commit when this one has voted. So each step registers how to undo what it
    # makes, and the end of the commit undoes it: the lock is given back, and a new file that is left is removed.

    def abort(self, transaction: Any) -> None:
        self.transaction_manager = None
        self.values_by_key = json.loads(self.read)

    def tpc_begin(self, transaction: Any) -> None:
        self.lock = self.undo.enter_context(self.file.with_suffix(".lock").open("w"))

    def commit(self, transaction: Any) -> None:
        fcntl.flock(self.lock, fcntl.LOCK_EX)

    def tpc_vote(self, transaction: Any) -> None:
        if (self.file.read_bytes() if self.file.exists() else b"{}") != self.read:
            raise Conflict(f"{self.file} was changed by another request")
        self.new = self.file.with_suffix(".new")
        self.undo.callback(self.new.unlink, missing_ok=True)
        self.new.write_text(json.dumps(self.values_by_key))

    def tpc_finish(self, transaction: Any) -> None:
        self.read = self.new.read_bytes()  # a view that has committed may begin another transaction
        os.replace(self.new, self.file)
        self.transaction_manager = None
        self.undo.close()

    def tpc_abort(self, transaction: Any) -> None:
        self.undo.close()

    def sortKey(self) -> str:
        return f"filestore:{self.file}"
