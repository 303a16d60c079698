"""Failed logins that several processes and machines count together, by the library ``limits``.

Needs the extra ``limits``. One process alone uses the counts of ``pipeline.auth.limiter``, whose memory is bounded:
in memory, ``limits`` keeps each name that was ever tried, and starts a thread to remove old ones.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import urlsplit

from limits import RateLimitItemPerSecond
from limits.errors import ConfigurationError
from limits.storage import storage_from_string
from limits.strategies import FixedWindowRateLimiter

from pipeline.auth.limiter import times_as_often
from pipeline.database.places import loggable_uri, without_secrets
from pipeline.interfaces import OptionError

T = TypeVar("T")

log = logging.getLogger("pipeline")

_REDIS = {"socket_timeout": 1.0, "socket_connect_timeout": 1.0}
_TIMEOUTS: dict[str, dict[str, float]] = {
    **dict.fromkeys(("redis", "rediss", "redis+unix", "valkey", "valkeys", "valkey+unix"), _REDIS),
    "memcached": {"timeout": 1.0, "connect_timeout": 1.0},
}
"""Seconds that a login waits for the store, by the scheme of its URI."""
PAUSE = 10.0
"""Seconds for which a store that did not answer is not asked. Meanwhile each process counts by itself."""
_MEMORY = RateLimitItemPerSecond(1, 28 * 24 * 3600, namespace="wsgi-pipeline-addresses")
"""Addresses from which an account has logged in. memcached takes 30 days and more for a date."""


class SharedLimits:
    """Admits ``failures`` for a key within ``seconds`` after the first, counted in the store at ``uri``. Remembers
    addresses for four weeks.

    If the store does not answer, no login is refused. The begin and the end of the outage are logged.
    """

    def __init__(self, uri: str, failures: int, seconds: float) -> None:
        self._uri = uri
        self._name = loggable_uri(uri)
        self._failures = failures
        self._seconds = max(1, round(seconds))
        self._lock = threading.Lock()
        self._away_until: float | None = None
        self._open()

    def wait(self, keys: Sequence[str]) -> float:
        return self._ask(lambda limiter: max(self._wait(limiter, key) for key in keys), 0.0)

    def count(self, keys: Sequence[str]) -> None:
        self._ask(lambda limiter: sum(limiter.hit(self._item(key), key) for key in keys), 0)

    def remember(self, key: str) -> None:
        self._ask(lambda limiter: limiter.hit(_MEMORY, key), False)

    def remembers(self, key: str) -> bool:
        return self._ask(lambda limiter: not limiter.test(_MEMORY, key), False)

    def _item(self, key: str) -> RateLimitItemPerSecond:
        failures = self._failures * times_as_often(key)
        return RateLimitItemPerSecond(failures, self._seconds, namespace="wsgi-pipeline-logins")

    def _wait(self, limiter: FixedWindowRateLimiter, key: str) -> float:
        item = self._item(key)
        if limiter.test(item, key):
            return 0.0
        return max(1.0, limiter.get_window_stats(item, key).reset_time - time.time())

    def _ask(self, ask: Callable[[FixedWindowRateLimiter], T], unknown: T) -> T:
        """Return ``ask(limiter)``, or ``unknown`` if the store does not answer."""
        away_until = self._away_until
        if away_until is not None and time.monotonic() < away_until:
            return unknown
        if self._process != os.getpid():  # R12: do not use the connection of another process
            self._open()
        try:
            answer = ask(self._limiter)
        except Exception as error:  # each kind of store has errors of its own
            self._away_until = time.monotonic() + PAUSE
            if away_until is None:
                what = "the store of failed logins %s does not answer; meanwhile each process counts by itself: %s"
                reason = without_secrets(f"{type(error).__name__}: {error}", self._uri)
                log.warning(f"authenticate: {what}", self._name, reason)
            return unknown
        if away_until is not None:
            self._away_until = None
            log.info("authenticate: the store of failed logins %s answers again", self._name)
        return answer

    def _open(self) -> None:
        """Make the client of the store. It connects at its first use."""
        with self._lock:
            try:
                options = _TIMEOUTS.get(urlsplit(self._uri).scheme, {})
                storage = storage_from_string(self._uri, **options)
            except (ConfigurationError, ValueError) as error:
                raise OptionError(
                    f"authenticate: option 'limits': {self._name!r} cannot be used: "
                    f"{without_secrets(str(error), self._uri)}; "
                    "use a URI such as redis://127.0.0.1:6379/0 or memcached://127.0.0.1:11211"
                ) from None
            self._limiter = FixedWindowRateLimiter(storage)  # type: ignore[arg-type, unused-ignore]
            self._process = os.getpid()
