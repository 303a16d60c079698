"""The outages of a database, with one log message when an outage begins and one when it ends."""

from __future__ import annotations

import logging
import time
from threading import Lock

from pipeline.interfaces import Unavailable

log = logging.getLogger("pipeline.database")


class Damaged(Exception):
    """A database whose content cannot be read. Another attempt does not help, so the answer is a 500."""


class Outage:
    """The state of one database: reachable or not. Each change is logged once.

    During an outage, one request per second tries to reach the database. The others fail at once, without waiting.
    """

    PAUSE = 1.0
    """Seconds from the begin of one try to the next, unless the first one takes longer."""
    LONGEST_TRY = 30.0
    """Seconds after which another request may try, although the first is still trying."""

    def __init__(self, name: str, meanwhile: str = "") -> None:
        self.name = name
        self.meanwhile = meanwhile
        """Words for the log on the requests that need it, if they are not answered 503."""
        self.forget()

    def forget(self) -> None:
        """Return to the state before the first request, also in a process that was forked: another thread of the
        parent may have held the lock (R12)."""
        self._lock = Lock()
        self.failures = 0
        """Number of failures to reach the database."""
        self.since: float | None = None
        """Begin of the outage, in the time of ``time.monotonic``; None if there is no outage."""
        self.damaged = False
        """True if the content of the database cannot be read, so that another try does not help."""
        self._state = "cannot be reached"
        self._reason = ""
        """The error that began the outage: its class and what it says."""
        self._tried = self._next_try = 0.0

    def check(self) -> None:
        """Raise Unavailable during an outage, unless this request is the one to try again."""
        if self.since is not None:
            with self._lock:
                now = time.monotonic()
                if self.since is not None and now < self._next_try:
                    raise self.unavailable()
                self._tried, self._next_try = now, now + self.LONGEST_TRY

    def begin(self, error: BaseException, state: str = "cannot be reached", damaged: bool = False) -> Exception:
        """Note that the database cannot be used. Return the exception to raise.

        state    the problem, as a predicate, such as "cannot be reached"
        damaged  whether another try does not help
        """
        with self._lock:
            now = time.monotonic()
            self.failures += 1
            first = self.since is None or (self._state, self.damaged) != (state, damaged)
            if self.since is None:
                self.since = self._tried = now
            self._next_try = self._tried + self.PAUSE
            self._state, self.damaged = state, damaged
            self._reason = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        if first:
            status = 500 if damaged else 503
            meanwhile = self.meanwhile or f"requests that need it are answered {status}"
            log.error("%s %s; %s: %s", self.name, state, meanwhile, self._reason)
        return self.unavailable()

    def end(self) -> None:
        """Note that the database was reached."""
        with self._lock:
            since, self.since = self.since, None
        if since is not None:
            log.warning("%s is reached again, after %.1f s", self.name, time.monotonic() - since)

    def unavailable(self) -> Exception:
        """Return the exception for a request that needs the database."""
        said = f"{self.name} {self._state}"
        error: Exception = Damaged(said)
        if not self.damaged:
            error = unavailable = Unavailable(said)
            unavailable.logged = True
        error.add_note(self._reason)
        return error
