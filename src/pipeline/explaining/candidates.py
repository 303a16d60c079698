"""The look-up of a view, done again with a note of every view that has the name."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Any, NamedTuple

from zope.interface import providedBy

from pipeline.auth.policy import lineage
from pipeline.interfaces import PUBLIC
from pipeline.telling.words import kind_name, place_of, short
from pipeline.views import View, Views

MOST_PARENTS = 50
"""Parents of an object that are asked for their grants."""
MOST_STRANGERS = 4
"""Views for other objects than the context: fewer than these are shown."""


class Candidate(NamedTuple):
    """A view that has the name, and why it was chosen or not."""

    view: View
    kind: str
    """The class or interface of the objects that it is for."""
    verdict: str
    fits: bool

    def as_dict(self) -> dict[str, Any]:
        """Return the candidate for JSON."""
        function = f"{self.view.function.__module__}.{self.view.function.__qualname__}"
        where = place_of(self.view.function)
        return {"function": function, "where": where, "kind": self.kind, "verdict": self.verdict}


class Look(NamedTuple):
    """The look-up of a view: the context, name and method that were asked for, and the views for them."""

    context: str
    name: str
    method: str
    chosen: View | None
    candidates: list[Candidate]
    allowed: list[str]
    others: list[str]
    """The names of the views that there are for the context and the method."""
    is_empty: bool
    """True if the publisher does not have any view."""
    grants: list[str]
    """The grants on the context and on its parents, as far as they lead, if the chosen view needs a permission."""

    def near(self) -> str:
        """Return the name that was meant, most likely, or ""."""
        return next(iter(get_close_matches(self.name, self.others, n=1)), "") if self.name else ""

    @property
    def title(self) -> str:
        """The question of the look-up, as text."""
        return f"{repr(self.name) if self.name else '(the default view)'} for {self.context}, {self.method}"

    def lines(self) -> Iterator[str]:
        """Yield each view that was a candidate, and why it was chosen or not, as text."""
        strangers = [candidate for candidate in self.candidates if not candidate.fits]
        shown = self.candidates if len(strangers) < MOST_STRANGERS else [one for one in self.candidates if one.fits]
        beaten = sum(1 for other in self.candidates if other.verdict.startswith("less specific"))
        for candidate in shown:
            chosen = candidate.verdict == "chosen"
            won = f": it is for {candidate.kind}" if chosen else ""
            won += f", the most specific of {beaten + 1}" if chosen and beaten else ""
            yield f"  {'->' if chosen else '  '} {candidate.view}"
            yield f"       {candidate.verdict}{won}"
        if len(shown) < len(self.candidates):
            yield f"     and {len(strangers)} views of that name for other objects"
        if not self.candidates:
            yield "     no view has that name"


def look_up(request: Any) -> Look:
    """Look the view of a request up again."""
    views: Views = request.views
    context, name, method = request.context, request.view_name, request.environ["REQUEST_METHOD"]
    chosen = views.find(context, request, method, name)
    provided, asked = providedBy(context), providedBy(request)
    candidates: dict[tuple[View, Any, Any], Candidate] = {}
    others = set()
    empty = True
    for spec, request_type, key, view in views:
        empty = False
        one_method, _, one_name = key.partition(" ")
        if one_method == "error":
            continue
        fits = provided.isOrExtends(spec)
        typed = asked.isOrExtends(request_type)
        if fits and typed and one_method == method:
            others.add(one_name)
        if one_name != name:
            continue
        kind = kind_name(spec)
        if not fits:
            verdict = f"not for {short(type(context))}: it is for {kind}"
        elif not typed:
            verdict = f"not for this request: it is for requests that are {kind_name(request_type)}"
        elif method not in view.methods and not (method == "HEAD" and "GET" in view.methods):
            verdict = f"not for {method}: it accepts {', '.join(view.methods)}"
        elif view is chosen:
            verdict = "chosen"
        else:
            verdict = f"less specific than the view that was chosen: it is for {kind}"
        candidates[view, spec, request_type] = Candidate(view, kind, verdict, fits)
    found = sorted(candidates.values(), key=lambda candidate: (candidate.view is not chosen, not candidate.fits))
    allowed = views.allowed(context, request, name)
    guarded = chosen is not None and chosen.permission != PUBLIC
    grants = list(granted(context)) if guarded else []
    return Look(short(context), name, method, chosen, found, allowed, sorted(others), empty, grants)


def granted(obj: Any) -> Iterator[str]:
    """Yield the local grants on an object and on its parents, and where the parents end."""
    for place in islice(lineage(obj), MOST_PARENTS):
        if grants := getattr(place, "__grants__", None):
            yield f"{short(place)} grants {short(dict(grants), 200)}"
        if not hasattr(place, "__parent__"):
            yield f"{short(place)} has no __parent__, so no grant above it counts"
