"""Exceptions of ``webob.exc``: made in a quarter of the time that their constructors take, and put on a response.

A constructor puts together a status and headers that are the same for all exceptions of its class. That takes 4
microseconds, a sixth of an answer 404. So one exception of each class is kept, and the others are copies of it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape
from typing import Any

from webob.exc import WSGIHTTPException

from pipeline.response import HTML, NOSNIFF, PLAIN, Response

_LINKED = re.compile(r"https?:|[^:/?#]*(?:[/?#]|\Z)", re.IGNORECASE)
"""The beginning of an address that may be a link in a page. A script would run as a script of the site."""
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
        first = kind() if location is None else kind(location=location)
        first.headerlist = [pair for pair in first.headerlist if pair[0] != "Location"]
        attributes = vars(first)
        lists = [(name, value) for name, value in attributes.items() if isinstance(value, list)]
        _kept[kind, location is not None] = attributes, lists
    made = kind.__new__(kind, detail)
    made.__dict__.update(attributes)
    for name, value in lists:
        made.__dict__[name] = value.copy()
    made.detail = detail
    if location is not None:
        made.headerlist.append(("Location", location))
    return made


def adopt_exception(response: Response, error: WSGIHTTPException) -> None:
    """Put an HTTP exception on the response: its status, headers and body.

    An error without a body of its own gets a text, and a redirect gets a link. WebOb's own pages are not used,
    since they show input of the client.
    """
    status = error.status
    if error.has_body or error.empty_body:
        response.adopt(status, list(error.headerlist), error.app_iter)
        return
    text = (error.detail if isinstance(error.detail, str) else "") or error.explanation or error.title
    location = error.location if status < "400" else None
    headers = [pair for pair in error.headerlist if pair[0].lower() not in ("content-type", "content-length")]
    if location is not None:
        link = escape(location)
        link = f'<a href="{link}">{link}</a>' if _LINKED.match(location) else link
        content_type, page = HTML, f"{_before_the_link(error.title, text)}: {link}</p>\n</html>\n"
    else:
        content_type, page = PLAIN, f"{text}\n"
    response.adopt(status, [content_type, NOSNIFF, *headers], [page.encode()])


@lru_cache(maxsize=64)
def _before_the_link(title: str, text: str) -> str:
    """Return the beginning of the page of a redirect. Most redirects of a site have the same."""
    head = f'<!DOCTYPE html>\n<html lang="en">\n<title>{escape(title)}</title>\n'
    return f"{head}<p>{escape(text)}"
