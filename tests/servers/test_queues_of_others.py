"""The queues of procrastinate and dramatiq, as docs/howto/jobs.rst has them: a job belongs to what was stored.

PostgreSQL says what is stored, and each worker says what it does.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from docs.following import blocks
from pipeline import Pipeline
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.retry import retry
from pipeline.elements.sql import sql
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.publisher import publisher
from pipeline.testing import site
from servers.postgres import Postgres

pytest.importorskip("dramatiq")
pytest.importorskip("procrastinate")
pytestmark = [pytest.mark.servers, pytest.mark.timeout(120)]

HOWTO = Path(__file__).resolve().parents[2] / "docs" / "howto"
DONE = 'with open(os.environ["DONE"], "a") as file:\n        print(name, file=file)'
BEFORE = """
import os
import dramatiq
from dramatiq.brokers.stub import StubBroker
from sqlalchemy import Column, MetaData, String, Table
from pipeline import view

dramatiq.set_broker(StubBroker())
PICTURES = Table("pictures", MetaData(), Column("name", String, primary_key=True))

def root():
    return {}
"""
AFTER = """
from transaction.interfaces import TransientError

@view(name="outcome", methods=("POST",))
def outcome(album, request, response, name: str, by: str, how: str):
    {"enqueue": enqueue, "send": send}[by](album, request, name)
    if how == "conflict" and request.attempt < 3:
        raise TransientError("tried again")
    if how == "error":
        raise RuntimeError("after the job")
    if how == "refused":
        response.status = 409
    if how == "commit":  # COMMIT itself fails: the constraint is deferred
        request.sql.execute(PICTURES.insert().values(name="twice"))
    return "done"
"""


def code_of(caption: str) -> str:
    """Return a block of the page, whose job notes that it was done."""
    text = (HOWTO / "jobs.rst").read_text("utf-8")
    (code,) = (one.code for one in blocks(text) if one.options.get("caption") == caption)
    docstring = '    """Do the work, with a connection of its own."""\n'
    assert code.count(docstring) == 1
    return code.replace(docstring, f"{docstring}    {DONE}\n")


@pytest.fixture
def visited(
    postgres: Postgres, new_name: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Any, Any, Any]]:
    """The site of the page, its module, and a connection to its database."""
    name = new_name()
    postgres.ask(f"CREATE DATABASE {name}")
    url = postgres.url(name)
    monkeypatch.setenv("QUEUE", url.replace("+psycopg2", ""))
    monkeypatch.setenv("DONE", str(tmp_path / "done"))
    monkeypatch.syspath_prepend(tmp_path)
    module = f"album_of_{name}"
    parts = BEFORE, code_of("a queue of procrastinate"), code_of("a job of dramatiq"), AFTER
    (tmp_path / f"{module}.py").write_text("\n".join(parts))
    album = importlib.import_module(module)
    run(tmp_path, f"--app={module}.worker schema --apply")
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as stored:
        stored.execute(text("CREATE TABLE pictures (name text UNIQUE DEFERRABLE INITIALLY DEFERRED)"))
        stored.execute(text("INSERT INTO pictures VALUES ('twice')"))
        elements = retry(), sql(url=url), errors(), transaction(), forms(), traverse(root=album.root)
        yield site(Pipeline(*elements, publisher(scan=(module,)))), album, stored
    engine.dispose()
    del sys.modules[module]


def run(directory: Path, arguments: str) -> None:
    """Run a command of procrastinate, as the page has it."""
    command = [sys.executable, "-m", "procrastinate", *arguments.split()]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


OUTCOMES = {"stored": 200, "conflict": 200, "error": 500, "refused": 409, "commit": 500}
"""What happens after the job was given to its queue, and the status of the answer."""
STORED = ["conflict", "stored"]


@pytest.mark.parametrize("by", ["enqueue", "send"])
def test_a_job_is_done_once_if_its_change_is_stored(by: str, visited: tuple[Any, Any, Any], tmp_path: Path) -> None:
    visitor, album, stored = visited
    for how, status in OUTCOMES.items():
        visitor.post("/outcome", {"name": how, "by": by, "how": how}, status=status)
    rows = stored.scalars(text("SELECT name FROM pictures WHERE name <> 'twice' ORDER BY name")).all()
    assert rows == STORED
    if by == "enqueue":
        jobs = stored.scalars(text("SELECT args->>'name' FROM procrastinate_jobs ORDER BY 1")).all()
        assert jobs == STORED
        run(tmp_path, f"--app={album.__name__}.worker worker --one-shot")
    else:
        import dramatiq

        broker = dramatiq.get_broker()
        worker = dramatiq.Worker(broker, worker_timeout=10)
        worker.start()
        broker.join("default")
        worker.join()
        worker.stop()
    assert sorted((tmp_path / "done").read_text().split()) == STORED
