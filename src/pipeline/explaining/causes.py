"""Why a request was answered as it was: where that was decided, and what to change."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from webob.exc import HTTPException, WSGIHTTPException

from pipeline.explaining.changes import BODY, COOKIE, GONE
from pipeline.explaining.recording import Part, Record, path_of
from pipeline.explaining.remedies import REMEDIES, remedy_of
from pipeline.explaining.unscanned import unscanned
from pipeline.explaining.walking import Look, Walk
from pipeline.forms.converters import FieldError
from pipeline.http.error_pages import text_of
from pipeline.http.forwarding import READER, form_of_path
from pipeline.http.origins import CrossSiteRequest
from pipeline.http.tracebacks import chain_of
from pipeline.telling.descriptions import providers
from pipeline.telling.secrets import told_option
from pipeline.telling.words import header_name, line_of_the_site, place_of, short, texts_of
from pipeline.views import View

WORDS = texts_of(Path(__file__).with_suffix(".toml"))
"""The reason and the remedy of causes, by what they tell of."""


class Cause(NamedTuple):
    """The place where an answer was decided, the reason, and the remedy."""

    where: str
    why: str
    remedy: str = ""

    @classmethod
    def of(cls, name: str, where: str, /, **values: object) -> Cause:
        """Return the cause with the words of that name, and these values in them."""
        return cls(where, *(text.format(**values) for text in WORDS[name]))

    def lines(self) -> Iterator[str]:
        """Yield the reason, the place and the remedy, if there is one, each with a title of eight letters."""
        yield f"why     {self.why}"
        yield f"where   {self.where}"
        if self.remedy:
            yield f"change  {self.remedy}"


class Late(NamedTuple):
    """An exception that no part of the pipeline has seen: it was raised when all of them had returned."""

    when: str
    error: BaseException


class Way(NamedTuple):
    """The way of a request: the parts that it passed, its steps from the root, and the look-up of its view."""

    parts: Sequence[Part]
    """The parts of the last attempt, outermost first."""
    walk: Walk | None = None
    look: Look | None = None
    late_headers: Sequence[str] = ()
    now: bool = False
    """True if it was walked again later, on the data of then."""

    def lines(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the way from the root to the view: a title, and its lines."""
        if self.walk is not None:
            yield "Traversal", list(self.walk.lines())
        if self.look is not None:
            yield f"View {self.look.title}", list(self.look.lines())


def way_of(record: Record | None) -> Way:
    """Return the way of a request as far as it was noted."""
    if record is None:
        return Way(())
    parts = path_of(record)
    walks = (record.zope_walk, *(part.walk for part in parts))
    walk = next((one for one in walks if one is not None and (one.steps or one.cause or one.error)), None)
    look = next((part.look for part in reversed(parts) if part.look is not None), None)
    return Way(parts, walk, look, record.late_headers)


def causes(way: Way, status: int, directory: Path, late: Sequence[Late] = ()) -> Iterator[Cause]:
    """Yield the causes of an answer; the first is the cause of its status.

    late  the exceptions that were logged or that reached the server; those that a part has seen are left out
    """
    path, walk, look = way.parts, way.walk, way.look
    if not path:
        yield Cause.of("unseen", "outside of every pipeline")
        return
    failed = next((visit for visit in reversed(path) if visit.error is not None), None)
    met = {id(error) for visit in path for error in chain_of(visit.error)}
    unmet = [one for one in late if id(one.error) not in met]
    has_answered = not (unmet and status >= 500)
    if walk is not None and walk.decides(failed is not None or not has_answered):
        yield of_zope(walk, status, path[0].response.get("Location", ""))
        return
    failure = None if failed is None else Failure(failed.error, failed, way, directory)
    is_refused = failure is not None and isinstance(failure.error, HTTPException)
    rules: tuple[Iterable[Cause], ...] = (
        readers(path) if is_refused else (),  # the form was not what it should be, or the view says so
        [of_error(failure)] if failure is not None else (),
        (of_late(one, path[-1], look) for one in unmet),
        [of_answer(path[-1], look, status)] if failure is None and has_answered else (),
        swallowed(path),
        () if is_refused else readers(path),
        set_twice(path),
        lost_headers(path[-1].place, way.late_headers),
        dropped(path),
        hidden(walk),
    )
    yield from chain.from_iterable(rules)


