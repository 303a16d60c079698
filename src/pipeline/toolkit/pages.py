"""The browser pages that ZCML or Grok has registered, for ``pipeline views``, and the classes behind them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zope.component import getGlobalSiteManager, getSiteManager
from zope.interface import Interface, providedBy
from zope.publisher.interfaces import IRequest
from zope.publisher.interfaces.browser import IDefaultBrowserLayer
from zope.security.checker import CheckerPublic, getCheckerForInstancesOf

from pipeline.telling.row import Row
from pipeline.telling.words import kind_name, place_of

MADE_BY_ZCML = ("Products.Five.browser.metaconfigure", "Products.Five.metaclass", "zope.browserpage.metaconfigure")


def browser_pages() -> Iterator[Row]:
    """Yield each page that is registered for the whole site: with ZCML, by Grok, or in Python."""
    for one in getGlobalSiteManager().registeredAdapters():
        if len(one.required) != 2 or not one.name or one.provided is not Interface:
            continue
        context, layer = one.required
        if not layer.isOrExtends(IRequest):
            continue
        cls = bare_class(one.factory)
        template = template_of(one.factory)
        method = getattr(one.factory, "__page_attribute__", "__call__")
        function = dotted(cls)
        yield Row(
            kind=context,
            context=kind_name(context),
            name=one.name,
            request="" if layer is IDefaultBrowserLayer else kind_name(layer),
            permission=permission_of(one.factory, method),
            function=template or (function if method == "__call__" else f"{function}.{method}"),
            where=template or place_of(cls),
        )


def permission_of(factory: Any, method: str) -> str:
    """Return the permission that a page needs, as ZCML gives it: its id in the Toolkit, its title in Zope."""
    titles = {name: title for title, names, *_ in getattr(factory, "__ac_permissions__", ()) for name in names}
    if titles:
        return str(titles.get(method, titles.get("", "")))
    checker = getCheckerForInstancesOf(factory)
    permission = checker.permission_id(method) if hasattr(checker, "permission_id") else None
    return "zope.Public" if permission is CheckerPublic else permission or ""


def bare_class(cls: Any) -> Any:
    """Return the class that ZCML has made a class of, or put an adapter around."""
    while hasattr(cls, "factory"):
        cls = cls.factory
    while getattr(cls, "__module__", "").startswith(MADE_BY_ZCML):
        base = next((one for one in cls.__bases__ if one is not object), None)
        if base is None:
            break
        cls = base
    return cls


def template_of(cls: Any) -> str:
    """Return the file of the template that ZCML has made a class of views from, or ""."""
    if getattr(bare_class(cls), "__module__", "") != "zope.browserpage.simpleviewclass":
        return ""
    return str(getattr(getattr(cls, "index", None), "filename", ""))


def lookup(ob: Any, request: Any, wanted: Any, name: str = "") -> Any:
    """Return the factory of the adapter, or view, that is registered for an object and a request of Zope."""
    return getSiteManager().adapters.lookup((providedBy(ob), providedBy(request)), wanted, name)


def called(factory: Any) -> str:
    """Return the name and the place of an adapter or view, without the wrapper that ZCML has put around it."""
    template = template_of(factory)
    if template:
        return f"the template {template}"
    factory = bare_class(factory)
    return "(none is registered)" if factory is None else f"{dotted(factory)} ({place_of(factory)})"


def dotted(factory: Any) -> str:
    """Return the dotted name of a class or function; of another object that of its class."""
    return f"{getattr(factory, '__module__', '')}.{getattr(factory, '__qualname__', type(factory).__qualname__)}"
