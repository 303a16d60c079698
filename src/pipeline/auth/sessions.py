"""Signed cookies, and the sessions of logins. Needs the extra ``auth``."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from itsdangerous import BadData, URLSafeTimedSerializer
from webob import Response as AnyResponse
from webob.exc import (
    HTTPBadRequest,
    HTTPException,
    HTTPForbidden,
    HTTPSeeOther,
    HTTPUnauthorized,
    WSGIHTTPException,
)
from zope.interface import implementer

from pipeline.auth.authentication import AuthRequest, begin_session
from pipeline.auth.ended import Ended, end_session, end_sessions, generation_of, has_ended
from pipeline.cookies import cookies_of
from pipeline.http.encodings import make_private
from pipeline.http.hosts import MOUNTED
from pipeline.interfaces import IAuthentication, OptionError
from pipeline.request import PATH_SAFE, SAFE_METHODS, Request
from pipeline.response import Response

AHEAD = 3600
"""Seconds by which a cookie may be signed in the future, but no more than its age. Without them a clock that is set
back would log out every visitor, and an instance would refuse what another one, a moment ahead, has signed."""
BEHIND = 60
"""Seconds for which a cookie is accepted when it has expired, since the clocks of two instances differ."""
_IN_A_PATH = "/" + PATH_SAFE.replace(";", "")
"""Characters that a browser does not quote in a path, and so compares as they are with the path of a cookie."""


class LostToken(HTTPForbidden):
    """A request of a session without the token of the session."""

    remedy = (
        "The request has no token of the session. Put request.csrf_token into the form as its field csrf_token; a "
        "program sends it as X-CSRF-Token."
    )


class SignedCookie:
    """A cookie with a JSON value that only this site can make. The server keeps nothing.

    The last of the ``keys`` signs, and the signature of each of them is accepted. To replace a key, add a new one.
    Drop the old key ``age`` seconds later, when no cookie of it is valid any more.
    """

    def __init__(self, name: str, purpose: str, keys: Sequence[str], age: int) -> None:
        if age <= 0:
            raise OptionError(f"the cookie {name!r} must last longer than {age} seconds: browsers drop it at once")
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

    def values(self, request: Request, name: str = "") -> Iterator[Any]:
        """Yield the value of each valid cookie of the name. A sibling domain may have planted another one."""
        for cookie in cookies_of(request.environ, name or self.name_for(request)):
            try:
                value, signed = self.loads(cookie)
            except (BadData, ValueError, TypeError):
                continue
            if -min(AHEAD, self.age) <= int(time.time()) - signed <= self.age + BEHIND:
                yield value

    def name_for(self, request: Request) -> str:
        """Return the name of the cookie.

        Under https the name has a prefix, and a browser accepts such a cookie from this host only, and not from a
        sibling domain (RFC 6265bis section 4.1.3.2). Such a cookie has the path "/", so the name distinguishes the
        sites of one host.
        """
        if request.environ["wsgi.url_scheme"] != "https":
            return self.name
        mounted = _mounted(request).encode(errors="replace")
        name = f"__Host-{self.name}"
        return f"{name}-{hashlib.sha256(mounted).hexdigest()[:16]}" if mounted else name

    def set(self, request: Request, response: AnyResponse, text: str, name: str = "") -> None:
        """Set the cookie to a text that ``serializer.dumps`` returned. An empty text deletes the cookie."""
        make_private(response)
        https = request.scheme == "https"
        response.set_cookie(
            name or self.name_for(request),
            text,
            max_age=self.age if text else 0,
            path="/" if https else _quoted(_mounted(request), _IN_A_PATH) or "/",
            secure=https,
            httponly=True,
            samesite="Lax",
        )


def _mounted(request: Request) -> str:
    """Return the path of the application, without a namespace at the start of the path such as ``++lang++de``."""
    environ = request.environ
    return str(environ.get(MOUNTED, environ.get("SCRIPT_NAME", "")))


def refuse_other_keys(said: str, value: Any) -> None:
    """Raise TypeError for a dict in a value with a key that is not a text, since JSON makes a text of it.

    said  what the value is, for the message
    """
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise TypeError(f"{said} has a dict with the key {name!r}, of which JSON would make a text")
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for one in value:
            refuse_other_keys(said, one)


LONGEST_COOKIE = 3_500
"""Bytes of the value of a cookie with claims. Browsers drop a cookie of more than 4,096 in all."""


@implementer(IAuthentication)
class Session(SignedCookie):
    """The session of a login, in a signed cookie: the principal, a token, and the generation of the principal.

    ended  ``(request) -> mapping``, which has what ends a session before its time (``pipeline.auth.ended``).
           Without it a copy of the cookie is valid until its age is over
    audience  the site whose users these are: a cookie of another one with the same keys is not valid (S27)
    cookie    name of the cookie. Under https it has a prefix
    """

    COOKIE = "pipeline_login"
    """The default name. ``session`` is that of Flask, Pyramid and Starlette, which would log out our user."""

    def __init__(
        self,
        keys: Sequence[str],
        age: int,
        login: str,
        ended: Callable[[Any], Ended] | None = None,
        audience: str = "",
        cookie: str = COOKIE,
    ) -> None:
        super().__init__(cookie, f"session {audience}", keys, age)
        # Remembered, so that a signature is verified once and not for each request. The age is judged each time.
        self.loads = lru_cache(maxsize=4096)(super().loads)  # type: ignore[method-assign]
        self.login = login
        self.ended = ended

    def identify(self, request: AuthRequest) -> str | None:
        for principal, token, claims in self.sent(request):
            request.csrf_token = token
            if claims:
                request.claims = deepcopy(claims)  # those of the verified cookie serve other requests
            if request.environ["REQUEST_METHOD"] not in SAFE_METHODS:
                self.refuse_without_token(request, token)
            return principal
        return None

    def sent(self, request: Request) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield principal, token and claims of each session that the browser has sent, and that goes on (S21)."""
        for value in self.values(request):
            match value:
                case [str(principal), str(token), int(generation)]:
                    claims: dict[str, Any] = {}
                case [str(principal), str(token), int(generation), dict(claims)]:
                    pass
                case _:
                    continue
            if self.ended is None or not has_ended(self.ended(request), principal, token, generation):
                yield principal, token, claims

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

    def remember(
        self, request: Request, response: Response, principal: str, claims: Mapping[str, Any] | None = None
    ) -> None:
        """Begin a session for the principal, and end the one that the browser has sent: set the cookie (S21)."""
        for name, claim in (claims or {}).items():
            refuse_other_keys(f"claims[{name!r}]", claim)
        self._end_sent(request, everywhere=False)
        begin_session(request, principal)
        generation = 0 if self.ended is None else generation_of(self.ended(request), principal)
        value = (principal, secrets.token_urlsafe(18), generation, *([dict(claims)] if claims else ()))
        text = self.serializer.dumps(value)
        if len(text) > LONGEST_COOKIE:
            raise ValueError(f"the session has {len(text)} bytes with its claims, and {LONGEST_COOKIE} at most")
        self.set(request, response, text)

    def forget(self, request: Request, response: Response, everywhere: bool = False) -> None:
        """End the session, and delete its cookie (S21).

        everywhere  whether all sessions of the principal end, those of other browsers too. Raises HTTPBadRequest
                    if the site does not remember what has ended
        """
        if everywhere and self.ended is None:
            raise HTTPBadRequest("This site cannot log you out everywhere: authenticate has no option 'sessions'.")
        self._end_sent(request, everywhere)
        begin_session(request, None)
        self.set(request, response, "")

    def _end_sent(self, request: Request, everywhere: bool) -> None:
        """End the sessions that the browser has sent, so that a copy of a cookie is not valid any more."""
        if self.ended is not None:
            ended, until = self.ended(request), int(time.time()) + self.age + AHEAD + BEHIND
            for principal, token, _ in self.sent(request):
                if everywhere:
                    end_sessions(ended, principal)
                else:
                    end_session(ended, principal, token, until)

    def refuse_without_token(self, request: Request, token: str) -> None:
        """Raise HTTPForbidden if a request neither says where it comes from, as a browser does, nor has the token
        of the session, in the header ``X-CSRF-Token`` or the form field ``csrf_token``.

        A request of another site is refused by the end of the pipeline, which knows the view (S23).
        """
        if "HTTP_ORIGIN" in request.environ or "HTTP_SEC_FETCH_SITE" in request.environ:
            return
        sent = request.headers.get("X-CSRF-Token") or getattr(request, "form", {}).get("csrf_token", "")
        if not secrets.compare_digest(str(sent).encode(errors="replace"), token.encode()):
            raise LostToken("This form was not made by this site, or has lost its token.")


def address_of(environ: dict[str, Any]) -> str:
    """Return the path and the query of a request, for the way back to it."""
    path = _quoted(environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""), "/" + PATH_SAFE)
    query = environ.get("QUERY_STRING")
    return f"{path}?{query}" if query else path


def _quoted(text: str, safe: str = "/") -> str:
    """Quote a text of the environ, which has bytes as latin-1 that may not be valid UTF-8 (PEP 3333)."""
    return quote(text, safe=safe, encoding="latin-1", errors="replace")
