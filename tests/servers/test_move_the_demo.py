"""One line of the ini moves the demo site from its file to ZEO, PostgreSQL, MariaDB, and back."""

from __future__ import annotations

import difflib
import hashlib
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.load import get, post
from servers.base import Server, connects
from servers.mariadb import MariaDB
from servers.postgres import Postgres
from servers.zeo import ZEO

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]

INI = Path(__file__).resolve().parents[2] / "etc" / "deploy.ini"
PASTER = Path(sys.executable).with_name("paster")
PICTURE = random.Random(0).randbytes(600_000)


def pipeline(*arguments: str | Path) -> str:
    """Run the command ``pipeline``; its output."""
    command = [sys.executable, "-m", "pipeline.tools.command", *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


class Demo(Server):
    """The demo site, served by ``paster serve`` from an ini of which one line is changed."""

    def __init__(self, directory: Path, uri: str) -> None:
        super().__init__(directory)
        before = INI.read_text().splitlines()
        after = [f"zodb_uri = {uri}" if line.startswith("zodb_uri =") else line for line in before]
        changed = [line for line in difflib.ndiff(before, after) if line.startswith("+ ")]
        assert changed == [f"+ zodb_uri = {uri}"]
        self.ini = directory / "deploy.ini"
        self.ini.write_text("\n".join(after))

    def command(self) -> list[str | Path]:
        return [PASTER, "serve", self.ini, f"http_port={self.port}"]

    def is_up(self) -> bool:
        return connects(self.port)


def test_the_demo_moves(
    servers_dir: Path, zeo: ZEO, postgres: Postgres, mariadb: MariaDB, new_name: Callable[[], str]
) -> None:
    postgres.create(first := new_name())
    mariadb.create(second := new_name())
    place = servers_dir / new_name()

    def directory(name: str) -> Path:
        (place / name).mkdir(parents=True)
        return place / name

    def cache(name: str) -> str:
        return f"blob_dir={directory(name)}&shared_blob_dir=0"

    home, back = directory("home"), directory("back")
    engines = {
        "file": f"file://{home}/Data.fs?blobstorage_dir={home}/blobs",
        "ZEO": zeo.uri(options=cache("zeo")),
        "PostgreSQL": postgres.uri(first, options=cache("postgres")),
        "MariaDB": mariadb.uri(second, options=cache("mariadb")),
        "file again": f"file://{back}/Data.fs?blobstorage_dir={back}/blobs",
    }
    content = directory("content")
    (content / "chapter.md").write_text("# A chapter\n\nThat wanders from engine to engine.\n")
    (content / "picture.png").write_bytes(PICTURE)
    pipeline("demo-import", content, "--into", "/book", "--zodb", engines["file"])
    before = ""
    for number, (engine, uri) in enumerate(engines.items(), 1):
        if before:
            assert "Copied" in pipeline("copy-database", before, uri)
        before = uri
        demo = Demo(directory(f"on-{number}"), uri)
        demo.start()
        try:
            page = get(demo.port, "/book/chapter.md")
            assert page.status == 200, engine
            assert b"wanders from engine to engine" in page.body
            picture = get(demo.port, "/book/picture.png")
            assert picture.status == 200, engine
            assert hashlib.sha256(picture.body).digest() == hashlib.sha256(PICTURE).digest()
            # Each engine is written to, and the next one knows of it.
            taken = post(demo.port, "/counter/@@next", b"")
            assert (taken.status, taken.body) == (200, b"%d" % number), engine
        finally:
            demo.stop()
        print(f"the demo site on {engine}: complete, and written to")
