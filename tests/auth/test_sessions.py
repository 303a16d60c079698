"""Sessions in a signed cookie: whose they are, how long, by which key, and what forges them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from itsdangerous.timed import TimestampSigner
from webob.exc import HTTPForbidden, HTTPSeeOther, HTTPUnauthorized
from zope.interface.verify import verifyObject

from pipeline import Request, Response
from pipeline.auth.authentication import Basic
from pipeline.auth.keys import read_keys
from pipeline.auth.sessions import Session
from pipeline.http.origins import is_cross_site, refuse_cross_site
from pipeline.interfaces import ConfigurationError, IAuthentication

OLD, NEW = "o" * 32, "n" * 32
SESSION = Session([NEW], 3600, "@@login")


def request_of(method: str = "GET", **environ: Any) -> Request:
    base = {"REQUEST_METHOD": method, "wsgi.url_scheme": "http", "HTTP_HOST": "localhost", "SCRIPT_NAME": ""}
    return Request({**base, "PATH_INFO": "/", **environ})


def begin(session: Session = SESSION, principal: str = "ann", **environ: Any) -> str:
    """The cookie's header."""
    response = Response()
    session.remember(request_of(**environ), response, principal)
    return response.headers["Set-Cookie"]


def cookie(session: Session = SESSION, principal: str = "ann") -> str:
    return begin(session, principal).partition(";")[0]


def test_the_contracts_are_kept() -> None:
    assert verifyObject(IAuthentication, SESSION)
    assert verifyObject(IAuthentication, Basic(lambda *_: None, "site"))


@pytest.mark.parametrize("principal", ["ann", "änn €", "x" * 500, ""])
def test_a_session_shows_its_principal(principal: str) -> None:
    assert SESSION.identify(request_of(HTTP_COOKIE=f"a=b; {cookie(SESSION, principal)}")) == principal


@pytest.mark.parametrize("age", [0, -1])
def test_a_cookie_that_browsers_drop_at_once_is_refused(age: int) -> None:
    """Nobody would be logged in after a login, and no session would be kept (RFC 6265bis section 5.6.2)."""
    with pytest.raises(ConfigurationError, match="pipeline_login"):
        Session([NEW], age, "login")


def test_how_the_cookie_is_kept() -> None:
    plain = begin()
    assert "HttpOnly" in plain and "SameSite=Lax" in plain and "Path=/;" in plain and "secure" not in plain
    assert "Max-Age=3600" in plain
    inside = begin(SCRIPT_NAME="/a;b")
    assert "Path=/a%3Bb;" in inside


HTTPS = {"wsgi.url_scheme": "https", "HTTP_HOST": "www.example.com"}


def test_under_https_no_other_host_can_set_the_cookie() -> None:
    """A browser takes a cookie with this prefix from the host itself alone (RFC 6265bis 4.1.3.2)."""
    sent = begin(**HTTPS)
    assert sent.startswith("__Host-pipeline_login=") and "Domain" not in sent
    assert {"secure", "HttpOnly", "Path=/", "SameSite=Lax"} <= set(sent.split("; "))
    assert SESSION.identify(request_of(**HTTPS, HTTP_COOKIE=sent.partition(";")[0])) == "ann"
    response = Response()
    SESSION.forget(request_of(**HTTPS), response)
    assert response.headers["Set-Cookie"].startswith("__Host-pipeline_login=; Max-Age=0")


def test_under_https_a_cookie_without_the_prefix_is_not_a_session() -> None:
    """A sibling domain can set one, of a session of its own (login CSRF)."""
    assert SESSION.identify(request_of(**HTTPS, HTTP_COOKIE=cookie(principal="mallory"))) is None


def test_under_https_a_session_in_the_value_of_another_cookie_is_none() -> None:
    """A sibling domain can set that one, with a comma in it. Some servers join two lines of cookies by a comma."""
    sent = begin(principal="mallory", **HTTPS).partition(";")[0]
    for planted in (f"x=a,{sent}", f"x=a, {sent}; y=b", f"x=,{sent},z=c"):
        assert SESSION.identify(request_of(**HTTPS, HTTP_COOKIE=planted)) is None


