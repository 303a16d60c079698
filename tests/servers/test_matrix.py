"""Every target of ``pipeline deploy``, started from what it wrote and asked the same questions.

The table of docs/deployments.rst is what is expected: a cell is good or a limit of that server in words, and a
limit that changes fails the test. ``PIPELINE_MATRIX=write make test-servers`` writes the table anew. Two rows are
bodies that are malformed or cut, which must not be stored (R11).
"""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import NoReturn, Self

import pytest

from servers.base import Missing, children, find, wait_until
from servers.deployed import TOP, USER, Deployed, as_user, deployed
from servers.probes import GOOD, PROBES, Load, Target, at_a_prefix, slowly

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]

TARGETS = {
    "gunicorn": "gunicorn",
    "granian": "granian",
    "nginx": "nginx",
    "nginx --behind granian": "granian",
    "nginx --behind uwsgi": "uwsgi",
    "apache": "mod_wsgi.so",
    "apache --embedded": "mod_wsgi.so",
    "mod_python": "mod_python.so",
    "uwsgi": "uwsgi",
    "lighttpd": "lighttpd",
    "mod_wsgi-express": "mod_wsgi-express",
}
"""What the command line says, and what it needs."""
DOCUMENT = TOP / "docs" / "deployments.rst"
CLIENTS = 16
"""While a server is reloaded or stopped."""
MAY_FAIL = "some requests may fail"
MAY_CUT = "may cut what a client reads slowly"
UNSURE = {MAY_FAIL: (GOOD,), MAY_CUT: (GOOD, MAY_FAIL)}
"""Cells that are no less true if the server does better this time."""
BEGIN, END = ".. The table is written by the test.", ".. The table ends here."
WRITE = os.environ.get("PIPELINE_MATRIX") == "write"


def start(
    target: str, python: Path, inis: Path, public_dir: Path, *options: str, started: bool = True
) -> AbstractContextManager[Deployed]:
    """Deploy a target on the database of the module, in two processes, and start it."""
    name = re.sub(r"\W+", "-", " ".join((target, *options)))
    uri = f"zodb_uri={(inis / 'uri').read_text()}"
    words = (target, "--workers", "2", *options, uri)
    return deployed(python, inis / "matrix.ini", public_dir / name, *words, started=started)


def need(target: str, python: Path, missing: Callable[[str, str], NoReturn]) -> None:
    """Skip, or fail, for want of a server."""
    what = TARGETS[target]
    try:
        if what.endswith(".so"):
            if not Path("/usr/lib/apache2/modules", what).exists():
                missing(f"Apache's {what}", "apt install apache2 libapache2-mod-wsgi-py3 libapache2-mod-python")
            find("apache2", "apt install apache2")
        elif not python.with_name(what).exists():
            find(what, f"apt install {what}, or pip install {what}")
        if target.startswith("nginx"):
            find("nginx", "apt install nginx")
    except Missing as error:
        missing(*error.args)


class Clients:
    """Visitors during a reload or a stop: some send GET, some POST, and some read long answers slowly."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.loads = [Load(target, CLIENTS // 2, method) for method in ("GET", "POST")]
        self.long: dict[str, str] = {}

    def __enter__(self) -> Self:
        for load in self.loads:
            load.__enter__()
        wait_until(lambda: len(self.answers) >= 100, 20, "the load is answered")
        self.readers = slowly(self.target, self.long)
        time.sleep(0.4)
        return self

    def __exit__(self, *error: object) -> None:
        for load in self.loads:
            load.__exit__()
        self.wait()

    @property
    def answers(self) -> list[str]:
        return [answer for load in self.loads for answer in load.answers]

    def wait(self) -> None:
        """Wait until the long answers are read."""
        for reader in self.readers:
            reader.join()

    def cell(self, *expected: str) -> str:
        """What went wrong. ``expected`` are the ways to fail that do not count."""
        failed = [answer for answer in self.answers if not answer.isdecimal() and answer not in expected]
        print(f"{len(self.answers)} requests, {len(failed)} not good: {Counter(failed)}, {self.long}")
        whole = {path: cell == GOOD for path, cell in self.long.items()}
        if not (whole["/@@nap"] and whole["/@@blocks"]):
            return "cuts answers"
        if not all(whole.values()):
            return MAY_CUT
        return MAY_FAIL if failed else GOOD


def reload_under_load(server: Deployed, target: Target) -> str:
    """Whether a request fails while it is reloaded, with long answers under way; and whether it is reloaded."""
    with Clients(target) as clients:
        old = {pid for load in clients.loads for pid in load.processes()}
        said = server.run("reload")
        assert "does not load" not in said, said

        def reloaded() -> bool:
            """Whether the last second's answers are all of new processes."""
            since = [len(load.answers) for load in clients.loads]
            time.sleep(1)
            both = zip(clients.loads, since, strict=True)
            last = {pid for load, first in both for pid in load.processes(first)}
            return bool(last) and last.isdisjoint(old)

        try:
            wait_until(reloaded, 20, "new processes answer")
        except TimeoutError:
            return "does not reload"
    return clients.cell()


def stop_under_load(server: Deployed, target: Target) -> str:
    """Whether what was sent is answered when it is stopped, and arrives whole; and whether it stops.

    A connection that is refused does not count: nothing listens then.
    """
    with Clients(target) as clients:
        server.run("stop")
        clients.wait()
        ended = server.ended(60)  # requests have 30 seconds to finish, and Apache waits for ten more
    return clients.cell("ConnectionRefusedError") if ended else "does not stop"


