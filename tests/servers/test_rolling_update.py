"""An update of one instance after the other, with the steps of a stored class, and a backup meanwhile.

The class is changed in two steps. The version in the middle understands what the old one and the new one store, so
that two versions may run side by side (docs/howto/instances.rst).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import NoReturn

import pytest
from ZODB.DB import DB
from ZODB.FileStorage import FileStorage

from faults.length import length
from inis import BEHIND_NGINX, WITH_HEALTH, ini_of
from servers.base import Missing, find, wait_until
from servers.deployed import Deployed, Stopped, own
from servers.probes import Target
from servers.zeo import ZEO

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900)]

UPDATES = length(short=1, full=10)
CLIENTS = 16
PAUSE = length(short=0.4, full=0.1)
"""Seconds between two visits of a client. The processor is for the servers, which start anew."""
ORDER = ["vhost", "retry", "zodb", "errors", "transaction", "traverse"]
MODELS = """\
from BTrees.OOBTree import OOBTree
from persistent import Persistent
from pipeline import view

class Note(Persistent):
    def __init__(self, text):
        {stores}

    def read(self):
        return {reads}

def root(mapping):
    if "notes" not in mapping:
        mapping["notes"] = OOBTree()
    return mapping["notes"]

@view(context=OOBTree, name="add", methods=("POST",))
def add(notes, request):
    name = request.GET["id"]
    if name in notes:
        raise ValueError(f"{{name}} is stored twice")
    notes[name] = Note("text of " + name)
    return {version!r}

@view(context=OOBTree, name="read")
def read(notes, request):
    assert notes[request.GET["id"]].read() == "text of " + request.GET["id"]
    return {version!r}
"""
BOTH = "self.__dict__.get('title') or self.__dict__['text']"
VERSIONS = {
    "old": {"stores": "self.text = text", "reads": "self.text"},
    "both, stores the old one": {"stores": "self.text = text", "reads": BOTH},
    "both, stores the new one": {"stores": "self.title = text", "reads": BOTH},
}
"""The steps. What the new one stores can be read by all that run beside it."""


class Visitors:
    """Clients that each add a note and read one that somebody has added, until they are told to stop."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.stopping = Event()
        self.stored: list[str] = []
        self.versions: list[str] = []
        self.failed: list[str] = []
        self.pool = ThreadPoolExecutor(CLIENTS)
        self.visits = [self.pool.submit(self.visit, number) for number in range(CLIENTS)]

    def visit(self, visitor: int) -> None:
        number = 0
        while not self.stopping.is_set():
            number += 1
            name = f"{visitor}-{number}"
            self.ask("POST", f"/@@add?id={name}") and self.stored.append(name)
            self.ask("GET", f"/@@read?id={self.stored[-1 - number % min(16, len(self.stored))]}")
            time.sleep(PAUSE)

    def ask(self, method: str, path: str) -> bool:
        try:
            answer = self.target.ask(method, path, "Connection: close", "Content-Length: 0")
        except OSError as error:
            self.failed.append(f"{path}: {type(error).__name__}")
            return False
        if answer.status != 200 or not answer.whole:
            self.failed.append(f"{path}: {answer.status} {answer.body[:200]!r}")
            return False
        self.versions.append(answer.body.decode())
        return True

    def stop(self) -> None:
        self.stopping.set()
        for one in self.visits:
            one.result()
        self.pool.shutdown()


