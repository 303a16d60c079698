"""One row, brought about in the site."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from transaction.interfaces import TransientError

from database.table import axes as a
from database.table import children
from database.table.axes import Row
from database.table.kits import MARK, Kit, Synchronizer
from database.table.site import Asked

PATIENCE = 5.0
"""Seconds that a thread or a child may take."""

PLACES = {
    a.OUTER_IN: "on the way in",
    a.OUTER_OUT: "on the way out",
    a.INNER: "inside",
    a.ERROR_VIEW: "error view",
    a.VIEW: "view",
}
"""Where they act, if they are called by the pipeline."""


class Stopped(Exception):
    """The error of a request that goes wrong although nothing has raised."""


class Play:
    """A row, and what happens in it."""

    def __init__(self, kit: Kit, row: Row) -> None:
        self.kit = kit
        self.row = row
        self.act_in_kit = kit.means[row.means][0]
        self.attempts = 0
        self.synchronizer = Synchronizer()
        self.request: Any = None
        self.taken: Any = None
        self.reached = False
        self.raised = ""
        self.hung = False
        self.in_child = False
        self.leftover: threading.Thread | None = None
        self.is_over = threading.Event()

    def at(self, place: str, request: Any) -> None:
        """Do what the row says for a place in the pipeline."""
        who = self.row.who
        self.request = request
        if place == ("on the way in" if who == a.OUTER_IN else "view") and self.row.when != a.UNTOUCHED:
            self.taken = self.kit.prepare(request, self.row)
        if place == "view":
            self.attempts += 1
            self.in_view(request)
        if place == PLACES.get(who):
            self.act_in_place()

    def in_view(self, request: Any) -> None:
        """Do what those need who do not act at a place in the pipeline."""
        who = self.row.who
        if who == a.WAITED:
            self.act_in_thread()
        elif who == a.LEFTOVER:
            self.leftover = threading.Thread(target=self.act_when_over)
            self.leftover.start()
        elif who == a.ON_CLOSE:
            request.on_close(self.act)
        elif who == a.ERROR_VIEW:
            raise Asked
        elif who in (a.FORK, a.PROCESS, a.GOING_ON):
            self.act_in_child()
            if not self.in_child and self.row.when in a.STILL_WRITES:
                self.kit.go_on(self.taken)
                self.kit.write(self.taken, "parent", MARK)

    def body(self, request: Any) -> Any:
        return self.stream() if self.row.who == a.STREAM else b"done"

    def stream(self) -> Iterator[bytes]:
        yield b"a block"
        self.act()
        yield b"another"

    def act(self) -> Exception | None:
        """Touch the database. Return the error that this raises."""
        self.reached = True
        self.raised = ""
        try:
            taken = self.kit.take(self.request) if self.taken is None else self.taken
            taken.synchronizer = self.synchronizer
            self.act_in_kit(taken)
        except Exception as error:
            self.raised = " ".join(f"{type(error).__name__}: {error}".split())
            return error
        return None

    def act_in_place(self) -> None:
        error = self.act()
        if self.row.goes_on == a.RAISES:
            raise error or Stopped
        if self.row.goes_on == a.CONFLICTS and self.attempts == 1:
            raise TransientError

    def act_in_thread(self) -> None:
        thread = threading.Thread(target=self.act)
        thread.start()
        thread.join(PATIENCE)
        self.hung = thread.is_alive()

    def act_when_over(self) -> None:
        self.is_over.wait(PATIENCE)
        self.act()

    def end_leftover(self) -> None:
        """Let the thread act that outlives the request."""
        self.is_over.set()
        if self.leftover is not None:
            self.leftover.join(PATIENCE)
            self.hung = self.leftover.is_alive()

    def act_in_child(self) -> None:
        child = children.STARTS[self.row.who](self.say)
        self.in_child = child is None
        if child is not None:
            self.hear(child.wait(PATIENCE))

    def say(self) -> str:
        """Act, in a child, and return what is to be told to the parent."""
        self.act()
        return self.raised or "nothing raised"

    def hear(self, said: str | None) -> None:
        self.reached = True
        self.hung = not said  # or it has crashed
        self.raised = "" if said == "nothing raised" else str(said)
