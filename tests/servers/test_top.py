"""``pipeline top`` and the probes: what runs in two processes of which one hangs, found while it hangs (S25)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from faults.length import FULL, length
from inis import ini_of
from ports import unused_port
from processes import Process

pytestmark = [pytest.mark.servers, pytest.mark.timeout(1200 if FULL else 120)]

VIEWS = """\
import os, re, time
from pathlib import Path
from pipeline import view

@view()
def index(context, request):
    return str(os.getpid())

@view(name="hang")
def hang(context, request):
    started = Path("hanging") / str(time.monotonic_ns())
    started.write_text(str(os.getpid()))
    while Path("hanging").exists():
        time.sleep(0.05)
    return "ends"

@view(name="stream")
def stream(context, request):
    yield b"first"
    while Path("streaming").exists():
        time.sleep(0.05)

@view(name="match")
def match(context, request):
    if str(os.getpid()) == request.GET["pid"]:
        Path("matching").touch()
        re.match("(a+)+$", "a" * 60 + "b")
    return "ends"
"""
INI = """\
[server:main]
use = egg:gunicorn#main
timeout = 0

[composite:main]
use = egg:wsgi-pipeline#switch
branches =
    health path=/@@health
    metrics path=/@@metrics
default = site

[app:health]
use = egg:wsgi-pipeline#health
watch = %(here)s/watch
listen = {listen}
slow = 1

[app:metrics]
use = egg:wsgi-pipeline#metrics
token_file = %(here)s/token
watch = %(here)s/watch

