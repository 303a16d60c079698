"""A site as a test uses it: requests to the whole site, calls of one view or handler, and a proof of all views."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, TypeVar

from webtest import TestApp

from pipeline.attributes import names_of
from pipeline.composition import Pipeline
from pipeline.interfaces import WSGIApp
from pipeline.loading.command_line import make_importable, split_name
from pipeline.paste import load
from pipeline.proving.proof import Proof
from pipeline.proving.report import Report
from pipeline.request import Request
from pipeline.response import Response

R = TypeVar("R", bound=Request)


def site(app: WSGIApp | str | PathLike[str], /, **variables: str) -> TestApp:
    """Return a WebTest application, which sends requests to a pipeline and checks every answer against PEP 3333.

    app        a pipeline or another WSGI app; or the path of an ini, which may end in ``#name``
    variables  of the ini; they beat those of ``[DEFAULT]``

    The ini is loaded as ``pipeline serve`` loads it, except for its logging: a part that is missing or that stands
    in a wrong place is an error. An error of a view is a 500, and its traceback is in the log, which pytest shows.
    """
    if isinstance(app, (str, PathLike)):
        path, name = split_name(str(app))
        make_importable(path)
        app = load(f"config:{path}", name, **variables)
    elif variables:
        raise TypeError(f"{', '.join(variables)}: only an ini has variables, and {app!r} is not one")
    return TestApp(app)


def make_request(
    path: str = "/",
    *,
    adds: type[R] = Request,  # type: ignore[assignment]
    method: str | None = None,
    body: bytes = b"",
    form: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    environ: Mapping[str, Any] | None = None,
    **attributes: Any,
) -> R:
    """Return a request to call a view or a handler with, without a pipeline.

    path        the path and the query, percent-encoded
    adds        class of the request, such as that which an element names by ``@element(adds=...)``
    method      GET by default, or POST if there is a body or a form
    body        the body of the request
    form        fields of a form, which are sent as the body
    headers     headers of the request
    environ     further keys of the environ
    attributes  values of attributes of the request, such as ``context`` and ``principal``, and of those that are
                otherwise made on first use. AttributeError if the class declares no such attribute
    """
    known = {*dir(Request), *Request.__annotations__, *(name for name, _ in names_of(adds))}
    for name in attributes:
        if name not in known:
            raise AttributeError(f"{adds.__qualname__} does not declare request.{name}")
    options: dict[str, Any] = {"POST": form} if form is not None else {"body": body} if body else {}
    given: dict[str, Any] = {**(environ or {}), **({"REQUEST_METHOD": method} if method else {})}
    request = adds.blank(path, given, None, dict(headers or {}), **options)
    if body and not method:
        request.method = "POST"
    for name, value in attributes.items():
        setattr(request, name, value)
    return request


def make_response(
    body: str | bytes = "", status: int | str = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a response to call a view or a handler with: empty, or as outer elements would have left it."""
    response = Response(body, status) if body else Response()
    response.status = status
    response.headers.update(headers or {})
    return response


def log_in(client: TestApp, login: str, password: str, *, page: str = "/@@login") -> TestApp:
    """Log a visitor in, and return the client, whose further requests are those of this visitor.

    client    what ``site`` returned
    login     name of the visitor, and then the password
    page      path of the login page. Its form has the fields ``login`` and ``password``

    A site without a login page uses HTTP basic authentication, so the client sends the password with every request.
    AssertionError if the site refuses the login on its page.
    """
    shown = client.get(page, expect_errors=True)
    if shown.status_int == 404:
        client.authorization = ("Basic", (login, password))
        return client
    form = next((form for form in shown.forms.values() if "password" in form.fields), None)
    if form is None:
        raise AssertionError(f"{page} answered {shown.status} and has no form with a field 'password'")
    form["login"], form["password"] = login, password
    answer = form.submit(expect_errors=True)
    if not 300 <= answer.status_int < 400:
        raise AssertionError(f"the site refused the login of {login!r}: it answered {answer.status}")
    # A browser says so of the forms of the site. The site refuses a form of which it does not know whose it is.
    client.extra_environ["HTTP_SEC_FETCH_SITE"] = "same-origin"
    return client


def prove(app: str | Pipeline, **options: Any) -> Report:
    """Ask a site for every view with every failure at every point, as an outsider, by the links of its pages, by
    several requests one after the other, and again and again. Return what was found.

    app      path of an ini, which may end in ``#name``, or a pipeline
    options  those of ``pipeline.proving.proof.Proof``: ``user``, ``view``, ``corpus``, ``points`` and others

    The databases are copies. ``report.found`` is empty if nothing is wrong.
    """
    proof = Proof(app, **options)
    with proof.loaded():
        proof.faults().attack()
        return (proof if proof.corpus else proof.links().sequences().growth()).report
