"""HTTP basic authentication, and the code that it shares with other authentication methods."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any

from webob.exc import HTTPException, HTTPForbidden, WSGIHTTPException
from zope.interface import implementer

from pipeline.auth.limiter import Limiter, keys_of
from pipeline.interfaces import IAuthentication
from pipeline.request import Request
from pipeline.response import check_header

Check = Callable[[Any, str, str], "str | None"]

SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS", "TRACE"))
"""Methods that change nothing (RFC 9110 section 9.2.1)."""


class AuthRequest(Request):
    """The attributes that ``authenticate`` adds to a request."""

    verify: Check | None = None
    """``(request, login, password)`` returns the principal or None, for login pages. Guessing is limited."""
    login_session: Any = None
    """The ``pipeline.auth.sessions.Session`` that begins and ends sessions, or None; for login pages."""
    csrf_token: str | None = None
    """The token that a form of this session sends back in its field ``csrf_token``."""
    local_authentication: Any = None
    """The IAuthentication of the place that traversal has reached, if it has one."""
    refused_logins: tuple[Callable[[], None], ...] = ()
    """Undo functions, called when a folder's own users accept a login that the site refused."""


class Verifier:
    """``(request, login, password) -> principal or None``: the application's check, limited per account
    and per address."""

    def __init__(self, check: Check, limiter: Limiter) -> None:
        self.check = check
        self.limiter = limiter

    def __call__(self, request: AuthRequest, login: str, password: str) -> str | None:
        keys = keys_of(login, request.environ.get("REMOTE_ADDR", ""))
        self.limiter.admit(keys)
        principal = self.check(request, login, password)
        if principal is None:
            refusal = Refusal(self.limiter, keys)
            request.on_close(refusal.count)
            request.refused_logins = (*request.refused_logins, refusal.forgive)
        return principal


class Refusal:
    """A login that was refused. It is counted as failed when the request is closed, unless it was forgiven.

    If it were counted at once, forgiving it would need a store that can count down, and not every store can.
    """

    def __init__(self, limiter: Limiter, keys: Sequence[str]) -> None:
        self.limiter = limiter
        self.keys = keys
        self.forgiven = False

    def forgive(self) -> None:
        self.forgiven = True

    def count(self) -> None:
        if not self.forgiven:
            self.limiter.failed(self.keys)


@implementer(IAuthentication)
class Basic:
    """HTTP basic authentication (RFC 7617).

    A place with users of its own checks the same header after the site. A login that the place accepts was not a
    guess, although the site refused it.
    """

    def __init__(self, verify: Check, realm: str) -> None:
        self.verify = verify
        self.header = f'Basic realm="{_quoted(realm)}", charset="UTF-8"'
        check_header("WWW-Authenticate", self.header)

    def identify(self, request: AuthRequest) -> str | None:
        header: str | None = request.environ.get("HTTP_AUTHORIZATION")
        if header is None or (credentials := _credentials(header)) is None:
            return None
        principal = self.verify(request, *credentials)
        if principal is None:
            return None
        for forgive in request.refused_logins:
            forgive()
        request.refused_logins = ()
        if request.method not in SAFE_METHODS and is_cross_site(request):
            # A browser sends the password with every request, also if another site made it send the request.
            raise HTTPForbidden("This request came from another site.")
        return principal

    def challenge(self, request: Request, error: WSGIHTTPException) -> HTTPException:
        if "WWW-Authenticate" not in error.headers:
            error.headers["WWW-Authenticate"] = self.header
        return error


def is_cross_site(request: Request) -> bool:
    """Return whether a browser says that another site made it send this request."""
    environ: dict[str, Any] = request.environ
    site = environ.get("HTTP_SEC_FETCH_SITE")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = environ.get("HTTP_ORIGIN")
    if origin is None:
        return False
    # host_url, since a browser leaves out the default port. The scheme is not compared: behind a proxy that
    # ``vhost`` does not trust, it differs from that of the browser.
    return bool(origin.partition("://")[2].lower() != request.host_url.partition("://")[2].lower())


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _credentials(header: str) -> tuple[str, str] | None:
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return None
    login, colon, password = text.partition(":")
    return (login, password) if colon else None
