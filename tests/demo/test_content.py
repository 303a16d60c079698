"""The bytes of files: stored in pieces, read in parts, on both kinds of database."""

from __future__ import annotations

import hashlib
from contextlib import closing
from io import BytesIO
from typing import Any, BinaryIO

import pytest

from pipeline.http.files import FileBody
from pipeline_demo.content import PIECE, Content, TooLarge, read_full, store

DATA = bytes(range(256)) * (PIECE // 256 * 2 + 5)


def stored(connection: Any, data: bytes) -> Content:
    connection.root()["content"] = content = store(BytesIO(data), connection, len(data))
    connection.transaction_manager.commit()
    connection.cacheMinimize()
    return content


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, len(DATA)])
def test_what_goes_in_comes_out(connection: Any, size: int) -> None:
    content = stored(connection, DATA[:size])
    assert content.size == size
    assert content.sha256 == hashlib.sha256(DATA[:size]).hexdigest()
    with closing(content.open()) as file:
        assert b"".join(FileBody(file)) == DATA[:size]


@pytest.mark.parametrize(
    ("start", "stop"),
    [(0, 1), (1, 2), (PIECE - 1, PIECE + 1), (PIECE, len(DATA)), (5, 2 * PIECE + 9), (7, 7)],
)
def test_any_part(connection: Any, start: int, stop: int) -> None:
    content = stored(connection, DATA)
    with closing(content.open()) as file:
        body = FileBody(file)
        assert body.left == len(DATA)
        part = body.app_iter_range(start, stop)
        assert b"".join(part) == DATA[start:stop]
    file.close()


def test_pages_are_let_go(connection: Any) -> None:
    content = stored(connection, DATA)
    if type(content).__name__ == "_BlobContent":
        pytest.skip("a blob has no pages")
    loaded = 0
    for _ in FileBody(content.open()):
        loaded = max(loaded, sum(page._p_changed is not None for page in content._pages))
    assert loaded == 1


def test_a_file_outlives_its_connection_where_there_are_blobs(connection: Any) -> None:
    content = stored(connection, DATA)
    file = content.open()
    if type(content).__name__ == "_PagedContent":
        pytest.skip("pages are read from the database")
    connection.transaction_manager.begin()
    connection.cacheMinimize()
    with file:
        assert FileBody(file).state is not None
        assert file.read() == DATA


def test_a_limit(connection: Any) -> None:
    with pytest.raises(TooLarge):
        store(BytesIO(b"12345"), connection, 4)
    assert store(BytesIO(b"1234"), connection, 4).size == 4


def test_an_error_in_the_stream_leaves_nothing(connection: Any) -> None:
    class Breaks(BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() >= PIECE:
                raise OSError("broken")
            return super().read(size)

    with pytest.raises(OSError, match="broken"):
        store(Breaks(DATA), connection, len(DATA))
    assert not connection._registered_objects


def test_a_stream_that_gives_little_at_a_time() -> None:
    class Slow(BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(size or 0, 3))

    slow: BinaryIO = Slow(b"0123456789")
    assert read_full(slow, 8) == b"01234567"
    assert read_full(slow, 8) == b"89"
    assert read_full(slow, 8) == b""
