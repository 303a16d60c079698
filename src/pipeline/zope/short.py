"""Short ways of the request and the response. Each is taken only where the code that it replaces is Zope's own.

A site may replace any method, in a subclass or by a patch. For each class it is looked up once, at its first use,
which function stands behind a name. If its source is one that is known here, code that does the same in less time
may take its place. Else it is called. A new version of Zope with other code takes the long way.

Each gains less than 2 % of a page with a template and 17 links. Together they hold a limit of
``bench/zope.py``: a view without a template takes at most 0.75 of plain Zope's instructions. What each
gains here is of that view.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from functools import lru_cache
from types import FunctionType
from typing import Any

from zope.interface import providedBy
from zope.interface.declarations import Provides
from zope.publisher.browser import getDefaultSkin
from zope.publisher.interfaces import IDefaultSkin, ISkinType
from zope.publisher.interfaces.browser import IDefaultBrowserLayer
from zope.publisher.skinnable import setDefaultSkin
from ZPublisher import HTTPResponse
from ZPublisher.HTTPRequest import WSGIRequest, _marker, default_port, sane_environment

from pipeline.response import OK
from pipeline.toolkit.memory import memory

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
    """Zope's request, with two methods that do the same in less time. Traversal asks for an item 26 times.

    ``__getitem__`` gains 7 %, ``setServerURL`` 2 %.
    """

    def __getitem__(self, key: Any, default: Any = _marker, returnTaints: int = 0) -> Any:
        if key != "REQUEST":
            try:
                return self.other[key]
            except KeyError:
                pass
        return super().__getitem__(key, default, returnTaints)

    def setServerURL(self, protocol: Any = None, hostname: Any = None, port: Any = None) -> Any:
        other = self.other
        if protocol is None or hostname is None or other.get("SERVER_URL", ""):
            return super().setServerURL(protocol, hostname, port)
        is_usual = port is None or default_port[protocol] == port
        url = other["SERVER_URL"] = f"{protocol}://{hostname}" if is_usual else f"{protocol}://{hostname}:{port}"
        self._resetURLS()
        return url


def new_request(stdin: Any, environ: dict[str, Any], answer: Any) -> Any:
    """Make a request. Zope looks at each name of the environ, for prefixes that Apache has put before it.

    That gains 4 %.
    """
    cls = ShortRequest if is_own(WSGIRequest, "get", "__getitem__", "setServerURL") else WSGIRequest
    names = "\n".join(environ)
    if "REDIRECT_" in names or "HTTP_CGI_" in names or not is_known(sane_environment):
        return cls(stdin, environ, answer)
    zope = cls(stdin, environ.copy(), answer, clean=1)
    zope._orig_env = environ
    return zope


HEADERS = ("finalize", "listHeaders", "_cookie_list", "setHeader", "setStatus")


def put_default_skin(zope: Any) -> None:
    """Do what ``setDefaultSkin`` does. The skin of each class of requests is looked up once: gains 2 %."""
    if "__provides__" not in vars(zope) and is_known(setDefaultSkin):
        known = memory()
        key = (providedBy(zope), type(zope))
        declared = known.answers.get(key)
        if declared is None:
            declared = known.put(default_skin, *key)
        if declared:
            zope.__provides__ = declared
            return
    setDefaultSkin(zope)


def default_skin(registry: Any, provided: Any, cls: type) -> Any:
    """Return the declaration that gives requests of a class their skin, or False if it must be asked each time."""
    skin = registry.lookup((provided,), IDefaultSkin, "")
    if skin is None:
        skin = registry.lookup((provided,), IDefaultSkin, "default")
    if skin is getDefaultSkin and is_known(getDefaultSkin):
        skin = IDefaultBrowserLayer
    return Provides(cls, skin) if skin is not None and ISkinType.providedBy(skin) else False


def process_inputs(zope: Any) -> None:
    """Do what ``processInputs`` does: for a GET without a query it reads nothing, which gains 5 %."""
    environ = zope.environ
    if (
        environ.get("REQUEST_METHOD") == "GET"
        and not environ.get("QUERY_STRING")
        and "HTTP_SOAPACTION" not in environ
        and is_own(type(zope), "processInputs")
    ):
        environ["QUERY_STRING"] = ""
        zope._file = zope._fs = None
    else:
        zope.processInputs()


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
