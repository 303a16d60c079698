"""``keep`` after an undo, a fork and a restart of the server: no page is older than its database."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import transaction
from persistent import Persistent
from ZODB.DB import DB
from ZODB.FileStorage import FileStorage

from asking import ask
from pipeline import Pipeline, view
from pipeline.elements.errors import errors
from pipeline.elements.keep import KeepRequest, keep
from pipeline.elements.site import site
from pipeline.elements.transaction import transaction as commit
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import close_all, zodb
from pipeline.publisher import publisher
from servers.zeo import ZEO


class Doc(Persistent):  # type: ignore[misc]
    """An object with a text, the root of the site."""

    text = "one"


@view(context=Doc)
def page(context: Doc, request: KeepRequest) -> str:
    request.keep = 60
    return context.text


@view(context=Doc, name="write", methods=("POST",))
def write(context: Doc, request: KeepRequest) -> str:
    context.text = "two"
    return "written"


@pytest.fixture
def app_on() -> Iterator[Callable[..., Pipeline]]:
    """``app_on(outer elements, uri=...)``: the site on a database, with its page kept."""

    def app_on(*outer: Any, **database: Any) -> Pipeline:
        inner = (errors(), commit(), keep(), traverse(), publisher(scan=(__name__,)))
        app = Pipeline(*outer, zodb(**database), *inner)
        for _ in range(3):
            ask(app)
        return app

    yield app_on
    close_all()


def root(database: Any) -> Doc:
    """Return the root of the site, and make it if the database is new."""
    found: Doc = database.get("site") or database.setdefault("site", Doc())
    return found


def counts(app: Pipeline) -> Any:
    return app.offered["kept_pages"].counts


@pytest.fixture
def db(tmp_path: Path) -> Iterator[DB]:
    opened = DB(FileStorage(str(tmp_path / "Data.fs")))
    with opened.transaction() as connection:
        connection.root()["site"] = Doc()
    yield opened
    close_all()
    opened.close()


def test_undo(app_on: Callable[..., Pipeline], db: DB) -> None:
    app = app_on(db=db, root="site")
    ask(app, "/write", "POST")
    assert [ask(app).text for _ in range(3)] == ["two"] * 3
    db.undo(db.undoInfo(0, 1)[0]["id"])
    transaction.commit()
    assert ask(app).text == "one"
    assert counts(app)["changed"] == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_inherits_no_page_and_no_lock__R12(app_on: Callable[..., Pipeline]) -> None:
    """The database in memory is a new one in the child. Another thread of the parent keeps and makes a page."""
    app = app_on(uri="memory://kept", root=root)
    ask(app, "/write", "POST")
    assert [ask(app).text for _ in range(3)] == ["two"] * 3
    pages, before = app.offered["kept_pages"], counts(app)["sent again"]
    held = threading.Lock()
    with pages.lock, held:
        pages.making.update(dict.fromkeys(pages.entries, held))
        child = os.fork()
        if child == 0:  # pragma: no cover
            status = 1
            try:
                signal.alarm(4)
                began = time.monotonic()
                texts = [ask(app).text for _ in range(4)]
                is_kept = counts(app)["sent again"] == before + 2
                status = int(texts != ["one"] * 4 or not is_kept or time.monotonic() - began > 3)
            finally:
                os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert ask(app).text == "two"


@pytest.mark.servers
def test_a_commit_while_the_server_was_away(app_on: Callable[..., Pipeline], tmp_path: Path) -> None:
    server = ZEO(tmp_path)
    server.start()
    try:
        app = app_on(uri=server.uri(options="wait_timeout=5"), root=root, server_sync=True)
        assert counts(app)["sent again"] == 1
        server.stop()
        with closing(DB(FileStorage(str(tmp_path / "Data.fs")))) as db, db.transaction() as connection:
            connection.root()["site"].text = "two"
        assert ask(app).status == 503
        server.start()
        answers = (ask(app) for _ in range(200))
        assert next(one.text for one in answers if one.status == 200 or time.sleep(0.05)) == "two"
    finally:
        close_all()
        server.stop()


def test_no_page_is_kept_where_there_may_be_local_sites(app_on: Callable[..., Pipeline], db: DB) -> None:
    """What the registries of local sites read is not known."""
    app = app_on(site(), db=db, root="site")
    assert counts(app) == {"not kept: a traversal hook that is made for each request": 3}
