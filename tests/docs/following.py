"""Follow a page as a reader does: write the files that it shows, run its commands, compare what they print.

A code block with a ``:caption:`` is a file of that name. ``:caption: more of FILE`` adds to the file. In a block of
``console`` each line that begins with ``$`` is a command, and the lines below are what it prints. The commands of a
block with ``:class: server`` are servers. They begin with those lines, and run until the next such block or the end
of the page. A block of ``diff`` replaces lines of a file; an empty line separates two changes. ``cd DIR`` and
``. FILE`` count for all that follows, as in the shell of the reader.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(
    r"^\.\. code-block:: (?P<language>\S+)\n(?P<options>(?:    :.*\n)*)(?P<code>(?:\n|    .*\n)+)", re.MULTILINE
)


STARTED = "changed: the site starts again"
"""The line of ``pipeline serve`` when it starts again after a change."""


class Block(NamedTuple):
    """A code block of a page."""

    line: int
    language: str
    options: dict[str, str]
    code: str


def blocks(text: str) -> Iterator[Block]:
    """Yield the code blocks of a page, in their order."""
    for found in _BLOCK.finditer(text):
        options = dict(re.findall(r":([\w-]+):[ ]*(.*)", found["options"]))
        line = text.count("\n", 0, found.start("code")) + 2
        yield Block(line, found["language"], options, textwrap.dedent(found["code"]).strip("\n") + "\n")


class Command(NamedTuple):
    """A command of a page, and what it prints."""

    line: int
    text: str
    output: str


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a block of ``console``. A backslash at the end of a line continues it."""
    for part in re.split(r"^(?=\$ )", block.code, flags=re.MULTILINE):
        if part.strip():
            found = re.match(r"\$ ((?:.*\\\n)*.*)\n?", part)
            if found is None:
                raise AssertionError(f"line {block.line}: {part!r} is not the output of a command")
            line = block.line + block.code.count("\n", 0, block.code.index(part))
            yield Command(line, found[1], part[found.end() :])


def alike(text: str) -> str:
    """Return an output without what differs at each run: dates, durations, ids, blanks at the ends of lines."""
    text = re.sub(r"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}", "DATE", text)
    text = re.sub(r"\b\d+\.\d+( m)?s\b", "DURATION", text)
    text = re.sub(r'(" "[^"\n]*") \d+\.\d+$', r"\1 DURATION", text, flags=re.MULTILINE)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


class Difference(AssertionError):
    """The reader sees something else than the page says."""

    def __init__(self, line: int, what: str, expected: str, seen: str) -> None:
        shown = f"line {line}: {what}\n--- the page says\n{expected}\n--- the reader sees\n{seen}"
        super().__init__(shown)


