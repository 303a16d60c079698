"""A login page and a logout for sessions. ``scan = pipeline.auth.login`` registers them for every object.

The page is plain on purpose. For another page, a site registers its own view ``login`` for its root, which calls
``log_in`` and ``way_back``.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from webob.exc import HTTPNotFound, HTTPTooManyRequests
from zope.interface import Interface

from pipeline.auth.authentication import AuthRequest
from pipeline.forms.fields import fields_of
from pipeline.http.origins import refuse_cross_site
from pipeline.http.redirects import redirect, refuse_leaving
from pipeline.interfaces import PUBLIC, UnsafeRedirect
from pipeline.request import Request
from pipeline.response import Response
from pipeline.views import view

MAX_BODY = 16 * 1024
"""Bytes of a login form that are read."""

_PAGE = Path(__file__).with_name("login.html").read_text("utf-8")


def _page(response: Response, came_from: str, login: str = "", message: str = "") -> str:
    response.headers["Cache-Control"] = "no-store"
    if message:
        message = f"<p role=\"alert\">{escape(message)}</p>"
    return _PAGE % {"message": message, "login": escape(login), "came_from": escape(came_from)}


def _session(request: Request) -> Any:
    if not isinstance(request, AuthRequest) or request.login_session is None:
        raise HTTPNotFound("This site has no sessions.")
    return request.login_session


def fields(request: Request) -> dict[str, str]:
    """Return the fields of the form. Without the element ``forms`` they are parsed here, up to MAX_BODY."""
    if (form := getattr(request, "form", None)) is not None:
        return {name: str(value) for name, value in form.items()}
    if request.method == "POST":
        return dict(fields_of(request.body_file.read(MAX_BODY).decode("latin-1")))
    return dict(fields_of(request.environ.get("QUERY_STRING", "")))


def log_in(request: AuthRequest, response: Response, name: str, password: str) -> bool:
    """Begin a session if the password is right. Return whether it is.

    Raises HTTPForbidden if another site sent this request, which could log a visitor in under another account.
    Raises HTTPTooManyRequests after too many wrong passwords. Its ``detail`` says why, and when to try again.
    """
    session = _session(request)
    refuse_cross_site(request)
    if (verify := request.verify) is None or (principal := verify(request, name, password)) is None:
        return False
    if verify.browsers is not None:
        verify.browsers.remember(request, response, name)
    session.remember(request, response, principal)
    return True


def begin_session(
    request: AuthRequest, response: Response, principal: str, claims: Mapping[str, Any] | None = None
) -> None:
    """Begin a session of a user whom someone else has authenticated: a provider (OIDC), a passkey, a link by mail.

    principal  id of the user
    claims     facts of the user that each request of the session has as ``request.claims``: values that JSON has,
               of some 3,000 bytes in all. The visitor can read them, and cannot change them

    The session that the browser had is ended (S21). The caller has made sure that this visitor, and no other site,
    has begun the login: by a ``state`` that was kept in ``request.session``, say. Raises HTTPNotFound if
    ``authenticate`` has no sessions, and ValueError for a principal that is not a name.
    """
    session = _session(request)
    if not isinstance(principal, str) or not principal:
        raise ValueError(f"begin_session takes the id of a user, a str, and not a {type(principal).__name__}")
    session.remember(request, response, principal, claims)


def log_out(request: Request, response: Response, *, everywhere: bool = False) -> None:
    """End the session. Raises HTTPForbidden if another site sent this request: the browser may not send the cookie
    of the session then, but would still delete it.

    everywhere  end all sessions of the principal, those of other browsers too. Raises HTTPBadRequest if
                ``authenticate`` has no option ``sessions``
    """
    session = _session(request)
    refuse_cross_site(request)
    session.forget(request, response, everywhere)


def way_back(request: Request, came_from: str) -> Any:
    """Return a redirect to the page where the visitor came from if it is in this site, else to the root (S8)."""
    try:
        refuse_leaving(came_from, request.host_url)
        return redirect(came_from or request.application_url + "/", 303)
    except UnsafeRedirect:
        return redirect(request.application_url + "/", 303)


@view(context=Interface, name="login", permission=PUBLIC)
def login_page(context: Any, request: Request, response: Response) -> str:
    """Ask for name and password."""
    _session(request)
    return _page(response, fields(request).get("came_from", ""))


@view(context=Interface, name="login", methods=("POST",), permission=PUBLIC)
def login(context: Any, request: AuthRequest, response: Response) -> Any:
    """Begin a session, and lead the visitor back to the page where they came from, within this site (S8)."""
    form = fields(request)
    name, came_from = form.get("login", ""), form.get("came_from", "")
    try:
        if log_in(request, response, name, form.get("password", "")):
            return way_back(request, came_from)
    except HTTPTooManyRequests as refused:
        response.status = 429
        response.headers["Retry-After"] = refused.headers["Retry-After"]
        return _page(response, came_from, name, str(refused.detail))
    response.status = 422
    return _page(response, came_from, name, "Name or password is wrong.")


@view(context=Interface, name="logout", methods=("POST",), permission=PUBLIC)
def logout(context: Any, request: Request, response: Response) -> Any:
    """End the session. With the field ``everywhere`` all sessions of the user end."""
    log_out(request, response, everywhere=bool(fields(request).get("everywhere")))
    return redirect(request.application_url + "/", 303)
