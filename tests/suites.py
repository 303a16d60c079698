"""Running suites of other packages in a process of their own, on plain Zope or with one name replaced."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import distributions
from pathlib import Path


def started(runner: Path, *packages: str, **variables: str) -> subprocess.Popen[str]:
    """Start the suites of a script, of these packages."""
    command = [sys.executable, "-W", "ignore", str(runner)]
    command += [word for package in packages for word in ("-s", package)]
    out = subprocess.PIPE
    environ = {**os.environ, **variables}
    return subprocess.Popen(command, env=environ, stdout=out, stderr=subprocess.STDOUT, text=True)


def failures(run: subprocess.Popen[str]) -> tuple[set[str], int]:
    """Wait for the suites; return the tests that fail, and how many there are. Files are named from sys.prefix."""
    said, _ = run.communicate()
    said = said.replace(f"{sys.prefix}/", "")
    return failed(said), counted(said)


def failed(said: str) -> set[str]:
    """Return the tests that a run says have failed, and the modules of tests that could not be imported."""
    modules = re.search(r"^Test-modules with import problems:\n((?:  .*\n)+)", said, re.MULTILINE)
    found = set(modules[1].split()) if modules else set()
    return found | set(re.findall(r"^(?:Failure|Error) in test (.*)$", said, re.MULTILINE))


def counted(said: str) -> int:
    """Return how many tests have run."""
    total = re.search(r"^Total: (\d+) tests", said, re.MULTILINE) or re.search(
        r"^  Ran (\d+) tests", said, re.MULTILINE
    )
    assert total is not None, said[-3000:]
    return int(total[1])


@dataclass(frozen=True)
class Compared:
    """The suites on plain Zope and here."""

    ours: set[str]
    """The tests that fail here."""
    theirs: set[str]
    """The tests that fail on plain Zope."""
    counted: int
    """How many tests ran here."""
    count: int
    """How many tests ran on plain Zope."""
    is_kept: bool = False
    """Whether the result of plain Zope was there already."""

    def __str__(self) -> str:
        plain = f"{len(self.theirs)} on plain Zope{' (a kept result)' if self.is_kept else ''}"
        return f"{len(self.ours)} fail, {plain}: {', '.join(sorted(self.ours | self.theirs))}"


def against_plain(runner: Path, *packages: str, plain: Mapping[str, str], here: Mapping[str, str]) -> Compared:
    """Run the suites on plain Zope and with one name replaced, one after the other, each with its variables.

    Plain Zope does not change when the pipeline does. If PIPELINE_KEPT names a directory, its result is kept there,
    by all that is installed, if both fail the same: a test that fails on plain Zope by chance excuses no other.
    """
    ours, counted = failures(started(runner, *packages, **here))
    kept = kept_result(runner, packages)
    if kept is not None and kept.exists():
        found, count = json.loads(kept.read_text())
        theirs = set(found)
        if ours <= theirs and counted == count:
            return Compared(ours, theirs, counted, count, is_kept=True)
    theirs, count = failures(started(runner, *packages, **plain))
    if kept is not None and ours == theirs and counted == count:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps([sorted(theirs), count]))
    return Compared(ours, theirs, counted, count)


def kept_result(runner: Path, packages: Sequence[str]) -> Path | None:
    """Return the file for the result of plain Zope in this environment."""
    directory = os.environ.get("PIPELINE_KEPT")
    if not directory:
        return None
    installed = {f"{one.name}=={one.version}" for one in distributions() if one.name != "wsgi-pipeline"}
    key = repr([runner.read_text(), packages, sys.version, sorted(installed)])
    return Path(directory) / f"plain-{sha256(key.encode()).hexdigest()[:16]}.json"
