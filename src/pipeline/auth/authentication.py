"""HTTP basic authentication, and the code that it shares with other authentication methods."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

from webob.exc import HTTPBadRequest, HTTPException, WSGIHTTPException
from zope.interface import implementer

from pipeline.auth.limiter import Limiter
from pipeline.http.hosts import PEER, Peers, visitor_of
from pipeline.http.origins import LET_IN
from pipeline.interfaces import IAuthentication
from pipeline.request import Request, on_first_use
from pipeline.response import check_header

Check = Callable[[Any, str, str], "str | None"]

KNOWN_BROWSER = (
    "You need not wait in a browser where you have logged in with this name before, unless the wrong passwords "
    "were tried there."
)


class AuthRequest(Request):
    """The attributes that ``authenticate`` adds to a request."""

    __unkept__: Any = (  # each guess must be counted
        ("local_authentication", lambda local: "a folder's own users"),
        ("other_sources", lambda policy: f"the policy {policy} does not say that it asks the database alone"),
        ("claims", lambda claims: "it may have used the claims of a session" if claims else ""),
        ("groups", lambda groups: "it asked for the groups of its visitor"),
        ("identified_by", lambda authenticator: ""),
        ("refused_logins", lambda refused: "a login was refused" if refused else ""),
    )
    verify: Verifier | None = None
    """``(request, login, password)`` returns the principal or None, for login pages. Guessing is limited."""
    login_session: Any = None
    """The ``pipeline.auth.sessions.Session`` that begins and ends sessions, or None; for login pages."""
    csrf_token: str | None = None
    """The token that a form of this session sends back in its field ``csrf_token``."""
    claims: Mapping[str, Any] = MappingProxyType({})
    """Facts of the user that ``begin_session`` was given, such as an address or groups. The cookie is signed, and
    its visitor can read it."""
    groups: frozenset[str] = on_first_use()
    """The names of the groups that the principal is in: those that the IAuthentication tells which has identified
    it, or the option ``groups`` of ``authenticate``, or else its claim ``groups``."""
    identified_by: Any = None
    """The IAuthentication that has identified the principal."""
    local_authentication: Any = None
    """The IAuthentication of the place that traversal has reached, if it has one."""
    other_sources: str = ""
    """The policy that was asked, unless it says that it asks the database alone."""
    refused_logins: tuple[Callable[[], None], ...] = ()
    """Undo functions, called when a folder's own users accept a login that the site refused."""


def begin_session(request: Request, principal: str | None) -> None:
    """Tell the elements of the pipeline that a login begins a new session of the visitor, or that a logout does
    (None). Call this where a site has a login of its own."""
    if request.pipeline is not None:
        for contract in request.pipeline.linked:
            if contract.new_session is not None:
                contract.new_session(request, principal)


class Verifier:
    """``(request, login, password) -> principal or None``: the application's check, limited per account
    and per address. ``browsers`` (``pipeline.auth.browsers.KnownBrowsers``) tells the browsers of each account,
    and ``audience`` the site whose users these are (S27)."""

    def __init__(self, check: Check, limiter: Limiter, browsers: Any = None, audience: str = "") -> None:
        self.check = check
        self.limiter = limiter
        self.browsers = browsers
        self.audience = audience
        self.refused: WeakKeyDictionary[Request, frozenset[tuple[str, str]]] = WeakKeyDictionary()
        """Refused logins and passwords of each request: a further attempt at it (R2) makes no further guess."""

    def __call__(self, request: AuthRequest, login: str, password: str) -> str | None:
        visitor = visitor_of(request.environ)
        browser = self.browsers.id_of(request, login) if self.browsers is not None else ""
        keys = self.limiter.keys_of(login, visitor, browser)
        known = self.refused.get(request, frozenset())
        is_guess = (login, password) not in known
        if is_guess:
            self.limiter.admit(keys, KNOWN_BROWSER if self.browsers is not None else "")
        principal: object = self.check(request, login, password)
        if isinstance(principal, str) and principal:
            self.limiter.succeeded(login, visitor)
            return principal
        forgiven: list[bool] = []

        def forgive() -> None:
            forgiven.append(True)
            self.limiter.succeeded(login, visitor)

        def count() -> None:  # at the end: to forgive what is counted needs a store that can count down
            if not forgiven:
                self.limiter.failed(keys)

        if is_guess:
            self.refused[request] = known | {(login, password)}
            request.on_close(count)
        request.refused_logins = (*request.refused_logins, forgive)
        if principal is not None:
            refuse_odd(principal, self.check)
        return None


def refuse_odd(principal: object, source: Any) -> None:
    """Raise TypeError for a principal that is not a name. It names the function or class that returned the value,
    and does not quote the value, which may be a record of the user with secrets (S25)."""
    if not isinstance(principal, str) or not principal:
        name = source if hasattr(source, "__qualname__") else type(source)
        raise TypeError(
            f"{name.__module__}.{name.__qualname__} returned a {type(principal).__name__}, and a principal is a "
            f"str that is not empty: it must return the name of the user, or None to refuse the login"
        )


def groups_of(request: AuthRequest, otherwise: Callable[[Any], Any] | None) -> frozenset[str]:
    """Return the names of the groups of a principal.

    otherwise  the option ``groups``, for an IAuthentication that tells none
    """
    if request.principal is None:
        return frozenset()
    tell = getattr(request.identified_by, "groups", None) or otherwise
    found = request.claims.get("groups", ()) if tell is None else tell(request)
    if isinstance(found, str) or not all(isinstance(name, str) for name in found):
        raise TypeError(f"the groups of {request.principal!r} must be a list or set of names, not {found!r:.200}")
    return frozenset(found)


@implementer(IAuthentication)
class Basic:
    """HTTP basic authentication (RFC 7617).

    A place with users of its own checks the same header after the site. A login that the place accepts was not a
    guess, although the site refused it.
    """

    def __init__(self, verify: Check, realm: str) -> None:
        self.verify = verify
        self.header = f'Basic realm="{quoted(realm)}", charset="UTF-8"'
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
        return principal

    def challenge(self, request: Request, error: WSGIHTTPException) -> HTTPException:
        if "WWW-Authenticate" not in error.headers:
            error.headers["WWW-Authenticate"] = self.header
        return error


@implementer(IAuthentication)
class Header:
    """The name of the user in a header that a trusted peer has set, such as a proxy for single sign-on (S13)."""

    def __init__(self, name: str, trusted: Sequence[str]) -> None:
        check_header(name, "")
        self.key = f"HTTP_{name.upper().replace('-', '_')}"
        self.peers = Peers(trusted)

    def drop(self, environ: dict[str, Any]) -> bool:
        """Return whether a trusted peer names a user, as it was shown what a browser adds by itself, like a cookie:
        a script that ``cors`` let in without cookies is not any more (S23). Drop the header of any other peer."""
        if not self.peers[environ.get(PEER, environ.get("REMOTE_ADDR", ""))]:
            environ.pop(self.key, None)
        has_user = bool(environ.get(self.key, "").strip(" \t"))
        if has_user and not environ.get(LET_IN):
            environ.pop(LET_IN, None)
        return has_user

    def identify(self, request: AuthRequest) -> str | None:
        sent: str = request.environ.get(self.key, "")
        try:
            return sent.encode("latin-1").decode("utf-8").strip(" \t") or None
        except UnicodeError:
            raise HTTPBadRequest("The name of the user is not UTF-8.") from None

    def challenge(self, request: Request, error: WSGIHTTPException) -> HTTPException:
        return error


def quoted(text: str) -> str:
    """Return a text as it stands between quotes in a header."""
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
