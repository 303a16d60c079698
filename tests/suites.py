"""Running suites of other packages in a process of their own, on plain Zope or with one name replaced."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path


def started(runner: Path, **variables: str) -> subprocess.Popen[str]:
    """Start the suites of a script."""
    command = [sys.executable, "-W", "ignore", str(runner)]
    out = subprocess.PIPE
    environ = {**os.environ, **variables}
    return subprocess.Popen(command, env=environ, stdout=out, stderr=subprocess.STDOUT, text=True)


def failures(run: subprocess.Popen[str]) -> tuple[set[str], int]:
    """Wait for the suites; return the tests that fail, and how many there are."""
    said, _ = run.communicate()
    total = re.search(r"^Total: (\d+) tests", said, re.MULTILINE)
    assert total is not None, said[-3000:]
    return set(re.findall(r"^(?:Failure|Error) in test (.*)$", said, re.MULTILINE)), int(total[1])
