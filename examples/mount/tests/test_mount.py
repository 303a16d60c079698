"""Four applications behave as one site: one virtual host, one transaction, one retry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from transaction.interfaces import TransientError

from pipeline.database import forks
from pipeline.mounting import request_of
from pipeline.testing import FakeDataManager, site

INI = Path(__file__).resolve().parents[1] / "etc" / "site.ini"
BEHIND_A_PROXY = {"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_HOST": "www.example.org"}
BEHIND_A_PROXY["HTTP_X_FORWARDED_PROTO"] = "https"
BEHIND_A_PROXY["HTTP_X_FORWARDED_FOR"] = "192.0.2.7"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mount")


@pytest.fixture(scope="module")
def client(directory: Path) -> Iterator[Any]:
    """The site, in a directory of its own. Django is configured once in a process."""
    yield site(INI, zodb_uri=f"file://{directory}/Data.fs", django_database=f"{directory}/django.sqlite")
    forks.close_all()


@pytest.fixture
def lines(client: Any) -> Callable[[], list[str]]:
    """The lines of the journal that are new since the test began."""

    def read() -> list[str]:
        return [item.text for item in client.get("/").html.find_all("li")]

    before = len(read())
    return lambda: read()[before:]


@pytest.fixture
def admin(client: Any) -> Iterator[Any]:
    """Django's admin, with a user who is logged in."""
    from django.contrib.auth.models import User
    from django.db import connection

    if not User.objects.filter(username="ada").exists():
        User.objects.create_superuser("ada", password="open")
    connection.close()
    form = client.get("/django/login/?next=/django/").form
    form["username"], form["password"] = "ada", "open"
    form.submit(status=302).follow().mustcontain("Notes")
    yield client
    client.reset()
    connection.close()


def notes(directory: Path, **wanted: str) -> int:
    """The number of notes in Django's database, as another connection sees them."""
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(directory / "django.sqlite")) as database:
        found = database.execute("select count(*) from mount_note where text = ?", [wanted["text"]])
        return int(found.fetchone()[0])


# -- One transaction -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("app", ["pyramid", "flask"])
def test_what_an_application_writes_all_others_see(client: Any, lines: Any, app: str) -> None:
    assert client.post(f"/{app}/write").json == {"written": True}
    assert lines() == [f"{app} wrote"]
    assert client.get("/flask/").json["lines"] == client.get("/pyramid/").json["lines"] > 0


@pytest.mark.parametrize("app", ["pyramid", "flask"])
@pytest.mark.parametrize(("then", "status"), [("conflict", 409), ("fail", 500)])
def test_an_error_stores_nothing__R3(client: Any, lines: Any, app: str, then: str, status: int) -> None:
    client.post(f"/{app}/write", {"then": then}, status=status)
    assert lines() == []


def test_the_admin_writes_to_both_databases(admin: Any, lines: Any, directory: Path) -> None:
    form = admin.get("/django/mount/note/add/").forms["note_form"]
    form["text"] = "milk"
    form.submit(status=302).follow().mustcontain("milk")
    assert lines() == ["django saved milk"]
    assert notes(directory, text="milk") == 1


def test_the_admin_that_fails_writes_to_neither__R3(admin: Any, lines: Any, directory: Path) -> None:
    form = admin.get("/django/mount/note/add/").forms["note_form"]
    form["text"] = "fail"
    form.submit(status=500)
    assert lines() == []
    assert notes(directory, text="fail") == 0


@pytest.fixture
def failing_once(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps of another database, which refuses the first commit."""
    from mount import journal, models

    steps: list[str] = []

    def joins(environ: Any) -> Any:
        tm = journal.request_of(environ).tm
        fails = {} if steps else {"tpc_vote": TransientError("another request was first")}
        steps.append("joined")
        FakeDataManager(tm, fails=fails).join()
        return journal.journal(environ)

    monkeypatch.setattr(models, "journal", joins)
    return steps


def test_a_conflict_is_repaired_in_all_databases__R2(
    admin: Any, lines: Any, directory: Path, failing_once: list[str]
) -> None:
    """The first attempt is undone in Django's database as well: the note is there once."""
    form = admin.get("/django/mount/note/add/").forms["note_form"]
    form["text"] = "bread"
    form.submit(status=302)
    assert failing_once == ["joined", "joined"]
    assert lines() == ["django saved bread"]
    assert notes(directory, text="bread") == 1


def test_an_application_that_ends_the_transaction_of_the_pipeline_is_an_error__R3(
    client: Any, lines: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its changes are lost, so it must not answer as if they were stored."""
    from mount import with_flask

    class Aborted(list[str]):
        def __init__(self, environ: Any) -> None:
            journal(environ).append("flask wrote")
            request_of(environ).tm.abort()

    journal = with_flask.journal
    monkeypatch.setattr(with_flask, "journal", Aborted)
    client.post("/flask/write", status=500)
    assert "but it aborted the transaction of the pipeline" in caplog.text
    assert lines() == []


# -- One virtual host ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("app", ["pyramid", "flask"])
def test_an_application_makes_links_for_the_address_that_the_visitor_sees(client: Any, app: str) -> None:
    assert client.get(f"/{app}/").json["here"] == f"http://localhost/{app}/"
    answer = client.get(f"/{app}/", extra_environ=BEHIND_A_PROXY)
    assert answer.json["here"] == f"https://www.example.org/{app}/"


def test_the_front_page_and_the_admin_do_as_well(client: Any) -> None:
    client.get("/", extra_environ=BEHIND_A_PROXY).mustcontain("https://www.example.org/django/")
    answer = client.get("/django/", extra_environ=BEHIND_A_PROXY, status=302)
    assert answer.follow(extra_environ=BEHIND_A_PROXY).request.path_url == "https://www.example.org/django/login/"


@pytest.mark.parametrize("path", ["/", "/pyramid/", "/flask/", "/django/"])
def test_another_host_is_refused_for_all__S10(client: Any, path: str) -> None:
    assert client.get(path, headers={"Host": "evil.example"}, status=400)
