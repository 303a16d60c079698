"""Why a request was answered as it was: where that was decided, and what to change."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from webob.exc import HTTPException, WSGIHTTPException

from pipeline.forms.converters import FieldError
from pipeline.tools.candidates import Look
from pipeline.tools.findings import OUR_CODE, is_of_the_site
from pipeline.tools.unscanned import unscanned
from pipeline.tools.walking import Walk
from pipeline.tools.watching import Recorder, Visit
from pipeline.tools.words import place_of, short, written
from pipeline.views import View, Views

LIMITS = {
    ("forms", 413): ("max_body", "max_memory", "max_disk", "max_parts", "max_fields", "max_header"),
    ("forms", 400): ("max_fields",),
    ("traverse", 414): ("max_segments", "max_query"),
    ("vhost", 400): ("trusted", "accept", "allowed_hosts", "hosts"),
}
"""The options that decide whether an element refuses a request, by its name and the status."""


class Cause(NamedTuple):
    """Where an answer was decided, why, and what to change."""

    where: str
    why: str
    remedy: str = ""


def path_of(visits: list[Visit]) -> list[Visit]:
    """Return the parts that the last attempt has passed, outermost first."""
    path: list[Visit] = []
    while visits:
        path.append(visits[-1])
        visits = visits[-1].inner
    return path


def causes(recorder: Recorder, status: int, directory: Path) -> Iterator[Cause]:
    """Yield why a request was answered so; the first cause is that of the status."""
    path = path_of(recorder.visits)
    if not path:
        yield Cause(
            "outside of every pipeline",
            "no part of a pipeline saw this request: its length is malformed (see the log), or "
            "no line of the switch is for it",
            "See the branches and default of [composite:...], and the method and the headers of the request.",
        )
        return
    walk = next((visit.walk for visit in path if visit.walk is not None), None)
    look = next((visit.look for visit in reversed(path) if visit.look is not None), None)
    failed = [visit for visit in path if visit.error is not None]
    if walk is not None and walk.cause is not None:
        yield Cause(*walk.cause)
    elif walk is not None and walk.view is not None:
        where, name = walk.view
        yield Cause(where, f"the view {name} answered {status}")
    elif failed:
        yield of_error(failed[-1], status, walk, look, recorder, directory)
    elif look is not None and look.chosen is not None:
        yield Cause(place_of(look.chosen.function), f"the view {_name(look.chosen)} answered {status}")
    else:
        yield Cause(path[-1].step.where, f"{path[-1].name} answered {status} itself")
    yield from swallowed(path)
    yield from dropped(path)
    if walk is not None:
        yield from hidden(walk)


def swallowed(path: list[Visit]) -> Iterator[Cause]:
    """Yield the foreign middleware that has made an answer of an exception."""
    for outer, inner in pairwise(path):
        if outer.step.element is None and outer.error is None and inner.error is not None:
            yield Cause(
                f"{outer.step.where} ({place_of(outer.step.factory)})",
                f"the foreign middleware {outer.name} met {type(inner.error).__name__} and answered "
                f"{outer.response.get('status', '')}: no element outside of it has seen the error",
                "Put errors inside of that middleware, so that errors are answered before it.",
            )


def dropped(path: list[Visit]) -> Iterator[Cause]:
    """Yield the headers of the request that an element has taken away."""
    for visit in path:
        gone = [name for name, value in visit.changed().items() if value == "(gone)" and "'HTTP_" in name]
        if gone:
            headers = ", ".join(name[14:-2].replace("_", "-").title() for name in gone)
            remedy = ""
            if visit.name == "vhost":
                peer = visit.request.get("environ['REMOTE_ADDR']", "the proxy")
                remedy = (
                    f"If {peer} is your proxy: trusted = {peer} and accept = the form that it uses (X-Forwarded, "
                    f"Forwarded or X-Vhm), with allowed_hosts, in that section."
                )
            yield Cause(visit.step.where, f"{visit.name} dropped {headers}", remedy)


def hidden(walk: Walk) -> Iterator[Cause]:
    """Yield the views that an item of the same name hides."""
    for taken in walk.steps:
        if taken.hides:
            yield Cause(
                taken.hides,
                f"the item {taken.name!r} of {short(taken.obj)} hides the view of that name",
                f"Write @@{taken.name} in the path for the view, or give one of them another name.",
            )


def of_error(
    visit: Visit, status: int, walk: Walk | None, look: Look | None, recorder: Recorder, directory: Path
) -> Cause:
    """Return the cause of an answer that came of an exception; the visit is of the part that raised it."""
    error = visit.error
    here = f"{visit.name}, {visit.step.where}"
    if isinstance(error, FieldError) and look is not None and look.chosen is not None:
        what = f"the field {error.field!r} of the view {_name(look.chosen)}: {error}"
        return Cause(place_of(look.chosen.function), what, "Send a value of that type, or change the parameter.")
    frame = last_frame(error)
    if not isinstance(error, WSGIHTTPException):
        what = f"{type(error).__name__}: {short(str(error), 600)}"
        reason = error.__cause__ if error is not None else None
        if reason is not None:
            what += f" (caused by {type(reason).__name__}: {short(str(reason), 200)})"
        opened = opened_by(error, path_of(recorder.visits)) if frame is None else None
        if opened is not None and opened is not visit:
            return Cause(opened.step.where, f"{opened.name}: {what}", "The log below says more.")
        return Cause(frame or here, f"{_actor(visit, look)} raised {what}", remedy_of(error))
    raised = error.status_int
    if frame is not None and visit.look is not None and visit.look.chosen is not None:
        return Cause(str(frame), f"{_actor(visit, look)} raised {type(error).__name__}: {_detail(error)}")
    if raised == 404 and look is not None and visit.look is not None:
        return no_view(visit.step.where, visit.views, look, walk, directory)
    if raised == 405 and look is not None:
        return wrong_method(visit.step.where, look)
    if raised in (401, 403) and look is not None and look.chosen is not None:
        return refused(visit, look, look.chosen, recorder)
    if walk is not None and visit.fields:
        return of_traversal(here, error, walk)
    if (visit.name, raised) in LIMITS and visit.step.element is not None:
        options = visit.step.element.options
        names = LIMITS[visit.name, raised]
        set_to = ", ".join(f"{name} = {written(options[name])}" for name in names if options.get(name))
        remedy = f"See its options {', '.join(names)}{f' (now {set_to})' if set_to else ''}, and the request."
        return Cause(here, f"{visit.name} refused the request: {_detail(error)}", remedy)
    return Cause(frame or here, f"{_actor(visit, look)} raised {type(error).__name__}: {_detail(error)}")


def opened_by(error: BaseException | None, path: list[Visit]) -> Visit | None:
    """Return the element that failed to open what another one needs, such as a database."""
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    for frame in reversed(frames):
        for visit in path:
            element = visit.step.element
            if element is not None and inspect.getsourcefile(element.factory) == frame.filename:
                return visit
    return None


def of_traversal(where: str, error: WSGIHTTPException, walk: Walk) -> Cause:
    """Return the cause of an answer that traversal gave."""
    raised, detail = error.status_int, _detail(error)
    if raised in (301, 302, 303, 307, 308):
        remedy = "Ask for the address with the slash, or set slash_redirect = false."
        return Cause(where, f"{short(walk.end)} is a container: the address of its page ends in a slash", remedy)
    if walk.lost_root:
        lost = walk.steps[-1]
        return Cause(
            where,
            f"the virtual root of this host is not there: {short(lost.obj)} has no item {lost.name!r}",
            "Correct the path in the option hosts of vhost (or that the proxy sends), or make the object.",
        )
    last = walk.steps[-1] if walk.steps else None
    if raised == 404 and last is not None and not last.ok and last.name.startswith("++"):
        remedy = "Add the module of the namespace to scan (pipeline.publishing.namespaces), or correct the value."
        what = f"the step {last.name!r} from {short(last.obj)} leads nowhere"
        return Cause(where, f"{what}: {last.answered_by}", remedy)
    if (raised == 404 and not walk.steps) or (last is not None and last.ok and last.name == ""):
        remedy = "A name in a path must not start with '_' (S3)."
        return Cause(where, f"the path is refused before any step: {detail}", remedy)
    if raised == 404 and last is not None and last.ok:
        remedy = "Classes, modules and functions are never published (S1)."
        return Cause(where, f"the step behind {last.name!r} leads to a part of the program", remedy)
    what = f"the step {last.name!r} from {short(last.obj)}" if last is not None else "the path"
    who = f" ({last.answered_by})" if last is not None else ""
    return Cause(where, f"{what} was answered {raised}{who}: {detail}")


def no_view(where: str, views: Views, look: Look, walk: Walk | None, directory: Path) -> Cause:
    """Return the cause of a 404 for want of a view."""
    if look.is_empty:
        remedy = "Name the modules of your views: scan = package.module"
        return Cause(where, "the publisher has no views at all", remedy)
    missed = walk.steps[-1] if walk is not None and walk.steps and not walk.steps[-1].ok else None
    if missed is not None and missed.source == "default step":
        return Cause(
            where,
            f"the default step {missed.name!r} leads nowhere ({walk.default if walk else ''})",
            "The names that default_steps returns must be items, and the last an item or a view.",
        )
    what = f"the view {look.name!r}" if look.name else "a default view"
    why = f"there is not {what} for {look.context}"
    if missed is not None:
        why = f"{look.context} has no item {missed.name!r} ({missed.answered_by}), and no view has that name"
    if walk is not None and walk.default and missed is None:
        why += f"; the path was led on by the {walk.default}, and default steps are taken once"
    for candidate in look.candidates:
        remedy = "Register the view for that class, interface or type of request, too, or ask another object."
        view = candidate.view
        return Cause(place_of(view.function), f"{why}: {_name(view)} is {candidate.verdict}", remedy)
    for other in unscanned([views], directory):
        if other.name == look.name:
            remedy = f"Name its module in the option scan: {where}"
            why += f"; {other.function} is one, but no scan names its module"
            return Cause(f"{other.file}, line {other.line}", why, remedy)
    if missed is not None and missed.near:
        return Cause(where, f"{why}; did you mean the item {missed.near!r}?")
    if near := look.near():
        return Cause(where, f"{why}; did you mean {near!r}?", "pipeline views INI lists every view.")
    names = ", ".join(name or "(the default view)" for name in look.others[:12])
    have = f"Its views are: {names}" if names else "No view is for it"
    return Cause(where, why, f"{have}. pipeline views INI lists every view.")


def wrong_method(where: str, look: Look) -> Cause:
    """Return the cause of a 405."""
    view = next((candidate.view for candidate in look.candidates if candidate.fits), None)
    return Cause(
        place_of(view.function) if view is not None else where,
        f"no view {look.name!r} for {look.context} accepts {look.method}; it accepts {', '.join(look.allowed)}",
        f"Add the method to the view: @view(methods=(..., {look.method!r})), or send another one.",
    )


def refused(visit: Visit, look: Look, view: View, recorder: Recorder) -> Cause:
    """Return the cause of a 401 or 403."""
    who = next((v for v in reversed(path_of(recorder.visits)) if "request.principal" in v.request), None)
    principal = repr(who.request["request.principal"]) if who is not None else "a visitor who is not logged in"
    guard = next((v for v in path_of(recorder.visits) if v.name == "authenticate"), None)
    if guard is None or guard.step.element is None:
        remedy = "Put authenticate into the pipeline, or declare the view permission='public'."
        return Cause(place_of(view.function), f"{_name(view)} needs the permission {view.permission!r}", remedy)
    options = guard.step.element.options
    policy = written(options["policy"]) if "policy" in options else "pipeline.auth.policy:LoggedIn"
    if view.permission is None:
        undeclared = options.get("undeclared", "read")
        why = (
            f"{_name(view)} declares no permission, so undeclared = {undeclared} counts: {look.method} needs "
            f"what the policy {policy} permits as 'undeclared', which it refuses to {principal}"
        )
    else:
        why = f"{_name(view)} needs the permission {view.permission!r}, which {policy} refuses to {principal}"
    remedy = f"Log in (try --user NAME), grant it, or declare @view(permission='public'). See {guard.step.where}"
    return Cause(place_of(view.function), why, remedy)


def remedy_of(error: BaseException | None) -> str:
    """Return what to do about some errors of databases."""
    name = type(error).__name__
    if name == "DoomedTransaction":
        return "The view commits by itself, and nothing is committed here: add --commit."
    if name == "ResultError":
        return "Return one of these, or add pipeline.publishing.json to scan for dicts and lists."
    return ""


def last_frame(error: BaseException | None) -> str | None:
    """Return ``file, line N`` of the last line of the site that an error has passed, or None."""
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    found = [f"{frame.filename}, line {frame.lineno}" for frame in frames if is_of_the_site(frame.filename)]
    if not found:
        found = [f"{f.filename}, line {f.lineno}" for f in frames if f.filename.startswith(f"{OUR_CODE}/demo/")]
    return found[-1] if found else None


def _actor(visit: Visit, look: Look | None) -> str:
    if visit.look is not None and look is not None and look.chosen is not None:
        return f"the view {_name(look.chosen)}"
    return visit.name


def _detail(error: BaseException | None) -> str:
    if isinstance(error, HTTPException):
        return str(getattr(error, "detail", None) or error)
    return str(error)


def _name(view: View) -> str:
    return f"{view.function.__module__}.{view.function.__qualname__}"
