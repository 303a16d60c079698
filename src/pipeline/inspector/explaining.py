"""Why a request was answered so: as ``pipeline explain`` tells it, of a record and without asking again."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from pipeline.explaining.candidates import Look, look_up
from pipeline.explaining.causes import Cause, causes, of_zope
from pipeline.explaining.noticed import BODY, Noticed, lost_headers, readers, set_twice
from pipeline.explaining.walking import Walk, walk_again
from pipeline.explaining.watching import Recorder, Visit
from pipeline.inspector.changes import GONE
from pipeline.inspector.recording import Part, Record, named
from pipeline.telling.secrets import HEADERS, masked_text
from pipeline.telling.words import place_of

log = logging.getLogger("pipeline")


def is_of_zope(record: Record) -> bool:
    """Return whether a Zope site has refused the request, or met an error."""
    return record.zope_walk is not None and record.zope_walk.cause is not None


def explain_zope(record: Record, status: int, location: str = "") -> None:
    """Note why a Zope site has answered so. It answers most errors itself; other elements may have failed, too."""
    walk = record.zope_walk
    if walk is None or not walk.decides(bool(record.error)):
        return
    cause = of_zope(walk, status, location)
    record.causes = [Cause(*map(masked_text, cause))]
    if status >= 400 and not record.error:
        record.error = record.causes[0].why


def explain(record: Record, error: BaseException, status: int) -> None:
    """Note why a request failed, while the error is there."""
    record.explain(error)
    recorder = Recorder()
    last = [part for part in record.parts if part.attempt == record.attempts]
    recorder.visits = nested(record, last)
    try:
        record.causes = [Cause(*map(masked_text, cause)) for cause in causes(recorder, status, Path.cwd())]
    except Exception:  # what cannot be told must not change the answer
        log.debug("the inspector could not tell why", exc_info=True)


def nested(record: Record, parts: list[Part]) -> list[Visit]:
    """Return the parts of one attempt as ``causes`` reads them, each inside of the one before."""
    outermost: list[Visit] = []
    inner = outermost
    state = {f"environ[{name!r}]": str(value) for name, value in record.environ.items() if type(value) is str}
    for number, part in enumerate(parts):
        visit = Visit.__new__(Visit)
        state = apply(state, part.changed)
        visit.step, visit.request, visit.inner = part.step, state, []
        visit.error, visit.walk, visit.look = part.error, part.walk, part.look
        visit.views = part.views
        visit.fields = named(part.fields) if part.fields is not None else {}
        visit.seconds, visit.outside = part.seconds, record.inside(part)
        visit.begun, visit.response = {}, {"status": status_of(parts, number), **part.answered}
        inner.append(visit)
        inner = visit.inner
    return outermost


def noticed_of(record: Record, look: Look | None) -> list[Cause]:
    """Return what the parts beside one another tell, and what ``explain`` has not told of them.

    look  the look-up of the view, if it is known
    """
    last = [part for part in record.parts if part.attempt == record.attempts]
    view = look.chosen if look is not None else None
    end = place_of(view.function) if view is not None else (last[-1].step.where if last else "")
    inward = {id(part.outer): part.changed for part in last}
    noticed = [
        Noticed(part.step, end if part is last[-1] else part.step.where, inward.get(id(part), {}), part.answered)
        for part in last
    ]
    found = [*readers(noticed), *set_twice(noticed), *lost_headers(end, record.late_headers)]
    told = {cause.why for cause in record.causes}
    return [cause for cause in (Cause(*map(masked_text, one)) for one in found) if cause.why not in told]


def status_of(parts: list[Part], number: int) -> str:
    """Return the status of the response as a part has left it."""
    answered = (part.answered["status"] for part in parts[number:] if "status" in part.answered)
    return next(answered, "")


def apply(state: dict[str, str], changed: dict[str, str]) -> dict[str, str]:
    """Return what stands on a request after a change."""
    state = dict(state)
    for name, value in changed.items():
        key = name if name.startswith("request.") or name == BODY else f"environ[{name!r}]"
        if value == GONE:
            state.pop(key, None)
        else:
            state[key] = value
    return state


_DEFAULTS = {"wsgi.input": BytesIO(), "CONTENT_LENGTH": "0"}
"""A request that is walked again has no body."""


class Walked(NamedTuple):
    """Traversal and the look-up of the view, done again."""

    walk: Walk | None
    look: Look | None
    now: bool
    """True if that was done now, on the present data. False if it was done while the request was answered."""


def walk_of(record: Record) -> Walked | None:
    """Return the way of a request from the root to the view.

    For an error it was noted. For any other request the path is walked again now, on a request of its own that is
    closed at once: the view is not called, and nothing is committed.
    """
    if record.zope_walk is not None and record.zope_walk.steps:
        return Walked(record.zope_walk, None, False)
    noted = Walked(
        next((part.walk for part in record.parts if part.walk is not None), None),
        next((part.look for part in reversed(record.parts) if part.look is not None), None),
        False,
    )
    again = record.again
    if noted.walk is not None or again is None:
        return noted if noted.look is not None or noted.walk is not None else None
    element = again.part.step.element
    options = element.options if element is not None else {}
    environ = record.environ_at(again.part)
    for name in HEADERS:  # the credentials are masked
        environ.pop(name, None)
    request = again.pipeline.begin(again.pipeline.request_class, {**environ, **_DEFAULTS})
    request.views = again.views
    try:
        find_root = again.part.step.facts.find_root
        if find_root is not None:
            request.root = find_root(request)
        walk = walk_again(request, named(again.fields), options)
        look = noted.look
        if look is None and walk.error is None and request.views is not None:
            request.context, request.view_name = walk.end, walk.view_name
            look = look_up(request)
        return Walked(walk, look, True)
    finally:
        request.close()


def parts_by_attempt(record: Record) -> Iterator[tuple[int, list[Part]]]:
    """Yield each attempt with the parts that it passed."""
    for attempt in sorted({part.attempt for part in record.parts}):
        yield attempt, [part for part in record.parts if part.attempt == attempt]
