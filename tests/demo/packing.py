"""Makes the compressed copies of the demo's static files: run it in the environment of the tests after a change."""

from __future__ import annotations

import gzip
from pathlib import Path

import brotli
import zstandard

from pipeline_demo import views

STATIC = Path(views.__file__).parents[1] / "static"
PACKED = ("site.css",)


def main() -> None:
    for name in PACKED:
        text = (STATIC / name).read_bytes()
        (STATIC / f"{name}.gz").write_bytes(gzip.compress(text, 9, mtime=0))
        (STATIC / f"{name}.br").write_bytes(brotli.compress(text, quality=11))
        (STATIC / f"{name}.zst").write_bytes(zstandard.ZstdCompressor(level=19).compress(text))


if __name__ == "__main__":
    main()
