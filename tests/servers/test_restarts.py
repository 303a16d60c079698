"""Restarts of what ``pipeline deploy systemd`` writes: they fail no request (R9).

The test holds the socket, as the .socket unit does, and runs the commands of the .service unit.
"""

from __future__ import annotations

import hashlib
import http.client
import re
import select
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest

from faults.length import length
from servers.base import find, wait_until
from servers.deployed import Deployed, as_user, own
from servers.probes import Threads

pytestmark = [pytest.mark.servers, pytest.mark.timeout(1200)]

RESTARTS = length(short=4, full=50)
ANSWERS = length(short=40, full=250)
"""Good answers after each restart, before the next one."""
CLIENTS = 16
BODY = bytes(range(256)) * 64
LARGE = bytes(range(256)) * 4096 * 20
ON_FILE_3 = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""
"""A program that passes an open socket on as systemd does. (Debian's sh redirects files up to the ninth only.)"""
ECHOED = f"{len(BODY)} {hashlib.sha256(BODY).hexdigest()}".encode()


class Service:
    """The .service unit, started on a socket that stays open."""

    def __init__(self, deployed: Deployed, python: Path) -> None:
        self.python = python
        unit = next(deployed.directory.glob("*.service")).read_text()
        self.directory = deployed.directory
        self.start_command = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)[1]  # type: ignore[index]
        self.reloads = re.findall(r"^ExecReload=(.*)$", unit, re.MULTILINE)
        self.port = deployed.port
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, listener: socket.socket | None) -> None:
        """Start the process as systemd does; by ``systemd-socket-activate`` if no socket is held here."""
        if listener is None:
            activate = find("systemd-socket-activate", "apt install systemd")
            command = [activate, "-l", f"127.0.0.1:{self.port}", *self.start_command.split()]
            descriptors: tuple[int, ...] = ()
        else:
            descriptors = (listener.fileno(),)
            command = [str(self.python), "-c", ON_FILE_3, *map(str, descriptors), *self.start_command.split()]
        with (self.directory / "output.log").open("ab") as output:
            self.process = subprocess.Popen(
                as_user(command),
                cwd=self.directory,
                env=Deployed.environ(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=descriptors,
            )

    @property
    def running(self) -> subprocess.Popen[bytes]:
        assert self.process is not None
        return self.process

    def reload(self) -> str:
        """Run ExecReload; systemd goes on to the second command only if the first one succeeds."""
        for command in self.reloads:
            words = command.replace("$MAINPID", str(self.running.pid)).split()
            done = subprocess.run(
                as_user(words),
                cwd=self.directory,
                env=Deployed.environ(),
                capture_output=True,
                text=True,
                timeout=60,
            )
            if done.returncode:
                return done.stderr
        return ""

    def stop(self) -> None:
        self.running.send_signal(signal.SIGTERM)
        assert self.running.wait(45) == 0, self.said()

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def said(self) -> str:
        return (self.directory / "output.log").read_text(errors="replace")


@pytest.fixture
def service(
    python: Path, inis: Path, public_dir: Path, missing: Callable[[str, str], NoReturn]
) -> Iterator[Service]:
    """What was deployed, with an ini of its own that a test may break."""
    own_inis = public_dir / "restarts-etc"
    shutil.copytree(inis, own_inis, ignore=shutil.ignore_patterns("blobs"))
    (own_inis / "large.bin").write_bytes(LARGE)
    own(own_inis)
    uri = (inis / "uri").read_text()
    directory = public_dir / "restarts"
    deployed = Deployed(python, own_inis / "matrix.ini", directory, "systemd", "--workers", "2", f"zodb_uri={uri}")
    service = Service(deployed, python)
    try:
        yield service
    finally:
        service.kill()
        print(service.said()[-6000:])
        shutil.rmtree(directory, ignore_errors=True)
        shutil.rmtree(own_inis, ignore_errors=True)


class Clients(Threads):
    """Send POSTs of 16 KiB; every second client keeps its connection."""

    def __init__(self, port: int) -> None:
        super().__init__(*(partial(self.post, number % 2 == 0) for number in range(CLIENTS)))
        self.port = port
        self.good = 0
        self.failed: list[str] = []
        self.lock = threading.Lock()

    def post(self, keep: bool) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            while not self.stopping.is_set():
                if connection.sock is not None and select.select([connection.sock], [], [], 0)[0]:
                    connection.close()  # the server has closed it, as every client notices before it sends
                try:
                    connection.request("POST", "/@@echo", BODY, {} if keep else {"Connection": "close"})
                    answer = connection.getresponse()
                    body = answer.read()
                    right = answer.status == 200 and body == ECHOED
                    problem = "" if right else f"{answer.status} {body[:80]!r}"
                except (OSError, http.client.HTTPException) as error:
                    problem = f"{type(error).__name__}: {error} ({'kept' if keep else 'new'})"
                    connection.close()
                if not keep:
                    connection.close()
                time.sleep(0.03)  # the processor is for the server, which starts anew
                with self.lock:
                    if problem:
                        self.failed.append(problem)
                    else:
                        self.good += 1
        finally:
            connection.close()

    def wait_for(self, answers: int) -> None:
        """Return when there are so many more good answers."""
        enough = self.good + answers
        wait_until(lambda: self.good >= enough, 60, f"{answers} more answers")


@contextmanager
def slow_download(port: int) -> Iterator[None]:
    """20 MB that are read for a second or two, and are whole."""
    digest = hashlib.sha256()
    begun = threading.Event()

    def read() -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            connection.request("GET", "/@@file")
            answer = connection.getresponse()
            begun.set()
            while block := answer.read(1_000_000):
                digest.update(block)
                time.sleep(0.07)

    reader = threading.Thread(target=read)
    reader.start()
    assert begun.wait(60)
    yield
    reader.join()
    assert digest.hexdigest() == hashlib.sha256(LARGE).hexdigest()


def wait_until_it_answers(port: int) -> None:
    """Return when both workers answer: gunicorn stops if a worker fails while it starts."""
    processes: set[bytes] = set()
    end = time.monotonic() + 60
    while len(processes) < 2:
        assert time.monotonic() < end
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            connection.request("GET", "/@@process")
            processes.add(connection.getresponse().read())


def test_reloads_fail_no_request(service: Service) -> None:
    """By systemd's own tool."""
    service.start(None)
    wait_until(lambda: connects(service.port), 20, "systemd-socket-activate listens")
    wait_until_it_answers(service.port)
    with Clients(service.port) as clients:
        for _ in range(RESTARTS):
            with slow_download(service.port):
                assert service.reload() == ""
            clients.wait_for(ANSWERS)
    print(f"{RESTARTS} reloads: {clients.good} good, {len(clients.failed)} failed: {clients.failed[:3]}")
    assert clients.failed == []
    assert clients.good >= RESTARTS * ANSWERS
    service.stop()


def test_stops_and_starts_fail_no_request(service: Service) -> None:
    with closing(socket.create_server(("127.0.0.1", service.port), backlog=4096)) as listener:
        service.start(listener)
        wait_until_it_answers(service.port)
        with Clients(service.port) as clients:
            for _ in range(RESTARTS):
                with slow_download(service.port):
                    service.stop()
                    service.start(listener)
                clients.wait_for(ANSWERS)
        print(f"{RESTARTS} stops: {clients.good} good, {len(clients.failed)} failed: {clients.failed[:3]}")
        assert clients.failed == []
        assert clients.good >= RESTARTS * ANSWERS
        service.stop()


BROKEN = [
    ("probe_views.py", "def (:\n", "probe_views.py, line 1: invalid syntax"),
    (
        "matrix.ini",
        "[composite:main]\nuse = egg:wsgi-pipeline#swich\n",
        "line 2: wsgi-pipeline has no 'swich' for such a section; did you mean 'switch'?",
    ),
    ("probe_views.py", "1 / 0\n", "ZeroDivisionError: division by zero"),
    ("probe_views.py", "import time; time.sleep(60)\n", "TimeoutError: it is not loaded after 3 s"),
]
"""Files that do not load, and what is said: a syntax error, a bad ini, an exception, a hang."""


def test_a_successor_that_does_not_come_up_leaves_the_old_one(service: Service, public_dir: Path) -> None:
    service.start(None)
    wait_until(lambda: connects(service.port), 20, "systemd-socket-activate listens")
    wait_until_it_answers(service.port)
    script = service.directory / "wsgi.py"
    patient = script.read_text()
    hasty = "import pipeline.loading.site\npipeline.loading.site.LONGEST_LOAD = 3\n" + patient
    with Clients(service.port) as clients:
        for name, text, reason in BROKEN:
            broken = public_dir / "restarts-etc" / name
            right = broken.read_text()
            broken.write_text(text)
            script.write_text(hasty if "3 s" in reason else patient)
            said = service.reload()
            assert said.count("\n") == 1 and "matrix.ini does not load: " in said and reason in said, said
            clients.wait_for(20)
            broken.write_text(right)
            script.write_text(patient)
        assert service.reload() == ""
        time.sleep(1)
    assert clients.failed == []


def connects(port: int) -> bool:
    """Whether the socket listens; a connection would start the service."""
    return f":{port:04X} 00000000:0000 0A" in Path("/proc/net/tcp").read_text()
