"""``traverse``: walk the path from the root to the context.

Publishing is deny-by-default at every step (S1). A step goes through an ``IPublishTraverse`` adapter, or through
``__getitem__`` of an object whose type has one. Attributes are never walked (S4). Text, sequences, classes, modules
and functions are not containers. Classes, modules and functions are never a context either.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any

from webob.exc import HTTPRequestURITooLong
from zope.interface import alsoProvides

from pipeline.composition import element
from pipeline.interfaces import ConfigurationError, Facts, Handler, IRequest
from pipeline.options import on_demand
from pipeline.publishing.kinds import CONTAINER, KINDS, LEAF, known_kind
from pipeline.publishing.steps import (
    VIEW,
    Path,
    call_hooks,
    default_steps,
    is_failure,
    name_view,
    parse,
    walk,
    walk_from_root,
)
from pipeline.request import Request
from pipeline.response import Response

if TYPE_CHECKING:
    from pipeline.http.redirects import add_slash
else:  # for cost alone: most paths lead somewhere
    add_slash = on_demand("pipeline.http.redirects:add_slash")


def _facts(*, root: Callable[..., Any] | None, **options: Any) -> Facts:
    return Facts(limits={414: ("max_segments", "max_query")}, walks=True, find_root=finder_of(root))


@element(
    requires=("root",),
    provides=("context",),
    outside={"publisher": "the publisher calls the view of the context that traversal finds"},
    facts=_facts,
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

    root            dotted name of a callable that returns the root. It is called for each request with the request,
                    or without arguments if it takes none; default: the root that a database provides
    max_segments    upper limit of the segments of a path (S16); a longer path is a 414
    max_query       upper limit of the bytes of a query string; a longer one is a 414
    slash_redirect  whether a GET of the default view of a container without a slash at the end is redirected to the
                    address with the slash, so that relative links work. A container without a default view is a 404
    request_type    dotted name of an interface that extends IRequest. All requests that pass here provide it

    Requires a root, from an outer element or by its own option. Provides context, view name and subpath. Refuses
    NUL, ``..`` and paths that are not UTF-8 (400, S14), and segments that start with ``_`` (404, S3).
    """
    if request_type is not None and not getattr(request_type, "extends", lambda _: False)(IRequest):
        raise ConfigurationError(f"traverse: the request_type {request_type!r} does not extend IRequest")
    if min(max_segments, max_query) < 1:
        raise ConfigurationError("traverse: the options max_segments and max_query must be at least 1")
    return _walking(next, finder_of(root), max_segments, max_query, slash_redirect, request_type)


def _walking(
    next: Handler,
    root: Callable[..., Any] | None,
    max_segments: int,
    max_query: int,
    slash_redirect: bool,
    request_type: Any,
) -> Handler:
    """Return the handler of ``traverse``."""
    paths, kinds = Paths(max_segments), KINDS

    def traverse(request: Request, response: Response) -> None:
        environ = request.environ
        if (query := dict.get(environ, "QUERY_STRING")) and len(query) > max_query:  # keep does not note this
            raise HTTPRequestURITooLong(f"The query is longer than {max_query} bytes.")
        names, marked, slashed = paths[environ.get("PATH_INFO", "")]
        if request_type is not None:
            alsoProvides(request, request_type)
        if root is not None:
            request.root = root(request)
        views = request.views
        if marked or request.virtual_root_path or (views is not None and views.has_traversers):
            obj, kind = walk_from_root(request, names)
        else:
            obj = request.root
            kind = known_kind(obj)
            ahead = iter(names)
            if request.traversal_hooks and (added := call_hooks(request, obj)):
                obj, kind = walk(request, obj, chain(added, ahead))
            for name in ahead:
                if kind != CONTAINER:
                    # Behind a leaf it is the name of a view. walk() would learn that from an exception.
                    is_leaf, rest = kind == LEAF, chain((name,), ahead)
                    obj, kind = (obj, name_view(request, name, ahead)) if is_leaf else walk(request, obj, rest)
                    break
                try:
                    obj = obj[name]  # step() would do the same here, and take a third longer
                except (LookupError, TypeError) as error:
                    if is_failure(error, obj):
                        raise
                    kind = name_view(request, name, ahead)
                    break
                try:
                    kind = kinds[type(obj)]
                except KeyError:
                    kind = known_kind(obj)
                if request.traversal_hooks and (added := call_hooks(request, obj)):
                    obj, kind = walk(request, obj, chain(added, ahead))
        if views is not None and views.has_defaults and kind != VIEW:
            request.default_steps = default_steps(request, obj)
            obj, kind = walk(request, obj, request.default_steps) if request.default_steps else (obj, kind)
        if kind >= CONTAINER and not request.view_name:
            _end_at_container(request, obj, slashed, slash_redirect)
        request.context = obj
        next(request, response)

    return traverse


MOST_KEPT = 1_000
LONGEST_KEPT = 200
"""Upper limits of the number and the bytes of parsed paths that are kept. Parsing one takes 0.8 microseconds."""


class Paths(dict[str, Path]):
    """The parsed paths. One that is not there is parsed, and kept for the next request."""

    def __init__(self, max_segments: int) -> None:
        self.max_segments = max_segments

    def __missing__(self, path: str) -> Path:
        """Parse a path. Raise an HTTP exception if it is refused."""
        parsed = parse(path, self.max_segments)
        if len(path) <= LONGEST_KEPT:
            if len(self) >= MOST_KEPT:
                self.clear()
            self[path] = parsed
        return parsed


def _end_at_container(request: Request, obj: Any, slashed: bool, slash_redirect: bool) -> None:
    """Redirect to the address with the slash at its end, or note that the slash is missing."""
    views = request.views
    if slash_redirect and not slashed and (views is None or views.find(obj, request, "GET", "") is not None):
        add_slash(request)
    if request.default_steps or not slashed:
        request.lacks_slash = True


def finder_of(root: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """Return the function of a request that returns the root; None if a database offers the root."""
    try:
        takes_request = root is None or bool(inspect.signature(root).parameters)
    except (TypeError, ValueError):  # dict and other builtins have no signature
        takes_request = False
    return root if takes_request or root is None else lambda request: root()
