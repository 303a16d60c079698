"""Cookies of a request by their name, as a browser sends them (RFC 6265 section 5.4)."""

from __future__ import annotations

from typing import Any

MOST_OF_A_NAME = 20
"""Cookies of one name that are returned. A browser sends several if they have several paths or domains."""


def cookies_of(environ: dict[str, Any], name: str) -> list[str]:
    """Return the values of the cookies of a name, in the order in which they were sent.

    A semicolon always ends a cookie. WebOb reads quoted strings, so that two cookies with one quotation mark
    each, planted by a sibling domain, would hide the cookies between them.
    """
    header: str = environ.get("HTTP_COOKIE", "")
    if name not in header:
        return []
    pairs = (pair.strip().partition("=") for pair in header.split(";"))
    return [value for found, _, value in pairs if found == name][:MOST_OF_A_NAME]
