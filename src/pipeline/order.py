"""The order contract: each element declares its place, and the order of a pipeline is checked.

Order is declared and checked, never sorted. A pipeline is refused when

* two of its elements have the same name;
* an element is outside one that it declares to be ``inside`` of, or inside one that it declares to be
  ``outside`` of (the names are those of elements, or of things that elements provide);
* an element requires a thing that is provided only further in, or not at all. An option of the same name also
  meets the requirement (``traverse`` with ``root``).

``refuse_wrong_order`` finds the first two; it works on a pipeline that is not yet complete. ``refuse_missing``
finds the last, once the outermost element is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from pipeline.interfaces import OrderError


class Contract(NamedTuple):
    """The place of one element in any pipeline, as the element declares it."""

    name: str
    requires: tuple[str, ...] = ()
    """Things that an outer element must have provided."""
    provides: tuple[str, ...] = ()
    inside: Mapping[str, str] = {}
    """Names of elements or provided things that must be outside this element, each with the reason."""
    outside: Mapping[str, str] = {}
    """Names of elements or provided things that must be inside this element, each with the reason."""
    met: frozenset[str] = frozenset()
    """Names of the options that are given. Such an option meets the requirement of its name."""
    with_option: Mapping[str, tuple[str, ...]] = {}
    """Things that an outer element must have provided if an option is given."""
    adds: Any = None
    """The subclass of ``Request`` that declares the attributes that the element adds, or None."""
    between: Any = None
    """``(step, offers) -> offers``, which puts a watcher around each other part of the pipeline, or None."""
    new_session: Any = None
    """``(request, principal)``, called when a login or a logout begins a new session of the visitor, or None."""
    facts: Any = None
    """``(**options) -> Facts``, or None."""
    element: Any = SimpleNamespace(source=None, options={})
    """The element itself, with its options, and with its ``Source`` if it comes from an ini."""
    handler: Any = None
    """The handler that the factory made, when the element is linked."""
    module: str = ""
    """The module of the factory."""

    def answers_to(self, name: str) -> bool:
        return name == self.name or name in self.provides

    def unmet(self) -> Iterator[str]:
        given = (things for option, things in self.with_option.items() if option in self.met)
        return (thing for things in (self.requires, *given) for thing in things if thing not in self.met)


_PROVIDERS = {"root": ", such as zodb, or give traverse the option 'root'"}
_PROVIDERS |= {"written": ", such as causal", "attempts": ", such as retry"}
_PROVIDERS |= {"context": ", such as traverse", "database": ", such as zodb or sql"}
"""The elements of this package that provide each thing. Only used for hints in errors."""


def refuse_wrong_order(chain: Sequence[Contract]) -> None:
    """Raise OrderError if two elements of ``chain``, outermost first, are in the wrong order."""
    for position, outer in enumerate(chain):
        for inner in chain[position + 1 :]:
            if outer.name == inner.name:
                raise _refusal(inner, chain, f"{outer.name} stands twice", "Each element may stand there once")
            if reason := objection(outer, inner, chain[:position]):
                what = f"{inner.name} must be outside {outer.name}: {reason}"
                raise _refusal(inner, chain, what, _working(chain))


def refuse_missing(chain: Sequence[Contract]) -> None:
    """Raise OrderError if an element of the finished ``chain`` lacks what it requires."""
    for position, element in enumerate(chain):
        for thing in element.unmet():
            if not any(thing in outer.provides for outer in chain[:position]):
                what = f"{element.name} requires {thing!r}, and no element outside it provides that"
                remedy = f"Put an element that provides {thing!r} outside {element.name}{_PROVIDERS.get(thing, '')}"
                raise _refusal(element, chain, what, remedy)


def _refusal(element: Contract, chain: Sequence[Contract], what: str, remedy: str) -> OrderError:
    """Return the error that refuses an element of a chain. It begins with the place of the list in the ini."""
    source = element.element.source
    where = f"{source.listed(other.element.source for other in chain)}: " if source is not None else ""
    return OrderError(f"{where}{what}. The order as written, outermost first: {_written(chain)}. {remedy}")


def objection(outer: Contract, inner: Contract, further_out: Iterable[Contract]) -> str | None:
    """Return the reason why ``outer`` may not stand outside ``inner``, or None."""
    return next(reasons_of(inner, outer, further_out), None)


def reasons_of(outer: Contract, inner: Contract, further_out: Iterable[Contract] = ()) -> Iterator[str]:
    """Yield the reasons why ``outer`` must stand outside ``inner``: those that both declare, and things that
    nothing ``further_out`` provides."""
    yield from (reason for name, reason in outer.outside.items() if inner.answers_to(name))
    yield from (reason for name, reason in inner.inside.items() if outer.answers_to(name))
    for thing in inner.unmet():
        if thing in outer.provides and not any(thing in other.provides for other in further_out):
            yield f"{inner.name} requires {thing!r}, which {outer.name} provides"


def _written(chain: Iterable[Contract]) -> str:
    return " ".join(element.name for element in chain)


def _working(chain: Sequence[Contract]) -> str:
    """Describe an order that works, as close as possible to the one written. It is never applied."""
    left = list(chain)
    ordered: list[Contract] = []
    while left:
        for candidate in left:
            if not any(objection(candidate, other, ordered) for other in left if other is not candidate):
                ordered.append(candidate)
                left.remove(candidate)
                break
        else:
            return f"No order works: the contracts of {_written(left)} contradict one another"
    return f"An order that works: {_written(ordered)}"
