"""``ztk_publisher``: the object that was found is called."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from types import MethodType
from typing import Any

from zope.interface import providedBy
from zope.proxy import removeAllProxies
from zope.publisher.interfaces import IRequest
from zope.publisher.publish import mapply
from zope.security.checker import selectChecker
from zope.security.proxy import removeSecurityProxy
from zope.traversing.interfaces import IPhysicallyLocatable

from pipeline.composition import Offers, element
from pipeline.elements.transaction import TransactionRequest
from pipeline.response import Response
from pipeline.toolkit.site import facts_of
from pipeline.ztk.known import Ways, plain_call
from pipeline.ztk.lean import put_result
from pipeline.ztk.request import ZopeRequest
from pipeline.ztk.site import load


@element(
    adds=TransactionRequest,
    requires=("zope", "published"),
    facts=lambda *, zope_conf: facts_of(zope_conf),
)
def ztk_publisher(*, zope_conf: str | None = None) -> Offers:
    """Call the object that traversal found, and put its result on the response.

    zope_conf  the zope.conf of the site, which is loaded when the pipeline is; default is that the application
               has configured the process itself

    Hooks of Zope that are kept here: ``publication.callObject`` (the checker, ``mapply``), ``response.setResult``
    and ``publication.afterCall`` (``annotateTransaction``, no body for HEAD). The commit is the element
    ``transaction``'s.
    """

    if zope_conf is not None:
        load(zope_conf)

    def ztk_publisher(request: ZopeRequest, response: Response) -> None:
        zope = request.zope
        publication = zope.publication
        if request.ways.call and not zope._args:
            result = call(zope, request.published, request.ways)
        else:
            result = publication.callObject(zope, request.published)
        answer = zope.response
        if result is not answer:
            put_result(zope, answer, result)
        if not request.ways.after_call:
            publication.afterCall(zope, request.published)
        elif request.ways.without_body and zope.method == "HEAD":
            answer.setResult("")

    return Offers(ztk_publisher, annotate=annotate)


def call(zope: Any, ob: Any, ways: Ways) -> Any:
    """Call an object, as ``ZopePublication.callObject`` does, or as Grok's does, which checks one that is bare."""
    __traceback_info__ = ob
    if ways.without_proxies:
        checker = selectChecker(ob)
        if checker is not None:
            checker.check(ob, "__call__")
    bare = removeAllProxies(ob)
    function = plain_call(type(bare))
    if function is not None and getattr(bare.__call__, "__func__", None) is function:
        return ob()
    return mapply(ob, (), zope)


def annotate(request: ZopeRequest) -> None:
    """Annotate the transaction that is about to be committed, as the publication does."""
    zope = request.zope
    ob = request.published
    transaction = request.tm.get()
    if not request.ways.annotate:
        zope.publication.annotateTransaction(transaction, zope, ob)
        return
    if zope._principal is not None:
        transaction.setUser(str(zope._principal.id))
    bare = removeSecurityProxy(ob)
    locatable = IPhysicallyLocatable(bare.__self__ if isinstance(bare, MethodType) else ob, None)
    with suppress(AttributeError, TypeError):  # a resource has no path
        path = locatable.getPath()
        if path is not None:
            transaction.setExtendedInfo("location", path)
    transaction.setExtendedInfo("request_type", request_type(providedBy(zope)))
    transaction.setExtendedInfo("request_info", f"{zope.method} {zope.getURL()}")


@lru_cache(maxsize=256)
def request_type(provided: Any) -> str:
    """Return the dotted name of the first interface of requests."""
    found = next((one for one in provided if one.extends(IRequest)), [IRequest, *provided][-1])
    return f"{found.__module__}.{found.getName()}"
