"""An accident of a socket is not the state of a process: real ones that hang, begin, and lose their sockets."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.running.instance import processes, state_of, verdict

PROGRAM = """
import sys, time
from pipeline.running.process import Process
Process(sys.argv[1], "", 0, 0)
print("begun", flush=True)
time.sleep(60)
"""


@contextmanager
def process(directory: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PROGRAM, str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as one:
        try:
            assert one.stdout is not None and one.stdout.readline() == "begun\n"
            yield one
        finally:
            one.kill()


def stop(pid: int) -> None:
    """Stop a process, and wait until each of its threads has stopped."""
    os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + 10
    while {task.read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").glob("*/stat")} != {
        "T"
    }:
        assert time.monotonic() < end
        time.sleep(0.01)


def words(directory: Path) -> dict[int, str]:
    return {one["pid"]: state_of(one).word for one in processes(str(directory))}


def test_a_process_that_hangs_is_said_to_hang_however_often_it_is_asked(tmp_path: Path) -> None:
    """The queue of its socket is full after 17 questions."""
    with process(tmp_path) as one, process(tmp_path) as other:
        stop(one.pid)
        for _ in range(22):
            assert words(tmp_path) == {one.pid: "hangs", other.pid: "ready"}
        assert verdict("/alive", map(state_of, processes(str(tmp_path))), False)[0]
        os.kill(one.pid, signal.SIGCONT)


def test_a_process_that_has_ended_is_forgotten(tmp_path: Path) -> None:
    with process(tmp_path) as one:
        assert words(tmp_path) == {one.pid: "ready"}
    assert words(tmp_path) == {}
    assert list(tmp_path.iterdir()) == []


def test_the_socket_of_a_process_that_begins_is_left_alone(tmp_path: Path) -> None:
    """It is bound, and nobody listens yet."""
    file = tmp_path / f"{os.getpid()}.sock"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(file))
        assert processes(str(tmp_path)) == []
        assert file.exists()


def test_other_sockets_stand_beside_them(tmp_path: Path) -> None:
    """Such as the one of ``listen``."""
    with socket.socket(socket.AF_UNIX) as beside, process(tmp_path) as one:
        beside.bind(str(tmp_path / "probes.sock"))
        beside.listen()
        assert words(tmp_path) == {one.pid: "ready"}


def test_a_socket_that_was_removed_comes_back(tmp_path: Path) -> None:
    with process(tmp_path) as one:
        (tmp_path / f"{one.pid}.sock").unlink()
        end = time.monotonic() + 5
        while words(tmp_path) != {one.pid: "ready"}:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert [file.name for file in tmp_path.iterdir()] == [f"{one.pid}.sock"]
