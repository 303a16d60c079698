"""``pipeline demo-user``: adds a user, and sets a password."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.auth.policy import LocalGrants
from pipeline.tools.command import main
from pipeline_demo import check, site
from pipeline_demo.models import Folder
from pipeline_demo.users import members_of

from .test_tokens_and_users import request_of

DEPLOY = str(Path(__file__).resolve().parents[2] / "etc" / "deploy.ini")

pytestmark = [pytest.mark.usefixtures("known_password", "no_documentation"), pytest.mark.once]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = f"file://{tmp_path}/Data.fs"
    with site.connected(uri) as connection, connection.transaction_manager:
        site.root(connection.root())["club"] = Folder("Club")
    return uri


def run(monkeypatch: pytest.MonkeyPatch, uri: str, *arguments: str, password: str = "a new password") -> int:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{password}\n"))
    return main(["demo-user", DEPLOY, *arguments, f"zodb_uri={uri}"])


def who(uri: str, login: str, password: str, place: str = "") -> tuple[str | None, bool]:
    """The principal that a login has, and whether it may edit."""
    with site.connected(uri) as connection, connection.transaction_manager:
        root = site.root(connection.root())
        folder: Any = root[place] if place else root
        members = members_of(folder)
        asked = request_of(None, root)
        principal = (members.check if members else check)(asked, login, password)
        return principal, LocalGrants().permits(request_of(principal, root), "edit", folder)


def test_a_user_is_added_and_gets_another_password(
    uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, uri, "anna") == 0
    assert capsys.readouterr().out == "anna: the user was added\n"
    assert who(uri, "anna", "a new password") == ("anna", False)
    assert run(monkeypatch, uri, "anna", "--edit", password="another one") == 0
    assert capsys.readouterr().out == "anna: the password was changed\n"
    assert who(uri, "anna", "a new password") == (None, False)
    assert who(uri, "anna", "another one") == ("anna", True)


def test_a_lost_password_of_the_administrator_is_replaced(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, uri, "admin") == 0
    assert who(uri, "admin", "a new password") == ("admin", True)
    assert who(uri, "admin", "correct horse") == (None, False)


def test_a_user_of_a_folder(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, uri, "ben", "--in", "/club") == 0
    assert who(uri, "ben", "a new password", "club") == ("ben@/club", True)
    assert who(uri, "ben", "a new password") == (None, False)


@pytest.mark.parametrize("place", ["", "club"])
def test_a_user_is_removed_with_the_grants(
    uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    where = ["--in", f"/{place}"] if place else []
    assert run(monkeypatch, uri, "anna", *where, *([] if place else ["--edit"])) == 0
    assert run(monkeypatch, uri, "anna", "--remove", *where) == 0
    assert capsys.readouterr().out == "anna: the user was added\nanna: the user was removed\n"
    assert who(uri, "anna", "a new password", place) == (None, False)
    assert run(monkeypatch, uri, "anna", *where) == 0
    assert who(uri, "anna", "a new password", place)[1] is bool(place), "the old grant is gone"
    assert who(uri, "admin", "correct horse") == ("admin", True)


@pytest.mark.parametrize(
    ("arguments", "password", "said"),
    [
        (["anna"], "short", "8 to 1024 characters"),
        (["anna"], "", "8 to 1024 characters"),
        (["anna"], "x" * 1025, "8 to 1024 characters"),
        (["an:na"], "a new password", "has a ':' or a '/'"),
        (["ben@/club"], "a new password", "has a ':' or a '/'"),
        ([""], "a new password", "printable"),
        ([" anna"], "a new password", "printable"),
        (["an\nna"], "a new password", "printable"),
        (["anna", "--in", "/nothing"], "a new password", "there is no folder"),
        (["anna", "--remove"], "", "there is no user anna here"),
        (["anna", "--remove", "--in", "/club"], "", "there is no user anna here"),
        (["anna", "--in", "/index.md"], "a new password", "there is no folder"),
        (["anna", "--in", "/_x"], "a new password", "may not begin with"),
    ],
)
def test_what_is_refused_changes_nothing(
    uri: str,
    arguments: list[str],
    password: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(monkeypatch, uri, *arguments, password=password) == 1
    assert said in capsys.readouterr().err
    with site.connected(uri) as connection, connection.transaction_manager:
        root = site.root(connection.root())
        assert list(root.users) == ["admin"] and root["club"].users is None


@pytest.mark.parametrize(("second", "status"), [("a new password", 0), ("a new passwort", 1)])
def test_at_a_terminal_it_is_asked_for_twice(
    uri: str, second: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = iter(["a new password", second])
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(typed))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert main(["demo-user", DEPLOY, "anna", f"zodb_uri={uri}"]) == status


def test_a_database_in_use(uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with site.connected(uri):
        assert run(monkeypatch, uri, "anna") == 1
    assert "please stop the server" in capsys.readouterr().err


def test_a_database_that_is_not_there_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, f"file://{tmp_path}/var/Data.fs", "admin") == 1
    said = capsys.readouterr().err
    assert f"the database {tmp_path}/var/Data.fs of {DEPLOY} is not there: serve the site" in said
    assert list(tmp_path.iterdir()) == []


def test_a_database_of_another_site_is_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = f"file://{tmp_path}/Data.fs"
    with site.connected(other):
        pass
    assert run(monkeypatch, other, "admin") == 1
    assert "there is no demo site in" in capsys.readouterr().err
    with site.connected(other) as connection:
        assert dict(connection.root()) == {}


def test_an_ini_of_another_site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = tmp_path / "site.ini"
    ini.write_text("[app:main]\nuse = egg:wsgi-pipeline#publisher\n")
    assert main(["demo-user", str(ini), "admin"]) == 1
    assert f"{ini} has no demo site: no database in it has root = pipeline_demo:root" in capsys.readouterr().err
