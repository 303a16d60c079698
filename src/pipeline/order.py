"""The order contract: what elements say of their place, and the check of it.

Order is declared and checked, never sorted. A contract is refused when

* two elements of one name stand in one pipeline;
* an element stands outside one that it says it is ``inside`` of, or inside one that it says it is
  ``outside`` of (the names are those of elements, or of what elements provide);
* an element requires something that is provided only further in, or not at all. A requirement is
  also met by an option of its own of the same name (``traverse`` with ``root``).

``refuse_wrong_order`` finds all of these but the last; it may be asked of a pipeline that is not yet
finished. ``refuse_missing`` finds the last, once the outermost element is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.interfaces import OrderError


class Contract(NamedTuple):
    """What one element says of its place in any pipeline."""

    name: str
    requires: tuple[str, ...] = ()
    """Things that an outer element must have provided."""
    provides: tuple[str, ...] = ()
    inside: Mapping[str, str] = {}
    """Names of elements or provided things that are outside of this one: the reason by name."""
    outside: Mapping[str, str] = {}
    """Names of elements or provided things that are inside of this one: the reason by name."""
    met: frozenset[str] = frozenset()
    """Requirements met by the element's own options."""
    adds: Any = None
    """The subclass of ``Request`` that declares the attributes that the element adds, or None."""

    def answers_to(self, name: str) -> bool:
        return name == self.name or name in self.provides

    def unmet(self) -> Iterator[str]:
        return (thing for thing in self.requires if thing not in self.met)


_PROVIDERS = {"root": "zodb", "context": "traverse", "database": "zodb or sql"}
"""Who provides what among our own elements; for hints in errors alone."""


def refuse_wrong_order(chain: Sequence[Contract]) -> None:
    """Raise OrderError if two elements of ``chain``, outermost first, are in the wrong order."""
    for position, outer in enumerate(chain):
        for inner in chain[position + 1 :]:
            if outer.name == inner.name:
                raise OrderError(
                    f"{outer.name} stands twice in the pipeline {_written(chain)}; "
                    f"each element may stand in it once"
                )
            if reason := objection(outer, inner, chain[:position]):
                raise OrderError(
                    f"{inner.name} must be outside {outer.name}: {reason}. "
                    f"The order as written, outermost first: {_written(chain)}. "
                    f"{_working(chain)}"
                )


def refuse_missing(chain: Sequence[Contract]) -> None:
    """Raise OrderError if an element of the finished ``chain`` lacks what it requires."""
    for position, element in enumerate(chain):
        for thing in element.unmet():
            if not any(thing in outer.provides for outer in chain[:position]):
                provider = _PROVIDERS.get(thing)
                hint = f" such as {provider}" if provider else ""
                raise OrderError(
                    f"{element.name} requires {thing!r}, and no element outside it provides that. The "
                    f"order as written, outermost first: {_written(chain)}. Put an element that "
                    f"provides {thing!r}{hint} outside {element.name}"
                )


def objection(outer: Contract, inner: Contract, beyond: Iterable[Contract]) -> str | None:
    """Why ``outer`` may not stand outside ``inner``, or None."""
    for name, reason in inner.outside.items():
        if outer.answers_to(name):
            return reason
    for name, reason in outer.inside.items():
        if inner.answers_to(name):
            return reason
    for thing in outer.unmet():
        if thing in inner.provides and not any(thing in other.provides for other in beyond):
            return f"{outer.name} requires {thing!r}, which {inner.name} provides"
    return None


def _written(chain: Iterable[Contract]) -> str:
    return " ".join(element.name for element in chain)


def _working(chain: Sequence[Contract]) -> str:
    """An order that works, as near as can be to the one written; said only, never applied."""
    left = list(chain)
    ordered: list[Contract] = []
    while left:
        for candidate in left:
            if not any(
                objection(candidate, other, ordered) for other in left if other is not candidate
            ):
                ordered.append(candidate)
                left.remove(candidate)
                break
        else:
            return f"No order works: what {_written(left)} say of each other is contradictory"
    return f"An order that works: {_written(ordered)}"
