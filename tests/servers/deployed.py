"""What ``pipeline deploy`` wrote, started by the commands that it printed."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ports import unused_pair, unused_port
from servers.base import children, find

TOP = Path(__file__).resolve().parents[2]
USER = "www-data"


def as_user(command: list[str]) -> list[str]:
    """Return the command as it is run by somebody who is not root."""
    if os.getuid() != 0:
        return command
    user = pwd.getpwnam(USER)
    ids = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return [find("setpriv", "apt install util-linux"), *ids, "--", *command]


def own(path: Path) -> None:
    """Give a directory, with all that is in it, to who runs the commands."""
    if os.getuid() == 0:
        subprocess.run(["chown", "-R", f"{USER}:{USER}", path], check=True)


class Deployed:
    """A site in a directory of its own, deployed for one target."""

    def __init__(self, python: Path, ini: Path, directory: Path, target: str, *options: str) -> None:
        self.port = unused_pair() if "--upstream" in options else unused_port()
        self.directory = directory
        directory.mkdir(mode=0o755, parents=True)
        own(directory)
        pipeline = str(python.with_name("pipeline"))
        # An environment of the tests' own is not for others to read: then they run it themselves.
        self.as_user = as_user if str(python) != sys.executable else list
        name, *more = target.split()
        command = [pipeline, "deploy", name, str(ini), str(directory), "--port", str(self.port), *more, *options]
        done = subprocess.run(
            self.as_user(command if "--prefix" in options else [*command, "--check"]),
            cwd=directory,
            env=self.environ(),
            capture_output=True,
            text=True,
            timeout=60,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        self.printed = done.stdout
        self.commands: dict[str, list[str]] = {}
        title = ""
        for line in re.findall(r"^  (\w*) +(.*)$", done.stdout, re.MULTILINE):
            title = line[0] or title
            self.commands.setdefault(title, []).append(line[1])
        self.running: list[subprocess.Popen[bytes]] = []

    @staticmethod
    def environ() -> dict[str, str]:
        keep = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "PYTHONPATH")}
        return {**keep, "PYTHONDONTWRITEBYTECODE": "1"}

    def start(self) -> None:
        """Run the commands that start it; return when it is ready."""
        for command in self.commands["start"]:
            with (self.directory / "output.log").open("ab") as output:
                started = subprocess.Popen(
                    self.as_user(["/bin/sh", "-c", f"exec {command}"]),
                    cwd=self.directory,
                    env=self.environ(),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self.running.append(started)
            # It is not left as a zombie, for whose end the commands that stop would wait.
            threading.Thread(target=started.wait, daemon=True).start()
        self.wait_until_ready()

    def wait_until_ready(self, seconds: float = 40) -> None:
        """Run the command that checks it, until it says that the site is ready."""
        end = time.monotonic() + seconds
        while subprocess.run(self.commands["check"][-1], shell=True, capture_output=True).returncode:
            if time.monotonic() > end or any(process.poll() is not None for process in self.running):
                raise RuntimeError(f"{self.printed}\n{self.said()}")
            time.sleep(0.1)

    def run(self, title: str) -> str:
        """Run the commands that stop or reload it; return what they said."""
        said = ""
        for command in self.commands[title]:
            done = subprocess.run(
                self.as_user(["/bin/sh", "-c", command]),
                cwd=self.directory,
                env=self.environ(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
            )
            said += done.stdout + done.stderr
        return said

    def ended(self, seconds: float) -> bool:
        """Whether all that was started has ended in time."""
        end = time.monotonic() + seconds
        return all(_ends(process, end - time.monotonic()) for process in self.running)

    def said(self) -> str:
        logs = [
            self.directory / "output.log",
            *self.directory.glob("log/*"),
            *self.directory.glob("run/express/*log"),
        ]
        return "\n".join(path.read_text(errors="replace") for path in logs if path.exists())

    def kill(self) -> None:
        """End what is left."""
        for process in self.running:
            family = [process.pid, *children(process.pid)] if process.poll() is None else []
            for pid in family:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.wait()
        self.running.clear()


class Stopped(Deployed):
    """An instance that is stopped as an operator stops it, and started again."""

    def stop(self) -> None:
        self.run("stop")
        assert self.ended(60)
        self.running.clear()


def _ends(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(max(0.01, seconds))
    except subprocess.TimeoutExpired:
        return False
    return True


@contextmanager
def deployed(
    python: Path, ini: Path, directory: Path, target: str, *options: str, started: bool = True
) -> Iterator[Deployed]:
    """A site that runs while the block does; not ``started``, the block starts it."""
    site = Deployed(python, ini, directory, target, *options)
    try:
        if started:
            site.start()
        yield site
    finally:
        site.kill()
        shutil.rmtree(directory, ignore_errors=True)
