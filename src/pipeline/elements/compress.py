"""``compress``: bodies are sent compressed, block by block, to clients that accept it."""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from fnmatch import translate
from functools import partial
from typing import NamedTuple, TypeAlias

from pipeline.composition import element
from pipeline.http.encodings import choose, vary, with_own_tags
from pipeline.http.header_lists import Headers, of_headers, values_in, without
from pipeline.interfaces import Handler, OptionError
from pipeline.ranges import MEDIA_TYPE, at_least, words_of
from pipeline.request import Request
from pipeline.response import CHECKED, OK, Response

try:
    import brotli
except ImportError:  # the extra "brotli"
    brotli = None
if sys.version_info >= (3, 14):
    from compression import zstd
else:
    try:
        from backports import zstd
    except ImportError:  # the extra "zstd"
        zstd = None  # type: ignore[assignment, unused-ignore]

TYPES = (
    "text/*",
    "*+json",
    "*+text",
    "*+xml",
    "application/javascript",
    "application/json",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/xml",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/x-icon",
)


class Packer(NamedTuple):
    """The compressor of one body."""

    compress: Callable[[bytes], bytes]
    flush: Callable[[], bytes]
    """Returns the bytes that a client needs to unpack all that was compressed so far."""
    finish: Callable[[], bytes]


CODED = {name: ("Content-Encoding", name) for name in ("zstd", "br", "gzip")}
CHECKED.update(CODED.values())
NEVER, AT_NEED, ALWAYS = range(3)

Start: TypeAlias = Callable[[int], Packer]
"""A function that returns the Packer for a body of so many bytes, or of UNKNOWN."""
UNKNOWN = -1
WINDOW_LOG = 19
"""Binary logarithm of the bytes that zstd looks back: 512 KiB."""


