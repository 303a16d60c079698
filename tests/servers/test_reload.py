"""A reload while a slow request is under way, with a database that only one process may have (R9).

tests/servers/test_matrix.py reloads every target with a database that several processes share. With a Data.fs the
new process waits until the old one has finished. No request fails meanwhile.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest

from inis import WITH_HEALTH, ini_of
from servers.base import children, wait_until
from servers.deployed import Deployed, deployed
from servers.probes import Load, Target
from servers.test_matrix import TARGETS as ALL_TARGETS
from servers.test_matrix import need

pytestmark = [pytest.mark.servers, pytest.mark.timeout(400)]
FULL = os.environ.get("PIPELINE_FAULTS") == "full"
TARGETS = (
    *("gunicorn", "granian", "nginx", "nginx --behind granian", "nginx --behind uwsgi", "uwsgi"),
    *(("apache", "lighttpd") if FULL else ()),
)
CLIENTS = 8
LOADS = 2
"""Seconds that a site takes to load."""
NAP = "/@@nap?seconds=2"
"""The request that is under way."""
RELOADS = 3 if FULL else 1
SOME = ALL_TARGETS if FULL else ("gunicorn", "granian", "nginx", "apache", "uwsgi")


def reload_with_a_file(target: str, python: Path, inis: Path, directory: Path) -> Counter[str]:
    """Return what went wrong during reloads, each with a slow request under way."""
    uri = f"zodb_uri=file://{directory}/Data.fs"
    with deployed(python, inis / "matrix.ini", directory, target, uri) as server:
        where = Target(server.port)
        loads = [Load(where, CLIENTS // 2, method) for method in ("GET", "POST")]
        slow: list[int] = []

        def nap() -> None:
            slow.append(where.ask("GET", NAP, "Connection: close").status)

        with loads[0], loads[1]:
            wait_until(lambda: all(len(load.answers) >= 20 for load in loads), 20, "the load is answered")
            for _ in range(RELOADS):
                thread = threading.Thread(target=nap)
                thread.start()
                time.sleep(0.5)
                old = {pid for load in loads for pid in load.processes()}
                server.run("reload")
                thread.join()

                def reloaded(old: set[str] = old) -> bool:
                    since = len(loads[0].answers)
                    time.sleep(0.3)
                    now = loads[0].processes(since)
                    return bool(now) and now.isdisjoint(old)

                wait_until(reloaded, 30, "a new process answers")
        failed = Counter(answer for load in loads for answer in load.answers if not answer.isdecimal())
        failed.update(f"slow {status}" for status in slow if status != 200)
        print(f"{target}: {sum(len(load.answers) for load in loads)} requests, failed: {dict(failed)}")
        return failed


@pytest.mark.parametrize("target", TARGETS)
def test_a_reload_with_a_data_fs_fails_no_request__R9(
    target: str, python: Path, inis: Path, public_dir: Path, missing: Callable[[str, str], NoReturn]
) -> None:
    need(target, python, missing)
    failed = reload_with_a_file(target, python, inis, public_dir / "file")
    if target == "granian":  # nothing listens between its processes, as its commands say
        failed -= Counter({"ConnectionRefusedError": failed["ConnectionRefusedError"], "no answer": 1})
    assert failed == {}


SLOW_SITE = f"""
import os, time
time.sleep({LOADS})
from pipeline import view

class Site:
    pass

@view(context=Site)
def page(site, request):
    return str(os.getpid())
