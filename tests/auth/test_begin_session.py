"""``begin_session``: users whom someone else has authenticated."""

from __future__ import annotations

from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from webob.exc import HTTPNotFound
from webtest import TestApp

from pipeline import Pipeline, Request, Response, redirect, view
from pipeline.auth.authentication import AuthRequest
from pipeline.auth.login import begin_session, log_out
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.traverse import traverse
from pipeline.interfaces import PUBLIC, ConfigurationError
from pipeline.publisher import publisher

ENDED: dict[str, str] = {}


class Root(dict[str, Any]):
    """What is published."""


def ended(request: Request) -> dict[str, str]:
    return ENDED


@view(context=Root)
def show(context: Root, request: AuthRequest) -> str:
    return f"{request.principal} {dict(request.claims)}"


@view(context=Root, name="callback", permission=PUBLIC)
def callback(context: Root, request: AuthRequest, response: Response, user: str, size: int = 0) -> Any:
    claims = {"mail": "ann@example.com", "groups": ["staff"], "more": token_hex(size // 2)}
    begin_session(request, response, user, claims)
    return redirect("/", 303)


@view(context=Root, name="numbered", permission=PUBLIC)
def numbered(context: Root, request: AuthRequest, response: Response) -> None:
    begin_session(request, response, "ann", {"shops": {7: "tea"}})


@view(context=Root, name="change")
def change(context: Root, request: AuthRequest) -> str:
    request.claims["groups"].append("admin")
    request.claims["mail"] = "bob@example.com"  # type: ignore[index]
    return str(sorted(request.groups))


@view(context=Root, name="plain", permission=PUBLIC)
def plain(context: Root, request: AuthRequest, response: Response) -> str:
    begin_session(request, response, "bob")
    return "begun"


@view(context=Root, name="odd", permission=PUBLIC)
def odd(context: Root, request: AuthRequest, response: Response, kind: str) -> str:
    begin_session(request, response, {"empty": "", "none": None, "bytes": b"a"}[kind])  # type: ignore[arg-type]
    return "begun"


@view(context=Root, name="out", methods=("POST",), permission=PUBLIC)
def out(context: Root, request: AuthRequest, response: Response) -> str:
    log_out(request, response)
    return "gone"


def site(tmp_path: Path, **options: Any) -> TestApp:
    given = {"by": ("session",), "realm": "own", "keys": str(tmp_path / "keys"), **options}
    parts = (errors(), forms(), authenticate(**given), traverse(root=Root), publisher(scan=(__name__,)))
    return TestApp(Pipeline(*parts), extra_environ={"wsgi.url_scheme": "https", "HTTP_HOST": "localhost"})


def test_a_user_of_a_provider_and_the_claims(tmp_path: Path) -> None:
    visitor = site(tmp_path)
    visitor.get("/callback?user=ann", status=303)
    assert visitor.get("/").text == "ann {'mail': 'ann@example.com', 'groups': ['staff'], 'more': ''}"
    visitor.get("/plain")
    assert visitor.get("/").text == "bob {}", "the session that the browser had is ended"
    visitor.post("/out", headers={"Sec-Fetch-Site": "same-origin"})
    assert visitor.get("/").text == "None {}"


def test_a_copy_of_a_cookie_ends_with_its_session__S21(tmp_path: Path) -> None:
    ENDED.clear()
    visitor = site(tmp_path, sessions=ended)
    visitor.get("/callback?user=ann")
    copy = dict(visitor.cookies)
    visitor.get("/callback?user=bob")
    assert visitor.get("/").text.startswith("bob")
    thief = site(tmp_path, sessions=ended)
    for name, value in copy.items():
        thief.set_cookie(name, value)
    assert thief.get("/").text == "None {}"


def test_claims_that_would_come_back_as_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    site(tmp_path).get("/numbered", status=500)
    assert "claims['shops'] has a dict with the key 7, of which JSON would make a text" in caplog.text


def test_what_a_view_changes_in_the_claims_ends_with_the_request__R13(tmp_path: Path) -> None:
    visitor = site(tmp_path)
    visitor.get("/callback?user=ann", status=303)
    for _ in range(2):
        assert visitor.get("/change").text == "['admin', 'staff']"
        assert visitor.get("/").text == "ann {'mail': 'ann@example.com', 'groups': ['staff'], 'more': ''}"


def test_claims_are_signed(tmp_path: Path) -> None:
    visitor = site(tmp_path)
    visitor.get("/callback?user=ann")
    ((name, value),) = visitor.cookies.items()
    forged = site(tmp_path)
    forged.set_cookie(name, value[:5] + ("A" if value[5] != "A" else "B") + value[6:])
    assert forged.get("/").text == "None {}"


def test_claims_that_no_browser_would_keep(tmp_path: Path) -> None:
    assert "The server" not in site(tmp_path).get("/callback?user=ann&size=5000", status=500).text
    visitor = site(tmp_path)
    visitor.get("/callback?user=ann&size=1600", status=303)
    assert len(next(iter(visitor.cookies.values()))) < 4_000 and visitor.get("/").text.startswith("ann")


@pytest.mark.parametrize("kind", ["empty", "none", "bytes"])
def test_what_is_not_a_user(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    site(tmp_path).get(f"/odd?kind={kind}", status=500)
    assert "begin_session takes the id of a user" in caplog.text


def test_a_site_without_sessions(tmp_path: Path) -> None:
    class Strange:
        login_session = None

    with pytest.raises(HTTPNotFound, match="This site has no sessions"):
        begin_session(Strange(), Response(), "ann")  # type: ignore[arg-type]
    visitor = site(tmp_path, by=("basic",), check=lambda request, login, password: None, keys="")
    visitor.get("/plain", status=404)


@pytest.mark.parametrize("options", [{"realm": "site"}, {"by": ("basic", "session")}, {"by": ("basic",)}])
def test_who_needs_a_check(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="authenticate needs the option 'check'"):
        site(tmp_path, **options)


def test_sessions_of_another_site_with_the_same_keys_do_not_count__S27(tmp_path: Path) -> None:
    one, other = site(tmp_path, realm="one"), site(tmp_path, realm="other")
    one.get("/callback?user=ann")
    for name, value in one.cookies.items():
        other.set_cookie(name, value)
    assert (one.get("/").text[:3], other.get("/").text) == ("ann", "None {}")
