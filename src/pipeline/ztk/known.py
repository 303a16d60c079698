"""The rule that keeps the short ways safe: they are taken only where every hook is the one that Zope ships.

An application may override any hook, in a subclass of a publication or of a request. For each pair of classes it is
looked up once, at first use, which classes of the method resolution order define a hook. If these are exactly the
classes that are known here, the hook may be replaced by code that does the same in less time. Else it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import FunctionType
from typing import Any, NamedTuple

from zope.app.publication.browser import BrowserPublication
from zope.app.publication.http import BaseHTTPPublication
from zope.app.publication.zopepublication import ZopePublication
from zope.publisher.base import BaseRequest, BaseResponse
from zope.publisher.browser import BrowserRequest, BrowserResponse
from zope.publisher.http import HTTPRequest, HTTPResponse
from zope.publisher.xmlrpc import XMLRPCRequest

try:
    from grokcore.view.publication import GrokBrowserPublication, ZopePublicationSansProxy
except ImportError:  # a site without Grok

    class ZopePublicationSansProxy:  # type: ignore[no-redef]
        """Stands for the class of the same name of a package that is not installed."""

    class GrokBrowserPublication:  # type: ignore[no-redef]
        """Stands likewise."""


Chain = tuple[type, ...]

ZOPE: Chain = (ZopePublication,)
GROK: Chain = (ZopePublicationSansProxy, ZopePublication)
BROWSER: Chain = (BrowserPublication, ZopePublication)
ANNOTATES: Chain = (BaseHTTPPublication, ZopePublication)
GROK_DEFAULT: Chain = (GrokBrowserPublication, BrowserPublication)
ERRORS = ("handleException", "beginErrorHandlingTransaction", "_logErrorWithErrorReportingUtility")
HTTP_REQUEST: Chain = (HTTPRequest, BaseRequest)
BROWSER_REQUEST: Chain = (BrowserRequest, HTTPRequest, BaseRequest)

HOOKS = frozenset(
    {
        *("proxy", "beforeTraversal", "_maybePlacefullyAuthenticate", "callTraversalHooks", "afterTraversal"),
        *("openedConnection", "getApplication", "traverseName", "getDefaultTraversal", "callObject"),
        *("afterCall", "endRequest", "annotateTransaction", *ERRORS),
    }
)
"""The hooks of a publication that have a short way. One that stands on a publication itself is called."""


def chain(cls: type, name: str) -> Chain:
    """The classes that define a hook, in the order in which they are asked."""
    return tuple(base for base in cls.__mro__ if name in vars(base) and base is not object)


class Ways(NamedTuple):
    """Which hooks of a publication and a request may take the short way."""

    begin: bool
    """``beforeTraversal`` and ``setPrincipal``"""
    application: bool
    """``getApplication`` and ``openedConnection``"""
    steps: bool
    """``BaseRequest.traverse`` with ``callTraversalHooks`` and the authentication at places"""
    names: bool
    """``traverseName``"""
    browser: bool
    """``BrowserRequest.traverse``"""
    after_traversal: bool
    call: bool
    """``callObject``"""
    after_call: bool
    """``afterCall`` and ``annotateTransaction``"""
    annotate: bool
    """``annotateTransaction`` of a publication for HTTP"""
    end: bool
    """``endRequest``"""
    default: bool
    """``getDefaultTraversal``"""
    errors: bool
    """``handleException``, and what it calls"""
    retries: bool
    """``supportsRetry``, ``retry`` and ``retry_max_count``"""
    inputs: bool
    """``processInputs``"""
    without_proxies: bool
    """True if the publication is one of Grok's, which takes security proxies off."""
    without_body: bool
    """True if ``afterCall`` takes the body away for HEAD."""


NOTHING: frozenset[str] = frozenset()
NONE = Ways(*[False] * len(Ways._fields))