def test_two_sites_of_one_https_host_have_a_session_each() -> None:
    """The path of such a cookie is always "/", so the name says which site it is of."""
    first, second = (begin(**HTTPS, SCRIPT_NAME=mounted) for mounted in ("/a", "/b"))
    assert "Path=/;" in first and first.partition("=")[0] != second.partition("=")[0]
    sent = f"{first.partition(';')[0]}; {second.partition(';')[0]}"
    for mounted in ("/a", "/b"):
        assert SESSION.identify(request_of(**HTTPS, SCRIPT_NAME=mounted, HTTP_COOKIE=sent)) == "ann"
    assert SESSION.identify(request_of(**HTTPS, HTTP_COOKIE=sent)) is None


@pytest.mark.parametrize("planted", ["x", "", '"', "x" * 3000])
def test_a_planted_cookie_logs_nobody_out(planted: str) -> None:
    """A sibling domain, or a longer path, puts one of the same name ahead of ours."""
    planted = f"{Session.COOKIE}={planted}"
    assert SESSION.identify(request_of(HTTP_COOKIE=f"{planted}; {cookie()}")) == "ann"
    assert SESSION.identify(request_of(HTTP_COOKIE=f"{cookie()}; {planted}")) == "ann"
    assert SESSION.identify(request_of(HTTP_COOKIE=f'a="; {planted}; {cookie()}; b="')) == "ann"


def test_a_planted_cookie_ends_no_session_that_is_sent_with_it() -> None:
    old = Session([OLD], 3600, "login")
    assert SESSION.identify(request_of(HTTP_COOKIE=f"{cookie(old)}; {cookie()}")) == "ann"


def test_many_cookies_of_the_name_take_no_time__S12() -> None:
    many = "; ".join(["pipeline_login=e30.aaaaaa.bbbb"] * 200_000)
    began = time.process_time()
    assert SESSION.identify(request_of(HTTP_COOKIE=many)) is None
    assert time.process_time() - began < 2


def test_a_session_that_was_ended_is_none() -> None:
    response = Response()
    SESSION.forget(request_of(), response)
    ended = response.headers["Set-Cookie"]
    assert ended.startswith("pipeline_login=;") and "Max-Age=0" in ended


