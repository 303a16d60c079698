"""``pipeline new``: the site that it makes works at once."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from configparser import ConfigParser
from email.message import Message
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from docutils.core import publish_string

from environments import install, make_environment, make_wheel
from pipeline.interfaces import ConfigurationError
from pipeline.tools.command import main
from pipeline.tools.new import FILES, make, package_name
from pipeline.tools.serve import parse, watched
from processes import Process

TOP = Path(__file__).resolve().parents[2]
PIPELINE = Path(sys.executable).with_name("pipeline")


def run(*command: str | Path, cwd: Path, **environ: str) -> str:
    """What a command said; the test fails if it fails."""
    ran = subprocess.run(
        command, cwd=cwd, env=os.environ | environ, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


@pytest.fixture
def new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A new site, as the command makes it."""
    monkeypatch.chdir(tmp_path)
    assert main(["new", "my-site"]) == 0
    assert "cd my-site" in capsys.readouterr().out
    return tmp_path / "my-site"


@pytest.mark.parametrize("variant", ["", "api", "sql", "ci"])
@pytest.mark.parametrize("name", ["a", "a_long_name_of_a_package"])
def test_its_readme_is_a_page_whatever_the_name(tmp_path: Path, name: str, variant: str) -> None:
    list(make(tmp_path, name, variant.split()))
    readme = (tmp_path / "README.rst").read_text("utf-8")
    publish_string(readme, settings_overrides={"halt_level": 1, "report_level": 5})


@pytest.mark.once
def test_its_tests_pass_at_once(new: Path) -> None:
    """Also before it is installed. One of them is that ``pipeline check --strict`` has nothing against its inis."""
    options = ("-q", "-p", "no:randomly", "-p", "no:cacheprovider")
    assert "9 passed" in run(sys.executable, "-m", "pytest", *options, cwd=new)


@pytest.mark.parametrize("ini", ["development.ini", "production.ini"])
def test_check_finds_nothing_that_is_wrong(new: Path, ini: str) -> None:
    said = run(PIPELINE, "check", "--strict", ini, cwd=new)
    assert "in order and complete" in said
    assert "warning" not in said and "error:" not in said