def _ways(publication: type, request: type, own: frozenset[str]) -> Ways:
    """Return which hooks of two classes are those that Zope ships. The publication itself has others of its own."""

    def known(name: str, *chains: Chain) -> bool:
        return name not in own and chain(publication, name) in chains

    walks = all(chain(request, name) == (BaseRequest,) for name in ("setTraversalStack", "getTraversalStack"))
    plain = known("proxy", ZOPE)
    places = known("_maybePlacefullyAuthenticate", ZOPE) and chain(request, "setPrincipal") == HTTP_REQUEST
    steps = chain(request, "traverse")
    return Ways(
        begin=places and known("beforeTraversal", ZOPE),
        application=plain and known("getApplication", ZOPE, GROK) and known("openedConnection", ZOPE),
        steps=walks and places and steps in (HTTP_REQUEST, BROWSER_REQUEST) and known("callTraversalHooks", ZOPE),
        names=plain and known("traverseName", ZOPE, GROK),
        browser=steps == BROWSER_REQUEST,
        after_traversal=places and known("afterTraversal", ZOPE, GROK),
        call=known("callObject", ZOPE, GROK) and chain(request, "getPositionalArguments") == (BaseRequest,),
        after_call=known("afterCall", ZOPE, BROWSER) and known("annotateTransaction", ZOPE, ANNOTATES),
        annotate=known("annotateTransaction", ANNOTATES),
        end=known("endRequest", ZOPE),
        default=plain and known("getDefaultTraversal", (BrowserPublication,), GROK_DEFAULT),
        errors=plain
        and all(known(name, ZOPE) for name in ERRORS)
        and known("annotateTransaction", ZOPE, ANNOTATES),
        retries=chain(request, "supportsRetry") == chain(request, "retry") == HTTP_REQUEST
        and chain(request, "retry_max_count") == (HTTPRequest,),
        inputs=chain(request, "processInputs") == (BrowserRequest, BaseRequest),
        without_proxies=issubclass(publication, ZopePublicationSansProxy),
        without_body=issubclass(publication, BrowserPublication),
    )


def ways_of(publication: Any, request: Any) -> Ways:
    """Return which hooks of a publication and a request are those that Zope ships."""
    own = NOTHING if HOOKS.isdisjoint(vars(publication)) else HOOKS.intersection(vars(publication))
    return ways(type(publication), type(request), own)


MADE_BY = ("__init__", "_createResponse", "setupLocale", "_parseCookies", "_setupPath_helper", "setPublication")


def _is_plain_request(cls: type) -> bool:
    """Return whether requests of a class are made as a BrowserRequest or an HTTPRequest is."""
    chains = {name: chain(cls, name) for name in MADE_BY}
    made_by = chains.pop("__init__")
    return (
        chains["_createResponse"][:1] in ((BrowserRequest,), (HTTPRequest,), (XMLRPCRequest,))
        and chains["setupLocale"] == chains["_parseCookies"] == (HTTPRequest,)
        and chains["_setupPath_helper"] == chains["setPublication"] == (BaseRequest,)
        and made_by in (HTTP_REQUEST, BROWSER_REQUEST)
        and chain(cls, "setTraversalStack") == (BaseRequest,)
        and chain(cls, "get") in (HTTP_REQUEST, BROWSER_REQUEST)
        and not chain(cls, "__new__")
    )


def _is_plain_response(cls: type) -> bool:
    """Return whether responses of a class make body and headers as a BrowserResponse or an HTTPResponse does."""
    return (
        chain(cls, "setResult") == (HTTPResponse, BaseResponse)
        and chain(cls, "_implicitResult") in ((HTTPResponse,), (BrowserResponse, HTTPResponse))
        and all(chain(cls, name) == (HTTPResponse,) for name in ("setStatus", "getHeader"))
        and has_plain_headers(cls)
        and chain(cls, "getBase") in ((), (BrowserResponse,))
    )


def _has_plain_headers(cls: type) -> bool:
    """Return whether responses of a class make their headers as an HTTPResponse does."""
    return all(chain(cls, name) == (HTTPResponse,) for name in ("getHeaders", "_cookie_list"))


def _plain_call(cls: type) -> FunctionType | None:
    """Return the method ``__call__`` of a class if ``mapply`` finds nothing to give to it."""
    if any(chain(cls, name) for name in ("__getattribute__", "__bases__", "__func__", "__code__", "func_code")):
        return None
    defined_by = chain(cls, "__call__")
    found = vars(defined_by[0])["__call__"] if defined_by else None
    return found if isinstance(found, FunctionType) and found.__code__.co_argcount == 1 else None


ways: Callable[[Any, Any, Any], Ways] = lru_cache(maxsize=256)(_ways)
is_plain_request: Callable[[Any], bool] = lru_cache(maxsize=256)(_is_plain_request)
is_plain_response: Callable[[Any], bool] = lru_cache(maxsize=256)(_is_plain_response)
has_plain_headers: Callable[[Any], bool] = lru_cache(maxsize=256)(_has_plain_headers)
plain_call: Callable[[Any], FunctionType | None] = lru_cache(maxsize=1024)(_plain_call)
