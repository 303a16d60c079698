"""``coalesce``: small blocks of a streamed body are joined, as long as they come fast.

A look at the clock after each block costs more than all the rest of the work on it. So ``join`` looks at the clock
only until the producer has proved to be fast: many of its blocks were joined in less time than the threshold. From
then on ``gather`` collects blocks in C code. That code takes a permit for each block and stops when no permit is
left. The thread of ``PermitTimer`` takes the permits away when the time is up. A producer that becomes slow is
timed again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from functools import partial
from time import perf_counter as clock
from time import sleep

from pipeline.composition import element
from pipeline.database import forks
from pipeline.interfaces import Handler
from pipeline.ranges import at_least
from pipeline.request import Request
from pipeline.response import LIVE, Response

SIZE = 120 * 1024
"""Bytes of a joined block. Smaller blocks cost a server more calls. Blocks of 128 bytes, joined to 64 KiB, took 1.8
(waitress) and 2.0 (gunicorn) times as long as blocks of 64 KiB. Joined to 120 KiB, they took 1.6 and 1.7 times as
long; 240 KiB was not faster."""

MANY = 32
"""Number of blocks that must fit into one joined block, for gathering without a clock to pay."""
MOST = 8_192
"""Upper limit of the blocks that are gathered at a time, whatever their length."""
TICK = 0.002
"""Seconds from one look of the timer at the clock to the next."""


@element(
    inside={
        "errors": "a filter that cannot be set up is an error page too",
        "compress": "blocks are joined before they are compressed, since each block is flushed: the other way "
        "round, a page in blocks of 128 bytes takes three to five times as long and becomes twice as large",
    }
)
def coalesce(next: Handler, *, size: int = SIZE, threshold: float = 0.005) -> Handler:
    """Join the blocks of a streamed body, so that many small blocks cost as little as a few large ones.

    size       bytes at which a joined block is sent; default 120 KiB; 0 turns this element off
    threshold  seconds after the last block was sent, after which all blocks that are held are sent

    The first block is sent at once. If the producer takes longer than ``threshold`` to make a block, that block and
    all that are held are sent at once. No block waits longer than that, unless the producer pauses.
    Nothing can be sent while the producer makes the next block, so blocks of a burst before the pause, up to
    ``size`` bytes, wait for its end.

    Bodies in memory, files and event streams pass unchanged.
    """
    at_least(0, size=size, threshold=threshold)
    if not size:
        return next
    joined = partial(join, size=size, threshold=threshold)

    def coalesce(request: Request, response: Response) -> None:
        next(request, response)
        if response.in_memory:
            return
        body = response.blocks
        is_file = getattr(body, "is_described", False) or hasattr(body, "app_iter_range")
        if (not is_file or response.filters) and response.content_type not in LIVE:
            response.add_delivery_filter(joined, rewrites=False)

    return coalesce


def join(chunks: Iterator[bytes], size: int, threshold: float) -> Iterator[bytes]:
    """Yield the same bytes in fewer blocks, none of which is empty."""
    for block in chunks:
        if block:
            yield block
            break
    held = bytearray()
    late = clock() + threshold
    for block in chunks:
        held += block
        if held and (len(held) >= size or clock() >= late):
            fast = len(held) >= size >= MANY * len(block) and clock() < late
            yield bytes(held)
            if fast:
                yield from gather(chunks, size, threshold, min(size // max(len(block), 1), MOST))
            held.clear()
            late = clock() + threshold
    if held:
        yield bytes(held)


def gather(chunks: Iterator[bytes], size: int, threshold: float, count: int) -> Iterator[bytes]:
    """Join ``count`` blocks of ``chunks`` at a time, as long as so many come within ``threshold`` seconds."""
    held: list[bytes] = []
    going_on = True
    while going_on:
        permits = [None] * count
        late = clock() + threshold
        permit_timer.begin(permits, late)
        try:
            # Each block is appended before a permit is taken, so no block is lost when the permits end.
            deque(zip(map(held.append, chunks), permits, strict=False), maxlen=0)
        finally:
            permit_timer.end(permits)
        if held and len(held[-1]) * MANY > size:  # the blocks have become large: joining them takes memory
            yield from filter(None, held)
            return
        going_on = len(held) > count and clock() < late
        if joined := b"".join(held):
            yield joined
        held.clear()


class PermitTimer:
    """A thread that takes permits away when their time is up. It is awake while blocks are gathered."""

    def __init__(self) -> None:
        self.forget()
        forks.own(forget=self.forget)

    def forget(self) -> None:
        """Return to the state before the first use. A child process does not have the threads of its parent."""
        self.given: dict[int, tuple[float, list[None]]] = {}
        self.needed = threading.Event()
        self.lock = threading.Lock()
        self.thread: threading.Thread | None = None

    def begin(self, permits: list[None], late: float) -> None:
        """Begin to time these permits. They are taken away when it is ``late``."""
        forks.check()
        self.given[id(permits)] = late, permits
        if not self.needed.is_set():
            self.needed.set()
            with self.lock:
                if self.thread is None:
                    self.thread = threading.Thread(target=self.run, name="coalesce", daemon=True)
                    self.thread.start()

    def end(self, permits: list[None]) -> None:
        """Stop timing these permits."""
        del self.given[id(permits)]

    def run(self) -> None:
        while True:
            self.needed.wait()
            sleep(TICK)
            now = clock()
            for late, permits in list(self.given.values()):
                if now >= late:
                    permits.clear()
            if not self.given:
                self.needed.clear()
                if self.given:  # another thread has just begun
                    self.needed.set()


permit_timer = PermitTimer()
