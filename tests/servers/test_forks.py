"""Databases across fork (R12): uWSGI forks without a word to Python, multiprocessing and ``os.fork`` with one.

Every site has answered a request, so has its database open, before its processes are forked.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from faults.judge import Writers, rows_in, stored_in
from faults.length import length
from faults.load import Answer, Client, Load
from faults.serving import SQL_ORDER, TABLES, Site
from servers.base import Missing

pytestmark = [pytest.mark.servers, pytest.mark.timeout(180)]

SECONDS = length(short=1.0, full=20.0)
REMEDY = "pip install uwsgi"

APPLICATION = """\
import logging.config, sys
from webob import Request
from pipeline.paste import load

INI = {ini!r}
logging.config.fileConfig(INI, disable_existing_loggers=False)
application = load("config:" + INI)
for target, method in (("/", "GET"), ("/@@write?id=at-load", "POST"), ("/@@has?id=at-load", "GET")):
    answer = Request.blank(target, method=method).get_response(application)
    print("at load:", answer.status, answer.text)
"""


class UWSGI(Site):
    """The site under uWSGI, whose master loads it, asks it for pages, and then forks its workers."""

    def __init__(self, directory: Path, uri: str, *, threads: int = 2, **options: object) -> None:
        self.program = shutil.which("uwsgi", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
        if self.program is None:
            raise Missing("uwsgi", REMEDY)
        super().__init__(directory, uri, **options)
        self.threads = threads
        self.file = directory / "application.py"
        self.file.write_text(APPLICATION.format(ini=str(self.ini)))

    def command(self) -> list[str | Path]:
        return [
            *(str(self.program), "--http-socket", f"127.0.0.1:{self.port}"),
            *("--master", "--processes", "4", "--threads", str(self.threads), "--enable-threads"),
            *("--home", sys.prefix, "--wsgi-file", self.file, "--need-app", "--die-on-term"),
            *("--disable-logging", "--worker-reload-mercy", "5"),
        ]


@pytest.fixture
def place(servers_dir: Path, new_name: Callable[[], str]) -> Path:
    path = servers_dir / f"at-{new_name()}"
    path.mkdir()
    return path


@pytest.fixture
def start(place: Path, missing: Callable[[str, str], NoReturn]) -> Iterator[Callable[..., UWSGI]]:
    """``start(uri)`` is the site on a database, under uWSGI."""
    started: list[UWSGI] = []

    def start(uri: str, **options: object) -> UWSGI:
        try:
            site = UWSGI(place / f"site{len(started)}", uri, **options)
        except Missing as error:
            missing(*error.args)
        started.append(site)
        site.start()
        return site

    yield start
    for site in started:
        site.stop()


class Writing(Writers):
    """Writers with a connection for each request, as uWSGI wants it; one write was made at load."""

    def __init__(self) -> None:
        super().__init__("/@@write")
        self.ledger.sent("at-load")
        self.ledger.answered("at-load", 200)

    def write(self, client: Client, thread: int, number: int) -> Answer:
        answer = super().write(client, thread, number)
        client.close()
        return answer


class Readers:
    """Clients that ask whether something is there; half of what they ask for is, and no answer may be another's."""

    def __init__(self) -> None:
        self.wrong: list[tuple[str, Answer]] = []

    def read(self, client: Client, thread: int, number: int) -> Answer:
        id, expected = (("at-load", b"1"), ("never", b"0"))[(thread + number) % 2]
        answer = client.ask("GET", f"/@@has?id={id}")
        client.close()
        if (answer.status, answer.body) != (200, expected):
            self.wrong.append((id, answer))
        return answer


def load_of(site: UWSGI) -> tuple[Writers, Readers]:
    writers, readers = Writing(), Readers()
    with writers.on(site.port, 6) as writing, Load(site.port, 6, readers.read) as reading:
        time.sleep(SECONDS)
    print(f"{writers.ledger.counts()}, {len(reading.answers)} reads")
    assert len(writing.answers) > 10 and len(reading.answers) > 10
    return writers, readers


