"""``compress``: what a client can unpack is sent compressed, block by block."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from fnmatch import translate
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias

from pipeline.composition import element
from pipeline.http.encodings import LONGEST_HEADER, choose, vary
from pipeline.interfaces import Handler, OptionError
from pipeline.request import Request
from pipeline.response import Response

try:
    import brotli
except ImportError:  # the extra "brotli"
    brotli = None
try:
    import zstandard
except ImportError:  # the extra "zstd"
    zstandard = None  # type: ignore[assignment, unused-ignore]

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
    """One compressed body in the making: bytes in, bytes out."""

    compress: Callable[[bytes], bytes]
    flush: Callable[[], bytes]
    """All that is needed to unpack what was put in so far."""
    finish: Callable[[], bytes]


Start: TypeAlias = Callable[[int], Packer]
"""Begins to compress a body of so many bytes, or of UNKNOWN."""
UNKNOWN = -1


@element(inside={"errors": "a filter that cannot be set up is an error page too"})
def compress(
    next: Handler,
    *,
    encodings: tuple[str, ...] = (),
    level: int = 5,
    minimum: int = 1_024,
    types: tuple[str, ...] = TYPES,
) -> Handler:
    """Compress the body by the encoding that the client wants most (``Accept-Encoding``).

    encodings  of zstd, br and gzip those to be used; of those that a client wants alike, the first. Default:
               all that are installed (extras "zstd" and "brotli"), in that order
    level      from 1 (fast) to 9 (small), for each of them
    minimum    bytes from which a body is compressed, if its length is known
    types      content types that are compressed, with * for anything; none turns this element off

    A streamed body is flushed with each block, so that a block leaves when it is made; put ``coalesce``
    inside if a view makes many small ones. What is compressed already, a part (206) and what says
    ``no-transform`` pass. An answer that depends on it says ``Vary: Accept-Encoding``; its ETag becomes a weak
    one if it is compressed, and a Range is then answered with the whole. A stream takes about 5 MB while it
    is sent.

    A page that has both a secret and what a visitor sent gives the secret away, bit by bit, by its compressed
    length to whoever can see that and make the visitor's browser send it (BREACH). Have such secrets differ
    with each page, or have such pages say ``Cache-Control: no-transform``.
    """
    if not 1 <= level <= 9:
        raise OptionError(f"the option level is from 1 to 9, and not {level}")
    for name in encodings:
        if name not in PACKERS:
            raise OptionError(f"the option encodings names {name!r}, which is none of {', '.join(PACKERS)}")
        if PACKERS[name] is None:
            raise OptionError(f"the encoding {name!r} needs an extra: pip install wsgi-pipeline[{EXTRAS[name]}]")
    if not types:
        return next
    starts = {name: packer(level) for name, packer in PACKERS.items() if packer is not None}
    chosen = lru_cache(256)(partial(choose, offered=encodings or tuple(starts)))
    is_of_type = lru_cache(256)(re.compile("|".join([translate(kind.lower()) for kind in types])).match)

    def compress(request: Request, response: Response) -> None:
        next(request, response)
        accept = request.environ.get("HTTP_ACCEPT_ENCODING", "")
        encoding, only = chosen(accept if len(accept) <= LONGEST_HEADER else "")  # no long header is kept
        body = response._app_iter
        if type(body) is list and not response.filters and not only and 0 < sum(map(len, body)) < minimum:
            return
        response.add_delivery_filter(partial(packed, response, encoding, only))

    def packed(response: Response, encoding: str, only: bool, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """The filter: ``chunks`` compressed, or ``chunks`` if they are not to be."""
        headers = response.headers
        if (
            response._status[:3] == "206"
            or headers.get("Content-Encoding", "identity").lower() != "identity"
            or "no-transform" in headers.get("Cache-Control", "").lower()
            or not (only or (is_of_type((response.content_type or "").lower()) and _is_worth_it(response, minimum)))
        ):
            return chunks
        vary(response)
        if not encoding:
            return chunks
        headers["Content-Encoding"] = encoding
        in_memory = type(response._app_iter) in (list, tuple)
        return (pack_whole if in_memory else pack)(chunks, starts[encoding])

    return compress


def _is_worth_it(response: Response, minimum: int) -> bool:
    """Whether the body is long enough, as far as its length is known."""
    body = response._app_iter
    length = sum(map(len, body)) if type(body) in (list, tuple) else 0
    if not length:  # of a stream, or of an app that makes no body for HEAD
        length = response.content_length or (0 if type(body) in (list, tuple) else minimum)
    return length >= minimum


def pack(chunks: Iterator[bytes], start: Start) -> Iterator[bytes]:
    """The chunks compressed, so that all of each can be unpacked when it is there."""
    packer = start(UNKNOWN)
    for block in chunks:
        if data := packer.compress(block) + packer.flush():
            yield data
    yield packer.finish()


def pack_whole(chunks: Iterator[bytes], start: Start) -> Iterator[bytes]:
    """The chunks compressed as one."""
    body = b"".join(list(chunks))
    packer = start(len(body))
    yield packer.compress(body) + packer.finish()


def _gzip(level: int) -> Start:
    def start(size: int) -> Packer:
        packer = zlib.compressobj(level, zlib.DEFLATED, 31)  # 31: with a header of gzip, without a time in it
        return Packer(packer.compress, partial(packer.flush, zlib.Z_SYNC_FLUSH), packer.flush)

    return start


def _brotli(level: int) -> Start:
    def start(size: int) -> Packer:
        # A window of 256 KiB: that of 4 MiB takes 20 MB for each stream, and makes pages no smaller.
        packer = brotli.Compressor(quality=level, lgwin=18)
        return Packer(packer.process, packer.flush, packer.finish)

    return start


def _zstd(level: int) -> Start:
    options = zstandard.ZstdCompressionParameters.from_level(level, window_log=19, write_content_size=False)

    def start(size: int) -> Packer:
        packer = zstandard.ZstdCompressor(compression_params=options).compressobj(size)
        return Packer(packer.compress, partial(packer.flush, zstandard.COMPRESSOBJ_FLUSH_BLOCK), packer.flush)

    return start


PACKERS: Mapping[str, Callable[[int], Start] | None] = {
    "zstd": _zstd if zstandard is not None else None,
    "br": _brotli if brotli is not None else None,
    "gzip": _gzip,
}
"""What makes a Start for a level, by the name of the encoding, best first; None if its library is not installed.
Of a page of 40 kB, at level 5, zstd makes 8.2 kB in 0.22 ms, br 7.7 kB in 0.48 ms, gzip 8.1 kB in 0.37 ms."""
EXTRAS = {"zstd": "zstd", "br": "brotli"}
