"""Limit the number of failed logins, to slow down the guessing of passwords without locking out the owner (S22).

A browser or an address from which an account has logged in has a count of its own, and uses it first. All others
share one count for the account, and each address has one count for all accounts. So an attacker can use up the
shared counts, which delays the owner in a new browser, but not the count of a browser that the owner has used.
"""

from __future__ import annotations

import hashlib
import math
import time
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from threading import Lock
from typing import Protocol

from webob.exc import HTTPTooManyRequests

from pipeline.ranges import at_least

LONGEST_LOGIN = 200
"""Characters of a login that count. Normalizing takes time by the square of the length (S12)."""
SITE = "site:"
"""The key of all visitors whose address a proxy hides. It takes the place of an address."""
KNOWN = "known:"
"""The begin of the key of all browsers and addresses from which an account has logged in."""
MANY = 10
"""Those two keys, and the /48 of an IPv6 address, may fail so many times as often as one account or address."""
MOST_ADDRESSES = 10
"""Upper limit of the addresses from which one account is known."""


class Counts(Protocol):
    """A store that several processes share, such as ``pipeline.auth.shared_limits``."""

    def wait(self, keys: Sequence[str]) -> float:
        """Return the seconds until none of the keys has failed too often."""

    def count(self, keys: Sequence[str]) -> None:
        """Count a failure for each of the keys."""

    def remember(self, key: str) -> None:
        """Remember the key of an address from which an account has logged in."""

    def remembers(self, key: str) -> bool:
        """Return whether the key is remembered."""


