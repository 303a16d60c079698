"""What tests of every kind share: ports, processes, and saying what is missing.

Where ``PIPELINE_CI`` is 1, everything that the tests need is meant to be there, and what is
missing fails a test instead of skipping it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from processes import Process, unused_port

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
