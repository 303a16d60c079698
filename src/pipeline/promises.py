"""Declarations of facts that the author of a site knows, and no program can find out. ``pipeline prove`` asks for
them, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

from zope.interface import Interface

from pipeline.views import named, noting

F = TypeVar("F")
OwnerOf: TypeAlias = Callable[..., str | Iterable[str] | None]


class IInvariant(Interface):
    """The functions that ``invariant`` stands on, as utilities."""


class IOwnerOf(Interface):
    """The functions that ``belongs_to`` was given, as utilities by the name of the view."""


def invariant(function: F) -> F:
    """Declare that a function returns True whenever a request has ended, of whatever requests came before.

    Its parameters are named ``root`` (the object that traversal begins with), ``session`` (of ``sql``) or
    ``request``. Anything but True, and an exception, is a finding.
    """
    name = named(function)  # type: ignore[arg-type]
    return noting(lambda views, target: views.add_named(target, IInvariant, name))(function)


def belongs_to(owner: OwnerOf) -> Callable[[F], F]:
    """Declare that a view is for the owner of its object alone. Every other user must be refused.

    owner  ``(context)`` returns the name of the principal, several names, or None for an object without an owner
    """
    return noting(lambda views, target: views.add_named(owner, IOwnerOf, named(target)))
