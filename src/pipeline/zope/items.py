"""``zope_items``: new views beside a Zope site, with its objects, its users and its security policy."""

from __future__ import annotations

from functools import partial
from typing import Any

from AccessControl.SecurityManagement import getSecurityManager, newSecurityManager, noSecurityManager
from AccessControl.users import nobody
from Acquisition import aq_base
from webob.exc import HTTPNotFound, HTTPUnauthorized
from zope.globalrequest import clearRequest, setRequest
from zope.interface import implementer
from ZPublisher.BaseRequest import RequestContainer

from pipeline.auth.authentication import AuthRequest, quoted, refuse_odd
from pipeline.auth.policy import UNDECLARED
from pipeline.composition import Offers, element
from pipeline.elements.authenticate import authorizer
from pipeline.http.encodings import make_private_for_user
from pipeline.interfaces import Facts, Handler, ISecurityPolicy
from pipeline.names import checked, is_name
from pipeline.publishing.steps import call_hooks, name_view, parse
from pipeline.request import SAFE_METHODS
from pipeline.response import Response, check_header
from pipeline.views import View
from pipeline.zope.request import new_request_of

ANONYMOUS = nobody.getUserName()
VIEW = "View"
"""The title of the permission for views that name none."""


class ItemsRequest(AuthRequest):
    """The attribute that ``zope_items`` adds to a request."""

    user: Any = None
    """The user of the site, which also stands for a visitor who is not logged in."""


@implementer(ISecurityPolicy)
class SitePolicy:
    """The security policy of the site. A new view names a permission by its title.

    One that names none needs "View", and for an unsafe method a login as well.
    """

    def permits(self, request: Any, permission: str, context: Any) -> bool:
        if permission == UNDECLARED:
            if request.principal is None and request.environ["REQUEST_METHOD"] not in SAFE_METHODS:
                return False
            permission = VIEW
        return bool(getSecurityManager().checkPermission(permission, context))


def why_refused(view: View, method: str, who: str) -> str:
    """Return why a visitor may not call a view."""
    needed = f"the permission {view.permission or VIEW!r}"
    if view.permission is None and method not in SAFE_METHODS:
        needed += f" and a login for {method}"
    name = f"{view.function.__module__}.{view.function.__qualname__}"
    return f"{name} needs {needed}, which the site refuses to {who}"


@element(
    adds=ItemsRequest,
    facts=lambda **options: Facts(why_refused=why_refused),
    requires=("root",),
    provides=("context", "principal"),
    inside={"errors": "a refused login is answered like any other error"},
    outside={"publisher": "the publisher calls the view of the context that the walk finds"},
)
def zope_items(next: Handler, *, realm: str = "Zope", max_segments: int = 128) -> Offers:
    """Walk from the Application over the items of its folders, and identify the user, for new views.

    realm         realm of Basic authentication
    max_segments  upper limit of the segments of a path (S16); a longer path is a 414

    It stands in the place of ``traverse``. Only items are steps: no attributes, and nothing is acquired on the way.
    The context has its place, its parents and the request of Zope, so that ``absolute_url`` and acquisition work in
    a view. The user folders on the path are asked from the context up. Their user is ``request.user``, and
    ``getSecurityManager`` has it as long as the request lasts. A ``REMOTE_USER`` from outside is shown to user
    folders only.
    """
    header = f'basic realm="{quoted(realm)}", charset="UTF-8"'
    check_header("WWW-Authenticate", header)

    def zope_items(request: ItemsRequest, response: Response) -> None:
        zope = new_request_of(request.environ)
        setRequest(zope)
        request.on_close(partial(end, zope))
        noSecurityManager()
        names, _, _ = parse(request.environ.get("PATH_INFO", ""), max_segments)
        top = checked(request.virtual_root_path)
        parents = [request.root.__of__(RequestContainer(REQUEST=zope))]
        call_hooks(request, parents[0])
        for name in top:
            if not step(request, parents, name):
                raise HTTPNotFound("There is nothing at this address.")
        if top:
            request.virtual_root = parents[0]
            zope["VirtualRootPhysicalPath"] = parents[0].getPhysicalPath()  # for absolute_url
        ahead = iter(names)
        for name in ahead:
            if not step(request, parents, name):
                name_view(request, name, ahead)
                break
        obj = parents[0]
        names = (*top, *names)
        request.context = zope["PUBLISHED"] = obj
        zope["PARENTS"] = parents
        zope.steps = [*names[: len(parents) - 1], request.view_name]
        request.user = user = user_of(zope, parents)
        newSecurityManager(zope, user)
        name = user.getUserName()
        request.environ.pop("REMOTE_USER", None)  # some servers copy it unverified
        if name != ANONYMOUS:
            refuse_odd(name, user)
            request.principal = name
            request.environ["REMOTE_USER"] = name.encode(errors="replace").decode("latin-1")  # PEP 3333
        try:
            next(request, response)
        except HTTPUnauthorized as error:
            error.headers["WWW-Authenticate"] = header
            raise
        if response.status_line[:3] == "401":  # of a view that answers so by itself (RFC 9110 section 15.5.2)
            response.headers.setdefault("WWW-Authenticate", header)
        make_private_for_user(request, response)

    return Offers(zope_items, authorize=authorizer(SitePolicy, "deny"))


def step(request: Any, parents: list[Any], name: str) -> bool:
    """Put the item of that name before the objects of the path. Return False if the last one has no such item."""
    obj = parents[0]
    if not is_name(name) or not hasattr(aq_base(obj), "hasObject") or not obj.hasObject(name):
        return False
    parents.insert(0, obj._getOb(name))
    call_hooks(request, parents[0])
    return True


def user_of(zope: Any, parents: list[Any]) -> Any:
    """Return the user that a user folder on the path knows, the innermost first."""
    for above in parents:
        folder = getattr(aq_base(above), "__allow_groups__", None)
        user = above.__allow_groups__.validate(zope, zope._auth, None) if folder is not None else None
        if user is not None:
            return user
    return nobody


def end(zope: Any) -> None:
    """End the request of Zope, and forget the user."""
    noSecurityManager()
    clearRequest()
    zope.clear()
