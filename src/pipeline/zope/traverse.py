"""``zope_traverse``: Zope reads the inputs, and walks from the root to what is published."""

from __future__ import annotations

from contextlib import suppress

from AccessControl.SecurityManagement import getSecurityManager, noSecurityManager
from ZPublisher import WSGIPublisher, pubevents

from pipeline.composition import element
from pipeline.interfaces import Handler
from pipeline.response import Response
from pipeline.toolkit.events import tell
from pipeline.zope.request import ZopeRequest


@element(
    adds=ZopeRequest,
    requires=("zope", "root"),
    provides=("published",),
    inside={
        "zope_errors": "whatever the walk raises is answered by an exception view",
        "transaction": "hooks and user folders read and write the database",
    },
)
def zope_traverse(next: Handler, *, realm: str = "") -> Handler:
    """Read the inputs of the request, and walk its path by Zope's own traversal.

    realm  realm of Basic authentication; default that of the zope.conf

    Hooks of Zope that are kept here: all of ``BaseRequest.traverse``, such as access rules, ``__bobo_traverse__``,
    virtual hosts, user folders and their ``validate``; IPubAfterTraversal; ``REMOTE_USER``.
    """

    def zope_traverse(request: ZopeRequest, response: Response) -> None:
        zope = request.zope
        root = request.root
        try:
            names = zope.other
            names["PARENTS"] = [root]
            zope.processInputs()
            answer = zope.response
            answer.debug_exceptions = WSGIPublisher._DEFAULT_DEBUG_EXCEPTIONS
            if WSGIPublisher._DEFAULT_DEBUG_MODE:
                answer.debug_mode = True
            if not zope.environ.get("REMOTE_USER"):
                answer.realm = realm or WSGIPublisher._DEFAULT_REALM or "Zope2"
            noSecurityManager()
            path = names["PATH_INFO"] if "PATH_INFO" in names else zope.environ.get("PATH_INFO", "")
            request.published = zope.traverse(path, validated_hook=WSGIPublisher.validate_user)
            with suppress(AttributeError):
                names["PARENTS"][-1]._p_jar.setDebugInfo(zope.environ, zope.other)
            tell(pubevents.PubAfterTraversal, zope)
            next(request, response)
        finally:
            put_user(request)

    return zope_traverse


def put_user(request: ZopeRequest) -> None:
    """Tell the log of the server, and ours, who is logged in."""
    user = getSecurityManager().getUser()
    if user is not None:
        name = user.getUserName()
        if name != "Anonymous User":
            request.environ["REMOTE_USER"] = name
            request.principal = name
