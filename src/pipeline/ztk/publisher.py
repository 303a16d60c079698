"""``ztk_publisher``: the object that was found is called."""

from __future__ import annotations

from pipeline.composition import Offers, element
from pipeline.elements.transaction import TransactionRequest
from pipeline.response import Response
from pipeline.toolkit.site import facts_of
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
        result = publication.callObject(zope, request.published)
        answer = zope.response
        if result is not answer:
            answer.setResult(result)
        if "after_call" not in request.ways:
            publication.afterCall(zope, request.published)
        elif "without_body" in request.ways and zope.method == "HEAD":
            answer.setResult("")

    return Offers(ztk_publisher, annotate=annotate)


def annotate(request: ZopeRequest) -> None:
    """Annotate the transaction that is about to be committed, as the publication does."""
    zope = request.zope
    zope.publication.annotateTransaction(request.tm.get(), zope, request.published)