def judge(site: UWSGI, writers: Writers, readers: Readers, stored: dict[str, int]) -> None:
    assert writers.ledger.judge(stored) == [], site.said()[-5000:]
    assert readers.wrong == [], site.said()[-5000:]
    assert [answer for answer in writers.answers if answer.status != 200] == [], site.said()[-5000:]
    assert stored["at-load"] == 1
    assert "Traceback" not in site.said(), site.said()[-5000:]


def stop(site: UWSGI) -> None:
    """Stop the site as its manager does, and see that it goes by itself."""
    begun = time.monotonic()
    site.stop()
    assert time.monotonic() - begun < 15, site.said()[-5000:]


@pytest.mark.parametrize("kind", ["zeo", "postgres", "mariadb"])
def test_r12_objects_under_uwsgi(
    kind: str, start: Callable[..., UWSGI], new_name: Callable[[], str], request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue(kind)
    if kind == "zeo":
        uri = server.uri()
    else:
        server.create(name := new_name())
        uri = server.uri(name)
    site = start(uri, zodb={"server_sync": "true"} if kind == "zeo" else {})
    assert site.said().count("at load: 200 OK") == 3, site.said()
    writers, readers = load_of(site)
    stop(site)
    judge(site, writers, readers, stored_in(uri)[0])


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_r12_tables_under_uwsgi(
    kind: str, start: Callable[..., UWSGI], new_name: Callable[[], str], request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue(kind)
    server.create(name := new_name())
    if kind == "postgres":
        server.ask(TABLES, name)
    else:
        server.ask(f"USE `{name}`; {TABLES}")
    site = start(server.url(name), order=SQL_ORDER)
    assert site.said().count("at load: 200 OK") == 3, site.said()
    writers, readers = load_of(site)
    stop(site)
    judge(site, writers, readers, rows_in(server, name))


@pytest.mark.parametrize("blobs", [False, True], ids=["file", "file and blobs"])
def test_r12_a_file_under_uwsgi(blobs: bool, place: Path, start: Callable[..., UWSGI]) -> None:
    """Its master has the file; the workers are told so, and nothing is lost or damaged."""
    uri = f"file://{place}/Data.fs" + (f"?blobstorage_dir={place}/blobs" if blobs else "")
    site = start(uri)
    assert site.said().count("at load: 200 OK") == 3, site.said()
    before = (place / "Data.fs").read_bytes()
    writers = Writing()
    with writers.on(site.port, 6, pause=0.01):
        time.sleep(SECONDS)
    assert {answer.status for answer in writers.answers} == {503}
    assert all("retry-after" in answer.headers for answer in writers.answers)
    stop(site)
    assert (place / "Data.fs").read_bytes() == before
    assert stored_in(uri)[0] == {"at-load": 1}
    said = site.said()
    assert f"process {site.pid}, from which this one was forked, has it open" in said, said
    assert "load the application after the fork (uWSGI: lazy-apps)" in said
    assert "Traceback" not in said, said


TURNS = 4
WRITES = 5 * TURNS
CHILDREN = {
    "multiprocessing": """
        import multiprocessing
        child = multiprocessing.get_context("fork").Process(target=work)
        child.start()
        child.join(30)
    """,
    "os.fork and sys.exit": """
        child = os.fork()
        if child == 0:
            work()
            sys.exit(0)
        os.waitpid(child, 0)
    """,
    "os.fork, in a view": """
        ask("/fork", "POST")
    """,
}

PARENT = """\
import logging, multiprocessing, os, sys, warnings
logging.basicConfig()
from webob import Request, Response
from pipeline.paste import load
from pipeline import view
import faults.site

@view(context=faults.site.Site, name="fork", methods=("POST",))
def fork(site, request):
    site.hot.value
    site.hot.value += 1
    request.GET["id"]
    faults.site.count(site, request.GET["id"])
    child = os.fork()
    if child == 0:
        sys.exit(0)
    os.waitpid(child, 0)
    return "forked"

application = load("config:" + sys.argv[1])

def ask(path, method="GET"):
    answer = Request.blank(path, method=method).get_response(application)
    print(os.getpid() == me, method, path, answer.status_int, answer.text[:100].replace("\\n", " "), flush=True)
    return answer

def work():
    if turn % 2:
        ask("/")

me = os.getpid()
number = 0
for turn in range({turns}):
    for _ in range(5):
        number += 1
        if ask(f"/@@write?id={{number}}&size=2000", "POST").status_int != 200:
            os._exit(3)
{fork}
    for known in range(1, number + 1):
        if ask(f"/@@has?id={{known}}").text != "1":
            os._exit(4)
"""


@pytest.mark.parametrize("how", CHILDREN)
@pytest.mark.parametrize("kind", ["file", "zeo", "postgres", "mariadb"])
def test_r12_a_child_that_ends_does_not_disturb_its_parent(
    kind: str, how: str, place: Path, new_name: Callable[[], str], request: pytest.FixtureRequest
) -> None:
    if kind == "file":
        uri = f"file://{place}/Data.fs"
    else:
        server = request.getfixturevalue(kind)
        if kind != "zeo":
            server.create(name := new_name())
        uri = server.uri() if kind == "zeo" else server.uri(name)
    done = run_parent(place, uri, how)
    assert done.returncode == 0, done.stdout + done.stderr
    stored = stored_in(uri)[0]
    assert [stored.get(str(number)) for number in range(1, WRITES + 1)] == [1] * WRITES
    assert "Traceback" not in done.stderr, done.stderr
    if "view" not in how:
        assert ("False GET / 503" if kind == "file" else "False GET / 200") in done.stdout


@pytest.mark.parametrize("how", CHILDREN)
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_r12_nor_does_it_on_tables(
    kind: str, how: str, place: Path, new_name: Callable[[], str], request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue(kind)
    server.create(name := new_name())
    server.ask(TABLES, name) if kind == "postgres" else server.ask(f"USE `{name}`; {TABLES}")
    done = run_parent(place, server.url(name), how, order=SQL_ORDER)
    assert done.returncode == 0, done.stdout + done.stderr
    stored = rows_in(server, name)
    assert [stored.get(str(number)) for number in range(1, WRITES + 1)] == [1] * WRITES
    assert "Traceback" not in done.stderr, done.stderr


def run_parent(place: Path, uri: str, how: str, **options: object) -> subprocess.CompletedProcess[str]:
    """A process that writes, forks a child, and reads and writes again. Every second child sends a request."""
    site = Site(place / "site", uri, publisher={"scan": "faults.site __main__"}, **options)
    fork = textwrap.indent(textwrap.dedent(CHILDREN[how]), "    ")
    if "view" in how:
        fork = fork.replace('"/fork"', 'f"/@@fork?id=f{turn}"')
    script = place / "parent.py"
    script.write_text(PARENT.format(fork=fork, turns=TURNS))
    return subprocess.run(
        [sys.executable, "-W", "ignore", script, site.ini],
        env=os.environ | site.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


INSIDE = """\
import gc, logging, multiprocessing, os, signal, sys
from persistent.mapping import PersistentMapping
from pipeline import Pipeline, element
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.zodb import zodb
from webob import Request

uri, how = sys.argv[1], ""
signal.alarm(60)
logging.basicConfig(level=logging.CRITICAL)

@element
def end():
    def end(request, response):
        response.text = str(VIEWS[request.path_info](request.root, request))
    return end

def make(root, request):
    for number in range(50):
        root[str(number)] = PersistentMapping(value=number)
    root["changed"] = PersistentMapping(value="as it was")
    root["count"] = PersistentMapping(value=0)

def load(request):
    for number in range(50):
        assert request.root[str(number)]["value"] == number

def uses(request):
    "Every use that a child may think of, of what its parent has taken."
    root, connection, tm = request.root, request.zodb, request.tm
    db, changed, thing, ghost = connection.db(), root["changed"], root["0"], root["1"]
    changed["value"] = "by the parent, not stored yet"
    new = PersistentMapping()
    root["new"] = new
    connection.add(new)
    transaction = tm.get()
    load(request)
    ghost._p_deactivate()
    oid = thing._p_oid
    return [
        lambda: thing["value"], lambda: ghost["value"], lambda: changed["value"], lambda: root["2"],
        lambda: changed.__setitem__("value", "by the child"), lambda: root.__setitem__("child", 1),
        lambda: new.__setitem__("value", "by the child"), lambda: changed.__delitem__("value"),
        lambda: setattr(thing, "_p_changed", True), lambda: setattr(thing, "a", 1), lambda: new._p_jar.root(),
        lambda: connection.root(), lambda: connection.root.x, lambda: connection.get(oid),
        lambda: connection[oid], lambda: connection.add(PersistentMapping()), lambda: connection.sync(),
        lambda: connection.new_oid(), lambda: connection.db(), lambda: connection.close(),
        lambda: connection.get_connection(""), lambda: connection.isReadOnly(), lambda: connection.cacheMinimize(),
        lambda: db.open(), lambda: db.storage, lambda: db.pack(), lambda: db.close(), lambda: db.lastTransaction(),
        tm.begin, tm.get, tm.commit, tm.abort, tm.savepoint, tm.isDoomed, tm.doom, lambda: tm.registerSynch(db),
        lambda: request.root["3"], lambda: request.zodb.root(), lambda: request.tm.begin(),
    ]

def raises(use):
    try:
        use()
    except Exception:
        return True
    return False

def work(uses, told):
    signal.alarm(30)
    allowed = [number for _ in range(50) for number, use in enumerate(uses) if not raises(use)]
    gc.collect()
    os.write(told, repr(allowed).encode())

def fork(root, request):
    found = uses(request)
    reading, told = os.pipe()
    if how == "multiprocessing":
        process = multiprocessing.get_context("fork").Process(target=work, args=(found, told))
        process.start()
    else:
        pid = os.fork()
        if pid == 0:
            try:
                work(found, told)
            finally:
                os._exit(0) if how == "os._exit" else sys.exit(0)
    os.close(told)
    for turn in range(300):
        request.zodb.cacheMinimize()
        load(request)
    assert root["changed"]["value"].startswith("by the parent")
    root["count"]["value"] += 1
    said = os.read(reading, 1000).decode()
    os.close(reading)
    if how == "multiprocessing":
        process.join(30)
    else:
        os.waitpid(pid, 0)
    return said

def count(root, request):
    load(request)
    root["count"]["value"] += 1
    return root["count"]["value"], root["changed"]["value"], sorted(set(root) - set(map(str, range(50))))

VIEWS = {"/make": make, "/fork": fork, "/count": count}
app = Pipeline(retry(), zodb(uri=uri, max_connections=4), errors(), transaction(), end())

def ask(path):
    answer = Request.blank(path, method="POST").get_response(app)
    print(answer.status_int, answer.text, flush=True)

me = os.getpid()
ask("/make")
for how in ("os._exit", "sys.exit", "multiprocessing"):
    for turn in range(3):
        ask("/fork")
        ask("/count")
print(os.getpid() == me)
"""


@pytest.mark.parametrize("kind", ["file", "sqlite", "zeo", "postgres", "mariadb"])
def test_r13_a_fork_inside_a_view(
    kind: str, place: Path, new_name: Callable[[], str], request: pytest.FixtureRequest
) -> None:
    """The child is refused whatever its parent has taken, at once, while the parent reads and writes."""
    if kind in ("file", "sqlite"):
        uri = {"file": f"file://{place}/Data.fs", "sqlite": f"sqlite://?data_dir={place}/data"}[kind]
    else:
        server = request.getfixturevalue(kind)
        if kind != "zeo":
            server.create(name := new_name())
        uri = server.uri() if kind == "zeo" else server.uri(name)
    script = place / "inside.py"
    script.write_text(INSIDE)
    command = [sys.executable, "-W", "ignore", script, uri]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
    turns = [
        line
        for turn in range(1, 10)
        for line in ("200 []", f"200 ({2 * turn}, 'by the parent, not stored yet', ['changed', 'count', 'new'])")
    ]
    assert done.stdout.splitlines() == ["200 None", *turns, "True"], done.stdout + done.stderr