"""


HANGS = SLOW_SITE.replace(
    "return ", "open(os.path.dirname(__file__) + '/begun', 'w').close(); time.sleep(300); return "
)


def slow_site(directory: Path, code: str = SLOW_SITE) -> Path:
    """Write a site that loads slowly; return its ini."""
    directory.mkdir(mode=0o777)
    directory.chmod(0o777)
    (directory / "loads_slowly.py").write_text(code)
    order = ini_of(("errors", "traverse"), "loads_slowly", "site", traverse="root = loads_slowly:Site")
    ini = directory / "site.ini"
    ini.write_text(WITH_HEALTH + order)
    return ini


RESET = ("Connection reset by peer", "Remote end closed connection without response")
"""What a client says of a connection that ends before an answer."""


@pytest.mark.parametrize("target", ("gunicorn", "granian", "uwsgi", "nginx", "nginx --behind granian"))
def test_a_site_that_loads_slowly_answers_while_it_is_reloaded__R9(
    target: str, python: Path, public_dir: Path, missing: Callable[[str, str], NoReturn]
) -> None:
    """The old processes end when the new ones have loaded: each request waited for as long as that takes."""
    need(target, python, missing)
    ini = slow_site(public_dir / f"slow-{target.replace(' ', '-')}")
    pids: list[str] = []
    waits: list[float] = []
    ended = threading.Event()

    def ask() -> None:
        while not ended.is_set():
            began = time.monotonic()
            try:
                answer = where.ask("GET", "/", "Connection: close")
                said = answer.body.decode()
                pids.append(said if answer.status == 200 else f"failed {answer.status} {said}")
            except OSError as error:
                pids.append(f"failed: {error}")
            waits.append(time.monotonic() - began)
            time.sleep(0.02)

    with deployed(python, ini, ini.parent / "server", target) as server:
        where = Target(server.port)
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: len(set(pids)) == 2, 20, "both processes answer")
            old = set(pids)
            server.run("reload")
            wait_until(lambda: old.isdisjoint(pids[-200:]) and len(set(pids)) > 2, 40, "new processes answer")
        finally:
            ended.set()
            for thread in threads:
                thread.join()
    failed = [one for one in pids if one.startswith("failed")]
    if target == "granian":  # a plain one, too, resets what waits for a worker that ends (docs/deployments.rst)
        reset = [one for one in failed if one.endswith(RESET)]
        assert len(reset) <= len(old) * len(threads)
        failed = [one for one in failed if one not in reset]
    assert failed == []
    assert max(waits) < LOADS / 2, f"of {len(waits)}"


def family(server: Deployed) -> set[int]:
    """Return the processes that were started, and theirs."""
    return {pid for process in server.running for pid in children(process.pid)}


def begin_reload(server: Deployed) -> None:
    """Reload a site that loads slowly, and return while a new process loads it."""

    def ask() -> None:  # Apache reloads when it is asked
        with suppress(OSError):
            Target(server.port).ask("GET", "/", "Connection: close")

    def begun() -> bool:
        threading.Thread(target=ask).start()
        return bool(family(server) - old)

    old = family(server)
    threading.Thread(target=server.run, args=("reload",)).start()  # a target may wait until all processes are new
    wait_until(begun, 60, "a process starts", 0.2)
    time.sleep(LOADS / 4)


@pytest.mark.parametrize("target", SOME)
def test_a_stop_while_a_process_loads_the_site_ends__R9(
    target: str, python: Path, public_dir: Path, missing: Callable[[str, str], NoReturn]
) -> None:
    """uWSGI's master waits for each worker, and one that loads the site did not hear that it is to end."""
    need(target, python, missing)
    ini = slow_site(public_dir / f"stopped-{target.replace(' ', '-')}")
    with deployed(python, ini, ini.parent / "server", target) as server:
        begin_reload(server)
        server.run("stop")
        assert server.ended(45), server.said()  # Apache waits for ten seconds more than R9 says


@pytest.mark.parametrize("target", SOME)
def test_a_reload_while_another_one_runs_is_not_forgotten__R9(
    target: str, python: Path, public_dir: Path, missing: Callable[[str, str], NoReturn]
) -> None:
    """All processes have the newest code in the end: uWSGI's own chain forgets the second reload."""
    need(target, python, missing)
    ini = slow_site(public_dir / f"twice-{target.replace(' ', '-')}")
    code = ini.parent / "loads_slowly.py"
    with deployed(python, ini, ini.parent / "server", target) as server:
        for number in (1, 2):
            code.write_text(f"VERSION = '{number}'" + SLOW_SITE.replace("str(os.getpid())", "VERSION"))
            begin_reload(server) if number == 1 else server.run("reload")
        answers: list[bytes] = []

        def newest() -> bool:
            answers.append(Target(server.port).ask("GET", "/", "Connection: close").body)
            return len(answers) >= 100 and {*answers[-100:]} == {b"2"}

        wait_until(newest, 30, "the newest code alone answers")


@pytest.mark.parametrize("target", ALL_TARGETS if FULL else ("uwsgi", "mod_wsgi-express"))
def test_a_stop_gives_up_on_a_request_that_does_not_end__R9(
    target: str, python: Path, public_dir: Path, missing: Callable[[str, str], NoReturn]
) -> None:
    """uWSGI's master waits for its workers in a handler of a signal, where its own limits do not count."""
    need(target, python, missing)
    ini = slow_site(public_dir / f"hangs-{target.replace(' ', '-')}", HANGS)
    with deployed(python, ini, ini.parent / "server", target) as server:
        asks = threading.Thread(target=Target(server.port).ask, args=("GET", "/"), daemon=True)
        asks.start()
        wait_until((ini.parent / "begun").exists, 10, "the request begins")
        began = time.monotonic()
        server.run("stop")
        assert server.ended(45), server.said()  # Apache waits for ten seconds more than R9 says
        assert time.monotonic() - began > 20, "the request had no time to finish"
