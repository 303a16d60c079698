"""Sites on a ZODB of a server are proved on copies: RelStorage, and ZEO while another client writes."""

from __future__ import annotations

import hashlib
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import transaction
import zodburi
from ZODB.blob import Blob
from ZODB.DB import DB

from inis import ini_of
from pipeline.database import forks
from pipeline.database.storages import open_to_read
from pipeline.proving.proof import Proof
from pipeline.staging.asked import asked
from pipeline.staging.copies import Copies
from proving import bugs
from proving.notes import Note, root

ORDER = ["retry", "zodb", "errors", "transaction", "forms", "authenticate", "traverse"]
LOGIN = {"Authorization": f"Basic {b64encode(b'editor:secret').decode()}"}
FILE = b'--edge\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\na file\r\n--edge--\r\n'
CORPUS = [asked("GET", "/"), asked("GET", "/@@stream"), asked("POST", "/@@add", [("text", "one")])]
CORPUS += [asked("POST", "/@@plain"), asked("PUT", "/@@title")._replace(body=b"put")]
CORPUS += [asked("DELETE", "/@@first").with_headers(LOGIN), asked("DELETE", "/@@first")]
UPLOAD = asked("POST", "/@@upload")._replace(body=FILE)
CORPUS += [UPLOAD.with_headers({"Content-Type": "multipart/form-data; boundary=edge"})]


class Stored:
    """A ZODB on a server, with a note and a file in it."""

    def __init__(self, uri: str, ini: Path) -> None:
        self.uri, self.ini = uri, str(ini)
        zodb = f"uri = {uri.replace('%', '%%')}\nroot = proving.notes:root"
        scan = "proving.notes proving.objects"
        ini.write_text(ini_of(ORDER, scan, zodb=zodb, authenticate="check = proving.objects:check"))
        self.write("first")

    def write(self, text: str) -> None:
        """Store a note as another client does."""
        storage, options = zodburi.resolve_uri(self.uri)
        with closing(DB(storage(), **options)) as db, db.transaction() as connection:
            notes = root(connection.root())
            notes.all[text] = Note(text)
            notes.count.change(1)
            notes.file = Blob(text.encode())

    def digest(self) -> str:
        """Return the digest of every transaction, byte for byte."""
        digest = hashlib.sha256()
        with closing(open_to_read(self.uri)) as storage:
            for one in storage.iterator():
                digest.update(one.tid)
                for record in one:
                    digest.update(record.oid + record.tid + (record.data or b""))
        return digest.hexdigest()


def uri_of(request: Any, kind: str, directory: Path) -> str:
    """Return the URI of a new database."""
    blobs = f"blob_dir={directory}/blobs"
    if kind == "sqlite":
        return f"sqlite://?data_dir={directory}/relstorage&{blobs}"
    server = request.getfixturevalue(kind)
    if kind == "zeo":
        return str(server.uri(options=blobs))
    name = request.getfixturevalue("new_name")()
    server.create(name)
    return str(server.uri(name, options=blobs))


KINDS = ["sqlite"] + [pytest.param(kind, marks=pytest.mark.servers) for kind in ("postgres", "mariadb", "zeo")]


@pytest.fixture(params=KINDS)
def stored(request: Any, tmp_path: Path) -> Iterator[Stored]:
    if request.param == "sqlite":
        if sys.version_info >= (3, 15):
            pytest.skip("RelStorage 4.3 crashes on Python 3.15, in its own cache")
        pytest.importorskip("relstorage")
    yield Stored(uri_of(request, request.param, tmp_path), tmp_path / "site.ini")
    forks.close_all()


def proved(stored: Stored, view: str) -> str:
    proof = Proof(stored.ini, corpus=CORPUS, view=view)
    with proof.loaded():
        proof.faults()
    assert [line.status for line in proof.report.lines] in ([200, 200, 302, 200, 200, 200, 401, 302], [302], [200])
    return "\n".join(f"{one.what} {one.request} [{one.plan}] {one.where}" for one in proof.report.found)


@pytest.mark.timeout(200)
def test_nothing_is_found_and_nothing_is_written(stored: Stored) -> None:
    before = stored.digest()
    assert proved(stored, "") == ""
    assert stored.digest() == before


def test_a_bug_that_is_put_back_is_found(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    bugs.commit_on_error(monkeypatch)
    before = stored.digest()
    assert "R3: it failed before the commit, and is stored" in proved(stored, "plain")
    assert stored.digest() == before


def test_what_others_write_meanwhile_is_not_seen(stored: Stored) -> None:
    copies = Copies()
    storage, options = zodburi.resolve_uri(stored.uri)
    with copies.in_use():
        copies.storage(stored.uri, storage)  # opens the base
        copies.freeze()
        stored.write("second")
        for _ in range(2):
            with closing(DB(copies.storage(stored.uri, storage), **options)) as db:
                with db.transaction() as connection:
                    notes = root(connection.root())
                    assert list(notes.all) == ["first"] and notes.count() == 1
                    with notes.file.open() as file:
                        assert file.read() == b"first"
                    stored.write("third")
                    notes.all["mine"] = Note("mine")
                with db.transaction() as connection:
                    assert list(root(connection.root()).all) == ["first", "mine"]
            assert not copies.stored().is_nothing
            copies.reset()
            transaction.abort()


def test_a_site_is_proved_while_another_client_writes(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    ask, left = Copies.reset, [5]

    def reset(self: Copies) -> None:
        ask(self)
        if left[0]:
            left[0] -= 1
            stored.write(f"other {left[0]}")

    monkeypatch.setattr(Copies, "reset", reset)
    assert proved(stored, "add") == ""
    assert left == [0]
