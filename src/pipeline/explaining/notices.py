"""Notices of debug mode: a request that is answered, and has lost something without an error.

Each says what is lost, where, and what to do. They are warnings of the logger ``pipeline.notices``, and headers
``X-Notice`` for visitors who have the key of debug mode. In production nothing looks.
"""

from __future__ import annotations

import ast
import inspect
import json
import logging
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl, unquote_plus

from persistent import Persistent

from pipeline.database.stored import comparable
from pipeline.explaining.notices_of_pages import form_of, of_answer
from pipeline.explaining.notices_of_processes import (
    begin_with,
    changed,
    handlers_of,
    kept_objects,
    kept_of_visitor,
    plain_passwords,
    state_of,
    stored_as_sent,
)
from pipeline.explaining.remedies import NOTICES
from pipeline.explaining.slips import (
    asks_first,
    classes_of,
    fields_of,
    helpers_of,
    nodes_of,
    seems_to_store,
    slips_of,
    slips_of_handler,
)
from pipeline.names import is_name
from pipeline.options import resolve
from pipeline.publishing.steps import has_item
from pipeline.request import SAFE_METHODS
from pipeline.response import OK, Response
from pipeline.telling.words import place_of

log = logging.getLogger("pipeline.notices")

HEADER = "X-Notice"
MOST_OBJECTS = 2_000
"""Objects of a connection that are compared with the database, the last used first."""
SAY_SO = (409, 412, 422, 428)
"""Statuses that say to the visitor that nothing was stored, such as that of a form with errors."""
ONE = ("bool", "date", "datetime", "Decimal", "float", "int", "str")
"""The types of one value. A text or several values in its place are a slip, such as a comma behind it."""
MOST = 10
"""Notices of one request."""
FORMS = ("POST", "form", "params", "json", "body", "text")
"""The attributes of a request that have fields of a form."""
BUTTON = re.compile("(?i)^_|submit|save|send|action|button|csrf|token|next|came_from")
"""Pattern of the names of fields that no visitor fills."""
UNTICKED = ("", "0", "off", "no", "false")

names_of = lru_cache(maxsize=16)(lambda cls: frozenset(dir(cls)))
"""Returns the names of the attributes of a class of requests, or of responses."""
_listening: list[Any] = []
"""The state of a thread that its listeners look at, once this process has installed them."""


def begin_to_notice(request: Any) -> None:
    """Note what a notice compares with, before the view of a request is called. Raises nothing."""
    try:
        if request.environ["REQUEST_METHOD"] in SAFE_METHODS:
            request.__dict__.pop("_changed_before", None)  # of an earlier attempt
            request.add_traversal_hook(note_changes)
        elif request.views is not None:
            request._before_notices = state_of(request.views)
        begin_with(request)
        if "sqlalchemy.orm" in sys.modules and not _listening:
            _listening.append(resolve("pipeline.explaining.notices_of_sql:listen")())
        for here in _listening:
            here.wanted, here.left = True, ()
    except Exception:
        log.exception("%s: the notices could not be found out", request.path_info_safe)


def note_changes(request: Any, obj: Any) -> None:
    """Note who the visitor is, and whether something was changed until that was known, such as the hash of his
    password. This is a traversal hook."""
    if request.__dict__.get("_changed_before", ("", False))[0] != request.principal:
        changed = [one._registered_objects for one in connections_of(request)]
        changed += [one.new or one.dirty or one.info.get("pipeline.changed") for one in sessions_of(request)]
        request._changed_before = request.principal, any(changed)


def tell_notices(request: Any, response: Response, error: Exception | None = None) -> None:
    """Log the notices of a request that was answered, or of its error. Raises nothing."""
    for here in _listening:
        here.wanted = False
    try:
        is_error = response.status_line[0] >= "4" if error is None else getattr(error, "status_int", 500) >= 400
        told: list[str] = []
        if is_error and request.outcome == "committed" and not request.__dict__.get("commit_on_error"):
            told.append(NOTICES["committed before an error"])
        if error is None:
            told += [*islice(notices_of(request, response), MOST)] or [*stored_nothing(request, response)]
        for notice in told:
            log.warning("%s %s: %s", request.method, request.path_info_safe, notice)
            if request.debug:
                response.headers.add(HEADER, notice.encode("ascii", "backslashreplace").decode())
    except Exception:
        log.exception("%s: the notices could not be found out", request.path_info_safe)


