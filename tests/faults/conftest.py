"""The length of the experiments, their figures, and the table of a run."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from faults.length import FULL
from pipeline.elements.zodb import close_all
from servers.base import Missing, find
from servers.fixtures import mariadb, new_name, postgres, servers_dir, toxiproxy, zeo

__all__ = ["mariadb", "new_name", "postgres", "servers_dir", "toxiproxy", "zeo"]

PACKAGES = (
    *("wsgi-pipeline", "ZODB", "ZEO", "RelStorage", "SQLAlchemy", "zope.sqlalchemy", "transaction"),
    *("psycopg2-binary", "mysql-connector-python", "waitress", "gunicorn"),
)

Row = tuple[str, str, str, str]
ROWS = pytest.StashKey[list[Row]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[ROWS] = []


class Figures:
    """Takes the figures of one test: ``figures("F1", "file", "12,345 increments, 0 lost")``."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.started = time.monotonic()

    def __call__(self, experiment: str, subject: str, text: str) -> None:
        seconds = f"{time.monotonic() - self.started:.0f} s"
        self.started = time.monotonic()
        self.rows.append((experiment, subject, text, seconds))
        print(f"{experiment} {subject}: {text}")


@pytest.fixture
def figures(pytestconfig: pytest.Config) -> Figures:
    return Figures(pytestconfig.stash[ROWS])


@pytest.fixture
def place(servers_dir: Path, new_name: Callable[[], str]) -> Iterator[Path]:
    """A directory of one test, on a short path that other users may enter."""
    path = servers_dir / f"at-{new_name()}"
    path.mkdir()
    yield path


@pytest.fixture
def in_process(place: Path) -> Iterator[None]:
    """For tests that load the site in this process: its databases are closed before their files go."""
    yield
    close_all()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The table, as docs/experiments.rst has it."""
    rows = config.stash[ROWS]
    if not rows:
        return
    write = terminalreporter.write_line
    write("")
    if not FULL:
        write("Fault experiments, short (make faults runs them at full length):")
        for row in sorted(rows):
            write("  {} {}: {} ({})".format(*row))
        return
    write(machine())
    write("")
    write(".. list-table::")
    write("   :header-rows: 1")
    write("   :widths: 8 22 60 10")
    write("")
    for row in [("", "on", "figures", "took"), *sorted(rows)]:
        for cell, text in enumerate(row):
            write(f"   {'*' if cell == 0 else ' '} - {text}")


def machine() -> str:
    """The facts of this machine, in one paragraph."""
    versions = []
    for package in PACKAGES:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            pass
    for program, *arguments in (("postgres", "--version"), ("mariadbd", "--version"), ("nginx", "-v")):
        try:
            done = subprocess.run([find(program, ""), *arguments], capture_output=True, text=True)
        except Missing:
            continue
        versions.append(" ".join((done.stdout + done.stderr).split()))
    try:
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        system = platform.system()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"Recorded on {datetime.now(UTC):%d %B %Y} with {platform.python_implementation()} "
        f"{platform.python_version()} on {system}, Linux {platform.release()}, "
        f"{len(os.sched_getaffinity(0))} CPUs, {memory:.0f} GiB of memory. {', '.join(versions)}."
    )
