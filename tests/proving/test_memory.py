"""The variables of a site are put back to what they held, and those of libraries are left alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from pipeline import Pipeline, redirect, view
from pipeline.database import forks
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.zodb import zodb
from pipeline.proving.growth import KEPT, Memory, is_otherwise
from pipeline.proving.proof import Proof
from pipeline.publisher import publisher
from pipeline.staging.asked import asked

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


COUNTS: dict[str, int] = {}
"""What the pages below have shown before."""


@view(context=dict, name="ann")
@view(context=dict, name="bob")
def counted(context: Any, request: Any) -> str:
    name = request.view_name
    return f"<p>{COUNTS.setdefault(name, request.zodb.root().get(name, 0))}</p>"


@view(context=dict, name="add", methods=("POST",))
def add(context: Any, request: Any, name: str) -> Any:
    request.zodb.root()[name] = request.zodb.root().get(name, 0) + 1
    return redirect("/")


def test_what_is_kept_of_the_page_that_a_form_stands_on_is_found() -> None:
    elements = (zodb(uri="memory://counted"), errors(), transaction(), forms(), traverse(root=dict))
    adding = asked("POST", "/@@add", [("name", "bob")], page="/@@bob")
    proof = Proof(Pipeline(*elements, publisher(scan=(__name__,))), corpus=[asked("GET", "/@@ann"), adding])
    with proof.loaded():
        found = [(one.what, one.request) for one in proof.growth().report.found]
    forks.close_all()
    assert found == [(KEPT, "GET /@@bob")]
