"""The security policies of this package.

A policy is asked for each view that declares a permission other than ``PUBLIC``. For a view that declares none, it
is asked for the permission ``UNDECLARED`` (option ``undeclared`` of ``authenticate``).

A policy whose decision depends on the request and on objects of the object database, and on nothing else, says so
by an attribute ``asks_the_database_alone = True``. Pages behind any other policy are not kept (R14).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, NamedTuple

from zope.interface import implementer

from pipeline.interfaces import ISecurityPolicy
from pipeline.request import Request

UNDECLARED = "undeclared"
"""The permission for views that declare none."""

log = logging.getLogger("pipeline")


class Marker:
    """A holder, in local grants, that stands for several principals. No principal equals it, since those are str,
    and each process has the same object for it, since a pickle has its name alone (S27)."""

    def __init__(self, name: str, was: str) -> None:
        self.name = name
        self.was = was
        """The text that stood for it in 0.1 and 0.2, and that is the name of a user now."""

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return self.name


EVERYONE = Marker("EVERYONE", "everyone")
"""The holder, in local grants, that stands for every client, logged in or not."""
LOGGED_IN = Marker("LOGGED_IN", "logged in")
"""The holder, in local grants, that stands for every principal."""


class Group(NamedTuple):
    """A holder, in local grants, that stands for the principals of a group (``request.groups``). No principal
    equals it, since those are str (S27)."""

    name: str


@implementer(ISecurityPolicy)
class LoggedIn:
    """The policy by which every principal holds every permission."""

    asks_the_database_alone = True

    def permits(self, request: Request, permission: str, context: Any) -> bool:
        return request.principal is not None


DEEPEST = 1_000
"""Parents of an object that are looked at. A folder that was moved into itself has no last one."""


def lineage(obj: Any) -> Iterator[Any]:
    """Yield an object and its parents, up to the root. Raise ValueError if they make a circle."""
    place = obj
    for _ in range(DEEPEST):
        if place is None:
            return
        yield place
        place = getattr(place, "__parent__", None)
    raise ValueError(f"the parents of {obj!r} make a circle at {place!r}: it was moved into an object inside of it")


def is_in(request: Any, group: Group) -> bool:
    """Return whether the principal of a request is in a group. Without a principal, no groups are asked for."""
    return request.principal is not None and group.name in request.groups


@implementer(ISecurityPolicy)
class LocalGrants:
    """The policy by which a permission is held on the object where it was granted, and below.

    Grants stand on objects, from principal to permissions: ``obj.__grants__ = {"ann": {"edit", "delete"},
    LOGGED_IN: {"view"}, Group("editors"): {"publish"}}``. They are looked up on the context and on its parents
    (``__parent__``) up to the root. A permission that is not granted is denied.

    A place with users of its own must give them other principals than the site has: otherwise its "ann" would hold
    the grants of the site's "ann".
    """

    asks_the_database_alone = True

    def __init__(self) -> None:
        self._told: set[Marker] = set()

    def permits(self, request: Request, permission: str, context: Any) -> bool:
        holders: list[Marker | str] = [EVERYONE]
        if request.principal is not None:
            holders += [LOGGED_IN, request.principal]
        for obj in lineage(context):
            grants = getattr(obj, "__grants__", None) or {}
            for holder in [*holders, *(holder for holder in grants if type(holder) is Group)]:
                held = grants.get(holder, ())
                if isinstance(held, str):  # "edit" in "editor" is true, but it is another permission
                    raise TypeError(f"__grants__ of {obj!r}: {holder!r} has a str; give it a set of str")
                if permission in held and (type(holder) is not Group or is_in(request, holder)):
                    return True
        self._tell_old_grants(context)
        return False

    def _tell_old_grants(self, obj: Any) -> None:
        """Log a grant of EVERYONE or LOGGED_IN that is stored as a text."""
        for place in lineage(obj):
            for marker in (EVERYONE, LOGGED_IN):
                if marker.was in (getattr(place, "__grants__", None) or ()) and marker not in self._told:
                    self._told.add(marker)
                    log.warning(
                        "LocalGrants: __grants__ of %r has %r, which is the name of a user. If it means %s, "
                        "replace the text by pipeline.auth.policy.%s", place, marker.was, marker.was, marker,
                    )  # fmt: skip
