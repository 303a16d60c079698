"""The bytes of a file in the database: a blob if the storage supports blobs, otherwise pages.

``store`` reads a stream to its end, in pieces. The stream of ``Content.open`` is read in pieces, too. So no file is
ever in memory as a whole.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import IO, Any, BinaryIO

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

    def open(self) -> Any:
        """Return the bytes as a file, open for reading. The caller closes it."""
        raise NotImplementedError


class _BlobContent(Content):
    def __init__(self) -> None:
        self._blob: Any = Blob()

    def write(self, pieces: Iterator[bytes]) -> None:
        with self._blob.open("w") as file:
            for piece in pieces:
                file.write(piece)

    def open(self) -> BinaryIO:
        # "c" is a plain file that outlives the transaction and the connection.
        file: BinaryIO = self._blob.open("c")
        return file


class _Page(Persistent):  # type: ignore[misc, unused-ignore]
    def __init__(self, data: bytes) -> None:
        self.data = data


class _PagedContent(Content):
    _pages: tuple[_Page, ...] = ()

    def write(self, pieces: Iterator[bytes]) -> None:
        self._pages = tuple(_Page(piece) for piece in pieces)

    def open(self) -> PageReader:
        return PageReader(self._pages, self.size)


class PageReader:
    """A file of pages. All pages but the last have PIECE bytes. A page is released when its end was read."""

    def __init__(self, pages: tuple[_Page, ...], size: int) -> None:
        self._pages = pages
        self._size = size
        self._place = 0

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes of one page."""
        index, offset = divmod(self._place, PIECE)
        if index >= len(self._pages):
            return b""
        page = self._pages[index]
        data: bytes = page.data[offset : offset + size]
        if offset + len(data) == len(page.data):
            page._p_deactivate()
        self._place += len(data)
        return data

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        self._place = max(start + offset, 0)
        return self._place

    def close(self) -> None:
        self._pages = ()


def store(stream: IO[bytes], jar: Any, limit: int) -> Content:
    """Read ``stream`` to its end into new content, of the kind that the database of the connection ``jar``
    supports.

    Raises TooLarge if there are more than ``limit`` bytes. After an error, nothing is stored.
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


def read_full(stream: IO[bytes], size: int) -> bytes:
    """Read ``size`` bytes, or fewer at the end of the stream. A raw stream may return fewer at any time."""
    data = stream.read(size)
    while data and len(data) < size and (more := stream.read(size - len(data))):
        data += more
    return data