def test_it_is_served_with_secure_headers__S24(new: Path, start: Callable[..., Process], free_port: int) -> None:
    command = [PIPELINE, "serve", "development.ini", "--no-reload", "--port", str(free_port)]
    start(command, free_port, cwd=new)
    with urllib.request.urlopen(f"http://127.0.0.1:{free_port}/", timeout=10) as answer:
        assert answer.status == 200
        assert float(answer.headers["X-Seconds"]) >= 0
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy and "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        page = answer.read().decode()
    assert "There is not a note yet." in page
    for address in (*re.findall('<link .*href="(.+?)"', page), f"http://127.0.0.1:{free_port}/favicon.ico"):
        with urllib.request.urlopen(address, timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith(("text/css", "image/svg+xml")), address
            assert "immutable" in answer.headers["Cache-Control"]


def test_its_first_page_leads_to_its_files_and_to_the_documentation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, address in (("with", "https://docs.example.com/en/latest"), ("without", "")):
        told = Message()
        told["Project-URL"] = f"Documentation, {address}" if address else "Issues, https://example.com/issues"
        monkeypatch.setattr("pipeline.tools.new.metadata", lambda package, told=told: told)
        list(make(tmp_path / name, "mine"))
        page = (tmp_path / name / "mine" / "templates" / "site.html").read_text()
        assert "DOCS" not in page
        assert re.findall('href="(http.+?)"', page) == [
            f"{address}/{path}.html" for path in ("tutorial", "howto/index", "reference/index") if address
        ]
        named = re.findall("<dt><code>(.+?)</code>", page)
        assert len(named) == 5 and all((tmp_path / name / file).exists() for file in named)


def test_a_changed_style_sheet_starts_the_site_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser keeps it for ever, at an address with its hash, which is made when the site starts."""
    list(make(tmp_path, "site_with_style"))
    monkeypatch.syspath_prepend(tmp_path)
    files = watched(parse([f"{tmp_path}/development.ini"]))
    assert any(file.endswith("/site_with_style/**/*.css") for file in files)


def test_its_production_ini_has_what_this_one_has(new: Path) -> None:
    """The server, the health of the site and the log of etc/production.ini, and the elements of etc/deploy.ini."""
    ours, its = (ini_of(place / "production.ini") for place in (TOP / "etc", new))
    assert set(ours) - set(its) == set()
    for section in ours:
        if section.startswith(("composite:", "app:health", "logger", "handler", "formatter")):
            assert dict(its[section]) == dict(ours[section]), section
    assert {name.removeprefix("get ") for name in ours["server:main"]} == set(its["server:main"])
    deployed = ini_of(TOP / "etc" / "deploy.ini")["pipeline:main"]["pipeline"].split()
    listed = ini_of(new / "site.ini")["pipeline:main"]["pipeline"].split()
    assert [name for name in listed if name != "stopwatch"] == [name for name in deployed if name != "authenticate"]


def ini_of(path: Path) -> ConfigParser:
    """Return the sections of an ini, without the values of [DEFAULT]."""
    parser = ConfigParser(interpolation=None, default_section="")
    parser.read(path)
    return parser


def test_its_files_are_package_data(tmp_path: Path) -> None:
    """What setup.py puts into a wheel has all of them."""
    run(sys.executable, "-W", "ignore", "setup.py", "-q", "build_py", "--build-lib", tmp_path, cwd=TOP)
    built = tmp_path / "pipeline" / "tools" / "site"
    names = {str(file.relative_to(FILES)) for file in FILES.rglob("*") if file.is_file()}
    assert len(names) == 18
    assert {str(file.relative_to(built)) for file in built.rglob("*") if file.is_file()} == names
    for variant in ("api", "ci", "sql"):
        ours, its = (top.with_name(f"site-{variant}") for top in (FILES, built))
        names = {str(file.relative_to(ours)) for file in ours.rglob("*") if file.is_file()}
        assert {str(file.relative_to(its)) for file in its.rglob("*") if file.is_file()} == names and names


@pytest.mark.once
@pytest.mark.parametrize(
    ("variant", "passed", "needs"), [("api", "10 passed", "pydantic"), ("sql", "9 passed", "alembic")]
)
def test_the_tests_of_a_variant_pass_at_once(tmp_path: Path, variant: str, passed: str, needs: str) -> None:
    """One of them is that ``prove`` tries each view, with a body that is made of its model, and finds nothing."""
    pytest.importorskip(needs)
    if variant == "sql" and version("SQLAlchemy") < "2.1":
        pytest.skip("SQLAlchemy 2.0 keeps a connection that a SystemExit meets in a rollback: the site needs 2.1")
    list(make(tmp_path / "new", "my_site", [variant, "ci"]))
    options = ("-q", "-p", "no:randomly", "-p", "no:cacheprovider")
    assert passed in run(sys.executable, "-m", "pytest", *options, cwd=tmp_path / "new")


def test_a_site_with_tables_has_one_address_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """alembic reads it from the ini, makes the tables that the models say, and brings them up to date."""
    pytest.importorskip("alembic")
    site = tmp_path / "shop"
    assert main(["new", str(site), "--sql"]) == 0
    assert "    alembic upgrade head\n    pipeline serve development.ini\n" in capsys.readouterr().out
    alembic = Path(sys.executable).with_name("alembic")
    run(alembic, "upgrade", "head", cwd=site)
    assert "200 OK" in run(PIPELINE, "explain", "development.ini", "GET", "/", cwd=site)
    other = tmp_path / "other.db"
    run(alembic, "-x", f"database=sqlite:///{other}", "upgrade", "head", cwd=site)
    assert other.exists()
    models = site / "shop" / "models.py"
    more = "text: Mapped[str]\n    more: Mapped[str | None]"
    models.write_text(models.read_text().replace("text: Mapped[str]", more))
    run(alembic, "revision", "--autogenerate", "-m", "more", cwd=site)
    run(alembic, "upgrade", "head", cwd=site)
    run(alembic, "check", cwd=site)
    made = other, *site.glob("migrations/versions/*.py")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in made}
    assert modes.pop(other.name) == 0o600, "a file of SQLite is as private as one that the site makes (S26)"
    assert set(modes.values()) == {0o644}
    assert "200 OK" in run(PIPELINE, "explain", "development.ini", "GET", "/", cwd=site)


def test_two_kinds_of_data_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["new", str(tmp_path / "x"), "--api", "--sql"])
    assert "--api and --sql: an API keeps its objects in a ZODB" in capsys.readouterr().err


def test_an_api_has_no_pages_and_the_inis_of_a_site(tmp_path: Path) -> None:
    """Its development.ini and production.ini are those of a site, with the description beside it."""
    for name, variants in (("plain", []), ("my_api", ["api"])):
        list(make(tmp_path / name, name, variants))
    top = tmp_path / "my_api"
    made = {str(file.relative_to(top)) for file in top.rglob("*") if file.is_file()}
    assert not {file for file in made if "templates" in file or file.endswith("views.py")}
    assert {"my_api/api.py", "my_api/tokens.py", "my_api/elements.py"} <= made
    for ini in ("development.ini", "production.ini"):
        plain, api = (ini_of(tmp_path / name / ini) for name in ("plain", "my_api"))
        more = {"composite:main", "app:openapi", "app:main", "app:site", "DEFAULT"}
        assert {name for name in api if name in plain and dict(api[name]) != dict(plain[name])} <= more
        assert set(api) ^ set(plain) <= more


def test_its_workflow_runs_what_its_readme_names(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    list(make(tmp_path / "with", "mine", ["ci"]))
    list(make(tmp_path / "without", "mine"))
    assert not (tmp_path / "without" / ".github").exists()
    workflow = yaml.safe_load((tmp_path / "with" / ".github" / "workflows" / "tests.yml").read_text())
    steps = [step["run"] for step in workflow["jobs"]["tests"]["steps"] if "run" in step]
    readme = (tmp_path / "with" / "README.rst").read_text()
    for command in ("ruff check", "mypy --strict mine tests"):
        assert command in steps and command in readme
    for step in workflow["jobs"]["tests"]["steps"]:
        assert "run" in step or len(step["uses"].partition("@")[2]) == 40, "by its hash"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("variant", "passed"), [("", "9 passed"), ("--api", "10 passed"), ("--sql", "9 passed")])
def test_from_a_wheel_in_an_environment_of_its_own(tmp_path: Path, variant: str, passed: str) -> None:
    """It is installed with what it needs; its tests, mypy and ruff find nothing."""
    wheel = make_wheel(TOP, tmp_path / "wheels")
    python = make_environment(tmp_path / "venv", f"wsgi-pipeline[site] @ file://{wheel}")
    run(python, "-m", "pipeline", "new", "my-site", *variant.split(), cwd=tmp_path)
    site = tmp_path / "my-site"
    install(python, "-e", f"{site}[test]")
    assert passed in run(python, "-m", "pytest", "-q", cwd=site)
    run(python, "-m", "ruff", "check", ".", cwd=site)
    run(python, "-m", "ruff", "format", "--check", ".", cwd=site)
    run(python, "-m", "mypy", "--strict", "my_site", "tests", cwd=site)


def test_a_directory_that_is_not_empty_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "my-site" / "site.ini"
    own.parent.mkdir()
    own.write_text("mine")
    assert main(["new", str(own.parent)]) == 1
    assert "is not empty: name a directory that is new or empty" in capsys.readouterr().err
    assert main(["new", str(own)]) == 1, "a file"
    assert (own.read_text(), len(list(own.parent.iterdir()))) == ("mine", 1)


def test_an_empty_directory_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    (tmp_path / "my-site").mkdir()
    monkeypatch.chdir(tmp_path / "my-site")
    assert main(["new", "."]) == 0
    assert (tmp_path / "my-site" / "my_site" / "views.py").exists()


def test_a_file_is_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even one that appears in the meantime."""
    writing = make(tmp_path / "site", "mine")
    next(writing)
    for place in ("mine/elements.py", "mine/models.py"):
        (tmp_path / "site" / place).write_text("another program")
    with pytest.raises(FileExistsError):
        list(writing)


@pytest.mark.parametrize(("directory", "name"), [("my-site", "my_site"), ("Shop2", "shop2"), ("a_b", "a_b")])
def test_the_name_of_the_package(directory: str, name: str) -> None:
    assert package_name(directory) == name


@pytest.mark.parametrize("directory", ["my site", "2do", "class", "_x", "", "süd", "a.b", "my-site!"])
def test_a_name_that_cannot_be_a_package(directory: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be the name of a package: choose a name of letters"):
        package_name(directory)


@pytest.mark.parametrize("directory", ["pipeline", "json", "site", "webob", "test", "tests"])
def test_a_name_that_another_module_has(directory: str) -> None:
    with pytest.raises(ConfigurationError, match="already, which the new package would hide"):
        package_name(directory)


def test_an_app_that_an_ini_beside_it_uses_is_used(tmp_path: Path, capsys: Any) -> None:
    """site.ini describes the API, and development.ini says at which address."""
    pytest.importorskip("pydantic")
    directory = tmp_path / "a-site"
    assert main(["new", str(directory), "--api"]) == 0
    assert main(["check", str(directory / "site.ini"), "--strict"]) == 0
    (directory / "production.ini").unlink()
    development = directory / "development.ini"
    development.write_text(development.read_text().replace("config:site.ini#openapi", "config:site.ini"))
    assert main(["check", str(directory / "site.ini"), "--strict"]) == 1
    assert "no pipeline uses [app:openapi]" in capsys.readouterr().out
