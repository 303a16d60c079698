"""The small site of notes, as an ini in a directory of its own; and the servers of ``tests/servers``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inis import ini_of
from pipeline.database import forks
from servers.fixtures import mariadb, new_name, postgres, servers_dir, zeo

__all__ = ["ini", "mariadb", "new_name", "postgres", "servers_dir", "zeo"]

ORDER = "retry zodb errors transaction forms traverse"


@pytest.fixture
def ini(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """``ini(order, uri)`` writes the ini and returns its path."""

    def ini(order: str = ORDER, uri: str = "") -> str:
        path = tmp_path / "site.ini"
        zodb = f"uri = {uri or f'memory://{tmp_path.name}'}\nroot = proving.notes:root"
        swallow = "paste.filter_factory = proving.bugs:swallow"
        log = "file = %(here)s/access.log"
        path.write_text(ini_of(order.split(), "proving.notes", zodb=zodb, log=log, swallow=swallow))
        return str(path)

    yield ini
    forks.close_all()
