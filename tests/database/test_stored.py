"""The bytes by which states are compared are equal for states that are equal."""

from __future__ import annotations

import pytest

from pipeline.database.stored import comparable


@pytest.mark.parametrize("kind", [set, frozenset])
def test_sets_are_compared_without_their_order(kind: type[set[int]]) -> None:
    """It depends on what was added first, and on the hashes of this process: the state of an object that was loaded
    again, such as the fields of a model of pydantic, had another one in one process of thirty."""
    one, other = kind([0, 8]), kind([8, 0])
    assert one == other and list(one) != list(other)
    assert comparable({"a": [one]}) == comparable({"a": [other]}) != comparable({"a": [kind([0, 9])]})
    assert comparable({frozenset(one), 1}) == comparable({1, frozenset(other)})


def test_a_set_is_no_other_value() -> None:
    assert len({comparable(one) for one in ({1}, frozenset({1}), [1], (1,), {"1"})}) == 5
