"""Range and what makes a request conditional, a line for each: what comes is what was asked for, or the whole."""

from __future__ import annotations

import io
import re
from typing import Any

import atheris

from fuzz.target import Broken, Environ, Folder, Pipeline, Request, environ, judged, pipeline, run, view

with atheris.instrument_imports(include=["pipeline"]):
    from pipeline.http.files import serve

NAMES = (
    *("HTTP_RANGE", "HTTP_IF_RANGE", "HTTP_IF_NONE_MATCH", "HTTP_IF_MODIFIED_SINCE"),
    *("HTTP_IF_MATCH", "HTTP_IF_UNMODIFIED_SINCE"),
)
FILE = bytes(range(256)) * 8
TIME = "Tue, 14 Nov 2023 22:13:20 GMT"
SEEDS = (
    b"bytes=0-99",
    b"bytes=-100",
    b"bytes=5-, 7-\n",
    f'bytes=5-\n"tag"\nW/"x", "y"\n{TIME}'.encode(),
    f'bytes=5-\n{TIME}\n\n\n"tag"\n{TIME}'.encode(),
    b"bytes=99999999999999999999-\nx GMT\n*\nTue, 99 Nov 99999 22:13:20 GMT\n*",
)


@view(context=Folder)
def file(context: Folder, request: Request, response: Any) -> None:
    serve(request, response, io.BytesIO(FILE), name="x", etag="tag", modified=1_700_000_000)


def judge(environ: Environ, status: str, said: dict[str, str], body: bytes) -> None:
    if status[:3] == "206":
        found = re.fullmatch(r"bytes (\d+)-(\d+)/2048", said["Content-Range"])
        if found is None or body != FILE[int(found[1]) : int(found[2]) + 1] or not body:
            raise Broken(f"{said['Content-Range']}, and {len(body)} bytes")
    elif status[:3] == "200" and body != FILE:
        raise Broken(f"{len(body)} bytes of a whole")
    elif status[:3] not in ("200", "304", "412", "416"):
        raise Broken(status)
    if status[:3] != "304" and said["Content-Length"] != str(len(body)):
        raise Broken("another length")


def make(data: bytes) -> Environ:
    lines = data.decode("latin-1").split("\n")
    return environ("/", **{name: line for name, line in zip(NAMES, lines, strict=False) if line})


if __name__ == "__main__":
    app = Pipeline(
        pipeline.elements.errors.errors(),
        pipeline.elements.traverse.traverse(root=Folder),
        pipeline.publisher.publisher(scan=(__name__,)),
    )
    run(judged(app, judge), make, lambda length: b"bytes=0-" + b"1" * length, SEEDS)
