"""Who may do what: the security policies that ship.

A policy is asked for each view that declares a permission, and for each that declares none and is called
by a method that changes something.
"""

from __future__ import annotations

from typing import Any

from zope.interface import implementer

from pipeline.interfaces import ISecurityPolicy
from pipeline.request import Request

PUBLIC = "public"
"""The permission of a view that anybody may call, by any method that it accepts."""

EVERYONE = "everyone"
"""In local grants: who asks, logged in or not."""
LOGGED_IN = "logged in"
"""In local grants: any principal."""


@implementer(ISecurityPolicy)
class LoggedIn:
    """Whoever is logged in holds every permission."""

    def permits(self, request: Request, permission: str, context: Any) -> bool:
        return permission == PUBLIC or request.principal is not None


@implementer(ISecurityPolicy)
class LocalGrants:
    """A permission is held where it was granted, and below.

    Grants stand on objects, from principal to permissions: ``obj.__grants__ = {"ann": {"edit", "delete"},
    LOGGED_IN: {"view"}}``. They are looked for on the context and on its parents (``__parent__``) up to the
    root. What is granted nowhere is denied.
    """

    def permits(self, request: Request, permission: str, context: Any) -> bool:
        if permission == PUBLIC:
            return True
        holders = [EVERYONE]
        if request.principal is not None:
            holders += [LOGGED_IN, request.principal]
        obj = context
        while obj is not None:
            grants = getattr(obj, "__grants__", None)
            if grants and any(permission in grants.get(holder, ()) for holder in holders):
                return True
            obj = getattr(obj, "__parent__", None)
        return False
