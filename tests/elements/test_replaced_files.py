"""Files of databases that are no longer at their paths, and classes that are gone: nothing is lost in silence.

What is stored is read by plain ZODB, or SQLite, from the file that is at the path.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import ZODB
from persistent.mapping import PersistentMapping
from sqlalchemy import text
from ZODB.blob import Blob, BlobStorage
from ZODB.FileStorage import FileStorage
from ZODB.utils import u64

from around_a_view import ask, end
from pipeline import Pipeline, Request, Response
from pipeline.database.sql_databases import close_all as close_sql
from pipeline.elements.errors import errors
from pipeline.elements.sql import sql
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import ask_server, close_all, zodb
from pipeline.publisher import publisher


@pytest.fixture(autouse=True)
def databases() -> Iterator[None]:
    yield
    close_all()


def write(request: Request, response: Response) -> list[bytes]:
    request.root["visits"] = request.root.get("visits", 0) + 1
    return [b"done"]


def probe(request: Any, response: Response) -> list[bytes]:
    """Ask as ``health`` does."""
    ask_server(request)
    return [b"ready"]


def visits(file: Path) -> int:
    opened = ZODB.DB(str(file))
    try:
        with opened.transaction() as connection:
            return int(connection.root().get("visits", 0))
    finally:
        opened.close()


def copied_over(file: Path) -> None:
    shutil.copy(file, f"{file}.new")
    os.replace(f"{file}.new", file)


def moved_away(file: Path) -> None:
    os.rename(file.parent, f"{file.parent}.old")
    file.parent.mkdir()


REPLACED: dict[str, Callable[[Path], None]] = {"copied": copied_over, "removed": Path.unlink, "moved": moved_away}


@contextmanager
def opened(kind: str, file: Path, blobs: Path | None) -> Iterator[Any]:
    """The element with a database by its URI, or one that the application has opened."""
    if kind == "uri":
        yield zodb(uri=f"file://{file}{'' if blobs is None else f'?blobstorage_dir={blobs}'}")
        close_all()
        return
    storage: Any = FileStorage(str(file), blob_dir=None if blobs is None or kind == "wrapped" else str(blobs))
    db = ZODB.DB(BlobStorage(str(blobs), storage) if kind == "wrapped" else storage)
    yield zodb(db=db)
    close_all()
    db.close()


KINDS = ["uri", "given", "wrapped"]


@pytest.mark.parametrize("how", REPLACED)
@pytest.mark.parametrize(("kind", "blobs"), [*product(KINDS, ["blobs"]), ("uri", ""), ("given", "")])
def test_nothing_is_acknowledged_that_no_other_process_finds(
    kind: str, how: str, blobs: str, tmp_path: Path, caplog: Any
) -> None:
    (tmp_path / "var").mkdir()
    file = tmp_path / "var" / "Data.fs"
    stack = ExitStack()
    database = stack.enter_context(opened(kind, file, tmp_path / blobs if blobs else None))
    app = Pipeline(database, errors(), transaction(), end(view=write))
    ready = Pipeline(database, errors(), end(view=probe))
    assert (ask(app).status, ask(ready, method="GET").status) == (200, 200)
    REPLACED[how](file)
    assert [ask(app).status for _ in range(3)] == [503, 503, 503]
    assert ask(ready, method="GET").status == 503
    assert f"{file} is not the file that this process has open" in caplog.text
    stack.close()
    Path(f"{file}.lock").unlink(missing_ok=True)
    assert visits(file) == (1 if how == "copied" else 0)


def by_a_copy(file: Path) -> None:
    """What was there after the first commit, the one that has made the root."""
    content = file.read_bytes()
    file.write_bytes(content[: len(b"FS21") + u64(content[12:20]) + 8])


def by_another_process(file: Path) -> None:
    """The other one gets the lock, since somebody has removed its file."""
    Path(f"{file}.lock").unlink()
    with closing(ZODB.DB(str(file))) as db, db.transaction() as connection:
        connection.root()["other"] = 1


@pytest.mark.parametrize("write_over", [by_a_copy, by_another_process])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_written_over_what_another_process_has_written(
    kind: str, write_over: Callable[[Path], None], tmp_path: Path, caplog: Any
) -> None:
    """Neither what is acknowledged here is lost, nor what was acknowledged there."""
    file = tmp_path / "Data.fs"
    with opened(kind, file, tmp_path / "blobs") as database:
        app = Pipeline(database, errors(), transaction(), end(view=write))
        ready = Pipeline(database, errors(), end(view=probe))
        assert (ask(app).status, ask(ready, method="GET").status) == (200, 200)
        write_over(file)
        content = file.read_bytes()
        assert ask(ready, method="GET").status == 503
        assert all(ask(app).status >= 500 for _ in range(3))
        assert file.read_bytes() == content
    assert f"{file} does not end where this process has written last" in caplog.text


def test_a_pack_may_make_the_file_smaller(tmp_path: Path) -> None:
    app = Pipeline(database := zodb(uri=f"file://{tmp_path}/Data.fs"), errors(), transaction(), end(view=write))
    ready = Pipeline(database, errors(), end(view=probe))
    assert [ask(app).status for _ in range(3)] == [200, 200, 200]
    pack = Pipeline(database, end(view=lambda request, response: request.zodb.db().pack()))
    assert ask(pack).status == 200
    assert (ask(ready, method="GET").status, ask(app).status, ask(ready, method="GET").status) == (200, 200, 200)


BLOBS: dict[str, Callable[[Path], object]] = {
    "removed": shutil.rmtree,
    "moved": lambda directory: directory.rename(f"{directory}.old"),
    "replaced": lambda directory: (
        directory.rename(f"{directory}.old"),
        shutil.copytree(f"{directory}.old", directory),
    ),
}


@pytest.mark.parametrize("how", BLOBS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_blob_is_acknowledged_that_no_other_process_finds(
    kind: str, how: str, tmp_path: Path, caplog: Any
) -> None:
    def upload(request: Request, response: Response) -> list[bytes]:
        request.root["file"] = Blob(b"content")
        return [b"done"]

    with opened(kind, tmp_path / "Data.fs", tmp_path / "blobs") as database:
        app = Pipeline(database, errors(), transaction(), end(view=upload))
        assert ask(app).status == 200
        BLOBS[how](tmp_path / "blobs")
        assert [ask(app).status for _ in range(3)] == [503, 503, 503]
    assert f"{tmp_path}/blobs is not the directory that this process has open" in caplog.text


def test_a_probe_waits_for_the_new_file_of_a_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the two renames of a pack there is no file at the path: a probe at this moment is no 503."""
    rename = os.rename
    probes: list[Future[None]] = []

    def pack(request: Any, response: Response) -> list[bytes]:
        db = request.zodb.db()

        def slowly(old: str, new: str) -> None:
            rename(old, new)
            if str(new).endswith(".old"):
                probes.append(pool.submit(db.storage.server_status))
                wait(probes, 0.5)

        monkeypatch.setattr(os, "rename", slowly)
        db.pack()
        return [b"done"]

    database = zodb(uri=f"file://{tmp_path}/Data.fs")
    with ThreadPoolExecutor() as pool:
        assert ask(Pipeline(database, errors(), transaction(), end(view=write))).status == 200
        assert ask(Pipeline(database, errors(), transaction(), end(view=pack))).status == 200
    assert [one.result() for one in probes] == [None]