class Limiter:
    """Admits a number of failures for a key, such as an account or an address, and then one per interval.

    Each key has a bucket of ``failures`` that fills again by one in ``interval`` seconds. This process keeps the
    buckets of up to ``limit`` keys, and the addresses of as many accounts. Failures and addresses are also kept in
    ``shared``, if it is given. A login is refused if either count is too high. Thread-safe.

    Attempts that run at the same time are all admitted, so that the many requests of one page do not refuse each
    other. All that fail are counted, so the wait after a burst is longer.
    """

    def __init__(
        self, failures: int = 10, interval: float = 30.0, limit: int = 10_000, shared: Counts | None = None
    ) -> None:
        at_least(1, failures=failures)
        at_least(0.001, interval=interval)
        self.failures = failures
        self.interval = interval
        self._limit = limit
        self._shared = shared
        self._lock = Lock()
        # The time when each bucket is full again, in seconds of time.monotonic.
        self._full_at: dict[str, float] = {}
        # The addresses from which each login has succeeded, the newest last.
        self._addresses: dict[str, tuple[str, ...]] = {}

    def keys_of(self, login: str, visitor: str, browser: str = "") -> tuple[str, ...]:
        """Return the keys for which a failure of this login counts.

        visitor  the address of the visitor, or "" if a proxy hides it
        browser  the id that this browser has for this login, or "" if it has none
        """
        account, address = account_of(login), _network(visitor)
        for own in self._own_keys(digest_of(login), address, browser):
            keys = own, f"{KNOWN}{account}"
            if self._wait(keys) <= 0:
                return keys
        wide = _network(visitor, 48)
        networks = (f"network:{wide}",) if "/" in wide else ()  # one customer may have 65,536 of a /64
        return f"account:{account}", f"address:{address}" if address else SITE, *networks

    def admit(self, keys: Sequence[str], advice: str = "") -> None:
        """Raise HTTPTooManyRequests (429, ``Retry-After``) if one of the keys has failed too often.

        advice  a sentence that follows the reason and the time to wait
        """
        wait, key = max((self._wait((key,)), key) for key in keys)
        if wait > 0:
            reason = _REASONS.get(key[: key.find(":") + 1], "Too many logins have failed.")
            text = f"{reason} Please try again in {_in_words(wait)}. {advice}".rstrip()
            raise HTTPTooManyRequests(text, headers={"Retry-After": str(math.ceil(wait))})

    def failed(self, keys: Sequence[str]) -> None:
        """Count a failure for each of the keys."""
        now = time.monotonic()
        with self._lock:
            for key in keys:
                self._full_at[key] = max(self._full_at.get(key, now), now) + self._price(key)
            if len(self._full_at) > self._limit:
                # Those with the most failures stay: a flood of names does not hide an attack on one account.
                by_failures = sorted(self._full_at.items(), key=lambda bucket: bucket[1])
                self._full_at = dict(by_failures[len(by_failures) - self._limit * 3 // 4 :])
        if self._shared is not None:
            self._shared.count(keys)

    def succeeded(self, login: str, visitor: str) -> None:
        """Remember that the login has succeeded from the address of the visitor."""
        digest, address = digest_of(login), _network(visitor)
        if not address or address in self._addresses.get(digest, ()):
            return
        with self._lock:
            known = self._addresses.pop(digest, ())
            self._addresses[digest] = (*known, address)[-MOST_ADDRESSES:]
            if len(self._addresses) > self._limit:
                del self._addresses[next(iter(self._addresses))]
        if self._shared is not None:
            self._shared.remember(_own_address(digest, address))

    def _own_keys(self, digest: str, address: str, browser: str) -> Iterator[str]:
        """Yield the keys that visitors elsewhere cannot use up: those of the browser and of the address."""
        if browser:
            yield f"browser:{browser}"
        if address:
            key = _own_address(digest, address)
            if address in self._addresses.get(digest, ()) or (
                self._shared is not None and self._shared.remembers(key)
            ):
                yield key

    def _wait(self, keys: Sequence[str]) -> float:
        """Return the seconds until none of the keys has failed too often."""
        now = time.monotonic()
        full = self.failures * self.interval
        wait = max(self._full_at.get(key, now) + self._price(key) for key in keys) - now - full
        if wait <= 0 and self._shared is not None:
            wait = self._shared.wait(keys)
        return wait

    def _price(self, key: str) -> float:
        """Return the seconds in which a bucket recovers from one failure."""
        return self.interval / times_as_often(key)


_REASONS = {
    "account:": "Too many wrong passwords were tried for this name, by you or by others.",
    **dict.fromkeys(("address:", "network:"), "Too many wrong passwords were tried from your network."),
    SITE: "Too many wrong passwords were tried on this site.",
}


def times_as_often(key: str) -> int:
    """Return how many times the failures of one account or address a key may have."""
    return MANY if key.startswith((SITE, KNOWN, "network:")) else 1


def digest_of(login: str) -> str:
    """Return a digest of the login as it was typed.

    Browsers are known by it: an attacker could have an account whose name is another spelling of the victim's.
    """
    return hashlib.blake2b(login.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def account_of(login: str) -> str:
    """Return a digest of the login. Spellings that a user directory may accept for one account have one digest.

    Some directories and databases ignore case, accents, blanks, or characters that are not seen, and only they know
    it. So the limit ignores them as well: otherwise ten spellings would allow ten times the guesses.
    """
    decomposed = unicodedata.normalize("NFKD", login[:LONGEST_LOGIN].casefold())
    return digest_of("".join(letter for letter in decomposed if unicodedata.category(letter) not in _IGNORED))


_IGNORED = ("Cc", "Cf", "Mc", "Me", "Mn", "Zl", "Zp", "Zs")
"""Categories of characters that a directory may ignore in a name, as LDAP's does (RFC 4518 section 2)."""


def _own_address(digest: str, address: str) -> str:
    return f"from:{digest}:{address}"


@lru_cache(maxsize=1000)
def _network(address: str, bits: int = 64) -> str:
    """Return the address, or the /64 of an IPv6 address, since a visitor can use every address of the /64.

    bits  how many bits of an IPv6 address count

    The result is "" for a text that is not an address, such as "unknown".
    """
    try:
        ip = ip_address(address)
    except ValueError:
        return ""
    if not isinstance(ip, IPv6Address):
        return str(ip)
    return str(ip.ipv4_mapped or f"{IPv6Address(int(ip) >> 128 - bits << 128 - bits)}/{bits}")


def _in_words(seconds: float) -> str:
    """Return a time that is not shorter."""
    number, unit = (math.ceil(seconds), "second") if seconds <= 90 else (math.ceil(seconds / 60), "minute")
    return f"{number} {unit}{'s' if number > 1 else ''}"
