"""The commands of docs/howto/serving.rst, run as they are printed: from Debian's Python to a new site, served.

What they install is there already: the environment of this directory's tests stands in its place.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import signal
import subprocess
import textwrap
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from pipeline.tools.new import make
from ports import unused_port
from servers.base import Missing, children, find, wait_until
from servers.deployed import TOP, Deployed

pytestmark = [pytest.mark.servers, pytest.mark.timeout(120)]

SERVING = (TOP / "docs/howto/serving.rst").read_text()


def block(text: str, words: str) -> str:
    """Return the first block of commands behind a few words."""
    assert words in text
    pattern = r"^\.\. code-block:: sh\n(?: +:.*\n)*((?:\n| +.*\n)+)"
    found = re.search(pattern, text.partition(words)[2], re.MULTILINE)
    assert found is not None
    return textwrap.dedent(found[1]).strip()


HOMES = {"root": "", "with a home": "--create-home", "without a home": "--home-dir /nonexistent"}
"""Options of ``useradd`` for the user who follows the page; none for root."""


@pytest.fixture(params=HOMES)
def user(request: pytest.FixtureRequest) -> Iterator[str]:
    """A new system user, or root, or the user that runs the tests. Nothing but the site is there for it."""
    if os.getuid() != 0:
        if request.param != "with a home":
            pytest.skip("only root can add users")
        yield getpass.getuser()
    elif request.param == "root":
        yield "root"
    else:
        name = f"pipeline-{os.getpid()}"
        options = [*HOMES[request.param].split(), "--user-group", "--shell", "/bin/sh"]
        subprocess.run([find("useradd", "apt install passwd"), "--system", *options, name], check=True)
        try:
            yield name
        finally:
            remove = [find("userdel", "apt install passwd"), "--remove", name]
            # It refuses while a process of the user is there, and one that was killed is for a moment.
            wait_until(lambda: not subprocess.run(remove, capture_output=True).returncode, 60, "no process is left")


@pytest.mark.parametrize(
    ("title", "count", "programs"),
    [
        ("Behind nginx, in five commands", 5, ("nginx",)),
        ("With Apache, in four commands", 4, ("apache2",)),
    ],
)
def test_first_steps(
    title: str,
    count: int,
    programs: tuple[str, ...],
    user: str,
    python: Path,
    public_dir: Path,
    missing: Callable[[str, str], NoReturn],
) -> None:
    for program in programs:
        try:
            find(program, f"apt install {program}")
        except Missing as error:
            missing(*error.args)
    here = public_dir / f"{programs[0]}-{user}"
    assert len(list(make(here, "notes"))) > 10
    ini = here / "production.ini"
    ini.write_text(ini.read_text().replace("served_hosts = www.example.com", "served_hosts = localhost"))
    (here / "venv").symlink_to(python.parent.parent)
    as_who: list[str] = []
    if os.getuid() == 0 and user != "root":
        subprocess.run(["chown", "-R", f"{user}:{user}", here], check=True)
        options = [f"--reuid={user}", f"--regid={user}", "--clear-groups", "--reset-env", "--"]
        as_who = [find("setpriv", "apt install util-linux"), *options]
    port = unused_port()
    lines = block(SERVING, title).splitlines()
    assert len(lines) == count
    left = [line for line in lines if not re.search(r"\bapt install|-m venv|pip install", line)]
    assert len(left) == count - 2
    if user == "root" and programs == ("apache2",):
        left.insert(1, block(SERVING, "As root, before the start"))
    running = []
    try:
        for line in left:
            line = line.replace("/srv/site", str(here)).removesuffix(" &")
            if " deploy " in line:
                line += f" --port {port}"
            started = subprocess.Popen(
                [*as_who, "/bin/sh", "-c", f"PATH=$PATH:/usr/sbin; {line}"],
                env=Deployed.environ(),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            if " deploy " in line or "chown" in line:
                assert started.wait(60) == 0
            else:
                running.append(started)
        assert b"<h1" in page(f"http://localhost:{port}/")
    finally:
        for process in running:
            for pid in (process.pid, *children(process.pid)):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.wait()
        shutil.rmtree(here, ignore_errors=True)


def page(url: str) -> bytes:
    """Read a page, when it is there."""
    end = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return bytes(answer.read())
        except OSError as error:
            if time.monotonic() > end or getattr(error, "code", 0) == 500:
                raise
            time.sleep(0.2)
