"""Every element of ours is described: a line for each option, a file of tests, its place in etc/all.ini."""

from __future__ import annotations

import inspect
import re
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest

from pipeline.composition import Element

TOP = Path(__file__).resolve().parents[2]
NAMES = [
    entry
    for entry in entry_points(group="paste.filter_factory")
    if entry.value.startswith("pipeline.elements.") or entry.value.startswith("pipeline.tools.")
]


@pytest.mark.parametrize("entry", NAMES, ids=lambda entry: entry.name)
def test_each_option_has_its_line(entry: EntryPoint) -> None:
    loaded = entry.load()
    assert isinstance(loaded, Element)
    text = inspect.getdoc(loaded.factory) or ""
    options = [
        name
        for name, parameter in inspect.signature(loaded.factory).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    ]
    assert [name for name in options if not re.search(rf"^(\w+, )*{name}\b", text, re.MULTILINE)] == []


@pytest.mark.parametrize("entry", NAMES, ids=lambda entry: entry.name)
def test_it_has_a_file_of_tests_and_a_line_in_an_ini_with_all(entry: EntryPoint) -> None:
    assert list((TOP / "tests").rglob(f"test_{entry.name}.py"))
    ini = (TOP / "etc" / "all.ini").read_text("utf-8")
    assert re.search(rf"^use = \S+#{entry.name}$|^#     {entry.name} ", ini, re.MULTILINE)
