"""Types and encodings of bodies: which ones a client wants (``Accept``, ``Accept-Encoding``), and telling caches
what an answer depends on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from webob import Response as AnyResponse
from webob.acceptparse import create_accept_header

from pipeline.http.header_lists import Headers, of_headers, values_in, without
from pipeline.interfaces import Handler
from pipeline.request import Request
from pipeline.response import CHECKED, HeaderList, Response

LONGEST_ACCEPT = 2_000
"""Characters of an Accept header that are read (S12). A browser sends 150; two million take a second."""
LONGEST_HEADER = 1_000
"""Upper limit of the characters of an Accept-Encoding (S12). A longer one is ignored."""

_WEIGHT = re.compile(r"q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)", re.IGNORECASE)


def accepted(accept: str | None, offers: Sequence[str]) -> list[tuple[str, float]]:
    """Return the offers that the header accepts, each with its q-value, the best first.

    All of them are accepted if there is no header, or if the header is malformed.
    """
    return list(_accepted(bounded(accept), tuple(offers)))


@lru_cache(maxsize=256)
def _accepted(accept: str | None, offers: tuple[str, ...]) -> tuple[tuple[str, float], ...]:
    return tuple(create_accept_header(accept).acceptable_offers(offers))


def bounded(accept: str | None) -> str | None:
    """Return the header, or of a longer one the whole elements at its beginning; None if there are none."""
    if accept and len(accept) > LONGEST_ACCEPT:
        accept = accept[:LONGEST_ACCEPT].rpartition(",")[0]
    return accept or None


def choose(accept: str, offered: tuple[str, ...]) -> tuple[str, bool]:
    """Return the encoding of ``offered`` that an Accept-Encoding wants most, or ""; and whether the client refuses
    an answer that is not encoded.

    RFC 9110, section 12.5.3. A malformed item is skipped. If the client weights several encodings equally, the
    first in ``offered`` wins. "identity" wins if the header weights it higher; if the header does not name it, it
    is the last choice.
    """
    return _choose(accept, offered) if len(accept) <= LONGEST_HEADER else ("", False)


@lru_cache(256)
def _choose(accept: str, offered: tuple[str, ...]) -> tuple[str, bool]:
    weights: dict[str, float] = {}
    for item in accept.split(","):
        name, _, parameter = item.partition(";")
        weight = _WEIGHT.fullmatch(parameter.strip(" \t"))
        if weight is not None or not parameter.strip(" \t"):
            name = name.strip(" \t").lower().removeprefix("x-")
            weights[name] = float(weight[1]) if weight is not None else 1.0
    rest = weights.get("*", 0.0)
    plain = weights.get("identity", weights.get("*"))
    best = max(offered, key=lambda name: weights.get(name, rest))
    wanted = weights.get(best, rest)
    if wanted == 0 or (plain is not None and plain > wanted):
        return "", False
    return best, plain == 0


_CHANGED_TAG = re.compile(r'(?:W/)?("[^"]*?)(?:-gzip|-br|-zstd)?"')
"""An entity tag as it may come back: weak, as a filter of ours and nginx make it, or with a suffix of Apache."""
_TAGS = ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH")


def restore_tags(environ: dict[str, Any]) -> None:
    """Give the entity tags in a request the form that they had before an element or a proxy made them weak.

    An application inside compares them itself, and would refuse each change from a client that accepts gzip. A weak
    tag of its own matches as before: If-None-Match ignores the mark, and If-Match never accepts such a tag.
    If-Range stays: the bytes of a compressed answer are others.
    """
    for name in _TAGS:
        if name in environ and ("W/" in (tags := environ[name]) or "-" in tags) and len(tags) <= LONGEST_HEADER:
            environ[name] = restored(tags)


def with_own_tags(next: Handler, request: Request, response: Response) -> None:
    """Call an inner handler with its own entity tags. The edge gets those that were sent: the site may have a tag
    that ends as those of Apache do.

    The ETag of a 304 gets the form of that which the client has. A cache updates no page under another one (RFC
    9111 section 4.3.4).
    """
    environ = request.environ
    known = environ.get("HTTP_IF_NONE_MATCH", "")
    restore_tags(environ)
    next(request, response)
    if known:
        environ["HTTP_IF_NONE_MATCH"] = known
    if "W/" in known and response.status_line[:3] == "304" and (tag := response.headers.get("ETag", "")):
        response.headers["ETag"] = f"W/{tag.removeprefix('W/')}"


@lru_cache(256)
def restored(tags: str) -> str:
    """Return entity tags in the form that they had before a filter or a proxy changed them."""
    return _CHANGED_TAG.sub(r'\1"', tags)


VARY = ("Vary", "Accept-Encoding")


def vary(headers: HeaderList, name: str = "Accept-Encoding") -> None:
    """Say in the headers of an answer that it depends on a header of the request."""
    said = values_in(headers).get("vary")
    if said is None:
        headers.append(VARY if name == VARY[1] else ("Vary", name))
    elif (wanted := _varying(said, name)) != said:
        headers[:] = *without(headers, "vary"), ("Vary", wanted)


def make_private(response: AnyResponse, *, unless_public: bool = False) -> None:
    """Have no cache give an answer that is for one visitor to another visitor.

    unless_public  whether an answer stays as it is that allows shared caches, as RFC 9111 section 3.5 has it
    """
    headers = response.headerlist
    headers[:] = _private(headers, unless_public)


def make_private_for_user(request: Any, response: AnyResponse) -> None:
    """Have no cache give an answer that is for a user to others (S26), unless its view allows shared caches.

    This holds for a password as well: nginx does not look at Authorization.
    """
    if request.principal is not None:
        make_private(response, unless_public=True)


_SHARED = re.compile("public|s-maxage", re.IGNORECASE)


@lru_cache(maxsize=256)
def _varying(said: str, name: str) -> str:
    """Return the value of Vary that names another header, too. Most answers say the same."""
    if "*" in said or name.lower() in said.lower().replace(",", " ").split():
        return said
    return f"{said}, {name}" if said else name


@of_headers
def _private(headers: Headers, unless_public: bool) -> Headers:
    """Return the headers of a private answer."""
    said = values_in(headers)
    control = said.get("cache-control", "")
    if unless_public and _SHARED.search(control):
        return tuple(headers)
    words = [word for word in map(str.strip, control.split(",")) if word and word.lower() != "public"]
    if {"private", "no-store"}.isdisjoint(map(str.lower, words)):
        words.insert(0, "private")
    vary = "Vary", _varying(said.get("vary", ""), "Cookie")
    return *without(headers, "vary", "cache-control"), vary, ("Cache-Control", ", ".join(words))


CHECKED.update((VARY, ("Vary", "Cookie, Accept-Encoding"), *_private((), False), *_private((VARY,), False)))
