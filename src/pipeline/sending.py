"""Make an answer ready to be sent.

Whatever views and elements do: HEAD, 204, 205 and 304 have no body; ``Content-Length`` is right or absent; no
header with a control character is sent (S6).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from pipeline.options import on_demand
from pipeline.request import Request
from pipeline.response import CHECKED, HTML, NOT_MODIFIED, OK, HeaderList, Response, check_header, check_headers

if TYPE_CHECKING:
    from pipeline.http.finishing import finish
    from pipeline.http.redirects import check_redirect
else:  # for cost alone: a plain page does not need these functions
    finish = on_demand("pipeline.http.finishing:finish")
    check_redirect = on_demand("pipeline.http.redirects:check_redirect")


def prepare(request: Request, response: Response) -> Any:
    """Make the headers of the response final, and return the body. It is a list if it is in memory."""
    body = response._app_iter
    if type(body) is not list or response.filters or response.delivery_filters or response.conditional_response:
        body = finish(request, response, body)
    headers, status = response._own_headers, response._status
    if status is not OK and status is not NOT_MODIFIED:
        check_header("Status", status)
        if headers is not None and status[:1] == "3":
            check_redirect(request, response)
    if status is not OK and (status[:3] in ("204", "304") or status[0] == "1"):
        response._own_headers = headers = [] if headers is None else headers
        _checked(headers, response, OF_A_BODY)
        return []
    claimed = None if headers is None else _checked(headers, response, LENGTH)
    if status is not OK and status[:3] == "205":  # its length says that it has none (RFC 9110 section 15.3.6)
        body, claimed = [], None
    if type(body) is list:
        length = len(body[0]) if len(body) == 1 and type(body[0]) is bytes else sum(map(_length, body))
        # A view may answer HEAD with a length, and without a body.
        if length or claimed is None or request.environ["REQUEST_METHOD"] != "HEAD":
            claimed = "Content-Length", str(length)
    if headers is None:
        response._own_headers = [HTML] if claimed is None else [HTML, claimed]
    elif claimed is not None:
        headers.append(claimed)
    return [] if request.environ["REQUEST_METHOD"] == "HEAD" else body


def _checked(headers: HeaderList, response: Response, dropped: tuple[str, ...]) -> tuple[str, str] | None:
    """Refuse headers that must not be sent (S6). Remove those that are ``dropped``, and return the last of them."""
    key = () if response.status_line[:3] in VARYING else (dropped, *headers)
    try:
        kept = _known.get(key)
    except TypeError:  # one of them is a list
        kept, key = None, ()
    if kept is None:
        check_headers(headers, response.checked)
        claims = [pair for pair in headers if pair[0].lower() in dropped]
        kept = ([pair for pair in headers if pair not in claims], claims[-1]) if claims else (headers, None)
        if key and CHECKED.issuperset(headers) and set(map(type, chain(*headers))) == {str} and len(_known) < 2_000:
            _known[key] = kept[0].copy(), kept[1]
    headers[:], claimed = kept
    return claimed


LENGTH = ("content-length",)
OF_A_BODY = ("content-type", *LENGTH)
VARYING = ("206", "301", "302", "303", "307", "308")
"""Statuses of answers that have a header of one request."""
_known: dict[tuple[tuple[str, ...], ...], tuple[HeaderList, tuple[str, str] | None]] = {}
"""The results for headers that were checked at load, which most answers have: 5 % of a page, 8 % of a file."""


def _length(block: Any) -> int:
    if not isinstance(block, bytes):
        raise TypeError(f"the body has the block {block!r:.80}, which is not bytes")
    return len(block)
