"""Passwords: hashed by argon2, and verified at its price once. Needs the extra ``auth``.

Verifying takes argon2 some 50 ms on purpose, and HTTP basic sends the password with every request. So a
process remembers which passwords it has verified, under an HMAC by a random key that says nothing about
them to whoever reads its memory. The hash is part of it: a changed password is asked for at once.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

MAX_PASSWORD = 1024
"""Characters; more are refused unread."""

_hasher = PasswordHasher()


def _hash_of_nothing() -> str:
    """Return a hash that no password has. It is verified for a login that does not exist, so that the refusal
    takes as long as for any other login."""
    sizes = _hasher.salt_len, _hasher.hash_len
    salt, digest = (b64encode(secrets.token_bytes(size)).decode().rstrip("=") for size in sizes)
    price = f"m={_hasher.memory_cost},t={_hasher.time_cost},p={_hasher.parallelism}"
    return f"$argon2id$v=19${price}${salt}${digest}"


_NOBODY = _hash_of_nothing()


def hash_password(password: str) -> str:
    """Return what to store of a password; ``Passwords.verify`` verifies it."""
    return _hasher.hash(password)


class Passwords:
    """Verifies passwords, and remembers the last ``limit`` that were right; safe in threads."""

    def __init__(self, limit: int = 1000) -> None:
        self._key = secrets.token_bytes(32)
        self._limit = limit
        self._lock = Lock()
        self._right: OrderedDict[bytes, None] = OrderedDict()

    def verify(
        self, stored: str | None, login: str, password: str, save: Callable[[str], object] | None = None
    ) -> bool:
        """Return whether ``password`` is the one that ``stored`` is the hash of; None is nobody's.

        If it is, and was hashed with other parameters than a new password would be, ``save(new_hash)`` is called.
        """
        if len(password) > MAX_PASSWORD:
            return False
        proof = self._proof(login, password, stored or _NOBODY)
        with self._lock:
            if proof in self._right:
                self._right.move_to_end(proof)
                return True
        if not _matches(stored or _NOBODY, password) or stored is None:
            return False
        if save is not None and _hasher.check_needs_rehash(stored):
            new = hash_password(password)
            save(new)
            proof = self._proof(login, password, new)  # the old one is asked for again if this is not stored
        with self._lock:
            self._right[proof] = None
            while len(self._right) > self._limit:
                self._right.popitem(last=False)
        return True

    def _proof(self, *parts: str) -> bytes:
        # Each part after its length, so that no two lists of parts give one message.
        encoded = [part.encode(errors="surrogatepass") for part in parts]
        message = b"".join(b"%d:%s" % (len(part), part) for part in encoded)
        return hmac.digest(self._key, message, hashlib.sha256)


def _matches(stored: str, password: str) -> bool:
    try:
        return _hasher.verify(stored, password)
    except (VerificationError, InvalidHashError, UnicodeError):  # a password out of JSON may have lone surrogates
        return False
