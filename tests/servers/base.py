"""A private server: found, given a directory and a user who may run it, started, killed, stopped."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ports import unused_port

PLACES = ("/usr/sbin", "/sbin", "/usr/lib/postgresql/*/bin", "/usr/local/sbin")
"""Where servers are that are on the PATH of root alone, or of nobody."""


class Missing(Exception):
    """What is missing, and how to get it: the two arguments."""


def find(name: str, remedy: str) -> str:
    """The path of a program; Missing if there is none."""
    path = [os.environ.get("PATH", os.defpath)]
    for place in PLACES:
        path += map(str, sorted(Path("/").glob(place[1:]), reverse=True))
    found = shutil.which(name, path=":".join(path))
    if found is None:
        raise Missing(name, remedy)
    return found


def find_behind_nginx(server: str, python: Path) -> None:
    """Find nginx, and a server beside that Python or elsewhere. Missing if one of them is not there."""
    find("nginx", "apt install nginx")
    if not python.with_name(server).exists():
        find(server, f"pip install {server}")


def wait_until(true: Callable[[], Any], seconds: float, what: str, interval: float = 0.02) -> Any:
    """The first true value of ``true()``; TimeoutError says ``what`` was waited for."""
    end = time.monotonic() + seconds
    while not (value := true()):
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not in {seconds} s")
        time.sleep(interval)
    return value


def connects(port: int) -> bool:
    """Whether somebody accepts connections on ``port``."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def children(pid: int) -> list[int]:
    """The processes that ``pid`` started and that still run, and theirs."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in map(int, task.read_text().split()):
                found += [child, *children(child)]
        except OSError:  # it has ended in the meantime
            pass
    return found


class Server:
    """A process that listens on a port of 127.0.0.1."""

    user = ""
    """Who runs it where the tests are run by root: the server refuses root."""

    def __init__(self, directory: Path, port: int | None = None) -> None:
        self.directory = directory
        self.directory.mkdir(parents=True, exist_ok=True)
        self.port = port or unused_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.output = directory / "output.log"
        if self.user and os.getuid() == 0:
            try:
                pwd.getpwnam(self.user)
            except KeyError:
                raise Missing(f"the user {self.user}", "it comes with the server's package") from None
            shutil.chown(directory, self.user)

    def command(self) -> Sequence[str | Path]:
        """What is run, in the foreground."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {}

    def is_up(self) -> bool:
        """Whether it answers; asked until it does."""
        return connects(self.port)

    def as_user(self, command: Sequence[str | Path]) -> list[str]:
        """``command``, run by ``user`` if we are root."""
        words = [str(word) for word in command]
        if self.user and os.getuid() == 0:
            user = pwd.getpwnam(self.user)
            ids = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
            return [find("setpriv", "apt install util-linux"), *ids, "--", *words]
        return words

    def run(self, command: Sequence[str | Path]) -> str:
        """Run a program of the server to its end; its output."""
        done = subprocess.run(
            self.as_user(command),
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]} ended with {done.returncode}, and said:\n{done.stdout}")
        return done.stdout

    def launch(self) -> None:
        """Start it, without waiting until it answers."""
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                self.as_user(self.command()),
                cwd=self.directory,
                env=os.environ | {"PYTHONUNBUFFERED": "1"} | self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def start(self, seconds: float = 60) -> None:
        """Start it, and return when it answers."""
        self.launch()
        try:
            wait_until(lambda: self.is_up() or not self.runs(), seconds, f"{type(self).__name__} is up")
        except TimeoutError as error:
            raise TimeoutError(f"{error}; it said:\n{self.said()}") from None
        if not self.runs():
            raise RuntimeError(f"{self.command()} ended, and said:\n{self.said()}")

    @property
    def pid(self) -> int:
        if self.process is None:
            raise RuntimeError(f"{type(self).__name__} was not started")
        return self.process.pid

    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def said(self) -> str:
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def kill(self) -> None:
        """Kill it, and all that it started, as a power cut would: no one is told."""
        if self.process is None:
            return
        victims = [self.process.pid, *children(self.process.pid)]
        # The first one first, so that it starts no other; it is our child, so its id is not given away.
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        for pid in victims[1:]:
            wait_until(lambda pid=pid: _ended(pid), 10, f"process {pid} ends")  # type: ignore[misc]

    def stop(self, seconds: float = 20, number: int = signal.SIGTERM) -> int:
        """Ask it to end, insist after ``seconds``; its exit status."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(number)
            try:
                return self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.process.wait()


def _ended(pid: int) -> bool:
    """Whether a process is gone, or a zombie that its new parent has not looked at yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True
