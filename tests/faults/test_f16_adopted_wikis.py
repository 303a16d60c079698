"""F16: the two wikis of Pyramid's tutorials, adopted by the command: no acknowledged write is lost under kills and
conflicts.

The tutorials come with the source distribution of Pyramid, which is downloaded. The wiki in a ZODB also passes its
own functional tests in the pipeline.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from faults.conftest import Figures
from faults.length import FULL
from pyramid_tutorials import download
from servers.postgres import Postgres

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not FULL, reason="it adopts two sites and kills them fifty times: make faults"),
]
TESTS = Path(__file__).parents[1]
DRIVER = Path(__file__).with_name("adopted_wiki.py")
PACKAGES = ("pyramid_chameleon", "pyramid_jinja2", "bcrypt")
"""Packages of the wikis that the tests need not have otherwise."""
LOGIN = "/login?login=editor&password=editor&form.submitted=1&came_from=/"
FORM = "login=editor&password=editor&next=/"
TABLES = """
import transaction
from pyramid.paster import get_appsettings
from tutorial import models
from tutorial.models.meta import Base
from tutorial.scripts.initialize_db import setup_models
engine = models.get_engine(get_appsettings("production.ini"))
Base.metadata.create_all(engine)
with transaction.manager:
    setup_models(models.get_tm_session(models.get_session_factory(engine), transaction.manager))
"""
HISTORY = """
CREATE TABLE history (id text);
CREATE FUNCTION kept() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN INSERT INTO history VALUES (NEW.data); RETURN NEW; END';
CREATE TRIGGER kept AFTER INSERT OR UPDATE ON pages FOR EACH ROW EXECUTE FUNCTION kept();
"""
"""Each text that a page has had, by the database alone: of many edits of one page it keeps the last."""
PAGES = """
from ZODB import DB, FileStorage
with DB(FileStorage.FileStorage("Data.fs", read_only=True)).transaction() as connection:
    print(*connection.root()["app_root"], sep="\\n")
"""
ROWS = """
import sqlite3
print(*(name for name, in sqlite3.connect("tutorial.sqlite").execute("select name from pages")), sep="\\n")
"""


class Site(NamedTuple):
    """A wiki with a database."""

    tutorial: str
    proof: Sequence[str]
    """The writes that the command compares."""
    write: tuple[str, dict[str, str]]
    """Path and fields of the form that is sent under kills and conflicts."""
    conflicts: int
    writers: int
    stored: Sequence[str] = ()
    """The program that prints what is stored."""


ADD = ("/add_page/{id}", {"body": "text", "form.submitted": "1"})
SQL_WRITES = ("--write", f"/login {FORM}", "--write", "/FrontPage/edit_page body=New")
SITES = {
    "ZODB": Site(
        "wiki",
        ("--page", LOGIN, "--write", "/FrontPage/edit_page form.submitted=1&body=New"),
        *(ADD, 200, 4, (sys.executable, "-c", PAGES)),
    ),
    "SQLite": Site("wiki2", SQL_WRITES, ADD, 0, 2, (sys.executable, "-c", ROWS)),  # writers wait for one another
    "PostgreSQL": Site("wiki2", SQL_WRITES, ("/FrontPage/edit_page", {"body": "{id}"}), 200, 4),
}


def run(*command: str | Path, cwd: Path) -> str:
    paths = os.pathsep.join(str(place) for place in (cwd, *cwd.glob("packages"), TESTS))
    environ = os.environ | {"PYTHONPATH": paths, "PYTHONWARNINGS": "ignore"}
    ran = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=500, check=False)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    return ran.stdout


@pytest.fixture(scope="module")
def tutorials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory docs/tutorials of Pyramid's source distribution."""
    directory = tmp_path_factory.mktemp("pyramid")
    pip = [sys.executable, "-m", "pip"]
    run(*pip, "install", "-q", "--no-deps", "--target", "packages", *PACKAGES, cwd=directory)
    return download(directory)


