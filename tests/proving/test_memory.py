"""The variables of a site are put back to what they held, and those of libraries are left alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from pipeline.proving.growth import Memory, is_otherwise

MODULE = '''
import string
from collections import Counter, deque
from functools import lru_cache
import library_of_memory
SHARED = library_of_memory.SHARED
ENGINE = object()
name, seen, paths, marks, last = "first", {"a": 1}, ["/"], {1}, deque([1], 2)
counted = Counter("aab")
class Kept:
    newest = None
    names = []
kept = Kept()
kept.user = "ann"
@lru_cache
def price(number): return PRICES[number]
PRICES = {1: 499}
def visits():
    count, lines = 0, []
    def visit():
        nonlocal count
        count += 1
        lines.append(count)
        return count, lines
    return visit
visit = visits()
def noted(word, words=[]):
    words.append(word)
    return words
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "site-packages").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    (tmp_path / "site-packages" / "library_of_memory.py").write_text("SHARED = []\n")
    (tmp_path / "site_of_memory.py").write_text(MODULE)
    yield import_module("site_of_memory")
    for name in ("site_of_memory", "library_of_memory"):
        del sys.modules[name]


def held(module: Any) -> tuple[Any, ...]:
    """Return what the module holds, but for its caches."""
    variables = module.name, module.seen, module.paths, module.marks, [*module.last], module.counted, module.PRICES
    return (*variables, module.Kept.newest, module.Kept.names, module.kept.user)


def test_what_the_variables_hold_is_put_back(module: Any) -> None:
    before = repr(held(module))
    memory = Memory()
    assert module.price(1) == 499
    module.PRICES[1] = 999
    module.name, module.seen, module.kept.user, module.Kept.newest = "second", {}, "bob", "a page"
    for add in (module.paths.append, module.Kept.names.append, module.marks.add, module.last.append):
        add(7)
    module.counted["a"] += 5
    engine = module.ENGINE
    module.SHARED.append("of a library")
    assert (module.visit(), module.noted("tea")) == ((1, [1]), ["tea"])
    memory.put_back()
    assert repr(held(module)) == before
    assert (module.visit(), module.noted("cake")) == ((1, [1]), ["cake"])
    module.PRICES[1] = 5
    assert module.price(1) == 5
    assert module.ENGINE is engine
    assert module.SHARED == ["of a library"]


@pytest.mark.parametrize(
    ("before", "kept", "after", "is_told"),
    [
        ("200 tea", "200 tea", "200 tea", False),
        ("200 tea", "200 cake", "200 tea", True),
        ("200 tea", "400 tea", "200 tea", True),
        ("200 tea", "200 tea ann", "200 tea", True),
        ("200 a1", "200 b2", "200 c3", False),
        ("200 a1", "200 b2 ann", "200 c3", True),
        ("200 a", "200 b", "200 c d", False),
        ("302 tea", "429 slow", "302 tea", False),
    ],
)
def test_an_answer_differs_from_two_that_are_the_same(before: str, kept: str, after: str, is_told: bool) -> None:
    """What differs between these two is made by chance, or by the clock."""
    assert is_otherwise(before.split(), kept.split(), after.split()) is is_told
