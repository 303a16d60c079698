"""The transaction manager of a request to a Zope site: implicit, as ``transaction.manager`` is for such sites.

It is given to the element ``zodb`` as its option ``manager``. While a request runs, it stands in the place of the
manager of the thread, so that ``transaction.get()``, ``transaction.commit()`` and a connection that a view opens
all mean the transaction of this request.
"""

from __future__ import annotations

from typing import Any

from zope.publisher.interfaces import Retry

from pipeline.database.transactions import Manager, is_open


class ImplicitManager(Manager):
    """A manager of one request at a time, for applications that do not begin their transactions.

    ``get()`` begins a transaction if none is open, and ``begin()`` aborts one that is. When a transaction ends
    while the request runs, the next one begins at once, so that the request reads what is stored by then.
    """

    running = False
    """True if a request uses this manager, and applications see it as ``transaction.manager``."""

    def __init__(self) -> None:
        super().__init__()
        self.transient_checks.append(is_retry)

    def begin(self) -> Any:
        if is_open(self):
            running, self.running = self.running, False
            try:
                self.abort()
            finally:
                self.running = running
        return super().begin()

    def get(self) -> Any:
        if not is_open(self):
            return self.begin()
        return super().get()

    def free(self, txn: Any) -> None:
        super().free(txn)
        if self.running:
            self.start()


def is_retry(error: BaseException) -> bool:
    """Return whether an application asks for another attempt."""
    return isinstance(error, Retry)
