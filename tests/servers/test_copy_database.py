"""``pipeline copy-database``: history, blobs and content arrive, and an interruption harms nothing."""

from __future__ import annotations

import hashlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import zodburi
from BTrees.OOBTree import OOBTree
from ZODB.blob import Blob
from ZODB.DB import DB

from pipeline.tools import copy_database
from servers.base import wait_until
from servers.mariadb import MariaDB
from servers.postgres import Postgres
from servers.zeo import ZEO

COMMAND = [sys.executable, "-m", "pipeline.tools.command", "copy-database"]


def copying(arguments: list[str]) -> subprocess.Popen[str]:
    """The command at work; it heeds Ctrl-C, though the tests may run where that is ignored: in the background."""
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen([*COMMAND, *arguments], stderr=subprocess.PIPE, text=True, preexec_fn=heed)


@contextmanager
def database(uri: str) -> Iterator[DB]:
    factory, options = zodburi.resolve_uri(uri)
    db = DB(factory(), **options)
    try:
        yield db
    finally:
        db.close()


def fill(uri: str, transactions: int = 20, *, blobs: bool = False) -> None:
    """A tree that grows by one entry in each transaction."""
    with database(uri) as db:
        with db.transaction() as connection:
            connection.root()["tree"] = OOBTree()
        for number in range(transactions):
            with db.transaction(f"transaction {number}") as connection:
                tree = connection.root()["tree"]
                tree[f"{number}"] = "x" * number
                if blobs and number % 5 == 0:
                    tree[f"blob {number}"] = Blob(b"first %d" % number)
                if blobs and number % 5 == 1:  # a second revision of it
                    with tree[f"blob {number - 1}"].open("w") as file:
                        file.write(b"blob %d" % (number - 1))


def content(uri: str) -> dict[str, Any]:
    found = {}
    with database(uri) as db, db.transaction() as connection:
        for key, value in connection.root()["tree"].items():
            if isinstance(value, Blob):
                with value.open() as file:
                    value = file.read()
            found[key] = value
    return found


def history(uri: str) -> list[tuple[bytes, str]]:
    factory, _ = zodburi.resolve_uri(uri)
    storage = factory()
    found = [(t.tid, t.description.decode() if isinstance(t.description, bytes) else t.description)
             for t in storage.iterator()]  # fmt: skip
    storage.close()
    return found


def fingerprint(directory: Path) -> dict[str, str]:
    """All files that hold data; not the lock, and not the index, which is made anew from the data."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.endswith((".lock", ".index", ".tmp"))
    }


@pytest.fixture
def here(tmp_path: Path) -> Callable[..., str]:
    """``here("a", blobs=True)``: the URI of a file storage in a directory of that name."""

    def here(name: str, *, blobs: bool = False) -> str:
        (tmp_path / name).mkdir(exist_ok=True)
        uri = f"file://{tmp_path / name}/Data.fs"
        return f"{uri}?blobstorage_dir={tmp_path / name}/blobs" if blobs else uri

    return here


@pytest.mark.parametrize("terminal", [True, False])
def test_the_progress_is_lines(
    here: Callable[..., str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    fill(here("a"), 2)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(copy_database.Lines, "EVERY", 0)
    assert copy_database.main([here("a"), here("b")]) == 0
    lines = "1 of 4 transactions\n2 of 4 transactions\n3 of 4 transactions\n4 of 4 transactions\n"
    assert capsys.readouterr().err == (lines if terminal else "")
    assert content(here("b")) == content(here("a"))


def test_file_to_file(here: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    fill(here("a"))
    assert copy_database.main([here("a"), here("b")]) == 0
    assert content(here("b")) == content(here("a"))
    assert history(here("b")) == history(here("a"))
    assert "Copied 22 transactions, the last of them of 20" in capsys.readouterr().out


def test_blobs(here: Callable[..., str]) -> None:
    fill(here("a", blobs=True), blobs=True)
    assert copy_database.main([here("a", blobs=True), here("b", blobs=True)]) == 0
    assert content(here("b", blobs=True)) == content(here("a", blobs=True))


def test_blobs_are_not_lost(here: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    fill(here("a", blobs=True), blobs=True)
    assert copy_database.main([here("a", blobs=True), here("b")]) == 1
    assert "no place for them: give its URI blobstorage_dir=" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["all", "one"])
def test_a_blob_whose_file_is_missing_is_told(
    here: Callable[..., str], capsys: pytest.CaptureFixture[str], tmp_path: Path, missing: str
) -> None:
    fill(here("a", blobs=True), blobs=True)
    files = sorted((tmp_path / "a" / "blobs").rglob("*.blob"))
    for file in files if missing == "all" else files[:1]:
        file.unlink()
    assert copy_database.main([here("a", blobs=True), here("b", blobs=True)]) == 1
    said = capsys.readouterr()
    count = len(files) if missing == "all" else 1
    assert said.out.startswith("Copied 22 transactions") and f"{count} files of blobs are not in FROM" in said.err
    assert len(list((tmp_path / "b" / "blobs").rglob("*.blob"))) == len(files) - count


def test_blobs_whose_directory_is_not_named_are_not_lost(
    here: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What stood before the first one is copied, and the rest is continued with the directory."""
    fill(here("from", blobs=True), blobs=True)
    for blobs in (False, True):
        assert copy_database.main(["--continue", here("from"), here("to", blobs=blobs)]) == 1
        assert "FROM has blobs since 2" in capsys.readouterr().err
    assert copy_database.main(["--continue", here("from", blobs=True), here("to", blobs=True)]) == 0
    assert content(here("to", blobs=True)) == content(here("from", blobs=True))
    assert history(here("to")) == history(here("from"))


