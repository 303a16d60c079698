"""Short ways of the request and the response. Each is taken only where the code that it replaces is Zope's own.

A site may replace any method, in a subclass or by a patch. For each class it is looked up once, at its first use,
which function stands behind a name. If its source is one that is known here, code that does the same in less time
may take its place. Else it is called. A new version of Zope with other code takes the long way.

Each gains less than 2 % of a page with a template and 17 links, and all of them 3 %. They stay for small answers,
whose limits are in ``bench/zope.py``. What each gains here is of a view without a template.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from functools import lru_cache
from types import FunctionType
from typing import Any

from ZPublisher import HTTPResponse
from ZPublisher.HTTPRequest import WSGIRequest, _marker, sane_environment

from pipeline.response import OK

KNOWN = frozenset(
    {
        "367a9c0b1f4408ad",  # sane_environment
        "c8cd861dce10c384",  # HTTPRequest.get
        "0dd19cfed577114c",  # HTTPRequest.__getitem__
        "b5eb954b7d9f2c0e",  # WSGIResponse.finalize
        "bf854358e820de9c",  # WSGIResponse.listHeaders
        "0e4520df283dbcaf",  # HTTPBaseResponse._cookie_list
        "96f01bf4f0687635",  # HTTPBaseResponse.setHeader
        "4a730b3c9e760982",  # HTTPBaseResponse.setStatus
        "c5fa6fdf3eb970f0",  # HTTPBaseResponse.listHeaders
    }
)
"""Digests of the functions of Zope 6.3 that have a short way, or that one relies on."""


@lru_cache(maxsize=256)
def is_known(function: Any) -> bool:
    """Return whether a function is one that Zope ships, by its source."""
    try:
        source = inspect.getsource(function) if isinstance(function, FunctionType) else ""
    except (OSError, TypeError):  # there is no source
        return False
    return hashlib.sha256(source.encode()).hexdigest()[:16] in KNOWN


def _is_own(cls: type, *names: str) -> bool:
    """Return whether all these methods of a class are those that Zope ships."""
    return all(is_known(getattr(cls, name, None)) for name in names)


is_own: Callable[..., bool] = lru_cache(maxsize=256)(_is_own)


class ShortRequest(WSGIRequest):  # type: ignore[misc]
    """Zope's request, with a ``__getitem__`` that does the same in less time. Traversal calls it 26 times:
    that gains 6 %.
    """

    def __getitem__(self, key: Any, default: Any = _marker, returnTaints: int = 0) -> Any:
        if key != "REQUEST":
            try:
                return self.other[key]
            except KeyError:
                pass
        return super().__getitem__(key, default, returnTaints)


def new_request(stdin: Any, environ: dict[str, Any], answer: Any) -> Any:
    """Make a request. Zope looks at each name of the environ, for prefixes that Apache has put before it.

    That gains 4 %.
    """
    cls = ShortRequest if is_own(WSGIRequest, "get", "__getitem__") else WSGIRequest
    names = "\n".join(environ)
    if "REDIRECT_" in names or "HTTP_CGI_" in names or not is_known(sane_environment):
        return cls(stdin, environ, answer)
    zope = cls(stdin, environ.copy(), answer, clean=1)
    zope._orig_env = environ
    return zope


HEADERS = ("finalize", "listHeaders", "_cookie_list", "setHeader", "setStatus")


def finalize(answer: Any) -> Any:
    """Return status line and headers, as ``finalize`` does. The edge adds the length of a body in memory.

    It gains 4 %.
    """
    if not is_own(type(answer), *HEADERS):
        return answer.finalize()
    headers = answer.headers
    if (
        answer.status == 200
        and "content-type" not in headers
        and "content-length" not in headers
        and not answer._streaming
    ):
        answer.setStatus("nocontent")
    found = [("Server", answer._server_version)] if answer._server_version else []
    found += [("Date", date(int(HTTPResponse._now()))), POWERED]
    encode = HTTPResponse.header_encoding_registry.encode
    for name, value in headers.items():
        found.append((capitals(name), value if type(value) is str and value.isascii() else encode(name, value)))
    if answer.cookies:
        found += answer._cookie_list()
    for name, value in answer.accumulated_headers:
        found.append((name, encode(name, value)))
    if "content-length" not in headers and not answer._streaming:
        headers["content-length"] = str(len(answer.body))  # tests of a site read it later
    is_ok = answer.status == 200 and answer.errmsg == "OK"
    return OK if is_ok else f"{answer.status} {answer.errmsg}", found


POWERED = ("X-Powered-By", "Zope (www.zope.dev), Python (www.python.org)")


@lru_cache(maxsize=1024)
def capitals(name: str) -> str:
    """Return the name of a header as it is sent."""
    return "-".join([word.capitalize() for word in name.split("-")]) if name.lower() == name else name


@lru_cache(maxsize=4)
def date(second: int) -> str:
    """Return a time as the header ``Date`` has it."""
    return HTTPResponse.build_http_date(second)  # type: ignore[no-any-return]
