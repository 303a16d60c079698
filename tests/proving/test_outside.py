"""``prove`` touches nothing: judged from outside, by the files, by a socket that listens, and by the processes."""

from __future__ import annotations

import importlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pipeline.staging import runs
from pipeline.staging.effects import Effects
from pipeline.staging.runs import Hangs, Run, sleep, watched
from proving import outside

pytestmark = pytest.mark.once
INI = """\
[pipeline:main]
pipeline = retry zodb errors transaction traverse publisher
[filter:retry]
use = egg:wsgi-pipeline#retry
[filter:zodb]
use = egg:wsgi-pipeline#zodb
uri = memory://
root = proving.outside:root
[filter:errors]
use = egg:wsgi-pipeline#errors
[filter:transaction]
use = egg:wsgi-pipeline#transaction
[filter:traverse]
use = egg:wsgi-pipeline#traverse
[app:publisher]
use = egg:wsgi-pipeline#publisher
scan = proving.outside
"""
DO = ("--view", "@@do", "--judge", "faults", "--faults", "conflict")
TESTS = Path(__file__).resolve().parents[1]


def children() -> list[int]:
    """Return the processes that this one has started and that have not been waited for."""
    return [int(one) for one in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


class Ground:
    """A directory with files of a site, a port that listens, and a process of somebody else."""

    def __init__(self, tmp_path: Path) -> None:
        self.ini, self.place, self.temporary = tmp_path / "site.ini", tmp_path / "place", tmp_path / "tmp"
        self.ini.write_text(INI)
        for directory in (self.place, self.place / "directory", self.place / "empty", self.temporary):
            directory.mkdir()
        (self.place / "upload").write_text("precious")
        (self.place / "directory" / "deep").write_text("precious")
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.port = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", self.port))
        self.other = subprocess.Popen(["sleep", "1000"])

    def tree(self) -> dict[str, tuple[int, float, bytes]]:
        """All files, below the site's own directory and in that for temporary files."""
        paths = [*self.place.rglob("*"), *self.temporary.rglob("*"), *Path("/dev/shm").glob(f"left{self.port}-*")]
        return {
            str(path): (path.lstat().st_mode, path.stat().st_mtime, path.read_bytes() if path.is_file() else b"")
            for path in paths
        }

    def environ(self, does: str, **more: str) -> dict[str, str]:
        return {
            **os.environ,
            "OUTSIDE": str(self.place),
            "OUTSIDE_PORT": str(self.port),
            "OUTSIDE_PID": str(self.other.pid),
            "OUTSIDE_DOES": does,
            "TMPDIR": str(self.temporary),
            "PYTHONPATH": str(TESTS),
            **more,
        }

    def start(self, does: str, *words: str, **more: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-W", "ignore", "-m", "pipeline", "prove", str(self.ini), *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen(command, text=True, env=self.environ(does, **more), **pipes)  # type: ignore[call-overload, no-any-return]

    def is_untouched(self) -> bool:
        """Return whether nobody has knocked, and the process of somebody else is alive."""
        knocked, _, _ = select.select([self.tcp, self.udp], [], [], 0)
        return not knocked and self.other.poll() is None

    def close(self) -> None:
        self.tcp.close()
        self.udp.close()
        self.other.kill()
        self.other.wait()


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("by", outside.BY)
def test_nothing_outside_is_touched(by: str, ground: Ground) -> None:
    """Each effect is told, unless it comes after the commit, and none happens."""
    before, processes = ground.tree(), children()
    ran = ground.start(f"{','.join(outside.DOES)}/{by}", *DO)
    said, _ = ran.communicate(timeout=60)
    assert ground.tree() == before, said
    assert ground.is_untouched(), said
    assert children() == processes
    told = said.count("what no abort takes back")
    assert told == 0 if "commit" in by else told >= len(outside.DOES), said


@pytest.mark.parametrize("kind", outside.DOES)
def test_each_effect_really_happens_elsewhere(kind: str, ground: Ground) -> None:
    """The control: without ``prove`` the same function is seen from outside."""
    before = ground.tree()
    code = f"from proving import outside; import os; os.setsid(); outside.DOES[{kind!r}]()"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=ground.environ("x/"), check=False, timeout=20)
    end = time.monotonic() + 2
    while time.monotonic() < end and ground.tree() == before and ground.is_untouched():
        time.sleep(0.01)
    assert ground.tree() != before or not ground.is_untouched() or kind in ("shared memory",)


def test_temporary_files_are_nobody_s_business(ground: Ground) -> None:
    ran = ground.start(f"{','.join(outside.TEMPORARY)}/", *DO)
    said, _ = ran.communicate(timeout=60)
    assert ran.returncode == 0, said
    assert not list(ground.temporary.iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_is_killed_leaves_nothing(number: signal.Signals, ground: Ground) -> None:
    before = ground.tree()
    ran = ground.start("remove/", "--judge", "faults,attack,crash,pairs", "--depth", "2")
    assert ran.stdout is not None
    ran.stdout.readline()
    time.sleep(0.5)
    ran.send_signal(number)
    said, _ = ran.communicate(timeout=20)
    assert ran.returncode != 0, said
    assert ground.tree() == before and ground.is_untouched()


@pytest.mark.parametrize("view", ["@@loop", "@@match"])
def test_a_request_that_hangs_is_ended_and_told__S12(view: str, ground: Ground) -> None:
    """Also a regular expression, which holds the interpreter."""
    code = "from pipeline.staging import runs; from pipeline.tools.command import main; import sys; "
    code += "runs.LONGEST = 0.5; sys.exit(main())"
    words = ["prove", str(ground.ini), "--view", view, "--judge", "faults"]
    environ = ground.environ("remove/", OUTSIDE_HANGS="yes")
    command = [sys.executable, "-W", "ignore", "-c", code, *words]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1, ran.stderr
    assert "S12: it has not answered after" in ran.stdout and "outside.py, line" in ran.stdout, ran.stdout
    assert f"GET /{view}" in ran.stderr and "outside.py" in ran.stderr


@pytest.mark.parametrize("is_busy", [True, False])
def test_a_request_that_waits_for_a_processor_does_not_hang(is_busy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one that waits for as long, and for something else, does."""
    monkeypatch.setattr(runs, "LONGEST", 0.2)
    monkeypatch.setattr(runs, "LOOK", 0.05, raising=False)
    waits = {"1": 0.0}
    monkeypatch.setattr(runs, "waits", lambda: {"1": time.monotonic()} if is_busy else waits, raising=False)
    run = Run()
    with suppress(Hangs), watched(run, "GET /"):
        threading.Event().wait(0.6)
    assert bool(run.hangs) is not is_busy


BUSY = """
import os, sys, time
from contextlib import suppress
from multiprocessing import Barrier, Process
from pipeline.staging import runs

def spin():
    os.nice(5)
    spinning.wait()
    while True:
        pass

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
spinning = Barrier(4)
others = [Process(target=spin, daemon=True) for _ in range(3)]
for one in others:
    one.start()
os.nice(10)
spinning.wait()
runs.LONGEST, runs.LOOK, run, began = 0.6, 0.2, runs.Run(), time.monotonic()
with suppress(runs.Hangs), runs.watched(run, "GET /"):
    while time.process_time() < float(sys.argv[1]):
        pass
print(time.monotonic() - began, run.hangs)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.3, 60])
def test_a_busy_machine_makes_no_finding_and_takes_none_away__S12(seconds: float, tmp_path: Path) -> None:
    """Three others have the one processor, and it has a tenth of it."""
    (tmp_path / "busy.py").write_text(BUSY)
    command = [sys.executable, str(tmp_path / "busy.py"), str(seconds)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout.split()
    assert float(said[0]) > 0.6, "it has waited for less than runs.LONGEST, and shows nothing"
    assert bool(said[1:]) is (seconds > 1)


@pytest.mark.parametrize("seconds", [30.0, 0.01])
def test_the_timer_of_the_caller_runs_on_while_a_request_is_watched(seconds: float) -> None:
    """pytest-timeout has the same one: a test that had proved a site, and hung then, was never ended."""
    struck: list[int] = []
    handler = signal.signal(signal.SIGALRM, lambda number, frame: struck.append(number))
    limit, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with watched(Run(), "GET /"):
            time.sleep(0.05)
        left, _ = signal.getitimer(signal.ITIMER_REAL)
        assert struck == [signal.SIGALRM] if seconds < 1 else 20 < left < seconds
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, limit)


def test_a_thread_of_the_site_that_sleeps_in_a_loop_leaves_the_others_their_turn() -> None:
    thread = threading.Thread(target=lambda: [sleep(60) for _ in range(20)])
    began = time.monotonic()
    thread.start()
    thread.join()
    assert 0.02 <= time.monotonic() - began < 10


def test_a_module_may_set_variables_while_it_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Zope's tests do; a request may be the first to import it. What a view sets is for all requests."""
    (tmp_path / "sets_a_variable.py").write_text("import os\nos.environ['PROVE_IMPORTED'] = 'yes'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("PROVE_IMPORTED", "PROVE_VIEW"):
        monkeypatch.delenv(name, raising=False)
    refused: list[tuple[str, str]] = []
    with Effects(lambda event, name: refused.append((event, name)), lambda: False).refused():
        importlib.import_module("sets_a_variable")
        monkeypatch.setenv("PROVE_VIEW", "yes")
    assert refused == [("os.putenv", "PROVE_VIEW")]
