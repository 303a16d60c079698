"""Sessions of the demo, as etc/deploy.ini has them: what ends them, in two browsers (S21)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ZODB
from webtest import TestApp

from pipeline.elements.zodb import close_all
from pipeline.testing import site
from pipeline.tools.command import main
from pipeline_demo import root
from pipeline_demo.site import create
from pipeline_demo.users import remove_user, set_password

from .conftest import PASSWORD

pytestmark = pytest.mark.once

DEPLOY = Path(__file__).resolve().parents[2] / "etc" / "deploy.ini"
BROWSER = {"HTTP_ACCEPT": "text/html", "HTTP_ORIGIN": "http://localhost"}


@pytest.fixture
def browsers(
    tmp_path: Path, no_documentation: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[TestApp, TestApp]]:
    """Two browsers in which the administrator is logged in."""
    options = {"zodb_uri": f"file://{tmp_path}/Data.fs", "session_keys": f"{tmp_path}/keys"}
    with monkeypatch.context() as patch:
        patch.setattr("secrets.token_urlsafe", lambda size=None: PASSWORD)
        create(options["zodb_uri"])
    app = site(DEPLOY, **options).app
    one, other = (TestApp(app, extra_environ=BROWSER) for _ in range(2))
    for browser in (one, other):
        assert log_in(browser).status_int == 303
    yield one, other
    close_all()


def log_in(browser: TestApp, login: str = "admin", password: str = PASSWORD) -> Any:
    return browser.post("/@@login", {"login": login, "password": password}, expect_errors=True)


def knows(browser: TestApp) -> bool:
    """Whether the site knows the visitor of this browser."""
    return "Log out" in browser.get("/").text


def copy_of(browser: TestApp) -> TestApp:
    copied = TestApp(browser.app, extra_environ=BROWSER)
    for cookie in browser.cookiejar:
        copied.cookiejar.set_cookie(cookie)
    return copied


def test_a_logout_ends_every_copy_of_the_session__S21(browsers: tuple[TestApp, TestApp]) -> None:
    one, other = browsers
    copied = copy_of(one)
    assert knows(copied)
    page = one.get("/").forms[1].submit().follow()
    assert "You are logged out." in page.text
    assert (knows(one), knows(copied), knows(other)) == (False, False, True)


def test_to_log_out_everywhere__S21(browsers: tuple[TestApp, TestApp]) -> None:
    one, other = browsers
    page = one.get("/").forms[1].submit("everywhere").follow()
    assert "You are logged out everywhere." in page.text
    assert (knows(one), knows(other)) == (False, False)
    log_in(one)
    assert (knows(one), knows(other)) == (True, False)


@pytest.mark.parametrize("arguments", [["admin"], ["admin", "--remove"]])
def test_the_command_ends_the_sessions_of_a_user__S21(
    browsers: tuple[TestApp, TestApp], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    one, other = browsers
    assert (knows(one), knows(other)) == (True, True)
    close_all()  # the server is stopped
    monkeypatch.setattr("getpass.getpass", lambda prompt: "a new password")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    database = f"zodb_uri=file://{tmp_path}/Data.fs"
    assert main(["demo-user", str(DEPLOY), *arguments, database]) == 0
    options = {"zodb_uri": f"file://{tmp_path}/Data.fs", "session_keys": f"{tmp_path}/keys"}
    one.app = other.app = site(DEPLOY, **options).app
    assert (knows(one), knows(other)) == (False, False)
    assert log_in(one, password="a new password").status_int == (422 if "--remove" in arguments else 303)


def test_a_site_of_0_1_has_no_such_mapping_and_reading_makes_none() -> None:
    db = ZODB.DB(None)
    with db.transaction() as connection:
        stored = root(connection.root())
        stored.ended = None  # as 0.1 made it
        set_password(stored, "anna", "a password")
        assert set(stored.ended) == {"anna"}
        remove_user(stored, "anna")
        assert set(stored.ended) == {"anna"}, "a copy of a cookie is not valid for a new user of that name"
    db.close()


def test_the_messages_of_a_visitor_are_not_those_of_the_next__S21(browsers: tuple[TestApp, TestApp]) -> None:
    one, _ = browsers
    form = next(form for form in one.get("/@@add-document").forms.values() if "title" in form.fields)
    form["title"], form["text"] = "A", "text"
    form.submit(status=303)  # and the page with the message is not opened
    log_in(one)
    assert "You are logged in as admin." in one.get("/").text
    assert "was added" not in one.get("/").text
