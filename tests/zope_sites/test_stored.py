"""The comparison of what two sites have stored finds a difference of the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from persistent.mapping import PersistentMapping
from ZODB.DB import DB
from ZODB.MappingStorage import MappingStorage

from zope_sites.stored import stored


def stored_by(change: Callable[[Any], Any]) -> list[Any]:
    """Return what one transaction stores in a new database."""
    db = DB(MappingStorage())
    since = db.lastTransaction()
    with db.transaction() as connection:
        change(connection.root())
    return stored(db, since)


@pytest.mark.parametrize(
    "other",
    [
        lambda root: root.update(a=2, b="text"),
        lambda root: root.update(a=1, b="test"),
        lambda root: root.update(a=1, c="text"),
        lambda root: root.update(a=1),
        lambda root: root.update(a=True, b="text"),
        lambda root: root.update(a=1, b=b"text"),
        lambda root: root.update(a=1, b=PersistentMapping()),
        lambda root: root.update(a=0, b="text"),
        lambda root: root.update(a=1, b=""),
    ],
)
def test_another_state_is_found(other: Callable[[Any], Any]) -> None:
    assert stored_by(other) != stored_by(lambda root: root.update(a=1, b="text"))


def test_an_equal_state_is_equal_though_strings_are_one_object_or_two() -> None:
    text = "a text"
    one = stored_by(lambda root: root.update(a=text, b=text))
    assert one == stored_by(lambda root: root.update(a=text, b="".join(["a ", "text"])))
