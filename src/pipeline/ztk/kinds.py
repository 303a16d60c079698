"""Kinds of objects: what their interfaces tell is looked up once for all objects that provide the same.

An answer is kept until an interface, a class declaration or a registration changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from zope.component import getSiteManager
from zope.component.event import objectEventNotify
from zope.component.interfaces import ISite
from zope.interface import implementedBy, providedBy
from zope.interface.interface import Specification
from zope.publisher.interfaces import IPublishTraverse
from zope.publisher.interfaces.browser import IBrowserPublisher
from zope.traversing import namespace
from zope.traversing.interfaces import BeforeTraverseEvent, ITraversable

BEFORE_TRAVERSE: Any = implementedBy(BeforeTraverseEvent)  # type: ignore[no-untyped-call]
MOST = 10_000
"""How many answers one memory keeps."""

Answer = TypeVar("Answer")


class Memory:
    """The answers that hold for one registry of adapters."""

    def __init__(self, registry: Any) -> None:
        self.generation = registry._generation
        self.bases = registry.ro[1:]
        self.generations = [base._generation for base in self.bases]
        self.answers: dict[Any, Any] = {}

    def changed(self, originally_changed: object) -> None:
        """Forget the answers. ``zope.interface`` calls this when a specification changes."""
        self.answers = {}

    def put(self, make: Callable[..., Answer], *key: Any) -> Answer:
        """Return what ``make`` answers, and keep it."""
        answers = self.answers  # a change in another thread replaces it
        if len(answers) >= MOST:
            answers.clear()
        for part in key:
            if isinstance(part, Specification):
                part.subscribe(self)
        answer = answers[key] = make(getSiteManager().adapters, *key)
        return answer


def memory() -> Memory:
    """Return the memory of the site of this thread.

    It is an attribute of the registry. A registry that is loaded from a database gets a new memory.
    """
    registry = getSiteManager().adapters
    try:
        found: Memory = registry._v_pipeline_memory
    except AttributeError:
        pass
    else:
        if found.generation == registry._generation and (
            not found.bases or found.generations == [base._generation for base in found.bases]
        ):
            return found
    found = registry._v_pipeline_memory = Memory(registry)
    return found


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
    leads_on: bool
    """True if the object itself tells its default view."""
    default: Any
    """The factory of the adapter that tells its default view, or None."""


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
        leads_on=provided.isOrExtends(IBrowserPublisher),
        default=registry.lookup(both, IBrowserPublisher),
    )


def kind(ob: Any, request: Any) -> Kind:
    """Return the kind of an object, for a request and the site of this thread."""
    known = memory()
    key = (providedBy(ob), providedBy(request))
    found: Kind | None = known.answers.get(key)
    return known.put(kind_of, *key) if found is None else found
