"""A mark stands in each secret place, each command runs, and nobody else may read the mark (S25, S26).

The commands are those that are installed: one without a row here fails the test.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pipeline.elements.zodb import close_all
from pipeline.tools.command import commands, main

MARK = "mark-7f3c9a"
NUMBERS = count()
INI = f"""\
[DEFAULT]
db_password = {MARK}

[pipeline:main]
pipeline = log shield retry zodb errors transaction session forms authenticate keep traverse publisher

[filter:log]
use = egg:wsgi-pipeline#log

[filter:shield]
use = egg:wsgi-pipeline#shield

[filter:retry]
use = egg:wsgi-pipeline#retry

[filter:zodb]
use = egg:wsgi-pipeline#zodb
uri = file://%(here)s/Data.fs
root = MODULE:app

[filter:errors]
use = egg:wsgi-pipeline#errors

[filter:transaction]
use = egg:wsgi-pipeline#transaction

[filter:session]
use = egg:wsgi-pipeline#session
keys = %(here)s/keys

[filter:forms]
use = egg:wsgi-pipeline#forms

[filter:authenticate]
use = egg:wsgi-pipeline#authenticate
check = MODULE:check
by = session basic
keys = %(here)s/keys
limits = memory://user:{MARK}/a@host?password={MARK}

[filter:keep]
use = egg:wsgi-pipeline#keep

[filter:traverse]
use = egg:wsgi-pipeline#traverse

[app:publisher]
use = egg:wsgi-pipeline#publisher
scan = MODULE
"""
OLD = f"""\
[app:main]
paste.app_factory = MODULE:of_others
authtkt.secret = {MARK}
api_key = {MARK}
sqlalchemy.url = postgresql://site:{MARK}/a@localhost/db?password={MARK}
"""
CODE = """
import webob
from persistent.mapping import PersistentMapping
from pipeline import view


class Root(PersistentMapping):
    pass


def app(root):
    if "app" not in root:
        root["app"] = Root()
    return root["app"]


def check(request, login, password):
    return login if password else None


@view(context=Root)
def index(context, request):
    return f"front {request.session.get('basket', '')}"


@view(context=Root, name="fails")
def fails(context, request):
    raise ValueError("it fails")


@view(context=Root, name="login", methods=("POST",))
def login(context, request, password: str = ""):
    return "no"


def of_others(global_conf, **options):
    return webob.Response("front")
"""
SENT = ("-H", f"Cookie: pipeline_login={MARK}; session_data={MARK}", "-H", f"Authorization: Bearer {MARK}")
FORM = ("-d", f"password={MARK}")
VARIABLE = f"smtp_password={MARK}"
LOG = "".join(
    json.dumps({"method": "GET", "url": url, "status": 200}) + "\n"
    for url in ("/", f"/?token={MARK}", f"/x?pin={MARK}")
)

Arguments = Sequence[str]
ROWS: dict[str, list[Arguments]] = {
    "adopt": [("old.ini", "-o", "new.ini", *SENT[:2])],
    "check": [("site.ini", VARIABLE), ("old.ini",), ("site.ini", "--json")],
    "copy-database": [("file://Data.fs", f"zeo://user:{MARK}/a@127.0.0.1:1/x"), (f"nothing://u:{MARK}/a@b", "file://c.fs")],
    "element": [("authenticate",), ("sql",)],
    "evolve": [("site.ini", VARIABLE, "--steps", "json", "--dry-run")],
    "explain": [
        ("site.ini", "GET", "/", *SENT),
        ("site.ini", "GET", f"/?token={MARK}", "--long", *SENT),
        ("site.ini", "GET", "/fails", "--json", *SENT),
        ("site.ini", "POST", "/login", *FORM, *SENT, "--long"),
    ],
    "new": [("fresh",)],
    "openapi": [("site.ini", VARIABLE, "--root", "builtins:dict")],
    "prove": [("site.ini", "--budget", "2")],
    "rehearse": [("site.ini", "--log", "access.log", "--budget", "3")],
    "show": [("site.ini", VARIABLE), ("site.ini", "--long"), ("old.ini", "--long"), ("site.ini", "--json")],
    "top": [("site.ini",)],
    "views": [("site.ini", VARIABLE)],
    "work": [("site.ini", VARIABLE, "--once"), ("site.ini", VARIABLE, "--list"), ("site.ini", "--again")],
}
ELSEWHERE = {
    "deploy": "tests/servers/test_deploy.py, for each target",
    "serve": "tests/servers/test_serve.py",
    "shell": "it has a terminal of its own, and runs what its user types",
    "demo-import": "tests/demo/test_importer.py",
    "demo-user": "tests/demo/test_user_command.py",
}
"""The commands that are not run here, and the test that looks at them, or the reason why none does."""


def test_each_command_has_a_row() -> None:
    assert set(commands()) == set(ROWS) | set(ELSEWHERE)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with a site whose inis and keys one user alone may read."""
    name = f"marked_{next(NUMBERS)}"
    (tmp_path / f"{name}.py").write_text(CODE)
    for ini, text in (("site.ini", INI), ("old.ini", OLD), ("keys", f"{MARK}{'k' * 32}\n"), ("access.log", LOG)):
        (tmp_path / ini).touch(0o600)
        (tmp_path / ini).write_text(text.replace("MODULE", name))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SITE_PASSWORD", MARK)
    monkeypatch.setattr("pipeline.tools.work.set_up_logging", lambda ini, variables: None)  # pytest has its own
    yield tmp_path
    close_all()
    sys.modules.pop(name, None)


def readable(directory: Path) -> list[str]:
    """The files with the mark that others may read."""
    files = [file for file in directory.rglob("*") if file.is_file() and MARK.encode() in file.read_bytes()]
    return [f"{file.name} {file.stat().st_mode & 0o777:o}" for file in files if file.stat().st_mode & 0o077]


@pytest.mark.once
@pytest.mark.parametrize(("command", "arguments"), [(name, row) for name, rows in ROWS.items() for row in rows])
def test_a_mark_is_read_by_its_owner_alone__S25_S26(
    command: str, arguments: Arguments, here: Path, capfd: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        try:
            main([command, *arguments])
        except SystemExit as wrong:
            assert wrong.code == 0, capfd.readouterr().err
    said = capfd.readouterr()
    # The access log has the queries of all visitors, as those of other servers do; rehearse asks them again.
    logged = [record.getMessage() for record in caplog.records if record.name != "pipeline.access"]
    for text in (said.out, said.err, "".join(logged)):
        assert MARK not in text.replace("\n", "")
    assert readable(here) == []


def test_control_a_copy_that_is_more_open_is_found__S26(here: Path) -> None:
    (here / "copy.ini").write_text((here / "site.ini").read_text())
    (here / "copy.ini").chmod(0o644)
    assert readable(here) == ["copy.ini 644"]
