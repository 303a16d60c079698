"""The rule that keeps the short ways safe: they are taken only where every hook is the one that Zope ships.

An application may override any hook, in a subclass of a publication or of a request. For each pair of classes it is
looked up once, at first use, which classes of the method resolution order define a hook. If these are exactly the
classes that are known here, the hook may be replaced by code that does the same in less time. Else it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

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

PUBLICATION: dict[str, dict[str, tuple[Chain, ...]]] = {
    "begin": {"beforeTraversal": (ZOPE,)},
    "application": {"proxy": (ZOPE,), "getApplication": (ZOPE, GROK), "openedConnection": (ZOPE,)},
    "steps": {"callTraversalHooks": (ZOPE,)},
    "names": {"proxy": (ZOPE,), "traverseName": (ZOPE, GROK)},
    # No commit where nothing has joined gains 3 % of a template.
    "after_call": {"afterCall": (ZOPE, BROWSER), "annotateTransaction": (ZOPE, ANNOTATES)},
    "errors": {**dict.fromkeys(("proxy", *ERRORS), (ZOPE,)), "annotateTransaction": (ZOPE, ANNOTATES)},
}
"""The short ways by name, each with the hooks of a publication that it replaces, and the classes that may define
them. A hook that stands on a publication itself is called."""
REQUEST: dict[str, dict[str, tuple[Chain, ...]]] = {
    "steps": dict(
        dict.fromkeys(("setTraversalStack", "getTraversalStack"), ((BaseRequest,),)),
        traverse=(HTTP_REQUEST, BROWSER_REQUEST),
    ),
    "browser": dict.fromkeys(("traverse",), (BROWSER_REQUEST,)),
    "retries": {**dict.fromkeys(("supportsRetry", "retry"), (HTTP_REQUEST,)), "retry_max_count": ((HTTPRequest,),)},
}
"""The hooks of a request that a short way replaces."""
HOOKS = frozenset[str]().union(*PUBLICATION.values())


def chain(cls: type, name: str) -> Chain:
    """The classes that define a hook, in the order in which they are asked."""
    return tuple(base for base in cls.__mro__ if name in vars(base) and base is not object)


Ways = frozenset[str]


def _ways(publication: type, request: type, own: frozenset[str]) -> Ways:
    """Return the short ways that two classes allow: their hooks are those that Zope ships.

    own  the hooks that the publication itself has

    Beside them ``without_proxies`` is there for a publication of Grok's, which takes security proxies off, and
    ``without_body`` if ``afterCall`` takes the body away for HEAD.
    """
    found = {"without_proxies"} if issubclass(publication, ZopePublicationSansProxy) else set()
    found |= {"without_body"} if issubclass(publication, BrowserPublication) else set()
    for way in PUBLICATION | REQUEST:
        of_publication, of_request = PUBLICATION.get(way, {}), REQUEST.get(way, {})
        if (
            own.isdisjoint(of_publication)
            and all(chain(publication, hook) in chains for hook, chains in of_publication.items())
            and all(chain(request, hook) in chains for hook, chains in of_request.items())
        ):
            found.add(way)
    return frozenset(found)


def ways_of(publication: Any, request: Any) -> Ways:
    """Return the short ways that a publication and a request allow."""
    return ways(type(publication), type(request), HOOKS.intersection(vars(publication)))


ways: Callable[[Any, Any, Any], Ways] = lru_cache(maxsize=256)(_ways)
