"""Passwords, hashed by argon2 and remembered once they are verified. Needs the extra ``auth``.

Verifying by argon2 takes some 50 ms on purpose, and HTTP basic sends the password with every request. So a process
remembers the passwords that it has verified, each as an HMAC by a random key, which does not reveal the password.
The HMAC includes the stored hash, so a changed password is verified again at once.
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
"""Upper limit of the characters of a password. A longer one is refused without being hashed."""

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
    """Return the hash of a password, to be stored. ``Passwords.verify`` verifies it. Raise ValueError for one that
    is too long for it."""
    if len(password) > MAX_PASSWORD:
        raise ValueError(f"a password has {MAX_PASSWORD} characters at most, and not {len(password)}")
    return _hasher.hash(password)


class Passwords:
    """Verifies passwords, and remembers the last ``limit`` that were right. Thread-safe."""

    def __init__(self, limit: int = 1000) -> None:
        self._key = secrets.token_bytes(32)
        self._limit = limit
        self._lock = Lock()
        self._right: OrderedDict[bytes, None] = OrderedDict()

    def verify(
        self, stored: str | None, login: str, password: str, save: Callable[[str], object] | None = None
    ) -> bool:
        """Return whether ``stored`` is the hash of ``password``. Without a hash (None) the result is False.

        If it is, but was made with other parameters than a new hash would be, ``save(new_hash)`` is called.
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
            proof = self._proof(login, password, new)  # the old hash is verified again if the new is not stored
        with self._lock:
            self._right[proof] = None
            while len(self._right) > self._limit:
                self._right.popitem(last=False)
        return True

    def _proof(self, *parts: str) -> bytes:
        # Each part follows its length, so that no two lists of parts give the same message.
        encoded = [part.encode(errors="surrogatepass") for part in parts]
        message = b"".join(b"%d:%s" % (len(part), part) for part in encoded)
        return hmac.digest(self._key, message, hashlib.sha256)


def _matches(stored: str, password: str) -> bool:
    try:
        return _hasher.verify(stored, password)
    except (VerificationError, InvalidHashError, UnicodeError):  # a password out of JSON may have lone surrogates
        return False
