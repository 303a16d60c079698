"""Reading ``multipart/form-data`` (RFC 7578) within limits, by the parser of the package ``multipart``."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from email.message import Message
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

from multipart import MultipartError, MultipartSegment, ParserLimitReached, PushMultipartParser
from webob.exc import HTTPBadRequest, HTTPRequestEntityTooLarge

from pipeline.forms.charsets import decoded, known_charset

SPOOL = 64 * 1024
"""Upper limit of the bytes of a file that is kept in memory. A larger file goes to disk."""
_BUFFER = 1024
"""Bytes of the buffer of a file on disk. A request may have a thousand such files."""
_HEADERS = 8
"""Upper limit of the headers of a part. RFC 7578 has three."""
_AS_THEY_ARE = ("7bit", "8bit", "binary")
"""Values of Content-Transfer-Encoding that change no byte."""


class Limits(NamedTuple):
    """Upper limits of a multipart body. A body beyond one of them is a 413."""

    parts: int
    memory: int
    """Bytes that are kept in memory: names, text fields, small files."""
    disk: int
    """Bytes of the temporary file."""
    header: int
    """Bytes of one header of one part."""


class Part(NamedTuple):
    """A field as it was sent. Text is in bytes, since a later part may name its encoding."""

    name: bytes
    text: bytes
    charset: str | None
    """The charset of this text alone, if its part names one."""
    filename: bytes | str | None
    """None if the part is not a file. Text if its header names the charset (RFC 2231)."""
    type: str
    file: IO[bytes] | None
    length: int


def read_multipart(
    blocks: Iterable[bytes], boundary: str, limits: Limits, on_close: Callable[[Callable[[], object]], None]
) -> list[Part]:
    """Return the parts of a body that comes in ``blocks``. Raise a 400 if it is malformed, and a 413 if it is
    beyond a limit.

    ``on_close`` is called with the function that closes each file. No block is read that is not needed.
    """
    parts: list[Part] = []
    memory = 0
    part: Any = None
    disk = Disk(on_close)
    opening = b"--" + boundary.encode()
    try:
        with PushMultipartParser(
            boundary,
            max_header_size=limits.header,
            max_header_count=_HEADERS,
            max_segment_count=limits.parts,
            header_charset="latin-1",  # any byte, and no byte lost
            strict=True,
        ) as parser:
            for event in _events(parser, blocks, opening):
                if isinstance(event, MultipartSegment):
                    part = _OpenPart(event)
                    memory += len(event.name) + len(event.filename or "")
                elif event is None:
                    parts.append(part.read(on_close))
                    continue
                else:
                    part.length += len(event)
                    if isinstance(part.file, Slice):
                        disk.write(event)
                    else:
                        part.file.write(event)
                        memory += len(event)
                        if part.filename is not None and (part.length > SPOOL or memory > limits.memory):
                            memory -= part.length
                            part.file = disk.take(part.file)
                    part.head += event[: len(opening) - len(part.head)]
                    if part.head == opening:  # the parser takes it, and the next part, for the content of this one
                        raise HTTPBadRequest("A part of the form has no line break in front of its last boundary.")
                if memory > limits.memory:
                    raise HTTPRequestEntityTooLarge(f"A form takes {limits.memory} bytes in memory at most.")
                if disk.size > limits.disk:
                    raise HTTPRequestEntityTooLarge(f"A form takes {limits.disk} bytes of files at most.")
    except ParserLimitReached as error:
        raise HTTPRequestEntityTooLarge(f"The form is too large: {error}.") from None
    except MultipartError as error:
        raise HTTPBadRequest(f"The form cannot be read: {error}.") from None
    return parts


def _filename(segment: Any) -> bytes | str | None:
    """Return the name of the file; None if the part is not a file. Raise a 400 for a part that cannot be read."""
    encoding = segment.header("Content-Transfer-Encoding", "binary")
    if encoding.strip().lower() not in _AS_THEY_ARE:
        raise HTTPBadRequest(
            f"A part of the form has the Content-Transfer-Encoding {encoding!r}; send it as it is."
        )
    disposition = segment.header("Content-Disposition", "")
    if "*" in disposition:  # perhaps the forms of RFC 2231, as older clients send them
        message = Message()
        message["Content-Disposition"] = disposition
        values: dict[str, Any] = dict(message.get_params([], "content-disposition"))
        if isinstance(values.get("name"), tuple):
            raise HTTPBadRequest("The name of a field has the form of RFC 2231; send its bytes as they are.")
        found = values.get("filename")
        if isinstance(found, tuple):
            charset, _, text = found
            return decoded(text.encode("latin-1", "replace"), known_charset(charset) or "utf-8")
        if segment.filename is None and found is not None:
            return str(found).encode("latin-1", "replace")
    return None if segment.filename is None else bytes(segment.filename.encode("latin-1"))


def _events(parser: PushMultipartParser, blocks: Iterable[bytes], opening: bytes) -> Iterator[Any]:
    """Yield what the parser finds. Raise a 400 if another boundary stands in front of the first: the parser skips
    all that does, and so would lose a part."""
    first = bytearray()
    for block in _with_last_line_break(blocks):
        if len(first) < len(opening) + 2:
            first += block
            if len(first) < len(opening) + 2:
                continue
            if b"\n--" in b"\n" + first.partition(opening)[0]:
                raise HTTPBadRequest("The form cannot be read: its first boundary is not that of its header.")
            block = first
        yield from parser.parse(block)


def _with_last_line_break(blocks: Iterable[bytes]) -> Iterator[bytearray]:
    """Yield the blocks, with the line break behind the last boundary in the same block as the boundary: the parser
    refuses a block with that line break alone."""
    waiting = bytearray()
    for block in blocks:
        if waiting and (len(block) > 2 or len(waiting) > SPOOL):
            yield waiting
            waiting = bytearray(block)
        else:
            waiting += block
    if waiting:
        yield waiting


class Disk:
    """The temporary file of a request, made when it is first needed. It holds all files of the form, one after the
    other.

    A file descriptor for each of them would let one form use up the descriptors of the process (S15).
    """

    def __init__(self, on_close: Callable[[Callable[[], object]], None]) -> None:
        self.on_close = on_close
        self.file: Any = None
        self.size = 0

    def take(self, file: io.BytesIO) -> Slice:
        """Move the file that is being read to here. ``write`` is then called with the rest of it."""
        if self.file is None:
            self.file = TemporaryFile()  # noqa: SIM115
            self.on_close(self.file.close)
        taken = Slice(self.file, self.size)
        self.write(file.getbuffer())
        return taken

    def write(self, block: Any) -> None:
        self.file.write(block)
        self.size += len(block)


class Slice(io.RawIOBase):
    """A file of a form: a part of the temporary file of the request, which begins at ``start``."""

    length = 0
    """Bytes of the file, set when all of it is read."""

    def __init__(self, file: Any, start: int) -> None:
        self.file = file
        self.start = start
        self.position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = (0, self.position, self.length)[whence]
        if base + offset < 0:
            raise ValueError(f"the file has no position {base + offset}")
        self.position = base + offset
        return self.position

    def readinto(self, buffer: Any) -> int:
        left = max(0, self.length - self.position)
        self.file.seek(self.start + self.position)
        count: int = self.file.readinto(memoryview(buffer)[:left])
        self.position += count
        return count


class _OpenPart:
    """A part that is being read."""

    def __init__(self, segment: Any) -> None:
        self.segment = segment
        self.filename = _filename(segment)
        self.file: io.BytesIO | Slice = io.BytesIO()
        self.length = 0
        self.head = b""

    def read(self, on_close: Callable[[Callable[[], object]], None]) -> Part:
        """Return the part, of which all is read."""
        segment, text = self.segment, b""
        file: IO[bytes] | None = None
        if isinstance(self.file, Slice):
            self.file.length = self.length
            file = io.BufferedReader(self.file, _BUFFER)
        elif self.filename is None:
            text = self.file.getvalue()
        else:
            self.file.seek(0)
            file = self.file
        if file is not None:
            on_close(file.close)
        kind = segment.content_type or "application/octet-stream"
        _, semicolon, parameters = segment.header("Content-Type", "").partition(";")
        kind += semicolon + parameters
        return Part(segment.name.encode("latin-1"), text, segment.charset, self.filename, kind, file, self.length)