def of_zope(walk: Walk, status: int, location: str = "") -> Cause:
    """Return the cause of an answer of a Zope site."""
    if walk.cause is not None:
        where, why, remedy = walk.cause
        leads = f"redirected to {location}, because " if 300 <= status < 400 and location not in why else ""
        return Cause(where, leads + why, remedy)
    where, name = walk.view or ("", "")
    return Cause(where, "; ".join([f"the view {name} answered {status}", *walk.surprises]))


def of_answer(visit: Part, look: Look | None, status: int) -> Cause:
    """Return the cause of an answer that did not come of an exception."""
    if look is not None and look.chosen is not None:
        place, what = place_of(look.chosen.function), f"the view {_name(look.chosen)} answered {status}"
        is_empty = status == 200 and visit.response.get("body") == "0 bytes"
        return Cause.of("empty page", place, what=what) if is_empty else Cause(place, what)
    return Cause(visit.spot, f"{visit.title} answered {status} itself")


def of_late(late: Late, end: Part, look: Look | None) -> Cause:
    """Return the cause of an exception that was raised when every part had returned."""
    view = look.chosen if look is not None else None
    where = line_of_the_site(late.error) or (place_of(view.function) if view is not None else end.step.where)
    return Cause(where, f"{late.when}: {_told(late.error)}", remedy_of(late.error))


def swallowed(path: Sequence[Part]) -> Iterator[Cause]:
    """Yield the foreign middleware that has made an answer of an exception."""
    for outer, inner in pairwise(path):
        if outer.step.element is None and outer.error is None and inner.error is not None:
            status, error = outer.response.get("status", ""), type(inner.error).__name__
            yield Cause.of("swallowed", outer.spot, name=outer.title, error=error, status=status)


def dropped(path: Sequence[Part]) -> Iterator[Cause]:
    """Yield the headers of the request that an element has taken away."""
    for visit in path:
        gone = [name for name, value in visit.inward.items() if value == GONE and name.startswith("HTTP_")]
        form, distrusts = "the form that it uses (X-Forwarded, Forwarded or X-Vhm)", visit.step.facts.distrusts
        if gone:
            remedy = trust(visit, form, ", in that section.") if distrusts is not None else ""
            yield Cause(visit.step.where, f"{visit.name} dropped {', '.join(map(header_name, gone))}", remedy)


def hidden(walk: Walk | None) -> Iterator[Cause]:
    """Yield the views that an item of the same name hides."""
    for taken in walk.steps if walk is not None else ():
        if taken.hides:
            yield Cause.of("hidden view", taken.hides, name=taken.name, obj=short(taken.obj))


