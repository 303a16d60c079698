"""``pipeline check --database``: what is stored, and the code does not know; judged by what is in the file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from persistent import Persistent
from persistent.mapping import PersistentMapping
from ZODB.Connection import TransactionMetaData
from ZODB.DB import DB
from ZODB.FileStorage import FileStorage
from ZODB.utils import z64

from inis import ini_of
from pipeline.database import forks
from pipeline.tools.command import main
from pipeline.tools.new import make


@pytest.fixture(autouse=True)
def databases() -> Iterator[None]:
    yield
    forks.close_all()


def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, at_root: bool) -> None:
    """Store objects of a class of a module that is gone afterwards."""
    module = ModuleType("gone_models")
    Page: Any = type("Page", (Persistent,), {"__module__": "gone_models"})
    module.__dict__["Page"] = Page
    monkeypatch.setitem(sys.modules, "gone_models", module)
    database = DB(FileStorage(str(tmp_path / "Data.fs")))
    with database.transaction() as connection:
        root = connection.root()
        if at_root:
            root["site"] = Page()
        else:
            root["site"] = site = PersistentMapping()
            site["pages"] = [Page(), Page(), Page()]
    database.close()
    monkeypatch.delitem(sys.modules, "gone_models")


def check(tmp_path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    order = ["retry", "zodb", "errors", "transaction", "forms", "traverse"]
    zodb = f"uri = file://{tmp_path}/Data.fs\nroot = site"
    (tmp_path / "site.ini").write_text(ini_of(order, "proving.notes", zodb=zodb))
    status = main(["check", str(tmp_path / "site.ini"), *more])
    return status, capsys.readouterr().out


@pytest.mark.parametrize("at_root", [True, False])
def test_a_class_that_is_gone_is_told(
    at_root: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also that of the root, for which each page is a 503."""
    stored(tmp_path, monkeypatch, at_root=at_root)
    before = (tmp_path / "Data.fs").read_bytes()
    status, said = check(tmp_path, capsys)
    assert status == 0, said
    status, said = check(tmp_path, capsys, "--database")
    objects = "1 stored object" if at_root else "3 stored objects"
    assert status == 1
    assert f"the class gone_models.Page of {objects} cannot be imported (the first is 0x" in said
    assert (tmp_path / "Data.fs").read_bytes() == before


def test_classes_that_are_there_are_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = DB(FileStorage(str(tmp_path / "Data.fs")))
    with database.transaction() as connection:
        connection.root()["site"] = PersistentMapping()
    database.close()
    status, said = check(tmp_path, capsys, "--database")
    assert status == 0 and "cannot be imported" not in said


def test_tables_that_migrations_have_not_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = pytest.importorskip("alembic.command")
    config = pytest.importorskip("alembic.config")
    list(make(tmp_path / "shop", "shop_of_a_check", ["sql"]))
    monkeypatch.syspath_prepend(str(tmp_path / "shop"))
    ini = str(tmp_path / "shop" / "development.ini")
    assert main(["check", "--database", ini]) == 1
    assert "the tables are at no revision, and the code at 0001" in capsys.readouterr().out
    command.upgrade(config.Config(tmp_path / "shop" / "alembic.ini"), "head")
    assert main(["check", "--database", ini]) == 0
    assert "the tables are at" not in capsys.readouterr().out
    more = 'revision, down_revision = "0002", "0001"\ndef upgrade(): ...\ndef downgrade(): ...\n'
    (tmp_path / "shop" / "migrations" / "versions" / "0002_more.py").write_text(more)
    assert main(["check", "--database", ini]) == 1
    assert "the tables are at 0001, and the code at 0002" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[alembic]\n", "No 'script_location' key found in configuration"),
        (b"[alembic]\nscript_location = gone\n", "Path doesn't exist: gone"),
        (b"script_location = migrations\n", "this line stands above the first section"),
        (b"[alembic]\nscript_location = %(gone)s\n", "an interpolation key 'gone' which is not"),
        (b"[alembic]\n# \xff\n", "a file is not UTF-8: save it as that"),
    ],
)
def test_an_ini_of_alembic_that_cannot_be_read_is_named(
    text: bytes, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("alembic.command")
    list(make(tmp_path / "shop", "shop_of_a_check", ["sql"]))
    monkeypatch.syspath_prepend(str(tmp_path / "shop"))
    file = tmp_path / "shop" / "alembic.ini"
    file.write_bytes(text)
    assert main(["check", "--database", str(tmp_path / "shop" / "development.ini")]) == 1
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    (number,) = (number for number, line in enumerate(lines) if line.startswith("error: "))
    assert said in lines[number] and lines[number + 1].startswith(f"    in {file}"), shown
    assert shown.err == ""


def test_a_database_that_cannot_be_read_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``errors`` makes a page of the exception, and the check is not done."""
    storage = FileStorage(str(tmp_path / "Data.fs"))
    transaction = TransactionMetaData()
    storage.tpc_begin(transaction)
    storage.store(storage.new_oid(), z64, b"not a pickle", "", transaction)
    storage.tpc_vote(transaction)
    storage.tpc_finish(transaction)
    storage.close()
    status, said = check(tmp_path, capsys, "--database")
    assert status == 1 and said.startswith("error: ") and "in order" not in said


def test_a_server_that_is_away_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if no object is read of it: what is found is told, and the lists of jobs are not empty."""
    pytest.importorskip("psycopg")
    monkeypatch.setattr("pipeline.tools.work.set_up_logging", lambda ini, variables: None)
    order = ["retry", "sql", "errors", "transaction", "forms", "traverse"]
    options = {"sql": "url = postgresql+psycopg://127.0.0.1:1/site", "traverse": "root = builtins:dict"}
    (tmp_path / "site.ini").write_text(ini_of(order, "proving.notes", **options))
    for command in (["check", "--database"], ["work", "--list"], ["work", "--again"], ["work", "--once"]):
        assert main([*command, str(tmp_path / "site.ini")]) == 1
        said = capsys.readouterr()
        where = said.out if command[0] == "check" else said.err
        line = "Unavailable: the database postgresql+psycopg://127.0.0.1:1/site cannot be reached\n"
        assert line in where and "Traceback" not in said.err, command
