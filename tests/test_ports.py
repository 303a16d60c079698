"""The ports that tests give to servers: no two processes are given the same, even if nobody listens there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ports import CLIENTS, claim, unused_pair, unused_port

pytestmark = pytest.mark.once
ASK = "from ports import *; print(*(unused_port() for _ in range(300)), flush=True); input()"
"""Ask for ports, keep them, and wait."""


def test_a_port_is_given_once() -> None:
    command = [sys.executable, "-c", ASK]
    options = {"cwd": Path(__file__).parent, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    asking = [subprocess.Popen(command, **options) for _ in range(3)]  # type: ignore[call-overload]
    given = [port for one in asking for port in map(int, one.stdout.readline().split())]
    own = [unused_port() for _ in range(300)]
    for one in asking:
        one.communicate("\n", timeout=60)
    assert len({*given, *own}) == len(given) + len(own) == 1200
    assert max(*given, *own) < CLIENTS


def test_a_pair_is_claimed_whole() -> None:
    first = unused_pair()
    assert not claim(first) and not claim(first + 1)