"""
INI += ini_of(["errors", "traverse"], "top_views", "site", traverse="root = builtins:dict")
THREADS = 2
PROBES = length(short=20, full=1200)
"""Of a process that hangs; at full length for ten minutes."""
AT = re.compile(r"top_views\.py, line 1[45], in hang\n")


class Site:
    """A site on gunicorn with two processes of two threads."""

    def __init__(self, directory: Path, start: Callable[..., Process]) -> None:
        self.directory = directory
        self.port, self.probe = unused_port(), unused_port()
        self.ini = directory / "site.ini"
        self.ini.write_text(INI.format(listen=f"127.0.0.1:{self.probe}"))
        (directory / "top_views.py").write_text(VIEWS)
        command = [sys.executable, "-m", "pipeline", "serve", self.ini, "--server", "gunicorn"]
        command += ["--workers", "2", "--threads", str(THREADS), "--port", str(self.port)]
        self.server = start(command, self.port, cwd=directory)
        self.asked: list[threading.Thread] = []
        eventually(lambda: len(self.top()["processes"]) == 2 and self.ask("/alive")[0] == 200)

    def get(self, path: str) -> bytes:
        with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
            return bytes(answer.read())

    def begin(self, path: str) -> None:
        """Send a request, and do not wait for its end."""

        def get() -> None:
            with suppress(OSError):
                self.get(path)

        self.asked.append(threading.Thread(target=get, daemon=True))
        self.asked[-1].start()

    def run(self, *words: str) -> str:
        command = [sys.executable, "-m", "pipeline", "top", self.ini, *words]
        ran = subprocess.run(command, cwd=self.directory, capture_output=True, text=True, timeout=20, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def top(self) -> Any:
        try:
            return json.loads(self.run("--json"))
        except AssertionError:  # no process is up yet
            return {"processes": []}

    def ask(self, path: str) -> tuple[int, str]:
        """What the probe says, within a second."""
        began = time.monotonic()
        try:
            with urlopen(f"http://127.0.0.1:{self.probe}{path}", timeout=5) as answer:
                status, text = answer.status, answer.read().decode()
        except HTTPError as error:
            status, text = error.code, error.read().decode()
        except OSError:
            return 0, ""
        assert time.monotonic() - began < 1
        return status, text

    def hang(self) -> int:
        """Have each thread of one process hang, and return its number."""
        hanging = self.directory / "hanging"
        hanging.mkdir(exist_ok=True)
        for _ in range(40):
            pids = [file.read_text() for file in hanging.iterdir()]
            full = [pid for pid in pids if pid and pids.count(pid) == THREADS]
            if full:
                return int(full[0])
            if len(pids) < 2 or len(set(pids)) == 2 == len(pids):
                self.begin("/@@hang?token=hunter2&page=3")
            time.sleep(0.2)
        raise AssertionError(pids)


def eventually(holds: Callable[[], Any], seconds: float = 20) -> Any:
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


@pytest.fixture
def site(tmp_path: Path, start: Callable[..., Process]) -> Iterator[Site]:
    made = Site(tmp_path, start)
    yield made
    for name in ("hanging", "streaming"):
        if (tmp_path / name).exists():
            (tmp_path / name).rename(tmp_path / f"{name}-over")
    for thread in made.asked:
        thread.join(10)


def test_the_request_that_hangs_is_found_in_one_command(site: Site) -> None:
    assert all(one["state"] == "ready" and one["requests"] == [] for one in site.top()["processes"])
    pid = site.hang()
    time.sleep(1.2)
    said = site.run()
    assert f"process {pid}: hangs, 2 of 2 running" in said
    assert "GET /@@hang?token=(masked)&page=3\n             top_views.hang in publisher, user -\n" in said
    assert AT.search(said)
    assert "hunter2" not in site.run("--stacks", "--json")
    told = {one["pid"]: one for one in site.top()["processes"]}
    assert len(told) == 2
    [other] = set(told) - {pid}
    assert told[pid]["state"] == "hangs" and told[other]["state"] in ("ready", "busy")
    request = told[pid]["requests"][0]
    assert request["seconds"] > 1 and request["element"] == "publisher" and request["view"] == "top_views.hang"

    # The probes name it, too, and within a second, though gunicorn may give it the next request.
    for path in ("/alive", "/ready", "/"):
        status, text = site.ask(path)
        assert status == 200 and f"process {pid} hangs: all 2 threads have had a request for" in text, text

    # Each slow request is in the log while it runs, with the stack of its thread.
    def logged() -> bool:
        said = site.server.said()
        return said.count("slow: GET /@@hang?token=(masked)&page=3 has run for") >= THREADS

    eventually(logged)
    assert "in top_views.hang, user -" in site.server.said()
    assert AT.search(site.server.said()) and "hunter2" not in site.server.said()

    (site.directory / "hanging").rename(site.directory / "over")
    eventually(lambda: all(one["state"] == "ready" for one in site.top()["processes"]))


def is_stopped(site: Site, pid: int) -> None:
    """A signal stops all threads."""
    os.kill(pid, signal.SIGSTOP)


def matches(site: Site, pid: int) -> None:
    """One request is in a call into C that keeps the lock of the interpreter for years."""
    while not (site.directory / "matching").exists():  # the other process has taken it
        site.begin(f"/@@match?pid={pid}")
        time.sleep(0.1)


@pytest.mark.parametrize("how", [is_stopped, matches])
def test_a_process_that_does_nothing_at_all_is_named(how: Callable[[Site, int], None], site: Site) -> None:
    """The process that answers the probes is another one, or nobody answers, which fails the probe as well. However
    often it is asked, it says the same: the queue of the socket is full after 17 questions, and that is no other
    state."""
    pids = {one["pid"] for one in site.top()["processes"]}
    hanging = next(pid for pid in sorted(pids) if not listens(pid, site.probe))
    how(site, hanging)
    try:
        eventually(lambda: f"process {hanging} hangs: no answer within 0.5 s" in site.ask("/alive")[1])
        status, text = site.ask("/alive")
        others = [line for line in text.splitlines()[1:] if str(hanging) not in line]
        assert status == 200 and len(others) == 1 and others[0].endswith(" ready"), "it does not count itself"
        found: Counter[tuple[int, bool]] = Counter()
        for number in range(PROBES):
            status, text = site.ask(("/alive", "/ready")[number % 2])
            found[status, f"process {hanging} hangs" in text] += 1
            time.sleep(0.5 if FULL else 0)
        print(f"{PROBES} probes of two processes, one of which hangs: {dict(found)}")
        assert found == {(200, True): PROBES}
        assert f"process {hanging}: hangs" in site.run()
    finally:
        os.kill(hanging, signal.SIGKILL)
    eventually(lambda: site.ask("/alive")[1].count(" ready\n") == 2)


def listens(pid: int, port: int) -> bool:
    """Return whether a process listens on a port."""
    found = subprocess.run(["ss", "-Hltnp", f"sport = :{port}"], capture_output=True, text=True, check=True).stdout
    return f"pid={pid}," in found


def test_another_process_answers_the_probes_when_the_one_that_did_is_killed(site: Site) -> None:
    pids = {one["pid"] for one in site.top()["processes"]}
    [first] = [pid for pid in pids if listens(pid, site.probe)]
    os.kill(first, signal.SIGKILL)

    def replaced() -> bool:
        now = {one["pid"] for one in site.top()["processes"]}
        return len(now) == 2 and first not in now and site.ask("/ready")[0] == 200

    eventually(replaced)


def test_what_is_told(site: Site) -> None:
    """A streamed body is a request that runs; the metrics have the figures of both processes; a mark drains."""
    (site.directory / "streaming").mkdir()
    site.begin("/@@stream")

    def running() -> list[Any]:
        return [request for one in site.top()["processes"] for request in one["requests"]]

    [request] = eventually(running)
    assert (request["path"], request["view"], request["element"]) == ("/@@stream", "top_views.stream", "")
    token = (site.directory / "token").read_text().split()[-1]
    asked = Request(f"http://127.0.0.1:{site.port}/@@metrics", headers={"Authorization": f"Bearer {token}"})
    with urlopen(asked, timeout=10) as answer:
        figures = answer.read().decode()
    running_now = re.findall(r"^pipeline_requests_running\{pid=.*\} (.*)$", figures, re.MULTILINE)
    assert len(running_now) == 2 and sum(map(float, running_now)) == 2, "the stream and this request"
    assert len(re.findall(r"^pipeline_process_hangs\{pid=.*\} 0.0$", figures, re.MULTILINE)) == 2
    longest = re.findall(r"^pipeline_longest_request_seconds\{pid=.*\} (.*)$", figures, re.MULTILINE)
    assert max(map(float, longest)) > 0
    (site.directory / "watch" / "draining").touch()
    status, text = site.ask("/ready")
    assert status == 503 and text.startswith("draining\n")
    assert site.ask("/alive")[0] == 200
    assert "about to stop" in site.run()
    (site.directory / "streaming").rename(site.directory / "streaming-over")
    site.server.stop()
    assert list((site.directory / "watch").glob("*.sock")) == [], "a process takes its socket with it"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_other_users_may_not_ask__S25(site: Site) -> None:
    watch = site.directory / "watch"
    [one, _] = sorted(watch.glob("*.sock"))
    assert one.stat().st_mode & 0o777 == 0o660 and watch.stat().st_mode & 0o007 == 0
    for place in (watch, *site.directory.parents, site.directory):
        place.chmod(place.stat().st_mode | 0o005)
    for mode, told in ((0o660, b""), (0o666, b"{}")):  # by the mode, and by the credentials
        one.chmod(mode)
        code = f"""
import os, socket
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with socket.socket(socket.AF_UNIX) as peer:
    peer.connect({str(one)!r})
    os.write(1, peer.recv(100))
"""
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        assert ran.stdout == told, ran.stderr
        assert ("PermissionError" in ran.stderr.decode()) is (mode == 0o660)
