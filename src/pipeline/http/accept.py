"""Which of the types that can be sent a client accepts, by its Accept header, read up to a limit (S12)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from webob.acceptparse import create_accept_header

LONGEST_ACCEPT = 2_000
"""Characters of an Accept header that are read. A browser sends 150; two million take a second."""


def accepted(accept: str | None, offers: Sequence[str]) -> list[tuple[str, float]]:
    """Return the offers that the header accepts, each with its q-value, the best first.

    All of them are accepted if there is no header, or if the header is malformed.
    """
    return list(_accepted(bounded(accept), tuple(offers)))


@lru_cache(maxsize=256)
def _accepted(accept: str | None, offers: tuple[str, ...]) -> tuple[tuple[str, float], ...]:
    return tuple(create_accept_header(accept).acceptable_offers(offers))


def bounded(accept: str | None) -> str | None:
    """Return the header, or of a longer one the whole elements at its beginning; None if there are none."""
    if accept and len(accept) > LONGEST_ACCEPT:
        accept = accept[:LONGEST_ACCEPT].rpartition(",")[0]
    return accept or None
