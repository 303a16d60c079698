"""The rule that keeps the short ways safe: they are taken only where every hook is the one that Zope ships.

An application may override any hook, in a subclass of a publication or of a request. For each pair of classes it is
looked up once, at first use, which classes of the method resolution order define a hook. If these are exactly the
classes that are known here, the hook may be replaced by code that does the same in less time. Else it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from zope.app.publication.browser import BrowserPublication
from zope.app.publication.http import BaseHTTPPublication
from zope.app.publication.zopepublication import ZopePublication
from zope.publisher.base import BaseRequest
from zope.publisher.browser import BrowserRequest
from zope.publisher.http import HTTPRequest

try:
    from grokcore.view.publication import ZopePublicationSansProxy
except ImportError:  # a site without Grok
    ZopePublicationSansProxy = ()


Chain = tuple[type, ...]

ZOPE: Chain = (ZopePublication,)
GROK: Chain = (ZopePublicationSansProxy, ZopePublication)
BROWSER: Chain = (BrowserPublication, ZopePublication)
ANNOTATES: Chain = (BaseHTTPPublication, ZopePublication)
ERRORS = ("handleException", "beginErrorHandlingTransaction", "_logErrorWithErrorReportingUtility")
HTTP_REQUEST: Chain = (HTTPRequest, BaseRequest)
BROWSER_REQUEST: Chain = (BrowserRequest, HTTPRequest, BaseRequest)

HOOKS = frozenset(
    {
        *("proxy", "beforeTraversal", "callTraversalHooks", "openedConnection", "getApplication", "traverseName"),
        *("afterCall", "annotateTransaction", *ERRORS),
    }
)
"""The hooks of a publication that have a short way. One that stands on a publication itself is called."""


def chain(cls: type, name: str) -> Chain:
    """The classes that define a hook, in the order in which they are asked."""
    return tuple(base for base in cls.__mro__ if name in vars(base) and base is not object)


class Ways(NamedTuple):
    """Which hooks of a publication and a request may take the short way."""

    begin: bool
    """``beforeTraversal``"""
    application: bool
    """``getApplication`` and ``openedConnection``"""
    steps: bool
    """``BaseRequest.traverse`` with ``callTraversalHooks``"""
    names: bool
    """``traverseName``"""
    browser: bool
    """``BrowserRequest.traverse``"""
    after_call: bool
    """``afterCall`` and ``annotateTransaction``. No commit where nothing has joined gains 3 % of a template"""
    errors: bool
    """``handleException``, and what it calls"""
    retries: bool
    """``supportsRetry``, ``retry`` and ``retry_max_count``"""
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
    steps = chain(request, "traverse")
    return Ways(
        begin=known("beforeTraversal", ZOPE),
        application=plain and known("getApplication", ZOPE, GROK) and known("openedConnection", ZOPE),
        steps=walks and steps in (HTTP_REQUEST, BROWSER_REQUEST) and known("callTraversalHooks", ZOPE),
        names=plain and known("traverseName", ZOPE, GROK),
        browser=steps == BROWSER_REQUEST,
        after_call=known("afterCall", ZOPE, BROWSER) and known("annotateTransaction", ZOPE, ANNOTATES),
        errors=plain
        and all(known(name, ZOPE) for name in ERRORS)
        and known("annotateTransaction", ZOPE, ANNOTATES),
        retries=chain(request, "supportsRetry") == chain(request, "retry") == HTTP_REQUEST
        and chain(request, "retry_max_count") == (HTTPRequest,),
        without_proxies=issubclass(publication, ZopePublicationSansProxy),
        without_body=issubclass(publication, BrowserPublication),
    )


def ways_of(publication: Any, request: Any) -> Ways:
    """Return which hooks of a publication and a request are those that Zope ships."""
    own = NOTHING if HOOKS.isdisjoint(vars(publication)) else HOOKS.intersection(vars(publication))
    return ways(type(publication), type(request), own)


ways: Callable[[Any, Any, Any], Ways] = lru_cache(maxsize=256)(_ways)
