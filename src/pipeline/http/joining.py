"""Join small blocks of a stream as long as they come fast.

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
from time import perf_counter as clock
from time import sleep

from pipeline.database import forks

MANY = 32
"""Number of blocks that must fit into one joined block, for gathering without a clock to pay."""
MOST = 8_192
"""Upper limit of the blocks that are gathered at a time, whatever their length."""
TICK = 0.002
"""Seconds from one look of the timer at the clock to the next."""


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
