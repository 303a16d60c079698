"""Sessions that end before their time: by a logout, a logout everywhere, a new password, or the removal of a user.

A session is a signed cookie, so the site must remember what has ended. It keeps one text for each principal, in a
mapping of its own database. The text has a generation, which is a number that each cookie repeats, and the sessions
that were ended one by one, each until its cookie would expire. The option ``sessions`` of ``authenticate`` names
the function that returns the mapping.
"""

from __future__ import annotations

import json
import time
from typing import Protocol

MOST_ENDED = 500
"""Upper limit of the sessions of a principal that are remembered one by one. With one more, all of them end."""


class Ended(Protocol):
    """A mapping of principals to texts, such as an OOBTree or a dict."""

    def get(self, principal: str, /) -> str | None:
        """Return the text for a principal, or None."""

    def __setitem__(self, principal: str, text: str, /) -> None:
        """Store the text for a principal."""


def end_sessions(ended: Ended, principal: str) -> None:
    """End all sessions of a principal. Call this with a new password of a user, and when a user is removed."""
    generation, _ = _read(ended, principal)
    ended[principal] = json.dumps((generation + 1, {}))


def end_session(ended: Ended, principal: str, session: str, until: int) -> None:
    """End one session, whose cookie expires by this time, in seconds since 1970. It is remembered as long again:
    what ended before may have a cookie that is valid for longer by now, since the site has a longer session_age."""
    generation, sessions = _read(ended, principal)
    now = time.time()
    sessions = {one: end for one, end in sessions.items() if end + until > 2 * now}
    sessions[session] = until
    if len(sessions) > MOST_ENDED:
        generation, sessions = generation + 1, {}
    ended[principal] = json.dumps((generation, sessions))


def generation_of(ended: Ended, principal: str) -> int:
    """Return the generation that a new session of the principal has."""
    return _read(ended, principal)[0]


def has_ended(ended: Ended, principal: str, session: str, generation: int) -> bool:
    """Return whether a session of this generation has ended."""
    current, sessions = _read(ended, principal)
    return generation != current or session in sessions


def _read(ended: Ended, principal: str) -> tuple[int, dict[str, int]]:
    text = ended.get(principal)
    if text is None:
        return 0, {}
    generation, sessions = json.loads(text)
    return generation, sessions