def on_postgres(directory: Path, postgres: Postgres, name: str) -> list[str]:
    """Have a wiki use a database of PostgreSQL where edits of one page conflict; return what prints the edits."""
    postgres.create(name)
    ini = directory / "production.ini"
    setting = "sqlalchemy.url = sqlite:///%(here)s/tutorial.sqlite\n"
    assert setting in ini.read_text()
    other = f"sqlalchemy.url = {postgres.url(name)}\nsqlalchemy.isolation_level = SERIALIZABLE\n"
    ini.write_text(ini.read_text().replace(setting, other))
    run(sys.executable, "-c", TABLES, cwd=directory)
    postgres.ask(HISTORY, name)
    return postgres.psql("SELECT id FROM history", name)


def adopted(name: str, tutorials: Path, directory: Path, server: Callable[[], Any] = dict) -> Path:
    """Return the directory of a wiki that the command has adopted, with a job for the driver."""
    site = SITES[name]
    shutil.copytree(tutorials / site.tutorial / "src" / "tests", directory)
    (directory / "packages").symlink_to(tutorials.parents[2] / "packages")
    for ini in directory.glob("*.ini"):  # it is not installed
        ini.write_text(ini.read_text().replace("use = egg:tutorial", "paste.app_factory = tutorial:main"))
    stored = site.stored
    if name == "PostgreSQL":
        stored = on_postgres(directory, server(), f"wiki{time.monotonic_ns()}")
    elif name == "SQLite":
        run(sys.executable, "-c", TABLES, cwd=directory)
    adopt = [sys.executable, "-m", "pipeline", "adopt", "production.ini", "--page", "/FrontPage"]
    assert "it answers as before" in run(*adopt, *site.proof, cwd=directory)
    job = {
        "ini": "pipeline.ini",
        "kills": 50,
        "conflicts": site.conflicts,
        "writers": site.writers,
        "processes": 1,
        "login": ("/login", {"login": "editor", "password": "editor", "form.submitted": "1", "next": "/"}),
        "write": site.write,
        "stored": [*stored],
    }
    (directory / "job").write_text(json.dumps(job))
    return directory


@pytest.mark.parametrize("name", SITES)
def test_no_acknowledged_write_is_lost__R1_R2_R4(
    name: str, tutorials: Path, tmp_path: Path, figures: Figures, request: pytest.FixtureRequest
) -> None:
    wiki = adopted(name, tutorials, tmp_path / "wiki", lambda: request.getfixturevalue("postgres"))
    said = run(sys.executable, DRIVER, "job", cwd=wiki)
    found = json.loads(said.splitlines()[-1])
    assert found["lost"] == []
    assert found["conflicts"] >= SITES[name].conflicts
    assert found["all"]["acknowledged"] > 50
    said = ", ".join(f"{word} {found[word]}" for word in ("kills", "conflicts", "all", "lost"))
    figures("F16", f"wiki on {name}", said)


def test_control(tutorials: Path, tmp_path: Path, figures: Figures) -> None:
    wiki = adopted("ZODB", tutorials, tmp_path / "wiki")
    ini, job = (wiki / "pipeline.ini").read_text(), json.loads((wiki / "job").read_text())
    ours, bug = "use = egg:wsgi-pipeline#transaction\n", "paste.filter_factory = faults.bugs:transaction_swallows\n"
    assert ours in ini
    (wiki / "pipeline.ini").write_text(ini.replace(ours, bug))
    (wiki / "job").write_text(json.dumps(job | {"kills": 5, "longest": 5}))
    found = json.loads(run(sys.executable, DRIVER, "job", cwd=wiki).splitlines()[-1])
    figures("F16", "control: commit errors swallowed", f"found: {len(found['lost'])} acknowledged writes are lost")
    assert found["lost"]


def test_the_functional_tests_of_the_tutorial_pass(tutorials: Path, tmp_path: Path) -> None:
    wiki = adopted("ZODB", tutorials, tmp_path / "wiki")
    conftest = wiki / "tests" / "conftest.py"
    ours = "__import__('pipeline.paste', fromlist=['load']).load(f'config:{os.path.abspath(\"pipeline.ini\")}')"
    text = conftest.read_text()
    assert "return main({}, **app_settings)" in text
    conftest.write_text(text.replace("return main({}, **app_settings)", f"return {ours}"))
    options = ("-q", "-p", "no:cacheprovider", "-W", "ignore", "tests/test_functional.py")
    assert "15 passed" in run(sys.executable, "-m", "pytest", *options, cwd=wiki)
