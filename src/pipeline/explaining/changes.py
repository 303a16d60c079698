"""The changes of an element to a request or a response, as text: a record keeps no object of the request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.http.noting import unnoted
from pipeline.telling.secrets import told, told_header, told_variable, value_of

COOKIE = "Set-Cookie"
BODY = "body of the request"
"""The name of the change if a part has read of the body."""
GONE = "(gone)"

TOLD = ("context", "view_name", "virtual_root_path")
"""The fields of the core that tell a reader something."""
UNTOLD = {
    *("zodb_pooled", "zope_walk", "zope_watcher", "ways", "asked", "logged"),
    *("closers_before", "inspected"),
}
"""Attributes of the request that say nothing to a person: elements add them for themselves."""

INTERNAL = {"pipeline.request", "pipeline.response", "pipeline.before", "wsgi.errors", "wsgi.input"}
INTERNAL |= {f"wsgi.{name}" for name in ("version", "multithread", "multiprocess", "run_once", "file_wrapper")}
"""Variables of the environ that say nothing to a person."""


def kept_environ(environ: Mapping[str, Any]) -> dict[str, str]:
    """Return an environ as text, without secrets."""
    return {name: told_variable(name, value) for name, value in environ.items() if name not in INTERNAL}


class State(NamedTuple):
    """The environ and the attributes of a request at one moment."""

    environ: Mapping[str, Any]
    added: Mapping[str, Any]
    """The attributes that elements have added, and those of the core that tell a reader something."""
    read: int
    """Bytes of the body that were read, as far as the pipeline's own reader knows."""


def state_of(request: Any) -> State:
    """Return the state of a request."""
    told_fields = {name: getattr(request, name) for name in TOLD}
    read = getattr(dict.get(request.environ, "wsgi.input"), "given", 0) if request.announces_body else 0
    return State(unnoted(request.environ).copy(), request.__dict__ | told_fields, read)


def told_state(request: Any) -> dict[str, str]:
    """Return what stands on a request, as text."""
    now = state_of(request)
    nothing = State(now.environ, dict.fromkeys(TOLD), 0)
    return kept_environ(now.environ) | changed_request(nothing, now)


def apply(state: Mapping[str, str], changed: Mapping[str, str]) -> dict[str, str]:
    """Return what stands on a request or a response after a change."""
    after = {**state, **changed}
    return {name: value for name, value in after.items() if value != GONE} if GONE in changed.values() else after


def same(one: Any, other: Any) -> bool:
    """Return whether two things are the same; those that cannot be compared are not."""
    try:
        return bool(one == other)
    except Exception:
        return False


def changed_request(before: State, now: State) -> dict[str, str]:
    """Return what is different on a request."""
    changed: dict[str, str] = {}
    if not same(before.environ, now.environ):
        new = {name: value for name, value in now.environ.items() if before.environ.get(name) is not value}
        changed |= kept_environ(new) | dict.fromkeys(before.environ.keys() - now.environ.keys() - INTERNAL, GONE)
    for name, value in now.added.items():
        if before.added.get(name, GONE) is not value and name not in UNTOLD and name[0] != "_":
            changed[f"request.{name}"] = value_of(name, value)
    if now.read != before.read:
        changed[BODY] = f"{now.read} bytes read"
    return changed


def kept_headers(headers: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the headers of an answer without secrets."""
    return [(name, told_header(name, value)) for name, value in headers]


def header_key(name: str, value: str) -> str:
    """Return the name of a header; with the name of the cookie for one that sets a cookie."""
    return f"{COOKIE} {value.partition('=')[0].strip()}" if name.lower() == "set-cookie" else name


Answer = tuple[str, Any, Any, list[tuple[str, str]]]
"""The status, the body, the output filters and the headers of a response."""
NO_ANSWER: tuple[Any, ...] = (None, None, (), [])


def changed_response(before: tuple[Any, ...], now: Answer) -> dict[str, str]:
    """Return what is different on a response since the part inside has answered."""
    was_status, was_body, was_filters, was = before
    status, body, filters, headers = now
    changed: dict[str, str] = {}
    if was_status != status:
        changed["status"] = status
    if headers != was:
        known = set(was)
        new = kept_headers([pair for pair in headers if pair not in known])
        changed |= {header_key(*pair): pair[1] for pair in new}
        left = {name for name, _ in headers}
        changed |= {name: GONE for name, _ in was if name not in left}
    if body is not was_body:
        changed["body"] = f"{sum(map(len, body))} bytes" if type(body) in (list, tuple) else told(body)
    if filters is not was_filters and filters:
        changed["output filters"] = ", ".join(map(told, filters))
    return changed
