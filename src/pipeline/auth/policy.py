"""The security policies of this package.

A policy is asked for each view that declares a permission other than ``PUBLIC``. For a view that declares none, it
is asked for the permission ``UNDECLARED`` (option ``undeclared`` of ``authenticate``).
"""

from __future__ import annotations

from typing import Any

from zope.interface import implementer

from pipeline.interfaces import ISecurityPolicy
from pipeline.request import Request

UNDECLARED = "undeclared"
"""The permission for views that declare none."""

EVERYONE = "everyone"
"""The holder, in local grants, that stands for every client, logged in or not."""
LOGGED_IN = "logged in"
"""The holder, in local grants, that stands for every principal."""


@implementer(ISecurityPolicy)
class LoggedIn:
    """The policy by which every principal holds every permission."""

    def permits(self, request: Request, permission: str, context: Any) -> bool:
        return request.principal is not None


@implementer(ISecurityPolicy)
class LocalGrants:
    """The policy by which a permission is held on the object where it was granted, and below.

    Grants stand on objects, from principal to permissions: ``obj.__grants__ = {"ann": {"edit", "delete"},
    LOGGED_IN: {"view"}}``. They are looked up on the context and on its parents (``__parent__``) up to the root.
    A permission that is not granted is denied.

    A place with users of its own must give them other principals than the site has: otherwise its "ann" would hold
    the grants of the site's "ann".
    """

    def permits(self, request: Request, permission: str, context: Any) -> bool:
        holders = [EVERYONE]
        if request.principal is not None:
            holders += [LOGGED_IN, request.principal]
        obj = context
        while obj is not None:
            grants = getattr(obj, "__grants__", None)
            for holder in holders:
                held = grants.get(holder, ()) if grants else ()
                if isinstance(held, str):  # "edit" in "editor" is true, but it is another permission
                    raise TypeError(f"__grants__ of {obj!r}: {holder!r} has a str; give it a set of str")
                if permission in held:
                    return True
            obj = getattr(obj, "__parent__", None)
        return False
