"""docs/howto/operate.rst, followed on a real server: each command is run, and prints what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from docs.following import Command, blocks, commands
from ports import unused_port
from processes import TOP, Process

pytestmark = [pytest.mark.servers, pytest.mark.timeout(180)]

PAGE = (TOP / "docs" / "howto" / "operate.rst").read_text("utf-8")
VIEWS = """

@view(name="wait")
def wait(context: object, request: object) -> str:
    import time
    from pathlib import Path
    while (Path(__file__).parents[1] / "waiting").exists():
        time.sleep(0.05)
    return "over"


@view(name="fails")
def fails(context: object, request: object) -> str:
    raise ZeroDivisionError
"""
NEW = """

@view(name="new")
def new(context: object, request: object) -> str:
    return "new"
"""


def pattern(text: str) -> re.Pattern[str]:
    """What an output of the page stands for: numbers differ, and three dots are any text."""
    parts = re.split(r"(\.\.\.|\d+(?:\.\d+)?)", text.strip())
    made = "".join(
        ".*" if part == "..." else r"\d+(?:\.\d+)?" if part[:1].isdigit() else re.escape(part) for part in parts
    )
    return re.compile(re.sub(r"(?:\\ )+", r"\\s+", made), re.DOTALL)


class OnCall:
    """A person who follows the page for a new site on gunicorn."""

    def __init__(self, directory: Path, start: Callable[..., Process]) -> None:
        python = [sys.executable, "-m", "pipeline"]
        subprocess.run([*python, "new", "notes"], cwd=directory, check=True)
        self.directory = directory / "notes"
        self.port = unused_port()
        for file, old, new in (
            ("notes/views.py", "", VIEWS),
            ("site.ini", "use = egg:wsgi-pipeline#log\n", "format = json\nfile = %(here)s/log/access.json\n"),
            ("production.ini", "get watch = watch\n", "slow = 1\n"),
        ):
            path = self.directory / file
            text = path.read_text()
            assert text.count(old) == 1 or not old, file
            path.write_text(text.replace(old, old + new) if old else text + new)
        (self.directory / "log").mkdir()
        command = [*python, "deploy", "gunicorn", "production.ini", "server", "--port", str(self.port)]
        subprocess.run(command, cwd=self.directory, check=True)
        self.start = start
        self.programs = Path(sys.executable).parent
        self.serve()

    def serve(self) -> None:
        [gunicorn] = part("Start")
        command = f"exec {self.programs}/{gunicorn.text}"
        self.server = self.start(["sh", "-c", command], self.port, cwd=self.directory)

    def get(self, path: str) -> int:
        asked = Request(f"http://127.0.0.1:{self.port}{path}", headers={"Host": "www.example.com"})
        try:
            with urlopen(asked, timeout=20) as answer:
                return int(answer.status)
        except HTTPError as error:
            return error.code
        except OSError:  # nothing answers now
            return 0

    def begin(self, path: str) -> None:
        thread = threading.Thread(target=self.get, args=(path,), daemon=True)
        thread.start()

    def error(self) -> str:
        return (self.directory / "log/error.log").read_text()

    def run(self, command: Command) -> None:
        """Run a command of the page, and compare what it prints."""
        text = command.text.replace("8080", str(self.port))
        if ids := re.findall(r"error ([0-9a-f]{12})", self.error()):
            text = text.replace("0123456789ab", ids[-1])
        environ = os.environ | {"PATH": f"{self.programs}:{os.environ['PATH']}", "NO_COLOR": "1"}
        shell = ["sh", "-c", text]
        ran = subprocess.run(shell, cwd=self.directory, env=environ, capture_output=True, text=True, timeout=60)
        shown = f"line {command.line}: {text}\n{ran.stdout}{ran.stderr}"
        assert ran.returncode == 0, shown
        expected = command.output.replace("/srv/notes", str(self.directory))
        if expected.strip():
            assert pattern(expected).fullmatch(ran.stdout.replace("\r", "").strip()), shown


def part(title: str) -> list[Command]:
    """The commands of a part of the page."""
    text = re.split(r"^.+\n-{3,}\n", PAGE, flags=re.MULTILINE)[
        re.findall(r"^(.+)\n-{3,}\n", PAGE, re.MULTILINE).index(title) + 1
    ]
    found = [command for block in blocks(text) for command in commands(block)]
    assert found
    return found


def test_every_command_of_the_page(public_dir: Path, start: Callable[..., Process]) -> None:
    place = public_dir / "on-call"
    place.mkdir()
    on_call = OnCall(place, start)
    on_call.get("/")

    def follow(title: str) -> None:
        for command in part(title):
            on_call.run(command)

    follow("Is it alive?")

    waiting = on_call.directory / "waiting"
    waiting.touch()
    on_call.begin("/@@wait?token=hunter2")
    time.sleep(2)
    look, count, kill = part("What runs, and what hangs?")
    on_call.run(look)
    on_call.run(count)
    assert "hunter2" not in on_call.error()
    [pid] = pids = {file.stem for file in (on_call.directory / "var" / "watch").glob("*.sock")}
    on_call.run(kill._replace(text=kill.text.replace("4711", pid)))
    waiting.unlink()
    until(lambda: on_call.get("/") == 200)
    # a new process knows its number of threads when it has seen a request
    on_call.run(look._replace(output="process 1: ready, 0... running\n..."))
    assert {file.stem for file in (on_call.directory / "var" / "watch").glob("*.sock")}.isdisjoint(pids)

    follow("What is slow?")
    assert on_call.get("/@@fails") == 500
    follow("Why was it a 500?")

    follow("Update")
    views = on_call.directory / "notes" / "views.py"
    assert on_call.get("/@@new") == 404
    views.write_text(views.read_text() + NEW)
    on_call.run(part("Update")[-1])
    until(lambda: on_call.get("/@@new") == 200)
    follow("Roll back")
    until(lambda: on_call.get("/@@new") == 404)

    follow("Restore")
    on_call.serve()
    assert on_call.get("/") == 200
    assert (on_call.directory / "broken" / "Data.fs").exists()
    follow("Stop")
    assert on_call.server.process.wait(40) == 0


def test_every_part_of_the_page_is_followed() -> None:
    titles = re.findall(r"^(.+)\n-{3,}\n", PAGE, re.MULTILINE)
    text = Path(__file__).read_text("utf-8")
    assert [title for title in titles if f'"{title}"' not in text] == []
    assert "\n::\n" not in PAGE and PAGE.count(".. code-block::") == PAGE.count(".. code-block:: console")


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.2)
