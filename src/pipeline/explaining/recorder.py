"""Records one request of a command: it runs as a user, stores nothing unless it may, and is noted completely.

``Recorder.watch`` is linked in outside each part (``pipeline.loading.building``). A recorder watches one request.
Traversal and the look-up of the view are explained by running again (``pipeline.explaining.walking``,
``pipeline.explaining.candidates``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from pipeline.explaining.recording import Record, watch_stream
from pipeline.explaining.walking import Walk
from pipeline.interfaces import Handler
from pipeline.options import resolve
from pipeline.paste import Step


class Recorder:
    """Makes the record of one request, and counts what it does in databases."""

    def __init__(self, user: str | None = None, commit: bool = False) -> None:
        self.user = user
        self.commit = commit
        self.record: Record | None = None
        """None until a part of a pipeline sees the request."""
        self.loads = self.stores = 0
        self.changed = 0
        """Objects that were changed when a transaction ended."""
        self.statements: list[str] = []
        self._connections: list[Any] = []

    @property
    def attempts(self) -> int:
        """The number of attempts at the request."""
        return self.record.attempts if self.record is not None else 1

    def watch(self, step: Step, handler: Handler, request: Any, response: Any) -> None:
        """Call the handler of a step, and have ``Record.watch`` note what it does."""
        if self.record is None:
            self._identify(request, outermost=True)
            self.record = Record(request, complete=True)
        record = self.record
        outer = record.part
        element = outer.step.element if outer is not None else None
        if element is not None and "principal" in element.contract.provides:
            self._identify(request)
        if record.zope_walk is None and getattr(request, "zope_walk", False) is None:  # the outermost that has it
            request.zope_walk = record.zope_walk = Walk()
        try:
            record.watch(step, step.facts.walks, handler, request, response)
        finally:
            if outer is None:
                record.kept = request.__dict__.get("kept", "")
                watch_stream(response, record.lose)

    def _identify(self, request: Any, outermost: bool = False) -> None:
        if self.user is not None:
            request.principal = self.user
            if not outermost:
                request.environ["REMOTE_USER"] = self.user.encode().decode("latin-1")

    # What a transaction manager asks of a synchronizer.

    def newTransaction(self, transaction: Any) -> None:
        """Have a transaction that can only be aborted, unless it is to be committed."""
        if not self.commit:
            transaction.doom()

    def beforeCompletion(self, transaction: Any) -> None:
        """Count the objects that were changed."""
        for connection in self._connections:
            self.changed += len(getattr(connection, "_registered_objects", ()))

    def afterCompletion(self, transaction: Any) -> None:
        """Do nothing."""

    def opened(self, request: Any, value: Any) -> None:
        """Watch a database that the request has opened."""
        manager = request.tm_in_use if request.tm_in_use is not None else value
        if not hasattr(manager, "registerSynch") or manager in self._connections:
            return
        pooled = getattr(request, "zodb_pooled", None)
        if pooled is not None and pooled.connection not in self._connections:
            self._connections.append(pooled.connection)
            pooled.connection.getTransferCounts(True)
            request.on_close(lambda: self._count(pooled.connection))
        if getattr(request, "_watched_by", None) is not manager:
            request._watched_by = manager
            manager.registerSynch(self)
            request.on_close(lambda: manager.unregisterSynch(self))

    def _count(self, connection: Any) -> None:
        loads, stores = connection.getTransferCounts(True)
        self.loads += loads
        self.stores += stores
        self._connections.remove(connection)

    def listen_to_sql(self) -> None:
        """Note each statement that SQLAlchemy executes from now on."""
        if "sqlalchemy" in sys.modules:
            engine = resolve("sqlalchemy.engine:Engine")
            listen: Callable[..., None] = resolve("sqlalchemy.event:listen")
            listen(engine, "before_cursor_execute", lambda *arguments: self.statements.append(arguments[2]))
