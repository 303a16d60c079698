"""Models: parameters of views and results that a library checks, such as pydantic or msgspec.

A module that is scanned, such as ``pipeline.publishing.pydantic``, offers an ``IModels`` for the annotations of its
library. A parameter whose annotation is a model of an object gets the whole body, or the query; any other gets the
field of its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

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
        """Return the model of an annotation, or None if the library knows none, or ignores a rule in it."""


def model_of(annotation: Any, views: Any) -> Model | None:
    """Return the model that a scanned library makes of an annotation, or None."""
    return next(filter(None, (one.model_of(annotation) for one in views.utilities(IModels))), None)


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


def rules_in(annotation: Any, seen: tuple[Any, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """Yield each rule in an annotation (``Annotated[int, rule]``), and in the fields of its classes, with the type
    before it. Text does not count.

    seen  classes whose fields are not looked at any more
    """
    if get_origin(annotation) is Annotated:
        for rule in annotation.__metadata__:
            if not isinstance(rule, str):
                yield annotation.__origin__, rule
    inner = get_args(annotation)
    if isinstance(annotation, type) and annotation not in seen and not hasattr(annotation, "model_fields"):
        seen = (*seen, annotation)
        try:
            inner = (*inner, *get_type_hints(annotation, include_extras=True).values())
        except Exception:  # such as a name that only type checkers import
            pass
    for part in inner:
        yield from rules_in(part, seen)


def ignores_rules(annotation: Any, own: type, told: Callable[[Any], Any]) -> bool:
    """Return whether a library ignores a rule in an annotation: it would take each value without a word.

    own   the class of the library's own rules
    told  ``(annotation)`` returns all that the library knows of it, which a rule that it heeds changes
    """

    def ignores(plain: Any, rule: Any) -> bool:
        try:
            return bool(told(Annotated[plain, rule]) == told(plain))
        except Exception:  # without the rule it knows no such type
            return False

    return any(not isinstance(rule, own) and ignores(plain, rule) for plain, rule in rules_in(annotation))
