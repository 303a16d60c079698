"""No cache gives the answer to one user to another visitor (S26, RFC 9111 section 3.5)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asking import Answer, ask
from pipeline import Pipeline, Request, Response, redirect, view
from pipeline.auth.login import begin_session
from pipeline.elements.authenticate import authenticate
from pipeline.elements.compress import compress
from pipeline.elements.errors import errors
from pipeline.elements.traverse import traverse
from pipeline.http.files import serve
from pipeline.publisher import publisher
from pipeline.publishing.resources import Resources


class Root(dict[str, Any]):
    """The root of the site."""


STATIC = Resources("of-users", __name__, Path(__file__).parent.parent / "http")


@view(context=Root, name="report", permission="see")
def report(context: Root, request: Request, response: Response) -> None:
    """A file that every cache may keep by its date (RFC 9111 section 4.2.2), if it does not know of the login."""
    serve(request, response, __file__)


def says(name: str, control: str) -> None:
    @view(context=Root, name=name)
    def said(context: Root, request: Request, response: Response) -> str:
        response.headers["Cache-Control"] = control
        return f"Hello, {request.principal}!"

    globals()[name] = said


CONTROLS = {
    "hour": ("max-age=3600", "private, max-age=3600"),
    "stored_by_all": ("public, max-age=3600", "public, max-age=3600"),
    "stored_by_proxies": ("S-MaxAge=60", "S-MaxAge=60"),
    "stored_by_none": ("no-store", "no-store"),
    "asked": ("no-cache", "private, no-cache"),
}
for name, (control, _) in CONTROLS.items():
    says(name, control)


@view(context=Root, name="plain")
def plain(context: Root, request: Request) -> str:
    return f"Hello, {request.principal}!"


@view(context=Root, name="comes-back")
def comes_back(context: Root, request: Any, response: Response) -> str:
    """A link by mail, which logs in by a GET."""
    response.headers["Cache-Control"] = "public, max-age=60"
    begin_session(request, response, "ada")
    return "Welcome!"


@view(context=Root, name="moved")
def moved(context: Root, request: Request) -> Any:
    return redirect("/plain", 301)


def check(request: Any, login: str, password: str) -> str | None:
    return login if password == "right" else None


HEADER = {"REMOTE_ADDR": "10.0.0.1", "HTTP_X_FORWARDED_USER": "ada"}
BASIC = {"HTTP_AUTHORIZATION": "Basic YWRhOnJpZ2h0"}


@pytest.fixture
def site(tmp_path: Path) -> Callable[..., Answer]:
    login = authenticate(
        check=check, by=("session", "header", "basic"), keys=str(tmp_path / "keys"), trusted=("10.0.0.1",)
    )
    scan = (__name__, "pipeline.auth.login")
    app = Pipeline(errors(), login, traverse(root=Root), compress(encodings=("gzip",)), publisher(scan=scan))

    def asked(path: str, method: str = "GET", **environ: Any) -> Answer:
        return ask(app, path, method, **environ)

    return asked


@pytest.fixture
def cookie(site: Callable[..., Answer]) -> dict[str, str]:
    sent = site("/comes-back").headers["Set-Cookie"]
    return {"HTTP_COOKIE": sent.partition(";")[0]}


def said(answer: Answer) -> tuple[str | None, bool]:
    """What caches are told: Cache-Control, and whether the answer depends on the cookies."""
    vary = answer.headers.get("Vary", "").lower()
    return answer.headers.get("Cache-Control"), "cookie" in vary


@pytest.mark.parametrize("path", ["/report", "/plain", "/moved"])
def test_an_answer_to_a_user_is_for_the_user_alone__S26(site: Any, cookie: dict[str, str], path: str) -> None:
    for who in (cookie, HEADER):
        answer = site(path, **who)
        assert answer.status in (200, 301) and said(answer) == ("private", True), (path, who)
        assert "accept-encoding" in answer.headers.get("Vary", "").lower() or path != "/report"


@pytest.mark.parametrize("name", CONTROLS)
def test_a_view_that_allows_shared_caches_is_heard(site: Any, cookie: dict[str, str], name: str) -> None:
    sent, told = CONTROLS[name]
    answer = site(f"/{name}", **cookie)
    assert answer.text == "Hello, ada!"
    assert said(answer) == (told, told != sent or "store" in sent)
    assert said(site(f"/{name}")) == (sent, False)


def test_nothing_is_said_where_nobody_is_logged_in(site: Any) -> None:
    assert said(site("/plain")) == (None, False)


def test_caches_know_what_a_password_is(site: Any) -> None:
    """They keep no answer to a request with ``Authorization`` that does not allow it (RFC 9111 section 3.5)."""
    answer = site("/plain", **BASIC)
    assert answer.text == "Hello, ada!" and said(answer) == (None, False)


def test_a_static_file_stays_in_shared_caches(site: Any, cookie: dict[str, str]) -> None:
    path = f"/++resource++of-users@{STATIC.version}/conftest.py"
    assert said(site(path, **cookie)) == ("public, max-age=31536000, immutable", False)


def test_the_answer_that_sets_the_cookie_of_a_login_is_kept_by_no_shared_cache(site: Any) -> None:
    """Apache's would give the cookie to each visitor who follows."""
    answer = site("/comes-back")
    assert "pipeline_login=" in answer.headers["Set-Cookie"]
    assert said(answer) == ("private, max-age=60", True)


def test_a_redirect_to_the_login_is_not_kept(site: Any) -> None:
    assert site("/report", HTTP_ACCEPT="text/html").status == 303
