"""``coalesce``: fast blocks are joined, slow ones are not, and no byte is lost or changed."""

from __future__ import annotations

import os
import threading
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from webob import Request as Asked

from asking import ask
from pipeline import Pipeline, Request, Response, element
from pipeline.elements.coalesce import TICK, PermitTimer, coalesce, join, permit_timer
from pipeline.elements.compress import compress
from pipeline.elements.errors import errors
from pipeline.http.files import FileBody
from pipeline.interfaces import OptionError, OrderError

SMALL = b"x" * 128
SLOW = 0.05
"""Seconds that a slow block takes by the clock of the test; ten times the threshold."""


class Clock:
    """The time of a test. It passes only when a producer says so, however busy the machine is."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked = 0

    def __call__(self) -> float:
        self.asked += 1
        return self.now

    def let_pass(self, seconds: float, pause: Callable[[], object] = lambda: time.sleep(TICK)) -> None:
        """Let time pass, and wait until the timer has seen it."""
        self.now += seconds
        end = time.monotonic() + 60
        while any(permits and late <= self.now for late, permits in list(permit_timer.given.values())):
            assert time.monotonic() < end, "the timer does not look at the clock"
            pause()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("pipeline.elements.coalesce.clock", clock)
    return clock


def fast(count: int, block: bytes = SMALL) -> Iterator[bytes]:
    return (block for _ in range(count))


def lengths(blocks: Iterator[bytes]) -> list[int]:
    return [len(block) for block in blocks]


# Joining.


def test_fast_blocks_are_joined() -> None:
    sent = lengths(join(fast(20_000), 65_536, 60))
    assert sent[0] == 128 and sum(sent) == 20_000 * 128
    assert all(65_536 <= length <= 65_536 + 128 for length in sent[1:-1]) and len(sent) <= 42


def test_the_first_block_leaves_before_the_second_is_made() -> None:
    made: list[int] = []

    def blocks() -> Iterator[bytes]:
        for number in range(3):
            made.append(number)
            yield SMALL

    assert next(join(blocks(), 65_536, 60)) == SMALL and made == [0]


def test_the_first_block_is_the_first_that_is_not_empty() -> None:
    assert list(join(iter([b"", b"", b"a", b"", b"b", b"c"]), 65_536, 60)) == [b"a", b"bc"]
    assert list(join(iter([b"", b""]), 65_536, 60)) == list(join(iter([]), 65_536, 60)) == []


@pytest.mark.parametrize("threshold", [0, 60])
def test_no_block_is_empty(threshold: float) -> None:
    """Nothing of a body is: to some servers an empty block is its end."""
    for blocks in (
        [b"a", b"", b"", b"b", b""],
        [SMALL] * 2_000 + [b""] * 20_000,
        [SMALL] * 2_000 + [b""] * 3_000 + [b"x" * 70_000] + [b""] * 3,
    ):
        sent = list(join(iter(blocks), 65_536, threshold))
        assert all(sent) and b"".join(sent) == b"".join(blocks)


def test_large_blocks_are_not_joined_to_larger_ones() -> None:
    assert lengths(join(iter([SMALL, b"x" * 70_000, b"x" * 70_000, SMALL]), 65_536, 60)) == [
        *(128, 70_000, 70_000, 128)
    ]


@example([b"x"] * 33 + [b""], 32)  # nothing but an empty block is left to be gathered
@given(st.lists(st.binary(max_size=40) | st.integers(0, 3_000).map(bytes), max_size=60), st.integers(1, 2_000))
def test_no_byte_is_lost(blocks: list[bytes], size: int) -> None:
    sent = list(join(iter(blocks), size, 60))
    assert b"".join(sent) == b"".join(blocks) and all(sent)


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 400)), max_size=8), st.integers(1, 9_000))
def test_no_byte_is_lost_by_a_producer_that_is_fast(runs: list[tuple[int, int]], size: int) -> None:
    blocks = [b"%d" % number * length for length, count in runs for number in range(count)]
    assert b"".join(join(iter(blocks), size, 60)) == b"".join(blocks)


# Slow producers.


def timed(clock: Clock, kinds: str) -> list[tuple[bytes, float]]:
    """What is sent of blocks that are fast (lower case) or slow, and how long after it was made the last
    byte of it was sent, in seconds."""
    made: list[float] = []

    def blocks() -> Iterator[bytes]:
        for kind in kinds:
            if kind.isupper():
                clock.let_pass(SLOW)
            made.append(clock.now)
            yield kind.encode() * 128

    sent = []
    total = 0
    for block in join(blocks(), 65_536, 0.005):
        total += len(block)
        sent.append((block[::128], clock.now - made[total // 128 - 1]))
    return sent


def test_each_block_of_a_slow_producer_leaves_as_it_is_made(clock: Clock) -> None:
    assert timed(clock, "ABCD") == [(b"A", 0), (b"B", 0), (b"C", 0), (b"D", 0)]


def test_a_slow_block_leaves_at_once_with_what_was_held(clock: Clock) -> None:
    assert timed(clock, "abcDefG") == [(b"a", 0), (b"bcD", 0), (b"efG", 0)]


def test_a_producer_that_turns_slow_after_it_was_fast(clock: Clock) -> None:
    """It had been so fast that nobody asked the clock any more."""
    sent = timed(clock, "a" * 5_000 + "BCD" + "e" * 5_000 + "FG")
    assert b"".join(block for block, _ in sent) == b"a" * 5_000 + b"BCD" + b"e" * 5_000 + b"FG"
    ends = [block[-1:] for block, _ in sent]
    for slow in (b"B", b"C", b"D", b"F", b"G"):
        assert slow in ends, "it leaves as it is made"
    assert max(late for block, late in sent if block[-1:].isupper()) == 0
    assert len(sent) < 40


def test_one_that_computes_is_slow_too(clock: Clock) -> None:
    """It never lets go of the interpreter by itself."""

    def blocks() -> Iterator[bytes]:
        yield from fast(3_000)
        for _ in range(3):
            clock.let_pass(SLOW, lambda: None)
            yield b"!"

    sent = list(join(blocks(), 65_536, 0.005))
    assert [block[-1:] for block in sent].count(b"!") == 3


def test_a_burst_before_a_pause_waits(clock: Clock) -> None:
    """As the documentation says: an iterator cannot send while it waits."""
    assert timed(clock, "abcD") == [(b"a", 0), (b"bcD", 0)]


# The thread of the timer.


def test_the_timer_sleeps_while_nothing_is_gathered() -> None:
    list(join(fast(20_000), 65_536, 0.005))
    deadline = time.monotonic() + 60
    while permit_timer.needed.is_set() and time.monotonic() < deadline:
        time.sleep(TICK)
    assert not permit_timer.needed.is_set() and not permit_timer.given
    assert [thread.name for thread in threading.enumerate()].count("coalesce") == 1


def test_many_gather_at_the_same_time() -> None:
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda: results.append(sum(lengths(join(fast(20_000), 4_096, 0.001)))))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [20_000 * 128] * 8 and not permit_timer.given


def test_a_producer_that_fails_is_not_timed_any_more() -> None:
    def blocks() -> Iterator[bytes]:
        yield from fast(3_000)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(join(blocks(), 65_536, 60))
    assert not permit_timer.given


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_process_has_a_timer_of_its_own(clock: Clock) -> None:
    """As under gunicorn, where the parent may have used it."""
    list(join(fast(20_000), 65_536, 0.005))
    child = os.fork()
    if child == 0:
        try:
            sent = timed(clock, "a" * 5_000 + "BC")
            os._exit(0 if [block[-1:] for block, _ in sent][-2:] == [b"B", b"C"] else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_without_a_timer_a_slow_block_waits_for_one_batch_at_most(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as where threads are something else. The next blocks are timed again."""
    monkeypatch.setattr(PermitTimer, "begin", lambda self, permits, late: None)
    monkeypatch.setattr(PermitTimer, "end", lambda self, permits: None)
    sent = timed(clock, "a" * 5_000 + "B" + "c" * 600 + "DEF")
    assert b"".join(block for block, _ in sent) == b"a" * 5_000 + b"B" + b"c" * 600 + b"DEF"
    assert [block[-1:] for block, _ in sent][-3:] == [b"D", b"E", b"F"]


