"""Two states of an object are told apart by their amounts, and not by times and random values."""

from __future__ import annotations

import random
import time
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


@pytest.mark.parametrize("make", [time.time, random.random, lambda: random.randbytes(16)])
def test_what_differs_from_run_to_run_is_not(make: Any) -> None:
    made = [make() for _ in range(20)]
    assert len(set(made)) > 1 or make is time.time
    assert len({repr(plain(record(one))) for one in made if not float_of_cents(one)}) == 1


def float_of_cents(value: Any) -> bool:
    """Whether chance has made an amount."""
    return isinstance(value, float) and value == round(value, 2)


def test_a_name_of_chance_of_an_object_is_noise_and_its_other_values_are_not() -> None:
    first, second, third = (f"('Task', [('name', '{name}'), ('title', 'tea')])" for name in ("a1", "b2", "c3"))
    noise = Noise()
    noise.learn((first,), (second,))
    assert noise.without((first,)) == noise.without((third,))
    assert noise.without((first,)) != noise.without((third.replace("tea", "cake"),))
