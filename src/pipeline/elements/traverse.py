"""``traverse``: walk the path from the root to the context.

Publishing is deny-by-default at every step (S1). A step is taken through an ``IPublishTraverse``
adapter, or through ``__getitem__`` of an object whose type has one; attributes are never walked
(S4). Text, sequences, classes, modules and functions are no containers, and the latter three
are never a context either.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
)
from typing import Any
from urllib.parse import quote

from webob.exc import HTTPBadRequest, HTTPFound, HTTPNotFound, HTTPRequestURITooLong
from zope.interface import providedBy

from pipeline.composition import element
from pipeline.interfaces import Handler, IPublishTraverse
from pipeline.request import Request
from pipeline.response import Response

_CODE = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, CodeType, FrameType, GeneratorType)
_PLAIN = (str, bytes, bytearray, memoryview, list, tuple, range)

DENIED, LEAF, CONTAINER, TRAVERSER = range(4)


def kind_of(cls: type) -> int:
    """What objects of a class are for traversal."""
    if issubclass(cls, _CODE):
        return DENIED
    if IPublishTraverse.implementedBy(cls):
        return TRAVERSER
    if hasattr(cls, "__getitem__") and not issubclass(cls, _PLAIN):
        return CONTAINER
    return LEAF


@element(
    requires=("root",),
    provides=("context",),
    outside={"publisher": "the publisher calls the view of the context that traversal finds"},
)
def traverse(
    next: Handler,
    *,
    root: Callable[..., Any] | None = None,
    max_segments: int = 128,
    slash_redirect: bool = True,
) -> Handler:
    """Walk the path from the root to the context.

    root            dotted name of a callable that returns the root, called for each request with the request
                    (or with nothing if it takes nothing); default: the root that a database provides
    max_segments    longest path that is walked, in segments (S16); a longer one is a 414
    slash_redirect  whether GET of a container's default view without a trailing slash is redirected to
                    the address with it, so that relative links work

    Requires a root, from an outer element or by its own option; provides context, view name and subpath.
    Refuses NUL, ``..`` and what is no UTF-8 (400, S14), and segments that start with ``_`` (404, S3).
    """
    wants_request = root is not None and _takes_request(root)
    kinds: dict[type, int] = {}
    max_slashes = max_segments + 1

    def traverse(request: Request, response: Response) -> None:
        path: str = request.environ.get("PATH_INFO", "")
        if not path.isascii():
            path = _decode(path)
        if not path.startswith("/"):
            path = "/" + path
        if "\0" in path:
            raise HTTPBadRequest("The address has a NUL in it.")
        if "/_" in path:
            raise HTTPNotFound("There is nothing at this address.")
        segments = path.split("/")
        if len(segments) > max_slashes:
            raise HTTPRequestURITooLong(f"The address has more than {max_segments} segments.")
        if "/." in path:
            if ".." in segments:
                raise HTTPBadRequest("The address has a '..' in it.")
            segments = [segment for segment in segments if segment != "."]
        marked = "/@" in path or "/+" in path
        if root is None:
            obj = request.root
        else:
            obj = request.root = root(request) if wants_request else root()
        hooks = request.traversal_hooks
        if hooks:
            hooks = _call(hooks, request, obj)
        adapted = request.views is not None and request.views.has_traversers
        try:
            kind = kinds[type(obj)]
        except KeyError:
            kind = kinds[type(obj)] = kind_of(type(obj))
        ahead = iter(segments)
        for name in ahead:
            if not name:
                continue
            if marked and name.startswith(("@@", "++view++")):
                request.view_name = name.removeprefix("@@").removeprefix("++view++")
                request.subpath = tuple(filter(None, ahead))
                break
            try:
                if kind == CONTAINER and not adapted:
                    obj = obj[name]
                else:
                    obj = _step(request, obj, kind, name)
                    hooks = request.traversal_hooks
            except LookupError as error:
                if type(error).__module__.startswith("ZODB."):
                    raise  # a lost object is no missing page
                request.view_name = name
                request.subpath = tuple(filter(None, ahead))
                break
            try:
                kind = kinds[type(obj)]
            except KeyError:
                kind = kinds[type(obj)] = kind_of(type(obj))
            if kind == DENIED:
                raise HTTPNotFound("There is nothing at this address.")
            if hooks:
                hooks = _call(hooks, request, obj)
        else:
            if slash_redirect and kind >= CONTAINER and path[-1] != "/":
                _add_slash(request, segments)
        request.context = obj
        next(request, response)

    return traverse


def _call(hooks: tuple[Callable[[Request, Any], object], ...], request: Request, obj: Any) -> Any:
    """Call the hooks; return those for the next object, which these may have added to."""
    for hook in hooks:
        hook(request, obj)
    return request.traversal_hooks


def _step(request: Request, obj: Any, kind: int, name: str) -> Any:
    """One step that is not plainly a container's: LookupError if it cannot be taken."""
    if request.views is not None:
        factory = request.views.lookup1(providedBy(obj), IPublishTraverse)
        if factory is not None:
            return factory(obj).publishTraverse(request, name)
    if kind == TRAVERSER:
        return obj.publishTraverse(request, name)
    if kind == CONTAINER:
        return obj[name]
    raise KeyError(name)


def _decode(path: str) -> str:
    """The path as text: WSGI has its bytes as latin-1 (PEP 3333), and they are UTF-8."""
    try:
        return path.encode("latin-1").decode("utf-8")
    except UnicodeError:
        raise HTTPBadRequest("The address is not UTF-8.") from None


def _add_slash(request: Request, segments: list[str]) -> None:
    """Redirect GET and HEAD to the same path with a slash. Made of the segments, not of the path:
    of ``//host`` a browser would make another site (S8)."""
    environ = request.environ
    if environ["REQUEST_METHOD"] not in ("GET", "HEAD") or (
        not environ.get("PATH_INFO") and not environ.get("SCRIPT_NAME")
    ):
        return
    walked = "".join(f"/{quote(segment)}" for segment in segments if segment)
    location = quote(request.script_name) + walked + "/"
    if query := environ.get("QUERY_STRING"):
        location += f"?{query}"
    raise HTTPFound(location=location)


def _takes_request(factory: Callable[..., Any]) -> bool:
    try:
        return bool(inspect.signature(factory).parameters)
    except (TypeError, ValueError):  # of builtins it cannot always be told
        return True
