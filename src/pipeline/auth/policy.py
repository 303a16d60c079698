"""Who may do what: the security policies that ship.

A policy is asked for each view that declares a permission but ``PUBLIC``, and, for the permission
``UNDECLARED``, for those that declare none (option ``undeclared`` of ``authenticate``).
"""

from __future__ import annotations

from typing import Any

from zope.interface import implementer

from pipeline.interfaces import ISecurityPolicy
from pipeline.request import Request

UNDECLARED = "undeclared"
"""What is asked of the policy for a view that declares no permission."""

EVERYONE = "everyone"
"""In local grants: who asks, logged in or not."""
LOGGED_IN = "logged in"
"""In local grants: any principal."""


@implementer(ISecurityPolicy)
class LoggedIn:
    """Whoever is logged in holds every permission."""

    def permits(self, request: Request, permission: str, context: Any) -> bool:
        return request.principal is not None


@implementer(ISecurityPolicy)
class LocalGrants:
    """A permission is held where it was granted, and below.

    Grants stand on objects, from principal to permissions: ``obj.__grants__ = {"ann": {"edit", "delete"},
    LOGGED_IN: {"view"}}``. They are looked for on the context and on its parents (``__parent__``) up to the
    root. What is granted nowhere is denied.

    A place with users of its own names them as the site names none: its "ann" would hold what is granted to
    the site's.
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
                if isinstance(held, str):  # "edit" is in "editor", and means another thing
                    raise TypeError(f"__grants__ of {obj!r}: {holder!r} holds a str, not a set of them")
                if permission in held:
                    return True
            obj = getattr(obj, "__parent__", None)
        return False
