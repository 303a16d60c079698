"""The login page and the logout, in a pipeline with sessions, with and without ``forms``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from webtest import TestApp
from zope.interface import implementer

from pipeline import Pipeline, Request, view
from pipeline.auth.authentication import Basic, Verifier
from pipeline.auth.limiter import Limiter
from pipeline.auth.login import way_back
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.traverse import traverse
from pipeline.interfaces import IAuthentication
from pipeline.publisher import publisher
from pipeline.views import adapter

BROWSER = {"Accept": "text/html", "Origin": "http://localhost"}


class Folder(dict[str, Any]):
    """What is published."""


class Club(Folder):
    """A folder with members of its own."""


CLUB_LIMITER = Limiter(failures=3)
MEMBERS = {"ben": "secret", "ann": "of the club"}


@adapter(Club, IAuthentication)
@implementer(IAuthentication)
class Members(Basic):
    def __init__(self, club: Club) -> None:
        super().__init__(Verifier(self.check, CLUB_LIMITER), "club")

    def check(self, request: Request, login: str, password: str) -> str | None:
        return f"{login} of the club" if MEMBERS.get(login) == password else None


@view(context=Folder)
def show(context: Any, request: Request) -> str:
    return str(request.principal)


@view(context=Folder, name="edit", methods=("GET", "POST"), permission="edit")
def edit(context: Any, request: Request) -> str:
    return f"{request.principal} edits"


def check(request: Request, login: str, password: str) -> str | None:
    return login if (login, password) == ("ann", "right") else None


_numbers = itertools.count()


@pytest.fixture(params=["forms", "no forms"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestApp]:
    CLUB_LIMITER._full_at.clear()
    CLUB_LIMITER._addresses.clear()
    elements: list[Any] = [forms()] if request.param == "forms" else []
    app = Pipeline(
        errors(),
        *elements,
        authenticate(
            check=check, by=("session", "basic"), keys=str(tmp_path / "keys"), failures=3, placeful=True
        ),
        traverse(root=lambda: Folder(club=Club(room=Folder()))),
        publisher(scan=(__name__, "pipeline.auth.login")),
    )
    yield TestApp(app, extra_environ={"REMOTE_ADDR": f"192.0.2.{next(_numbers) % 250}"})


def log_in(client: TestApp, password: str = "right", came_from: str = "", **options: Any) -> Any:
    fields = {"login": "ann", "password": password, "came_from": came_from}
    return client.post("/@@login", fields, headers=options.pop("headers", BROWSER), **options)


def test_login_and_logout(client: TestApp) -> None:
    assert client.get("/").text == "None"
    page = client.get("/edit?a=b", headers=BROWSER, status=303).follow()
    assert page.headers["Cache-Control"] == "no-store"
    page.form["login"], page.form["password"] = "ann", "right"
    back = page.form.submit(headers=BROWSER, status=303)
    assert back.location == "/edit?a=b"
    assert back.follow().text == "ann edits"
    assert client.post("/edit", headers=BROWSER).text == "ann edits"
    client.post("/edit", headers={"Origin": "http://evil.example"}, status=403)
    client.post("/@@logout", headers={"Origin": "http://evil.example"}, status=403)
    client.get("/@@logout", status=405)
    assert client.get("/").text == "ann"
    client.post("/@@logout", headers=BROWSER, status=303)
    assert client.get("/").text == "None"
    client.post("/edit", headers=BROWSER, status=401)


def test_a_program_sends_a_password(client: TestApp) -> None:
    asked = client.get("/edit", status=401)
    assert asked.headers["WWW-Authenticate"] == 'Basic realm="site", charset="UTF-8"'
    client.authorization = ("Basic", ("ann", "right"))
    assert client.get("/edit").text == "ann edits"


def test_another_site_cannot_log_a_browser_in(client: TestApp) -> None:
    log_in(client, headers={"Sec-Fetch-Site": "cross-site"}, status=403)
    assert client.get("/").text == "None"


def test_another_site_cannot_log_a_browser_out(client: TestApp) -> None:
    """Of a browser that keeps the cookie back (SameSite) it comes without a session, and must not end one."""
    answer = client.post("/@@logout", headers={"Origin": "http://evil.example"}, status=403)
    assert "Set-Cookie" not in answer.headers


def test_a_wrong_password_is_slowed_down(client: TestApp) -> None:
    for _ in range(3):
        again = log_in(client, "<wrong>", came_from='"><x', status=422)
        assert "Name or password is wrong" in again and "<x" not in again and "<wrong>" not in again
    assert int(log_in(client, status=429).headers["Retry-After"]) > 20
    client.post(
        "/@@login", {"login": "ben", "password": "x"}, headers=BROWSER, status=429
    )  # from this address
    other = {"REMOTE_ADDR": "198.51.100.1"}
    log_in(client, status=429, extra_environ=other)  # this account
    client.post("/@@login", {"login": "ben"}, headers=BROWSER, extra_environ=other, status=422)


def test_the_right_password_is_never_counted(client: TestApp) -> None:
    client.authorization = ("Basic", ("ann", "right"))
    for _ in range(20):
        assert client.get("/").text == "ann"


# Users of a folder


def test_a_folder_has_users_of_its_own(client: TestApp) -> None:
    assert 'realm="club"' in client.get("/club/edit", headers=BROWSER, status=401).headers["WWW-Authenticate"]
    assert 'realm="club"' in client.get("/club/room/edit", status=401).headers["WWW-Authenticate"]
    client.authorization = ("Basic", ("ben", "secret"))
    for _ in range(10):  # the site does not know him, which is no guess
        assert client.get("/club/room/edit").text == "ben of the club edits"
    client.post("/club/edit", headers={"Origin": "http://evil.example"}, status=403)
    client.get("/edit", status=401)


def test_a_user_of_a_folder_is_no_user_of_the_site(client: TestApp) -> None:
    client.authorization = ("Basic", ("ann", "of the club"))
    assert client.get("/club/").text == "ann of the club"
    assert client.get("/").text == "None"
    client.authorization = ("Basic", ("ann", "right"))
    assert client.get("/club/").text == "ann"  # a user of the site is one everywhere


def test_guessing_the_users_of_a_folder_is_slowed_down(client: TestApp) -> None:
    client.authorization = ("Basic", ("ben", "wrong"))
    for _ in range(3):
        assert client.get("/club/").text == "None"
    client.get("/club/", status=429)


def test_guesses_elsewhere_do_not_lock_out_the_user_of_a_folder__S22(client: TestApp) -> None:
    """The site, which does not know the user, is asked first."""
    client.authorization = ("Basic", ("ben", "secret"))
    client.get("/club/edit")
    client.authorization = ("Basic", ("ben", "wrong"))
    for number in range(4):
        client.get("/club/", extra_environ={"REMOTE_ADDR": f"198.51.100.{number}"}, expect_errors=True)
    client.authorization = ("Basic", ("ben", "secret"))
    client.get("/club/edit", extra_environ={"REMOTE_ADDR": "198.51.100.9"}, status=429)
    assert client.get("/club/edit").text == "ben of the club edits"


# Whatever is sent


@pytest.mark.parametrize("query", ["came_from=%ff", "came_from=\xff", "%", "&" * 100, "came_from=%00"])
def test_a_strange_query_is_no_error_of_ours(client: TestApp, query: str) -> None:
    answer = client.get("/@@login", extra_environ={"QUERY_STRING": query}, expect_errors=True)
    assert answer.status_int in (200, 400)


@pytest.mark.parametrize("body", [b"\xff", b"&" * 2000, b"login=%ff&password=%ff", b"x" * 100_000])
def test_a_strange_form_is_no_error_of_ours(client: TestApp, body: bytes) -> None:
    answer = client.post("/@@login", body, headers=BROWSER, expect_errors=True)
    assert answer.status_int in (400, 413, 422)


@pytest.mark.parametrize("field", ["login", "password", "came_from"])
def test_json_that_is_no_text_is_no_error_of_ours(client: TestApp, field: str) -> None:
    fields = {"login": "ann", "password": "right", field: "\ud800"}
    answer = client.post_json("/@@login", fields, headers=BROWSER, expect_errors=True)
    assert answer.status_int in (303, 400, 422)


def test_without_sessions_there_is_no_login(tmp_path: Path) -> None:
    app = Pipeline(
        errors(),
        authenticate(check=check),
        traverse(root=Folder),
        publisher(scan=(__name__, "pipeline.auth.login")),
    )
    TestApp(app).get("/@@login", status=404)


def browser_reads(location: str) -> str:
    """The address that a browser goes to (WHATWG URL): without tabs and newlines, backslash as slash."""
    location = location.strip("".join(map(chr, range(33))))
    for dropped in "\t\n\r":
        location = location.replace(dropped, "")
    return urljoin("http://localhost/a/b", location.replace("\\", "/"))


PIECES = st.sampled_from(
    [
        *("/", "//", "\\", ":", "@", "http:", "HTTPS:", "javascript:", "evil.example", "localhost", "#", "?"),
        *("http://localhost", ".", "..", "%2f", "%09", "[", "]", "\t", "\n", " ", "\x00", "é", "\u3002"),
        *("\xad", "\ud800"),
    ]
)


@given(st.lists(PIECES, max_size=8).map("".join) | st.text(max_size=30))
@example("//evil.example").via("S8")
@example("/\\evil.example").via("S8")
@example("/\t/evil.example").via("S8")
@example("http://localhost@evil.example").via("S8")
def test_the_way_back_stays_on_this_site(came_from: str) -> None:
    """S8: as a browser reads it, whatever is sent as the way back."""
    request = Request.blank("/a/b")
    location = way_back(request, came_from).headers["Location"]
    assert location.isascii() and location.isprintable()
    assert urlsplit(browser_reads(location))[:2] == ("http", "localhost"), location


def test_the_way_back_may_be_absolute() -> None:
    request = Request.blank("/a/b")
    for place in ("http://localhost/c?d#e", "/c", "?d"):
        assert way_back(request, place).headers["Location"] == place