# Cost, and memory.


def test_the_clock_is_not_asked_for_each_block(clock: Clock) -> None:
    """To ask it costs more than all the rest of the work. ``python -m bench blocks`` asks real servers."""
    deque(join(fast(20_000), 65_536, 0.005), maxlen=0)
    assert clock.asked < 1_000, "some 512 until the producer has proved to be fast, and a few for each joined block"


def test_it_holds_little() -> None:
    tracemalloc.start()
    for _ in join((bytes(1_000) for _ in range(20_000)), 65_536, 60):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_it_holds_little_of_blocks_that_become_large(clock: Clock) -> None:
    """They were small and fast, so that many would go into one."""

    def blocks() -> Iterator[bytes]:
        yield from fast(2_000)
        for _ in range(100):
            clock.let_pass(0.001)
            yield bytes(1_000_000)

    list(join(fast(20_000), 65_536, 0.005))  # the timer is awake
    tracemalloc.start()
    sent = lengths(join(blocks(), 65_536, 0.005))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(sent) == 2_000 * 128 + 100_000_000 and peak < 40_000_000


# The element.


def says(**attributes: Any) -> Any:
    @element
    def says() -> Any:
        def says(request: Request, response: Response) -> None:
            for name, value in attributes.items():
                setattr(response, name, value)

        return says

    return says()


