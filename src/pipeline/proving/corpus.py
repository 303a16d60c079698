"""Requests to prove a site with: one for each view, or what visitors and tests have asked.

A view is asked on the first object whose page it answers. The fields of a POST are those of the form on the
page of the site, so that its tokens and revisions are right; else they are made from the types of the view's
parameters.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain as chained
from itertools import islice, product
from typing import Any, get_args
from urllib.parse import quote, unquote, urljoin, urlsplit
from xmlrpc.client import dumps

from webtest import TestResponse
from webtest.forms import Submit, Upload
from zope.interface import Interface, implementedBy

from pipeline.interfaces import IXMLRPCRequest
from pipeline.paste import Chain
from pipeline.proving.values import EXAMPLES, FILE, PICTURE, SHAPES, example_for, example_of
from pipeline.publishing.kinds import CONTAINER, kind_of
from pipeline.publishing.openapi import hints_of
from pipeline.staging.asked import FORM, JSON, MULTIPART, Asked, asked, links_of, numbered, of_this_site
from pipeline.staging.runs import Run
from pipeline.staging.site import Site
from pipeline.telling.secrets import is_secret
from pipeline.telling.words import kind_name, place_of
from pipeline.views import View

DEPTH = 4
"""How many folders deep objects are looked for."""
NAMES = 50
"""How many objects of a folder are looked at."""
OF_A_KIND = 3
"""How many objects of a class are kept, on which a view may be tried."""
UNUSUAL = ("error", "HEAD", "OPTIONS")
"""Keys of registrations that need no request of their own."""

NO_OBJECT = "no object of its kind"
"""The reason why a view is not tried in a site that has none of its objects."""

YEAR = "2009"
"""A word for all texts of a form, which one that refuses other words may take: a number, an amount or a year."""
OURS = re.compile(rf"(?<!\S)(prove\d*|{YEAR})(?!\S)")
"""The words that a form has at first: the one, with a number if it is taken, or the other."""

BODIES = 81
"""How many bodies are tried for a view whose fields have no types."""

Row = tuple[Any, Any, str, View]
"""A registration: context, type of the request, method and name, view."""
Things = dict[str, type]
"""The classes of objects, by their percent-encoded paths, with a slash at the end of that of a container."""


class Wanted:
    """One view for which a request is looked for."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.request: Asked | None = None
        """The request that has reached it: the first that was answered, or else one that made an error, or was
        refused."""
        self.is_answered = self.has_failed = False
        """True if it has answered one without refusing it; if the request that is noted made an error."""
        self.said = NO_OBJECT
        """How a request was answered that was refused, or that has not reached it."""

    def __str__(self) -> str:
        context, _, key, view = self.row
        return f"{key} of {kind_name(context)} ({place_of(view.function)}): {self.said}"

    def note(self, request: Asked, run: Run) -> bool:
        """Note how a request was answered that may be one for the view. Return whether it has reached it."""
        is_reached = any(view.function is self.row[3].function for view in run.views)
        self.is_answered = is_reached and (run.status or 500) < 400
        if is_reached and (self.request is None or self.is_answered or run.is_error > self.has_failed):
            self.request, self.has_failed = request, run.is_error
        if is_reached or self.said == NO_OBJECT:
            self.said = f"{request} is answered {run.answer}"
        return is_reached


def of_views(site: Site, chains: Sequence[Chain]) -> list[Wanted]:
    """Return the views that a pipeline of the ini can reach, with a request for each."""
    kinds = [chain.way() for chain in chains]
    by_view = {}
    for row in site.views:  # several publishers may have one
        method = row[2].partition(" ")[0]
        if method not in UNUSUAL and (not kinds or any(way.takes(method, row[1]) for way in kinds)):
            by_view[row[2], kind_name(row[0]), kind_name(row[1]), row[3].function] = Wanted(row)
    wanted = list(by_view.values())
    forms: dict[Asked, None] = {}
    for way in dict.fromkeys(ways_of(chains)):
        pages: dict[str, Run] = {}
        for get in (True, True, False):  # the pages have the forms, and lead to objects that no walk does
            things = objects(site, way)
            asked_for = [one for one in wanted if one.row[2].startswith("GET ") is get]
            for one in [one for one in asked_for if not one.is_answered]:
                for request in candidates(one.row, things, way, forms, site.models):
                    run = site.afresh(request)
                    if one.note(request, run) and get and "html" in run.header("Content-Type"):
                        pages[request.url] = run
                    if one.is_answered:
                        break
            if get:
                note_linked(site, [one for one in asked_for if one.said == NO_OBJECT], pages)
                for url, run in pages.items():
                    forms |= dict.fromkeys(forms_of(site.origin, url, run))
    return wanted


