"""A planned stop of one of two instances behind nginx fails no request, as ``pipeline deploy`` writes them (R9)."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import pytest

from faults.length import length
from inis import BEHIND_NGINX, WITH_HEALTH, ini_of
from servers.base import Missing, find, wait_until
from servers.deployed import Deployed, Stopped
from servers.probes import Load, Target

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900)]

STOPS = length(short=2, full=50)
CLIENTS = 16
DRAIN = 7
"""Seconds: a round of the proxy's questions takes three if a machine is gone, and the next one has to begin."""
INI = WITH_HEALTH + ini_of(
    ["vhost", "errors", "traverse"],
    "drained_views",
    "site",
    vhost=BEHIND_NGINX,
    traverse="root = builtins:dict",
)
VIEWS = """\
import os
from pipeline import view

@view(context=dict, name="process", methods=("GET", "POST"))
def process(context, request):
    return str(os.getpid())
"""


@pytest.fixture
def others(request: pytest.FixtureRequest) -> list[int]:
    """Ports of further instances: none, or that of a machine that is gone."""
    return [request.getfixturevalue("gone")] if hasattr(request, "param") else []


@pytest.fixture
def site(
    public_dir: Path, others: list[int], missing: Callable[[str, str], NoReturn]
) -> Iterator[tuple[list[Stopped], Deployed]]:
    """Two instances of two processes, and nginx in front of them."""
    try:
        find("nginx", "apt install nginx libnginx-mod-stream")
        find("curl", "apt install curl")
    except Missing as error:
        missing(*error.args)
    place = public_dir / "draining"
    place.mkdir()
    ini = place / "site.ini"
    ini.write_text(INI)
    (place / "drained_views.py").write_text(VIEWS)
    python = Path(sys.executable)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        options = ("--workers", "2", "--drain", str(DRAIN))
        instances = [Stopped(python, ini, place / f"instance{number}", "gunicorn", *options) for number in (1, 2)]
        ports = [*(one.port for one in instances), *others]
        upstreams = [word for port in ports for word in ("--upstream", f"127.0.0.1:{port}")]
        nginx = Deployed(python, ini, place / "proxy", "nginx", *upstreams)
        for server in (*instances, nginx):
            stack.callback(server.kill)
            server.start()
        yield instances, nginx


def ready(instance: Deployed) -> int:
    return Target(instance.port).ask("GET", "/@@health", "Connection: close").status


def test_a_stop_of_one_of_two_instances_fails_no_request(site: tuple[list[Stopped], Deployed]) -> None:
    instances, nginx = site
    listed = nginx.directory / "instances.conf"
    with Load(Target(nginx.port), CLIENTS) as load:
        wait_until(lambda: len(load.answers) > 50, 20, "the load is answered")
        for number in range(STOPS):
            instance = instances[number % 2]
            before = len(load.answers)
            instance.stop()
            instance.start()
            wait_until(lambda: listed.read_text().count("fail_timeout") == 2, 10, "nginx asks both")
            assert len(load.answers) > before
            time.sleep(1)
    failed = [answer for answer in load.answers if not answer.isdecimal()]
    print(f"{STOPS} stops, {len(load.answers)} requests, {len(failed)} failed: {failed[:5]}")
    assert failed == []


@pytest.mark.parametrize("others", [pytest.param(None, id="gone")], indirect=True)
def test_of_three_instances_one_is_gone_one_is_killed_and_one_is_stopped(
    site: tuple[list[Stopped], Deployed]
) -> None:
    """Only what the killed one was answering fails: nginx says 502, or what it has begun to send ends early.

    The one that is gone has no answer from the begin on.
    """
    (killed, stopped), nginx = site
    target = Target(nginx.port)
    with Load(target, CLIENTS // 2) as gets, Load(target, CLIENTS // 2, "POST") as posts:

        def answers() -> list[str]:
            return gets.answers + posts.answers

        def failed() -> list[str]:
            return [answer for answer in answers() if not answer.isdecimal()]

        wait_until(lambda: len(answers()) > 200, 20, "the load is answered")
        assert failed() == []
        killed.kill()
        time.sleep(3)
        at_the_kill = failed()
        assert len(at_the_kill) <= CLIENTS and set(at_the_kill) <= {"status 502", "cut"}, at_the_kill
        before = len(answers())
        killed.start()
        wait_until(lambda: is_listed(nginx, killed), 10, "nginx asks it again")
        stopped.stop()
        time.sleep(1)
        assert len(answers()) > before
    print(f"{len(answers())} requests, {len(at_the_kill)} failed at the kill, {len(failed())} in all")
    assert failed() == at_the_kill


def is_listed(nginx: Deployed, instance: Deployed) -> bool:
    """Whether nginx asks the instance, and not only if no other one takes the connection."""
    return f":{instance.port} max_fails=1" in (nginx.directory / "instances.conf").read_text()


def test_health_says_so_in_every_process_and_then_it_stops(site: tuple[list[Stopped], Deployed]) -> None:
    instance = site[0][0]
    assert ready(instance) == 200
    began = time.monotonic()
    instance.run("stop")
    wait_until(lambda: ready(instance) == 503, 2, "health says 503")
    assert {ready(instance) for _ in range(20)} == {503}
    alive = Target(instance.port).ask("GET", "/@@health/alive", "Connection: close")
    assert (alive.status, Target(instance.port).ask("GET", "/@@process").status) == (200, 200), "it still answers"
    assert instance.ended(DRAIN + 10)
    assert DRAIN - 0.5 < time.monotonic() - began < DRAIN + 5
    instance.running.clear()
    instance.start()
    assert ready(instance) == 200, "the mark is gone"
    master = int((instance.directory / "run" / "gunicorn.pid").read_text())
    began = time.monotonic()
    for _ in range(2):
        os.kill(master, signal.SIGTERM)
        time.sleep(0.5)
    assert instance.ended(DRAIN - 1.5), "a second signal does not wait"


def test_another_server_is_told_by_the_command_that_stops_it(public_dir: Path) -> None:
    tmp_path = public_dir / "granian"
    tmp_path.mkdir()
    ini = tmp_path / "site.ini"
    ini.write_text(INI)
    (tmp_path / "drained_views.py").write_text(VIEWS)
    words = [str(Path(sys.executable).with_name("pipeline")), "deploy", "granian", str(ini), str(tmp_path / "site")]
    said = subprocess.run([*words, "--drain", "7"], capture_output=True, text=True, check=True).stdout
    assert f"  stop    touch {tmp_path}/site/run/draining && sleep 7\n          kill -TERM" in said
    assert f"rm -f -- {tmp_path}/site/run/draining\n" in (tmp_path / "site" / "granian.sh").read_text()
    without = INI.replace("branches = health path=/@@health\n", "branches =\n").replace("[app:health]", "[x:y]")
    ini.write_text(without)
    refused = subprocess.run([*words, "--drain", "7"], capture_output=True, text=True)
    assert refused.returncode == 1 and "the ini has no health" in refused.stderr
