"""The one check of names: every name that leads from object to object passes it (S1, S3, S14)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

from webob.exc import HTTPBadRequest, HTTPNotFound, WSGIHTTPException

MARK = re.compile(r"@@|\+\+([^+/]+)\+\+")
"""The beginning of a name that is not the name of an item; a bare "@@" is the namespace of views."""
_REFUSED = re.compile(rf"/(?:{MARK.pattern})?(?:(?P<private>_)|\.\.?(?![^/]))")
"""A name that is never a step, with or without a mark, behind a slash."""
_PLAIN = re.compile(r"[^_.@+/\0][^/\0]*")
"""Names that are valid without a further check, as most are."""

Refusal: TypeAlias = tuple[type[WSGIHTTPException], str]
"""The class of an exception and its text. A variable with the exception itself would leave a cycle."""

_NOT_FOUND: Refusal = (HTTPNotFound, "There is nothing at this address.")


def check_name(name: str) -> None:
    """Raise an HTTP exception if no step may have that name.

    A name that starts with ``_`` (S3), has a slash or is empty is a 404; ``.``, ``..`` and a NUL are a 400 (S14).
    The value behind the mark of a namespace is checked, too.
    """
    if (refusal := _refusal(name)) is not None:
        raise refusal[0](refusal[1])


def checked(names: Iterable[str]) -> tuple[str, ...]:
    """Check each name, and return all names."""
    names = tuple(names)
    for name in names:
        check_name(name)
    return names


def is_name(name: str) -> bool:
    """Return whether a step of that name leads to an item, and not to a view or into a namespace."""
    return _PLAIN.fullmatch(name) is not None or (_refusal(name) is None and MARK.match(name) is None)


def is_segment(name: str) -> bool:
    """Return whether traversal takes the name, which may have a mark, for one step."""
    return _PLAIN.fullmatch(name) is not None or _refusal(name) is None


def _refusal(name: str) -> Refusal | None:
    """Return the refusal of a name, or None."""
    return _NOT_FOUND if not name or "/" in name else refusal_in("/" + name)


def refusal_in(path: str) -> Refusal | None:
    """Return the refusal of a path, in which each name follows a slash, or None."""
    if "\0" in path:
        return HTTPBadRequest, "The address has a NUL in it."
    found = _REFUSED.search(path)
    if found is None:
        return None
    if found["private"]:
        return _NOT_FOUND
    return HTTPBadRequest, "The address has '.' or '..' in place of a name."
