"""Invariants and owners that the author of a site has declared, asked of its databases and of its views."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any

from pipeline.staging.asked import Asked
from pipeline.staging.runs import Run
from pipeline.staging.site import Site

STRANGER = "prove-stranger"
"""A user to whom nothing belongs."""
NOBODY = ""
"""The user of an anonymous visitor, in the place of the user of the site."""


GIVEN: dict[str, Callable[[Any], Any]] = {
    "root": attrgetter("root"),
    "session": attrgetter("sql"),
    "request": lambda request: request,
}
"""Functions of a request that return what an invariant may ask for, by the names of its parameters."""


def broken_invariants(site: Site) -> Iterator[str]:
    """Yield the invariants that do not hold of what is stored now."""
    if not site.invariants:
        return
    found: dict[Any, str] = {}

    def look(request: Any) -> None:
        for invariant in site.invariants:
            found[invariant] = told_of(invariant, request)

    site.look(Asked("GET", "/"), look)
    for invariant in site.invariants:
        if said := found.get(invariant, "cannot be asked: the page / is not traversed"):
            yield f"the invariant {invariant.__name__} {said}"


def told_of(invariant: Callable[..., object], request: Any) -> str:
    """Return what an invariant says of the databases of a request, or "" if it holds."""
    names = inspect.signature(invariant).parameters
    if not names.keys() <= GIVEN.keys():
        return f"asks for {', '.join(names)}, and it can have {', '.join(GIVEN)}"
    try:
        said = invariant(*(GIVEN[name](request) for name in names))
    except Exception as error:
        return f"cannot be asked: {type(error).__name__}: {error}"
    return "" if said is True else f"does not hold, it is {said!r}"


def open_to_others(site: Site, request: Asked, own: Run, users: Sequence[str]) -> Iterator[tuple[str, Asked]]:
    """Ask as others for what belongs to one. Yield what is wrong, or "", with the request.

    own    the run that has told whose it is
    users  further users, who may do nothing with what is another one's
    """
    for user in dict.fromkeys((STRANGER, NOBODY, *users)) if own.owners else ():
        if user not in own.owners:
            tried = request._replace(user=user)
            yield is_open(site, own.owners, site.afresh(tried)), tried


def is_open(site: Site, owners: set[str], run: Run) -> str:
    """Return how what belongs to others has been open to the user of a run, or "" if he was refused."""
    reached = bool(run.owners & owners) and run.status is not None and 200 <= run.status < 300
    if not run.finished and not reached:
        return ""
    who = run.user or "an anonymous visitor"
    does = "changes" if run.finished else "sees"
    return f"S1: {who} {does} what belongs to {', '.join(sorted(owners))}"