def test_a_pack_replaces_the_file_rightly(tmp_path: Path) -> None:
    file = tmp_path / "Data.fs"

    def pack(request: Any, response: Response) -> list[bytes]:
        request.zodb.db().pack()
        return write(request, response)

    app = Pipeline(zodb(uri=f"file://{file}"), errors(), transaction(), end(view=pack))
    assert [ask(app).status for _ in range(3)] == [200, 200, 200]
    close_all()
    assert visits(file) == 3


@pytest.fixture
def gone() -> Iterator[ModuleType]:
    """A module of a site, which is renamed."""
    module = sys.modules["wiki_models"] = ModuleType("wiki_models")
    module.Site = type("Site", (PersistentMapping,), {"__module__": "wiki_models"})  # type: ignore[attr-defined]
    yield module
    sys.modules.pop("wiki_models", None)


@pytest.mark.parametrize("path", ["/", "/below", "/below/more"])
def test_a_class_that_is_gone_is_no_404(path: str, gone: Any, tmp_path: Path, caplog: Any) -> None:
    """A 404 would have search engines forget the site."""
    uri = f"file://{tmp_path}/Data.fs"
    opened = ZODB.DB(f"{tmp_path}/Data.fs")
    with opened.transaction() as connection:
        connection.root()["site"] = gone.Site()
        connection.root()["site"]["below"] = gone.Site()
    opened.close()
    root = "site" if path == "/" else ""
    app = Pipeline(zodb(uri=uri, root=root), errors(), transaction(), traverse(), publisher(scan=()))
    path = path if path == "/" else f"/site{path}"
    assert ask(app, path, "GET").status == 404
    close_all()
    del sys.modules["wiki_models"]
    assert ask(app, path, "GET").status == 503
    assert "class wiki_models.Site of stored objects cannot be imported" in caplog.text


def make_table(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS t (v text)")


@pytest.mark.parametrize("how", ["copied", "moved"])
def test_a_file_of_sqlite_is_opened_again(how: str, tmp_path: Path) -> None:
    (tmp_path / "var").mkdir()
    file = tmp_path / "var" / "site.sqlite"

    def insert(request: Any, response: Response) -> list[bytes]:
        request.sql.execute(text("INSERT INTO t VALUES ('a')"))
        return [b"done"]

    make_table(file)
    app = Pipeline(sql(url=f"sqlite:///{file}"), errors(), transaction(), end(view=insert))
    assert ask(app).status == 200
    REPLACED[how](file)
    make_table(file)
    assert [ask(app).status for _ in range(3)] == [200, 200, 200]
    close_sql()
    with closing(sqlite3.connect(file)) as connection, connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (4 if how == "copied" else 3,)


@pytest.mark.parametrize("how", REPLACED)
def test_a_file_of_sqlite_that_is_replaced_while_a_view_runs_gets_no_commit(how: str, tmp_path: Path) -> None:
    """What is stored in the old file, no other process finds."""
    (tmp_path / "var").mkdir()
    file = tmp_path / "var" / "site.sqlite"

    def insert(request: Any, response: Response) -> list[bytes]:
        request.sql.execute(text("INSERT INTO t VALUES ('a')"))
        if request.params:
            REPLACED[how](file)
            make_table(file)
        return [b"done"]

    make_table(file)
    app = Pipeline(sql(url=f"sqlite:///{file}"), errors(), transaction(), end(view=insert))
    assert [ask(app, query).status for query in ("/", "/?replace=1", "/")] == [200, 503, 200]
    close_sql()
    with closing(sqlite3.connect(file)) as connection, connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (2 if how == "copied" else 1,)
