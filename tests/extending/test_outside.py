"""Six things that another package adds to this one, each as little as it can be: they work, and the table of
docs/design.rst has their files and lines."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
OUTSIDE = HERE / "outside"
TOP = HERE.parents[1]
PARTS = {
    "An element with state and a metric": ("counted.py",),
    "A watcher": ("watched.py",),
    "A deploy target": ("hypercorn/__init__.py", "hypercorn/hypercorn.toml.j2", "hypercorn/wsgi.py.j2",
                        "hypercorn/commands.j2"),
    "A command": ("greet.py",),
    "A type of results": ("shown.py",),
    "An SQL dialect": ("cockroach.py",),
}
"""The files of each. All but the type of results need a line in the entry points of the package, too."""
ROW = re.compile(r"^   \* - (.+)\n     - (\d+)\n     - (\d+)\n", re.MULTILINE)
USED = """
from prometheus_client import REGISTRY
from pipeline.database.sql_dialects import dialect_of
from pipeline.testing import site

visitor = site("outside/site.ini")
visitor.get("/")
answer = visitor.get("/")
print(answer.text.strip(), answer.headers.getall("X-Passed"), answer.headers["X-Visits"])
print(REGISTRY.get_sample_value("visits_total"))
print(dialect_of("cockroachdb", "psycopg2")[0].errors.transient)
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A directory of packages in which the package stands, with its entry points as pip writes them."""
    for directory in (tmp_path, *tmp_path.parents):
        if directory.name.startswith(("pytest-", "popen-", "test_")):
            directory.chmod(0o755)  # what is deployed there is read by another user
    shutil.copytree(OUTSIDE, tmp_path / "outside")
    told = tmp_path / "outside-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    shutil.copy(OUTSIDE / "entry_points.txt", told)
    return tmp_path


def said(directory: Path, *words: str) -> str:
    """What Python prints that finds the packages of a directory."""
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(directory), os.environ.get("PYTHONPATH", "")])}
    options = {"cwd": directory, "env": environ, "timeout": 60}
    ran = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, **options)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.once
def test_what_another_package_adds_is_used(installed: Path) -> None:
    assert said(installed, "-m", "pipeline", "greet", "you") == "Hello, you!\n"
    assert said(installed, "-c", USED).splitlines() == [
        "21.0 degrees ['publisher', 'traverse', 'counted'] 2", "2.0", "frozenset({'40001'})",
    ]  # fmt: skip
    deployed = installed / "deployed"
    told = said(installed, "-m", "pipeline", "deploy", "hypercorn", "outside/site.ini", str(deployed))
    assert f"start   hypercorn --config {deployed}/hypercorn.toml wsgi:application" in told
    assert (deployed / "hypercorn.toml").read_text().startswith('bind = "127.0.0.1:8080"\n')
    assert "Hypercorn, with threads" in said(installed, "-m", "pipeline", "deploy", "--help")


@pytest.mark.once
def test_the_table_has_the_files_and_lines() -> None:
    """Lines are those that are not blank, with the line of the entry point."""
    counted = {}
    for title, names in PARTS.items():
        lines = [line for name in names for line in (OUTSIDE / name).read_text().splitlines() if line.strip()]
        counted[title] = (len(names), len(lines) + (title != "A type of results"))
    rows = ROW.findall((TOP / "docs" / "design.rst").read_text("utf-8"))
    assert {title: (int(files), int(lines)) for title, files, lines in rows if title in PARTS} == counted
