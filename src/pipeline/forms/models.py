"""Models: parameters of views and results that a library checks, such as pydantic or msgspec.

A module that is scanned, such as ``pipeline.publishing.pydantic``, offers an ``IModels`` for the annotations of its
library. A parameter whose annotation is a model of an object gets the whole body, or the query; any other gets the
field of its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from webob.exc import HTTPBadRequest
from zope.interface import Interface

Place = tuple[str | int, ...]
"""Place of a value in the body: names of members, and numbers of items."""
MOST_TOLD = 20
"""Errors of a body that are told."""


class Model(NamedTuple):
    """Reader and schema that a library makes of an annotation."""

    read: Callable[[Any], Any]
    """``(value)`` returns the object, or raises ModelError."""
    is_object: bool
    """True if it is made of an object with members, so that it is the whole body."""
    schema: Callable[[], dict[str, Any]]
    """Returns the JSON schema (draft 2020-12), with its parts in ``$defs``."""
    has_decimals: bool = False
    """True if it may have a ``Decimal``, which has all digits of a number of JSON. A float has about 16 of them."""


class IModels(Interface):
    """The models of a library: a utility."""

    def model_of(annotation: Any) -> Model | None:
        """Return the model of an annotation, or None if the library knows none."""


class ModelError(ValueError):
    """A value that is not as its model says, with all that is wrong."""

    def __init__(self, errors: Sequence[tuple[Place, str]]) -> None:
        self.errors = errors
        super().__init__("; ".join(f"{pointer_of(place)}: {rule}" for place, rule in errors[:MOST_TOLD]))


class BodyError(HTTPBadRequest):
    """A 400 with all that is wrong in a body or a query. The page for programs has them as ``errors``, each with a
    JSON pointer (RFC 9457, RFC 6901)."""

    def __init__(self, errors: Iterable[tuple[Place, str]]) -> None:
        self.errors = [{"detail": rule, "pointer": pointer_of(place)} for place, rule in errors][:MOST_TOLD]
        told = (f"{error['pointer'].removeprefix('#/') or 'body'}: {error['detail']}" for error in self.errors)
        super().__init__("What was sent is not valid. " + "; ".join(told) + ".")


def pointer_of(place: Place) -> str:
    """Return the JSON pointer of a place, as a fragment."""
    return "#" + "".join(f"/{str(name).replace('~', '~0').replace('/', '~1')}"[:200] for name in place)
