"""PID files that are left over, such as after a power loss, and second starts: neither stops a site that runs."""

from __future__ import annotations

import os
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from servers.deployed import Deployed, own
from servers.test_matrix import need, start

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]

FILES = {
    "gunicorn": ["gunicorn"],
    "granian": ["granian"],
    "nginx": ["gunicorn", "nginx"],
    "nginx --behind granian": ["granian", "nginx"],
    "nginx --behind uwsgi": ["uwsgi", "nginx"],
    "apache": ["apache"],
    "uwsgi": ["uwsgi"],
    "lighttpd": ["gunicorn", "lighttpd"],
    "mod_wsgi-express": ["express/httpd"],
}
"""PID files of each target, without their ending. Each other target of Apache starts by the same script."""


def started_again(deployed: Deployed) -> list[subprocess.CompletedProcess[str]]:
    """Run each command that starts a part of the site. None of them may stay."""
    return [
        subprocess.run(
            deployed.as_user(["/bin/sh", "-c", f"exec {command}"]),
            cwd=deployed.directory,
            env=deployed.environ(),
            capture_output=True,
            text=True,
            timeout=30,
        )
        for command in deployed.commands["start"]
    ]


def answers(deployed: Deployed) -> bool:
    """Return whether each of a few requests is answered."""
    for _ in range(5):
        with urllib.request.urlopen(f"http://127.0.0.1:{deployed.port}/", timeout=10) as answer:
            if answer.status != 200:
                return False
    return True


@pytest.mark.parametrize("target", FILES)
def test_a_second_start_and_left_pid_files(
    target: str, python: Path, inis: Path, public_dir: Path, missing: Callable[[str, str], NoReturn]
) -> None:
    """It starts beside the PID of a foreign process; a second start takes neither the socket nor the files."""
    need(target, python, missing)
    with start(target, python, inis, public_dir, "--threads", "2", started=False) as deployed:
        files = [deployed.directory / "run" / f"{name}.pid" for name in FILES[target]]
        with subprocess.Popen(deployed.as_user(["sleep", "60"])) as foreign:
            for file in files:
                file.parent.mkdir(exist_ok=True)
                file.write_text(f"{foreign.pid}\n" if file == files[0] else "nonsense")
            own(deployed.directory)
            deployed.start()
            foreign.kill()
        assert answers(deployed)
        numbers = [file.read_text() for file in files]
        assert {os.getpgid(int(number)) for number in numbers} <= {one.pid for one in deployed.running}
        for is_there in (True, False):
            if not is_there:
                for file in files:
                    file.unlink()
            for second in started_again(deployed):
                assert second.returncode != 0 or "already running" in second.stdout, f"it is not replaced: {second}"
            assert answers(deployed)
            left_files = [file.read_text() for file in files if file.exists()]
            assert left_files == (numbers if is_there else []), "they name no process that has ended"
        for file, number in zip(files, numbers, strict=True):
            file.write_text(number)  # to stop it
        deployed.run("stop")
        assert deployed.ended(30)
