"""Slowing down those who guess passwords."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock

from webob.exc import HTTPTooManyRequests


class Limiter:
    """So many failures for a key, such as an account or an address, and then one per interval.

    Each key has a bucket of ``failures`` that fills again by one in ``interval`` seconds. The buckets of the
    last ``limit`` keys that failed are kept, in this process. Thread-safe.
    """

    def __init__(self, failures: int = 10, interval: float = 30.0, limit: int = 10_000) -> None:
        self.failures = failures
        self.interval = interval
        self._limit = limit
        self._lock = Lock()
        # When a bucket will be full again, in seconds of time.monotonic.
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def admit(self, keys: Iterable[str]) -> None:
        """Raise HTTPTooManyRequests (429, ``Retry-After``) if one of the keys has failed too often.

        An attempt that is admitted counts as failed until ``succeeded`` takes that back: many
        attempts at the same time are no way around the limit.
        """
        now = time.monotonic()
        keys = tuple(keys)
        with self._lock:
            for key in keys:
                wait = self._full_at.get(key, now) - now - (self.failures - 1) * self.interval
                if wait > 0:
                    raise HTTPTooManyRequests(
                        "Too many logins have failed. Please wait before you try again.",
                        headers={"Retry-After": str(math.ceil(wait))},
                    )
            for key in keys:
                self._full_at[key] = max(self._full_at.get(key, now), now) + self.interval
                self._full_at.move_to_end(key)
            while len(self._full_at) > self._limit:
                self._full_at.popitem(last=False)

    def succeeded(self, keys: Iterable[str]) -> None:
        """Take back what ``admit`` counted."""
        with self._lock:
            for key in keys:
                if key in self._full_at:
                    self._full_at[key] -= self.interval
                    if self._full_at[key] <= time.monotonic():
                        del self._full_at[key]