def sent_by(app: Any) -> list[bytes]:
    body = app(Asked.blank("/").environ, lambda status, headers: None)
    blocks = list(body)
    if hasattr(body, "close"):
        body.close()
    return blocks


MANY = [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize(
    ("attributes", "blocks"),
    [
        ({"app_iter": MANY, "content_type": "text/plain"}, [b"a", b"bcd"]),
        ({"app_iter": MANY, "content_length": 4}, [b"a", b"bcd"]),
        ({"app_iter": MANY, "content_type": "text/event-stream"}, MANY),
        ({"app_iter": MANY, "content_type": "multipart/x-mixed-replace"}, MANY),
    ],
)
def test_streams(attributes: dict[str, Any], blocks: list[bytes]) -> None:
    attributes = {**attributes, "app_iter": iter(attributes["app_iter"])}
    assert sent_by(Pipeline(errors(), coalesce(threshold=60), says(**attributes))) == blocks


def test_what_is_in_memory_passes() -> None:
    for body in (MANY, tuple(MANY)):
        assert sent_by(Pipeline(errors(), coalesce(), says(app_iter=body))) == MANY


def test_a_file_passes(tmp_path: Any) -> None:
    (tmp_path / "file").write_bytes(b"x" * 200_000)
    with open(tmp_path / "file", "rb") as file:
        sent = sent_by(Pipeline(errors(), coalesce(), says(app_iter=FileBody(file))))
    assert list(map(len, sent)) == [65_536, 65_536, 65_536, 200_000 - 3 * 65_536]


def test_what_a_filter_makes_of_a_file_is_joined(tmp_path: Any) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1_000)

    def cut(chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            for place in range(0, len(chunk), 10):
                yield chunk[place : place + 10]

    with open(tmp_path / "file", "rb") as file:
        sent = sent_by(Pipeline(errors(), coalesce(threshold=60), says(app_iter=FileBody(file), filters=(cut,))))
    assert list(map(len, sent)) == [10, 990]


def test_the_headers_stay_as_they_are() -> None:
    attributes = {"content_length": 4, "etag": "x", "accept_ranges": "bytes", "content_type": "text/plain"}
    answer = ask(Pipeline(errors(), coalesce(), says(app_iter=iter(MANY), **attributes)))
    assert answer.content_length == 4 and answer.headers["ETag"] == '"x"' and answer.accept_ranges == "bytes"


def test_a_range_of_what_is_joined() -> None:
    attributes = {"content_length": 4, "etag": "x", "conditional_response": True}
    app = Pipeline(errors(), coalesce(), says(app_iter=iter(MANY), **attributes))
    answer = ask(app, environ={"HTTP_RANGE": "bytes=1-2"})
    assert answer.status_int == 206 and answer.body == b"bc"


def test_it_comes_after_all_filters_and_before_compress() -> None:
    def double(chunks: Iterator[bytes]) -> Iterator[bytes]:
        return (chunk * 2 for chunk in chunks)

    @element
    def doubles(next: Callable[..., None]) -> Any:
        def doubles(request: Request, response: Response) -> None:
            next(request, response)
            response.add_filter(double)

        return doubles

    app = Pipeline(errors(), doubles(), coalesce(threshold=60), says(app_iter=iter(MANY)))
    assert sent_by(app) == [b"aa", b"bbccdd"]


def test_the_other_way_round_is_refused() -> None:
    with pytest.raises(OrderError, match="blocks are joined before they are compressed"):
        Pipeline(errors(), coalesce(), compress(), says())
    Pipeline(errors(), compress(), coalesce(), says())


def test_size_0_turns_it_off() -> None:
    assert sent_by(Pipeline(errors(), coalesce(size=0), says(app_iter=iter(MANY)))) == MANY


def test_threshold_0_sends_all_as_it_comes() -> None:
    assert sent_by(Pipeline(errors(), coalesce(threshold=0), says(app_iter=iter(MANY)))) == MANY


@pytest.mark.parametrize("options", [{"size": -1}, {"threshold": -0.1}])
def test_options_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="at least 0"):
        Pipeline(errors(), coalesce(**options), says())