def test_what_is_not_empty_is_refused(here: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    fill(here("a"))
    fill(here("b"), 3)
    before = content(here("b"))
    assert copy_database.main([here("a"), here("b")]) == 1
    assert "TO is not empty" in (said := capsys.readouterr().err)
    assert "--continue" in said
    assert content(here("b")) == before


@pytest.mark.parametrize("go_on", [False, True])
@pytest.mark.parametrize("with_index", [False, True])
@pytest.mark.parametrize("fault", ["header", "data", "length", "zeros", "middle"])
def test_a_source_that_was_cut_is_refused(
    here: Callable[..., str], capsys: pytest.CaptureFixture[str], fault: str, with_index: bool, go_on: bool
) -> None:
    """Before anything is copied. The error names the file, and the place where its last whole transaction ends."""
    fill(here("a"), 3)
    assert copy_database.main([here("a"), here("b")]) == 0
    fill_more(here("a"), 20)
    source = Path(here("a").removeprefix("file://"))
    if not with_index:
        Path(f"{source}.index").unlink()
    ends = ends_of(source)
    place = ends[-2]
    with source.open("r+b") as file:
        if fault == "zeros":
            file.seek(place)
            file.write(bytes(ends[-1] - place))
        elif fault == "middle":  # the length behind a transaction is not the one ahead of it
            place = ends[-5]
            file.seek(ends[-4] - 8)
            file.write(b"\0" * 8)
        else:
            file.truncate({"header": place + 10, "data": place + 60, "length": ends[-1] - 3}[fault])
    target = here("b" if go_on else "c")
    before = history(target)
    assert copy_database.main([*["--continue"] * go_on, here("a"), target]) == 1
    said = capsys.readouterr().err
    assert str(source) in said, said
    if (fault, with_index) not in (("middle", False), ("zeros", True)):  # ZODB finds them when it opens the file
        assert f"byte {place} on" in said, said
    assert history(target) == before


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # ZODB leaves the file open
@pytest.mark.parametrize("around", ["", "zodb", "blobstorage", "demostorage"])
def test_a_source_of_zconfig_is_as_it_was(
    here: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str], around: str
) -> None:
    """ZODB would cut the rest of a file off, if it may write it."""
    fill(here("a"), 3)
    source = Path(here("a").removeprefix("file://"))
    section = f"<filestorage>\n  path {source}\n</filestorage>"
    if around:
        blobs = f"  blob-dir {tmp_path}/blobs\n" if around == "blobstorage" else ""
        section = f"<{around}>\n{blobs}{section}\n</{around}>"
    (tmp_path / "site.conf").write_text(section)
    uri = f"zconfig://{tmp_path}/site.conf"
    target = [here("whole", blobs=around in ("blobstorage", "demostorage"))]
    assert copy_database.main([uri, *target]) == 0, capsys.readouterr().err
    assert history(here("whole")) == history(here("a"))
    with source.open("r+b") as file:
        file.truncate(source.stat().st_size - 3)
    cut = source.read_bytes()
    copy_database.main(["--continue", uri, *target])
    assert source.read_bytes() == cut
    assert not list(source.parent.glob("*.tr*"))
    if around != "demostorage":
        assert f"{source}, cannot be read from byte" in capsys.readouterr().err


