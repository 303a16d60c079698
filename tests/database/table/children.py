"""Children of this process, which say one thing to their parent. Each has a time-out."""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import time
import warnings
from collections.abc import Callable

from database.table import axes as a

Say = Callable[[], str]


class Child:
    """A child, and the pipe through which it says what happened."""

    def __init__(self, pid: int, pipe: int) -> None:
        self.pid = pid
        self.pipe = pipe

    def wait(self, seconds: float) -> str | None:
        """Return what the child has said, when it has ended. Return None if it had to be killed."""
        end = time.monotonic() + seconds
        said = b""
        while select.select([self.pipe], [], [], max(0, end - time.monotonic()))[0]:
            block = os.read(self.pipe, 10_000)
            said += block
            if not block:
                break
        os.close(self.pipe)
        while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                return None
            time.sleep(0.001)
        return said.decode()


def fork(say: Say) -> Child | None:
    """Fork a child that only speaks. Return it."""
    child = fork_on(say)
    if child is None:
        os._exit(0)
    return child


def fork_on(say: Say) -> Child | None:
    """Fork a child that speaks and goes on. Return the child, or None in the child itself."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the threads of pytest-xdist
        pid = os.fork()
    if pid:
        os.close(writer)
        return Child(pid, reader)
    try:
        os.close(reader)
        os.write(writer, say().encode())
        os.close(writer)
    except BaseException:
        os._exit(1)
    return None


def start_process(say: Say) -> Child:
    """Start a child of multiprocessing."""
    reader, writer = os.pipe()

    def speak() -> None:
        os.close(reader)
        os.write(writer, say().encode())
        os.close(writer)

    process = multiprocessing.get_context("fork").Process(target=speak)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    os.close(writer)
    return Child(int(process.pid or 0), reader)


STARTS: dict[str, Callable[[Say], Child | None]] = {
    a.FORK: fork,
    a.IDLE_FORK: fork,
    a.GOING_ON: fork_on,
    a.PROCESS: start_process,
}
