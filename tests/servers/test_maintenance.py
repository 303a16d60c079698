"""docs/howto/maintenance.rst, as four processes run it at once on real databases."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from servers.mariadb import MariaDB
from servers.postgres import Postgres
from servers.zeo import ZEO
from test_docs import TOP, blocks

pytestmark = [pytest.mark.servers, pytest.mark.timeout(180)]


def at_once(tmp_path: Path, call: str) -> None:
    """Have four processes with the code of the page do the same at the same time; none may fail."""
    code = "".join(block.code for block in blocks(TOP / "docs" / "howto" / "maintenance.rst", "python"))
    script = tmp_path / "maintenance.py"
    script.write_text(f"{code}\nprint('ready', flush=True)\ninput()\n{call}\n")
    processes = []
    for number in range(4):
        (own := tmp_path / f"{number}").mkdir()
        processes.append(
            subprocess.Popen(
                [sys.executable, script],
                cwd=own,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        _, said = process.communicate(timeout=100)
        assert process.returncode == 0, said


@pytest.mark.parametrize("kind", ["postgres", "mariadb", "sqlite"])
def test_one_process_creates_the_tables(
    kind: str, tmp_path: Path, new_name: Callable[[], str], request: pytest.FixtureRequest
) -> None:
    if kind == "sqlite":
        url = f"sqlite:///{tmp_path}/site.sqlite"
    else:
        server: Postgres | MariaDB = request.getfixturevalue(kind)
        server.create(name := new_name())
        url = server.url(name)
    at_once(
        tmp_path,
        f"""
create_tables({url!r})
engine = create_engine({url!r})
with engine.connect() as connection:
    assert connection.execute(text("SELECT version FROM schema_version ORDER BY 1")).fetchall() == [(1,), (2,)]
    assert connection.execute(text("SELECT count(paid) FROM orders")).scalar() == 0
engine.dispose()
""",
    )


@pytest.mark.parametrize("kind", ["postgres", "mariadb", "zeo"])
def test_each_step_of_a_migration_is_done_once(
    kind: str, tmp_path: Path, new_name: Callable[[], str], request: pytest.FixtureRequest
) -> None:
    server: Postgres | MariaDB | ZEO = request.getfixturevalue(kind)
    if isinstance(server, ZEO):
        uri = server.uri()
    else:
        server.create(name := new_name())
        uri = server.uri(name)
    at_once(
        tmp_path,
        f"""
def once(root):
    root["steps"] = root.get("steps", 0) + 1
STEPS += [once] * 10
migrate({uri!r})
database = database_at({uri!r})
with database.transaction() as connection:
    root = connection.root()
    assert (root["version"], root["steps"], root["settings"]["language"]) == (12, 10, "en"), dict(root)
database.close()
""",
    )
