"""Sites of others, adopted, run in an environment of their own: ``make test-adopted``."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from servers.fixtures import running, servers_dir
from servers.postgres import Postgres

__all__ = ["servers_dir"]

collect_ignore_glob = [] if importlib.util.find_spec("kotti") else ["test_*.py"]


@pytest.fixture(scope="session")
def postgres(servers_dir: Path, missing: Callable[[str, str], NoReturn]) -> Iterator[Postgres]:
    with running(Postgres, servers_dir, missing) as server:
        yield server
