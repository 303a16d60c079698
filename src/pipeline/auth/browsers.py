"""The cookie of a browser from which accounts have logged in, so that its failures have a count of their own (S22).

It proves nothing but that: it is not a login, and logout leaves it. Needs the extra ``auth``.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from pipeline.auth.limiter import digest_of
from pipeline.auth.sessions import SignedCookie
from pipeline.request import Request
from pipeline.response import Response

YEAR = 365 * 24 * 3600
"""Seconds for which a browser is known after a login."""
MOST_LOGINS = 5
"""Upper limit of the logins for which one browser is known."""


class KnownBrowsers(SignedCookie):
    """A signed cookie with the digests of the logins that have succeeded in a browser, and an id for each.

    The id is random. A login that succeeds again keeps it, so that it does not begin a new count.
    """

    def __init__(self, keys: Sequence[str], audience: str = "") -> None:
        super().__init__("browser", f"known browser {audience}", keys, YEAR)

    def id_of(self, request: Request, login: str) -> str:
        """Return the id that the browser has for this login, or "" if it has none."""
        return self._ids(request).get(digest_of(login), "")

    def remember(self, request: Request, response: Response, login: str) -> None:
        """Set the cookie of a browser in which the login has succeeded."""
        ids = self._ids(request)
        digest = digest_of(login)
        own = ids.pop(digest, "") or secrets.token_urlsafe(12)
        newest = [*ids.items(), (digest, own)][-MOST_LOGINS:]
        self.set(request, response, self.serializer.dumps(dict(newest)))

    def _ids(self, request: Request) -> dict[str, str]:
        """Return the ids by the digests of the logins."""
        ids: dict[str, str] = {}
        for value in self.values(request):
            if isinstance(value, dict):
                ids |= value
        return ids
