"""The site in a database of its own for each test, with a password that the tests know."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import transaction
import ZODB.DB
from argon2 import PasswordHasher
from webtest import TestApp
from ZODB.blob import BlobStorage
from ZODB.FileStorage.FileStorage import FileStorage

from pipeline import Pipeline
from pipeline.auth import passwords
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.retry import retry
from pipeline.elements.session import session
from pipeline.elements.shield import shield
from pipeline.elements.transaction import transaction as commit
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import zodb
from pipeline.publisher import publisher
from pipeline_demo import check, site
from pipeline_demo.models import Site

from .serving import Server

PASSWORD = "correct horse"
_numbers = itertools.count()


@pytest.fixture
def known_password(monkeypatch: pytest.MonkeyPatch) -> str:
    """A new site has this password, hashed in no time."""
    monkeypatch.setattr(passwords, "_hasher", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    monkeypatch.setattr("secrets.token_urlsafe", lambda size=None: PASSWORD)
    return PASSWORD


@pytest.fixture
def no_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new site has a welcome and a counter, and nothing more."""
    monkeypatch.setattr(site, "documentation", lambda: None)


@pytest.fixture
def make_app(known_password: str, no_documentation: None, tmp_path: Path) -> Callable[..., TestApp]:
    """``make_app(uri)``: a client of a site that is made by its first request; ``limits`` are those of forms."""
    keys = tmp_path / "session_keys"
    keys.touch(0o600)
    keys.write_text("k" * 32)

    def make_app(uri: str = "", **limits: int) -> TestApp:
        app = Pipeline(
            shield(sources={"default-src": "'none'", "style-src": "'self'", "img-src": "'self'"}),
            retry(delay=0),
            zodb(uri=uri or f"memory://demo-{next(_numbers)}", root="pipeline_demo:root"),
            errors(),
            commit(),
            session(keys=str(keys)),
            forms(**{"max_memory": 8 * 1024 * 1024, **limits}),
            authenticate(check=check),
            traverse(),
            publisher(scan=("pipeline_demo",)),
        )
        return TestApp(app)

    return make_app


@pytest.fixture
def anybody(make_app: Callable[..., TestApp]) -> TestApp:
    """A visitor who is not logged in."""
    return make_app()


@pytest.fixture
def admin(make_app: Callable[..., TestApp]) -> TestApp:
    """A visitor who is logged in."""
    app = make_app()
    app.authorization = ("Basic", ("admin", PASSWORD))
    return app


@pytest.fixture(params=["blobs", "pages"])
def connection(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A connection to a database, with and without blobs."""
    storage: Any = FileStorage(str(tmp_path / "Data.fs"))
    if request.param == "blobs":
        storage = BlobStorage(str(tmp_path / "blobs"), storage)
    db = ZODB.DB(storage)
    manager = transaction.TransactionManager()
    connection = db.open(manager)
    yield connection
    manager.abort()
    connection.close()
    db.close()


@pytest.fixture
def stored_site(connection: Any) -> Site:
    """An empty site that is in the database."""
    connection.root()["site"] = stored = Site("Test", b"secret")
    connection.transaction_manager.commit()
    return stored


@pytest.fixture
def server(start: Callable[..., Any], free_port: int, tmp_path: Path, known_password: str) -> Iterator[Server]:
    """The site of etc/deploy.ini, served by waitress."""
    server = Server(start, free_port, tmp_path, known_password)
    yield server
    server.stop()
