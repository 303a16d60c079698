"""Kinds of objects: what their interfaces tell is looked up once for all objects that provide the same."""

from __future__ import annotations

from typing import Any, NamedTuple

from zope.component.event import objectEventNotify
from zope.component.interfaces import ISite
from zope.interface import implementedBy, providedBy
from zope.publisher.interfaces import IPublishTraverse
from zope.traversing import namespace
from zope.traversing.interfaces import BeforeTraverseEvent, ITraversable

from pipeline.toolkit.memory import memory

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
