"""``ztk_traverse``: the path is walked, from the root folder to what is published."""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakSet

from zope.component import getSiteManager
from zope.component.event import objectEventNotify
from zope.component.interfaces import ISite
from zope.event import notify
from zope.interface import Interface, implementedBy, providedBy
from zope.publisher.interfaces import IPublishTraverse, NotFound
from zope.publisher.interfaces.browser import IBrowserView
from zope.security.checker import ProxyFactory
from zope.security.proxy import removeSecurityProxy
from zope.traversing import namespace
from zope.traversing.interfaces import BeforeTraverseEvent, ITraversable, TraversalError
from zope.traversing.namespace import namespaceLookup, nsParse

from pipeline.composition import element
from pipeline.interfaces import Handler
from pipeline.response import Response
from pipeline.toolkit.events import are_usual
from pipeline.toolkit.memory import memory
from pipeline.ztk.known import Ways
from pipeline.ztk.request import CONNECTION, ZopeRequest

try:
    from grokcore.traverser import traversable
    from grokcore.traverser.components import ContainerTraverser, ContextTraverser
    from grokcore.traverser.util import safely_locate_maybe
    from zope.container.interfaces import IReadContainer

    GROK_TRAVERSERS: tuple[Any, ...] = (ContainerTraverser, ContextTraverser)
except ImportError:
    GROK_TRAVERSERS = ()
try:
    from grokcore.view import IGrokSecurityView
except ImportError:  # a site without Grok: nothing asks for them
    IGrokSecurityView = None

PROCESS = "++etc++process"
DEFAULTABLE = ("GET", "HEAD", "POST")
"""Methods for which an object may lead on to its default view."""


@element(
    adds=ZopeRequest,
    requires=("zope", "interaction"),
    provides=("published",),
    inside={"ztk_authenticate": "a place finds a principal only for a request that has none yet"},
)
def ztk_traverse(next: Handler) -> Handler:
    """Walk the path of the request to the object that is published.

    Hooks of Zope that are kept here: ``publication.getApplication`` (the connection, ``openedConnection``, the
    root folder), ``request.traverse`` with ``publication.callTraversalHooks``, ``traverseName`` and
    ``getDefaultTraversal``, and ``publication.afterTraversal``.
    """

    def ztk_traverse(request: ZopeRequest, response: Response) -> None:
        zope = request.zope
        ways = request.ways
        publication = zope.publication
        if "application" in ways and "zodb_connection" in request.pipeline.names:
            root = root_folder(request, zope, publication, ways)
        else:
            root = publication.getApplication(zope)
        request.published = root
        if "steps" in ways:
            found = walk(zope, publication, ways, root)
        else:
            found = zope.traverse(root)
        request.published = found
        publication.afterTraversal(zope, found)
        next(request, response)

    return ztk_traverse


def root_folder(request: Any, zope: Any, publication: Any, ways: Ways) -> Any:
    """Return the root folder, as ``getApplication`` does, out of the connection that ``zodb`` keeps open.

    It gains 6 % of a template with 20 links, and 12 % of a page with a form.
    """
    if PROCESS in zope._traversal_stack:
        return publication.getApplication(zope)
    connection = zope.annotations[CONNECTION] = request.zodb
    folder = connection.root().get(publication.root_name)
    if folder is None:
        raise SystemError("Zope Application Not Found")
    return folder if "without_proxies" in ways else ProxyFactory(folder)


def walk(zope: Any, publication: Any, ways: Ways, root: Any) -> Any:
    """Return what ``BrowserRequest.traverse`` or ``HTTPRequest.traverse`` finds.

    It gains 4 % of a template with 20 links, and 22 % of a page three containers deep.
    """
    found = walk_stack(zope, publication, ways, root)
    suffix = zope._path_suffix
    if suffix:
        zope._traversal_stack = suffix
        found = walk_stack(zope, publication, ways, found)
    if "browser" not in ways:
        return found
    if suffix:  # of a ``:method``: it has no default view, and relative links need to know where it is
        put_base(zope)
        return found
    if zope.method not in DEFAULTABLE:
        return found
    taken = 0
    found, more = publication.getDefaultTraversal(zope, found)
    while more:
        taken += len(more)
        zope._traversal_stack[:] = list(more)[::-1]
        found = walk_stack(zope, publication, ways, found)
        if zope._path_suffix:
            zope._traversal_stack = zope._path_suffix
            found = walk_stack(zope, publication, ways, found)
        found, more = publication.getDefaultTraversal(zope, found)
    if taken != zope._endswithslash:
        if zope.use_redirect and zope.method == "GET":
            zope.response.redirect(zope.getURL())
            return ""
        put_base(zope)
    return found


def view_of(ob: Any, zope: Any, name: str) -> Any:
    """Return the view with a name, or None."""
    factory = getSiteManager().adapters.lookup((providedBy(ob), providedBy(zope)), Interface, name)
    return factory and factory(ob, zope)


BEFORE_TRAVERSE: Any = implementedBy(BeforeTraverseEvent)  # type: ignore[no-untyped-call]


class Kind(NamedTuple):
    """Kind of the objects that provide the same interfaces, for requests that do."""

    handlers: list[Any] | None
    """The subscribers of the BeforeTraverseEvent of such an object. None if there are further subscribers, which do
    not depend on the object."""
    is_site: bool
    publishes: bool
    """True if the object itself takes the step."""
    traverser: Any
    """The factory of the adapter that takes the step, or None."""
    views: bool
    """True if the namespace ``view`` looks for a view and nothing else."""


