"""Eight writers of one object of a Grok site, on two processes and a ZEO server: no acknowledged write is lost."""

from __future__ import annotations

import http.client
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.testing import Ledger
from ports import unused_port
from processes import Process

pytest.importorskip("ZEO", reason="it needs ZEO, which make test-ztk installs")

HERE = Path(__file__).parent
WRITERS = 8
PAUSE = 0.05
"""Seconds, where a process is killed in mid-write: it need not be busy all the time."""


class Site:
    """A ZEO server and two processes that serve the site, with a bug if the experiment is to find it."""

    def __init__(self, start: Callable[..., Process], directory: Path, *bugs: str) -> None:
        self.start = start
        self.bugs = bugs
        self.directory = directory
        self.zeo_port, *self.ports = (unused_port() for _ in range(3))
        self.zeo = self.start_zeo()
        self.servers = {self.ports[0]: self.start_server(self.ports[0])}
        self.servers[self.ports[1]] = self.start_server(self.ports[1])

    def start_zeo(self) -> Process:
        command = [Path(sys.executable).with_name("runzeo"), "-a", f"127.0.0.1:{self.zeo_port}", "-f"]
        return self.start([*command, self.directory / "Data.fs"], self.zeo_port)

    def start_server(self, port: int) -> Process:
        environ = {"PYTHONPATH": str(HERE.parent), "PYTHONWARNINGS": "ignore"}
        command = [sys.executable, HERE / "serve.py", str(port), str(self.zeo_port), *self.bugs]
        return self.start(command, port, env=environ, seconds=60)

    def entries(self) -> list[str]:
        """Return what is stored, once both processes show the same: each hears of the other's last write later."""
        for _ in range(100):
            answers = [asked(port, "/folder/note/entries") for port in self.ports]
            if answers[0] == answers[1] and answers[0][0] == 200:
                return answers[0][2].split()
            time.sleep(0.1)
        raise AssertionError(f"the entries are not shown: {[answer[0] for answer in answers]}")


def asked(port: int, path: str) -> tuple[int, str, str]:
    """Ask once; status 0 is a connection that was cut."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.getheader("X-Outcome", ""), answer.read().decode()
    except (OSError, http.client.HTTPException):
        return 0, "", ""
    finally:
        connection.close()


def write_for(
    site: Site, seconds: float, meanwhile: Callable[[], object], pause: float = 0
) -> tuple[Ledger, Counter[int]]:
    """Have eight clients write, with a pause after each write; return the ledger and how many had which status."""
    ledger = Ledger()
    statuses: Counter[int] = Counter()
    lock = threading.Lock()
    end = time.monotonic() + seconds

    def write(number: int) -> None:
        while time.monotonic() < end:
            with lock:
                id = ledger.send()
            status, outcome, _ = asked(site.ports[number % 2], f"/folder/note/append?id={id}")
            with lock:
                ledger.answered(id, status, outcome)
                statuses[status] += 1
            time.sleep(pause if status == 200 else 0.05)

    writers = [threading.Thread(target=write, args=[number]) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    meanwhile()
    for writer in writers:
        writer.join()
    return ledger, statuses


@pytest.fixture
def site(start: Callable[..., Process], tmp_path: Path) -> Iterator[Site]:
    yield Site(start, tmp_path)


def judged(site: Site, ledger: Ledger, statuses: Counter[int]) -> None:
    print(dict(statuses))
    assert ledger.judge(site.entries()) == []
    assert statuses[200] > 20
    assert set(statuses) <= {0, 200, 500, 503}
    if statuses[500]:  # only a commit whose outcome is unknown (R4)
        assert ledger.counts()["unknown"] >= statuses[500]


def test_a_hot_object(site: Site) -> None:
    """R1, R2: a write is stored once, or it is a 503."""
    ledger, statuses = write_for(site, 5, lambda: None)
    judged(site, ledger, statuses)
    assert set(statuses) <= {200, 503}


def test_the_control_finds_lost_writes(start: Callable[..., Process], tmp_path: Path) -> None:
    """A site that answers as if each commit had succeeded does not pass."""
    site = Site(start, tmp_path, "transaction_swallows")
    ledger, _ = write_for(site, 3, lambda: None)
    problems = ledger.judge(site.entries())
    print(f"{len(problems)} problems, such as: {problems[:1]}")
    assert [problem for problem in problems if "acknowledged and is not stored" in problem]


def test_a_killed_server(site: Site) -> None:
    """R5: a process that is killed in mid-write takes nothing with it that was acknowledged."""

    def kill() -> None:
        time.sleep(2)
        port = site.ports[1]
        os.kill(site.servers[port].pid, 9)
        site.servers[port].process.wait()
        site.servers[port] = site.start_server(port)

    ledger, statuses = write_for(site, 8, kill, PAUSE)
    judged(site, ledger, statuses)


def test_a_lost_database(site: Site) -> None:
    """R4: while the database is gone the answer is 503, and afterwards the site goes on."""

    def restart() -> None:
        time.sleep(2)
        os.kill(site.zeo.pid, 9)
        site.zeo.process.wait()
        time.sleep(1)
        site.zeo = site.start_zeo()

    ledger, statuses = write_for(site, 10, restart, PAUSE)
    judged(site, ledger, statuses)
