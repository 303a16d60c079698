"""Logging in and out: by a session where the site has them, or else by HTTP basic."""

from __future__ import annotations

from webob.exc import HTTPUnauthorized

from pipeline import Request, Response, redirect, view
from pipeline.auth.login import fields, log_in, log_out, way_back
from pipeline.demo.models import Folder
from pipeline.demo.views.page import answer, page_of, top_of
from pipeline.interfaces import PUBLIC

WRONG = "Name or password is wrong."


@view(context=Folder, name="login", permission=PUBLIC)
def login_form(context: Folder, request: Request, response: Response) -> object:
    """The page that asks for name and password. Where there are no sessions, and in a folder with users of
    its own, the browser asks; being asked here, it sends the password with every later request below."""
    came_from = fields(request).get("came_from", "")
    if request.principal is not None:
        return way_back(request, came_from or page_of(request, context))
    if request.session is None or request.local_authentication is not None:
        raise HTTPUnauthorized("This needs a login.")
    return answer(request, response, "login.html", {}, title="Log in", came_from=came_from, name="", wrong="")


@view(context=Folder, name="login", methods=("POST",), permission=PUBLIC)
def login(context: Folder, request: Request, response: Response) -> object:
    """Begin a session, and lead back to where the visitor came from."""
    form = fields(request)
    name, came_from = form.get("login", ""), form.get("came_from", "")
    if log_in(request, response, name, form.get("password", "")):
        return way_back(request, came_from)
    response.status_int = 422
    return answer(request, response, "login.html", {}, title="Log in", came_from=came_from, name=name, wrong=WRONG)


@view(context=Folder, name="logout", methods=("POST",), permission=PUBLIC)
def logout(context: Folder, request: Request, response: Response) -> object:
    """End the session."""
    log_out(request, response)
    return redirect(page_of(request, top_of(request)), 303)
