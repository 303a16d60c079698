"""A file of a blob that is sent while other requests change the blob."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from wsgiref.util import FileWrapper

import pytest
from persistent import Persistent
from ZODB.blob import Blob

from asking import ask, environ_of
from pipeline import Pipeline, view
from pipeline.elements.errors import errors
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import close_all, zodb
from pipeline.http.files import serve
from pipeline.publisher import publisher

SIZE = 200_000
MEANWHILE: list[Callable[[], object]] = []
"""What another visitor does while a view has opened a blob."""


class Upload(Persistent):  # type: ignore[misc]
    __parent__ = None

    def __init__(self) -> None:
        self.blob = Blob()


@view(context=Upload, name="fill", methods=("POST",))
def fill(upload: Upload, request: Any, response: Any) -> str:
    with upload.blob.open("w") as file:
        file.write(request.GET["byte"].encode() * SIZE)
    return "stored"


@view(context=Upload, name="returned")
def returned(upload: Upload, request: Any, response: Any) -> Any:
    file = upload.blob.open(request.GET["mode"])
    if MEANWHILE:
        MEANWHILE.pop()()
    return file


@view(context=Upload, name="served")
def served(upload: Upload, request: Any, response: Any) -> None:
    serve(request, response, upload.blob.open(request.GET["mode"]))


@view(context=Upload, name="new", methods=("POST",))
def new(upload: Upload, request: Any, response: Any) -> Any:
    fill(upload, request, response)
    return upload.blob.open("r")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Pipeline]:
    database = zodb(uri=f"file://{tmp_path}/Data.fs?blobstorage_dir={tmp_path}/blobs", root=root_of)
    yield Pipeline(retry(delay=0), database, errors(), transaction(), traverse(), publisher(scan=(__name__,)))
    close_all()


def root_of(root: Any) -> Upload:
    if "upload" not in root:
        root["upload"] = Upload()
    upload: Upload = root["upload"]
    return upload


@pytest.mark.parametrize("path", ["/returned?mode=r", "/returned?mode=c", "/served?mode=r", "/served?mode=c"])
@pytest.mark.parametrize("wrapper", [None, FileWrapper])
def test_a_visitor_gets_the_whole_blob_while_it_is_replaced(app: Pipeline, path: str, wrapper: Any) -> None:
    """The connection may be the next request's by then, and the news of the other blob closes its files."""
    assert ask(app, "/fill?byte=a", "POST").status == 200
    environ = environ_of(path, "GET", b"", {} if wrapper is None else {"wsgi.file_wrapper": wrapper})
    body = app(environ, lambda *arguments: None)
    blocks = iter(body)
    first = next(blocks)
    assert ask(app, "/fill?byte=b", "POST").status == 200
    assert ask(app, path).body == b"b" * SIZE
    assert first + b"".join(blocks) == b"a" * SIZE
    body.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", "rc")
def test_a_blob_that_is_replaced_before_its_first_block_is_sent_whole(app: Pipeline, mode: str) -> None:
    """The transaction that found it has ended, and what it has loaded is invalid."""
    assert ask(app, "/fill?byte=a", "POST").status == 200
    MEANWHILE.append(lambda: ask(app, "/fill?byte=b", "POST"))
    assert ask(app, f"/returned?mode={mode}").body == b"a" * SIZE
    assert ask(app, f"/returned?mode={mode}").body == b"b" * SIZE


def test_a_blob_of_this_request_is_sent_as_it_was_stored(app: Pipeline) -> None:
    assert ask(app, "/new?byte=a", "POST").body == b"a" * SIZE