def test_a_session_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one whose cookie is remembered."""
    sent = cookie()
    now = time.time()
    for later, principal in [(0, "ann"), (3658, "ann"), (3662, None), (1, "ann")]:
        monkeypatch.setattr(time, "time", lambda later=later: now + later)
        assert SESSION.identify(request_of(HTTP_COOKIE=sent)) == principal


@pytest.mark.parametrize(("age", "ahead"), [(3600, 3600), (8 * 3600, 3600), (600, 600)])
def test_clocks_may_differ_and_be_set_back(monkeypatch: pytest.MonkeyPatch, age: int, ahead: int) -> None:
    """An instance a moment ahead has signed the cookie; or a clock was wrong, and is set back."""
    session = Session([NEW], age, "login")
    sent = cookie(session)
    now = time.time()
    for earlier, principal in [(0.6, "ann"), (60, "ann"), (ahead - 2, "ann"), (ahead + 2, None)]:
        monkeypatch.setattr(time, "time", lambda earlier=earlier: now - earlier)
        assert session.identify(request_of(HTTP_COOKIE=sent)) == principal


def test_the_signature_of_a_good_cookie_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session([OLD], 3600, "login")
    good = cookie(session)
    calls: list[str] = []
    unsign = TimestampSigner.unsign
    monkeypatch.setattr(TimestampSigner, "unsign", lambda self, *a, **b: calls.append("") or unsign(self, *a, **b))
    for sent, computed in [(good, 1), (good, 1), (good + "x", 2), (good + "x", 3), (good, 3)]:
        assert session.identify(request_of(HTTP_COOKIE=sent)) == ("ann" if sent == good else None)
        assert len(calls) == computed


def test_keys_are_replaced_by_adding_one() -> None:
    """The last one signs; a session of any of them is good until its key is gone."""
    before, during, after = (Session(keys, 3600, "login") for keys in ([OLD], [OLD, NEW], [NEW]))
    old, new = request_of(HTTP_COOKIE=cookie(before)), request_of(HTTP_COOKIE=cookie(during))
    assert before.identify(old) == during.identify(old) == "ann" and after.identify(old) is None
    assert before.identify(new) is None and during.identify(new) == after.identify(new) == "ann"


def test_cookies_of_others_do_not_matter() -> None:
    """WebOb fails at any that is not UTF-8."""
    sent = f'a="\\272"; b=\xff; =x; ; {cookie()}; pipeline_login=later'
    assert SESSION.identify(request_of(HTTP_COOKIE=sent)) == "ann"


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda data: data.decode("latin-1")))
def test_what_is_no_session_is_nobody(text: str) -> None:
    for sent in (text, f"pipeline_login={text}", f"{cookie()}x", f'pipeline_login="{text}'):
        header = sent.encode(errors="replace").decode("latin-1")
        assert SESSION.identify(request_of("POST", HTTP_COOKIE=header)) is None


@pytest.mark.parametrize(
    "payload", ["ann", ["ann"], ["ann", 1], [1, "t"], {"a": 1}, None, 5, ["a", "b", "c"], ["a", "b", 0, 0]]
)
def test_what_was_signed_for_something_else_is_nobody(payload: object) -> None:
    request = request_of(HTTP_COOKIE="pipeline_login=" + SESSION.serializer.dumps(payload))
    assert SESSION.identify(request) is None


def token_of(sent: str) -> str:
    request = request_of(HTTP_COOKIE=sent)
    SESSION.identify(request)
    assert request.csrf_token is not None
    return request.csrf_token


def accepted(request: Request) -> str | None:
    """The principal of a request that the session and the end of the pipeline accept."""
    principal = SESSION.identify(request)
    refuse_cross_site(request)
    return principal


SAME, OTHER = "http://localhost", "http://evil.example"


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({"HTTP_ORIGIN": SAME}, True),
        ({"HTTP_SEC_FETCH_SITE": "same-origin"}, True),
        ({"HTTP_SEC_FETCH_SITE": "none"}, True),
        ({"HTTP_X_CSRF_TOKEN": "TOKEN"}, True),
        ({"form": "TOKEN"}, True),
        ({}, False),
        ({"form": "another"}, False),
        ({"form": "\ud800"}, False),
        ({"form": ["TOKEN"]}, False),
        ({"HTTP_X_CSRF_TOKEN": "\xff"}, False),
        ({"HTTP_ORIGIN": OTHER}, False),
        ({"HTTP_ORIGIN": "http://["}, False),
        ({"HTTP_ORIGIN": "null"}, False),
        ({"HTTP_ORIGIN": ""}, False),
        ({"HTTP_ORIGIN": OTHER, "form": "TOKEN"}, False),
        ({"HTTP_SEC_FETCH_SITE": "cross-site", "form": "TOKEN"}, False),
        ({"HTTP_SEC_FETCH_SITE": "same-site"}, False),
        ({"HTTP_SEC_FETCH_SITE": "cross-site", "HTTP_ORIGIN": SAME}, False),
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "BREW"])
def test_what_another_site_makes_a_browser_send_is_refused__S23(
    method: str, headers: dict[str, Any], allowed: bool
) -> None:
    sent = cookie()
    token = token_of(sent)
    headers = {name: token if value == "TOKEN" else value for name, value in headers.items()}
    form = headers.pop("form", None)
    request = request_of(method, HTTP_COOKIE=sent, **headers)
    if form is not None:
        request.form = {"csrf_token": [token] if isinstance(form, list) else form}
    if allowed:
        assert accepted(request) == "ann"
    else:
        with pytest.raises(HTTPForbidden):
            accepted(request)
    assert SESSION.identify(request_of("GET", HTTP_COOKIE=sent, **headers)) == "ann"


def test_each_session_has_a_token_of_its_own() -> None:
    assert token_of(cookie()) != token_of(cookie())


@given(st.text(max_size=30), st.text(max_size=30))
def test_whatever_a_client_says_of_its_origin_is_judged(origin: str, host: str) -> None:
    assert is_cross_site(request_of(HTTP_ORIGIN=origin, HTTP_HOST=host)) in (True, False)


# Where a login is needed


def challenge(**environ: Any) -> Any:
    error = HTTPUnauthorized("Please.")
    request = request_of(environ.pop("method", "GET"), HTTP_ACCEPT="text/html", **environ)
    answer = SESSION.challenge(request, error)
    return "same" if answer is error else answer


def test_a_browser_is_led_to_the_login_page_with_the_way_back() -> None:
    answer = challenge(PATH_INFO="/a b/c", QUERY_STRING="d=e%20f&g=//h", SCRIPT_NAME="/s")
    assert isinstance(answer, HTTPSeeOther)
    assert answer.location == "/s/@@login?came_from=/s/a%2520b/c%3Fd%3De%2520f%26g%3D//h"


@pytest.mark.parametrize("path", ["/\xff", "//evil.example", "/\r\nX: y", "/\u20ac"])
def test_the_way_to_the_login_page_is_safe(path: str) -> None:
    """S6, S8: whatever the path is."""
    assert challenge(PATH_INFO=path, QUERY_STRING="\xff\n").location.startswith("/@@login?came_from=/")


def test_a_program_and_a_form_get_the_error() -> None:
    error = HTTPUnauthorized()
    assert SESSION.challenge(request_of(HTTP_ACCEPT="application/json"), error) is error
    of_a_form = challenge(method="POST")
    assert isinstance(of_a_form, HTTPUnauthorized) and "WWW-Authenticate" not in of_a_form.headers


# The file of the keys


@pytest.mark.parametrize(("files", "is_safe"), [("o no on n", True), ("o on n", False)])
def test_servers_with_two_generations_of_keys_know_the_sessions_of_each_other(files: str, is_safe: bool) -> None:
    """The way of authentication.rst to replace a key where several servers answer, and that for one server."""
    generations = [Session([letter * 32 for letter in keys], 3600, "@@login") for keys in files.split()]
    pairs = list(pairwise(generations))
    known = [
        one.identify(request_of(HTTP_COOKIE=cookie(other))) == "ann"
        for pair in pairs[:-1]  # the old key is removed when no session of it is left
        for one, other in (pair, pair[::-1])
    ]
    assert all(known) == is_safe


def test_a_file_of_keys_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "var" / "keys"
    keys = read_keys(str(path))
    assert read_keys(str(path)) == keys and len(keys) == 1 and len(keys[0]) >= 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(path.parent) == ["keys"]


def test_the_file_of_keys_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    """Whatever the umask is, and from the first moment: it is renamed when it is written."""
    before = os.umask(0)
    try:
        read_keys(str(tmp_path / "keys"))
    finally:
        os.umask(before)
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o600


def test_processes_that_start_at_once_have_one_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys"
    made = read_keys(str(path))
    monkeypatch.setattr(Path, "exists", lambda self: False)  # it looked before the other one was done
    assert read_keys(str(path)) == made


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: (path.write_text(NEW), path.chmod(0o644)), "can be read by others"),
        (lambda path: (path.write_text(""), path.chmod(0o600)), "must have a key on each line"),
        (lambda path: (path.write_text("short"), path.chmod(0o600)), "of 32 characters"),
        (lambda path: (path.write_bytes(b"\xff" * 40), path.chmod(0o600)), "cannot be read"),
        (lambda path: (path.mkdir(), path.chmod(0o700)), "cannot be read"),
        (lambda path: path.parent.joinpath("file").write_text(""), "cannot be made"),
    ],
)
def test_keys_that_are_none_are_refused(tmp_path: Path, make: Callable[[Path], object], message: str) -> None:
    path = tmp_path / "keys"
    make(path)
    if message == "cannot be made":
        path = tmp_path / "file" / "keys"
    with pytest.raises(ConfigurationError, match=message):
        read_keys(str(path))
