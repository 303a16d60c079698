"""The wiki of docs/howto/pyramid.rst answers alike before, while and after it moves: what the tutorial asks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.following import blocks
from pyramid_tutorials import download

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "howto" / "pyramid.rst").read_text("utf-8")
FILES = {block.options["name"]: block.code for block in blocks(PAGE) if "name" in block.options}
SITES = ("before", "after")
REFUSED = {
    "before/wiki.ini": "anyone sends a POST: 200 Login Login",
    "before/both.ini": "anyone sends a POST: 303 /login",  # of the view that has moved
    "after/wiki.ini": "anyone sends a POST: 401 Login Login",
}
"""What tells each site from the others."""
CONFTEST = """
from paste.deploy import loadapp
from pytest import fixture
from webtest import TestApp

@fixture(scope="session")
def app():
    return loadapp("config:{ini}", relative_to=".")

@fixture
def testapp(app):
    return TestApp(app, extra_environ={{"HTTP_HOST": "example.com"}})
"""
SEEN = [
    "anyone gets /: 303 /FrontPage",
    "anyone gets /FrontPage: 200 FrontPage Login",
    "anyone gets /None: 404 Not Found Login",
    "anyone gets /FrontPage/edit_page: 200 Login Login",
    "anyone gets /add_page/New: 200 Login Login",
    "anyone gets /login: 200 Login Login",
    "then back to /",
    "anyone sends login password: 400 Login Login",
    "anyone sends login password: 400 Login Login",
    "viewer sends login password: 303 /FrontPage",
    "viewer gets /FrontPage: 200 FrontPage Logout",
    "viewer gets /FrontPage/edit_page: 200 Login Logout",
    "viewer gets /add_page/New: 200 Login Logout",
    "editor sends login password: 303 /FrontPage",
    "editor gets /FrontPage: 200 FrontPage Logout",
    "editor gets /FrontPage/edit_page: 200 Editing FrontPage Logout",
    "editor gets /add_page/New: 200 Editing New Logout",
    "editor sends body: 303 /New",
    "editor gets /New: 200 New Logout",
    "&lt;New&gt; as <a>FrontPage</a> and <a>Other</a>",
    "editor sends body: 303 /New",
    "anyone gets /New: 200 New Login",
    "Changed",
    "viewer gets /logout: 303 /",
    "viewer gets /FrontPage: 200 FrontPage Login",
    "viewer gets /login?login=viewer&password=viewer&came_from=/New&form.submitted=1: 303 /New",
]


@pytest.fixture
def wikis(tmp_path: Path) -> Path:
    """A directory with the files of the page."""
    for name, code in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code, "utf-8")
    return tmp_path


def run(*command: str | Path, cwd: Path) -> str:
    environ = {**os.environ, "PYTHONWARNINGS": "ignore", "PYTHONPATH": str(cwd)}
    ran = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    return ran.stdout


@pytest.mark.once
def test_each_site_answers_alike_and_opens_the_database_of_the_others(wikis: Path) -> None:
    for number, ini in enumerate((*REFUSED, "before/wiki.ini")):
        seen = ["/New"] if number else []  # what the site before has stored
        lines = run(sys.executable, Path(__file__).with_name("ask_a_wiki.py"), ini, *seen, cwd=wikis).splitlines()
        found = ["anyone gets /New: 200 New Login", "Changed"] if number else []
        assert [re.sub("<a [^>]*>", "<a>", line) for line in lines] == [*found, *SEEN, REFUSED[ini]]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_functional_tests_of_the_tutorial_pass(wikis: Path) -> None:
    theirs = download(wikis) / "wiki" / "src" / "tests" / "tests" / "test_functional.py"
    for ini in REFUSED:
        place = (wikis / ini).parent
        (place / "conftest.py").write_text(CONFTEST.format(ini=Path(ini).name))
        (place / theirs.name).write_text(theirs.read_text("utf-8"), "utf-8")
        command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", theirs.name)
        assert "15 passed" in run(*command, cwd=place), ini


def test_the_page_tells_how_many_lines_they_have() -> None:
    for name in ("wiki.py", "wiki.ini"):
        told = re.search(rf"^``{name}`` +(\d+) +(\d+)$", PAGE, re.MULTILINE)
        counted = (sum(1 for line in FILES[f"{site}/{name}"].splitlines() if line.strip()) for site in SITES)
        assert told is not None and told.groups() == tuple(map(str, counted))
