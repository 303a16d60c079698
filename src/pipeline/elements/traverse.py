"""``traverse``: walk the path from the root to the context.

Publishing is deny-by-default at every step (S1). A step is taken through an ``IPublishTraverse``
adapter, or through ``__getitem__`` of an object whose type has one; attributes are never walked
(S4). Text, sequences, classes, modules and functions are no containers, and the latter three
are never a context either.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from itertools import chain
from typing import Any, TypeAlias
from urllib.parse import quote

from webob.exc import HTTPBadRequest, HTTPFound, HTTPNotFound, HTTPRequestURITooLong
from zope.interface import alsoProvides

from pipeline.composition import element
from pipeline.interfaces import (
    ConfigurationError,
    Handler,
    IDefaultSteps,
    INamespace,
    IPublishTraverse,
    IRequest,
)
from pipeline.publishing.kinds import CONTAINER, DENIED, TRAVERSER, kind_of
from pipeline.request import PATH_SAFE, Request
from pipeline.response import Response

_NAMESPACE = re.compile(r"@@|\+\+([^+]+)\+\+")
"""How a segment begins that is no name of an item; a bare "@@" is the namespace of views."""


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
    max_query: int = 64 * 1024,
    slash_redirect: bool = True,
    request_type: Any = None,
) -> Handler:
    """Walk the path from the root to the context.

    root            dotted name of a callable that returns the root, called for each request with the request
                    (or with nothing if it takes nothing); default: the root that a database provides
    max_segments    longest path that is walked, in segments (S16); a longer one is a 414
    max_query       longest query string, in bytes; a longer one is a 414
    slash_redirect  whether GET of a container's default view without a trailing slash is redirected to
                    the address with it, so that relative links work. A container without one is a 404
    request_type    dotted name of an interface that extends IRequest: what all requests that pass here are

    Requires a root, from an outer element or by its own option; provides context, view name and subpath.
    Refuses NUL, ``..`` and what is no UTF-8 (400, S14), and segments that start with ``_`` (404, S3).
    """
    wants_request = root is not None and _takes_request(root)
    if request_type is not None and not getattr(request_type, "extends", lambda _: False)(IRequest):
        raise ConfigurationError(f"traverse: the request_type {request_type!r} does not extend IRequest")
    kinds: dict[type, int] = {}
    paths: dict[str, Path] = {}
    max_slashes = max_segments + 1

    def kind_known(obj: object) -> int:
        """The kind of an object, kept for the next of its class; 404 for what is never published (S1)."""
        kind = kind_of(type(obj))
        if kind == DENIED:
            raise HTTPNotFound("There is nothing at this address.")
        kinds[type(obj)] = kind
        return kind

    def parse(path: str) -> Path:
        parsed = _parse(path, max_slashes)
        if len(path) <= LONGEST_KEPT:
            if len(paths) >= MOST_KEPT:
                paths.clear()
            paths[path] = parsed
        return parsed

    def traverse(request: Request, response: Response) -> None:
        environ = request.environ
        if (query := environ.get("QUERY_STRING")) and len(query) > max_query:
            raise HTTPRequestURITooLong(f"The query is longer than {max_query} bytes.")
        try:
            names, marked, slashed = paths[environ["PATH_INFO"]]
        except KeyError:
            names, marked, slashed = parse(environ.get("PATH_INFO", ""))
        if request_type is not None:
            alsoProvides(request, request_type)
        if root is None:
            obj = request.root
        else:
            obj = request.root = root(request) if wants_request else root()
        ahead = iter(names)
        top = request.virtual_root_path
        if top:
            ahead = chain(top, [""], names)
            marked = True
        hooks = request.traversal_hooks
        if hooks:
            hooks = _call(hooks, request, obj)
            if request.more_steps:
                ahead = chain(request.take_steps(), ahead)
                marked = True  # they may name a view, or a namespace
        views = request.views
        plain = _NONE if marked or (views is not None and views.has_traversers) else CONTAINER
        try:
            kind = kinds[type(obj)]
        except KeyError:
            kind = kind_known(obj)
        while True:
            for name in ahead:
                try:
                    if kind == plain:
                        obj = obj[name]
                    elif marked:
                        if not name:  # the end of the path to the virtual root
                            request.virtual_root = obj
                            continue
                        if (marker := _NAMESPACE.match(name)) is not None:
                            name = name[marker.end() :]
                            if (marker[1] or "view") == "view":
                                raise _IsView
                            obj = _enter(request, obj, marker[1], name)
                        else:
                            obj = _step(request, obj, kind, name)
                        hooks = request.traversal_hooks
                    else:
                        obj = _step(request, obj, kind, name)
                        hooks = request.traversal_hooks
                except LookupError as error:
                    if type(error).__module__.startswith("ZODB."):
                        raise  # a lost object is no missing page
                    _refuse_second_view(request)
                    request.view_name = name
                    request.subpath = tuple(filter(None, ahead))
                    break
                try:
                    kind = kinds[type(obj)]
                except KeyError:
                    kind = kind_known(obj)
                if hooks:
                    hooks = _call(hooks, request, obj)
                    if request.more_steps:
                        ahead = chain(request.take_steps(), ahead)
                        marked, plain = True, _NONE
            else:
                if views is not None and views.has_defaults and not request.default_steps:
                    request.default_steps = _default_steps(request, obj)
                    if request.default_steps:
                        ahead = iter(request.default_steps)
                        marked, plain = True, _NONE  # they may name a view, or a namespace
                        continue
                if kind >= CONTAINER and not request.view_name:
                    if not slashed:
                        if slash_redirect and (views is None or views.find(obj, request, "GET", "") is not None):
                            _add_slash(request)
                        request.lacks_slash = True
                    elif request.default_steps:
                        request.lacks_slash = True
            break
        request.context = obj
        next(request, response)

    return traverse


_NONE = -1
"""No kind of object: where some object has an ``IPublishTraverse`` adapter, each step looks for one; and where a
segment may be a mark, each is looked at."""

Path: TypeAlias = tuple[tuple[str, ...], bool, bool]
"""The names to walk; whether one may begin with the mark of a namespace; whether a slash is at the end."""

MOST_KEPT = 1_000
LONGEST_KEPT = 200
"""Paths that were parsed are kept, so many of up to so many bytes: to parse one takes 0.35 microseconds."""


def _parse(path: str, max_slashes: int) -> Path:
    """The path of a URL, as WSGI has it, taken apart; an HTTP exception if it is none to be walked."""
    slashed = path[-1:] == "/"
    if not path.isascii():
        path = _decode(path)
    if path[:1] != "/":
        path = "/" + path
    if "\0" in path:
        raise HTTPBadRequest("The address has a NUL in it.")
    if "/_" in path:
        raise HTTPNotFound("There is nothing at this address.")
    segments = path.split("/")
    if len(segments) > max_slashes:
        raise HTTPRequestURITooLong(f"The address has more than {max_slashes - 1} segments.")
    if ".." in segments:
        raise HTTPBadRequest("The address has a '..' in it.")
    names = tuple(segment for segment in segments if segment not in ("", "."))
    return names, "/@" in path or "/+" in path, slashed


class _IsView(LookupError):
    """This segment names a view, whatever items there are."""


def _enter(request: Request, obj: Any, space: str, name: str) -> Any:
    """The object that a namespace leads to. Each namespace is entered at most once (S16)."""
    if space in request.namespaces:
        raise HTTPBadRequest(f"The address enters the namespace {space!r} twice.")
    request.namespaces = (*request.namespaces, space)
    factory = None
    if request.views is not None and space in request.views.adapter_names:
        factory = request.views.adapter_for(obj, request, INamespace, space)
    try:
        if factory is not None:
            return factory(obj).step(request, name)
    except LookupError as error:
        if type(error).__module__.startswith("ZODB."):
            raise
    raise HTTPNotFound("There is nothing at this address.")


def _default_steps(request: Request, obj: Any) -> tuple[str, ...]:
    """The further steps that an object wants to be taken where the path ends."""
    default = request.views.adapt(obj, IDefaultSteps) if request.views is not None else None
    return tuple(filter(None, default.default_steps(request))) if default is not None else ()


def _call(hooks: tuple[Callable[[Request, Any], object], ...], request: Request, obj: Any) -> Any:
    """Call the hooks; return those for the next object, which these may have added to."""
    for hook in hooks:
        hook(request, obj)
    return request.traversal_hooks


def _step(request: Request, obj: Any, kind: int, name: str) -> Any:
    """One step that is not plainly a container's: LookupError if it cannot be taken."""
    if request.views is not None:
        factory = request.views.adapter_for(obj, request, IPublishTraverse)
        if factory is not None:
            return factory(obj).publishTraverse(request, name)
    if kind == TRAVERSER:
        return obj.publishTraverse(request, name)
    if kind == CONTAINER:
        return obj[name]
    raise KeyError(name)


