"""``authenticate``: identifies the user of a request, and refuses views that the user may not call."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Literal, cast

from webob.exc import HTTPForbidden, HTTPUnauthorized, WSGIHTTPException
from zope.interface import Invalid
from zope.interface.verify import verifyObject

from pipeline.auth.authentication import AuthRequest, Basic, Header, Verifier, groups_of, refuse_odd
from pipeline.auth.ended import Ended
from pipeline.auth.limiter import Limiter
from pipeline.auth.policy import UNDECLARED, LoggedIn
from pipeline.composition import Offers, element
from pipeline.database.places import servers_of
from pipeline.http.encodings import make_private_for_user
from pipeline.http.origins import guard_end
from pipeline.interfaces import (
    PUBLIC,
    ConfigurationError,
    Facts,
    Handler,
    IAuthentication,
    ISecurityPolicy,
    OptionError,
)
from pipeline.options import resolve
from pipeline.request import SAFE_METHODS
from pipeline.response import OK, Response, check_header
from pipeline.views import View, Views

TAKEN = ("", "session_data", "browser")
"""Names of cookies that the login must not have."""
PATH = re.compile(r"(?!/|.*//)[\w@+.~%/-]+", re.ASCII)
"""A path from the root, with neither a slash before it nor an empty step."""


def _facts(
    *, by: tuple[str, ...], header: str, keys: str, limits: str, policy: Any, undeclared: str, **options: Any
) -> Facts:
    def why_refused(view: View, method: str, who: str) -> str:
        name = f"{view.function.__module__}.{view.function.__qualname__}"
        permitted_by = f"{policy.__module__}:{policy.__qualname__}" if hasattr(policy, "__qualname__") else policy
        if view.permission is not None:
            return f"{name} needs the permission {view.permission!r}, which {permitted_by} refuses to {who}"
        return (
            f"{name} declares no permission, so undeclared = {undeclared} counts: {method} needs what the policy "
            f"{permitted_by} permits as 'undeclared', which it refuses to {who}"
        )

    return Facts(
        writes=(keys,) if "session" in by and keys else (),
        servers=tuple(servers_of(limits)),
        user_headers=(header,) if "header" in by else (),
        why_refused=why_refused,
    )


@element(
    adds=AuthRequest,
    provides=("principal",),
    facts=_facts,
    inside={
        "errors": "a refused login is answered like any other error",
        "forms": "the token of a session may be a field of the form",
    },
    outside={"traverse": "placeful authentication works by traversal hook"},
)
def authenticate(
    next: Handler,
    *,
    check: Callable[[Any, str, str], str | None] | None = None,
    by: tuple[Literal["basic", "session", "header"], ...] = ("basic",),
    header: str = "X-Forwarded-User",
    trusted: tuple[str, ...] = (),
    realm: str = "site",
    keys: str = "",
    cookie: str = "pipeline_login",
    session_age: int = 8 * 3600,
    sessions: Callable[[Any], Ended] | None = None,
    groups: Callable[[Any], Any] | None = None,
    login: str = "@@login",
    failures: int = 10,
    interval: float = 30.0,
    limits: str = "",
    policy: Callable[[], Any] = LoggedIn,
    undeclared: Literal["read", "allow", "deny"] = "read",
    placeful: bool = False,
) -> Offers:
    """Identify the user, ask for a login where one is needed, and refuse views that the user may not call.

    check        dotted name of ``(request, login, password) -> principal or None``. A site whose users all log in
                 elsewhere (``pipeline.auth.login.begin_session``) has none, and a ``realm`` of its own
    by           authentication methods, in the order in which they are tried: basic (RFC 7617), session (a signed
                 cookie), header. With ``session basic`` browsers get a login page, and programs send a password
    header       name of the header in which a proxy for single sign-on sends the user (header)
    trusted      peers whose header is believed: addresses and networks of the proxy, or unix. The header of all
                 others is dropped. The proxy must remove it from the requests of visitors
    realm        name that a browser shows in its login dialogue (basic)
    keys         file with the keys that sign sessions, one per line, the newest last; made if it is missing. A
                 login counts wherever keys, ``check`` and ``realm`` are the same: sites with the same ``check`` and
                 users of their own need keys or a realm of their own (S27)
    cookie       name of the cookie of a session. Under https it has the prefix ``__Host-``
    session_age  seconds after which a session ends
    sessions     dotted name of ``(request) -> mapping of str to str`` in the database of the site, which remembers
                 what ends sessions earlier: a logout, a logout everywhere, a new password, the removal of a user
                 (``pipeline.auth.ended.end_sessions``). Without it a copy of a cookie is valid until session_age
    groups       dotted name of ``(request) -> names of the groups of request.principal``, asked once for a request,
                 and only if a policy needs them. Default: the list ``groups`` in the claims of the session
    login        path of the login page, from the root; ``pipeline.auth.login`` has one for ``scan`` to register
    failures     number of logins that may fail in a row: for one account, for one address (a /64 of IPv6), and for
                 a browser or an address from which the account has logged in
    interval     seconds to wait after that many failures; then one more attempt is allowed
    limits       URI of a store in which several processes count failed logins together, such as
                 ``redis://127.0.0.1:6379/0`` (extra ``limits``); default: each process counts by itself
    policy       dotted name of ISecurityPolicy: pipeline.auth.policy:LoggedIn or pipeline.auth.policy:LocalGrants
    undeclared   access to views without a permission: allow (every client), deny (principals to whom the policy
                 permits "undeclared"), read (every client by GET and HEAD, and else as deny)
    placeful     whether objects on the path may have, or be, an IAuthentication of their own

    Sets ``request.principal`` and ``REMOTE_USER``. A ``REMOTE_USER`` from outside is dropped, since some servers
    copy it unverified. A wrong password is not an error by itself: the request goes on without a principal.
    No shared cache stores an answer to a user (``Cache-Control: private``), unless the view says ``public``.
    """
    if not by:
        raise ConfigurationError("authenticate: option 'by' is empty; it takes basic, session and header")
    if ("header" in by) != bool(trusted):
        raise ConfigurationError("authenticate: by = header and the option trusted, the peers, go together")
    if check is None and ("basic" in by or (realm == "site" and "session" in by)):
        raise OptionError(
            "authenticate needs the option 'check'. A site whose users have no password here has session or header "
            "in 'by', and its own name in 'realm': sessions of sites with the same keys are told apart by it (S27)"
        )
    audience = f"{realm} {getattr(check, '__module__', '')}:{getattr(check, '__qualname__', '')}"
    session = browsers = None
    if "session" in by:
        session, browsers = _session(keys, session_age, login, sessions, audience, cookie)
    verify = Verifier(check or (lambda *login: None), _limiter(failures, interval, limits), browsers, audience)
    try:
        by_header = Header(header, trusted) if trusted else None
    except ValueError as error:
        raise OptionError(f"authenticate: option 'trusted' or 'header': {error}") from None
    ways: dict[str, Any] = {"session": session, "header": by_header, "basic": Basic(verify, realm)}
    handler = _handler(next, [ways[way] for way in by], by_header, placeful)
    authorize, told = authorizer(policy, undeclared), partial(groups_of, otherwise=groups)
    return Offers(handler, authorize=authorize, verify=verify, login_session=session, groups=told)


def _handler(next: Handler, shipped: list[Any], by_header: Header | None, placeful: bool) -> Handler:
    """Return the handler of the element."""

    @cache
    def authenticators_for(views: Views | None) -> list[Any]:
        """Return the utilities of the views, and then those of the option ``by``."""
        ours = () if views is None or IAuthentication not in views.adapted else views.utilities(IAuthentication)
        return [*ours, *shipped] if ours else shipped

    def authenticate(request: AuthRequest, response: Response) -> None:
        environ = request.environ
        if "REMOTE_USER" in environ:
            del environ["REMOTE_USER"]
        has_header = by_header is not None and by_header.drop(environ)
        views = request.views
        authenticators = authenticators_for(views)
        if views is None and environ["REQUEST_METHOD"] not in SAFE_METHODS:
            guard_end(request)  # S23
        try:
            if (
                "HTTP_AUTHORIZATION" in environ
                or "HTTP_COOKIE" in environ
                or has_header
                or authenticators is not shipped
            ):
                identify(request, authenticators)
            if placeful:
                request.add_traversal_hook(identify_here)
            next(request, response)
        except HTTPUnauthorized as error:
            raise challenge(request, error, authenticators) from None
        if response.status_line is not OK and response.status_line[:3] == "401":
            challenge_answer(request, response, authenticators)
        make_private_for_user(request, response)

    return authenticate


def authorizer(
    policy: Callable[[], Any], undeclared: Literal["read", "allow", "deny"]
) -> Callable[[Any, View], None]:
    """Return the function that refuses a view that the policy does not permit."""
    decide = policy()
    try:
        verifyObject(ISecurityPolicy, decide)
    except Invalid as error:
        raise ConfigurationError(
            f"authenticate: option 'policy': {policy!r} returns an object that does not provide ISecurityPolicy: "
            f"{error}"
        ) from None
    other = "" if getattr(decide, "asks_the_database_alone", False) else type(decide).__qualname__
    allow_undeclared = undeclared == "allow"
    methods_undeclared = SAFE_METHODS if undeclared == "read" else frozenset[str]()

    def authorize(request: AuthRequest, view: View) -> None:
        permission = view.permission
        if permission is None:
            if allow_undeclared or request.environ["REQUEST_METHOD"] in methods_undeclared:
                return
            permission = UNDECLARED
        elif permission == PUBLIC:
            return
        if other:
            request.other_sources = other
        if decide.permits(request, permission, request.context) is not True:
            if request.principal is None:
                raise HTTPUnauthorized("This needs a login.")
            raise HTTPForbidden("You may not do this.")

    return authorize


def _limiter(failures: int, interval: float, uri: str) -> Limiter:
    """Return the ``Limiter``. The shared count needs an extra, so it is imported only if it is configured."""
    if not uri:
        return Limiter(failures, interval)
    try:
        shared = resolve("pipeline.auth.shared_limits:SharedLimits")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"authenticate: option 'limits' needs {error.name}. Install it: pip install 'wsgi-pipeline[limits]'"
        ) from error
    return Limiter(failures, interval, shared=shared(uri, failures, failures * interval))


def _session(
    keys: str, age: int, login: str, ended: Callable[[Any], Ended] | None, audience: str, cookie: str
) -> tuple[Any, Any]:
    """Return ``Session`` and ``KnownBrowsers``. They need an extra, so they are imported only if they are used."""
    if not keys:
        raise ConfigurationError("authenticate: sessions need the option 'keys', the path of a file")
    if not PATH.fullmatch(login):
        raise ConfigurationError(f"authenticate: option 'login': {login!r} is not a path from the root: @@login")
    if cookie in TAKEN:
        raise ConfigurationError(f"authenticate: option 'cookie': {cookie!r} is the name of another cookie of ours")
    check_header(cookie, "")
    session, browsers = resolve("pipeline.auth.sessions:Session"), resolve("pipeline.auth.browsers:KnownBrowsers")
    read = resolve("pipeline.auth.keys:read_keys")(keys)
    return session(read, age, login, ended, audience, cookie), browsers(read, audience)


def identify(request: AuthRequest, authenticators: Any) -> None:
    """Put the principal on the request. The first authenticator that finds one counts."""
    before = request.__dict__.pop("claims", None)  # if another principal is found, they are not those of this one
    for authenticator in authenticators:
        principal = authenticator.identify(request)
        if principal is not None:
            refuse_odd(principal, authenticator)
            request.principal, request.identified_by = principal, authenticator
            request.__dict__.pop("groups", None)
            # The environ holds UTF-8 decoded as latin-1 (PEP 3333).
            request.environ["REMOTE_USER"] = principal.encode(errors="replace").decode("latin-1")
            return
    if before is not None:
        request.claims = before


def identify_here(request: AuthRequest, obj: Any) -> None:
    """Put the principal on the request that an IAuthentication of the object finds. This is a traversal hook."""
    if request.views is not None:
        local = request.views.adapt(obj, IAuthentication)
        if local is not None:
            request.local_authentication = local
            identify(request, [local])


def challenge(request: AuthRequest, error: WSGIHTTPException, authenticators: list[Any]) -> Any:
    """Return the answer that asks for a login.

    The authentication of the place adds to the error, or else all authenticators do. The first that returns another
    exception decides the answer.
    """
    local = request.local_authentication
    for authenticator in authenticators if local is None else [local]:
        answer = authenticator.challenge(request, error)
        if answer is not error:
            cast(Any, request)._stands_for_error = True  # a redirect is not what the view answered (R3)
            return answer
    return error


def challenge_answer(request: AuthRequest, response: Response, authenticators: list[Any]) -> None:
    """Add the header that asks for a login to a 401 of a view, or raise the answer of an authenticator."""
    answer = HTTPUnauthorized()
    challenged = challenge(request, answer, authenticators)
    if challenged is not answer:
        raise challenged
    for name, value in answer.headerlist:
        if name.lower() == "www-authenticate":
            response.headers.setdefault(name, value)
