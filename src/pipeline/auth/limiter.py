"""Slowing down those who guess passwords."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from threading import Lock

from webob.exc import HTTPTooManyRequests

from pipeline.interfaces import OptionError


class Limiter:
    """So many failures for a key, such as an account or an address, and then one per interval.

    Each key has a bucket of ``failures`` that fills again by one in ``interval`` seconds. The buckets of the
    last ``limit`` keys that failed are kept, in this process. Thread-safe.

    Attempts that run at the same time are all admitted, so that the many requests of one page do not refuse
    each other. Those that fail are all counted: what a burst gains is waited for after it.
    """

    def __init__(self, failures: int = 10, interval: float = 30.0, limit: int = 10_000) -> None:
        if failures < 1 or interval <= 0:
            raise OptionError("failures is 1 or more, and interval more than 0 seconds")
        self.failures = failures
        self.interval = interval
        self._limit = limit
        self._lock = Lock()
        # When a bucket will be full again, in seconds of time.monotonic.
        self._full_at: OrderedDict[Hashable, float] = OrderedDict()

    def admit(self, keys: Iterable[Hashable]) -> None:
        """Raise HTTPTooManyRequests (429, ``Retry-After``) if one of the keys has failed too often."""
        now = time.monotonic()
        for key in keys:
            wait = self._full_at.get(key, now) - now - (self.failures - 1) * self.interval
            if wait > 0:
                raise HTTPTooManyRequests(
                    "Too many logins have failed. Please wait before you try again.",
                    headers={"Retry-After": str(math.ceil(wait))},
                )

    def failed(self, keys: Iterable[Hashable]) -> None:
        """Count a failure for each of the keys."""
        now = time.monotonic()
        with self._lock:
            for key in keys:
                self._full_at[key] = max(self._full_at.get(key, now), now) + self.interval
                self._full_at.move_to_end(key)
            while len(self._full_at) > self._limit:
                self._full_at.popitem(last=False)

    def forgive(self, keys: Iterable[Hashable]) -> None:
        """Take back what ``failed`` counted."""
        with self._lock:
            for key in keys:
                if key in self._full_at:
                    self._full_at[key] -= self.interval
                    if self._full_at[key] <= time.monotonic():
                        del self._full_at[key]