def notices_of(request: Any, response: Response) -> Iterator[str]:
    """Yield the notices of a request, each in one line."""
    for handler, is_inside in handlers_of(request.pipeline):
        yield from slips_of_handler(handler, is_inside and request.outcome == "committed")
    yield from kept_of_visitor(request)
    yield from misspelt("request", request)
    yield from misspelt("response", response)
    view = view_of(request)
    if view:
        seen = seen_in(request, view.fill)
        kind, method = request.context.__class__, request.environ["REQUEST_METHOD"]
        yield from slips_of(view.function, kind, method, request.outcome, seen)
        function = inspect.unwrap(view.function)
        for one in classes_of(function, kind):
            yield from slips_of(one, kind, method, request.outcome)
        for helper in helpers_of(function):  # it may be called behind the commit
            yield from slips_of(helper, object, method)
        for notice in of_view(request, response, view, dict(seen).get("UNSENT", ())):
            yield f"{place_of(view.function)}: {notice}"
    elif request.views is not None and response.blocks == () and response.status_line is OK:
        yield NOTICES["no answer"]
    if _listening and request.environ["REQUEST_METHOD"] not in SAFE_METHODS:
        yield from resolve("pipeline.explaining.notices_of_sql:of_left")()
    for session in sessions_of(request):
        yield from session.info.get("pipeline.notices", ())
        dropped = session.info.get("pipeline.dropped")
        if dropped and (response.status[0] == "3" or request.outcome == "committed"):
            yield dropped
    # the code of ``pipeline shell`` takes the place of a view
    yield from of_objects(request, response, bool(view) or request.views is None)


def of_view(request: Any, response: Response, view: Any, unsent: Sequence[str]) -> Iterator[str]:
    """Yield the notices of what a view has done, beside those of its source."""
    yield from of_answer(request, response, view.function)
    if view.fill is not None:
        yield from of_fields(request, view, unsent)
    if "session_cookies" in request.__dict__:
        yield from of_session(request.session.data)
    if (before := request.__dict__.get("_before_notices")) is not None:
        yield from changed(before, request.views)
    if response.status[:3] in ("307", "308") and request.method == "POST" and request.outcome == "committed":
        yield NOTICES["a form that is sent again"].format(status=response.status)
    if request.environ["REQUEST_METHOD"] not in SAFE_METHODS:
        yield from kept_objects(view.function, connections_of(request))


def of_objects(request: Any, response: Response, called: bool) -> Iterator[str]:
    """Yield the notices of objects of a ZODB: what is lost of them, and what a GET has changed.

    called  whether a view was called
    """
    connections = connections_of(request)
    if request.environ["REQUEST_METHOD"] not in SAFE_METHODS:
        for connection in connections:
            yield from of_stored(request, connection)
        is_odd = response.status >= "400" and response.status_int not in SAY_SO
        if connections and is_odd and request.tm_in_use.undone and not sessions_of(request):
            yield NOTICES["dropped by a status"].format(status=response.status)
    elif request.outcome == "committed" and called and not is_by_login(request):
        roots = [(one.root()._p_serial, one.db().storage.lastTransaction()) for one in connections]
        if not any(changed == last for changed, last in roots):  # the first request of a site makes its root
            yield NOTICES["changed by a GET"]


def is_by_login(request: Any) -> bool:
    """Return whether a login has stored what a GET has changed, and no element of the site can have done so."""
    who, is_changed = request.__dict__.get("_changed_before", (request.principal, False))
    is_changed = is_changed or who != request.principal  # the object at the end of the path has users of its own
    return is_changed and not any(is_inside for _, is_inside in handlers_of(request.pipeline))


def connections_of(request: Any) -> list[Any]:
    pooled = getattr(request, "zodb_pooled", None)
    return [] if pooled is None else list(pooled.connection.connections.values())


