"""The bytes of a file in the database: a blob where the storage has them, otherwise pages.

``store`` reads a stream to its end, in pieces; ``Content.read`` gives any part of it back, in
pieces too, so that no file is ever in memory as a whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, BinaryIO, Protocol

from persistent import Persistent
from ZODB.blob import Blob
from ZODB.interfaces import IBlobStorage

PIECE = 256 * 1024
"""Bytes that are in memory at a time."""


class TooLarge(ValueError):
    """A stream with more bytes than the limit."""


class Content(Persistent):  # type: ignore[misc, unused-ignore]
    """Bytes that do not change any more, with their ``size`` and ``sha256``."""

    size = 0
    sha256 = ""

    def read(self, start: int = 0, stop: int | None = None) -> Part:
        """The bytes from ``start`` to ``stop``, to be iterated over and closed."""
        stop = self.size if stop is None else min(stop, self.size)
        return Part(self, self._open(start), start, stop)

    def _open(self, start: int) -> _Source:
        raise NotImplementedError


class Part:
    """Iterates over a part of the content. WebOb asks it for the part that a Range header names."""

    def __init__(self, content: Content, source: _Source, start: int, stop: int) -> None:
        self._content = content
        self._source = source
        self._left = max(stop - start, 0)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        piece = self._source.read(min(self._left, PIECE))
        if not piece:
            raise StopIteration
        self._left -= len(piece)
        return piece

    def close(self) -> None:
        self._source.close()

    def app_iter_range(self, start: int, stop: int | None) -> Part:
        """Another part of the same content, in place of this one."""
        self.close()
        return self._content.read(start, stop)


class _Source(Protocol):
    def read(self, size: int, /) -> bytes: ...
    def close(self) -> None: ...


class _BlobContent(Content):
    def __init__(self) -> None:
        self._blob: Any = Blob()

    def write(self, pieces: Iterator[bytes]) -> None:
        with self._blob.open("w") as file:
            for piece in pieces:
                file.write(piece)

    def _open(self, start: int) -> _Source:
        # "c" is a plain file that outlives the transaction and the connection.
        file: BinaryIO = self._blob.open("c")
        file.seek(start)
        return file


class _Page(Persistent):  # type: ignore[misc, unused-ignore]
    def __init__(self, data: bytes) -> None:
        self.data = data


class _PagedContent(Content):
    _pages: tuple[_Page, ...] = ()

    def write(self, pieces: Iterator[bytes]) -> None:
        self._pages = tuple(_Page(piece) for piece in pieces)

    def _open(self, start: int) -> _Source:
        return _PageReader(self._pages, start)


class _PageReader:
    """Reads pages, all of them PIECE bytes long but the last, and lets go of each one it is done with."""

    def __init__(self, pages: tuple[_Page, ...], start: int) -> None:
        self._pages = pages
        self._place = start

    def read(self, size: int) -> bytes:
        index, offset = divmod(self._place, PIECE)
        if index >= len(self._pages):
            return b""
        page = self._pages[index]
        data = page.data[offset : offset + size]
        page._p_deactivate()
        self._place += len(data)
        return data

    def close(self) -> None:
        self._pages = ()


def store(stream: BinaryIO, jar: Any, limit: int) -> Content:
    """Read ``stream`` to its end into new content that suits the database of connection ``jar``.

    TooLarge if there are more than ``limit`` bytes; then, as with any error, nothing is left.
    """
    blobs = jar is not None and IBlobStorage.providedBy(jar.db().storage)
    content: _BlobContent | _PagedContent = _BlobContent() if blobs else _PagedContent()
    digest = hashlib.sha256()
    size = 0

    def pieces() -> Iterator[bytes]:
        nonlocal size
        while piece := read_full(stream, PIECE):
            size += len(piece)
            if size > limit:
                raise TooLarge(f"more than {limit} bytes")
            digest.update(piece)
            yield piece

    content.write(pieces())
    content.size, content.sha256 = size, digest.hexdigest()
    return content


def read_full(stream: BinaryIO, size: int) -> bytes:
    """``size`` bytes, or fewer at the end; a raw stream may give fewer at any time."""
    data = stream.read(size)
    while data and len(data) < size and (more := stream.read(size - len(data))):
        data += more
    return data
