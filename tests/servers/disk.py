"""A disk of its own, which can be filled."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn


class Disk:
    """A disk that can be filled and emptied again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ballast = path / "ballast"

    def fill(self, leave: int = 0) -> None:
        """Fill it up to ``leave`` bytes, while others may write too."""
        with self.ballast.open("ab") as file:
            while (free := self.free() - leave) > 0:
                try:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, free)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def free(self) -> int:
        """Bytes that there is room for."""
        state = os.statvfs(self.path)
        return state.f_bavail * state.f_frsize

    def empty(self) -> None:
        self.ballast.unlink()


@contextmanager
def mounted(path: Path, size: int, missing: Callable[[str, str], NoReturn]) -> Iterator[Disk]:
    """A disk of so many MiB while the block runs."""
    path.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", str(path)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        missing("a disk of its own", f"run the tests as root, who may mount one ({done.stderr.strip()})")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", str(path)], check=True)
