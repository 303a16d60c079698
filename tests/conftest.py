"""What tests of every kind share: ports, processes, and saying what is missing.

Where ``PIPELINE_CI`` is 1, everything that the tests need is meant to be there, and what is
missing fails a test instead of skipping it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

TOP = Path(__file__).resolve().parent.parent
NOTHING_MISSING = os.environ.get("PIPELINE_CI") == "1"


def _missing(what: str, remedy: str) -> NoReturn:
    """Skip the test for want of `what`, saying how to get it; fail where nothing may be missing."""
    reason = f"{what} is missing: {remedy}"
    if NOTHING_MISSING:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("slow") and not NOTHING_MISSING:
        pytest.skip("installs from the package index for a minute or more: make test-servers runs it")


def unused_port() -> int:
    """A port of 127.0.0.1 on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class Process:
    """A server in a process of its own. `output` is the file with what it said."""

    def __init__(
        self,
        command: list[str | Path],
        output: Path,
        *,
        cwd: Path = TOP,
        env: dict[str, str] | None = None,
    ) -> None:
        self.command = command
        self.output = output
        with output.open("ab") as log:
            # Its own process group, so that stopping it stops what it started.
            self.process = subprocess.Popen(
                command,
                cwd=cwd,
                env=os.environ | {"PYTHONUNBUFFERED": "1"} | (env or {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def said(self) -> str:
        """Everything that the process has written so far."""
        return self.output.read_text(errors="replace")

    def wait_for_port(self, port: int, seconds: float = 30) -> None:
        """Return when somebody listens on `port`; fail, with the output, if the process ends first."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        state = "still runs" if self.process.poll() is None else f"ended with {self.process.returncode}"
        command = " ".join(map(str, self.command))
        pytest.fail(
            f"nobody listens on port {port}; {command} {state}, and said:\n{self.said()}", pytrace=False
        )

    def stop(self, seconds: float = 10) -> int:
        """Ask the process to end, insist after `seconds`, and return its exit status."""
        if self.process.poll() is None:
            self._signal(signal.SIGTERM)
            try:
                return self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
        return self.process.wait()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended in the meantime
            os.killpg(self.process.pid, number)


@pytest.fixture(scope="session")
def missing() -> Callable[[str, str], NoReturn]:
    """``missing("mod_wsgi", "apt install ...")`` skips the test, or fails it under PIPELINE_CI."""
    return _missing


@pytest.fixture
def free_port() -> int:
    return unused_port()


@pytest.fixture(scope="session")
def program() -> Callable[[str, str], str]:
    """``program("apache2", "apt install apache2")``: its path, or the test is skipped."""

    def program(name: str, remedy: str) -> str:
        # /usr/sbin is on the PATH of root alone.
        path = shutil.which(name, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")
        return path or _missing(name, remedy)

    return program


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """``start(command, port, cwd=..., env=...)`` runs a server until the test ends, listening on `port`."""
    processes: list[Process] = []

    def start(command: list[str | Path], port: int, *, seconds: float = 30, **options: object) -> Process:
        process = Process(command, tmp_path / f"output-{len(processes)}.log", **options)  # type: ignore[arg-type]
        processes.append(process)
        process.wait_for_port(port, seconds)
        return process

    yield start
    for process in reversed(processes):
        process.stop()


@pytest.fixture(scope="session")
def public_dir() -> Iterator[Path]:
    """A temporary directory that other users may read, as those of pytest may not."""
    path = Path(tempfile.mkdtemp(prefix="wsgi-pipeline-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)
