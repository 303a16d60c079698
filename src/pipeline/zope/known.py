"""The rule that keeps the short ways safe: they are taken only where the code that they replace is Zope's own.

A site may replace any method, in a subclass or by a patch. For each class it is looked up once, at its first use,
which function stands behind a name. If its source is one that is known here, code that does the same in less time
may take its place. Else it is called. A new version of Zope with other code takes the long way.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from functools import lru_cache
from types import FunctionType
from typing import Any

KNOWN = frozenset(
    {
        "367a9c0b1f4408ad",  # sane_environment
        "94473ab5e4315940",  # zope.publisher.browser.getDefaultSkin
        "cd30ea9e35552ac1",  # zope.publisher.skinnable.setDefaultSkin
        "facdca5d3db4cdcd",  # HTTPRequest.processInputs
        "c8cd861dce10c384",  # HTTPRequest.get
        "0dd19cfed577114c",  # HTTPRequest.__getitem__
        "df8780460014b068",  # HTTPRequest.setServerURL
        "b5eb954b7d9f2c0e",  # WSGIResponse.finalize
        "bf854358e820de9c",  # WSGIResponse.listHeaders
        "0e4520df283dbcaf",  # HTTPBaseResponse._cookie_list
        "96f01bf4f0687635",  # HTTPBaseResponse.setHeader
        "4a730b3c9e760982",  # HTTPBaseResponse.setStatus
        "c5fa6fdf3eb970f0",  # HTTPBaseResponse.listHeaders
    }
)
"""Digests of the functions of Zope 6.3 and zope.publisher 8.1 that have a short way, or that one relies on."""


def digest(function: Any) -> str:
    """Return what tells the source of a function from any other, or "" if there is no source."""
    try:
        source = inspect.getsource(function) if isinstance(function, FunctionType) else ""
    except (OSError, TypeError):
        return ""
    return hashlib.sha256(source.encode()).hexdigest()[:16] if source else ""


def _is_known(function: Any) -> bool:
    """Return whether a function is one that Zope ships."""
    return digest(function) in KNOWN


def _is_own(cls: type, *names: str) -> bool:
    """Return whether all these methods of a class are those that Zope ships."""
    return all(is_known(getattr(cls, name, None)) for name in names)


is_known: Callable[[Any], bool] = lru_cache(maxsize=256)(_is_known)
is_own: Callable[..., bool] = lru_cache(maxsize=256)(_is_own)
