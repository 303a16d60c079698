"""``pipeline explain`` and ``pipeline check`` of a Grok site: the walk, the adapters, the checker that refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

WIKI = Path(__file__).parents[2] / "examples" / "grok"


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (directory / "var").mkdir(exist_ok=True)
    (directory / "etc").unlink(missing_ok=True)
    (directory / "etc").symlink_to(WIKI / "etc")
    environ = {**os.environ, "PYTHONPATH": str(WIKI / "src"), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "pipeline", *arguments]
    return subprocess.run(command, cwd=directory, env=environ, capture_output=True, text=True, check=False)


def explained(directory: Path, ini: str, *arguments: str) -> dict[str, Any]:
    said = run(directory, "explain", f"etc/{ini}", *arguments, "--json")
    return json.loads(said.stdout[said.stdout.index("\n{\n") if "\n{\n" in said.stdout else 0 :])  # type: ignore[no-any-return]


@pytest.mark.parametrize("ini", ["deploy.ini", "steps.ini"])
def test_a_page_and_its_adapters(ini: str, tmp_path: Path) -> None:
    found = explained(tmp_path, ini, "GET", "/wiki")
    assert found["status"] == "200 Ok"
    assert found["causes"][0]["why"] == "the view grokwiki.app.WikiIndex answered 200"
    assert "grokwiki/app.py, line" in found["causes"][0]["where"]
    steps = {step["name"]: step["answered_by"] for step in found["traversal"]}
    assert [*steps] == ["", "wiki", "@@index", "__call__"]
    assert "IPublishTraverse adapter grokcore.traverser.components.ContainerTraverser" in steps["wiki"]
    assert "the namespace view: zope.traversing.namespace.view" in steps["@@index"]
    assert steps["__call__"] == "the checker Checker: __call__ needs the permission 'grokwiki.View'"


@pytest.mark.parametrize("ini", ["deploy.ini", "steps.ini"])
def test_the_checker_that_refused(ini: str, tmp_path: Path) -> None:
    found = explained(tmp_path, ini, "GET", "/wiki/add")
    assert found["status"] == "401 Unauthorized"
    assert found["causes"][0]["why"] == (
        "the checker of an Add named 'add' refused 'browserDefault': it needs the permission 'grokwiki.Edit', "
        "which the principal 'zope.anybody' has not"
    )
    assert "grokwiki/app.py, line" in found["causes"][0]["where"]


def test_a_step_that_finds_nothing(tmp_path: Path) -> None:
    found = explained(tmp_path, "steps.ini", "GET", "/wiki/strat")
    assert found["status"] == "404 Not Found"
    assert "the step 'strat' from a Wiki named 'wiki' found nothing" in found["causes"][0]["why"]
    assert "Did you mean 'start'?" in found["causes"][0]["remedy"]


def test_nothing_is_committed_without_being_asked(tmp_path: Path) -> None:
    write = ("POST", "/wiki/start/delete", "-H", "Authorization: Basic ZWRpdG9yOnNlY3JldA==")
    assert explained(tmp_path, "steps.ini", *write)["status"][:1] in "23"
    assert explained(tmp_path, "steps.ini", "GET", "/wiki/start")["status"] == "200 Ok"
    assert explained(tmp_path, "steps.ini", *write, "--commit")["status"][:1] in "23"
    assert explained(tmp_path, "steps.ini", "GET", "/wiki/start")["status"] == "404 Not Found"


def test_the_zope_conf_says_what_is_written_and_by_how_many_processes(tmp_path: Path) -> None:
    """The element zodb is given a database, so that its own options say neither."""
    said = run(tmp_path, "serve", "etc/steps.ini", "--server", "gunicorn", "--workers", "2").stderr
    assert "section [app:ztk_publisher], line " in said and said.count("\n") == 1
    assert "2 processes cannot serve this site: one process has var/Data.fs for itself" in said
    for ini in ("steps.ini", "deploy.ini"):
        parts = json.loads(run(tmp_path, "show", f"etc/{ini}", "--json").stdout)[0]["parts"]
        assert [part["name"] for part in parts if "writes var/Data.fs" in part["facts"]] == ["ztk_publisher"]


def test_check_knows_that_errors_are_answered(tmp_path: Path) -> None:
    said = run(tmp_path, "check", "etc/steps.ini").stdout
    assert "9 parts, in order and complete" in said
    assert "no element answers errors" not in said
