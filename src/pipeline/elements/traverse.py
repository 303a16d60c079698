"""``traverse``: walk the path from the root to the context.

Publishing is deny-by-default at every step (S1). A step is taken through an ``IPublishTraverse``
adapter, or through ``__getitem__`` of an object whose type has one; attributes are never walked
(S4). Text, sequences, classes, modules and functions are no containers, and the latter three
are never a context either.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from webob.exc import HTTPFound, HTTPNotFound, HTTPRequestURITooLong
from zope.interface import alsoProvides

from pipeline.composition import element
from pipeline.interfaces import ConfigurationError, Handler, IRequest
from pipeline.publishing.kinds import CONTAINER
from pipeline.publishing.steps import VIEW, Path, call_hooks, checked, default_steps, parse, walk
from pipeline.request import PATH_SAFE, Request
from pipeline.response import Response


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
                    the address with it, so that relative links work
    request_type    dotted name of an interface that extends IRequest: what all requests that pass here are

    Requires a root, from an outer element or by its own option; provides context, view name and subpath.
    Refuses NUL, ``..`` and what is no UTF-8 (400, S14), and segments that start with ``_`` (404, S3).
    """
    wants_request = root is not None and _takes_request(root)
    if request_type is not None and not getattr(request_type, "extends", lambda _: False)(IRequest):
        raise ConfigurationError(f"traverse: the request_type {request_type!r} does not extend IRequest")
    paths: dict[str, Path] = {}

    def parse_and_keep(path: str) -> Path:
        parsed = parse(path, max_segments)
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
            names, marked, slashed = parse_and_keep(environ.get("PATH_INFO", ""))
        if request_type is not None:
            alsoProvides(request, request_type)
        if root is None:
            obj = request.root
        else:
            obj = request.root = root(request) if wants_request else root()
        if request.traversal_hooks or request.virtual_root_path:
            obj, names, marked = _begin(request, obj, names, marked)
        obj, kind = walk(request, obj, names, marked)
        views = request.views
        if views is not None and views.has_defaults and kind != VIEW:
            if further := default_steps(request, obj):
                request.default_steps = further
                obj, kind = walk(request, obj, further, True)
        if kind >= CONTAINER and not request.view_name:
            if slash_redirect and not slashed:
                _add_slash(request)
            if request.default_steps or not slashed:
                request.lacks_slash = True
        request.context = obj
        next(request, response)

    return traverse


MOST_KEPT = 1_000
LONGEST_KEPT = 200
"""Paths that were parsed are kept, so many of up to so many bytes: to parse one takes 0.35 microseconds."""


def _begin(
    request: Request, root: Any, names: tuple[str, ...], marked: bool
) -> tuple[Any, tuple[str, ...], bool]:
    """Call the hooks with the root, and walk to the virtual root. Return the object that is reached, the names to
    walk from there, and whether one of them may have a mark."""
    added = call_hooks(request, root)
    if not request.virtual_root_path:
        return root, (*added, *names), marked or bool(added)
    obj, kind = walk(request, root, (*added, *checked(request.virtual_root_path)), True)
    if kind == VIEW:
        raise HTTPNotFound("There is nothing at this address.")
    request.virtual_root = obj
    return obj, names, marked


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
