"""The steps of traversal and the candidates for a view, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.explaining.candidates import Look
from pipeline.explaining.walking import Walk

MOST_STRANGERS = 4
"""Views for other objects than the context: fewer than these are shown."""


def walk_lines(walk: Walk) -> Iterator[str]:
    """Yield each step of traversal, and what answered it."""
    for taken in walk.steps:
        source = "" if taken.source in ("", "path") else f" ({taken.source})"
        yield f"  {taken.name or '/'}{source}: {taken.result}"
        yield f"      answered by {taken.answered_by}"


def look_title(look: Look) -> str:
    """Return what was looked up."""
    return f"{repr(look.name) if look.name else '(the default view)'} for {look.context}, {look.method}"


def look_lines(look: Look) -> Iterator[str]:
    """Yield each view that was a candidate, and why it was chosen or not."""
    strangers = [candidate for candidate in look.candidates if not candidate.fits]
    shown = look.candidates if len(strangers) < MOST_STRANGERS else [one for one in look.candidates if one.fits]
    beaten = sum(1 for other in look.candidates if other.verdict.startswith("less specific"))
    for candidate in shown:
        said = candidate.as_dict()
        chosen = candidate.verdict == "chosen"
        won = f": it is for {candidate.kind}" if chosen else ""
        won += f", the most specific of {beaten + 1}" if chosen and beaten else ""
        yield f"  {'->' if chosen else '  '} {said['function']} ({said['where']})"
        yield f"       {candidate.verdict}{won}"
    if len(shown) < len(look.candidates):
        yield f"     and {len(strangers)} views of that name for other objects"
    if not look.candidates:
        yield "     no view has that name"
