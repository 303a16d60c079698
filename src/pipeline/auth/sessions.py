"""Sessions in a signed cookie. Needs the extra ``auth``."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any
from urllib.parse import quote

from itsdangerous import BadData, URLSafeTimedSerializer
from webob.exc import HTTPException, HTTPForbidden, HTTPSeeOther, HTTPUnauthorized, WSGIHTTPException
from zope.interface import implementer

from pipeline.auth.authentication import SAFE_METHODS, AuthRequest, is_cross_site
from pipeline.http.cookies import cookies_of
from pipeline.interfaces import IAuthentication
from pipeline.request import PATH_SAFE, Request
from pipeline.response import Response


@implementer(IAuthentication)
class Session:
    """A session in a signed cookie: the principal and a token. The server keeps nothing.

    The cookie is signed by the last of the ``keys``; the signature of each of them is good, so that a key is
    replaced by adding one, and dropped when ``age`` seconds later no session of it is left.
    """

    COOKIE = "session"
    """Name of the cookie; under https it has a prefix."""

    def __init__(self, keys: Sequence[str], age: int, login: str) -> None:
        self.serializer = URLSafeTimedSerializer(
            list(keys), salt="wsgi-pipeline session", signer_kwargs={"digest_method": hashlib.sha256}
        )
        self.verified = lru_cache(maxsize=4096)(partial(self.serializer.loads, return_timestamp=True))
        """What a cookie with a good signature says, and the time at which it was signed. It is remembered, so that
        the signature of a cookie is computed once and not for each request. The age is judged each time."""
        self.age = age
        self.login = login

    def identify(self, request: AuthRequest) -> str | None:
        # The first one that is good: another one may have been planted by a sibling domain.
        for cookie in cookies_of(request.environ, self._cookie_of(request)):
            try:
                (principal, token), signed = self.verified(cookie)
            except (BadData, ValueError, TypeError):
                continue
            is_current = 0 <= int(time.time()) - signed.timestamp() <= self.age
            if is_current and isinstance(principal, str) and isinstance(token, str):
                request.csrf_token = token
                if request.environ["REQUEST_METHOD"] not in SAFE_METHODS:
                    self.refuse_forgery(request, token)
                return principal
        return None

    def challenge(self, request: Request, error: WSGIHTTPException) -> HTTPException:
        """Lead a browser to the login page, with the way back. A POST cannot be repeated after the login, so it
        gets the 401, and without a challenge: at one of those a browser would ask for a password itself."""
        environ = request.environ
        if "text/html" not in environ.get("HTTP_ACCEPT", ""):
            return error
        if request.method not in ("GET", "HEAD"):
            return HTTPUnauthorized("You are not logged in, or no longer. Nothing was changed.")
        site = _quoted(environ.get("SCRIPT_NAME", ""), "/" + PATH_SAFE)
        return HTTPSeeOther(location=f"{site}/{self.login}?came_from={_quoted(address_of(environ))}")

    def remember(self, request: Request, response: Response, principal: str) -> None:
        """Begin a session for the principal: set its cookie."""
        token = secrets.token_urlsafe(18)
        self._set(request, response, self.serializer.dumps((principal, token)), self.age)

    def forget(self, request: Request, response: Response) -> None:
        """End the session: delete its cookie."""
        self._set(request, response, "", 0)

    def refuse_forgery(self, request: Request, token: str | None) -> None:
        """Raise HTTPForbidden for an unsafe request that another site may have made a browser send.

        A browser says where a request comes from. A client that does not say it must send the session's token,
        in the header ``X-CSRF-Token`` or the form field ``csrf_token``.
        """
        self.refuse_cross_site(request)
        if "HTTP_ORIGIN" in request.environ or "HTTP_SEC_FETCH_SITE" in request.environ:
            return
        sent = request.headers.get("X-CSRF-Token") or getattr(request, "form", {}).get("csrf_token", "")
        if token is None or not secrets.compare_digest(str(sent).encode(errors="replace"), token.encode()):
            raise HTTPForbidden("This form was not made by this site, or has lost its token.")

    def refuse_cross_site(self, request: Request) -> None:
        """Raise HTTPForbidden if a browser says that another site made it send this request."""
        if is_cross_site(request):
            raise HTTPForbidden("This request came from another site.")

    def _cookie_of(self, request: Request) -> str:
        """Return the name of the cookie.

        Under https it has the prefix by which a browser takes the cookie from this host alone, and from no
        sibling domain (RFC 6265bis section 4.1.3.2). Such a cookie has the path "/", so the name tells the
        sites of one host apart.
        """
        if request.environ["wsgi.url_scheme"] != "https":
            return self.COOKIE
        mounted = request.environ.get("SCRIPT_NAME", "").encode(errors="replace")
        name = f"__Host-{self.COOKIE}"
        return f"{name}-{hashlib.sha256(mounted).hexdigest()[:16]}" if mounted else name

    def _set(self, request: Request, response: Response, value: str, age: int) -> None:
        https = request.scheme == "https"
        response.set_cookie(
            self._cookie_of(request),
            value,
            max_age=age,
            path="/" if https else _quoted(request.environ.get("SCRIPT_NAME", "")) or "/",
            secure=https,
            httponly=True,
            samesite="Lax",
        )


def address_of(environ: dict[str, Any]) -> str:
    """Return the path and the query of a request, for the way back to it."""
    path = _quoted(environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""), "/" + PATH_SAFE)
    query = environ.get("QUERY_STRING")
    return f"{path}?{query}" if query else path


def _quoted(text: str, safe: str = "/") -> str:
    """Quote a text of the environ, where bytes stand as latin-1, and need not be UTF-8 (PEP 3333)."""
    return quote(text, safe=safe, encoding="latin-1", errors="replace")
