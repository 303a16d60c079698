"""``pipeline evolve``: numbered steps, each once, each a transaction, judged by the database read afresh."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ZODB.DB import DB
from ZODB.FileStorage import FileStorage

from inis import ini_of
from pipeline.elements.zodb import close_all
from pipeline.tools.command import main

INI = ini_of(
    ("retry", "zodb", "errors", "transaction", "traverse"),
    "",
    zodb="uri = file://%(here)s/Data.fs\nroot = evolving:root",
)
SITE = """
from persistent.mapping import PersistentMapping

def root(database):
    return database.setdefault("site", PersistentMapping(title="old"))
"""
FIRST = '''
def evolve_1(root):
    """Pages have a title in capitals.

    And more words.
    """
    root["title"] = root["title"].upper()
'''
SECOND = """
def evolve_2(root):
    root["pages"] = root.get("pages", 0) + 1
"""
FAILS = '''
def evolve_3(root):
    """Fails half way."""
    root["title"] = "broken"
    raise KeyError("author")
'''

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    (tmp_path / "site.ini").write_text(INI)
    (tmp_path / "evolving.py").write_text(SITE)
    monkeypatch.chdir(tmp_path)

    def run(steps: str, *options: str) -> tuple[int, str, str]:
        (tmp_path / "steps.py").write_text(steps)
        sys.modules.pop("steps", None)
        status = main(["evolve", "site.ini", "--steps", "steps", *options])
        close_all()
        said = capsys.readouterr()
        return status, said.out, said.err

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield run
    close_all()
    for name in ("steps", "evolving"):
        sys.modules.pop(name, None)


def stored(tmp_path: Path) -> dict[str, Any]:
    db = DB(FileStorage(str(tmp_path / "Data.fs")))
    try:
        with db.transaction() as connection:
            root = connection.root()
            return {**dict(root.get("site", {})), "step": dict(root.get("pipeline.evolved", {}))}
    finally:
        db.close()


def test_each_step_runs_once(run: Run, tmp_path: Path) -> None:
    status, said, _ = run(FIRST)
    assert (status, said) == (0, "1. Pages have a title in capitals.\nsteps: 1 of 1 steps done\n")
    assert stored(tmp_path) == {"title": "OLD", "step": {"steps": 1}}
    assert run(FIRST)[:2] == (0, "steps: all 1 steps were done before\n")
    assert run(FIRST + SECOND)[1] == "2. evolve_2\nsteps: 1 of 2 steps done\n"
    assert run(FIRST + SECOND)[0] == 0
    assert stored(tmp_path) == {"title": "OLD", "pages": 1, "step": {"steps": 2}}


def test_a_dry_run_stores_nothing(run: Run, tmp_path: Path) -> None:
    status, said, _ = run(FIRST + SECOND, "--dry-run")
    assert status == 0 and said.endswith("steps: 2 of 2 steps would be done, and nothing is stored\n")
    assert stored(tmp_path)["step"] == {} and stored(tmp_path).get("title") in (None, "old")


def test_a_step_that_fails_is_dropped_whole_and_tried_again(run: Run, tmp_path: Path) -> None:
    status, said, failure = run(FIRST + SECOND + FAILS)
    assert status == 1 and said.endswith("3. Fails half way.: failed. Nothing of this step is stored\n")
    assert "KeyError: 'author'" in failure
    assert stored(tmp_path) == {"title": "OLD", "pages": 1, "step": {"steps": 2}}
    assert run(FIRST + SECOND + FAILS.replace("raise KeyError", "print"))[0] == 0
    assert stored(tmp_path)["title"] == "broken" and stored(tmp_path)["step"] == {"steps": 3}


def test_a_step_that_ends_the_process_is_not_a_success(run: Run, tmp_path: Path) -> None:
    status, said, _ = run(FIRST + SECOND + FAILS.replace('raise KeyError("author")', "raise SystemExit"))
    assert status == 1 and said.endswith("3. Fails half way.: failed. Nothing of this step is stored\n")
    assert stored(tmp_path)["step"] == {"steps": 2}


def test_older_code_is_refused(run: Run) -> None:
    assert run(FIRST + SECOND)[0] == 0
    status, _, said = run(FIRST)
    assert status == 1 and "has had step 2 of steps, and this code ends with 1" in said


@pytest.mark.parametrize(("steps", "number"), [("", 1), (SECOND, 1), (FIRST + FAILS, 2)])
def test_a_number_that_is_missing(steps: str, number: int, run: Run, tmp_path: Path) -> None:
    status, _, said = run(steps)
    assert status == 1 and f"steps: evolve_{number} is missing" in said
    assert not (tmp_path / "Data.fs").exists()


@pytest.mark.parametrize("step", ["async def evolve_2(site): ...", "def evolve_2(site):\n    yield"])
def test_a_step_of_which_a_call_runs_nothing_is_not_taken_for_done(step: str, run: Run, tmp_path: Path) -> None:
    status, _, said = run(f"{FIRST}\n{step}\n")
    assert status == 1 and "steps: evolve_2 " in said
    assert not (tmp_path / "Data.fs").exists()


def test_a_site_without_a_zodb(run: Run, tmp_path: Path) -> None:
    text = INI.replace("retry zodb errors transaction traverse", "errors traverse")
    (tmp_path / "site.ini").write_text(text.replace("#traverse", "#traverse\nroot = evolving:root_alone"))
    (tmp_path / "evolving.py").write_text("def root_alone(request=None):\n    return {}\n")
    status, _, said = run(FIRST)
    assert status == 1 and "this pipeline has no element zodb" in said
