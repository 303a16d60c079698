"""Exceptions of ``webob.exc``, made in a quarter of the time that their constructors take.

A constructor puts together a status and headers that are the same for all exceptions of its class. That takes 4
microseconds, a sixth of an answer 404. So one exception of each class is kept, and the others are copies of it.
"""

from __future__ import annotations

from typing import Any

from webob.exc import WSGIHTTPException

_kept: dict[tuple[type[WSGIHTTPException], bool], tuple[dict[str, Any], list[tuple[str, list[Any]]]]] = {}
"""By class, and whether it is made with a location: the attributes of a new exception, and the lists among them."""


def make_exception(
    kind: type[WSGIHTTPException], detail: str | None = None, *, location: str | None = None
) -> WSGIHTTPException:
    """Return ``kind(detail)``, or ``kind(location=location)`` for a class of redirects.

    The location is not checked: it must be a ``str`` without line ends.
    """
    try:
        attributes, lists = _kept[kind, location is not None]
    except KeyError:
        attributes, lists = _kept[kind, location is not None] = _keep(kind, location)
    made = kind.__new__(kind, detail)
    made.__dict__.update(attributes)
    for name, value in lists:
        made.__dict__[name] = value.copy()
    made.detail = detail
    if location is not None:
        made.headerlist.append(("Location", location))
    return made


def _keep(
    kind: type[WSGIHTTPException], location: str | None
) -> tuple[dict[str, Any], list[tuple[str, list[Any]]]]:
    kept = kind() if location is None else kind(location=location)
    kept.headerlist = [pair for pair in kept.headerlist if pair[0] != "Location"]
    attributes = vars(kept)
    return attributes, [(name, value) for name, value in attributes.items() if isinstance(value, list)]
