"""``prove`` on applications that know their own users, links and templates, such as those that ``adopt`` mounts."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from secrets import token_urlsafe
from typing import Any
from urllib.parse import parse_qsl

import pytest
import sqlalchemy
from chameleon import loader

from pipeline import Pipeline
from pipeline.database import forks
from pipeline.elements.errors import errors
from pipeline.elements.transaction import transaction
from pipeline.proving.corpus import MULTIPART, forms_of
from pipeline.proving.proof import Proof
from pipeline.proving.report import put_begin
from pipeline.proving.sequences import steps_from, with_tokens, written
from pipeline.staging.asked import Asked
from pipeline.staging.runs import Run
from pipeline.tools.command import main

PAGES = {
    "/": b'<a href="http://localhost:80/port">x</a><a href="http://localhost:81/other">x</a>',
    "/port": b'<form method="post" action="http://localhost:80/sent"><input name="a"></form>',
    "/sent": b"",
    "/apart": b'<a href="/behind">x</a>',
    "/behind": b"",
    "/secret": b'<a href="/inner">x</a>',
    "/inner": b"",
}
LOGGED_IN = {"Cookie": "login=ann"}


def mounted(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    path = environ["PATH_INFO"]
    is_open = path not in ("/secret", "/inner") or environ.get("HTTP_COOKIE") == LOGGED_IN["Cookie"]
    status = "200 OK" if path in PAGES and is_open else "403 Forbidden" if path in PAGES else "404 Not Found"
    start_response(status, [("Content-Type", "text/html")])
    return [PAGES[path] if status.startswith("2") else b""]


@pytest.fixture(autouse=True)
def databases() -> Iterator[None]:
    yield
    forks.close_all()


def asked(**options: Any) -> list[str]:
    proof = Proof(Pipeline(errors(), transaction(), mounted), **options)
    with proof.loaded():
        return [str(request) for request in proof.requests]


def log(tmp_path: Path, url: str) -> str:
    path = tmp_path / "access.log"
    path.write_text(f'{{"method": "GET", "url": "{url}", "status": 200}}\n')
    return str(path)


def test_links_and_forms_may_name_the_port_that_the_scheme_implies() -> None:
    """Zope writes http://localhost:80/. Another port is another site."""
    assert asked() == ["GET /", "GET /port", "POST /sent"]


def test_links_are_followed_from_the_pages_of_a_log(tmp_path: Path) -> None:
    """Such a site may not be at /."""
    assert {"GET /apart", "GET /behind"} <= {*asked(log=log(tmp_path, "/apart"))}


def test_a_user_has_the_headers_of_his_login_and_others_do_not(tmp_path: Path) -> None:
    options = {"user": "ann", "headers": LOGGED_IN, "log": log(tmp_path, "/secret")}
    assert "GET /inner" in asked(**options)
    assert "GET /inner" not in asked(user="ann", log=options["log"])
    proof = Proof(Pipeline(errors(), transaction(), mounted), users=["ann", "bob"], headers=LOGGED_IN)
    with proof.loaded():
        asks = [Asked("GET", "/secret", user=user) for user in (None, "ann", "bob", "")]
        told = {one.user: proof.ask(one).status for one in asks}
    assert told == {None: 200, "ann": 200, "bob": 403, "": 403}


def test_the_first_line_counts_requests_where_no_view_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proof = Proof(Pipeline(errors(), transaction(), mounted), log=log(tmp_path, "/secret"))
    with proof.loaded():
        put_begin(proof.report)
    assert capsys.readouterr().out == "4 requests of the pipeline are tried, 3 succeed\n"


def test_a_form_with_files_is_replayed_as_it_was_sent() -> None:
    body = b'------------prove\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n------------prove--'
    step = Asked("POST", "/add", body, (("Content-Type", MULTIPART),), "ann")
    (again,) = steps_from(written([step]))
    assert (again.body, dict(again.headers)["Content-Type"]) == (body, MULTIPART)


