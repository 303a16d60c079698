"""Two states of an object are told apart by their amounts, and not by times and random values."""

from __future__ import annotations

import random
import time
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from persistent.mapping import PersistentMapping
from ZODB.serialize import ObjectWriter

from pipeline.proving.noise import Noise
from pipeline.staging.copies import plain


def record(value: Any) -> bytes:
    """Return the record of an object with a value, as ZODB stores it."""
    return bytes(ObjectWriter().serialize(PersistentMapping(value=value)))


@pytest.mark.parametrize(
    ("one", "other"),
    [(12.5, 13.5), (9.99, 9.98), (0.0, -0.01), (Decimal("1.10"), Decimal("1.11")), ("a", "b"), (1, 2), ([1], [2])],
)
def test_amounts_are_compared(one: Any, other: Any) -> None:
    assert plain(record(one)) != plain(record(other))
    assert plain(record(one)) == plain(record(one))


@pytest.mark.parametrize("make", [time.time, random.random, datetime.now, lambda: random.randbytes(16)])
def test_what_differs_from_run_to_run_is_not(make: Any) -> None:
    first, second, third = (repr(plain(record({"made": make(), "title": "tea"}))) for _ in range(3))
    noise = Noise()
    noise.learn((first,), (second,))
    assert noise.without((first,)) == noise.without((third,))
    assert noise.without((first,)) != noise.without((third.replace("tea", "cake"),))


@pytest.mark.parametrize(("one", "other"), [({1, 2}, {2, 1}), ({"a", "b"}, {"b", "a"}), (b"a" * 9, b"b" * 9)])
def test_the_order_of_a_set_and_a_long_value_are_not_compared(one: Any, other: Any) -> None:
    assert plain(record(one)) == plain(record(other))
    assert plain(record({3, *one})) != plain(record(one))


def test_a_name_of_chance_of_an_object_is_noise_and_its_other_values_are_not() -> None:
    first, second, third = (f"('Task', [('name', '{name}'), ('title', 'tea')])" for name in ("a1", "b2", "c3"))
    noise = Noise()
    noise.learn((first,), (second,))
    assert noise.without((first,)) == noise.without((third,))
    assert noise.without((first,)) != noise.without((third.replace("tea", "cake"),))
