"""Workers that are killed while they work: each job is done once, as the database says when it is read afresh."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from asking import ask
from either_database import write_site
from faults.length import length
from pipeline.elements.zodb import close_all
from pipeline.paste import load
from servers.base import wait_until
from servers.mariadb import MariaDB
from servers.postgres import Postgres
from servers.zeo import ZEO

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]

WORKERS = 3
VIEWS = """
import time

@job
def done(request, number):
    key = f"{number:04}"
    if "zodb" in request.pipeline.offered:
        site = request.zodb.root()["site"]
        site[key] = site.get(key, 0) + 1
    else:
        request.sql.execute(text("insert into done values (:key)"), {"key": key})
        request.sql.flush()
    time.sleep(0.01)

@view(context=Site, name="add", methods=("POST",), cross_site=True)
def add(site, request, first: int, last: int):
    for number in range(first, last):
        done.later(request, number)
    return "stored"

@view(context=Site, name="told")
def told(site, request):
    left = len(list(request.job_queue.all()))  # first: a statement sees what was committed before it
    if "zodb" in request.pipeline.offered:
        found = [key for key, times in site.items() for _ in range(times)]
    else:
        found = list(request.sql.scalars(text("select name from done")))
    return f"{left} {' '.join(sorted(found))}"
"""


class Workers:
    """Processes of ``pipeline work``, some of which are killed."""

    def __init__(self, directory: Path, many: int = WORKERS) -> None:
        self.directory = directory
        self.log = (directory / "workers.log").open("ab")
        self.running = [self.start() for _ in range(many)]

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "pipeline", "work", "site.ini", "--every", "0.05"]
        return subprocess.Popen(command, cwd=self.directory, stdout=self.log, stderr=self.log)

    def kill_one(self) -> None:
        place = random.randrange(WORKERS)
        self.running[place].kill()
        self.running[place].wait(10)
        self.running[place] = self.start()

    def stop(self) -> list[int]:
        """End them as systemd does; return their exit statuses."""
        for one in self.running:
            one.send_signal(signal.SIGTERM)
        return [one.wait(20) for one in self.running]


@contextmanager
def site_at(directory: Path, kind: str, place: str) -> Iterator[Callable[..., str]]:
    """Make a site; yield ``ask(path, body)``, which returns what it says now."""
    write_site(directory, kind, place, VIEWS)
    sys.path.insert(0, str(directory))
    try:
        app = load(f"config:{directory}/site.ini")

        def say(path: str, body: str = "") -> str:
            form = {"CONTENT_TYPE": "application/x-www-form-urlencoded"} if body else {}
            answer = ask(app, path, "POST" if body else "GET", body.encode(), **form)
            assert answer.status_int == 200, answer.text
            return str(answer.text)

        yield say
    finally:
        close_all()
        sys.path.remove(str(directory))
        sys.modules.pop("working", None)


KILLS = length(6, 50)


def each_is_done_once(directory: Path, say: Callable[..., str]) -> None:
    """Add jobs and kill workers, until all is done."""
    with ExitStack() as stack:
        workers = Workers(directory)
        stack.callback(workers.log.close)
        stack.callback(workers.stop)
        last = 0
        for _ in range(KILLS):
            say("/add", f"first={last}&last={last + 15}")
            last += 15
            time.sleep(random.uniform(0.2, 0.6))
            workers.kill_one()
        end = time.monotonic() + 100
        while (said := say("/told").split())[0] != "0" and time.monotonic() < end:
            time.sleep(0.2)
        loading = -signal.SIGTERM
        assert {*workers.stop()} <= {0, loading}, (directory / "workers.log").read_text()[-3000:]
    assert said[0] == "0", (directory / "workers.log").read_text()[-3000:]
    assert said[1:] == [f"{number:04}" for number in range(last)]


def test_zeo(zeo: ZEO, tmp_path: Path) -> None:
    with site_at(tmp_path, "zodb", zeo.uri()) as say:
        each_is_done_once(tmp_path, say)


@pytest.mark.parametrize("driver", ["psycopg2", "psycopg", "pg8000"])
def test_postgres(driver: str, postgres: Postgres, tmp_path: Path, new_name: Callable[[], str]) -> None:
    name = new_name()
    postgres.create(name)
    postgres.ask("create table done (name text)", name)
    of_sql(tmp_path, f"postgresql+{driver}://postgres@127.0.0.1:{postgres.port}/{name}")


@pytest.mark.parametrize("driver", ["pymysql", "mysqlconnector"])
def test_mariadb(driver: str, mariadb: MariaDB, tmp_path: Path, new_name: Callable[[], str]) -> None:
    name = new_name()
    mariadb.create(name)
    mariadb.ask(f"create table `{name}`.done (name varchar(20))")
    of_sql(tmp_path, mariadb.url(name).replace("mysqlconnector", driver))


def of_sql(directory: Path, url: str) -> None:
    with site_at(directory, "sql", url) as say:
        create = [sys.executable, "-m", "pipeline", "work", "site.ini", "--create"]
        assert subprocess.run(create, cwd=directory, check=True, capture_output=True, text=True).stdout
        each_is_done_once(directory, say)


@pytest.mark.parametrize("kind", ["sql", "relstorage", "zeo"])
def test_a_worker_waits_for_a_server_that_is_started_again(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, new_name: Callable[[], str]
) -> None:
    """systemd would give up after five starts in ten seconds, and do no job any more."""
    server = request.getfixturevalue("zeo" if kind == "zeo" else "postgres")
    if kind == "zeo":
        place = server.uri()
    else:
        server.create(name := new_name())
        server.ask("create table done (name text)", name)
        url = f"postgresql+psycopg2://postgres@127.0.0.1:{server.port}/{name}"
        place = url if kind == "sql" else server.uri(name)
    with site_at(tmp_path, "sql" if kind == "sql" else "zodb", place) as say, ExitStack() as stack:
        if kind == "sql":
            done = [sys.executable, "-m", "pipeline", "work", "site.ini", "--create"]
            subprocess.run(done, cwd=tmp_path, check=True, capture_output=True)
        workers = Workers(tmp_path, 1)
        stack.callback(workers.log.close)
        stack.callback(workers.stop)
        say("/add", "first=0&last=3")
        wait_until(lambda: say("/told").split()[0] == "0", 30, "the jobs are done")
        server.kill()
        time.sleep(3)
        server.start()
        assert workers.running[0].poll() is None, (tmp_path / "workers.log").read_text()
        wait_until(lambda: status(say, "/add", "first=3&last=6"), 30, "the site is back")
        wait_until(lambda: say("/told") == "0 0000 0001 0002 0003 0004 0005", 30, "the jobs are done")


def status(say: Callable[..., str], *asked: str) -> bool:
    """Return whether the site answers 200."""
    try:
        return bool(say(*asked))
    except AssertionError:
        return False
