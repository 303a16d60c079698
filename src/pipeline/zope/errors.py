"""``zope_errors``: exceptions become the exception views of the site, inside the transaction."""

from __future__ import annotations

from zope.publisher.skinnable import setDefaultSkin
from zope.security.management import newInteraction
from ZPublisher import pubevents

from pipeline.composition import element
from pipeline.interfaces import Handler
from pipeline.response import Response
from pipeline.toolkit.events import tell
from pipeline.zope.request import ZopeRequest, fail


@element(
    adds=ZopeRequest,
    requires=("zope",),
    provides=("error_pages",),
    inside={"transaction": "an exception view sees the state that the exception left, before it is aborted"},
)
def zope_errors(next: Handler) -> Handler:
    """Answer exceptions by the exception views of the site.

    Hooks of Zope that are kept here: the default skin, IPubStart, IPubBeforeCommit, ``standard_error_message``,
    IPubBeforeAbort, ``x-wsgiorg.throw_errors``. A transient error is left to ``retry`` while attempts remain.
    """

    def zope_errors(request: ZopeRequest, response: Response) -> None:
        zope = request.zope
        try:
            setDefaultSkin(zope)
            newInteraction()
            tell(pubevents.PubStart, zope)
            next(request, response)
            tell(pubevents.PubBeforeCommit, zope)
            if request.zope_watcher is not None:
                request.zope_watcher.published()
        except Exception as error:
            failure = fail(request, error)
        else:
            return
        raise failure.exc_info[1]  # so that the transaction is aborted

    return zope_errors
