"""Slowing down those who guess passwords."""

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
"""Characters of a login that are told apart; normalizing takes time by the square of the length (S12)."""


class Counts(Protocol):
    """Failures that several processes count together, as ``pipeline.auth.shared_limits`` does."""

    def wait(self, keys: Sequence[str]) -> float:
        """Return the seconds until none of the keys has failed too often."""

    def count(self, keys: Sequence[str]) -> None:
        """Count a failure for each of the keys."""


class Limiter:
    """Admits so many failures for a key, such as an account or an address, and then one per interval.

    Each key has a bucket of ``failures`` that fills again by one in ``interval`` seconds. The buckets of the
    last ``limit`` keys that failed are kept, in this process. Failures are counted in ``shared`` as well, if
    there is such a thing, and either of them refuses. Thread-safe.

    Attempts that run at the same time are all admitted, so that the many requests of one page do not refuse
    each other. Those that fail are all counted: what a burst gains is waited for after it.
    """

    def __init__(
        self, failures: int = 10, interval: float = 30.0, limit: int = 10_000, shared: Counts | None = None
    ) -> None:
        if failures < 1 or interval <= 0:
            raise OptionError("failures is 1 or more, and interval more than 0 seconds")
        self.failures = failures
        self.interval = interval
        self._limit = limit
        self._shared = shared
        self._lock = Lock()
        # When a bucket will be full again, in seconds of time.monotonic.
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
    """Return what the failures of a login are counted for: the account, and where it was tried from."""
    return f"account:{_account(login)}", f"address:{_network(address)}"


def _account(login: str) -> str:
    """A digest of the login. Spellings that a user directory may take for one account have one digest.

    Directories and databases compare names without regard to case, accents or blanks around them, and only
    they know that they do. So the limit never tells such names apart: with ten spellings there would be ten
    times the guesses.
    """
    decomposed = unicodedata.normalize("NFKD", login[:LONGEST_LOGIN].casefold())
    letters = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    return hashlib.blake2b(letters.strip().encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _network(address: str) -> str:
    """The address, or the /64 of an IPv6 address: a visitor has at least that many to choose from."""
    try:
        ip = ip_address(address)
    except ValueError:  # of a Unix socket there is none
        return quote(address, safe="")[:100]  # memcached takes no blank, and 250 characters
    if not isinstance(ip, IPv6Address):
        return str(ip)
    return str(ip.ipv4_mapped or f"{IPv6Address(int(ip) >> 64 << 64)}/64")
