"""Why a request was answered so: as ``pipeline explain`` tells it, of a record and without asking again."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

from webob.exc import HTTPException

from pipeline.explaining.causes import Cause, Way, causes, lost_headers, of_zope, readers, set_twice, way_of
from pipeline.explaining.recording import Record, path_of
from pipeline.explaining.walking import Look, look_up, walk_again
from pipeline.http.error_pages import text_of
from pipeline.http.tracebacks import traceback_of
from pipeline.telling.secrets import HEADERS, masked_text

log = logging.getLogger("pipeline")


def explain(record: Record, error: BaseException | None, status: int, location: str = "") -> None:
    """Note why a request failed, while the error is there. A Zope site answers most errors itself, and says why."""
    walk = record.zope_walk
    found: Iterable[Cause] = ()
    if error is not None:
        record.error = f"{type(error).__name__}: {masked_text(text_of(error))}"
        if not isinstance(error, HTTPException):
            record.traceback = masked_text(traceback_of(error))
    try:
        if walk is not None and walk.decides(error is not None):
            found = [of_zope(walk, status, location)]
        elif error is not None:
            found = causes(way_of(record), status, Path.cwd())
        record.causes = [Cause(*map(masked_text, cause)) for cause in found]
    except Exception:  # what cannot be told must not change the answer
        log.debug("the inspector could not tell why", exc_info=True)
    if status >= 400 and not record.error and record.causes:
        record.error = record.causes[0].why


def noticed_beside(record: Record, look: Look | None) -> list[Cause]:
    """Return what the parts beside one another tell, and what ``explain`` has not told of them.

    look  the look-up of the view, if it is known
    """
    path = path_of(record)
    if path and path[-1].look is None:
        path[-1].look = look
    end = path[-1].place if path else ""
    found = [*readers(path), *set_twice(path), *lost_headers(end, record.late_headers)]
    told = {cause.why for cause in record.causes}
    return [cause for cause in (Cause(*map(masked_text, one)) for one in found) if cause.why not in told]


_DEFAULTS = {"wsgi.input": BytesIO(), "CONTENT_LENGTH": "0"}
"""A request that is walked again has no body."""


def walk_of(record: Record) -> Way:
    """Return the way of a request from the root to the view.

    For an error it was noted. For any other request the path is walked again now, on a request of its own that is
    closed at once: the view is not called, and nothing is committed.
    """
    way = way_of(record)
    walk, look = way.walk, way.look
    again = record.again
    if (walk is not None and walk.steps) or again is None or again.fields is None:
        return way
    element = again.step.element
    options = element.options if element is not None else {}
    environ = record.environ_at(again)
    for name in HEADERS:  # the credentials are masked
        environ.pop(name, None)
    request = again.pipeline.begin(again.pipeline.request_class, {**environ, **_DEFAULTS})
    request.views = again.views
    try:
        find_root = again.step.facts.find_root
        if find_root is not None:
            request.root = find_root(request)
        walk = walk_again(request, again.fields, options)
        if look is None and walk.error is None and request.views is not None:
            request.context, request.view_name = walk.end, walk.view_name
            look = look_up(request)
        return way._replace(walk=walk, look=look, now=True)
    finally:
        request.close()
