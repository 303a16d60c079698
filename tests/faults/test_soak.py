"""Soak: a million requests leave nothing behind, neither memory nor files, threads or connections."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faults.conftest import Figures
from faults.length import length
from faults.serving import TESTS

pytestmark = pytest.mark.timeout(2400)

REQUESTS = length(short=20_000, full=1_000_000)
MIB = 2**20


@pytest.fixture
def memory_disk(place: Path) -> Iterator[Path]:
    """A directory in memory where there is one: a commit is to cost no turn of a disk."""
    shared = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(dir=shared if os.access(shared, os.W_OK) else place, prefix="soak-"))
    yield path
    shutil.rmtree(path)


def soak(place: Path, requests: int, *bugs: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "faults.soak", str(place), str(requests), *bugs],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def problems_of(found: dict[str, Any]) -> list[str]:
    first, last = found["first"], found["last"]
    grown = (last["memory"] - first["memory"]) / MIB
    problems = [f"memory grew by {grown:.1f} MiB"] if grown >= 5 else []
    for what in ("files", "threads", "connections", "transactions"):
        if last[what] != first[what]:
            problems.append(f"{what}: {first[what]} after the first tenth, {last[what]} at the end")
    return problems


def test_soak(figures: Figures, memory_disk: Path) -> None:
    found = soak(memory_disk, REQUESTS)
    first, last = found["first"], found["last"]
    kinds = sorted({outcome.partition(":")[0] for outcome in found["outcomes"]})
    figures(
        "soak",
        "file",
        f"{REQUESTS:,} requests ({', '.join(kinds)}) in {found['seconds']:.0f} s; after the first tenth "
        f"{(last['memory'] - first['memory']) / MIB:+.1f} MiB of {last['memory'] / MIB:.0f} MiB, "
        f"{last['files'] - first['files']:+d} of {last['files']} files, "
        f"{last['threads'] - first['threads']:+d} of {last['threads']} threads, "
        f"{last['connections'] - first['connections']:+d} of {last['connections']} connections, "
        f"{last['transactions']} transactions open",
    )
    assert problems_of(found) == []
    expected = {
        *("read: 200", "nothing: 200", "head: 200", "write: 200", "upload: 200", "conflict: 200"),
        *("missing: 404", "refused: 409", "failed: 500", "stream: 200", "disconnect: 200"),
        "broken stream: the stream breaks",
    }
    assert set(found["outcomes"]) == expected


def test_control(figures: Figures, memory_disk: Path) -> None:
    found = soak(memory_disk, 2_000, "log_forgets")
    problems = problems_of(found)
    figures("soak", "control: close forgotten", f"found: {'; '.join(problems)}")
    assert any(problem.startswith("connections") for problem in problems)
