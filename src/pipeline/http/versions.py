"""The version of what a view shows or changes, known before the view runs: ``@view(version=...)``.

RFC 9110, section 13: a client that changes something names the version that it has read (``If-Match``), and the
change is refused if there is another version by now. It is judged in the transaction that would store the change.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

from webob.exc import HTTPPreconditionFailed, HTTPPreconditionRequired

from pipeline.declared import takes
from pipeline.http.conditional import precondition
from pipeline.http.encodings import restore_tags
from pipeline.interfaces import ResultError, ViewError
from pipeline.request import Request
from pipeline.response import NOT_MODIFIED, Response

_OPAQUE = re.compile(r"[\w.:+]{1,64}", re.ASCII)
"""A version that is a tag as it is. It has no "-", behind which Apache puts its suffix."""
CONDITIONS = ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH", "HTTP_IF_UNMODIFIED_SINCE")


def versioned(
    version: Callable[[Any], Any], required: bool, call: Callable[..., Any], takes_response: bool
) -> Callable[..., Any]:
    """Return a function ``(context, request, response)`` that judges the preconditions of a request, and calls a
    view if they hold."""
    if not callable(version) or not takes(1, version):
        raise ViewError(f"the version of a view is {version!r:.200}, which cannot be called with the context alone")

    def versioned(context: Any, request: Request, response: Response) -> Any:
        environ = request.environ
        etag = etag_of(version(context))
        restore_tags(environ)  # a tag of a version is never weak by itself
        is_read = environ["REQUEST_METHOD"] in ("GET", "HEAD")
        names_one = "HTTP_IF_MATCH" in environ or environ.get("HTTP_IF_NONE_MATCH", "").strip() == "*"
        if required and not is_read and not names_one:
            raise HTTPPreconditionRequired("Name the version that you have read in the header If-Match.")
        if etag is None:
            status = "412" if "HTTP_IF_MATCH" in environ else None
        else:
            status = precondition(environ, etag, None)
        if status is not None and (status is not NOT_MODIFIED or not is_read):
            headers = [] if etag is None else [("ETag", etag)]
            raise HTTPPreconditionFailed("This has changed since you last read it.", headers=headers)
        if etag is not None and is_read:
            response.headers["ETag"] = etag
            if status is not None:
                response.status = NOT_MODIFIED
                return None
        return call(context, request, response) if takes_response else call(context, request)

    versioned.version_required = required  # type: ignore[attr-defined]  # for the description of the view
    return versioned


def etag_of(version: Any) -> str | None:
    """Return the entity tag of a version; None if there is none yet, since nothing is stored."""
    if version is None:
        return None
    text = version.hex() if isinstance(version, bytes) else str(version)
    return f'"{text if _OPAQUE.fullmatch(text) else hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"'


def refuse_late_etag(request: Request, view: Any) -> None:
    """Raise ResultError if an unsafe view leaves its own preconditions to the edge, which judges only GET and
    HEAD, and after the change was stored."""
    environ = request.environ
    if environ["REQUEST_METHOD"] not in ("GET", "HEAD") and not environ.keys().isdisjoint(CONDITIONS):
        raise ResultError(
            f"view {view} sets conditional_response, which comes too late for {environ['REQUEST_METHOD']}: the "
            f"change would be stored in any case. Write @view(version=...), which is asked before the call"
        )
