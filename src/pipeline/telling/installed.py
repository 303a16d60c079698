"""The elements that are installed, by their entry points."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from warnings import catch_warnings

from pipeline.composition import Element

GROUPS = ("paste.filter_factory", "paste.app_factory")
"""The groups of entry points that have elements. Those of the second are ends of pipelines."""


def loaded(point: EntryPoint) -> object:
    """Load what is installed, without the warnings of packages that stand beside the elements."""
    with catch_warnings(action="ignore"):
        return point.load()


@cache
def providers(thing: str) -> str:
    """Return the names of the installed elements that provide a thing, such as "zodb or sql"."""
    found = []
    for point in entry_points(group=GROUPS[0]):
        with suppress(ImportError):
            element = loaded(point)
            if isinstance(element, Element) and thing in element.contract.provides:
                found.append(point.name)
    return " or ".join(sorted(found)) or f"an element that provides {thing!r}"