def kind_of(registry: Any, provided: Any, requested: Any) -> Kind:
    """Look up what the specifications of an object and of a request tell."""
    both = (provided, requested)
    handlers = None
    if registry.subscriptions((BEFORE_TRAVERSE,), None) == [objectEventNotify]:
        handlers = registry.subscriptions((provided, BEFORE_TRAVERSE), None)
    return Kind(
        handlers=handlers,
        is_site=provided.isOrExtends(ISite),
        publishes=provided.isOrExtends(IPublishTraverse),
        traverser=registry.lookup(both, IPublishTraverse),
        views=registry.lookup(both, ITraversable, "view") is namespace.view,
    )


def kind(ob: Any, request: Any) -> Kind:
    """Return the kind of an object, for a request and the site of this thread.

    That it is kept gains 4 % of a template with 20 links, and 8 % of a page three containers deep.
    """
    known = memory()
    key = (providedBy(ob), providedBy(request))
    found: Kind | None = known.answers.get(key)
    return known.put(kind_of, *key) if found is None else found


UNKNOWN: Any = object()
"""Stands for what a traverser has to be asked for."""


def grok_step(ob: Any, zope: Any, name: str, traverser: Any) -> Any:
    """Return what a traverser of Grok finds, or UNKNOWN.

    It gains 3 % of a page with a form, one container deep, and 7 % of one that is three containers deep.
    """
    if getattr(ob, "traverse", None):
        return UNKNOWN
    if traverser is ContainerTraverser:
        found = ob.get(name)
        if found is not None:
            located = getattr(found, "__parent__", None) is not None
            return found if located else safely_locate_maybe(found, ob, name)
    cls = type(ob)
    if cls not in _without_names:
        if traversable.bind().get(ob):
            return UNKNOWN
        _without_names.add(cls)
    if traverser is not ContainerTraverser and IReadContainer.providedBy(ob):
        found = ob.get(name)
        if found is not None:
            return found
    view = view_of(ob, zope, name)
    if view is None:
        raise NotFound(ob, name, zope)
    return view


_without_names: WeakSet[type] = WeakSet()
"""Classes of containers that have no directive ``traversable``."""


def put_base(zope: Any) -> None:
    """Set the base of relative links, unless it is set."""
    response = zope.response
    if not response.getBase():
        response.setBase(zope.getURL())


def walk_stack(zope: Any, publication: Any, ways: Ways, found: Any) -> Any:
    """Return what ``BaseRequest.traverse`` finds: take each step, and tell of each object that is reached."""
    stack = zope._traversal_stack
    names = zope._traversed_names
    step = quick_step if "names" in ways else hook_step
    tells_all = not are_usual()
    before = None
    while True:
        zope._last_obj_traversed = found
        here = kind(found, zope)
        bare = removeSecurityProxy(found)
        if bare is not before and (here.handlers or here.handlers is None or here.is_site or tells_all):
            arrive(zope, publication, found, here, tells_all)
            here = kind(found, zope)
        if not stack:
            return found
        before = bare
        name = stack.pop()
        names.append(name)
        found = step(zope, publication, "without_proxies" in ways, found, name, here)


def arrive(zope: Any, publication: Any, ob: Any, here: Kind, tells_all: bool) -> None:
    """Do what ``callTraversalHooks`` does."""
    if tells_all or here.handlers is None:
        notify(BeforeTraverseEvent(ob, zope))
    elif here.handlers:
        event = BeforeTraverseEvent(ob, zope)
        for handler in here.handlers:
            handler(ob, event)
    publication._maybePlacefullyAuthenticate(zope, ob)


def hook_step(zope: Any, publication: Any, without_proxies: bool, ob: Any, name: str, here: Kind) -> Any:
    """Take one step by the hook of the publication."""
    return publication.traverseName(zope, ob, name)


def quick_step(zope: Any, publication: Any, without_proxies: bool, ob: Any, name: str, here: Kind) -> Any:
    """Take one step as ``ZopePublication.traverseName`` does, or as Grok's does without making proxies.

    It gains 6 % of a page with a form, one container deep, and 14 % of one that is three containers deep.
    """
    if name[:2] == "@@" and here.views:
        found = view_of(ob, zope, name[2:])
        if found is None:
            raise NotFound(ob, name)
    elif name[:1] in "@+" and name and (parsed := nsParse(name))[0]:
        try:
            found = namespaceLookup(*parsed, ob, zope)
        except TraversalError as error:
            raise NotFound(ob, name) from error
    elif name == ".":
        return ob
    elif here.publishes:
        found = ob.publishTraverse(zope, name)
    else:
        found = grok_step(ob, zope, name, here.traverser) if here.traverser in GROK_TRAVERSERS else UNKNOWN
        if found is UNKNOWN:
            traverser = here.traverser and here.traverser(ob, zope)
            if traverser is None:
                raise NotFound(ob, name, zope)
            found = traverser.publishTraverse(zope, name)
    if not without_proxies:
        return ProxyFactory(found)
    bare = removeSecurityProxy(found)
    if IBrowserView.providedBy(bare) and not IGrokSecurityView.providedBy(bare):
        return ProxyFactory(found)
    return bare
