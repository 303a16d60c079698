"""``.ci/lanes.py``: a run of the jobs that is stopped leaves no process."""

from __future__ import annotations

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
