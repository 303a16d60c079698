"""Importing a directory: every file is in the site, or named with the reason why not."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pipeline.http.files import FileBody
from pipeline_demo import importer, root, site
from pipeline_demo.filing import MAX_DEPTH, Found, NotImported, content_type_of, file_into, find, printable
from pipeline_demo.models import Document, Folder, Site

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A directory of what people have, good and bad."""
    top = tmp_path / "top"
    (top / "sub" / "deeper").mkdir(parents=True)
    (top / "one.md").write_text("# One\n\ntext\n")
    (top / "two.rst").write_text("Two\n===\n\ntext\n")
    (top / "three.html").write_text("<title>Three</title><p>text")
    (top / "four.txt").write_bytes(b"\xef\xbb\xbfwith a mark\r\n")
    (top / "sub" / "pixel.png").write_bytes(PNG)
    (top / "sub" / "deeper" / "data.bin").write_bytes(bytes(range(256)) * 2000)
    (top / "sub" / "M\u00fcller.md").write_text("no heading")
    return top


BAD = {
    "latin.md": "not UTF-8: byte 0xfc at 1",
    "control.txt": "control character",
    "_private.md": "may not begin with",
    "large.txt": "more than 1,048,576 bytes",
    "dangling.md": "No such file",
    "outside.md": "leads out of the directory",
    "linked": "link to a directory",
    "pipe": "not a regular file",
    os.fsdecode(b"bad\xff.md"): "invisible character",
    "loop": "link to a directory",
}


@pytest.fixture
def bad(top: Path) -> Path:
    (top / "latin.md").write_bytes("für".encode("latin-1"))
    (top / "control.txt").write_bytes(b"a\0b")
    (top / "_private.md").write_text("x")
    (top / "large.txt").write_text("x" * (1024 * 1024 + 1))
    (top / "dangling.md").symlink_to("nowhere.md")
    (top.parent / "secret.md").write_text("secret")
    (top / "outside.md").symlink_to("../secret.md")
    (top / "linked").symlink_to("sub")
    (top / "loop").symlink_to(".")
    os.mkfifo(top / "pipe")
    (top / os.fsdecode(b"bad\xff.md")).write_text("x")
    (top / ".hidden").write_text("x")
    (top / "inside.md").symlink_to("one.md")
    return top


def run(uri: str, *arguments: str | Path) -> int:
    return importer.main([*map(str, arguments), "--zodb", uri])


@pytest.fixture
def uri(tmp_path: Path, known_password: str, no_documentation: None) -> str:
    return f"file://{tmp_path}/Data.fs?blobstorage_dir={tmp_path}/blobs"


class Stored:
    """The site as another process would find it."""

    def __init__(self, uri: str) -> None:
        self.context = site.connected(uri)

    def __enter__(self) -> Any:
        connection = self.context.__enter__()
        connection.transaction_manager.begin()
        return root(connection.root())

    def __exit__(self, *error: Any) -> None:
        self.context.__exit__(*error)


