"""No cache gives the answer to one user to another visitor (S26, RFC 9111 section 3.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from webob.exc import HTTPGone, HTTPNotFound

from asking import Answer, ask
from pipeline import Pipeline, Request, Response, redirect, view
from pipeline.auth.login import begin_session
from pipeline.elements.authenticate import authenticate
from pipeline.elements.compress import compress
from pipeline.elements.errors import errors
from pipeline.elements.session import session
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


@view(context=Root, name="gone")
def gone(context: Root, request: Request) -> Any:
    """An error that caches may keep: its view shows who asks, as the head of each page does."""
    raise HTTPGone("Not here.", headers=[("Cache-Control", "max-age=3600")])


@view(context=HTTPGone)
def page_of_gone(error: HTTPGone, request: Any) -> str:
    return f"Hello, {request.principal}! {dict(request.session)}"


@view(context=Root, name="own")
def own(context: Root, request: Request) -> Any:
    """An error with a page of its own. A cache may keep a 404 that says nothing of it (RFC 9110 section 15.1)."""
    raise HTTPNotFound(text=f"Hello, {request.principal}!", content_type="text/plain")


@view(context=Root, name="told")
def told(context: Root, request: Request) -> Any:
    raise HTTPNotFound(f"Not here, {request.principal}.", headers=[("Cache-Control", "max-age=3600")])


@view(context=Root, name="streamed")
def streamed(context: Root, request: Request, response: Response) -> Iterator[bytes]:
    response.headers["Cache-Control"] = "max-age=3600, must-revalidate"
    return iter((b"Hello, ", str(request.principal).encode()))


@view(context=Root, name="begun")
def begun(context: Root, request: Any, response: Response) -> Iterator[bytes]:
    """A page whose head is sent before the rest of it reads the session."""
    yield b"Hello! "
    yield str(dict(request.session)).encode()


@view(context=Root, name="begun-for-all")
def begun_for_all(context: Root, request: Any, response: Response) -> Iterator[bytes]:
    response.headers["Cache-Control"] = "public, max-age=60"
    return iter((b"Hello!",))


@view(context=Root, name="put")
def put(context: Root, request: Any) -> str:
    request.session["basket"] = "tea"
    return "put"


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
    data = session(keys=str(tmp_path / "keys"))
    app = Pipeline(errors(), data, login, traverse(root=Root), compress(encodings=("gzip",)), publisher(scan=scan))

    def sending(environ: Any, start_response: Any) -> Any:
        """Take the headers as they are when the body begins, as servers do."""
        return app(environ, lambda status, headers: start_response(status, headers.copy()))

    def asked(path: str, method: str = "GET", **environ: Any) -> Answer:
        return ask(sending, path, method, **environ)

    return asked


@pytest.fixture
def cookie(site: Callable[..., Answer]) -> dict[str, str]:
    sent = site("/comes-back").headers["Set-Cookie"]
    return {"HTTP_COOKIE": sent.partition(";")[0]}


def said(answer: Answer) -> tuple[str | None, bool]:
    """What caches are told: Cache-Control, and whether the answer depends on the cookies."""
    vary = answer.headers.get("Vary", "").lower()
    return answer.headers.get("Cache-Control"), "cookie" in vary


def is_kept_by_a_proxy(answer: Answer) -> bool:
    """Whether nginx keeps an answer, with ``proxy_cache_valid any``: it does not look at ``Authorization``."""
    control = str(answer.headers.get("Cache-Control", "")).lower()
    is_refused = any(word in control for word in ("private", "no-store", "no-cache"))
    return not is_refused and "Set-Cookie" not in answer.headers


WAYS = ["/report", "/plain", "/moved", "/gone", "/own", "/told", "/streamed", "/begun", "/nothing", "/hour"]


@pytest.mark.parametrize("path", WAYS)
def test_a_proxy_keeps_no_answer_to_a_user_however_it_was_made__S26(
    site: Any, cookie: dict[str, str], path: str
) -> None:
    for who in (cookie, HEADER, BASIC):
        assert not is_kept_by_a_proxy(answer := site(path, **who)), (who, answer)
    assert is_kept_by_a_proxy(site(path)) or path in ("/report", "/gone", "/begun", "/nothing")


@pytest.mark.parametrize("path", ["/own", "/told"])
def test_an_error_that_the_edge_answers_is_for_the_user_alone__S26(path: str) -> None:
    app = Pipeline(authenticate(check=check), traverse(root=Root), publisher(scan=(__name__,)))
    assert said(ask(app, path, **BASIC)) in (("private", True), ("private, max-age=3600", True))


@pytest.mark.parametrize("path", ["/gone", "/begun"])
def test_an_answer_that_reads_the_session_late_is_for_the_visitor_alone__S26(site: Any, path: str) -> None:
    """An error view reads it after the request has failed, and a stream when its headers are sent."""
    visitor = {"HTTP_COOKIE": site("/put").headers["Set-Cookie"].partition(";")[0]}
    answer = site(path, **visitor)
    assert "{'basket': 'tea'}" in answer.text
    assert not is_kept_by_a_proxy(answer) and said(answer)[1]
    assert said(site("/begun-for-all", **visitor)) == ("public, max-age=60", False)


@pytest.mark.parametrize("path", ["/report", "/plain", "/moved"])
def test_an_answer_to_a_user_is_for_the_user_alone__S26(site: Any, cookie: dict[str, str], path: str) -> None:
    for who in (cookie, HEADER, BASIC):
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
