"""``.ci/lanes.py``: a run of the jobs that is stopped leaves no process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

LANES = Path(__file__).resolve().parents[1] / ".ci"

CATCHES = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, lambda *_: None)
subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)", sys.argv[1]], start_new_session=True)
open(sys.argv[1], "w")
while True: time.sleep(60)
"""

RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import lanes
from pathlib import Path
lanes.GRACE = 0.5
job = lanes.Job("a job", f"{sys.executable} -S {sys.argv[2]}/catches.py {sys.argv[2]}/begun; true")
lanes.run([job], Path(sys.argv[2]))
"""


def running(word: str) -> list[str]:
    """Return the processes that have the word in their command line."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended in the meantime
            found += [file.parent.name] * (word.encode() in file.read_bytes())
    return found


@pytest.mark.once
def test_a_run_that_is_stopped_leaves_no_process(tmp_path: Path) -> None:
    """Not one that catches SIGTERM, nor one that has begun a session of its own."""
    (tmp_path / "catches.py").write_text(CATCHES)
    run = subprocess.Popen([sys.executable, "-c", RUN, LANES, tmp_path], stdout=subprocess.DEVNULL)
    while not (tmp_path / "begun").exists():
        assert run.poll() is None
        time.sleep(0.05)
    run.send_signal(signal.SIGTERM)
    assert run.wait(30) == 128 + signal.SIGTERM
    assert running(f"{tmp_path}/begun") == []


HANGS = """
import sys
sys.path.insert(0, sys.argv[1])
import lanes
from pathlib import Path
lanes.LIMIT = 1
jobs = [lanes.Job("hangs", "echo until here; sleep 60"), lanes.Job("works", "true")]
sys.exit(lanes.run(jobs, Path(sys.argv[2])))
"""


@pytest.mark.once
def test_a_job_that_hangs_is_stopped_and_the_others_go_on(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HANGS, LANES, tmp_path]
    run = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert run.returncode == 1
    assert "works: done" in run.stdout
    assert "Failed: hangs." in run.stdout
    assert "until here" in run.stdout


FIRST_FAILS = """
import pathlib
import pytest

@pytest.mark.parametrize("name", {names!r})
def test_of(name):
    seen = pathlib.Path({place!r}, name)
    assert name != "never"
    assert seen.exists() or seen.touch(), "it is the first time"

def test_passes():
    pass
"""

AGAIN = """
import sys
sys.path.insert(0, sys.argv[1])
import jobs, lanes
from pathlib import Path
command = jobs.suite(sys.executable, "-c /dev/null test_again.py", "").replace(" -n 0", "")
lanes.AGAIN["AGAIN"] = lanes.AGAIN["AGAIN"].replace(" -n 0", "")
sys.exit(lanes.run([lanes.Job("a job", command)], Path(".ci-logs")))
"""


@pytest.mark.once
@pytest.mark.parametrize(
    ("names", "status", "end"),
    [
        (["a", "b", "c"], 0, "4 passed, 0 failed, 0 skipped"),
        (["a", "b", "c", "d"], 1, "1 passed, 4 failed, 0 skipped"),
        (["a", "never"], 1, "1 passed, 2 failed, 0 skipped"),
    ],
)
def test_a_few_tests_that_fail_run_once_more(tmp_path: Path, names: list[str], status: int, end: str) -> None:
    """All of them must pass then, and their names stand at the end of the run."""
    (tmp_path / "test_again.py").write_text(FIRST_FAILS.format(names=names, place=str(tmp_path)))
    variables = {**os.environ, "PIPELINE_CI_ALL": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-c", AGAIN, LANES]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=variables)
    last = (run.stdout.splitlines() or [""])[-1]
    assert (run.returncode, last) == (status, end), run.stdout + run.stderr
    told = run.stdout.count("\nfailed beside other jobs, and passed alone: FAILED test_again.py::test_of")
    assert told == (0 if status else len(names))
