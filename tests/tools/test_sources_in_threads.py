"""The source of a class, read while another thread reads one and objects are collected.

Python 3.11 counts the depth of all threads as one, so ``ast.parse`` raises SystemError then.
"""

from __future__ import annotations

import ast
import inspect
import threading
import time

import pytest

from pipeline.ini import place_of
from pipeline.telling.descriptions import _meaning

SECONDS = 3


class Slow:
    """An object of a circle, whose end lets other threads run."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        for _ in range(500):
            pass


@pytest.mark.once
def test_a_source_is_read_while_another_thread_reads_one() -> None:
    text = inspect.getsource(ast)
    end = time.monotonic() + SECONDS
    failed: list[BaseException] = []
    told: set[str] = set()

    def collect() -> None:
        while time.monotonic() < end:
            for _ in range(200):
                Slow()
            time.sleep(0.001)

    def parse() -> None:
        while time.monotonic() < end:
            try:
                ast.parse(text)
            except SystemError:
                pass

    def read() -> None:
        while time.monotonic() < end:
            try:
                told.update((place_of(inspect.Signature), _meaning.__wrapped__(inspect.Parameter, "no")))
            except SystemError as error:
                failed.append(error)

    threads = [threading.Thread(target=one) for one in (collect, parse, parse, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == [] and len(told) == 2, (failed[:1], told)
