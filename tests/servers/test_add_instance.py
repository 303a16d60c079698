"""Two instances on two addresses behind nginx, and one more: the commands of docs/howto/instances.rst."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from faults.judge import Writers, stored_in
from faults.length import length
from faults.load import Client
from faults.serving import TESTS, write_ini
from ports import unused_pair, unused_port
from servers.base import Missing, children, find, wait_until
from servers.deployed import TOP
from servers.postgres import Postgres

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]

KILLS = length(short=3, full=30)
EACH, PROXY, MORE = (
    re.findall(r"^    (\S.*)$", block, re.MULTILINE)
    for block in re.findall(
        r"\.\. code-block:: sh\n\n((?:    .*\n)+)", (TOP / "docs" / "howto" / "instances.rst").read_text()
    )
)


class Machines:
    """One machine that has all the addresses, and a directory in the place of /srv/site for each."""

    def __init__(self, directory: Path, uri: str) -> None:
        self.directory = directory
        self.uri = uri
        self.port, self.proxy_port = unused_port(), unused_pair()
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def run(self, line: str, where: str) -> None:
        """Run a line of the page on a machine; one that serves goes on."""
        site = self.directory / where
        if not site.exists():
            site.mkdir()
            believed = {"trusted": "127.0.0.1", "accept": "X-Forwarded", "allowed_hosts": "*"}
            write_ini(site / "site.ini", self.uri, vhost=believed)
        line = re.sub(r"10\.0\.0\.11 ", f"127.0.0.{where[-1]} ", line)
        line = re.sub(r"10\.0\.0\.1(\d)", r"127.0.0.\1", line)
        line = line.replace("8080", str(self.port)).replace("/srv/site", str(site))
        if line.startswith("pipeline deploy nginx"):
            line += f" --port {self.proxy_port}"
        started = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {line}"],
            env=os.environ
            | {"PYTHONPATH": str(TESTS), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin"},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        if line.startswith("pipeline") or line.endswith("reload"):
            assert started.wait(60) == 0
        else:
            self.running[where] = started

    def start(self, where: str) -> None:
        """Start an instance that was killed."""
        self.run(EACH[1], where)

    def kill(self, where: str) -> None:
        process = self.running.pop(where)
        for pid in (process.pid, *children(process.pid)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.wait()


@pytest.fixture
def machines(
    public_dir: Path, postgres: Postgres, new_name: Callable[[], str], missing: Callable[[str, str], NoReturn]
) -> Iterator[Machines]:
    try:
        find("nginx", "apt install nginx")
    except Missing as error:
        missing(*error.args)
    postgres.create(name := new_name())
    directory = public_dir / name
    directory.mkdir()
    machines = Machines(directory, postgres.uri(name))
    try:
        for where in ("machine1", "machine2"):
            for line in EACH:
                machines.run(line, where)
        for line in PROXY:
            machines.run(line, "proxy")
        wait_until(lambda: answers(machines.proxy_port), 60, "the site answers")
        yield machines
    finally:
        for where in list(machines.running):
            machines.kill(where)
        shutil.rmtree(directory, ignore_errors=True)


def listens(where: str, port: int) -> bool:
    try:
        socket.create_connection((f"127.0.0.{where[-1]}", port), timeout=1).close()
    except OSError:
        return False
    return True


def answers(port: int) -> bool:
    client = Client(port)
    try:
        return client.ask("GET", "/").status == 200
    finally:
        client.close()


def test_either_can_be_killed_and_one_added(machines: Machines) -> None:
    writers = Writers("/@@add", gateway=True)
    waits = []
    with writers.on(machines.proxy_port, 6, pause=0.03) as load:
        load.wait_for_success(time.monotonic())
        for number in range(KILLS):
            where = f"machine{number % 2 + 1}"
            time.sleep(0.5)
            machines.kill(where)
            killed = time.monotonic()
            waits.append(load.wait_for_success(killed) - killed)
            time.sleep(0.5)
            machines.start(where)
            wait_until(lambda where=where: listens(where, machines.port), 60, f"{where} is back")  # type: ignore[misc]
            time.sleep(1.5)  # nginx asks it again
        for line in EACH:
            machines.run(line, "machine3")
        wait_until(lambda: listens("machine3", machines.port), 60, "machine3 is up")
        for line in MORE:
            machines.run(line, "proxy")
        time.sleep(2)
        machines.kill("machine1")
        machines.kill("machine2")
        killed = time.monotonic()
        waits.append(load.wait_for_success(killed) - killed)
    stored, value = stored_in(machines.uri)
    counts = writers.ledger.counts()
    print(f"{KILLS} kills, {counts}, the next success within {max(waits):.2f} s")
    assert writers.ledger.judge(stored) == []
    assert value == sum(stored.values())
    assert max(waits) < 3
    assert counts["acknowledged"] > KILLS * 10
    assert counts["unknown"] <= 6 * (KILLS + 2)  # what was under way
