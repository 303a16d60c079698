"""The two sides of a rehearsal, each in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from pathlib import Path
from time import monotonic
from typing import IO, Any, TypeAlias

from pipeline.loading.command_line import split_name
from pipeline.rehearsing.stage import Answer, Measured, Stage
from pipeline.staging.asked import Asked

MODULE = "pipeline.rehearsing.stage"
GRACE = 2.0
"""Seconds that a process has to end by itself."""


class SideFailed(Exception):
    """A side does not load, or has ended."""


class Process:
    """A side in a process of its own.

    ini     its ini
    words   variables of the ini. They may be secret, so they are not in the command line of the process (S25)
    said    the file for what it prints
    python  its Python
    cwd     its working directory
    ends    the time of ``time.monotonic`` at which the budget is over
    """

    def __init__(
        self,
        ini: str,
        words: Sequence[str],
        ends: float,
        said: IO[bytes],
        *,
        python: str = sys.executable,
        cwd: str | None = None,
        allow: Sequence[str] = (),
        live: bool = False,
    ) -> None:
        path, name = split_name(ini)
        self.ini = f"{path}#{name}" if name else str(path)
        self.ends = ends
        self.files: list[str] = []
        self.directory = ""
        self.said = said
        self.pipe, other = Pipe()
        with other:
            self.process = subprocess.Popen(
                [python, "-W", "ignore", "-m", MODULE, str(other.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=cwd,
                pass_fds=[other.fileno()],
            )
        self._write({"ini": self.ini, "words": list(words), "allow": list(allow), "live": live})

    def _write(self, value: Any) -> None:
        with suppress(BrokenPipeError):  # it has ended, as the next answer tells
            self.pipe.send_bytes(json.dumps(value).encode())

    def _next(self) -> Any:
        """Return the next answer. TimeoutError if the budget is over."""
        if not self.pipe.poll(max(0.0, self.ends - monotonic())):
            raise TimeoutError("the budget is over")
        try:
            found = json.loads(self.pipe.recv_bytes())
        except (EOFError, ConnectionResetError):
            raise SideFailed(f"its process has ended: {self.last_words()}") from None
        if "error" in found:
            raise SideFailed(found["error"])
        return found

    def last_words(self) -> str:
        """Return the last line that the process has written to its log, or its exit status."""
        status = self.process.wait(GRACE)
        self.said.seek(0)
        lines = self.said.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), f"exit status {status}")

    def load(self) -> None:
        """Wait until the site is loaded."""
        self.directory = self._next()["directory"]
        self.files = self._next()["files"]

    def _call(self, name: str, request: Asked, **options: Any) -> Any:
        asked = {"method": request.method, "url": request.url, "headers": request.headers, "user": request.user}
        self._write({"call": name, "asked": asked, "options": options})
        return self._next()

    def answer(self, request: Asked, expected: int) -> Answer:
        """Run a request once. TimeoutError if the budget is over before it is answered."""
        answer = Answer(**self._call("answer", request, expected=expected))
        return answer._replace(headers=[(name, value) for name, value in answer.headers])

    def measure(self, request: Asked, seconds: float) -> Measured:
        """Run a request several times, and follow its links."""
        return Measured(**self._call("measure", request, seconds=seconds))

    def close(self) -> None:
        """End the process, and remove its copies."""
        self.pipe.close()
        for end in (self.process.terminate, self.process.kill):
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(GRACE if monotonic() < self.ends else GRACE / 4)
                break
            end()
        self.process.wait()
        if self.directory:
            shutil.rmtree(self.directory, ignore_errors=True)


Side: TypeAlias = Process | Stage
"""A side that ``rehearse`` asks: in a process of its own, or in this one."""


@contextmanager
def started(ini: str, words: Sequence[str], ends: float, **options: Any) -> Iterator[Process]:
    """Start a side, and close it at the end."""
    with tempfile.TemporaryFile() as said:
        side = Process(ini, words, ends, said, **options)
        try:
            yield side
        finally:
            side.close()


def directory_of(old: str, new: str) -> str:
    """Return the working directory for the old code: the old ini lies in it where the new ini lies in this one.

    The code of a site may stand in the working directory, and the old side must not find the new code.
    """
    path = split_name(old)[0]
    relative = os.path.relpath(split_name(new)[0])
    if not relative.startswith("..") and str(path).endswith(f"/{relative}"):
        return str(path)[: -len(relative) - 1] or "/"
    return str(Path(path).parent)
