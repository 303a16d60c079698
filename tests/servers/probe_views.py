"""Views that show what reached the site, beside those of the demo; copied beside the ini that is deployed."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline import Request, Response, view
from pipeline.http.files import serve
from pipeline.interfaces import PUBLIC
from pipeline_demo.models import Site

MEGABYTE = bytes(range(256)) * 4096
STEP = 0.15
"""Seconds between two blocks."""


@view(context=Site, name="echo", methods=("POST",), permission=PUBLIC)
def echo(context: Site, request: Request) -> str:
    """Say how long the body is, and its digest."""
    body = request.body_file.read()
    return f"{len(body)} {hashlib.sha256(body).hexdigest()}"


@view(context=Site, name="show", permission=PUBLIC)
def show(context: Site, request: Request) -> str:
    """Show what came of the path and of the headers."""
    environ = request.environ
    path = environ["PATH_INFO"].partition("/@@show")[2]
    return repr((environ.get("SCRIPT_NAME", ""), path, environ.get("HTTP_X_TWO"), environ.get("HTTP_X_TEXT")))


@view(context=Site, name="cookies", methods=("POST",), permission=PUBLIC)
def cookies(context: Site, request: Request, response: Response) -> str:
    """Send four cookies, each as large as `session` allows; say how many bytes of cookies came."""
    for number in range(4):
        response.headers.add("Set-Cookie", f"c{number}={'x' * 4000}; Path=/")
    return str(len(request.environ.get("HTTP_COOKIE", "")))


@view(context=Site, name="process", methods=("GET", "POST"), permission=PUBLIC)
def process(context: Site, request: Request) -> str:
    return str(os.getpid())


@view(context=Site, name="large", permission=PUBLIC)
def large(context: Site, request: Request) -> list[bytes]:
    return [MEGABYTE] * 10


@view(context=Site, name="megabyte", permission=PUBLIC)
def megabyte(context: Site, request: Request) -> bytes:
    return MEGABYTE


@view(context=Site, name="stream", permission=PUBLIC)
def stream(context: Site, request: Request) -> Iterator[bytes]:
    """A megabyte, or more, of unknown length, as fast as it is read."""
    for _ in range(32 * int(request.GET.get("megabytes", "1"))):
        yield MEGABYTE[: 32 * 1024]


@view(context=Site, name="file", permission=PUBLIC)
def file(context: Site, request: Request, response: Response) -> None:
    serve(request, response, Path(__file__).with_name("large.bin"), etag="large")


@view(context=Site, name="blocks", permission=PUBLIC)
def blocks(context: Site, request: Request) -> Iterator[bytes]:
    for number in range(6):
        yield b"block %d\n" % number
        time.sleep(STEP)


@view(context=Site, name="broken", permission=PUBLIC)
def broken(context: Site, request: Request) -> Iterator[bytes]:
    yield b"x" * 200_000
    time.sleep(STEP)
    raise RuntimeError("the stream fails in the middle")


@view(context=Site, name="boom", permission=PUBLIC)
def boom(context: Site, request: Request) -> Any:
    raise RuntimeError("the view fails")


@view(context=Site, name="nap", permission=PUBLIC)
def nap(context: Site, request: Request) -> str:
    time.sleep(float(request.GET.get("seconds", "1.5")))
    return "rested"
