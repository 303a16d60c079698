"""Steps from object to object.

Every name passes the check of ``pipeline.names`` before an object, an adapter or a hook sees it: the segments of a
path, the values of namespaces, the names that forms and XML-RPC send, default steps, and steps that hooks add.
``step`` takes every step: it enters a namespace, asks an ``IPublishTraverse`` adapter, or takes an item of a
container. It never reads attributes (S4). ``walk`` takes one step after the other, checks the kind of each object,
and calls the traversal hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, TypeAlias

from webob.exc import HTTPBadRequest, HTTPNotFound, HTTPRequestURITooLong

from pipeline.interfaces import IDefaultSteps, INamespace, IPublishTraverse
from pipeline.names import MARK, checked, refusal_in
from pipeline.publishing.kinds import CONTAINER, TRAVERSER, known_kind

VIEW = -1
"""Stands in place of the kind of an object if the walk ended at the name of a view."""

Path: TypeAlias = tuple[tuple[str, ...], bool, bool]
"""The names to walk; whether one of them may have a mark; whether the path ends in a slash."""


def parse(path: str, max_segments: int) -> Path:
    """Split the path of a URL, as WSGI has it. Raise an HTTP exception if it cannot be walked."""
    slashed = path[-1:] == "/"
    if not path.isascii():
        path = _decode(path)
    if path[:1] != "/":
        path = "/" + path
    if path.count("/") - slashed > max_segments:
        raise HTTPRequestURITooLong(f"The address has more than {max_segments} segments.")
    names = tuple([segment for segment in path.split("/") if segment not in ("", ".")])
    if (refusal := refusal_in("/" + "/".join(names))) is not None:
        raise refusal[0](refusal[1])
    return names, "/@" in path or "/+" in path, slashed


def step(request: Any, obj: Any, kind: int, name: str) -> Any:
    """Take one step from an object of that kind, by a name that was checked. Raise LookupError if there is no such
    step, and _IsView if the name is marked as that of a view."""
    views = request.views
    if name[0] in "@+" and (mark := MARK.match(name)) is not None:
        space = mark[1] or "view"
        if space == "view":
            raise _IsView
        return _enter(request, obj, space, name[mark.end() :])
    if views is not None and views.has_traversers:
        factory = views.adapter_for(obj, request, IPublishTraverse)
        if factory is not None:
            return factory(obj).publishTraverse(request, name)
    if kind == TRAVERSER:
        return obj.publishTraverse(request, name)
    if kind == CONTAINER:
        return obj[name]
    raise KeyError(name)


def walk(request: Any, obj: Any, names: Iterable[str], step: Callable[..., Any] = step) -> tuple[Any, int]:
    """Walk from an object over names that were checked. Return the last object and its kind.

    If a name is not a step, it becomes ``request.view_name``, the names behind it become ``request.subpath``,
    and VIEW stands in place of the kind. The hooks are called with each object but the first.
    """
    kind = known_kind(obj)
    ahead = iter(names)
    for name in ahead:
        try:
            obj = step(request, obj, kind, name)
        except (LookupError, TypeError) as error:
            if is_failure(error, obj):
                raise
            return obj, name_view(request, name, ahead)
        kind = known_kind(obj)
        if request.traversal_hooks and (added := call_hooks(request, obj)):
            return walk(request, obj, chain(added, ahead), step)
    return obj, kind


def walk_from_root(
    request: Any, names: tuple[str, ...], walk: Callable[..., tuple[Any, int]] = walk
) -> tuple[Any, int]:
    """Walk to the virtual root, and then over the names. The hooks are also called with the root, if it is read."""
    if names and is_anywhere(request, names[0]):
        return walk(request, None, names)
    obj: Any = request.root
    known_kind(obj)  # a 404 for code (S1), before a hook is called with it
    added = call_hooks(request, obj)
    if request.virtual_root_path:
        obj, kind = walk(request, obj, (*added, *checked(request.virtual_root_path)))
        if kind == VIEW:
            raise HTTPNotFound("There is nothing at this address.")
        request.virtual_root = obj
        added = ()
    return walk(request, obj, (*added, *names))


def is_anywhere(request: Any, name: str) -> bool:
    """Return whether a name enters a namespace that is the same in each place, so that no root is read for it."""
    space, views = (mark[1] if (mark := MARK.match(name)) else None), request.views
    known = views is not None and space in views.adapter_names
    return known and getattr(views.adapter_for(None, request, INamespace, space), "anywhere", False)


def has_item(request: Any, obj: Any, name: str) -> bool:
    """Return whether a step from the object leads anywhere; the name was checked."""
    try:
        step(request, obj, known_kind(obj), name)
    except (LookupError, TypeError) as error:
        if is_failure(error, obj):
            raise
        return False
    return True


def call_hooks(request: Any, obj: Any) -> tuple[str, ...]:
    """Call the traversal hooks with an object. Return the steps that they add."""
    for hook in request.traversal_hooks:
        hook(request, obj)
    return checked(request.take_steps()) if request.more_steps else ()


def default_steps(request: Any, obj: Any) -> tuple[str, ...]:
    """Return the default steps of the object at the end of the path."""
    default = request.views.adapt(obj, IDefaultSteps) if request.views is not None else None
    return checked(filter(None, default.default_steps(request))) if default is not None else ()


def name_view(request: Any, name: str, ahead: Iterable[str]) -> int:
    """Set the name of the view, since there is no step of that name. Return VIEW.

    A form may name the view, too (``forms``), but not where the path names one already.
    """
    if request.view_name:
        raise HTTPNotFound("There is nothing at this address.")
    mark = MARK.match(name) if name[0] in "@+" else None
    request.view_name = name if mark is None else name[mark.end() :]
    request.subpath = tuple(ahead)
    return VIEW


def is_failure(error: LookupError | TypeError, obj: Any) -> bool:
    """Return whether an error says more than that an item is missing, as a BTree of numbers does by TypeError."""
    if isinstance(error, TypeError):
        return not any(cls.__module__.startswith("BTrees.") for cls in type(obj).__mro__)
    return type(error).__module__.startswith("ZODB.")  # a lost object


class _IsView(LookupError):
    """The name is marked as that of a view, whatever items there are."""


def _enter(request: Any, obj: Any, space: str, value: str) -> Any:
    """Return the object that a namespace leads to. Each namespace is entered at most once (S16)."""
    if space in request.namespaces:
        raise HTTPBadRequest(f"The address enters the namespace {space!r} twice.")
    request.namespaces = (*request.namespaces, space)
    factory: Callable[[Any], Any] | None = None
    if request.views is not None and space in request.views.adapter_names:
        factory = request.views.adapter_for(obj, request, INamespace, space)
    try:
        if factory is not None and value:
            return factory(obj).step(request, value)
    except LookupError as error:
        if is_failure(error, obj):
            raise
    raise HTTPNotFound("There is nothing at this address.")


def _decode(path: str) -> str:
    """Return the path as text. WSGI has its UTF-8 bytes decoded as latin-1 (PEP 3333)."""
    try:
        return path.encode("latin-1").decode("utf-8")
    except UnicodeError:
        raise HTTPBadRequest("The address is not UTF-8.") from None
