"""The description of an element: every option is explained, with its type and default."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

import pipeline.elements
from pipeline.composition import Element
from pipeline.publisher import publisher
from pipeline.telling.descriptions import added, read, split

FILES = sorted(Path(pipeline.elements.__file__).parent.glob("[a-z]*.py"))
ELEMENTS = [getattr(import_module(f"pipeline.elements.{file.stem}"), file.stem) for file in FILES] + [publisher]


@pytest.mark.parametrize("element", ELEMENTS, ids=lambda element: element.name)
def test_every_option_is_explained(element: Element) -> None:
    text, options = read(element.__doc__, element.factory)
    assert [option.name for option in options] == list(element.signature.annotations)
    assert [option.name for option in options if not option.meaning] == []
    assert text.strip(), "and the docstring says more than its options"


@pytest.mark.parametrize("element", ELEMENTS, ids=lambda element: element.name)
def test_every_attribute_of_the_request_is_explained(element: Element) -> None:
    assert [one["name"] for one in added(element) if not one["meaning"]] == []


DOCSTRING = """Do it.

size   bytes of it: one line
       and another
       with an example::

         size = 5

other  is not an option

Refuses more.
"""


def test_the_options_are_taken_out_of_a_docstring() -> None:
    text, meanings = split(DOCSTRING, ["size"])
    assert text == "Do it.\n\nother  is not an option\n\nRefuses more."
    assert meanings == {"size": "bytes of it: one line\nand another\nwith an example::\n\n  size = 5"}


def test_a_docstring_that_is_missing_has_no_options() -> None:
    assert split(None, ["size"]) == ("", {})
