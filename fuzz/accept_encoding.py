"""Accept-Encoding: whatever it is, the page comes out as it went in, by an encoding that it names."""

from __future__ import annotations

import zlib
from typing import Any

import atheris
import brotli
import zstandard

from fuzz.target import Broken, Environ, Folder, Pipeline, Request, environ, judged, pipeline, run, view

with atheris.instrument_imports(include=["pipeline"]):
    import pipeline.elements.compress

PAGE = b"<p>a line of text</p>" * 200
SEEDS = (b"gzip, deflate, br, zstd", b"*;q=0.5, identity;q=0", b"x-gzip;q=1.000,\tbr ; q=0", b"gzip;q=2,,;")


@view(context=Folder)
def page(context: Folder, request: Request) -> bytes:
    return PAGE


@view(context=Folder, name="stream")
def stream(context: Folder, request: Request) -> Any:
    return (PAGE[place : place + 500] for place in range(0, len(PAGE), 500))


def unpacked(encoding: str, body: bytes) -> bytes:
    if encoding == "gzip":
        return zlib.decompress(body, 31)
    if encoding == "br":
        return bytes(brotli.decompress(body))
    if encoding == "zstd":
        return zstandard.ZstdDecompressor().decompressobj().decompress(body)
    return body


def judge(environ: Environ, status: str, said: dict[str, str], body: bytes) -> None:
    encoding = said.get("Content-Encoding", "")
    accept = environ["HTTP_ACCEPT_ENCODING"].lower()
    if unpacked(encoding, body) != PAGE:
        raise Broken("another page came out")
    if encoding and encoding not in accept and "*" not in accept:
        raise Broken(f"{encoding} was not asked for")
    if said.get("Vary") != "Accept-Encoding":
        raise Broken("caches are not told")


def make(data: bytes) -> Environ:
    path = "/stream" if data[:1] > b"\x7f" else "/"
    return environ(path, HTTP_ACCEPT_ENCODING=data.decode("latin-1"))


if __name__ == "__main__":
    app = Pipeline(
        pipeline.elements.errors.errors(),
        pipeline.elements.traverse.traverse(root=Folder),
        pipeline.elements.compress.compress(),
        pipeline.publisher.publisher(scan=(__name__,)),
    )
    run(judged(app, judge), make, lambda length: b"gzip;q=0.5," * (length // 11), SEEDS)
