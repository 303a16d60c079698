"""``coalesce``: small blocks of a streamed body are joined, as long as they come fast.

To ask the clock after each block costs more than all else that is done with it. So that is done until the
producer has shown that it is fast: has made so many blocks in so little time that they were joined for their
size. From then on blocks are gathered by C code that asks nobody; it stops for want of permits, of which a
thread takes away those that are left when the time is up. A producer that turns slow is timed again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from time import perf_counter as clock
from time import sleep

from pipeline.composition import element
from pipeline.database import forks
from pipeline.interfaces import Handler, OptionError
from pipeline.request import Request
from pipeline.response import LIVE, Response

SIZE = 120 * 1024
"""Bytes that are sent at a time: fewer cost a server more calls. Joined to 64 KiB, blocks of 128 bytes took 1.8
(waitress) and 2.0 (gunicorn) times what blocks of 64 KiB take; joined to this, 1.6 and 1.7, as to twice as much."""
MANY = 32
"""Blocks that must go into one, for it to be worth while to gather them without a clock."""
MOST = 8_192
"""Blocks that are gathered so at a time, whatever their length."""
TICK = 0.002
"""Seconds from one look at what is being gathered to the next."""


@element(
    inside={
        "errors": "a filter that cannot be set up is an error page too",
        "compress": "blocks are joined before they are compressed, since each is flushed: the other way "
        "round, a page in blocks of 128 bytes takes three to five times as long and comes out twice as large",
    }
)
def coalesce(next: Handler, *, size: int = SIZE, threshold: float = 0.005) -> Handler:
    """Join the blocks of a streamed body, so that many small ones cost what few large ones do.

    size       bytes from which joined blocks are sent, 120 KiB if nothing is said; 0 turns this element off
    threshold  seconds since something was sent, after which all that is there is sent

    The first block leaves as it is made, and so does each for which the producer takes longer than
    ``threshold``, together with what was held. No block waits longer than that, unless the producer pauses:
    nothing can be sent while it is asked for the next block, so that what it made in a burst before the
    pause, up to ``size`` bytes, waits for the end of it.

    Bodies in memory and files pass as they are, and so do event streams.
    """
    if size < 0 or threshold < 0:
        raise OptionError(f"size and threshold are not negative: {size}, {threshold}")
    if not size:
        return next

    def joined(chunks: Iterator[bytes]) -> Iterator[bytes]:
        return join(chunks, size, threshold)

    def coalesce(request: Request, response: Response) -> None:
        next(request, response)
        body = response._app_iter
        if type(body) is list or type(body) is tuple:
            return
        is_file = hasattr(body, "app_iter_range") and not response.filters
        if not is_file and response.content_type not in LIVE:
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
    """Blocks of ``chunks`` joined, so many at a time, as long as there are so many within ``threshold``."""
    held: list[bytes] = []
    going_on = True
    while going_on:
        permits = [None] * count
        late = clock() + threshold
        watch.begin(permits, late)
        try:
            # Each block is appended first, and then a permit is taken: none is lost when there is no more.
            deque(zip(map(held.append, chunks), permits, strict=False), maxlen=0)
        finally:
            watch.end(permits)
        if held and len(held[-1]) * MANY > size:  # they have become large: to join them takes memory
            yield from filter(None, held)
            return
        going_on = len(held) > count and clock() < late
        if joined := b"".join(held):
            yield joined
        held.clear()


class Watch:
    """A thread that takes away permits when their time is up; there while anybody gathers."""

    def __init__(self) -> None:
        self.forget()
        forks.own(forget=self.forget)

    def forget(self) -> None:
        """Be as before the first use: a child process has none of its parent's threads."""
        self.given: dict[int, tuple[float, list[None]]] = {}
        self.needed = threading.Event()
        self.lock = threading.Lock()
        self.thread: threading.Thread | None = None

    def begin(self, permits: list[None], late: float) -> None:
        """Take away these permits when it is ``late``."""
        forks.check()
        self.given[id(permits)] = late, permits
        if not self.needed.is_set():
            self.needed.set()
            with self.lock:
                if self.thread is None:
                    self.thread = threading.Thread(target=self.run, name="coalesce", daemon=True)
                    self.thread.start()

    def end(self, permits: list[None]) -> None:
        """They are not used any more."""
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
                if self.given:  # since a moment ago
                    self.needed.set()


watch = Watch()
