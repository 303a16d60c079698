"""The steps of a Zope Toolkit site for ``pipeline explain``: the adapters that answered, and the checkers.

The request gets a publication of its own, whose hooks are noted and then called. A hook that stands on a
publication itself is always called (``pipeline.ztk.known``), so the site takes its steps by Zope's own code.
"""

from __future__ import annotations

import copy
from typing import Any

from zope.publisher.interfaces import IPublishTraverse, NotFound
from zope.publisher.interfaces.browser import IBrowserPublisher
from zope.security.checker import CheckerPublic, selectChecker
from zope.security.interfaces import ForbiddenAttribute, IUnauthorized
from zope.security.proxy import removeSecurityProxy as bare
from zope.traversing.interfaces import ITraversable
from zope.traversing.namespace import nsParse

from pipeline.explaining.walking import Taken, Walk, near
from pipeline.telling.words import place_of, short
from pipeline.toolkit.pages import bare_class, called, dotted, lookup


def watch(walk: Walk, request: Any) -> Any:
    """Give a request of Zope a publication that notes its steps, and return it."""
    publication = copy.copy(request.publication)
    watcher = _Watcher(walk, request, publication)
    for name in ("getApplication", "traverseName", "getDefaultTraversal", "callObject"):
        if hasattr(publication, name):
            setattr(publication, name, getattr(watcher, name))
    request.setPublication(publication)
    walk.reset()
    return publication


class _Watcher:
    """The hooks of one publication."""

    def __init__(self, walk: Walk, request: Any, publication: Any) -> None:
        self.walk = walk
        self.request = request
        self.hooks = copy.copy(publication)
        self.source = "path"

    def getApplication(self, request: Any) -> Any:
        root = self.hooks.getApplication(request)
        self.note("", root, "the root", short(bare(root)))
        return root

    def traverseName(self, request: Any, ob: Any, name: str) -> Any:
        found = self.call("traverseName", ob, name, self.who(ob, name))
        self.note(name, ob, self.who(ob, name), short(bare(found)))
        return found

    def getDefaultTraversal(self, request: Any, ob: Any) -> Any:
        by = "itself" if IBrowserPublisher.providedBy(ob) else called(lookup(ob, self.request, IBrowserPublisher))
        found, names = self.call("getDefaultTraversal", ob, "(default view)", f"the default view, by {by}")
        if names:
            self.walk.default = f"default view of {short(bare(ob))}, by {by}"
            self.source = "default view"
        return found, names

    def callObject(self, request: Any, ob: Any) -> Any:
        view = bare(ob)
        self.walk.view = (place_of(class_of(view)), dotted(class_of(view)))
        who = checker_of(view, "__call__")
        result = self.call("callObject", ob, "__call__", who)
        self.note("__call__", view, who, short(bare(result)))
        return result

    def call(self, hook: str, ob: Any, name: str, who: str) -> Any:
        """Call a hook of the publication; note an error and its cause."""
        arguments = (name,) if hook == "traverseName" else ()
        try:
            return getattr(self.hooks, hook)(self.request, ob, *arguments)
        except Exception as error:
            self.note(name, ob, who, f"raised: {type(error).__name__}", near(bare(ob), name))
            self.walk.cause = cause_of(error, self)
            raise

    def note(self, name: str, ob: Any, who: str, result: str, near: str = "") -> None:
        ok = not result.startswith("raised: ")
        named = short(bare(ob))  # now: the connection may be closed when the steps are shown
        self.walk.steps.append(Taken(name, self.source, named, who, result, ok, near=near))

    def who(self, ob: Any, name: str) -> str:
        """Return what answers a step from an object."""
        space, _ = nsParse(name)
        if space:
            return f"the namespace {space}: {called(lookup(ob, self.request, ITraversable, space))}"
        if IPublishTraverse.providedBy(ob):
            return f"{type(bare(ob)).__qualname__}.publishTraverse"
        return f"IPublishTraverse adapter {called(lookup(ob, self.request, IPublishTraverse))}"


def cause_of(error: BaseException, watcher: _Watcher) -> tuple[str, str, str]:
    """Return where an error comes from, what it is, and what to do about it."""
    principal = getattr(watcher.request.principal, "id", None)
    last = watcher.walk.steps[-1]
    where = watcher.walk.view[0] if watcher.walk.view else "ztk_traverse"
    if IUnauthorized.providedBy(error):
        ob, name, permission = [*error.args, None, None, None][:3]
        return (
            place_of(class_of(bare(ob))),
            f"the checker of {short(bare(ob))} refused {name!r}: it needs the permission {permission!r}, which the "
            f"principal {principal!r} has not",
            "Log in (-H 'Authorization: Basic ...'), or grant the permission to the principal or a role of it.",
        )
    if isinstance(error, ForbiddenAttribute):
        name, ob = [*error.args, None, None][:2]
        return (
            where,
            f"the checker of {short(bare(ob))} has no declaration of {name!r}, and so it refuses every principal",
            "Declare it in ZCML: <class ...><require attributes=... permission=.../></class>.",
        )
    if isinstance(error, NotFound) and last.name != "__call__":
        meant = f" Did you mean {last.near!r}?" if last.near else ""
        return (
            "ztk_traverse",
            f"the step {last.name!r} from {last.obj} found nothing ({last.answered_by})",
            f"Add the item, or register a view of that name for it.{meant}",
        )
    return where, f"{type(error).__name__}: {short(str(error), 600)}", "The log below says more."


def checker_of(ob: Any, name: str) -> str:
    """Return which checker guards a name of an object."""
    checker = selectChecker(ob)
    if checker is None:
        return "no checker: every principal may call it"
    permission = checker.permission_id(name) if hasattr(checker, "permission_id") else None
    if permission is CheckerPublic:
        return f"the checker {type(checker).__qualname__}: {name} is public"
    if permission is None:
        return f"the checker {type(checker).__qualname__}: it has no declaration of {name}"
    return f"the checker {type(checker).__qualname__}: {name} needs the permission {permission!r}"


def class_of(view: Any) -> type:
    """Return the class of a view, or of the object that it is a method of."""
    cls: type = bare_class(type(getattr(view, "__self__", view)))
    return cls
