"""Servers in processes of their own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent


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

    def seconds(self) -> float:
        """Return the processor time that the process has taken so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

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
