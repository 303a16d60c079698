"""Views beside those of the site that show how answers are sent: streams, and a default step."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from pipeline import Request, Response, view
from pipeline.interfaces import IDefaultSteps
from pipeline.views import adapter
from pipeline_demo.models import Folder, Site

LINE = b"<p>All work and no play makes Jack a dull boy.</p>\n" * 2
LINES = 5000
PAUSE = 0.15
"""Seconds between the blocks of a slow stream, at least."""
_permits = threading.Semaphore(0)


@view(context=Site, name="lines")
def lines(context: Site, request: Request) -> Iterator[bytes]:
    """Many small blocks, as fast as they can be made."""
    for _ in range(LINES):
        yield LINE


@view(context=Site, name="slow")
def slow(context: Site, request: Request) -> Iterator[bytes]:
    """Make each block but the first when the client asks for ``next``, as it does when it has the block before."""
    for number in range(4):
        if number and not _permits.acquire(timeout=30):
            raise TimeoutError("the client has not got the block before")
        yield b"block %d\n" % number


@view(context=Site, name="next")
def permit_next(context: Site, request: Request) -> str:
    _permits.release()
    return "the next block is made"


@view(context=Site, name="events")
def events(context: Site, request: Request, response: Response) -> Iterator[bytes]:
    response.content_type = "text/event-stream"
    return (b"data: %d\n\n" % number for number in range(20))


@view(context=Site, name="plain")
def plain(context: Site, request: Request, response: Response) -> bytes:
    response.cache_control = "no-transform"
    return LINE * 100


@view(context=Site, name="breaks")
def breaks(context: Site, request: Request, response: Response) -> Iterator[bytes]:
    response.add_filter(_break)
    return iter([LINE] * 3000)


def _break(chunks: Iterator[bytes]) -> Iterator[bytes]:
    for number, chunk in enumerate(chunks):
        if number == 2000:
            raise ValueError("the filter broke")
        yield chunk


@adapter(Folder, IDefaultSteps)
class Start:
    """The page of a folder that has a "start" is that."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def default_steps(self, request: Request) -> tuple[str, ...]:
        return ("start",) if "start" in self.folder else ()
