"""Unpacks zstd block by block, by the standard library where it can (Python 3.14)."""

from __future__ import annotations

import sys
from collections.abc import Callable

if sys.version_info >= (3, 14):
    from compression import zstd

    def zstd_unpacker() -> Callable[[bytes], bytes]:
        """Return a function that takes the next block and returns what it contains."""
        return zstd.ZstdDecompressor().decompress

else:
    import zstandard

    def zstd_unpacker() -> Callable[[bytes], bytes]:
        """Return a function that takes the next block and returns what it contains."""
        return zstandard.ZstdDecompressor().decompressobj().decompress
