"""Answers of the registries of components, kept until an interface or a registration changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from zope.component import getSiteManager
from zope.interface.interface import Specification

MOST = 10_000
"""How many answers one memory keeps."""

Answer = TypeVar("Answer")


class Memory:
    """The answers that hold for one registry of adapters."""

    def __init__(self, registry: Any) -> None:
        self.generation = registry._generation
        self.bases = [(base, base._generation) for base in registry.ro[1:]]
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
        if found.generation == registry._generation:
            for base, generation in found.bases:
                if base._generation != generation:
                    break
            else:
                return found
    found = registry._v_pipeline_memory = Memory(registry)
    return found
