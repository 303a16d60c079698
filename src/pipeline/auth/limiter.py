"""Limit the number of failed logins, to slow down the guessing of passwords."""

from __future__ import annotations

import hashlib
import math
import time
import unicodedata
from collections import OrderedDict
from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address
from threading import Lock
from typing import Protocol
from urllib.parse import quote

from webob.exc import HTTPTooManyRequests

from pipeline.interfaces import OptionError

LONGEST_LOGIN = 200
"""Characters of a login that count. Normalizing takes time by the square of the length (S12)."""


class Counts(Protocol):
    """A store in which several processes count failures together, such as ``pipeline.auth.shared_limits``."""

    def wait(self, keys: Sequence[str]) -> float:
        """Return the seconds until none of the keys has failed too often."""

    def count(self, keys: Sequence[str]) -> None:
        """Count a failure for each of the keys."""


class Limiter:
    """Admits a number of failures for a key, such as an account or an address, and then one per interval.

    Each key has a bucket of ``failures`` that fills again by one in ``interval`` seconds. This process keeps the
    buckets of the last ``limit`` keys that failed. Failures are also counted in ``shared``, if it is given. A login
    is refused if either count is too high. Thread-safe.

    Attempts that run at the same time are all admitted, so that the many requests of one page do not refuse each
    other. All that fail are counted, so the wait after a burst is longer.
    """

    def __init__(
        self, failures: int = 10, interval: float = 30.0, limit: int = 10_000, shared: Counts | None = None
    ) -> None:
        if failures < 1 or interval <= 0:
            raise OptionError("the option failures must be 1 or more, and interval more than 0 seconds")
        self.failures = failures
        self.interval = interval
        self._limit = limit
        self._shared = shared
        self._lock = Lock()
        # The time when each bucket is full again, in seconds of time.monotonic.
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def admit(self, keys: Sequence[str]) -> None:
        """Raise HTTPTooManyRequests (429, ``Retry-After``) if one of the keys has failed too often."""
        now = time.monotonic()
        wait = max(self._full_at.get(key, now) for key in keys) - now - (self.failures - 1) * self.interval
        if wait <= 0 and self._shared is not None:
            wait = self._shared.wait(keys)
        if wait > 0:
            raise HTTPTooManyRequests(
                "Too many logins have failed. Please wait before you try again.",
                headers={"Retry-After": str(math.ceil(wait))},
            )

    def failed(self, keys: Sequence[str]) -> None:
        """Count a failure for each of the keys."""
        now = time.monotonic()
        with self._lock:
            for key in keys:
                self._full_at[key] = max(self._full_at.get(key, now), now) + self.interval
                self._full_at.move_to_end(key)
            while len(self._full_at) > self._limit:
                self._full_at.popitem(last=False)
        if self._shared is not None:
            self._shared.count(keys)


def keys_of(login: str, address: str) -> tuple[str, str]:
    """Return the keys for which the failures of a login are counted: its account and its address."""
    return f"account:{_account(login)}", f"address:{_network(address)}"


def _account(login: str) -> str:
    """Return a digest of the login. Spellings that a user directory may accept for one account have one digest.

    Some directories and databases ignore case, accents or blanks around names, and only they know it. So the limit
    ignores them as well: otherwise ten spellings would allow ten times the guesses.
    """
    decomposed = unicodedata.normalize("NFKD", login[:LONGEST_LOGIN].casefold())
    letters = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    return hashlib.blake2b(letters.strip().encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _network(address: str) -> str:
    """Return the address, or the /64 of an IPv6 address, since a visitor can use every address of the /64."""
    try:
        ip = ip_address(address)
    except ValueError:  # a Unix socket has no address
        return quote(address, safe="")[:100]  # memcached does not accept blanks, or more than 250 characters
    if not isinstance(ip, IPv6Address):
        return str(ip)
    return str(ip.ipv4_mapped or f"{IPv6Address(int(ip) >> 64 << 64)}/64")
