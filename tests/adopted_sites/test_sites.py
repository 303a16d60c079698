"""Kotti and Substance D, adopted by the command: no acknowledged write is lost under kills and conflicts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

import pytest

from servers.postgres import Postgres

DRIVER = Path(__file__).parents[1] / "faults" / "adopted_wiki.py"
KOTTI = """
[pipeline:main]
pipeline = fanstatic kotti

[filter:fanstatic]
use = egg:fanstatic#fanstatic

[app:kotti]
use = egg:Kotti
pyramid.includes = pyramid_tm
kotti.site_title = Kotti
kotti.secret = qwerty
mail.default_sender = site@example.org
# each edit leaves a message for a page that the test does not ask for: a cookie would soon be too long
session.type = file
session.data_dir = %(here)s/sessions
sqlalchemy.url = {url}
sqlalchemy.isolation_level = SERIALIZABLE
"""
HISTORY = """
CREATE TABLE history (id text);
CREATE FUNCTION kept() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN INSERT INTO history VALUES (NEW.body); RETURN NEW; END';
CREATE TRIGGER kept AFTER INSERT OR UPDATE ON documents FOR EACH ROW EXECUTE FUNCTION kept();
"""
"""Each text that a document has had, by the database alone."""
MAKE = "from paste.deploy import loadapp; loadapp('config:production.ini', relative_to='.')"
"""The first start of Kotti makes its tables."""
SUBSTANCE_D = """
[app:main]
paste.app_factory = substance:main
pyramid.includes = pyramid_tm
# its policy needs the context, which a request does not have yet when pyramid_tm 2 asks for the user
tm.annotate_user = false
zodbconn.uri = file://%(here)s/Data.fs
substanced.secret = a secret of the tests
substanced.initial_login = admin
substanced.initial_password = qwerty
substanced.uploads_tempdir = %(here)s
mail.default_sender = site@example.org
"""
SITE = """
import substanced
from pyramid.config import Configurator
from substanced.db import root_factory

def main(global_config, **settings):
    config = Configurator(settings=settings, root_factory=root_factory)
    # Pyramid has it no more
    config.add_directive("set_request_property", lambda config, function, name: config.add_request_method(
        function, name, property=True))
    config.include(substanced)
    return config.make_wsgi_app()
"""
FOLDERS = """
from ZODB import DB, FileStorage
with DB(FileStorage.FileStorage("Data.fs", read_only=True)).transaction() as connection:
    print(*connection.root()["app_root"], sep="\\n")
"""
Form = tuple[str, dict[str, str]]


def run(*command: str | Path, cwd: Path) -> str:
    environ = os.environ | {"PYTHONWARNINGS": "ignore", "PYTHONPATH": str(cwd)}
    ran = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=900, check=False)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    return ran.stdout


def judge(directory: Path, login: Form, write: Form, processes: int, stored: Sequence[str]) -> None:
    """Write to the adopted site of a directory while it is in conflict and killed, and read what it has stored."""
    job = {"ini": "pipeline.ini", "kills": 50, "conflicts": 200, "longest": 300, "writers": 4}
    job |= {"processes": processes, "login": login, "write": write, "stored": stored}
    (directory / "job").write_text(json.dumps(job))
    found = json.loads(run(sys.executable, DRIVER, "job", cwd=directory).splitlines()[-1])
    print(found)
    assert found["lost"] == []
    assert found["conflicts"] >= 200
    assert found["all"]["acknowledged"] > 50


def adopt(directory: Path, *proof: str) -> str:
    """Adopt the site of a directory, and return the new ini."""
    command = (sys.executable, "-m", "pipeline", "adopt", "production.ini", "--page", "/none")
    said = run(*command, *proof, cwd=directory)
    assert "it answers as before" in said
    return (directory / "pipeline.ini").read_text()


@pytest.mark.timeout(1200)
def test_kotti_loses_no_acknowledged_write__R1_R2_R4(postgres: Postgres, tmp_path: Path) -> None:
    postgres.create("kotti")
    (tmp_path / "production.ini").write_text(KOTTI.format(url=postgres.url("kotti")))
    run(sys.executable, "-c", MAKE, cwd=tmp_path)
    login = {"login": "admin", "password": "qwerty", "submit": "submit"}
    fields = {"title": "{id}", "description": "", "tags": "", "body": "{id}", "save": "save"}
    pages = ["--page", "/"]
    for path, sent in (("/login", login), ("/@@edit", fields), ("/@@add_document", fields | {"title": "Added"})):
        pages += ["--write", f"{path} {urlencode(sent)}"]
    assert "pipeline.toolkit.manager:ImplicitManager" in adopt(tmp_path, *pages, "--page", "/added")
    postgres.ask(HISTORY, "kotti")
    stored = postgres.psql("SELECT id FROM history", "kotti")
    # The threads of one process share the root of Kotti.
    judge(tmp_path, ("/login", login), ("/@@edit", fields), 4, stored)


@pytest.mark.timeout(1200)
def test_substance_d_loses_no_acknowledged_write__R1_R2_R4(tmp_path: Path) -> None:
    (tmp_path / "production.ini").write_text(SUBSTANCE_D)
    (tmp_path / "substance.py").write_text(SITE)
    login = {"login": "admin", "password": "qwerty", "form.submitted": "Log In"}
    add = "/manage/@@add_folder"
    pages = ["--write", f"/manage/@@login {urlencode(login)}", "--write", f"{add} name=first&add=add"]
    assert "zodbconn.uri =\n" in adopt(tmp_path, *pages, "--page", "/manage/@@contents")
    stored = [sys.executable, "-c", FOLDERS]
    judge(tmp_path, ("/manage/@@login", login), (add, {"name": "{id}", "add": "add"}), 1, stored)
