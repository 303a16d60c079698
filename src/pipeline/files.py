"""Open files as bodies: sent in blocks, and in ranges where the request asks for one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, BinaryIO

BLOCK = 64 * 1024
"""Bytes per block: large enough that the cost per block vanishes."""


class FileBody:
    """The bytes of an open binary file, from where it stands. Whoever opened it closes it."""

    def __init__(self, file: BinaryIO | Any, size: int | None = None) -> None:
        self.file = file
        self.left = size

    def __iter__(self) -> Iterator[bytes]:
        while self.left is None or self.left > 0:
            block = self.file.read(BLOCK if self.left is None else min(BLOCK, self.left))
            if not block:
                return
            if self.left is not None:
                self.left -= len(block)
            yield block

    def length(self) -> int | None:
        """How many bytes are left, or None if only reading can tell."""
        try:
            return os.fstat(self.file.fileno()).st_size - self.file.tell()
        except (AttributeError, OSError, ValueError):
            pass
        try:
            here = self.file.tell()
            end = self.file.seek(0, os.SEEK_END)
            self.file.seek(here)
            return end - here
        except (AttributeError, OSError, ValueError):
            return None

    def app_iter_range(self, start: int, stop: int | None) -> FileBody:
        """The part from ``start`` up to but not including ``stop``; WebOb asks for it."""
        self.file.seek(start, os.SEEK_CUR)
        return FileBody(self.file, None if stop is None else stop - start)
