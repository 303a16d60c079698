"""Views for login and logout: by a session if the site has sessions, or else by HTTP basic."""

from __future__ import annotations

from webob.exc import HTTPTooManyRequests, HTTPUnauthorized

from pipeline import Response, redirect, view
from pipeline.auth.authentication import AuthRequest
from pipeline.auth.login import fields, log_in, log_out, way_back
from pipeline.auth.sessions import address_of
from pipeline.http.error_pages import best_type
from pipeline.interfaces import PUBLIC
from pipeline_demo.models import Folder
from pipeline_demo.request import ErrorRequest, PageRequest
from pipeline_demo.tokens import FIELD
from pipeline_demo.views.errors import error
from pipeline_demo.views.kept import KEPT, Fields, keep, kept_for
from pipeline_demo.views.page import answer, page_of, say, top_of

WRONG = "Name or password is wrong."
ENDED = "You are not logged in, or no longer. Nothing was changed. Your input is there again after the login."


@view(context=Folder, name="login", permission=PUBLIC)
def login_form(context: Folder, request: PageRequest, response: Response) -> object:
    """Show the page for name and password. Without sessions, and in a folder with users of its own, the browser
    shows its own dialogue. It then sends the password with every later request below this address."""
    came_from = fields(request).get("came_from", "")
    if request.principal is not None:
        return way_back(request, came_from or page_of(request, context))
    if request.login_session is None or request.local_authentication is not None:
        raise HTTPUnauthorized("This needs a login.")
    return login_page(request, response, came_from)


@view(context=Folder, name="login", methods=("POST",), permission=PUBLIC)
def login(context: Folder, request: PageRequest, response: Response) -> object:
    """Begin a session, and lead the visitor back to the page where they came from, or to the form that they
    sent."""
    form = fields(request)
    name, came_from, kept = form.get("login", ""), form.get("came_from", ""), form.get(KEPT, "")
    try:
        if log_in(request, response, name, form.get("password", "")):
            say(request, f"You are logged in as {name}.")
            back = way_back(request, came_from)
            typed = kept_for(request, name, kept)
            return send_again(request, response, name, back.headers["Location"], typed) if typed else back
    except HTTPTooManyRequests as refused:
        response.status_int = refused.status_int
        response.headers["Retry-After"] = refused.headers["Retry-After"]
        why = str(refused.detail)
        return login_page(request, response, came_from, name, why, kept, title="Please wait a moment")
    response.status_int = 422
    return login_page(request, response, came_from, name, WRONG, kept)


@view(context=Folder, name="logout", methods=("POST",), permission=PUBLIC)
def logout(context: Folder, request: PageRequest, response: Response) -> object:
    """End the session. With the field ``everywhere`` all sessions of the user end."""
    everywhere = bool(fields(request).get("everywhere"))
    log_out(request, response, everywhere=everywhere)
    say(request, "You are logged out everywhere." if everywhere else "You are logged out.")
    return redirect(page_of(request, top_of(request)), 303)


@view(context=HTTPUnauthorized)
def unauthorized(context: HTTPUnauthorized, request: ErrorRequest, response: Response) -> object:
    """Show the login page for a form whose session has ended. Otherwise show the error page."""
    accept = request.headers.get("Accept")
    kept = keep(request) if best_type(accept) == "text/html" else None
    if kept is None:
        return error(context, request, response)
    back = address_of(request.environ)
    return login_page(request, response, back, wrong=ENDED, kept=kept, title="Please log in")


def login_page(
    request: AuthRequest,
    response: Response,
    came_from: str,
    name: str = "",
    wrong: str = "",
    kept: str = "",
    title: str = "Log in",
) -> object:
    """Return the page for name and password. ``kept`` has the fields of a form that it carries along."""
    page = answer(
        request,
        response,
        "login.html",
        {},
        came_from=came_from,
        kept=kept,
        name=name,
        title=title,
        wrong=wrong,
    )
    response.headers["Cache-Control"] = "no-store"
    return page


def send_again(request: AuthRequest, response: Response, name: str, address: str, typed: Fields) -> object:
    """Return the page with the fields that were typed before the login, to be sent to the address again."""
    request.principal = name  # for the top of the page; the session begins with the next request
    shown = [(field, value) for field, value in typed if value and field not in (FIELD, "revision")]
    page = answer(
        request,
        response,
        "send_again.html",
        {},
        address=address,
        shown=shown,
        title="What you typed",
        typed=typed,
    )
    response.headers["Cache-Control"] = "no-store"
    return page