def test_a_commit_that_has_not_ended_is_no_cut(here: Callable[..., str]) -> None:
    """Of a process that writes the source while it is copied, or was killed."""
    fill(here("a"))
    source = Path(here("a").removeprefix("file://"))
    known = history(here("a"))
    last = ends_of(source)[-2]
    with source.open("r+b") as file:
        file.seek(last + 16)  # the status, behind the id and the length
        file.write(b"c")
        file.seek(-20, 2)
        file.truncate()
    copied = source.read_bytes()
    assert copy_database.main([here("a"), here("b")]) == 0
    assert history(here("b")) == known[:-1]
    assert source.read_bytes() == copied


def fill_more(uri: str, transactions: int) -> None:
    with database(uri) as db:
        for number in range(transactions):
            with db.transaction() as connection:
                connection.root()["tree"][f"more {number}"] = "x" * number


def ends_of(path: Path) -> list[int]:
    """The place behind each transaction of a Data.fs."""
    data, place, ends = path.read_bytes(), 4, []
    while place < len(data):
        place += int.from_bytes(data[place + 8 : place + 16], "big") + 8
        ends.append(place)
    return ends


def test_another_database_is_not_continued(
    here: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    fill(here("a"))
    fill(here("b"), 3)
    assert copy_database.main(["--continue", here("a"), here("b")]) == 1
    assert "TO is not a beginning of FROM" in capsys.readouterr().err


def test_a_copy_is_brought_up_to_date(here: Callable[..., str]) -> None:
    fill(here("a"), 5)
    assert copy_database.main([here("a"), here("b")]) == 0
    with database(here("a")) as db, db.transaction() as connection:
        connection.root()["tree"]["later"] = "too"
    assert copy_database.main(["--continue", here("a"), here("b")]) == 0
    assert content(here("b"))["later"] == "too"
    assert copy_database.main(["--continue", here("a"), here("b")]) == 0  # nothing left to do
    assert history(here("b")) == history(here("a"))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["file:///nowhere/Data.fs", "file:///nowhere/else.fs"], "cannot be opened"),
        (["gopher://x", "memory://"], "cannot be opened"),
    ],
)
def test_what_cannot_be_opened(arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert copy_database.main(arguments) == 1
    assert reason in capsys.readouterr().err


def test_no_password_is_printed(here: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    fill(here("a"), 2)
    for uri in ("postgres://joe:hunter2@127.0.0.1:1/x", "mariadb://joe:hunter2@127.0.0.1:1/x"):
        assert copy_database.main([here("a"), uri]) == 1
        assert copy_database.main([uri, here("a")]) == 1
    said = capsys.readouterr().err
    assert said.count("cannot be opened") == 4 and "hunter2" not in said


def test_a_missing_source_is_not_made(here: Callable[..., str], tmp_path: Path) -> None:
    assert copy_database.main([here("a"), here("b")]) == 1
    assert not (tmp_path / "a" / "Data.fs").exists()


@pytest.fixture(scope="module")
def long_one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a database of 1,202 transactions."""
    path = tmp_path_factory.mktemp("long")
    fill(f"file://{path}/Data.fs?blobstorage_dir={path}/blobs", 1200, blobs=True)
    return path


@pytest.mark.once
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted(
    here: Callable[..., str], tmp_path: Path, long_one: Path, number: signal.Signals
) -> None:
    """The source stays as it was, and the copy goes on where it ended."""
    shutil.copytree(long_one, tmp_path / "a")
    before = fingerprint(tmp_path / "a")
    arguments = [here("a", blobs=True), here("b", blobs=True)]
    process = copying(arguments)
    target = tmp_path / "b" / "Data.fs"
    wait_until(lambda: target.exists() and target.stat().st_size > 20_000, 60, "some is copied", 0.001)
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    assert process.returncode != 0
    assert fingerprint(tmp_path / "a") == before
    copied = history(here("b"))
    assert 0 < len(copied) < 1202
    again = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True)
    assert again.returncode == 1
    assert "--continue" in again.stderr
    if number != signal.SIGKILL:
        assert "interrupted, after" in said
        assert "pipeline copy-database --continue FROM TO" in said
    assert copy_database.main(["--continue", *arguments]) == 0
    assert history(here("b")) == history(here("a"))
    assert content(here("b", blobs=True)) == content(here("a", blobs=True))
    assert fingerprint(tmp_path / "a") == before


@pytest.mark.servers
def test_round_trip_over_every_engine(
    here: Callable[..., str],
    tmp_path: Path,
    zeo: ZEO,
    postgres: Postgres,
    mariadb: MariaDB,
    new_name: Callable[[], str],
) -> None:
    """From a file to ZEO, to PostgreSQL, to MariaDB and back to a file: the same content and history."""
    postgres.create(first := new_name())
    mariadb.create(second := new_name())

    def cache(name: str) -> str:
        (tmp_path / name).mkdir()
        return f"blob_dir={tmp_path / name}&shared_blob_dir=0"

    uris = [
        here("a", blobs=True),
        zeo.uri(options=cache("zeo")),
        postgres.uri(first, options=cache("postgres")),
        mariadb.uri(second, options=cache("mariadb")),
        here("b", blobs=True),
    ]
    fill(uris[0], 40, blobs=True)
    expected, past = content(uris[0]), history(uris[0])
    for source, target in pairwise(uris):
        assert copy_database.main([source, target]) == 0
        assert content(target) == expected, target
        assert history(target) == past, target


@pytest.mark.servers
def test_a_blob_whose_file_is_missing_is_told_by_each_engine(
    here: Callable[..., str],
    tmp_path: Path,
    zeo: ZEO,
    postgres: Postgres,
    new_name: Callable[[], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill(here("a", blobs=True), blobs=True)
    next((tmp_path / "a" / "blobs").rglob("*.blob")).unlink()
    postgres.create(name := new_name())
    for place in ("zeo", "postgres"):
        (tmp_path / place).mkdir()
    cache = "blob_dir={}&shared_blob_dir=0"
    for target in (
        zeo.uri(options=cache.format(tmp_path / "zeo")),
        postgres.uri(name, options=cache.format(tmp_path / "postgres")),
    ):
        assert copy_database.main([here("a", blobs=True), target]) == 1
        assert "1 files of blobs are not in FROM" in capsys.readouterr().err


@pytest.mark.servers
def test_what_keeps_no_history(
    here: Callable[..., str], postgres: Postgres, mariadb: MariaDB, new_name: Callable[[], str]
) -> None:
    """A storage that keeps no history gets the content, and gives it back."""
    postgres.create(first := new_name())
    mariadb.create(second := new_name())
    uris = [
        here("a"),
        postgres.uri(first, options="keep_history=false"),
        mariadb.uri(second, options="keep_history=false"),
        here("b"),
    ]
    fill(uris[0])
    for source, target in pairwise(uris):
        assert copy_database.main([source, target]) == 0
        assert content(target) == content(uris[0]), target


@pytest.mark.servers
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_on_a_server(
    here: Callable[..., str], postgres: Postgres, new_name: Callable[[], str], number: signal.Signals
) -> None:
    postgres.create(name := new_name())
    fill(here("a"), 400)
    arguments = [here("a"), postgres.uri(name)]
    process = copying(arguments)

    def some() -> bool:
        try:
            return int(postgres.ask("SELECT count(*) FROM transaction", name)) > 20
        except RuntimeError:  # there is no such table yet
            time.sleep(0.05)
            return False

    wait_until(some, 60, "some is copied")
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert 0 < len(history(postgres.uri(name))) < 402
    assert copy_database.main(["--continue", *arguments]) == 0
    assert history(postgres.uri(name)) == history(here("a"))
    assert content(postgres.uri(name)) == content(here("a"))


@pytest.mark.servers
def test_killed_while_it_makes_the_tables(
    here: Callable[..., str], mariadb: MariaDB, new_name: Callable[[], str]
) -> None:
    """MariaDB commits each table by itself; some of them must not be in the way of the next copy."""
    fill(here("a"), 30)
    mariadb.create(name := new_name())
    arguments = [here("a"), mariadb.uri(name)]
    tables = f"SELECT count(*) FROM information_schema.tables WHERE table_schema = '{name}'"
    for wanted in (1, 3, 6, 9):
        process = copying(arguments)
        wait_until(lambda wanted=wanted: int(mariadb.ask(tables)) >= wanted, 60, "tables are made", 0.001)
        process.kill()
        said = process.communicate(timeout=60)[1]
        assert "secret" not in said
    assert copy_database.main(["--continue", *arguments]) == 0
    assert history(mariadb.uri(name)) == history(here("a"))
    assert content(mariadb.uri(name)) == content(here("a"))


@pytest.mark.servers
def test_the_hint_has_no_password(
    here: Callable[..., str], mariadb: MariaDB, new_name: Callable[[], str]
) -> None:
    fill(here("a"), 400)
    mariadb.create(name := new_name())
    process = copying([here("a"), mariadb.uri(name)])
    stored = f"SELECT count(*) FROM `{name}`.object_state"

    def some() -> bool:
        try:
            return int(mariadb.ask(stored)) > 5
        except RuntimeError:  # there is no such table yet
            return False

    wait_until(some, 60, "some is copied")
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[1]
    assert "pipeline copy-database --continue FROM TO" in said
    assert "secret" not in said
    assert copy_database.main(["--continue", here("a"), mariadb.uri(name)]) == 0
    assert content(mariadb.uri(name)) == content(here("a"))
