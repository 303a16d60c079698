"""The servers as fixtures, for the conftest of whoever uses them: one of each for a directory of tests.

Each is started by the first test that asks for it. One that is missing skips the test, and fails it
where nothing may be missing.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pytest

from servers.base import Missing, Server
from servers.mariadb import MariaDB
from servers.postgres import Postgres
from servers.toxiproxy import Toxiproxy
from servers.zeo import ZEO

SomeServer = TypeVar("SomeServer", bound=Server)
Skip = Callable[[str, str], NoReturn]
Launch = Callable[..., Any]

_names = itertools.count(1)


@pytest.fixture(scope="session")
def new_name() -> Callable[[], str]:
    """Names for databases, no two the same."""
    return lambda: f"site{next(_names)}"


@pytest.fixture(scope="session")
def servers_dir() -> Iterator[Path]:
    """A directory that the users of the servers may enter; its path is short, as sockets need it."""
    with tempfile.TemporaryDirectory(prefix="servers-", ignore_cleanup_errors=True) as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


@contextlib.contextmanager
def running(kind: type[SomeServer], directory: Path, missing: Skip, **options: Any) -> Iterator[SomeServer]:
    """A server of this kind while the block runs."""
    number = 0
    while (own := directory / f"{kind.__name__.lower()}{number or ''}").exists():
        number += 1
    try:
        server = kind(own, **options)
    except Missing as error:
        missing(*error.args)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(own, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres(servers_dir: Path, missing: Skip, need_packages: Callable[..., None]) -> Iterator[Postgres]:
    need_packages("relstorage", "psycopg2", "sqlalchemy", "zope.sqlalchemy")
    with running(Postgres, servers_dir, missing) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb(servers_dir: Path, missing: Skip, need_packages: Callable[..., None]) -> Iterator[MariaDB]:
    need_packages("relstorage", "mysql.connector")
    with running(MariaDB, servers_dir, missing) as server:
        yield server


@pytest.fixture
def zeo(servers_dir: Path, missing: Skip) -> Iterator[ZEO]:
    """One for each test: it has one storage only."""
    with running(ZEO, servers_dir, missing) as server:
        yield server


@pytest.fixture(scope="session")
def toxiproxy(servers_dir: Path, missing: Skip) -> Iterator[Toxiproxy]:
    with running(Toxiproxy, servers_dir, missing) as server:
        yield server


@pytest.fixture
def gone() -> Iterator[int]:
    """The port of a machine that is gone: it answers no SYN, since its backlog is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        address = listener.getsockname()
        for _ in range(8):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(address)
        time.sleep(0.1)
        yield address[1]
