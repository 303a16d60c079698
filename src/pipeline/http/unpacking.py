"""Unpacks files that were compressed beforehand."""

from __future__ import annotations

import gzip
import sys
import zlib


def unpacked(encoding: str, data: bytes) -> bytes:
    """Return the bytes that were compressed; b"" if ``data`` is damaged.

    encoding  that of HTTP: gzip, br or zstd

    ImportError names the package that is missing.
    """
    if encoding == "gzip":
        try:
            return gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            return b""
    if encoding == "br":
        import brotli

        try:
            return bytes(brotli.decompress(data))
        except brotli.error:
            return b""
    if sys.version_info >= (3, 14):
        from compression.zstd import ZstdError, decompress
    else:
        from zstandard import ZstdDecompressor, ZstdError

        def decompress(data: bytes) -> bytes:
            return ZstdDecompressor().decompressobj().decompress(data)

    try:
        return decompress(data)
    except ZstdError:
        return b""
