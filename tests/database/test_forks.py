"""The helper with which an element leaves alone what its parent process has open (R12)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ZODB.fsIndex import fsIndex

from pipeline.database import forks

PROLOGUE = """
import os, sys
from pipeline.database import forks
log = []
def say(*words):
    print(*words, flush=True)
"""


WITHOUT_FORK = """
import os, sys
for name in ("register_at_fork", "fork"):
    if hasattr(os, name):
        delattr(os, name)
"""


def run(script: str, before: str = "") -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", before + PROLOGUE + script], capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


@needs_fork
def test_r12_each_child_forgets_once_and_each_process_closes_its_own() -> None:
    lines = run("""
me = os.getpid()
def who():
    return "parent" if os.getpid() == me else "child"
forks.own(forget=lambda: say(who(), "forgets"), close=lambda: say(who(), "closes"))
forks.check()
if os.fork() == 0:
    forks.check()
    forks.check()
    assert forks.parent() == me
    sys.exit()
os.wait()
forks.check()
assert forks.parent() is None
""")
    assert lines == ["child forgets", "child closes", "parent closes"]


@needs_fork
@pytest.mark.parametrize("how", ["forks.check()", "pass"])
def test_r12_a_fork_that_tells_nobody_is_noticed(how: str) -> None:
    """As uWSGI forks: without handlers. It is noticed at the next take, or else at the end."""
    lines = run(f"""
import ctypes
forks.own(forget=lambda: say("forgets"), close=lambda: say("closes"))
if ctypes.CDLL(None).fork() == 0:
    {how}
    sys.exit()
os.wait()
os._exit(0)
""")
    assert lines == ["forgets", "closes"]


@needs_fork
def test_r12_what_is_kept_is_never_closed() -> None:
    lines = run("""
class Socket:
    def __del__(self):
        say("closed")
class Owner:
    def __init__(self):
        self.socket = Socket()
        forks.own(forget=self.forget)
    def forget(self):
        forks.keep(self.socket)
        self.socket = None
owner = Owner()
if os.fork() == 0:
    sys.exit()
os.wait()
os._exit(0)
""")
    assert lines == []


@needs_fork
def test_r12_what_forgets_may_check() -> None:
    lines = run("""
forks.own(forget=lambda: (forks.check(), say("forgets")))
if os.fork() == 0:
    forks.check()
    os._exit(0)
os.wait()
os._exit(0)
""")
    assert lines == ["forgets"]


@needs_fork
def test_r6_one_that_fails_to_forget_does_not_stop_the_others() -> None:
    lines = run("""
import logging
logging.basicConfig(stream=sys.stdout, format="%(message)s")
def fails():
    raise OSError("no")
forks.own(forget=fails)
forks.own(forget=lambda: say("forgets"))
if os.fork() == 0:
    os._exit(0)
os.wait()
os._exit(0)
""")
    assert lines[0].endswith("failed after a fork") and lines[-1] == "forgets"


def test_it_is_imported_where_there_is_no_fork_and_no_package_transaction() -> None:
    """As on Windows; and elements of other packages need not install more for it."""
    lines = run(
        """
forks.own(forget=lambda: say("forgets"), close=lambda: say("closes"))
forks.check()
""",
        before=f"{WITHOUT_FORK}for name in ('transaction', 'ZODB'): sys.modules[name] = None",
    )
    assert lines == ["closes"]


@pytest.mark.parametrize("name", ["zodb", "sql", "coalesce"])
def test_every_element_is_imported_where_there_is_no_fork(name: str) -> None:
    run(f"import pipeline.elements.{name}", before=WITHOUT_FORK)


def test_a_check_costs_next_to_nothing(benchmark_of: Callable[[Callable[[], object]], float]) -> None:
    """A page out of a ZODB takes some 20 microseconds."""
    assert benchmark_of(forks.check) < 2e-6


@pytest.fixture
def benchmark_of() -> Callable[[Callable[[], object]], float]:
    import timeit

    return lambda function: min(timeit.repeat(function, number=10_000, repeat=5)) / 10_000


WORKER = """
from pipeline.database import forks

def work(path):
    import transaction, ZODB
    database = ZODB.DB(path)
    forks.own(forget=lambda: None, close=database.close)
    with database.transaction() as connection:
        connection.root()["a"] = 1

if __name__ == "__main__":
    import multiprocessing, sys
    context = multiprocessing.get_context(sys.argv[1])
    worker = context.Process(target=work, args=(sys.argv[2],))
    worker.start()
    worker.join()
    sys.exit(worker.exitcode)
"""


@needs_fork
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_process_of_multiprocessing_closes_its_own(tmp_path: Path, method: str) -> None:
    """Such a process ends without ``atexit``. A worker of Granian left a Data.fs without its index."""
    (tmp_path / "worker.py").write_text(WORKER)
    data = tmp_path / "Data.fs"
    subprocess.run([sys.executable, tmp_path / "worker.py", method, data], check=True, timeout=60)
    assert fsIndex.load(f"{data}.index")["pos"] == data.stat().st_size