class Reader:
    """A new user in an empty directory, with a port that may differ from that of the page.

    replaced  text of the commands that is different here, such as the name of the package by its wheel
    as_user   makes a command one that is run by another user than root
    """

    def __init__(
        self, directory: Path, replaced: Mapping[str, str], as_user: Callable[[list[str]], list[str]] = list
    ) -> None:
        self.as_user = as_user
        self.directory = directory
        self.sourced: list[Path] = []
        self.replaced = dict(replaced)
        self.servers: list[subprocess.Popen[bytes]] = []
        self.log = directory.parent / "server.log"
        self.log.touch()
        self.environ = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
        self.environ |= {"HOME": str(directory.parent), "COLUMNS": "80", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
        self.environ["PATH"] = "/usr/local/bin:/usr/bin:/bin:/usr/sbin"
        # curl shows a meter if it is not used on a terminal.
        (directory.parent / ".curlrc").write_text("silent\n")

    def here(self, text: str) -> str:
        """Return a text of the page as it is on this machine."""
        for written, real in self.replaced.items():
            text = text.replace(written, real)
        return text

    def there(self, text: str) -> str:
        """Return a text of this machine as the page has it."""
        for written, real in reversed(self.replaced.items()):
            text = text.replace(real, written)
        return text

    def follow(self, text: str) -> None:
        """Do all that the page says. Raise Difference at the first output that is different."""
        for block in blocks(text):
            if caption := block.options.get("caption"):
                with self.noticed():
                    self.write(caption, block)
            elif block.language == "console" and block.options.get("class") == "server":
                self.serve(list(commands(block)))
            elif block.language == "console":
                for command in commands(block):
                    self.run(command)

    def write(self, caption: str, block: Block) -> None:
        """Write a file, add to it, or change it."""
        path = self.directory / caption.removeprefix("more of ")
        before = path.read_text("utf-8") if path.exists() else ""
        if block.language == "diff":
            text = before
            for change in block.code.split("\n\n"):
                old = "".join(f"{line[1:]}\n" for line in change.splitlines() if line[0] == "-")
                new = "".join(f"{line[1:]}\n" for line in change.splitlines() if line[0] == "+")
                if text.count(old) != 1:
                    raise AssertionError(f"line {block.line}: {caption} has {text.count(old)} times:\n{old}")
                text = text.replace(old, new)
        else:
            text = (before + "\n\n" if caption.startswith("more of ") else "") + block.code
        path.write_text(text, encoding="utf-8")

    def shell(self, text: str) -> list[str]:
        """Return what runs a command of the page in the shell of the reader."""
        lines = [f". {shlex.quote(str(file))}" for file in self.sourced]
        return self.as_user(["sh", "-c", "\n".join([*lines, self.here(text)])])

    def run(self, command: Command) -> None:
        """Run a command, and compare what it prints."""
        with self.noticed():
            ran = subprocess.run(
                self.shell(command.text),
                cwd=self.directory,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=300,
                check=False,
            )
        self.compare(command, ran.stdout.decode())
        if found := re.fullmatch(r"(cd|\.) (\S+)", command.text):
            place = self.directory / found[2]
            if found[1] == "cd":
                self.directory = place
            else:
                self.sourced.append(place)

    def compare(self, command: Command, printed: str) -> None:
        """Raise Difference if the output is not that of the page."""
        expected, seen = alike(command.output), alike(self.there(printed))
        if seen != expected:
            written = [self.directory / name for name in re.findall(r"> *([\w./-]+)", command.text)]
            for file in filter(Path.is_file, written):  # such as the report of a proof that has found something
                seen += f"\n--- {file.name} has\n{file.read_text()[-3000:]}"
            seen += f"\n--- the server says\n{self.said()[-3000:]}"
            raise Difference(command.line, command.text, expected, seen)

    def serve(self, commands: list[Command]) -> None:
        """Start servers, and wait until they have printed what the page says and answer. They go on with logs."""
        self.stop()
        for command in commands:
            with self.log.open("ab") as log:
                server = subprocess.Popen(
                    self.shell(f"exec {command.text}"),
                    cwd=self.directory,
                    env=self.environ,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self.servers.append(server)
            end = time.monotonic() + 60
            while not (seen := alike(self.said())).startswith(alike(command.output)):
                if time.monotonic() > end or server.poll() is not None:
                    raise Difference(command.line, command.text, alike(command.output), seen)
                time.sleep(0.1)
        while not self.answers():
            if time.monotonic() >= end:
                raise AssertionError(f"line {commands[0].line}: nothing answers\n{self.said()}")
            time.sleep(0.1)

    def answers(self) -> bool:
        """Return whether a server answers at the address of the page, be it that the site does not load."""
        try:
            with urllib.request.urlopen(self.here("http://127.0.0.1:8080/"), timeout=10):
                return True
        except urllib.error.HTTPError as error:
            error.close()
            return error.code < 502  # a proxy has nobody to ask yet
        except OSError:
            return False

    def said(self) -> str:
        """Return what the server has printed."""
        return self.there(self.log.read_text("utf-8")) if self.servers else ""

    @contextmanager
    def noticed(self) -> Iterator[None]:
        """Wait until the server has noticed a change of its files, as a reader does without a thought.

        A template that is new is not noticed: it is read when a view first uses it.
        """
        before, starts = self.files(), self.said().count(STARTED)
        yield
        if not self.servers or self.files() == before:
            return
        changed, end = time.monotonic(), time.monotonic() + 30
        while self.said().count(STARTED) == starts and time.monotonic() < changed + 6:
            time.sleep(0.1)
            if changed + 3 < time.monotonic() < changed + 3.2:
                # The server may have begun to watch a file only after this change. A reader is not that fast.
                for path in self.files().items() - before.items():
                    os.utime(path[0])
        while not self.answers():
            if time.monotonic() >= end:
                raise AssertionError(f"the server does not come back after a change:\n{self.said()}")
            time.sleep(0.1)

    def files(self) -> dict[Path, int]:
        """Return the files that the server watches, with the times of their last changes."""
        patterns = ("wiki/models.py", "wiki/views.py", "wiki/templates/*", "development.ini", "site.ini")
        watched = [path for pattern in patterns for path in self.directory.glob(pattern)]
        return {path: path.stat().st_mtime_ns for path in watched}

    def stop(self) -> None:
        """Stop the servers, as Ctrl-C does."""
        for server in reversed(self.servers):
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGINT)
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()
        self.servers = []
        self.log.write_bytes(b"")
