"""The small site of notes, as an ini in a directory of its own; and the servers of ``tests/servers``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.database import forks
from servers.fixtures import mariadb, new_name, postgres, servers_dir, zeo

__all__ = ["ini", "mariadb", "new_name", "postgres", "servers_dir", "zeo"]

ORDER = "retry zodb errors transaction forms traverse publisher"

INI = """
[pipeline:main]
pipeline = {order}
[filter:retry]
use = egg:wsgi-pipeline#retry
[filter:zodb]
use = egg:wsgi-pipeline#zodb
uri = {uri}
root = proving.notes:root
[filter:errors]
use = egg:wsgi-pipeline#errors
[filter:transaction]
use = egg:wsgi-pipeline#transaction
[filter:log]
use = egg:wsgi-pipeline#log
file = %(here)s/access.log
[filter:swallow]
paste.filter_factory = proving.bugs:swallow
[filter:forms]
use = egg:wsgi-pipeline#forms
[filter:traverse]
use = egg:wsgi-pipeline#traverse
[app:publisher]
use = egg:wsgi-pipeline#publisher
scan = proving.notes
"""


@pytest.fixture
def ini(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """``ini(order, uri)`` writes the ini and returns its path."""

    def ini(order: str = ORDER, uri: str = "") -> str:
        path = tmp_path / "site.ini"
        path.write_text(INI.format(order=order, uri=uri or f"memory://{tmp_path.name}"))
        return str(path)

    yield ini
    forks.close_all()