class Site:
    """Two instances, each with its own code, nginx in front of them, and ZEO behind."""

    def __init__(self, place: Path, zeo: ZEO, stack: ExitStack) -> None:
        self.place, self.zeo = place, zeo
        self.instances: list[Stopped] = []
        for number in range(2):
            code = place / f"code{number}"
            code.mkdir()
            zodb = f"uri = {zeo.uri()}\nroot = notes_of_the_site:root\nserver_sync = true"
            ini = WITH_HEALTH + ini_of(ORDER, "notes_of_the_site", "site", zodb=zodb, vhost=BEHIND_NGINX)
            (code / "site.ini").write_text(ini)
            self.put(number, "old")
            options = ("--workers", "2", "--drain", "4")
            python = Path(sys.executable)
            instance = Stopped(python, code / "site.ini", place / f"instance{number}", "gunicorn", *options)
            stack.callback(instance.kill)
            instance.start()
            self.instances.append(instance)
        upstreams = [word for one in self.instances for word in ("--upstream", f"127.0.0.1:{one.port}")]
        self.nginx = Deployed(python, place / "code0" / "site.ini", place / "proxy", "nginx", *upstreams)
        stack.callback(self.nginx.kill)
        self.nginx.start()

    def put(self, number: int, version: str) -> None:
        """Put the code of a version where an instance is loaded from."""
        code = MODELS.format(version=version, **VERSIONS[version])
        (self.place / f"code{number}" / "notes_of_the_site.py").write_text(code)

    def update(self, version: str) -> None:
        """Update one instance after the other, as the page says."""
        listed = self.nginx.directory / "instances.conf"
        for number, instance in enumerate(self.instances):
            instance.stop()
            self.put(number, version)
            instance.start()
            wait_until(lambda: listed.read_text().count("fail_timeout") == 2, 15, "nginx asks both")
            time.sleep(1.5)


@pytest.fixture
def site(public_dir: Path, zeo: ZEO, missing: Callable[[str, str], NoReturn]) -> Iterator[Site]:
    try:
        find("nginx", "apt install nginx libnginx-mod-stream")
        find("curl", "apt install curl")
    except Missing as error:
        missing(*error.args)
    place = public_dir / "rolling"
    place.mkdir()
    own(place)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        yield Site(place, zeo, stack)


def stored_in(file: Path) -> set[str]:
    db = DB(FileStorage(str(file), read_only=True))
    try:
        with db.transaction() as connection:
            return set(connection.root()["notes"])
    finally:
        db.close()


def test_an_update_fails_no_request_and_a_backup_has_what_was_acknowledged(site: Site, tmp_path: Path) -> None:
    repozo = str(Path(sys.executable).with_name("repozo"))
    file = str(site.zeo.directory / "Data.fs")
    visitors = Visitors(Target(site.nginx.port))
    try:
        wait_until(lambda: len(visitors.stored) > 20, 30, "notes are stored")
        for number in range(UPDATES):
            steps = list(VERSIONS)[1:] if number % 2 == 0 else list(VERSIONS)[-2::-1]
            for version in steps:
                before = len(visitors.stored)
                site.update(version)
                assert len(visitors.stored) > before
                seen = len(visitors.versions)
                time.sleep(1)
                assert set(visitors.versions[seen + CLIENTS :]) == {version}
            if number == 0:
                acknowledged = set(visitors.stored)
                for mode in ("-F", "-Q"):  # the whole database, then what was added meanwhile
                    acknowledged = set(visitors.stored)
                    command = [repozo, "-B", mode, "-r", str(tmp_path), "-f", file]
                    subprocess.run(command, check=True, capture_output=True)
                    time.sleep(1.1)  # the name of a backup has the second
                restored = tmp_path / "restored.fs"
                command = [repozo, "-R", "-r", str(tmp_path), "-o", str(restored)]
                subprocess.run(command, check=True, capture_output=True)
                assert acknowledged <= stored_in(restored)
    finally:
        visitors.stop()
    failed = visitors.failed
    print(f"{UPDATES} updates, {len(visitors.versions)} requests, {len(failed)} failed: {failed[:3]}")
    assert failed == []
    site.zeo.stop()
    assert set(visitors.stored) == stored_in(Path(file))


def test_old_code_beside_new_code_fails_without_the_step_between(site: Site) -> None:
    """The control: what the new version stores, the old one cannot read."""
    visitors = Visitors(Target(site.nginx.port))
    try:
        wait_until(lambda: len(visitors.stored) > 20, 30, "notes are stored")
        site.instances[0].stop()
        site.put(0, "both, stores the new one")
        site.instances[0].start()
        wait_until(lambda: visitors.failed, 20, "a request fails")
    finally:
        visitors.stop()
    assert all(": 500" in one for one in visitors.failed)
