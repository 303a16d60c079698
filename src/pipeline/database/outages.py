"""Whether a database can be reached, and one line of log when that changes."""

from __future__ import annotations

import logging
import time
from threading import Lock

from pipeline.interfaces import Unavailable

log = logging.getLogger("pipeline.database")


class Damaged(Exception):
    """A database whose content cannot be read. To try again does not help: the answer is a 500."""


class Outage:
    """Whether a database can be reached: one line of log when it cannot, one when it can again.

    While it cannot, one request in a second tries; the others are told at once, so that none waits for what
    is not there.
    """

    PAUSE = 1.0
    """Seconds from one try to the next."""
    LONGEST_TRY = 30.0
    """Seconds after which another request may try, though the first is still at it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.failures = 0
        """How often it could not be reached, so far."""
        self.since: float | None = None
        """Since when it cannot be reached, in the time of ``time.monotonic``."""
        self.damaged = False
        """Whether its content cannot be read, so that it is no use to try again."""
        self._state = "cannot be reached"
        self._next_try = 0.0
        self._lock = Lock()

    def check(self) -> None:
        """Raise Unavailable if it cannot be reached and this request is not the one to try again."""
        if self.since is not None:
            with self._lock:
                now = time.monotonic()
                if self.since is not None and now < self._next_try:
                    raise self.unavailable()
                self._next_try = now + self.LONGEST_TRY

    def begin(self, error: BaseException, state: str = "cannot be reached", damaged: bool = False) -> Exception:
        """Note that it cannot be used; return the exception to be raised.

        state    what is the matter with it, as a predicate
        damaged  whether it is of no use to try again
        """
        with self._lock:
            now = time.monotonic()
            self._next_try = now + self.PAUSE
            self.failures += 1
            first = self.since is None or (self._state, self.damaged) != (state, damaged)
            if self.since is None:
                self.since = now
            self._state, self.damaged = state, damaged
        if first:
            what = " ".join(f"{type(error).__name__}: {error}".split())
            status = 500 if damaged else 503
            log.error("%s %s; who needs it is answered %d: %.500s", self.name, state, status, what)
        return self.unavailable()

    def end(self) -> None:
        """Note that it was reached."""
        with self._lock:
            since, self.since = self.since, None
        if since is not None:
            log.warning("%s is reached again, after %.1f s", self.name, time.monotonic() - since)

    def unavailable(self) -> Exception:
        """Return the exception for a request that needs the database."""
        if self.damaged:
            return Damaged(f"{self.name} {self._state}")
        error = Unavailable(f"{self.name} {self._state}")
        error.logged = True
        return error