SHARED = {"Allow", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Date", "ETag"}
SHARED |= {"Link", "Server-Timing", "Vary", "WWW-Authenticate"}
"""Headers that several parts may set: lists, and those that follow from a body that is changed on the way."""


def readers(path: Sequence[Part]) -> Iterator[Cause]:
    """Yield the parts outside of the element of forms that have read of the body."""
    for number, part in enumerate(path):
        reader = next((one for one in path[number + 1 :] if reads_forms(one)), None)
        read = part.inward.get(BODY)
        if read is not None and reader is not None and not reads_forms(part):
            yield Cause.of("body read early", part.place, part=part.step, read=read, reader=reader.step)


def reads_forms(part: Part) -> bool:
    """Return whether a part reads the forms of requests."""
    return part.step.element is not None and "form" in part.step.element.contract.provides


def set_twice(path: Sequence[Part]) -> Iterator[Cause]:
    """Yield each header and cookie that two parts set."""
    first: dict[str, Part] = {}
    for part in reversed(path):
        for name, value in part.answered.items():
            if not name[:1].isupper() or name in SHARED or value == GONE:  # "body" is not a header
                continue
            inner = first.setdefault(name, part)
            if inner is not part:
                what = f"the cookie {name.removeprefix(COOKIE).strip()}" if name.startswith(COOKIE) else name
                named = {"inner": inner.step, "what": what, "outer": part.step, "place": part.place}
                yield Cause.of("set twice", inner.place, **named)


def lost_headers(where: str, names: Iterable[str]) -> Iterator[Cause]:
    """Yield the headers that were set too late."""
    if told := ", ".join(names):
        yield Cause.of("late header", where, told=told)


class Failure(NamedTuple):
    """An exception that a part of the pipeline raised, and the request that met it."""

    error: Any
    visit: Part
    """The innermost part that the exception left."""
    way: Way
    directory: Path

    @property
    def here(self) -> str:
        """The part, with its place in the ini."""
        return f"{self.visit.name}, {self.visit.step.where}"

    @property
    def chosen(self) -> View | None:
        """The view that was looked up, or None."""
        return self.way.look.chosen if self.way.look is not None else None

    @property
    def view(self) -> View | None:
        """The view that raised the exception, or None."""
        return self.chosen if self.visit.look is not None else None

    def cause(self, said: str, remedy: str = "") -> Cause:
        """Return the cause as far as the exception itself tells it."""
        actor, where = self.visit.title, self.here
        if self.view is not None:
            actor, where = f"the view {_name(self.view)}", place_of(self.view.function)
        return Cause(line_of_the_site(self.error) or where, f"{actor} raised {said}", remedy)


def of_error(failure: Failure) -> Cause:
    """Return the cause of an answer that came of an exception."""
    for kind, explain in KINDS.items():
        if isinstance(failure.error, kind) and (cause := explain(failure)) is not None:
            return cause
    return of_exception(failure)


def of_field(failure: Failure) -> Cause | None:
    """Return the cause if a field of a form has a bad value."""
    view, error, sent = failure.chosen, failure.error, failure.visit.request
    if view is None:
        name, _, words = error.field.partition(":")
        cause = Cause.of("field", failure.here, who=failure.visit.name, error=error, name=name, words=words)
        return cause if words else cause._replace(remedy="")
    kind = "a field that is missing" if error.value is None else "a field of another type"
    if error.value is None and sent.get("REQUEST_METHOD") not in ("GET", "HEAD"):
        kind = "a field that is missing in a form"
    named = {"name": _name(view), "error": error, "sent": sent.get("CONTENT_TYPE") or "(none)"}
    return Cause.of(kind, place_of(view.function), **named)


def of_refusal(failure: Failure) -> Cause:
    """Return the cause of an HTTP exception."""
    error = failure.error
    if failure.view is None or not line_of_the_site(error):
        for explain in (of_proxy, of_advice, STATUSES.get(error.status_int), of_traversed_path, of_limit):
            if explain is not None and (cause := explain(failure)) is not None:
                return cause
    return failure.cause(f"{type(error).__name__}: {_detail(error)}")


def of_exception(failure: Failure) -> Cause:
    """Return the cause of an exception that is not an HTTP exception."""
    error = failure.error
    what, remedy = _told(error), remedy_of(error)
    led = [f"{type(error.__cause__).__name__}: {text_of(error.__cause__)}"] if error.__cause__ is not None else []
    if led := led or getattr(error, "__notes__", []):
        what += f" (caused by {short(led[0], 200)})"
    if stored := stored_by(error):
        what += f", when {stored} was to be stored"
        view = failure.chosen
        where = place_of(view.function) if view is not None else failure.here
        return Cause(where, f"{failure.visit.name} raised {what}", remedy or REMEDIES["NotStorable"])
    opened = opened_by(error, failure.way.parts) if not line_of_the_site(error) else None
    if opened is None or opened is failure.visit or opened.step.element is None:
        return failure.cause(what, remedy)
    for option, value in opened.step.element.options.items():
        if f"({option})" in str(error):
            shown = told_option(option, value, opened.step.facts.secrets.__contains__)
            remedy = f"Change the option {option}, now {shown}, or find what needs more than that."
            return Cause(opened.step.source.option(option), f"{opened.name}: {what}", remedy)
    return Cause(opened.step.where, f"{opened.name}: {what}", remedy or "The log below says more.")


def stored_by(error: BaseException) -> str:
    """Return the persistent object that was being stored when an exception was raised, or ""."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_name == "_store_objects" and "obj" in frame.f_locals:
            return short(frame.f_locals["obj"])
    return ""


def trust(visit: Part, form: str, where: str) -> str:
    """Return how a proxy is believed what it writes."""
    peer = visit.request.get("REMOTE_ADDR", "the proxy")
    return f"If {peer} is your proxy: trusted = {peer}, accept = {form} and allowed_hosts{where}"


def of_proxy(failure: Failure) -> Cause | None:
    """Return the cause of a 404 for a path of a proxy that no element has read."""
    last = failure.way.walk.steps[-1] if failure.way.walk is not None and failure.way.walk.steps else None
    form = form_of_path(last.name) if last is not None else None
    if form is None:
        return None
    reader = next((visit for visit in failure.way.parts if visit.step.facts.distrusts is not None), None)
    if reader is None:
        remedy = trust(failure.visit, form, ".")
        return Cause.of("no reader", failure.here, form=form, reader=READER, remedy=remedy)
    peer = failure.visit.request.get("REMOTE_ADDR", "the proxy")
    remedy = trust(failure.visit, form, ", in that section.")
    named = {"form": form, "reader": READER, "name": reader.name, "peer": peer, "remedy": remedy}
    return Cause.of("no trust", reader.step.where, **named)


def of_missing_view(failure: Failure) -> Cause | None:
    """Return the cause of a 404 of the publisher, for want of a view."""
    where, look, walk = failure.visit.step.where, failure.way.look, failure.way.walk
    if failure.visit.look is None or look is None:
        return None
    if look.is_empty:
        return Cause.of("no views", where)
    missed = walk.steps[-1] if walk is not None and walk.steps and not walk.steps[-1].ok else None
    if missed is not None and missed.source == "default step":
        return Cause.of("default step", where, name=missed.name, default=walk.default if walk else "")
    what = f"view {look.name!r}" if look.name else "default view"
    why = f"there is no {what} for {look.context}"
    if missed is not None and not missed.name.startswith("@@"):
        why = f"{look.context} has no item {missed.name!r} ({missed.answered_by}), and no view has that name"
    if walk is not None and walk.default and missed is None:
        why += f"; the path was led on by the {walk.default}, and default steps are taken once"
    for view, _, verdict, _ in look.candidates:
        return Cause.of("other view", place_of(view.function), why=why, name=_name(view), verdict=verdict)
    for other in unscanned([failure.visit.views], failure.directory):
        if other.name == look.name:
            place = f"{other.file}, line {other.line}"
            return Cause.of("unscanned view", place, why=why, function=other.function, where=where)
    if missed is not None and missed.near:
        return Cause(where, f"{why}; did you mean the item {missed.near!r}?")
    if near := look.near():
        return Cause(where, f"{why}; did you mean {near!r}?", "pipeline views INI lists every view.")
    names = ", ".join(name or "(the default view)" for name in look.others[:12])
    have = f"Its views are: {names}" if names else "No view is for it"
    return Cause(where, why, f"{have}. pipeline views INI lists every view.")


def of_method(failure: Failure) -> Cause | None:
    """Return the cause of a 405."""
    look = failure.way.look
    if look is None:
        return None
    view = next((candidate.view for candidate in look.candidates if candidate.fits), None)
    what = f"view {look.name!r}" if look.name else "default view"
    where = place_of(view.function) if view is not None else failure.visit.step.where
    named = {"what": what, "context": look.context, "method": look.method, "allowed": ", ".join(look.allowed)}
    return Cause.of("method", where, **named)


def of_permission(failure: Failure) -> Cause | None:
    """Return the cause of a 401 or 403 for a view."""
    look, view = failure.way.look, failure.chosen
    if look is None or view is None:
        return None
    who = next((v for v in reversed(failure.way.parts) if "request.principal" in v.request), None)
    principal = repr(who.request["request.principal"]) if who is not None else "a visitor who is not logged in"
    guards = ((visit, visit.step.facts.why_refused) for visit in failure.way.parts)
    guard, why_refused = next(((visit, why) for visit, why in guards if why is not None), (None, None))
    if guard is None or why_refused is None:
        named = {"name": _name(view), "permission": view.permission, "providers": providers("principal")}
        return Cause.of("no logins", place_of(view.function), **named)
    why = why_refused(view, look.method, principal)
    if look.grants:
        why += f". On the context and above it, {'; '.join(look.grants)}"
    remedy = f"Log in (try --user NAME), grant it, or declare @view(permission='public'). See {guard.step.where}"
    return Cause(place_of(view.function), why, remedy)


def of_traversed_path(failure: Failure) -> Cause | None:
    """Return the cause of an answer of the element that traverses."""
    where, error, walk = failure.here, failure.error, failure.way.walk
    if walk is None or not failure.visit.fields:
        return None
    raised, detail = error.status_int, _detail(error)
    if raised in (301, 302, 303, 307, 308):
        return Cause.of("slash", where, end=short(walk.end))
    if walk.lost_root:
        lost = walk.steps[-1]
        return Cause.of("virtual root", where, obj=short(lost.obj), name=lost.name)
    last = walk.steps[-1] if walk.steps else None
    if raised == 404 and last is not None and not last.ok and last.name.startswith("++"):
        return Cause.of("namespace", where, name=last.name, obj=short(last.obj), answered_by=last.answered_by)
    if (raised == 404 and not walk.steps) or (last is not None and last.ok and last.name == ""):
        return Cause.of("refused path", where, detail=detail)
    if raised == 404 and last is not None and last.ok:
        return Cause.of("part of the program", where, name=last.name)
    what = f"the step {last.name!r} from {short(last.obj)}" if last is not None else "the path"
    who = f" ({last.answered_by})" if last is not None else ""
    return Cause(where, f"{what} was answered {raised}{who}: {detail}")


def of_other_site(failure: Failure) -> Cause:
    """Return the cause if another site made a browser send the request (S23)."""
    sent, view = failure.visit.request, failure.view
    who, where, option = failure.visit.name, failure.here, "cross_site = true of vhost, or cross_site_at"
    if view is not None:
        who, where, option = f"the view {_name(view)}", place_of(view.function), "@view(cross_site=True)"
    host = sent.get("HTTP_HOST", "")
    origin = sent.get("HTTP_ORIGIN") or sent.get("HTTP_SEC_FETCH_SITE")
    return Cause.of("other site", where, who=who, origin=origin, host=host, option=option)


def of_advice(failure: Failure) -> Cause | None:
    """Return the cause of an HTTP exception that has a remedy of its own, as its attribute ``remedy``."""
    remedy = getattr(failure.error, "remedy", None)
    if remedy is None:
        return None
    return Cause(failure.here, f"{failure.visit.name} refused the request: {_detail(failure.error)}", remedy)


def of_limit(failure: Failure) -> Cause | None:
    """Return the cause of an answer that the options of an element decide."""
    element, facts = failure.visit.step.element, failure.visit.step.facts
    names = facts.limits.get(failure.error.status_int)
    if element is None or names is None:
        return None
    given = {name: element.options[name] for name in names if element.options.get(name)}
    is_hidden = facts.secrets.__contains__
    set_to = ", ".join(f"{name} = {told_option(name, value, is_hidden)}" for name, value in given.items())
    remedy = f"See its options {', '.join(names)}{f' (now {set_to})' if set_to else ''}, and the request."
    return Cause(failure.here, f"{failure.visit.name} refused the request: {_detail(failure.error)}", remedy)


Explain = Callable[[Failure], "Cause | None"]
"""Returns the cause of a failure, or None if another function must tell it."""

KINDS: dict[type[BaseException], Explain] = {
    FieldError: of_field,
    CrossSiteRequest: of_other_site,
    WSGIHTTPException: of_refusal,
}
"""The function that explains an exception, by its class. ``of_exception`` explains all others."""

STATUSES: dict[int, Explain] = {
    401: of_permission,
    403: of_permission,
    404: of_missing_view,
    405: of_method,
}
"""The function that first explains an HTTP exception, by its status."""


def opened_by(error: BaseException | None, path: Sequence[Part]) -> Part | None:
    """Return the element that failed to open what another one needs, such as a database."""
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    for frame in reversed(frames):
        for visit in path:
            element = visit.step.element
            if element is not None and inspect.getsourcefile(element.factory) == frame.filename:
                return visit
    return None


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {short(text_of(error), 600)}"


def _detail(error: WSGIHTTPException) -> str:
    return str(error.detail or error)


def _name(view: View) -> str:
    return f"{view.function.__module__}.{view.function.__qualname__}"
