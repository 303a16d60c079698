"""The cookies of a visitor come back from wherever the visitor logs in: the judge is a cookie jar."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from webtest import TestApp

from pipeline import Pipeline, view
from pipeline.elements.authenticate import authenticate
from pipeline.elements.causal import causal
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.retry import retry
from pipeline.elements.session import session
from pipeline.elements.traverse import traverse
from pipeline.publisher import publisher


class Root(dict[str, Any]):
    """The root of the site."""


@view(context=Root, name="count")
def count(context: Root, request: Any) -> str:
    request.session["count"] = request.session.get("count", 0) + 1
    return f"{request.principal} {request.session['count']} {request.application_url}"


def site(tmp_path: Path) -> Pipeline:
    keys = str(tmp_path / "keys")
    login = authenticate(check=lambda request, login, password: login, by=("session",), keys=keys)
    scan = (__name__, "pipeline.auth.login", "pipeline.publishing.namespaces")
    inner = (traverse(root=Root), publisher(scan=scan))
    return Pipeline(causal(keys=keys), retry(), errors(), forms(), session(keys=keys), login, *inner)


def client(app: Any, scheme: str, mounted: str = "") -> TestApp:
    environ = {"wsgi.url_scheme": scheme, "HTTP_HOST": "site.example", "SCRIPT_NAME": mounted}
    return TestApp(app, extra_environ=environ)


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("first", ["", "/++lang++de"])
@pytest.mark.parametrize("then", ["", "/++lang++de", "/++lang++en"])
def test_a_login_and_a_session_are_those_of_the_site_in_each_language(
    tmp_path: Path, scheme: str, first: str, then: str
) -> None:
    """The cookie had the name and the path of the namespace, and was not found by the next request."""
    browser = client(site(tmp_path), scheme)
    assert browser.post(f"{first}/login", {"login": "ada", "password": "x"}).status_int == 303
    url = f"{scheme}://site.example"
    assert browser.get(f"{first}/count").text == f"ada 1 {url}{first}"
    assert browser.get(f"{then}/count").text == f"ada 2 {url}{then}"
    browser.post(f"{then}/logout", headers={"Sec-Fetch-Site": "same-origin"})
    assert browser.get(f"{first}/count").text.startswith("None 1 ")


@pytest.mark.parametrize("mounted", ["", "/app", "/a+b", "/~ann(1)", "/a:b@c!*'$&=", "/grö ße", "/++x"])
def test_a_cookie_comes_back_to_the_path_of_its_application(tmp_path: Path, mounted: str) -> None:
    """A browser compares the path of the cookie with that of its request, which has "+" and the like unquoted."""
    app = site(tmp_path)

    def below(environ: dict[str, Any], start_response: Any) -> Any:
        length = len(environ["SCRIPT_NAME"] + mounted.encode().decode("latin-1"))
        environ["SCRIPT_NAME"], environ["PATH_INFO"] = environ["PATH_INFO"][:length], environ["PATH_INFO"][length:]
        return app(environ, start_response)

    browser, path = client(below, "http"), quote(mounted, safe="/+~()!*'$&=:@")
    for number in (1, 2):
        assert browser.get(f"{path}/count").text == f"None {number} http://site.example{path}"
