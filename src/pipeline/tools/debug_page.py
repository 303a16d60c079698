"""What a page of an HTTP error tells a visitor who has the key of debug mode: what ``pipeline explain`` tells."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from webob.exc import WSGIHTTPException

from pipeline.elements import traverse
from pipeline.http.error_pages import traceback_of
from pipeline.publisher import publisher
from pipeline.tools.candidates import look_up
from pipeline.tools.causes import Cause, last_frame, no_view, of_traversal, wrong_method
from pipeline.tools.telling import look_lines, look_title, walk_lines
from pipeline.tools.walking import walk_again
from pipeline.tools.words import place_of

FIRST: dict[str, Any] = {"context": None}
FIRST |= dict.fromkeys("default_steps more_steps namespaces subpath".split(), ())  # noqa: SIM905
FIRST["view_name"] = ""
"""The fields that traversal sets, as they are before it."""


def tell(request: Any, error: WSGIHTTPException) -> str:
    """Return where an HTTP error arose and why, as text. Traversal and the look-up of the view run again.

    Raises nothing: what fails here is told in place of it.
    """
    try:
        if request.read_afresh is not None:
            request.read_afresh(request)
        return "\n".join(_lines(request, error))
    except Exception as failure:
        return f"This page could not find out more:\n{traceback_of(failure)}"


def _lines(request: Any, error: WSGIHTTPException) -> Iterator[str]:
    frames = {frame.filename for frame in traceback.extract_tb(error.__traceback__)}
    walked, found = traverse.__file__ in frames, publisher.factory.__code__.co_filename in frames
    walk = walk_again(request, FIRST) if walked else None
    look = look_up(request) if found else None
    raised = error.status_int
    frame = last_frame(error)
    cause = None
    if frame is None and look is not None and look.chosen is None:
        where = place_of(publisher)
        if raised == 404:
            cause = no_view(where, request.views, look, walk, Path.cwd())
        elif raised == 405:
            cause = wrong_method(where, look)
    elif frame is None and look is None and walk is not None:
        cause = of_traversal(place_of(traverse.traverse), error, walk)
    elif look is not None and look.chosen is not None and raised in (401, 403):
        needs = look.chosen.permission or "one that the policy gives for views without a permission"
        asked = request.principal or "nobody who is logged in"
        why = f"the view needs the permission {needs}; the request is of {asked}"
        remedy = "Log in, grant the permission, or declare @view(permission='public')."
        cause = Cause(place_of(look.chosen.function), why, remedy)
    if cause is None:
        last = traceback.extract_tb(error.__traceback__)[-1]
        cause = Cause(frame or f"{last.filename}, line {last.lineno}", f"{type(error).__name__}: {error}")
    yield f"why     {cause.why}"
    yield f"where   {cause.where}"
    if cause.remedy:
        yield f"change  {cause.remedy}"
    if walk is not None:
        yield "\nTraversal"
        yield from walk_lines(walk)
    if look is not None:
        yield f"\nView {look_title(look)}"
        yield from look_lines(look)
