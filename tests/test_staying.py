"""Nothing outlives its request but what docs/safety.rst lists: a process is searched for marks of its requests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from processes import TOP

pytestmark = pytest.mark.once

PARSED = {"path", "HOST", "ACCEPT", "ACCEPT_ENCODING", "principal", "long principal"}
"""What the section "What stays of a request" lists: values that are parsed once, and checked sessions."""
KEPT = {"/@@kept"}
"""The addresses of pages that the element ``keep`` keeps, since their views ask for it."""
CONTROL = {"/@@leaks", "long /@@leaks"}


def test_only_what_is_listed_stays(tmp_path: Path) -> None:
    program = [sys.executable, str(TOP / "tests" / "staying.py"), str(tmp_path)]
    ran = subprocess.run(program, env={"PYTHONPATH": str(TOP / "tests")}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["statuses"] == ["200", "303", "400", "403", "404", "405", "429", "500"]
    assert set(found["stays"]) == PARSED | KEPT | CONTROL


def test_the_page_lists_it() -> None:
    page = (TOP / "docs" / "safety.rst").read_text("utf-8")
    section = page.partition("What stays of a request")[2].partition("\nReliability\n")[0]
    assert section
    for word in ("path", "``Host``", "``Accept``", "``Accept-Encoding``", "session", "``keep``"):
        assert word in section
