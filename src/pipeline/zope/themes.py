"""Plone's themes for ``pipeline explain``: why a page has none."""

from __future__ import annotations

import sys
from typing import Any


def theme_is_off(zope: Any) -> str:
    """Return why a site with plone.app.theming puts no theme around an answer, or "" if it does or has none."""
    theming = sys.modules.get("plone.app.theming.utils")
    if theming is None:
        return ""
    answer = zope.response
    if not (answer.getHeader("content-type") or "").startswith("text/html"):
        return ""
    policy = theming.theming_policy(zope)
    settings = policy.getSettings()
    if settings is None or policy.isThemeEnabled():
        return ""
    if answer.getHeader("X-Theme-Disabled"):
        why = "the view has set the header X-Theme-Disabled"
    elif not settings.enabled:
        why = "it is turned off in the control panel of themes"
    else:
        why = f"diazo.off is asked for, or {zope.get('SERVER_URL')} is a host without themes"
    return f"the theme is off: {why}"
