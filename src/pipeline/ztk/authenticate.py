"""``ztk_authenticate``: reads the inputs and finds the principal."""

from __future__ import annotations

from pipeline.composition import element
from pipeline.interfaces import Handler
from pipeline.response import Response
from pipeline.ztk.principals import begin
from pipeline.ztk.request import ZopeRequest


@element(
    requires=("zope",),
    provides=("interaction",),
    inside={"transaction": "an authentication utility may read and write its database"},
)
def ztk_authenticate(next: Handler) -> Handler:
    """Read the inputs, and set the principal and the interaction of the request.

    Hooks of Zope that are kept here: ``request.processInputs`` (forms; a ``:method`` changes the path) and
    ``publication.beforeTraversal`` (StartRequestEvent, the global authentication, the interaction).
    """

    def ztk_authenticate(request: ZopeRequest, response: Response) -> None:
        zope = request.zope
        zope.processInputs()
        if request.ways.begin:
            begin(request, zope)
        else:
            zope.publication.beforeTraversal(zope)
        next(request, response)

    return ztk_authenticate
