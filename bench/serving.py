"""The applications that the servers serve: each counts, for other processes to read, how often it ran."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import block_site, contenders, database
from bench.budgets import PYRAMID

APPS: dict[str, Callable[[Any], Any]] = {
    "bare WSGI": contenders.bare,
    "pipeline": contenders.ours,
    "Pyramid": contenders.pyramid,
    "pipeline, ZODB": database.ours,
    PYRAMID: database.pyramid,
    "blocks": block_site.app,
}


class SharedCount(ctypes.Structure):
    """Counts in a file. Like an attribute of Python's, ``ran += 1`` is one step for all threads: nothing in it
    gives up the interpreter."""

    _fields_ = [("ran", ctypes.c_uint64)]


def make(name: str, counts: str) -> Any:
    """The app of that name; it counts in a file of the directory ``counts``, one for each process."""
    with Path(counts, str(os.getpid())).open("wb+") as file:
        file.truncate(ctypes.sizeof(SharedCount))
        return APPS[name](SharedCount.from_buffer(mmap.mmap(file.fileno(), 0)))


def ran(counts: Path) -> int:
    """How often an app ran, in all processes of its server."""
    return sum(SharedCount.from_buffer_copy(path.read_bytes()).ran for path in counts.iterdir())
