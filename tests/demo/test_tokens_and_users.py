"""Form tokens and passwords."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from argon2 import PasswordHasher, extract_parameters
from webob.exc import HTTPForbidden
from webtest import TestApp

from pipeline import Request
from pipeline.auth.policy import LocalGrants
from pipeline.elements.zodb import close_all
from pipeline_demo import site as demo_site
from pipeline_demo import tokens, users
from pipeline_demo.models import Folder, Site
from pipeline_demo.tokens import HEADER, Expired, check_token, make_token


def request_of(principal: str | None, site: Site, **environ: str) -> Request:
    request = Request({"REQUEST_METHOD": "POST", **environ})
    request.root = site
    request.principal = principal
    return request


@pytest.fixture
def site() -> Site:
    return Site("Test", b"x" * 32)


def test_a_token_is_good_for_whom_it_was_made(site: Site) -> None:
    token = make_token(request_of("anna", site))
    check_token(request_of("anna", site), token)


@pytest.mark.parametrize("token", [None, "", "x", "a.b.c", "\ud800", "é"])
def test_what_is_no_token_is_refused(site: Site, token: str | None) -> None:
    with pytest.raises(HTTPForbidden):
        check_token(request_of("anna", site), token)


def test_a_token_of_another_person_or_site_is_refused(site: Site) -> None:
    token = make_token(request_of("anna", site))
    with pytest.raises(HTTPForbidden):
        check_token(request_of("berta", site), token)
    with pytest.raises(HTTPForbidden):
        check_token(request_of("anna", Site("Other", b"y" * 32)), token)
    with pytest.raises(HTTPForbidden):
        check_token(request_of("anna", site), token[:-1])


def test_nobody_has_a_token(site: Site) -> None:
    with pytest.raises(HTTPForbidden):
        check_token(request_of(None, site), make_token(request_of(None, site)))


def test_an_old_token_is_known_as_old(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    token = make_token(request_of("anna", site))
    later = time.time() + tokens.MAX_AGE + 5
    monkeypatch.setattr(time, "time", lambda: later)
    with pytest.raises(Expired):
        check_token(request_of("anna", site), token)
    with pytest.raises(HTTPForbidden):
        check_token(request_of("berta", site), token)


def test_a_token_of_an_instance_that_is_a_moment_ahead_is_good(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    token = make_token(request_of("anna", site))
    earlier = time.time() - 2
    monkeypatch.setattr(time, "time", lambda: earlier)
    check_token(request_of("anna", site), token)


def test_a_client_that_is_no_browser_sends_a_header(site: Site) -> None:
    check_token(request_of("anna", site, **{f"HTTP_{HEADER.upper().replace('-', '_')}": "curl"}), None)


def test_logging_in(site: Site, known_password: str) -> None:
    request = request_of(None, site)
    users.set_password(site, "anna", "one")
    assert users.check(request, "anna", "one") == "anna"
    assert users.check(request, "anna", "two") is None
    assert users.check(request, "berta", "one") is None
    users.set_password(site, "anna", "two")
    assert users.check(request, "anna", "one") is None
    assert users.check(request, "anna", "two") == "anna"


def test_a_folder_has_users_of_its_own(site: Site, known_password: str) -> None:
    site["club"] = club = Folder("Club")
    assert users.members_of(club) is None and users.members_of(site) is None
    users.add_member(club, "anna", "one")
    users.add_member(club, "berta", "two")
    members = users.members_of(club)
    assert members is not None
    request = request_of(None, site)
    assert members.check(request, "anna", "one") == "anna@/club"
    assert members.check(request, "anna", "two") is None
    assert users.check(request, "anna", "one") is None
    granted = [LocalGrants().permits(request_of(who, site), "edit", club) for who in ("berta@/club", "berta")]
    assert granted == [True, False]
    assert not LocalGrants().permits(request_of("berta@/club", site), "edit", site)
    assert LocalGrants().permits(request_of("admin", site), "edit", club)


def test_a_password_with_old_parameters_is_hashed_anew_and_stored(
    make_app: Callable[..., TestApp], tmp_path: Path
) -> None:
    """Also by a GET: it is committed as any change is."""
    uri = f"file://{tmp_path}/Data.fs"
    old = PasswordHasher(time_cost=2, memory_cost=8, parallelism=1).hash("old horse")
    with demo_site.connected(uri) as connection, connection.transaction_manager:
        demo_site.root(connection.root()).users["anna"] = old
    app = make_app(uri)
    app.authorization = ("Basic", ("anna", "old horse"))
    app.get("/nowhere", status=404)  # which is aborted
    for _ in range(2):
        assert "anna" in app.get("/").html.select_one(".login").text
    close_all()
    with demo_site.connected(uri) as connection:
        stored = demo_site.root(connection.root()).users["anna"]
    assert extract_parameters(stored).time_cost == 1


def test_a_database_that_is_only_read_keeps_the_old_hash(site: Site, known_password: str) -> None:
    class Jar:
        def isReadOnly(self) -> bool:
            return True

    class Users(dict[str, str]):
        _p_jar = Jar()

    old = PasswordHasher(time_cost=2, memory_cost=8, parallelism=1).hash("one")
    site.users = Users(anna=old)
    assert users.check(request_of(None, site), "anna", "one") == "anna"
    assert site.users["anna"] == old