UNDER_LOAD = {
    "clients that leave": lambda server, target: PROBES["clients that leave"](target),
    "a reload under load": reload_under_load,
    "a stop under load": stop_under_load,
}
"""What depends on the moment: a cell that differs is asked once more, of a server that was just started."""
_results: dict[str, dict[str, str]] = {}


@pytest.mark.parametrize("target", TARGETS)
def test_matrix(
    target: str, python: Path, inis: Path, public_dir: Path, missing: Callable[[str, str], NoReturn]
) -> None:
    need(target, python, missing)
    found: dict[str, str] = {}
    looks = {name: lambda server, where, probe=probe: probe(where) for name, probe in PROBES.items()} | UNDER_LOAD
    with ThreadPoolExecutor(1) as pool, start(target, python, inis, public_dir) as server:
        elsewhere = pool.submit(below_a_prefix, target, python, inis, public_dir)
        for name, look in looks.items():
            if name in UNDER_LOAD:
                elsewhere.result()  # it does not disturb these
            found[name] = timed(name, look, server)
        assert "Traceback" not in server.printed
    found["links and redirects at a prefix, the port kept"] = elsewhere.result()
    _results[target] = found
    if not WRITE:
        expected = table()[target]
        for name in UNDER_LOAD:
            if found[name] not in (expected[name], *UNSURE.get(expected[name], ())):
                with start(target, python, inis, public_dir) as server:
                    found[name] = timed(f"{name}, again", looks[name], server)
        changed = [
            f"{name}: {cell!r}, not {expected[name]!r}"
            for name, cell in found.items()
            if cell not in (expected[name], *UNSURE.get(expected[name], ()))
        ]
        assert not changed, "\n".join(changed)


def below_a_prefix(target: str, python: Path, inis: Path, public_dir: Path) -> str:
    with start(target, python, inis, public_dir, "--prefix", "/app") as server:
        return at_a_prefix(Target(server.port, "/app"))


def timed(name: str, look: Callable[[Deployed, Target], str], server: Deployed) -> str:
    began = time.monotonic()
    cell = look(server, Target(server.port))
    print(f"{time.monotonic() - began:5.2f} s  {name}: {cell}")
    return cell


def test_apache_that_root_starts_and_that_a_client_does_not_let_go(
    python: Path, inis: Path, public_dir: Path, missing: Callable[[str, str], NoReturn]
) -> None:
    """S18: other users serve. R9: a request that does not end is given up after 30 seconds; here after 1."""
    need("apache", python, missing)
    with start("apache", python, inis, public_dir, started=False) as server:
        configuration = server.directory / "apache.conf"
        text = configuration.read_text()
        assert "\nGracefulShutdownTimeout 30\n" in text
        configuration.write_text(text.replace("GracefulShutdownTimeout 30", "GracefulShutdownTimeout 1"))
        server.as_user = list
        server.start()
        if os.getuid() == 0:
            family = children(server.running[0].pid)
            assert {Path(f"/proc/{pid}").stat().st_uid for pid in family} == {pwd.getpwnam(USER).pw_uid}
        target = Target(server.port)
        with closing(target.connect()) as client:
            client.sendall(target.head("GET", "/@@large"))
            assert client.recv(8) == b"HTTP/1.1"
            server.run("stop")
            assert not server.ended(0.5) and server.ended(40)  # then Apache waits for ten more


def table() -> dict[str, dict[str, str]]:
    """Return what the document says, by target and probe."""
    text = DOCUMENT.read_text().partition(BEGIN)[2].partition(END)[0]
    rows = [re.split(r"\s*\n\s+- ", row.strip()) for row in re.split(r"\n   \* - ", text)[1:]]
    heads = [head.strip("`") for head in rows[0][1:]]
    return {target: {row[0]: row[number + 1] for row in rows[1:]} for number, target in enumerate(heads)}


def test_the_table_is_that_of_this_run(python: Path) -> None:
    """Every target is in it, with the versions."""
    if not WRITE or list(_results) != list(TARGETS):
        assert list(table()) == list(TARGETS)
        return
    lines = [BEGIN, "", f"Run with {versions(python)}.", "", ".. list-table::", "   :header-rows: 1", ""]
    rows = [["asked", *(f"``{target}``" for target in _results)]]
    for name in next(iter(_results.values())):
        rows.append([name, *(found[name] for found in _results.values())])
    for row in rows:
        lines += [f"   {'* -' if number == 0 else '  -'} {cell}" for number, cell in enumerate(row)]
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    DOCUMENT.write_text(before + "\n".join(lines) + "\n\n" + END + rest.partition(END)[2])


def versions(python: Path) -> str:
    """Return the versions of the servers, as they say."""
    commands = {
        "gunicorn": [python.with_name("gunicorn"), "--version"],
        "Granian": [python.with_name("granian"), "--version"],
        "uWSGI": [python.with_name("uwsgi"), "--version"],
        "nginx": ["nginx", "-v"],
        "Apache": ["apache2", "-v"],
        "lighttpd": ["lighttpd", "-v"],
        "Python": [python, "--version"],
    }
    found = []
    for name, command in commands.items():
        done = subprocess.run(
            as_user([str(word) for word in command]),
            capture_output=True,
            text=True,
            env={"PATH": "/usr/sbin:/usr/bin"},
        )
        number = re.search(r"\d+\.\d+(\.\d+)*", done.stdout + done.stderr)
        found.append(f"{name} {number[0] if number else '?'}")
    return ", ".join(found)