def test_what_becomes_of_a_directory(uri: str, top: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(uri, top, "--into", "/a/b") == 0
    out = capsys.readouterr().out
    assert "       7  imported\n" in out
    assert "       7  of 7 in" in out
    with Stored(uri) as stored:
        folder = stored["a"]["b"]
        assert [(folder[name].title, folder[name].format) for name in sorted(folder) if name != "sub"] == [
            ("four.txt", "text"),
            ("One", "markdown"),
            ("Three", "html"),
            ("Two", "rst"),
        ]
        assert folder["four.txt"].text == "with a mark\n"
        picture = folder["sub"]["pixel.png"]
        assert (picture.kind, picture.content_type, picture.content.size) == ("image", "image/png", len(PNG))
        with closing(folder["sub"]["deeper"]["data.bin"].content.open()) as file:
            assert b"".join(FileBody(file)) == bytes(range(256)) * 2000
        assert folder["sub"]["M\u00fcller.md"].title == "M\u00fcller.md"


def test_every_file_that_is_refused_is_named(uri: str, bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(uri, bad) == 1
    said = capsys.readouterr()
    lines = said.err.splitlines()
    for name, reason in BAD.items():
        (line,) = [line for line in lines if printable(f"/{name}:") in line]
        assert reason in line
    assert f"{len(BAD):8,}  not imported\n" in said.out
    assert "       8  imported\n" in said.out  # with the link that stays inside
    assert "       1  hidden" in said.out
    assert f"{8 + 1 + len(BAD):8,}  of {8 + 1 + len(BAD)} in" in said.out
    with Stored(uri) as stored:
        names = {item.__name__ for item in stored.walk()}
    assert not names & set(BAD)
    assert "inside.md" in names


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read(uri: str, top: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (top / "one.md").chmod(0)
    (top / "sub").chmod(0)
    try:
        assert run(uri, top) == 1
    finally:
        (top / "sub").chmod(0o755)
    assert capsys.readouterr().err.count("Permission denied") == 2


def test_a_directory_that_cannot_be_read_is_named(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    def scandir(path: Path) -> Any:
        if Path(path).name == "sub":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    (refused,) = [found for found in find(top) if found.refused]
    assert (refused.path.name, refused.refused) == ("sub", "Permission denied.")


def test_a_file_that_breaks_off_leaves_nothing(
    stored_site: Site, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def store(*arguments: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("pipeline_demo.filing.store", store)
    with pytest.raises(NotImported, match="Input/output error"):
        file_into(stored_site, Found(top / "sub" / "pixel.png", ("new", "pixel.png")))
    assert list(stored_site) == []


def test_importing_again(uri: str, top: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(uri, top)
    assert run(uri, top) == 0
    assert "       7  unchanged" in capsys.readouterr().out
    (top / "one.md").write_text("# One\n\nother text\n")
    (top / "sub" / "pixel.png").write_bytes(PNG + b"more")
    assert run(uri, top) == 0
    out = capsys.readouterr().out
    assert "       2  updated" in out
    assert "       5  unchanged" in out
    with Stored(uri) as stored:
        assert "other text" in stored["one.md"].text
        assert stored["sub"]["pixel.png"].content.size == len(PNG) + 4


def test_what_was_changed_on_the_site_is_not_overwritten(
    uri: str, top: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(uri, top)
    with Stored(uri) as stored:
        stored["one.md"].edit("One", "mine", "markdown")
        stored["new.md"] = Document("New", "mine")
        stored._p_jar.transaction_manager.commit()
    assert run(uri, top) == 0  # the files are as they were
    (top / "one.md").write_text("# One\n\ntheirs\n")
    (top / "new.md").write_text("theirs")
    capsys.readouterr()
    assert run(uri, top) == 1
    said = capsys.readouterr().err
    assert "one.md: It was changed on the site" in said
    assert "new.md: An item of this name on the site was not imported" in said
    with Stored(uri) as stored:
        assert (stored["one.md"].text, stored["new.md"].text) == ("mine", "mine")
    assert run(uri, top, "--force") == 0
    with Stored(uri) as stored:
        assert "theirs" in stored["one.md"].text
        assert stored["one.md"].revision == 3


def test_a_file_and_a_folder_of_one_name(stored_site: Site, top: Path) -> None:
    stored_site["one.md"] = Folder("F")
    stored_site["sub"] = Document("D")
    for parts, reason in [(("one.md",), "There is a folder"), (("sub", "x.md"), "'sub' on the path")]:
        with pytest.raises(NotImported, match=reason):
            file_into(stored_site, Found(top / "one.md", parts))


def test_interrupted_it_can_go_on(
    uri: str, top: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = importer.file_into, []

    def interrupted(*arguments: Any) -> Any:
        calls.append(1)
        outcome = real(*arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return outcome

    monkeypatch.setattr(importer, "file_into", interrupted)
    assert run(uri, top) == 130
    said = capsys.readouterr()
    assert "       2  imported" in said.out
    assert "goes on from here" in said.err
    monkeypatch.setattr(importer, "file_into", real)
    assert run(uri, top) == 0
    out = capsys.readouterr().out
    assert "       5  imported" in out
    assert "       2  unchanged" in out


def test_two_spellings_of_one_name(top: Path) -> None:
    (top / "sub" / "Mu\u0308ller.md").write_text("the other")
    refused = [found.refused for found in find(top) if found.refused]
    if len(os.listdir(top / "sub")) == 4:  # a file system that tells them apart
        assert len(refused) == 1
        assert "Another file here" in refused[0]


def test_too_deep(top: Path) -> None:
    path = top
    for _ in range(MAX_DEPTH + 2):
        path /= "d"
        path.mkdir()
    assert [found.refused for found in find(top) if found.refused] == [f"It is more than {MAX_DEPTH} folders deep."]


def test_large_files(stored_site: Site, top: Path) -> None:
    with pytest.raises(NotImported, match="more than 100 bytes"):
        file_into(stored_site, Found(top / "sub" / "pixel.png", ("pixel.png",)), max_file=100)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["/no/such/directory"], 2, "is not a directory"),
        ([".", "--into", "/a/_b"], 2, "may not begin with"),
        ([".", "--into", "/a/\x1b[31m"], 2, "invisible character"),
    ],
)
def test_bad_arguments(
    uri: str, arguments: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(uri, *arguments) == status
    err = capsys.readouterr().err
    assert said in err
    assert "\x1b" not in err


def test_a_database_in_use(uri: str, top: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with site.connected(uri):
        assert run(uri, top) == 1
    assert "please stop the server" in capsys.readouterr().err


def test_content_types() -> None:
    assert content_type_of("a.png") == "image/png"
    assert content_type_of("a.tar.gz") == "application/gzip"
    assert content_type_of("a.zip.br") == "application/octet-stream"
    assert content_type_of("nothing") == "application/octet-stream"


def test_files_are_found_in_one_order(top: Path) -> None:
    first = [found.parts for found in find(top)]
    copy = top.parent / "copy"
    shutil.copytree(top, copy)
    assert [found.parts for found in find(copy)] == first
