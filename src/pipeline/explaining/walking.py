"""Traversal and the look-up of the view, done again with a note of each step and of each view that has the name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any, NamedTuple

from webob.exc import HTTPException
from zope.interface import alsoProvides, providedBy

from pipeline.auth.policy import lineage
from pipeline.interfaces import PUBLIC, IDefaultSteps, INamespace, IPublishTraverse
from pipeline.publishing.kinds import CONTAINER, TRAVERSER, known_kind
from pipeline.publishing.steps import (
    VIEW,
    default_steps,
    is_anywhere,
    is_failure,
    parse,
    step,
    walk,
    walk_from_root,
)
from pipeline.telling.words import kind_name, place_of, short
from pipeline.views import View, Views

FIELDS = "context default_steps lacks_slash more_steps namespaces principal subpath".split()  # noqa: SIM905
FIELDS += "traversal_hooks view_name virtual_root virtual_root_path".split()  # noqa: SIM905
"""What traversal reads and sets on the request."""

MOST_NAMES = 1_000
"""Names of items that are compared with one that is not there."""
MOST_PARENTS = 50
"""Parents of an object that are asked for their grants."""
MOST_STRANGERS = 4
"""Views for other objects than the context: fewer than these are shown."""


class Taken(NamedTuple):
    """One step of traversal."""

    name: str
    """The name of the step; "" for the root."""
    source: str
    """The source of the step: the path, the virtual root, or a default step."""
    obj: Any
    """The object that the step leads on from."""
    answered_by: str
    result: str
    ok: bool = True
    hides: str = ""
    """The view that cannot be reached by this name, because an item has it."""
    near: str = ""
    """The item that was meant, most likely."""


class Walk:
    """All steps of a request."""

    def __init__(self) -> None:
        self.steps: list[Taken] = []
        self.error: BaseException | None = None
        self.end: Any = None
        self.view_name = ""
        self.lost_root = False
        """True if the virtual root is missing."""
        self.default = ""
        """The source of the default steps."""
        self.view: tuple[str, str] | None = None
        """In a Zope site: place and name of the view that was called."""
        self.surprises: list[str] = []
        """In a Zope site: steps that the path does not show, such as an acquired object."""
        self.cause: tuple[str, str, str] | None = None
        """In a Zope site: the place of an error, its cause, and its remedy."""

    def decides(self, has_failed: bool = False) -> bool:
        """Return whether a Zope site has noted here why it answered so; an error of another element comes before
        the view that was found."""
        return self.cause is not None or (self.view is not None and not has_failed)

    def lines(self) -> Iterator[str]:
        """Yield each step, and what answered it, as text."""
        for taken in self.steps:
            source = "" if taken.source in ("", "path") else f" ({taken.source})"
            yield f"  {taken.name or '/'}{source}: {taken.result}"
            yield f"      answered by {taken.answered_by}"

    def reset(self) -> None:
        """Forget the steps of the attempt before."""
        self.steps.clear()
        self.surprises.clear()
        self.view = self.cause = None
        self.default = ""


def walk_again(request: Any, fields: Mapping[str, Any], options: Mapping[str, Any] = {}) -> Walk:
    """Walk the path of a request again; the request is left as it was found.

    fields   the fields of traversal (``FIELDS``) as they were before it
    options  those of the element ``traverse``
    """
    now = request.snapshot()
    for name, value in fields.items():
        setattr(request, name, value)
    walk = Walk()
    if options.get("request_type") is not None:
        alsoProvides(request, options["request_type"])
    try:
        _walk_from_root(request, walk, options.get("max_segments", 128))
    except Exception as error:
        walk.error = error
    walk.view_name = request.view_name
    request.restore(now)
    return walk


def _walk_from_root(request: Any, noted: Walk, max_segments: int) -> None:
    """Do what ``traverse`` does, and note each step."""
    names, _, _ = parse(request.environ.get("PATH_INFO", ""), max_segments)
    if not names or not is_anywhere(request, names[0]):
        noted.end = request.root
        noted.steps.append(Taken("", "", noted.end, "the root", short(noted.end)))

    def noting(request: Any, obj: Any, names: Iterable[str]) -> tuple[Any, int]:
        is_virtual = obj is not None and request.virtual_root_path != () and request.virtual_root is None
        found = _walk(request, noted, obj, names, "virtual root" if is_virtual else "path")
        noted.lost_root = is_virtual and found[1] == VIEW
        return found

    obj, kind = walk_from_root(request, names, noting)
    views = request.views
    if views is not None and views.has_defaults and kind != VIEW:
        further = default_steps(request, obj)
        if further:
            factory = views.lookup1(providedBy(obj), IDefaultSteps)
            noted.default = f"default steps of {short(obj)}, by {_called(factory or type(obj))}"
            request.default_steps = further
            obj, kind = _walk(request, noted, obj, further, "default step")
    noted.end = obj


def _walk(request: Any, noted: Walk, obj: Any, names: Iterable[str], source: str) -> tuple[Any, int]:
    """Walk over names from an object, and note each step."""

    def noting(request: Any, obj: Any, kind: int, name: str) -> Any:
        who = _who(request, obj, kind, name)
        try:
            found = step(request, obj, kind, name)
            known_kind(found)
        except Exception as error:
            what, meant = "refused" if isinstance(error, HTTPException) else "raised", ""
            result = f"{what}: {type(error).__name__}: {error}"
            if isinstance(error, LookupError | TypeError) and not is_failure(error, obj):
                result, meant, noted.end = "no such item: the name of a view", near(obj, name), obj
            elif isinstance(error, LookupError):
                result = f"a lost object: {error}"
            noted.steps.append(Taken(name, source, obj, who, result, False, near=meant))
            raise
        noted.steps.append(Taken(name, source, obj, who, short(found), True, _hidden(request, obj, name)))
        noted.end = found
        return found

    return walk(request, obj, names, noting)


def _who(request: Any, obj: Any, kind: int, name: str) -> str:
    """Return what answers a step from an object."""
    views = request.views
    if name.startswith("@@"):
        return "its mark: a view"
    if name.startswith("++"):
        space = name[2:].partition("++")[0]
        known = views is not None and space in views.adapter_names
        factory = views.adapter_for(obj, request, INamespace, space) if known else None
        return f"the namespace {space}: {_called(factory) if factory else 'it is not registered'}"
    if views is not None and views.has_traversers:
        factory = views.adapter_for(obj, request, IPublishTraverse)
        if factory is not None:
            return f"IPublishTraverse adapter {_called(factory)}"
    if kind == TRAVERSER:
        return f"{type(obj).__qualname__}.publishTraverse"
    if kind == CONTAINER:
        return f"{type(obj).__qualname__}.__getitem__"
    return f"nothing: a {type(obj).__qualname__} is not a container"


def _hidden(request: Any, obj: Any, name: str) -> str:
    """Return the view that an item of the same name hides, or ""."""
    views = request.views
    view = views and views.find(obj, request, request.environ["REQUEST_METHOD"], name)
    return str(view) if view is not None else ""


def near(obj: Any, name: str) -> str:
    """Return the name of an item of a container that is close to a name, or ""; not all of a large one are read."""
    try:
        names = [key for key in islice(obj.keys(), MOST_NAMES) if isinstance(key, str)]
    except Exception:  # it is not a mapping, or says so in its own way
        return ""
    return next(iter(get_close_matches(name, names, n=1)), "")


def _called(factory: Any) -> str:
    return f"{getattr(factory, '__qualname__', factory)} ({place_of(factory)})"


class Candidate(NamedTuple):
    """A view that has the name, and why it was chosen or not."""

    view: View
    kind: str
    """The class or interface of the objects that it is for."""
    verdict: str
    fits: bool

    def as_dict(self) -> dict[str, Any]:
        """Return the candidate for JSON."""
        function = f"{self.view.function.__module__}.{self.view.function.__qualname__}"
        where = place_of(self.view.function)
        return {"function": function, "where": where, "kind": self.kind, "verdict": self.verdict}


class Look(NamedTuple):
    """The look-up of a view: the context, name and method that were asked for, and the views for them."""

    context: str
    name: str
    method: str
    chosen: View | None
    candidates: list[Candidate]
    allowed: list[str]
    others: list[str]
    """The names of the views that there are for the context and the method."""
    is_empty: bool
    """True if the publisher does not have any view."""
    grants: list[str]
    """The grants on the context and on its parents, as far as they lead, if the chosen view needs a permission."""

    def near(self) -> str:
        """Return the name that was meant, most likely, or ""."""
        return next(iter(get_close_matches(self.name, self.others, n=1)), "") if self.name else ""

    @property
    def title(self) -> str:
        """The question of the look-up, as text."""
        return f"{repr(self.name) if self.name else '(the default view)'} for {self.context}, {self.method}"

    def lines(self) -> Iterator[str]:
        """Yield each view that was a candidate, and why it was chosen or not, as text."""
        strangers = [candidate for candidate in self.candidates if not candidate.fits]
        shown = self.candidates if len(strangers) < MOST_STRANGERS else [one for one in self.candidates if one.fits]
        beaten = sum(1 for other in self.candidates if other.verdict.startswith("less specific"))
        for candidate in shown:
            chosen = candidate.verdict == "chosen"
            won = f": it is for {candidate.kind}" if chosen else ""
            won += f", the most specific of {beaten + 1}" if chosen and beaten else ""
            yield f"  {'->' if chosen else '  '} {candidate.view}"
            yield f"       {candidate.verdict}{won}"
        if len(shown) < len(self.candidates):
            yield f"     and {len(strangers)} views of that name for other objects"
        if not self.candidates:
            yield "     no view has that name"


def look_up(request: Any) -> Look:
    """Look the view of a request up again."""
    views: Views = request.views
    context, name, method = request.context, request.view_name, request.environ["REQUEST_METHOD"]
    chosen = views.find(context, request, method, name)
    provided, asked = providedBy(context), providedBy(request)
    candidates: dict[tuple[View, Any, Any], Candidate] = {}
    others = set()
    empty = True
    for spec, request_type, key, view in views:
        empty = False
        one_method, _, one_name = key.partition(" ")
        if one_method == "error":
            continue
        fits = provided.isOrExtends(spec)
        typed = asked.isOrExtends(request_type)
        if fits and typed and one_method == method:
            others.add(one_name)
        if one_name != name:
            continue
        kind = kind_name(spec)
        if not fits:
            verdict = f"not for {short(type(context))}: it is for {kind}"
        elif not typed:
            verdict = f"not for this request: it is for requests that are {kind_name(request_type)}"
        elif method not in view.methods and not (method == "HEAD" and "GET" in view.methods):
            verdict = f"not for {method}: it accepts {', '.join(view.methods)}"
        elif view is chosen:
            verdict = "chosen"
        else:
            verdict = f"less specific than the view that was chosen: it is for {kind}"
        candidates[view, spec, request_type] = Candidate(view, kind, verdict, fits)
    found = sorted(candidates.values(), key=lambda candidate: (candidate.view is not chosen, not candidate.fits))
    allowed = views.allowed(context, request, name)
    guarded = chosen is not None and chosen.permission != PUBLIC
    grants = list(granted(context)) if guarded else []
    return Look(short(context), name, method, chosen, found, allowed, sorted(others), empty, grants)


def granted(obj: Any) -> Iterator[str]:
    """Yield the local grants on an object and on its parents, and where the parents end."""
    for place in islice(lineage(obj), MOST_PARENTS):
        if grants := getattr(place, "__grants__", None):
            yield f"{short(place)} grants {short(dict(grants), 200)}"
        if not hasattr(place, "__parent__"):
            yield f"{short(place)} has no __parent__, so no grant above it counts"