def note_linked(site: Site, wanted: Sequence[Wanted], pages: dict[str, Run]) -> None:
    """Note what pages lead to: the paths of objects, and requests for views of what no walk from the root finds,
    such as static files. The pages of the latter are added."""
    links = dict.fromkeys(link for url, run in pages.items() for link in links_of(site.origin, url, run))
    site.made |= dict.fromkeys(urlsplit(link).path for link in links)
    for request in [Asked("GET", link) for link in links if wanted]:
        run = site.afresh(request)
        for one in wanted:
            if run.status == 200 and any(view.function is one.row[3].function for view in run.views):
                one.note(request, run)
                if "html" in run.header("Content-Type"):
                    pages[request.url] = run


def ways_of(chains: Iterable[Chain]) -> Iterator[Asked]:
    """Yield how to reach each end: the conditions of the switches that lead to it, as a path and headers. A
    pipeline without an ini has one way."""
    for condition in [chain.condition for chain in chains] or [""]:
        path, headers = "/", []
        for word in condition.replace(",", " ").split():
            name, equals, value = word.partition("=")
            if name == "path":
                path = value
            elif name == "type":
                headers.append(("Content-Type", value.replace("*", "x")))
            elif name.startswith("header.") and equals:
                headers.append((name[7:], value.replace("*", "")))
        yield Asked("GET", path, headers=tuple(headers))


def objects(site: Site, way: Asked) -> Things:
    """Return some objects of each class, from the root on, and those that requests have made."""
    found: Things = {}

    def look(request: Any) -> None:
        root = getattr(request, "root", None)
        walks = [walked(root, "/") if root is not None else (), *(passed(root, path) for path in site.made)]
        for path, obj in chained.from_iterable(walks):
            if [*found.values()].count(type(obj)) < OF_A_KIND:
                found.setdefault(path, type(obj))

    site.look(way, look)
    return found