@element(inside={"errors": "a filter that cannot be set up is an error page too"})
def compress(
    next: Handler,
    *,
    encodings: tuple[str, ...] = (),
    level: int = 5,
    minimum: int = 1_024,
    types: tuple[str, ...] = TYPES,
) -> Handler:
    """Compress the body with the encoding that the client prefers (``Accept-Encoding``).

    encodings  encodings to use, out of zstd, br and gzip. If the client weights several equally, the first listed
               wins. Default: all that are installed (extras "zstd" and "brotli"), in this order
    level      from 1 (fast) to 9 (small), for each encoding
    minimum    length in bytes from which a body is compressed, if its length is known
    types      content types that are compressed; * stands for any characters. Empty turns this element off

    A streamed body is flushed after each block, so that each block is sent when it is made. Put ``coalesce`` inside
    if a view makes many small blocks. A body that is already compressed, a part (206) and an answer with
    ``no-transform`` pass unchanged. An answer that depends on the header says ``Vary: Accept-Encoding``. The ETag
    of a compressed answer becomes weak, and is strong again for the inner elements when a client names it. A Range
    is answered with the whole. A stream needs about 5 MB of memory while it is sent.

    If a page contains both a secret and text that a visitor sent, its compressed length reveals the secret bit by
    bit (BREACH), to an attacker who sees the length and makes the visitor's browser send the text. Let such secrets
    differ with each page, or answer such pages with ``Cache-Control: no-transform``.
    """
    _check_options(encodings, level)
    at_least(0, minimum=minimum)
    words_of("types", types, MEDIA_TYPE, "a content type")
    if not types:
        return next
    starts = {name: packer(level) for name, packer in PACKERS.items() if packer is not None}
    offered = encodings or tuple(starts)
    fitness = fitness_by(types)
    is_fit = fit_by(fitness, minimum)

    def compress(request: Request, response: Response) -> None:
        environ = request.environ
        if "HTTP_IF_NONE_MATCH" in environ or "HTTP_IF_MATCH" in environ:
            with_own_tags(next, request, response)
        else:
            next(request, response)
        encoding, only = choose(environ.get("HTTP_ACCEPT_ENCODING", ""), offered)
        code = "" if response.status_line is OK else response.status_line[:3]
        if code == "304" or (code == "206" and fitness(response.headerlist) == ALWAYS):
            vary(response.headerlist)  # as the whole page may do
        if only or response.filters or is_fit(response):
            if encoding or response.filters:
                response.add_delivery_filter(partial(packed, response, encoding, only))
            else:  # to say so is all that is left to do
                vary(response.headerlist)

    def packed(response: Response, encoding: str, only: bool, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Return ``chunks`` compressed, or ``chunks`` itself if they are not to be compressed."""
        headers = response.headerlist
        if response.status_line[:3] == "206" or not (fitness(headers) if only else is_fit(response)):
            return chunks
        vary(response.headerlist)
        if not encoding:
            return chunks
        headers[:] = *without(headers, "content-encoding"), CODED[encoding]
        return (pack_whole if response.in_memory else pack)(chunks, starts[encoding])

    return compress


def fitness_by(types: tuple[str, ...]) -> Callable[[Headers], int]:
    """Return the function that returns NEVER, AT_NEED or ALWAYS: whether a body with such headers may be
    compressed."""
    of_types = re.compile("|".join([translate(kind.lower()) for kind in types]))

    @of_headers
    def fitness(headers: Headers) -> int:
        said = values_in(headers)
        coded = said.get("content-encoding", "").lower()
        if coded not in ("", "identity") or "no-transform" in said.get("cache-control", "").lower():
            return NEVER
        kind = said.get("content-type", "").partition(";")[0].strip().lower()
        return ALWAYS if of_types.match(kind) else AT_NEED

    return fitness


def fit_by(fitness: Callable[[Headers], int], minimum: int) -> Callable[[Response], bool]:
    """Return the function that returns whether a body is to be compressed, by its type and its length."""

    def is_fit(response: Response) -> bool:
        """Return whether the body is of such a type, and long enough, as far as its length is known."""
        length = sum(map(len, response.blocks)) if response.in_memory else 0
        if 0 < length < minimum or fitness(response.headerlist) != ALWAYS:
            return False
        known = length or response.content_length
        # without a length the body is a stream, or an app made no body for HEAD
        return not response.in_memory if known is None else known >= minimum

    return is_fit


def _check_options(encodings: tuple[str, ...], level: int) -> None:
    """Raise OptionError for a level or an encoding that cannot be used."""
    if not 1 <= level <= 9:
        raise OptionError(f"the option level must be from 1 to 9, not {level}")
    for name in encodings:
        if name not in PACKERS:
            raise OptionError(f"the option encodings names {name!r}, which is not one of {', '.join(PACKERS)}")
        if PACKERS[name] is None:
            raise OptionError(f"the encoding {name!r} needs an extra: pip install wsgi-pipeline[{EXTRAS[name]}]")


def pack(chunks: Iterator[bytes], start: Start) -> Iterator[bytes]:
    """Yield the chunks compressed. The client can unpack each of them completely when it arrives."""
    packer = start(UNKNOWN)
    for block in chunks:
        if data := packer.compress(block) + packer.flush():
            yield data
    yield packer.finish()


def pack_whole(chunks: Iterator[bytes], start: Start) -> Iterator[bytes]:
    """Yield the chunks compressed as one block."""
    body = b"".join(list(chunks))
    packer = start(len(body))
    yield packer.compress(body) + packer.finish()


def _gzip(level: int) -> Start:
    def start(size: int) -> Packer:
        packer = zlib.compressobj(level, zlib.DEFLATED, 31)  # 31: gzip, with a header without a time
        return Packer(packer.compress, partial(packer.flush, zlib.Z_SYNC_FLUSH), packer.flush)

    return start


def _brotli(level: int) -> Start:
    def start(size: int) -> Packer:
        # A window of 256 KiB. The default of 4 MiB takes 20 MB for each stream and does not make pages smaller.
        packer = brotli.Compressor(quality=level, lgwin=18)
        return Packer(packer.process, packer.flush, packer.finish)

    return start


def _zstd(level: int) -> Start:
    names = zstd.CompressionParameter
    options: dict[int, int] = {
        names.compression_level: level,
        names.window_log: WINDOW_LOG,
        names.content_size_flag: 0,
    }

    def start(size: int) -> Packer:
        packer = zstd.ZstdCompressor(options=options)
        packer.set_pledged_input_size(None if size == UNKNOWN else size)
        return Packer(packer.compress, partial(packer.flush, packer.FLUSH_BLOCK), packer.flush)

    return start


PACKERS: Mapping[str, Callable[[int], Start] | None] = {
    "zstd": _zstd if zstd is not None else None,
    "br": _brotli if brotli is not None else None,
    "gzip": _gzip,
}
"""The function that makes a Start for a level, by encoding, best first; None if its library is not installed.
At level 5, zstd makes 8.2 kB of a page of 40 kB in 0.22 ms, br 7.7 kB in 0.48 ms, gzip 8.1 kB in 0.37 ms."""
EXTRAS = {"zstd": "zstd", "br": "brotli"}
