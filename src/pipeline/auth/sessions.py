"""Signed cookies, and the sessions of logins. Needs the extra ``auth``."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from itsdangerous import BadData, URLSafeTimedSerializer
from webob import Response as AnyResponse
from webob.exc import HTTPException, HTTPForbidden, HTTPSeeOther, HTTPUnauthorized, WSGIHTTPException
from zope.interface import implementer

from pipeline.auth.authentication import SAFE_METHODS, AuthRequest, is_cross_site
from pipeline.http.cookies import cookies_of
from pipeline.interfaces import IAuthentication
from pipeline.request import PATH_SAFE, Request
from pipeline.response import Response


class SignedCookie:
    """A cookie with a JSON value that only this site can make. The server keeps nothing.

    The last of the ``keys`` signs, and the signature of each of them is accepted. To replace a key, add a new one.
    Drop the old key ``age`` seconds later, when no cookie of it is valid any more.
    """

    def __init__(self, name: str, purpose: str, keys: Sequence[str], age: int) -> None:
        self.name = name
        self.serializer = URLSafeTimedSerializer(
            list(keys), salt=f"wsgi-pipeline {purpose}", signer_kwargs={"digest_method": hashlib.sha256}
        )
        self.age = age

    def loads(self, cookie: str) -> tuple[Any, float]:
        """Return the value of a cookie, and the time at which it was signed. Raise BadData without a valid
        signature."""
        value, signed = self.serializer.loads(cookie, return_timestamp=True)
        return value, signed.timestamp()

    def values(self, request: Request) -> Iterator[Any]:
        """Yield the value of each valid cookie of the name. A sibling domain may have planted another one."""
        for cookie in cookies_of(request.environ, self.name_for(request)):
            try:
                value, signed = self.loads(cookie)
            except (BadData, ValueError, TypeError):
                continue
            if 0 <= int(time.time()) - signed <= self.age:
                yield value

    def name_for(self, request: Request) -> str:
        """Return the name of the cookie.

        Under https the name has a prefix, and a browser accepts such a cookie from this host only, and not from a
        sibling domain (RFC 6265bis section 4.1.3.2). Such a cookie has the path "/", so the name distinguishes the
        sites of one host.
        """
        if request.environ["wsgi.url_scheme"] != "https":
            return self.name
        mounted = request.environ.get("SCRIPT_NAME", "").encode(errors="replace")
        name = f"__Host-{self.name}"
        return f"{name}-{hashlib.sha256(mounted).hexdigest()[:16]}" if mounted else name

    def set(self, request: Request, response: AnyResponse, text: str) -> None:
        """Set the cookie to a text that ``serializer.dumps`` returned. An empty text deletes the cookie."""
        https = request.scheme == "https"
        response.set_cookie(
            self.name_for(request),
            text,
            max_age=self.age if text else 0,
            path="/" if https else _quoted(request.environ.get("SCRIPT_NAME", "")) or "/",
            secure=https,
            httponly=True,
            samesite="Lax",
        )


@implementer(IAuthentication)
class Session(SignedCookie):
    """The session of a login, in a signed cookie: the principal and a token."""

    COOKIE = "session"
    """Name of the cookie. Under https it has a prefix."""

    def __init__(self, keys: Sequence[str], age: int, login: str) -> None:
        super().__init__(self.COOKIE, "session", keys, age)
        # Remembered, so that a signature is verified once and not for each request. The age is judged each time.
        self.loads = lru_cache(maxsize=4096)(super().loads)  # type: ignore[method-assign]
        self.login = login

    def identify(self, request: AuthRequest) -> str | None:
        for value in self.values(request):
            match value:
                case [str(principal), str(token)]:
                    request.csrf_token = token
                    if request.environ["REQUEST_METHOD"] not in SAFE_METHODS:
                        self.refuse_forgery(request, token)
                    return principal
        return None

    def challenge(self, request: Request, error: WSGIHTTPException) -> HTTPException:
        """Redirect a browser to the login page, with the way back. A POST cannot be repeated after the login, so it
        gets the 401. The 401 has no challenge, because a browser would answer that with its own dialogue."""
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
        self.set(request, response, self.serializer.dumps((principal, token)))

    def forget(self, request: Request, response: Response) -> None:
        """End the session: delete its cookie."""
        self.set(request, response, "")

    def refuse_forgery(self, request: Request, token: str | None) -> None:
        """Raise HTTPForbidden for an unsafe request that another site may have made a browser send.

        A browser sends headers that say where a request comes from. A client without these headers must send the
        token of the session, in the header ``X-CSRF-Token`` or the form field ``csrf_token``.
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


def address_of(environ: dict[str, Any]) -> str:
    """Return the path and the query of a request, for the way back to it."""
    path = _quoted(environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""), "/" + PATH_SAFE)
    query = environ.get("QUERY_STRING")
    return f"{path}?{query}" if query else path


def _quoted(text: str, safe: str = "/") -> str:
    """Quote a text of the environ, which has bytes as latin-1 that may not be valid UTF-8 (PEP 3333)."""
    return quote(text, safe=safe, encoding="latin-1", errors="replace")
