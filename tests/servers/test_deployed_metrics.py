"""The configuration of gunicorn that ``pipeline deploy`` writes shows the figures of all its processes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inis import ini_of
from servers.base import children, wait_until
from servers.deployed import Deployed
from servers.probes import Target

pytestmark = [pytest.mark.servers, pytest.mark.timeout(120)]

INI = """\
[composite:main]
use = egg:wsgi-pipeline#switch
branches = figures path=/@@metrics
default = site
[pipeline:figures]
pipeline = errors metrics
[app:metrics]
use = egg:wsgi-pipeline#metrics
token_file = %(here)s/var/token
"""
INI += ini_of(
    ["timing", "errors", "traverse"],
    "counted_views",
    "site",
    timing="metrics = true",
    traverse="root = builtins:dict",
)
VIEWS = """\
import os
from pipeline import view

@view(context=dict, name="process")
def process(context, request):
    return str(os.getpid())
"""


@pytest.fixture
def site(public_dir: Path, need_packages: Callable[..., None]) -> Iterator[Deployed]:
    need_packages("prometheus_client")
    place = public_dir / "figures"
    place.mkdir()
    (place / "site.ini").write_text(INI)
    (place / "counted_views.py").write_text(VIEWS)
    site = Deployed(Path(sys.executable), place / "site.ini", place / "server", "gunicorn", "--workers", "2")
    site.commands["check"] = [f"curl -s http://127.0.0.1:{site.port}/"]  # any answer
    try:
        site.start()
        yield site
    finally:
        site.kill()
        shutil.rmtree(place)


def counted(site: Deployed) -> float:
    """Return how often the view was called, as one of the processes says."""
    token = (site.directory.parent / "var" / "token").read_text().split()[0]
    said = Target(site.port).ask("GET", "/@@metrics", f"Authorization: Bearer {token}", "Connection: close")
    assert said.status == 200
    lines = re.findall(r"^pipeline_request_seconds_count\{.*counted_views.* ([\d.]+)$", said.body.decode(), re.M)
    return sum(map(float, lines))


def ask(site: Deployed) -> int:
    return int(Target(site.port).ask("GET", "/@@process", "Connection: close").body)


def test_a_scrape_shows_all_processes(site: Deployed) -> None:
    answered: list[int] = []
    wait_until(lambda: answered.append(ask(site)) or len(set(answered)) == 2, 30, "both processes answer")
    assert {counted(site) for _ in range(10)} == {len(answered)}, "whichever process is asked"
    os.kill(answered[-1], signal.SIGKILL)
    figures = site.directory / "run" / "figures"
    wait_until(lambda: len(children(site.running[0].pid)) == 2 and ask(site), 20, "a new process serves")
    left = f"gauge_live*_{answered[-1]}.db"
    wait_until(lambda: not list(figures.glob(left)), 5, "the gauges of the dead one are gone")
    assert counted(site) >= len(answered), "what it has counted is kept"

    site.run("stop")
    assert site.ended(40)
    site.running.clear()
    site.start()
    assert counted(site) == 0, "it begins anew"
