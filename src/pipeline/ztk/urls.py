"""``absoluteURL`` in one pass: the parents of an object are walked, and no adapter is made for each of them.

``AbsoluteURL`` of zope.traversing makes an adapter of its own class for the parent, which makes one for the next.
Here the registry is only asked whether that class would be made, and the answer is kept. Where another class is
registered, its adapter is made and tells the rest.
"""

from __future__ import annotations

import inspect
import re
from hashlib import sha256
from sys import getrecursionlimit
from typing import Any
from urllib.parse import quote_from_bytes as quote

from zope.component import getMultiAdapter
from zope.interface import providedBy
from zope.location.interfaces import ILocation
from zope.proxy import sameProxiedObjects
from zope.traversing.browser import AbsoluteURL
from zope.traversing.browser.absoluteurl import _insufficientContext
from zope.traversing.browser.interfaces import IAbsoluteURL

from pipeline.toolkit.memory import memory

ZOPES = vars(AbsoluteURL)["__str__"]
KNOWN = "40be828778765202a941b84353d7f34cb8a8836d1e66828140a8e3d4618898f4"
"""The digest of the method that is replaced, in zope.traversing 6.0."""


def shorten() -> None:
    """Replace ``AbsoluteURL.__str__``, for the whole process, if it is the one that is known here."""
    try:
        source = inspect.getsource(vars(AbsoluteURL)["__str__"])
    except (OSError, TypeError):  # it has no source, or is not a function
        return
    if sha256(source.encode()).hexdigest() == KNOWN:
        AbsoluteURL.__str__ = one_pass


def one_pass(self: Any) -> str:
    """Return the URL of an object, as ``AbsoluteURL.__str__`` does. It gains 5 % of a template with 20 links."""
    request = self.request
    virtual_root = request.getVirtualHostRoot()
    requested = providedBy(request)
    known = memory()
    ob = self.context
    passed = []
    for _ in range(getrecursionlimit()):
        if ob is None or sameProxiedObjects(ob, virtual_root):
            url: str = request.getApplicationURL()
            break
        try:
            parent = ob.__parent__
        except AttributeError:
            ob = ILocation(ob)
            parent = ob.__parent__
        if parent is None:
            raise TypeError(_insufficientContext)
        passed.append(ob)
        key = (providedBy(parent), requested, IAbsoluteURL)
        usual = known.answers.get(key)
        if usual is None:
            usual = known.put(is_usual, *key)
        if not usual:
            url = str(getMultiAdapter((parent, request), IAbsoluteURL))
            break
        ob = parent
    else:
        raise RecursionError(f"{self.context!r}: its parents lead back to itself")
    while passed:
        name = getattr(passed.pop(), "__name__", None)
        if name is None:
            raise TypeError(_insufficientContext)
        if type(name) is str and _UNQUOTED.fullmatch(name):
            url = f"{url}/{name}"
        elif name:
            url += "/" + quote(name.encode(), "@+")
    return url


_UNQUOTED = re.compile(r"[A-Za-z0-9_.~@+-]+")


def is_usual(registry: Any, provided: Any, requested: Any, wanted: Any) -> bool:
    """Return whether exactly ``AbsoluteURL`` is registered for such an object; ``view`` of ZCML wraps it."""
    factory = registry.lookup((provided, requested), wanted)
    if (cls := type(factory)).__module__ == "zope.component.zcml" and cls.__name__ == "ProxyView":
        factory = factory.factory
    return factory is AbsoluteURL
