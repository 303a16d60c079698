"""Cookies of a request by their name, as a browser sends them (RFC 6265 section 5.4)."""

from __future__ import annotations

import re
from itertools import chain
from typing import Any

from webob.cookies import RequestCookies

_JOINED = re.compile(r",(?=[ \t]*+(?!__Host-|__Secure-)[\w!#$%&'*+.^`|~-]++=)", re.ASCII)
"""The end of a line of cookies: some servers join lines by a comma. A browser sends one line, so a prefix behind a
comma is text that a sibling domain has planted in the value of another cookie."""
MOST_OF_A_NAME = 20
"""Cookies of one name that are returned. A browser sends several if they have several paths or domains."""


def cookies_of(environ: dict[str, Any], name: str) -> list[str]:
    """Return the values of the cookies of a name, in the order in which they were sent.

    A semicolon always ends a cookie. WebOb reads quoted strings, so that two cookies with one quotation mark
    each, planted by a sibling domain, would hide the cookies between them.
    """
    if type(environ) is dict:
        header: str = environ.get("HTTP_COOKIE", "")
    else:  # it may note what is read (pipeline.http.noting)
        find = getattr(environ, "cookie_header", None)
        header = environ.get("HTTP_COOKIE", "") if find is None else find(name)
    if name not in header:
        return []
    pairs = (pair.strip(" \t").partition("=") for pair in chain(*_pairs(header)))
    return [value for found, _, value in pairs if found == name][:MOST_OF_A_NAME]


def _pairs(header: str) -> tuple[list[str], list[str]]:
    """Return the pairs of a header, and those behind a comma, which count last: the value of another cookie may
    have such a comma."""
    if "," not in header:
        return header.split(";"), []
    parts = [_JOINED.split(part) for part in header.split(";")]
    return [part[0] for part in parts], [pair for part in parts for pair in part[1:]]


_KEPT = "webob._parsed_cookies"
"""Key of the environ under which WebOb keeps what it made of the header, and finds it again."""
_COOKIE = r"[\w!#$%&'*+.^`|~-]++=[\w!#$%&'()*+./:<=>?@^`{|}~-]*+"
_PLAIN = re.compile(f"{_COOKIE}(?:; ?{_COOKIE})*+", re.ASCII)
"""A header in which no character has a meaning but "=" and ";": what nearly every browser sends."""
_PAIR = re.compile(r"(?:; ?)?([^=]++)=?+([^;]*+)")
"""A name and a value in such a header."""
_ESCAPED = re.compile(rb"\\([0-3][0-7][0-7]|.)", re.DOTALL)
TOKEN = re.compile(r"[\w!#$%&'*+.^`|~-]++", re.ASCII)
"""A token of RFC 9110, as the names of methods, headers and cookies are."""


def cookies_by_name(environ: dict[str, Any]) -> RequestCookies:
    """Return ``request.cookies``, in WebOb's container. What WebOb reads itself ends at the first character that is
    not of a cookie, such as a letter that is not ASCII or a comma."""
    header: str = environ.get("HTTP_COOKIE", "")
    if _PLAIN.fullmatch(header):
        environ[_KEPT] = (dict(_PAIR.findall(header)), header)
    elif environ.get(_KEPT, ("", None))[1] != header:
        found: dict[str, str] = {}
        for pair in chain(*reversed(_pairs(header))):  # the last one of a name is kept
            name, equals, value = pair.partition("=")
            if equals and TOKEN.fullmatch(name := name.strip(" \t")):
                found[name] = _text(value.strip(" \t"))
        environ[_KEPT] = (found, header)
    return RequestCookies(environ)


def _text(sent: str) -> str:
    """Return the value of a cookie: without quotation marks, and as UTF-8 if it is that."""
    raw = sent.encode("latin-1")
    if len(raw) > 1 and raw[0] == raw[-1] == ord('"'):
        raw = _ESCAPED.sub(lambda found: bytes((int(found[1], 8),)) if found[1][1:] else found[1], raw[1:-1])
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
