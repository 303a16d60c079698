"""The transaction manager of a request to a site of Zope: implicit, as ``transaction.manager`` is for such sites,
and for sites of Pyramid without ``tm.manager_hook``.

It is given to the element ``zodb`` as its option ``manager``. While a request runs, it stands in the place of the
manager of the thread, so that ``transaction.get()``, ``transaction.commit()`` and a connection that a view opens
all mean the transaction of this request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import transaction

from pipeline.database.transactions import Manager, is_open
from pipeline.interfaces import ConfigurationError

try:
    from zope.publisher.interfaces import Retry
except ImportError:  # a site of Pyramid may have this manager, too
    Retry = ()

log = logging.getLogger("pipeline.toolkit")


class ImplicitManager(Manager):
    """A manager of one request at a time, for applications that do not begin their transactions.

    ``get()`` begins a transaction if none is open, and ``begin()`` aborts one that is. When a transaction ends
    while the request runs, the next one begins at once, so that the request reads what is stored by then.
    """

    running = False
    """True if a request uses this manager, and applications see it as ``transaction.manager``."""
    when_made: Callable[[], object] | None = None
    """Called when the object of the transaction that is open now is made, if it is ever needed."""

    def __init__(self) -> None:
        super().__init__()
        self.transient_checks.append(lambda error: isinstance(error, Retry))

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
        found = super().get()
        if self.when_made is not None:
            when_made, self.when_made = self.when_made, None
            when_made()
        return found

    def commit(self) -> None:
        """Commit as ``transaction.manager``, also after the application has answered: a session of zope.sqlalchemy
        looks there, to see that its transaction is being committed."""
        threads: Any = transaction.manager
        outer, threads.manager = threads.manager, self
        try:
            super().commit()
        finally:
            threads.manager = outer

    def end_deferred(self) -> None:
        self.when_made = None
        super().end_deferred()

    def free(self, txn: Any) -> None:
        super().free(txn)
        if self.running:
            self.start()


def take_thread(tm: Any, element: str) -> Any:
    """Have a manager stand for ``transaction.manager`` in this thread. Return the one to give back."""
    if not isinstance(tm, ImplicitManager):
        raise ConfigurationError(
            f"{element}: the element zodb needs the option manager = pipeline.toolkit.manager:ImplicitManager, "
            "since a Zope site expects a transaction manager that is implicit"
        )
    threads: Any = transaction.manager
    outer = threads.manager
    threads.manager = tm
    tm.running = True
    return outer


def give_back_thread(tm: Any, outer: Any) -> None:
    """Undo ``take_thread``."""
    tm.running = False
    tm.when_made = None
    threads: Any = transaction.manager
    threads.manager = outer


def end_use(connection: Any) -> None:
    """Do what ``Connection.close`` does for a site, when a request ends and its connection stays open: call what
    was registered by ``onCloseCallback``, and drop what ``setDebugInfo`` was given, such as the request itself."""
    for one in getattr(connection, "connections", {}).values():  # those of mounted databases, too
        one._debug_info = ()
        callbacks, one._Connection__onCloseCallbacks = one._Connection__onCloseCallbacks, None
        for callback in callbacks or ():
            try:
                callback()
            except Exception:
                log.exception("%r failed at the end of a request", callback)