def _refuse_second_view(request: Request) -> None:
    """A form may name the view of an object (``forms``), but not where the path names one already."""
    if request.view_name:
        raise HTTPNotFound("There is nothing at this address.")


def _decode(path: str) -> str:
    """The path as text: WSGI has its bytes as latin-1 (PEP 3333), and they are UTF-8."""
    try:
        return path.encode("latin-1").decode("utf-8")
    except UnicodeError:
        raise HTTPBadRequest("The address is not UTF-8.") from None


def _add_slash(request: Request) -> None:
    """Redirect GET and HEAD to the same path with a slash. Made of the segments, not of the path:
    of ``//host`` a browser would make another site (S8)."""
    environ = request.environ
    path = environ.get("PATH_INFO", "")
    if environ["REQUEST_METHOD"] not in ("GET", "HEAD") or (not path and not environ.get("SCRIPT_NAME")):
        return
    segments = path.encode("latin-1").decode("utf-8").split("/")
    walked = [quote(segment, safe=PATH_SAFE) for segment in segments if segment and segment != "."]
    location = "/".join((quote(request.script_name, safe="/" + PATH_SAFE), *walked, ""))
    if query := environ.get("QUERY_STRING"):
        location += f"?{quote(query.encode('latin-1', 'replace'), safe=PATH_SAFE + '/?%')}"
    raise HTTPFound(location=location)


def _takes_request(factory: Callable[..., Any]) -> bool:
    try:
        return bool(inspect.signature(factory).parameters)
    except (TypeError, ValueError):  # of dict and other builtins it cannot be told
        return False
