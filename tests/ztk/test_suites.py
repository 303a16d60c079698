"""The tests of grok, grokcore.* and zope.app.*, with one name replaced."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

RUNNER = Path(__file__).with_name("run_suites.py")


def failures(ours: bool) -> tuple[set[str], int]:
    """Run the suites; return the tests that fail, and how many there are."""
    environ = {**os.environ, "PIPELINE_ZTK": "1" if ours else "0"}
    command = [sys.executable, "-W", "ignore", str(RUNNER)]
    run = subprocess.run(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    total = re.search(r"^Total: (\d+) tests", run.stdout, re.MULTILINE)
    assert total is not None, run.stdout[-3000:]
    return set(re.findall(r"^(?:Failure|Error) in test (.*)$", run.stdout, re.MULTILINE)), int(total[1])


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_all_that_pass_on_plain_zope_pass_here(capsys: pytest.CaptureFixture[str]) -> None:
    theirs, count = failures(ours=False)
    ours, counted = failures(ours=True)
    with capsys.disabled():
        print(
            f"\n{counted} tests of grok, grokcore.* and zope.app.*: {len(ours)} fail, {len(theirs)} on plain Zope"
        )
    assert counted == count > 250
    assert ours <= theirs
