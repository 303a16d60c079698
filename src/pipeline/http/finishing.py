"""Finish an answer whose body is not simply in memory: output filters, conditional requests, headers of streams.

The edge calls ``finish`` once, after all elements have answered, while the headers can still be changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

from pipeline.http.conditional import OF_THE_BYTES, conditional
from pipeline.http.files import FileBody
from pipeline.http.header_lists import values_in, without
from pipeline.http.streaming import blocks_of
from pipeline.request import Request
from pipeline.response import LIVE, Response


def finish(request: Request, response: Response, body: Any) -> Any:
    """Return the body to send, for a body that is streamed, filtered, or the answer to a conditional request."""
    in_memory = type(body) is list or type(body) is tuple
    if in_memory:
        body = list(body)
    else:
        request.close_with(body)
        if not getattr(body, "is_described", False):
            _describe_stream(response, body)
    rewritten = False
    sent = body
    has_no_body = response.status_line[:3] in ("204", "205", "304") or response.status_line[0] == "1"
    if (response.filters or response.delivery_filters) and not has_no_body:
        sent, rewritten = _filtered(request, response, body)
    response.filters = response.delivery_filters = ()
    response.filters_applied = True
    if response.conditional_response:
        response.conditional_response = False
        sent = conditional(request.environ, response, sent, ranges=not rewritten)
        if sent is not body and type(sent) is not list:
            request.close_with(sent)
    if not in_memory:
        return sent
    if rewritten and request.environ["REQUEST_METHOD"] == "HEAD" and not any(body):
        return ()  # an app made no body for HEAD, so the length after the filters is not known
    return list(sent)


def _describe_stream(response: Response, body: Any) -> None:
    """Add the headers that only a stream needs: the length of a file, and the order not to buffer live blocks. Of a
    file, so many bytes are sent as its Content-Length says (PEP 3333)."""
    length = body.left if isinstance(body, FileBody) else None
    said = values_in(response.headerlist)
    if length is not None and "content-length" not in said:
        response.headerlist.append(("Content-Length", str(length)))
    elif length is not None and said["content-length"].isdecimal():
        body.left = min(length, int(said["content-length"]))
    kind = said.get("content-type", "").partition(";")[0].strip().lower()
    if kind in LIVE and "x-accel-buffering" not in said:
        response.headerlist.append(("X-Accel-Buffering", "no"))


def _filtered(request: Request, response: Response, body: Any) -> tuple[Any, bool]:
    """Return the body after all filters, and whether the filters have changed its bytes."""
    length = None if type(body) is list else response.headers.get("Content-Length")
    # A chain has no close(). A generator that yields from the body would call it, and the request too (R7). The
    # length is checked before the filters, since a filter that drops the Content-Length would hide a wrong one.
    given = chain(body) if length is None else blocks_of(body, int(length))
    blocks: Iterator[bytes] = given
    rewritten = False
    for filter, rewrites in chain(zip(response.filters, repeat(True)), response.delivery_filters):
        made = filter(blocks)
        if made is not blocks:
            request.close_with(made)
            blocks = chain(made)
            rewritten = rewritten or rewrites
    if blocks is given:
        return body, False
    if rewritten:
        response.headerlist = [
            (name, f"W/{value.removeprefix('W/')}" if name.lower() == "etag" else value)  # RFC 9110 section 8.8.1
            for name, value in without(response.headerlist, *_OF_THE_ORIGINAL)
        ]
    return blocks, rewritten


_OF_THE_ORIGINAL = (*OF_THE_BYTES, "accept-ranges", "digest", "repr-digest")
"""Headers that are only valid for the original bytes of a body."""
