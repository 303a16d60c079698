"""A site starts beside a PID file that is left over, such as after a power loss, and names a foreign process."""

from __future__ import annotations

import os
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from servers.deployed import Deployed
from servers.test_matrix import need, start

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]


def started_again(deployed: Deployed, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command to start, which ends."""
    return subprocess.run(
        deployed.as_user(["/bin/sh", "-c", command]),
        cwd=deployed.directory,
        env=deployed.environ(),
        capture_output=True,
        text=True,
        timeout=30,
    )


@pytest.mark.parametrize("server", ["gunicorn", "granian"])
@pytest.mark.parametrize("left", ["foreign", "nonsense"])
def test_a_pid_file_that_is_left_over(
    server: str, left: str, python: Path, inis: Path, public_dir: Path, missing: Callable[[str, str], NoReturn]
) -> None:
    need(server, python, missing)
    with start(server, python, inis, public_dir, "--threads", "2", started=False) as deployed:
        file = deployed.directory / "run" / f"{server}.pid"
        file.parent.mkdir(exist_ok=True)
        file.write_text({"foreign": str(os.getpid()), "nonsense": "x"}[left])
        file.chmod(0o666)
        deployed.start()
        with urllib.request.urlopen(f"http://127.0.0.1:{deployed.port}/", timeout=10) as answer:
            assert answer.status == 200
        written = int(file.read_text())
        assert written in {process.pid for process in deployed.running}
        second = started_again(deployed, deployed.commands["start"][0])
        assert second.returncode != 0, "one that runs is not replaced"
        assert int(file.read_text()) == written


@pytest.mark.parametrize("target", ["nginx", "nginx --behind granian"])
def test_a_second_start_without_the_pid_file_takes_nothing_away(
    target: str, python: Path, inis: Path, public_dir: Path, missing: Callable[[str, str], NoReturn]
) -> None:
    need(target, python, missing)
    with start(target, python, inis, public_dir, "--threads", "3") as deployed:
        server = "granian" if "granian" in target else "gunicorn"
        file = deployed.directory / "run" / f"{server}.pid"
        number = file.read_text()
        file.unlink()
        line = next(line for line in deployed.commands["start"] if "nginx.conf" not in line)
        second = started_again(deployed, line)
        assert second.returncode != 0 and "Stop it first" in second.stderr
        assert not file.exists(), "it names no process that has ended"
        for _ in range(5):
            with urllib.request.urlopen(f"http://127.0.0.1:{deployed.port}/", timeout=10) as answer:
                assert answer.status == 200
        file.write_text(number)  # to stop it
