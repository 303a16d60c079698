"""Conditional requests and ranges (RFC 9110, sections 13 and 14), for answers that opt in.

``response.conditional_response = True`` says that the headers of an answer describe the resource at this address,
so that the edge may answer 304, 412, 206 or 416 instead. WebOb's own code is not used: it raises errors for some
malformed Range and If-Range headers, answers several ranges with the first, answers a suffix longer than the file
with 416, and does not have 412.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from time import time as clock
from typing import Any

from pipeline.http.encodings import LONGEST_HEADER, restored
from pipeline.http.header_lists import values_in, without
from pipeline.response import NOT_MODIFIED, PLAIN, Response

_ETAG = re.compile(r'(W/)?"([^"]*)"')
_RANGE = re.compile(r"bytes[ \t]*+=[ \t,]*+([0-9]*+)[ \t]*+-[ \t]*+([0-9]*+)[ \t,]*+", re.IGNORECASE)

OF_THE_BYTES = ("content-digest", "content-length", "content-md5")
"""Headers that are those of the bytes that are sent (RFC 9530), and not of the whole."""
_OF_THE_BODY = (
    *OF_THE_BYTES,
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-range",
    "content-type",
)
_OF_THE_WHOLE = (*_OF_THE_BODY, "cache-control", "digest", "etag", "expires", "last-modified", "repr-digest")

CONDITIONS = (
    "HTTP_IF_MATCH",
    "HTTP_IF_UNMODIFIED_SINCE",
    "HTTP_IF_NONE_MATCH",
    "HTTP_IF_MODIFIED_SINCE",
    "HTTP_RANGE",
)

FAILED = "412 Precondition Failed"

LONGEST_DATE = len("Wednesday, 09-Nov-94 08:49:37 GMT")
"""Upper limit of the characters of a date. A longer one is ignored, and so are two in one header."""
LONGEST_NUMBER = 18
"""Digits of a position in a file; a larger one is behind the end of any file."""


def conditional(environ: dict[str, Any], response: Response, body: Any, *, ranges: bool) -> Any:
    """Turn a 200 into a 304, 412, 206 or 416 if the request asks for it. Return the body to send.

    ``ranges`` says whether a part of the body may be sent. This is False if filters change the body.
    """
    if environ.keys().isdisjoint(CONDITIONS):
        return body
    method = environ["REQUEST_METHOD"]
    if method not in ("GET", "HEAD") or response.status_line[:3] != "200":
        return body
    said = values_in(response.headerlist)
    etag, modified = said.get("etag"), said.get("last-modified")
    status = precondition(environ, etag, modified)
    if status is NOT_MODIFIED:
        _become(response, NOT_MODIFIED, without(response.headerlist, *_OF_THE_BODY))
        return []
    if status is not None:
        return _refuse(response, status, "The resource has changed since you last read it.")
    # Ranges are defined for GET alone (section 14.2).
    if not ranges or method != "GET" or "HTTP_RANGE" not in environ:
        return body
    if not may_send_part(environ.get("HTTP_IF_RANGE"), etag, modified):
        return body
    return _ranged(environ["HTTP_RANGE"], response, body)


def _ranged(header: str, response: Response, body: Any) -> Any:
    """Turn a 200 into a 206 or 416, as a Range header asks for it. Return the body to send."""
    headers = values_in(response.headerlist)
    if "content-range" in headers:
        return body
    if type(body) is list:
        length = sum(map(len, body))
    elif headers.get("content-length", "").isdecimal():
        length = int(headers["content-length"])
    else:
        return body
    part = byte_range(header, length)
    if part is None:
        return body
    start, stop = part
    if start == stop:
        body = _refuse(response, "416 Range Not Satisfiable", "The requested range is outside the content.")
        response.headerlist.append(("Content-Range", f"bytes */{length}"))
        return body
    part_of = ("Content-Range", f"bytes {start}-{stop - 1}/{length}"), ("Content-Length", str(stop - start))
    _become(response, "206 Partial Content", (*without(response.headerlist, *OF_THE_BYTES), *part_of))
    if type(body) is list:
        return [b"".join(body)[start:stop]]
    if hasattr(body, "app_iter_range"):
        return body.app_iter_range(start, stop)
    return _part(body, start, stop)


def precondition(environ: dict[str, Any], etag: str | None, modified: str | None) -> str | None:
    """Return the status to answer instead of 200, by the order of section 13.2.2; None if the 200 stays."""
    if (wanted := environ.get("HTTP_IF_MATCH")) is not None:
        if wanted.strip() != "*" and not _names(wanted, etag, strong=True):
            return FAILED
    elif (since := _seconds(environ.get("HTTP_IF_UNMODIFIED_SINCE"))) is not None:
        last = _seconds(modified)
        if last is not None and last > since:
            return FAILED
    if (known := environ.get("HTTP_IF_NONE_MATCH")) is not None:
        if known.strip() == "*" or _names(known, etag, strong=False):
            return NOT_MODIFIED
        if "-" in known and len(known) <= LONGEST_HEADER and _names(restored(known), etag, strong=False):
            return NOT_MODIFIED
    elif (since := _seconds(environ.get("HTTP_IF_MODIFIED_SINCE"))) is not None:
        last = _seconds(modified)
        if last is not None and last <= since:
            return NOT_MODIFIED
    return None


def may_send_part(if_range: str | None, etag: str | None, modified: str | None) -> bool:
    """Return whether the part that the client has is a part of the current content (If-Range, section 13.1.5).

    A date within the last second is not a strong validator: the content may change again and keep its date (section
    8.8.2.2).
    """
    if if_range is None:
        return True
    if '"' in if_range:
        return if_range == etag and if_range[0] == '"'
    date = _seconds(if_range)
    return date is not None and date == _seconds(modified) and clock() >= date + 1


def byte_range(header: str, length: int) -> tuple[int, int] | None:
    """Return the start and the end (exclusive) of the range that a Range header asks for, out of ``length`` bytes.

    None means that the whole is sent, as for a header that is malformed, in another unit, or has several ranges,
    which a server need not support. Start and end are equal if the range is empty.
    """
    found = _RANGE.fullmatch(header.strip(" \t"))
    if found is None or length == 0:
        return None
    first, last = found.groups()
    if first:
        start, stop = _number(first), length
        if last:
            if _number(last) < start:
                return None
            stop = min(_number(last) + 1, length)
        return (start, stop) if start < length else (length, length)
    if last:
        return max(length - _number(last), 0), length
    return None


def _number(digits: str) -> int:
    digits = digits.lstrip("0")
    return int(digits or "0") if len(digits) <= LONGEST_NUMBER else 10**LONGEST_NUMBER


def _names(header: str, etag: str | None, *, strong: bool) -> bool:
    """Return whether ``header`` has the entity tag ``etag``, by strong or weak comparison (section 8.8.3.2)."""
    ours = _ETAG.fullmatch(etag or "")
    if ours is None or (strong and ours[1]):
        return False
    return header == etag or any(tag == ours[2] and not (strong and weak) for weak, tag in _ETAG.findall(header))


def _seconds(date: str | None) -> int | None:
    """Return an HTTP date as seconds since the epoch; None if it is not a valid date."""
    return _seconds_of(date) if date and len(date) <= LONGEST_DATE else None


@lru_cache(maxsize=256)
def _seconds_of(date: str) -> int | None:
    try:
        moment = parsedate_to_datetime(date)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return None


def _refuse(response: Response, status: str, text: str) -> list[bytes]:
    """Answer with an error. Return the body."""
    _become(response, status, (*without(response.headerlist, *_OF_THE_WHOLE), PLAIN))
    return [f"{text}\n".encode()]


def _become(response: Response, status: str, headers: Iterable[tuple[str, str]]) -> None:
    """Change status and headers, unchecked: the words are our own, and all are checked before they are sent."""
    response.status_line = status
    response.headerlist[:] = headers


def _part(blocks: Iterable[bytes], start: int, stop: int) -> Iterator[bytes]:
    """Yield the bytes from ``start`` up to ``stop`` of a body that can only be read from its beginning."""
    place = 0
    for block in blocks:
        before, place = place, place + len(block)
        if place > start:
            yield block[max(start - before, 0) : stop - before]
        if place >= stop:
            return
