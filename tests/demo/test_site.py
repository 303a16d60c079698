"""Making the site: once, as a whole, with a password that is shown when it is stored."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import transaction
import ZODB.DB
from ZODB.FileStorage.FileStorage import FileStorage
from ZODB.POSException import ConflictError

from pipeline_demo import check, root, site
from pipeline_demo.models import Document, Folder, Site

PASSWORD = re.compile(r"password:  in (\S+), until the first login")


def uri_in(directory: Path) -> str:
    return f"file://{directory}/var/Data.fs?blobstorage_dir={directory}/var/blobs"


class FakeRequest:
    def __init__(self, site: Site) -> None:
        self.root = site


def test_the_password_is_shown_once_and_is_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uri = uri_in(tmp_path)
    assert site.create(uri)
    shown = capsys.readouterr()
    assert shown.out == ""
    found = PASSWORD.search(shown.err)
    assert found is not None
    file = Path(found[1])
    assert file.stat().st_mode & 0o777 == 0o600
    first = file.read_text().strip()
    assert first not in shown.err, "a log is read by others (S25)"
    with site.connected(uri) as connection, connection.transaction_manager:
        made = root(connection.root())
        assert check(FakeRequest(made), "admin", first) == "admin"  # type: ignore[arg-type]
        assert not file.exists()
        assert check(FakeRequest(made), "admin", "x") is None  # type: ignore[arg-type]
    assert not site.create(uri)
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_the_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert site.create(uri_in(tmp_path))
    assert re.search(r"password:  \S{16}\n", capsys.readouterr().err)
    assert not list(tmp_path.rglob("first-password"))


def test_the_command_makes_the_site_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uri = uri_in(tmp_path)
    assert site.main([uri]) == 0
    assert PASSWORD.search(capsys.readouterr().err)
    assert site.main([uri]) == 0
    assert "there already" in capsys.readouterr().out


def test_its_own_documentation_is_in_it(tmp_path: Path) -> None:
    docs = site.documentation()
    assert docs is not None
    uri = uri_in(tmp_path)
    site.create(uri)
    with site.connected(uri) as connection, connection.transaction_manager:
        folder = root(connection.root())["docs"]
        assert isinstance(folder, Folder)
        index = folder["index.rst"]
        assert isinstance(index, Document)
        assert index.text == (docs / "index.rst").read_text("utf-8")
        assert folder.title == index.title


@pytest.fixture
def db(tmp_path: Path) -> Any:
    db = ZODB.DB(FileStorage(str(tmp_path / "Data.fs")))
    yield db
    db.close()


def test_what_fails_leaves_nothing(
    db: Any, known_password: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither half a site nor a password that is none."""
    manager = transaction.TransactionManager()
    connection = db.open(manager)
    manager.begin()
    root(connection.root())
    manager.abort()  # as after an error in the request
    manager.begin()
    assert site.KEY not in connection.root()
    manager.get().addBeforeCommitHook(lambda: 1 / 0)
    root(connection.root())
    with pytest.raises(ZeroDivisionError):
        manager.commit()
    manager.abort()
    assert capsys.readouterr().err == ""
    manager.begin()
    root(connection.root())
    manager.commit()
    shown = capsys.readouterr().err
    assert "The site was made." in shown and known_password not in shown
    connection.close()


def test_of_two_at_once_one_makes_it(db: Any, known_password: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The other has a conflict, so that `retry` shows it the site of the first."""
    managers = [transaction.TransactionManager() for _ in range(2)]
    connections = [db.open(manager) for manager in managers]
    for manager, connection in zip(managers, connections, strict=True):
        manager.begin()
        root(connection.root())
    managers[0].commit()
    with pytest.raises(ConflictError):
        managers[1].commit()
    managers[1].abort()
    assert capsys.readouterr().err.count("password:") == 1
    managers[1].begin()
    root(connections[1].root())
    assert not connections[1]._registered_objects
    managers[1].abort()
    for connection in connections:
        connection.close()


def test_a_database_in_use_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uri = uri_in(tmp_path)
    with site.connected(uri):
        assert site.main([uri]) == 1
    assert "is in use: please stop the server" in capsys.readouterr().err
    assert site.main(["nonsense://x"]) == 1
    assert "cannot be opened" in capsys.readouterr().err
