"""A release: ``make release`` in a clone writes the changes, builds, and tries what it has built (slow).

Two clones of one commit give the same bytes.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import docutils.core
import pytest

import pipeline
from environments import NOT_COPIED

TOP = Path(__file__).resolve().parents[1]
ENVIRON = {
    name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "MAKE"))
}
NEXT = "99.0"
"""The version that the test releases: CHANGES.rst may have the present one already."""
GIT = ["git", "-c", "user.name=A test", "-c", "user.email=test@example.org"]


def run(*command: str | Path, cwd: Path, **environ: str) -> str:
    ran = subprocess.run(command, cwd=cwd, env=ENVIRON | environ, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def test_changes_that_are_not_released_are_of_a_version_that_is_not_released() -> None:
    fragments = [path.name for path in (TOP / "changes").glob("*.rst") if path.name != "README.rst"]
    released = re.findall(r"^(\d\S*) \(\d{4}-\d\d-\d\d\)$", (TOP / "CHANGES.rst").read_text("utf-8"), re.MULTILINE)
    assert released
    assert not fragments or pipeline.__version__ not in released
    assert pipeline.__version__ in released or pipeline.__version__.endswith(".dev0")


def test_what_users_install_has_a_lower_limit() -> None:
    """The suite runs with these versions too: ``.ci/lowest.py`` reads them."""
    found = runpy.run_path(str(TOP / ".ci" / "lowest.py"))["installed"]()
    assert len(found) > 20
    assert [one for one in found if ">=" not in one.partition(";")[0]] == []


def test_what_builds_a_release_is_locked() -> None:
    """Who publishes runs no file that nobody has looked at."""
    text = (TOP / ".ci" / "dist-tools.txt").read_text("utf-8")
    locked = re.findall(
        r"^\S+==\S+(?: ; .*)? \\\n(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", text, re.MULTILINE
    )
    named = [line for line in text.splitlines() if line and line[0] not in "# "]
    assert len(locked) == len(named) and {"build", "cyclonedx-bom", "setuptools"} <= {
        line.split("==")[0] for line in named
    }
    script = (TOP / ".ci" / "make-dist").read_text("utf-8")
    assert re.findall(r"^install venv (.*)", script, re.MULTILINE) == ["--require-hashes -r .ci/dist-tools.txt"]
    assert re.findall(r" -m build( --\S+)? ", script) == [" --no-isolation", " --version"]


@pytest.mark.once
def test_contributing_lists_the_jobs_of_ci() -> None:
    named = re.findall(r'Job\(\s*"([^"{]+)"', (TOP / ".ci" / "jobs.py").read_text("utf-8"))
    jobs = {name for name in named if not name.startswith("environment-")}
    assert len(jobs) > 15
    section = (TOP / "CONTRIBUTING.rst").read_text("utf-8").partition("The jobs of ``.ci/run``")[2]
    first_column = re.findall(r"^\S.{22}", section, re.MULTILINE)
    listed = {job for cell in first_column for job in (cell.strip(), *cell.strip().split(", "))}
    assert jobs - listed == set()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_release_is_built_and_tried_in_an_empty_environment(tmp_path: Path) -> None:
    clone = shutil.copytree(TOP, tmp_path / "clone", ignore=NOT_COPIED, symlinks=True)
    before = (clone / "CHANGES.rst").read_text("utf-8")
    (clone / "changes" / "a-test.feature.rst").write_text("A change that no version has.\n")
    version = clone / "src" / "pipeline" / "__init__.py"
    version.write_text(version.read_text("utf-8").replace(f'"{pipeline.__version__}"', f'"{NEXT}"'))
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "a clone"]):
        run(*GIT, *command, cwd=clone)
    epoch = run("git", "log", "-1", "--format=%ct", cwd=clone).strip()
    said = run("make", "release", f"PYTHON={sys.executable}", cwd=clone)
    sdist, wheel = (f"wsgi_pipeline-{NEXT}{end}" for end in (".tar.gz", "-py3-none-any.whl"))
    bill, made = (f"wsgi_pipeline-{NEXT}.{end}" for end in ("cdx.json", "made.txt"))
    assert sorted(path.name for path in (clone / "dist").iterdir()) == sorted([bill, made, sdist, wheel])
    for file in (sdist, wheel):
        assert f"{file}: tried in an empty environment" in said
    components = json.loads((clone / "dist" / bill).read_text("utf-8"))["components"]
    assert {"PasteDeploy", "WebOb", "waitress", "zope.interface"} <= {one["name"] for one in components}
    assert f"SOURCE_DATE_EPOCH={epoch}" in (clone / "dist" / made).read_text("utf-8")
    left_out = shutil.ignore_patterns("dist", ".venv")
    again = shutil.copytree(clone, tmp_path / "again", ignore=left_out, symlinks=True)
    for path in again.rglob("*"):
        os.utime(path, (1e9, 1e9), follow_symlinks=False)
    run(again / ".ci" / "make-dist", "dist", cwd=again, PYTHON=sys.executable)
    for file in (bill, made, sdist, wheel):
        assert (again / "dist" / file).read_bytes() == (clone / "dist" / file).read_bytes(), file

    changes = (clone / "CHANGES.rst").read_text("utf-8")
    top = changes.index(f"\n{NEXT} (20")
    assert "* A change that no version has." in changes[top:]
    assert changes.endswith(before[before.index(".. towncrier") :].partition("\n")[2].lstrip("\n"))
    docutils.core.publish_string(changes, settings_overrides={"halt_level": 2, "report_level": 2})
    assert not [path for path in (clone / "changes").glob("*.rst") if path.name != "README.rst"]

    with ZipFile(clone / "dist" / wheel) as packed:
        names = packed.namelist()
    assert "pipeline/py.typed" in names and "pipeline/tools/site/var/dot-gitignore.txt" in names
    assert "pipeline/testing/plugin.py" in names
    assert not [name for name in names if name.startswith(("tests/", "examples/"))]
    with tarfile.open(clone / "dist" / sdist) as packed_source:
        inside = {name.partition("/")[2] for name in packed_source.getnames()}
    assert {
        "CHANGES.rst",
        "docs/api.txt",
        "etc/deploy.ini",
        "examples/mount/etc/site.ini",
        "tests/conftest.py",
    } <= inside


# The addresses of the project.

FILLED = {"repository": "https://code.example/o/wsgi-pipeline", "documentation": "https://docs.example/en/latest"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files that the metadata is made of."""
    for name in ("setup.py", "README.rst", "pyproject.toml", ".ci/upload-check", "src/pipeline/__init__.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TOP / name, path)
    return tmp_path


def fill_in(checkout: Path, **addresses: str) -> None:
    file = checkout / "pyproject.toml"
    text = file.read_text("utf-8")
    for name, address in addresses.items():
        text, count = re.subn(rf'^{name} = "[^"]*"', f'{name} = "{address}"', text, flags=re.MULTILINE)
        assert count == 1
    file.write_text(text, encoding="utf-8")


def metadata(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    given: dict[str, Any] = {}
    monkeypatch.setattr("setuptools.setup", lambda **options: given.update(options))
    runpy.run_path(str(checkout / "setup.py"))
    return given


def test_what_the_package_index_shows_has_the_addresses(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_in(checkout, **FILLED)
    given = metadata(checkout, monkeypatch)
    assert given["url"] == FILLED["repository"]
    assert {"Repository", "Issues", "Documentation", "Changelog"} <= set(given["project_urls"])
    page = given["long_description"]
    assert f".. image:: {FILLED['repository']}/raw/" in page
    assert f"<{FILLED['documentation']}/tutorial.html>" in page
    assert "image:: docs/" not in page and "``docs/" not in page
    docutils.core.publish_string(page, settings_overrides={"halt_level": 2, "report_level": 2})


def test_without_addresses_there_is_no_broken_picture(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_in(checkout, repository="", documentation="")
    given = metadata(checkout, monkeypatch)
    assert given["project_urls"] == {} and "image::" not in given["long_description"]


@pytest.mark.parametrize(
    ("addresses", "said"),
    [
        ({}, ""),
        ({"repository": ""}, "repository: fill in the address, such as https://"),
        ({"documentation": ""}, "documentation: fill in the address, such as https://"),
        ({"repository": "git@code.example:o/x"}, "repository: 'git@code.example:o/x' is not an address such as"),
        ({"documentation": "https://docs.example/"}, "documentation: 'https://docs.example/' is not an address"),
    ],
)
def test_nothing_is_uploaded_before_the_addresses_are_filled_in(
    checkout: Path, addresses: dict[str, str], said: str
) -> None:
    fill_in(checkout, **{**FILLED, **addresses})
    command = [sys.executable, checkout / ".ci" / "upload-check"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == (1 if said else 0)
    if said:
        place, _, message = ran.stderr.strip().partition(": ")
        number = int(place.removeprefix("pyproject.toml, line "))
        assert message.startswith(said)
        line = (checkout / "pyproject.toml").read_text("utf-8").splitlines()[number - 1]
        assert line.startswith(message.partition(":")[0])
    else:
        assert ran.stderr == ""