def walked(obj: Any, path: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield an object and what is in it, each with its path."""
    yield address(path, obj), obj
    is_walked = kind_of(type(obj)) == CONTAINER and hasattr(type(obj), "__iter__")
    for name in list(obj)[:NAMES] if is_walked and depth < DEPTH else ():
        if isinstance(name, str):
            yield from walked(obj[name], f"{path}{quote(name)}/", depth + 1)


def passed(obj: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the objects on a path, as far as it can be walked: containers may not tell the names in them."""
    at = ""
    with suppress(Exception):  # it is of another user, or of another end, or the name of a view
        for name in path.strip("/").split("/"):
            obj, at = obj[unquote(name)], f"{at}/{name}"
            yield address(at, obj), obj


def address(path: str, obj: Any) -> str:
    """Return the path of an object, with a slash at its end if it is a container: without, it is redirected."""
    return path.rstrip("/") + "/" * (path == "/" or kind_of(type(obj)) >= CONTAINER)


def candidates(
    row: Row, things: Things, way: Asked, forms: Iterable[Asked], models: Sequence[Any]
) -> Iterator[Asked]:
    """Yield requests that may be answered by a view, the likeliest first."""
    context, request_type, key, view = row
    method, _, name = key.partition(" ")
    end = f"@@{quote(name)}" if name else ""
    implemented: Any = implementedBy
    wanted = implemented(context) if isinstance(context, type) else context
    is_for_all = wanted in (None, Interface)
    fitting = [path for path, kind in things.items() if is_for_all or implemented(kind).isOrExtends(wanted)]
    if request_type.isOrExtends(IXMLRPCRequest):
        call = dumps(tuple(value for _, value in fields_of(view, models)), name).encode()
        yield from (Asked("POST", path, call, (("Content-Type", "text/xml"),)) for path in fitting)
        return
    urls = [(f"{path.rstrip('/')}/{end}" if end else path) for path in fitting]
    is_read = method in ("GET", "HEAD")
    fields = list(fields_of(view, models, is_read))
    for form in () if is_read else forms:
        path = urlsplit(form.url).path
        if form.method == method and (path in urls or (end and path.rpartition("/")[2] in (end, name))):
            yield form
            yield as_named(form)
            yield from emptied(form)
    is_nested = any(isinstance(value, (dict, list)) for _, value in fields)
    bodies: list[tuple[str, Any]] = [] if is_read or fields else [*bodies_for(view)]
    bodies.append((JSON, dict(fields)) if is_nested else (FORM, fields))
    for url in urls:
        for kind, sent in bodies:
            made = asked(method, url, sent, kind=kind)
            made = made._replace(headers=(*made.headers, *way.headers))
            yield made
        if is_read:
            continue
        yield as_named(made)
        # the view may need a version, or a name that nothing has
        yield made._replace(headers=(*made.headers, ("If-Match", "*")))
        yield numbered(made, 1)


def as_named(request: Asked) -> Asked:
    """Return a request whose texts are what the names of their fields tell, or a number; files are pictures."""

    def value(name: str, old: Any) -> Any:
        told = (example for word, example in EXAMPLES.items() if word in name.lower())
        return PICTURE if isinstance(old, tuple) else next(told, YEAR) if old == "prove" else old

    return request.with_fields([(name, value(name, old)) for name, old in request.fields])


def emptied(form: Asked) -> Iterator[Asked]:
    """Yield a form without what a visitor may leave out, such as a code: each field by itself, and all of them."""
    free = [name for name, value in form.fields if value in ("prove", *EXAMPLES.values())]
    for left in (*([name] for name in free), free):
        yield form.with_fields([(name, "" if name in left else value) for name, value in form.fields])


def bodies_for(view: View) -> Iterator[tuple[str, Any]]:
    """Yield the types and fields of bodies for a view that reads ``request.json`` or a form itself."""
    names = names_in(view, "json", "json_body")
    kind, shapes = (JSON, SHAPES) if names else (FORM, ("prove", "1"))
    names = names or names_in(view, "POST", "form")
    for values in islice(product(shapes, repeat=len(names)), BODIES if names else 0):
        fields = dict(zip(names, values, strict=True))
        yield kind, fields if kind == JSON else [*fields.items()]


def names_in(view: View, *ways: str) -> list[str]:
    """Return the names in the code of a view that may be those of fields, if it reads them by one of these
    attributes of the request itself."""
    code: Any = getattr(inspect.unwrap(view.called), "__code__", None)
    if code is None or {*ways}.isdisjoint(code.co_names):
        return []
    return [one for one in code.co_consts if isinstance(one, str) and one.isidentifier()]


def fields_of(view: View, models: Sequence[Any], required: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield a field for each parameter of a view. A model of the whole body has several.

    required  leave out those that have a default
    """
    if view.fill is None:
        return
    function = view.called
    hints = hints_of(function)
    parameters = inspect.signature(function).parameters
    for name in view.fill.names:
        if required and parameters[name].default is not inspect.Parameter.empty:
            continue
        kind = hints.get(name)
        model = next(filter(None, (one.model_of(kind) for one in models if example_for(kind) is None)), None)
        if model is not None:
            value = example_of(model.schema())
            yield from value.items() if model.is_object and isinstance(value, dict) else [(name, value)]
            continue
        arguments = [one for one in get_args(kind) if one is not type(None)]
        choice = arguments[0] if arguments else kind
        yield name, choice if isinstance(choice, str) else example_for(choice) or "prove"


def forms_of(origin: str, url: str, run: Run) -> Iterator[Asked]:
    """Yield the requests that the forms of a page make, with the cookies that it sets.

    origin  address of the site
    """
    page: Any = TestResponse(app_iter=[run.body], content_type="text/html", charset="utf-8")
    begin = page.html.base
    base = urljoin(origin + url, begin.get("href", "") if begin else "")
    for form in dict.fromkeys(page.forms.values()):  # one with an id is there twice
        path = of_this_site(origin, url, urljoin(base, form.action or origin + url))
        buttons = (field for _, field in form.field_order if isinstance(field, Submit))
        # a browser presses the first one that sends the form; if it is disabled, nothing is sent
        button = next((one for one in buttons if one.attrs.get("type") not in ("button", "reset")), None)
        if path is None or (button and "disabled" in button.attrs):
            continue
        is_multipart = form.enctype == "multipart/form-data"
        fields: list[tuple[str, Any]] = []
        tokens = []
        for name, value in form.submit_fields(button and button.name):
            field = form.fields[name][0]
            is_file = isinstance(value, Upload) or type(field).__name__ == "File"
            if is_multipart or not is_file:
                fields.append((name, FILE if is_file else filled(field, value)))
            if type(field).__name__ == "Hidden" and (is_secret(name) or str(value or ";") in run.cookies):
                tokens.append(name)
        kind = MULTIPART if is_multipart else FORM
        made = asked(form.method.upper(), path, fields, kind=kind, page=url)._replace(tokens=tuple(tokens))
        yield made.with_headers({"Cookie": run.cookies} if run.cookies and not made.is_safe else {})


def filled(field: Any, value: Any) -> str:
    """Return what a visitor writes into a field of a form: a text that is there already gets one more word."""
    text = str(value)
    if type(field).__name__ not in ("Text", "Textarea", "Field"):
        return text
    if not text:
        return str(EXAMPLES.get(field.attrs.get("type", ""), "prove"))
    return f"{text} prove" if " " in text or "\n" in text or type(field).__name__ == "Textarea" else text