def guarded(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """An application whose form has a token of chance, half of which is in a cookie. Its view has a bug."""
    if environ["REQUEST_METHOD"] == "GET":
        token = token_urlsafe()
        start_response("200 OK", [("Content-Type", "text/html"), ("Set-Cookie", f"half={token}; Path=/")])
        hidden = f'<input type="hidden" name="t" value="{token}">'
        return [f'<form method="post">{hidden}<input name="a"></form>'.encode()]
    form = dict(parse_qsl(environ["wsgi.input"].read().decode()))
    is_own = "t" in form and environ.get("HTTP_COOKIE") == f"half={form['t']}"
    if is_own:
        raise KeyError("a")
    start_response("403 Forbidden", [])
    return [b""]


def test_a_form_is_sent_with_the_cookies_of_its_page_and_its_token_is_not_printed() -> None:
    proof = Proof(Pipeline(errors(), transaction(), guarded))
    with proof.loaded():
        (found,) = proof.sequences(9).report.found
        assert found.plan.startswith("- POST / a=") and found.plan.endswith(" /") and "t=" not in found.plan
        assert proof.ask(steps_from(found.plan)[0]).status == 403
        (again,) = with_tokens(proof, steps_from(found.plan))
        assert proof.ask(again).status == 500


@pytest.mark.parametrize(
    ("buttons", "sent"),
    [
        ('<button name="save" value="now">x</button><button name="cancel">x</button>', [b"token=1&save=now"]),
        ('<input type="submit" name="save" value="now"><button>x</button>', [b"token=1&save=now"]),
        ('<button>x</button><button name="delete">x</button>', [b"token=1"]),
        ('<button disabled name="save">x</button><button>x</button>', []),
        ('<button type="reset">x</button>', [b"token=1"]),
    ],
)
def test_a_form_is_sent_with_its_first_button(buttons: str, sent: list[bytes]) -> None:
    """A browser does so, and a view may be chosen by it. If the first is disabled, Enter sends nothing."""
    page = f"""<form method="post"><button type="button">x</button>
        <input type="hidden" name="token" value="1">{buttons}</form>"""
    run = Run()
    run.body = page.encode()
    assert [form.body for form in forms_of("http://localhost", "/", run)] == sent


OPENED = """
from sqlalchemy import create_engine

engines = []

def make(global_conf, url):
    engine = create_engine(url)
    engines.append(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM visits").scalar()

    def app(environ, start_response):
        with engine.begin() as connection:
            connection.exec_driver_sql("INSERT INTO visits VALUES (1)")
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"counted"]
    return app
"""


@pytest.mark.parametrize("version", ["1.4", "2"])
def test_a_database_that_is_opened_at_the_start_is_copied(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLAlchemy 1.4 has no ``sqlalchemy.Engine``."""
    if version == "1.4":
        monkeypatch.delattr(sqlalchemy, "Engine")
    with closing(sqlite3.connect(tmp_path / "visits.db")) as database:
        database.execute("CREATE TABLE visits (number int)")
    before = (tmp_path / "visits.db").read_bytes()
    (tmp_path / f"opened{version[0]}.py").write_text(OPENED)
    monkeypatch.syspath_prepend(tmp_path)
    app = f"opened{version[0]}:make\nurl = sqlite:///{tmp_path}/visits.db"
    (tmp_path / "site.ini").write_text(MOUNTED.replace("json.tool:main", app))
    proof = Proof(str(tmp_path / "site.ini"))
    with proof.loaded():
        report = proof.links().growth().report
        assert proof.afresh(Asked("GET", "/")).answer == "200"
        assert proof.has_stored
        for engine in sys.modules[f"opened{version[0]}"].engines:
            engine.dispose()
    assert report.found == []
    assert (tmp_path / "visits.db").read_bytes() == before


class Templates:
    """A view whose template is compiled by the first request, into a directory of the site."""

    def __init__(self, directory: Path) -> None:
        self.loader = loader.ModuleLoader(str(directory))

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        made = self.loader.get("page.py") or self.loader.build("text = 'made'", "page.py")
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [made["text"].encode()]


def test_templates_are_compiled_and_not_written(tmp_path: Path) -> None:
    proof = Proof(Pipeline(errors(), transaction(), Templates(tmp_path)))
    with proof.loaded():
        assert proof.ask(Asked("GET", "/")).body == b"made"
        assert proof.faults().report.found == []
    assert list(tmp_path.iterdir()) == []


MOUNTED = """
[pipeline:main]
pipeline = egg:wsgi-pipeline#errors app
[app:app]
paste.app_factory = json.tool:main
"""
LIBRARY = """
import os

def make(global_conf):
    def app(environ, start_response):
        os.mkdir("made")
    return app
"""


def test_the_script_of_the_command_is_no_code_of_the_site(tmp_path: Path) -> None:
    """It stands in bin/ of the environment, so that it was named as the place of what a library does."""
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "making.py").write_text(LIBRARY)
    (tmp_path / "site.ini").write_text(MOUNTED.replace("json.tool:main", "making:make"))
    script = tmp_path / "pipeline"
    script.write_text("from pipeline.tools.command import main\nmain()\n")
    command = [sys.executable, "-P", str(script), "prove", "site.ini", "--judge", "faults", "--faults", "gone"]
    ran = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(library)}, capture_output=True, text=True, check=False
    )
    assert "made, by code of a library" in ran.stdout, ran.stdout + ran.stderr


def test_headers_belong_to_a_user(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in ((["-H", "Cookie: a"], "--user"), (["--user", "ann", "-H", "Cookie"], "header")):
        with pytest.raises(SystemExit):
            main(["prove", "site.ini", *words])
        assert said in capsys.readouterr().err


def test_the_directory_of_temporary_files_is_known_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first temporary file of a process finds it by writing, and was refused."""
    monkeypatch.setattr(tempfile, "tempdir", None)

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        with tempfile.TemporaryFile():
            start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"used"]

    proof = Proof(Pipeline(errors(), transaction(), app))
    with proof.loaded():
        assert proof.faults().report.found == []