def seen_in(request: Any, fill: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return what a request says of the names in the source of its view: words of patterns, and names for each."""
    empty = tuple([name for name, one in getattr(request.context, "__dict__", {}).items() if one is None])
    infos = [one.info for one in sessions_of(request)]
    raced = tuple(sorted({name for one in infos for name in one.get("pipeline.raced", ())})) if infos else ()
    if not (form := form_of(request)):
        return (("EMPTY", empty), ("RACED", raced))
    taken = {*getattr(fill, "names", ()), *dict(parse_qsl(request.environ.get("QUERY_STRING", ""), True))}
    # The text in front of a box, of a hidden field, is what is sent if the box is not ticked.
    several = [name for name, one in form.items() if isinstance(one, list) and one[1:] and one[0] not in UNTICKED]
    sent = [name for name in form if name not in taken]
    zeros = [name for name, one in form.items() if one in ("0", 0)]
    unsent = [one.name for one in getattr(fill, "arguments", ()) if one.default == "" and one.name not in form]
    found = {"EMPTY": empty, "RACED": raced, "SENT": sent, "SEVERAL": several, "UNSENT": unsent, "ZERO": zeros}
    return tuple((word, tuple(names)) for word, names in found.items())


def stored_nothing(request: Any, response: Response) -> Iterator[str]:
    """Yield that a view for POST seems to store what it was sent, and has changed nothing."""
    is_done = not request.outcome and request.method == "POST" and response.status[:3] in ("302", "303")
    if is_done and request.tm_in_use is not None and (view := view_of(request)):
        function = inspect.unwrap(view.function)
        sets = [one for one in nodes_of(function) if isinstance(getattr(one, "ctx", None), (ast.Store, ast.Del))]
        is_same = sessions_of(request) and any(isinstance(one, ast.Attribute) for one in sets)
        fields = tuple(getattr(view.fill, "names", ()))
        tries = fields or any(isinstance(one, ast.Name) and isinstance(one.ctx, ast.Del) for one in sets)
        is_kept = any("request.session" in ast.unparse(one) for one in sets)
        if tries and seems_to_store(function, fields) and not (is_same or is_kept):  # a column may be as before
            yield f"{place_of(function)}: {NOTICES['stored nothing'].format(name=function.__name__)}"


def of_fields(request: Any, view: Any, unsent: Sequence[str]) -> Iterator[str]:
    """Yield the fields that a view does not take, since their names are wrong, or they are the end of a value."""
    form, arguments = form_of(request), getattr(view.fill, "arguments", ())
    models = [fields_of(inspect.unwrap(view.function), one.name) for one in arguments if one.is_whole]
    names = {*getattr(view.fill, "names", ())}.union(*models)
    extra, missing = {*form} - names if all(models) else (), names - {*form}
    for name in extra:
        if near := get_close_matches(name, missing, 1, 0.75):
            yield f"the field {name!r} was sent, and not taken. Did you mean {near[0]!r}?"
        elif len(extra) == len(unsent) == 1 and request.method == "POST" and not BUTTON.search(name):
            nodes = nodes_of(inspect.unwrap(view.function))
            if not any(getattr(node, "attr", "") in FORMS for node in nodes):
                yield NOTICES["a field that is not taken"].format(name=name, near=unsent[0])
    for one in request.environ.get("QUERY_STRING", "").split("&")[1:]:
        if "=" not in one and not re.fullmatch(r"[a-z_][\w-]*|[A-Z]{2,}|\d*", one):  # a switch, such as &raw
            yield NOTICES["an ampersand in a query"].format(one=unquote_plus(one))
    for one in arguments if "form" in request.environ.get("CONTENT_TYPE", "") else ():
        if one.default is True and one.name not in form:
            yield f"{one.name} was not sent, as a box that is not ticked, and so is True. Let its default be False"


def of_session(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the session of a visitor keeps in another form, or should not keep."""
    for name, value in values.items():
        if re.search("(?i)passw|pwd|secret", name):
            yield f"session[{name!r}] can be read in the browser. Keep a hash of it, in the database"
        if value != json.loads(json.dumps(value)):
            yield f"session[{name!r}] comes back changed: JSON has lists and no tuples"


def view_of(request: Any) -> Any:
    """Return the view that the publisher has called, or None."""
    if request.views is None or request.context is None:
        return None
    method = request.environ["REQUEST_METHOD"]
    return request.views.find(request.context, request, "GET" if method == "HEAD" else method, request.view_name)


def sessions_of(request: Any) -> list[Any]:
    """Return the sessions of ``sql`` that a request has used."""
    kept = getattr(request.tm_in_use, "kept", {})
    return [one.session for one in kept.values() if hasattr(one, "session")]


def misspelt(what: str, one: Any) -> Iterator[str]:
    """Yield the attributes that were set on a request or a response and that it does not have, if one has nearly
    that name."""
    known = names_of(one.__class__)
    for name in one.__dict__.keys() - known:
        if name[0] != "_" and (near := get_close_matches(name, known, 1, 0.85)):
            yield f"{what}.{name} was set, and nothing reads it. Did you mean {what}.{near[0]}?"


def of_stored(request: Any, connection: Any) -> Iterator[str]:
    """Yield what the objects of a connection have and the database does not, and what this request has stored and
    most likely did not mean. The last used come first."""
    storage, reader = connection.db().storage, connection._reader
    last = storage.lastTransaction() if request.outcome == "committed" else None
    for oid, obj in reversed(connection._cache.lru_items()[-MOST_OBJECTS:]):
        kind, values = type(obj), getattr(obj, "__dict__", {})
        place = f"of {kind.__module__}.{kind.__qualname__}"
        cached = {name for name in values if isinstance(getattr(kind, name, None), cached_property)}
        for name in sorted(cached):
            yield f"{name} {place} is a cached_property: its old value stays, and is stored. Use property"
        if obj._p_changed is not False or obj._p_jar is not connection:
            continue
        record = storage.loadSerial(oid, obj._p_serial)
        names = differing(reader.getState(record), obj.__getstate__())
        if lost := ", ".join(name for name in names if name not in cached):
            yield NOTICES["changed in place"].format(lost=f"{lost} {place}")
        if obj._p_serial == last:
            before = storage.loadBefore(oid, last)
            old = loaded(reader, before[0]) if before else None
            sent = stored_as_sent(form_of(request), record)
            yield from plain_passwords(kind.__qualname__, {**sent, **values})
            yield from unlike(kind, values, getattr(old, "__dict__", {}))
            yield from misplaced(request, obj, old)
            if kind.__getstate__ is not Persistent.__getstate__ and values:
                again = vars(loaded(reader, record))
                for name in (name for name in values if name[0] != "_" and name not in cached):
                    if not is_same(values[name], again.get(name, getattr(kind, name, ...))):
                        yield NOTICES["left out by __getstate__"].format(name=name, place=place)


def loaded(reader: Any, record: bytes) -> Any:
    """Return an object as another process loads it from a record."""
    obj = reader.getGhost(record)
    obj.__setstate__(reader.getState(record))
    return obj


def unlike(kind: type, values: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[str]:
    """Yield the attributes of an object that have another type than they are annotated with or had before, and new
    ones that are spelled nearly like one of those before."""
    said = {name: type(value).__name__ for name, value in before.items() if value is not None}
    said |= {name: getattr(one, "__name__", one) for name, one in getattr(kind, "__annotations__", {}).items()}
    for name, value in values.items():
        was, now, place = said.get(name), type(value).__name__, f"{kind.__qualname__}.{name}"
        if was in ONE and now in ("dict", "list", "set", "str", "tuple") and now != was:
            yield NOTICES["a value of another type"].format(place=place, name=name, type=was, now=now)
    for name in values.keys() - before.keys() if before else ():
        turned = [one for one in before if sorted(one) == sorted(name)]  # for which difflib is too strict
        near = name if hasattr(kind, name) else [*turned, *get_close_matches(name, before, 1, 0.85), name][0]
        if not (name.startswith(near) or near.startswith(name)):
            yield NOTICES["a name that nothing reads"].format(name=name, near=near, kind=kind.__qualname__)


def misplaced(request: Any, obj: Any, old: Any) -> Iterator[str]:
    """Yield the name of an object that leads nowhere, or under which its parent does not have it, and the objects
    that it has replaced.

    old  the object as it was stored before, or None
    """
    parent: Any = getattr(obj, "__parent__", None)
    name, kind = getattr(obj, "__name__", None), type(obj).__qualname__
    before = getattr(old, "__parent__", parent)
    if isinstance(name, str) and parent is not None and ("/" in name or not is_name(name)):
        yield NOTICES["a name without an address"].format(kind=kind, name=name)
    elif name and hasattr(parent, "items") and not has_item(request, parent, name):
        for place in [key for key, one in islice(parent.items(), MOST_OBJECTS) if one is obj][:1]:
            yield NOTICES["another name than its own"].format(kind=kind, name=name, place=place)
    if before is not parent and is_mapping(before) and before.get(getattr(old, "__name__", None)) is obj:
        yield NOTICES["in two places"].format(kind=kind, name=name)
    view = view_of(request) if is_mapping(old) and request.method == "POST" else None
    if view and not asks_first(view.function):
        changed = [(name, one) for name, one in islice(old.items(), MOST_OBJECTS) if obj.get(name, one) is not one]
        for name, one in changed:
            if getattr(one, "__parent__", None) is obj and getattr(one, "__name__", None) == name:
                yield NOTICES["replaced"].format(kind=kind, name=name)


def is_mapping(obj: Any) -> bool:
    """Return whether the class of an object says that it has items; an attribute may be called so, too."""
    return all(callable(getattr(type(obj), name, None)) for name in ("get", "items"))


def differing(before: Any, now: Any) -> Iterator[str]:
    """Yield what differs between two states of an object: names of attributes, or that its content does."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in sorted({*before, *now}, key=str):
            if name not in before or name not in now or not is_same(before[name], now[name]):
                yield "its content" if name == "data" else str(name)
    elif not is_same(before, now):
        yield "its content"


def is_same(before: Any, now: Any) -> bool:
    """Return whether two values would be stored alike. A persistent object in them counts by its id."""
    try:  # a set may have another order
        alike = before is now or (type(before) is type(now) and bool(before == now))
    except Exception:  # of an ``__eq__`` of the site
        return False
    return alike or comparable(before) == comparable(now)
