"""The tests of grok, grokcore.* and zope.app.*, with one name replaced."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

RUNNER = Path(__file__).with_name("run_suites.py")


def started(ours: bool) -> subprocess.Popen[str]:
    """Start the suites."""
    environ = {**os.environ, "PIPELINE_ZTK": "1" if ours else "0"}
    command = [sys.executable, "-W", "ignore", str(RUNNER)]
    out = subprocess.PIPE
    return subprocess.Popen(command, env=environ, stdout=out, stderr=subprocess.STDOUT, text=True)


def failures(run: subprocess.Popen[str]) -> tuple[set[str], int]:
    """Wait for the suites; return the tests that fail, and how many there are."""
    said, _ = run.communicate()
    total = re.search(r"^Total: (\d+) tests", said, re.MULTILINE)
    assert total is not None, said[-3000:]
    return set(re.findall(r"^(?:Failure|Error) in test (.*)$", said, re.MULTILINE)), int(total[1])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_all_that_pass_on_plain_zope_pass_here(record_property: Callable[[str, object], None]) -> None:
    with started(ours=True) as here:
        ours, counted = failures(here)
    with started(ours=False) as plain:  # not beside the other: a test of grokcore.view writes to its own template
        theirs, count = failures(plain)
    of_both = f"{len(ours)} fail, {len(theirs)} on plain Zope: {', '.join(sorted(ours | theirs))}"
    record_property("summary", f"{counted} tests of grok, grokcore.* and zope.app.*: {of_both}")
    assert counted == count > 250
    assert ours <= theirs
