"""Reading ``multipart/form-data`` (RFC 7578) within limits, by the parser of the package ``multipart``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from tempfile import SpooledTemporaryFile
from typing import IO, Any, NamedTuple

from multipart import MultipartError, MultipartSegment, ParserLimitReached, PushMultipartParser
from webob.exc import HTTPBadRequest, HTTPRequestEntityTooLarge

SPOOL = 64 * 1024
"""Bytes of a file that are kept in memory; a larger one goes to disk."""
_HEADERS = 8
"""Headers of a part; RFC 7578 knows three."""


class Limits(NamedTuple):
    """What a multipart body may use. Beyond is a 413."""

    parts: int
    memory: int
    """Bytes of all that stays in memory: names, text fields, small files."""
    disk: int
    """Bytes of all temporary files."""
    header: int
    """Bytes of one header of one part."""


class Part(NamedTuple):
    """A field as it was sent. What is text is in bytes: its encoding may stand in a later part."""

    name: bytes
    text: bytes
    charset: str | None
    """Of this text alone."""
    filename: bytes | None
    """None if this is no file."""
    type: str
    file: IO[bytes] | None
    length: int


def read_multipart(
    blocks: Iterable[bytes], boundary: str, limits: Limits, on_close: Callable[[Callable[[], object]], None]
) -> list[Part]:
    """The parts of a body that comes in ``blocks``; 400 if it is malformed, 413 if it is beyond a limit.

    Temporary files are given to ``on_close`` to be closed. No more blocks are asked for than are needed.
    """
    parts: list[Part] = []
    memory = disk = length = 0
    segment: Any = None
    text: list[bytes] = []
    file: Any = None
    on_disk = False
    try:
        with PushMultipartParser(
            boundary,
            max_header_size=limits.header,
            max_header_count=_HEADERS,
            max_segment_count=limits.parts,
            header_charset="latin-1",  # any byte, and no byte lost
            strict=True,
        ) as parser:
            for event in _events(parser, blocks):
                if isinstance(event, MultipartSegment):
                    segment = event
                    memory += len(segment.name) + len(segment.filename or "")
                    length = 0
                    text = []
                    file = None
                    if segment.filename is not None:
                        on_disk = False
                        file = SpooledTemporaryFile()  # noqa: SIM115
                        on_close(file.close)
                elif event is None:
                    parts.append(_part(segment, text, file, length))
                elif file is None:
                    memory += len(event)
                    text.append(event)
                else:
                    file.write(event)
                    length += len(event)
                    if on_disk:
                        disk += len(event)
                    else:
                        memory += len(event)
                        if length > SPOOL or memory > limits.memory:
                            file.rollover()
                            on_disk = True
                            memory -= length
                            disk += length
                if memory > limits.memory:
                    raise HTTPRequestEntityTooLarge(f"A form takes {limits.memory} bytes in memory at most.")
                if disk > limits.disk:
                    raise HTTPRequestEntityTooLarge(f"A form takes {limits.disk} bytes of files at most.")
    except ParserLimitReached as error:
        raise HTTPRequestEntityTooLarge(f"The form is too large: {error}.") from None
    except MultipartError as error:
        raise HTTPBadRequest(f"The form cannot be read: {error}.") from None
    return parts


def _events(parser: PushMultipartParser, blocks: Iterable[bytes]) -> Iterator[Any]:
    for block in _with_last_line_break(blocks):
        yield from parser.parse(block)


def _with_last_line_break(blocks: Iterable[bytes]) -> Iterator[bytearray]:
    """The line break behind the last boundary comes together with it: by itself it would be refused."""
    waiting = bytearray()
    for block in blocks:
        if waiting and (len(block) > 2 or len(waiting) > SPOOL):
            yield waiting
            waiting = bytearray(block)
        else:
            waiting += block
    if waiting:
        yield waiting


def _part(segment: Any, text: list[bytes], file: IO[bytes] | None, length: int) -> Part:
    name = segment.name.encode("latin-1")
    filename = None if segment.filename is None else segment.filename.encode("latin-1")
    if file is not None:
        file.seek(0)
    kind = segment.content_type or "application/octet-stream"
    return Part(name, b"".join(text), segment.charset, filename, kind, file, length)
