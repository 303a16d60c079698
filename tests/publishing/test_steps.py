"""The one step function and its check: whatever a name comes from, it is judged alike (S1, S3, S14, S16)."""

from __future__ import annotations

import re
import xmlrpc.client
from collections.abc import Callable
from datetime import datetime
from itertools import islice
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from webob import Request as Sent
from webob.exc import HTTPException
from zope.interface import Interface, implementer

from pipeline import Pipeline, element, view
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.traverse import traverse
from pipeline.interfaces import (
    PUBLIC,
    IDefaultSteps,
    INamespace,
    INullResource,
    IPublishTraverse,
    IXMLRPCRequest,
)
from pipeline.names import check_name, is_name, is_segment
from pipeline.publisher import publisher
from pipeline.views import adapter

seen: list[str] = []
"""The names that an object, an adapter or a view of the site was given."""


class Folder(dict[str, Any]):
    published_attributes = ("_x", "__class__", "cover", "..")

    def __getitem__(self, name: str) -> Any:
        seen.append(name)
        return super().__getitem__(name)


class Room:
    """An object whose steps an adapter takes."""


class Leading(Folder):
    """Leads on to its default steps."""

    steps: tuple[str, ...] = ()


class Leaf:
    """Not a container."""


class Cover:
    """An attribute of a folder."""


Folder.cover = Folder._x = Cover()  # type: ignore[attr-defined]


@adapter(Room, IPublishTraverse)
@implementer(IPublishTraverse)
class Doors:
    def __init__(self, room: Room) -> None: ...

    def publishTraverse(self, request: Any, name: str) -> Any:
        seen.append(name)
        if name in ("inner", "_x"):
            return Folder(note=Leaf())
        raise KeyError(name)


@adapter(Leading, IDefaultSteps)
@implementer(IDefaultSteps)
class Steps:
    def __init__(self, context: Leading) -> None:
        self.context = context

    def default_steps(self, request: Any) -> tuple[str, ...]:
        return self.context.steps


@adapter(Interface, INamespace, name="own")
@implementer(INamespace)
class Own:
    """A namespace of somebody else, which checks nothing."""

    def __init__(self, context: Any) -> None:
        self.context = context

    def step(self, request: Any, name: str) -> Any:
        seen.append(name)
        return self.context[name]


@adapter(Folder, INullResource)
class New:
    def __init__(self, folder: Folder) -> None: ...

    def __setattr__(self, attribute: str, name: str) -> None:
        seen.append(name)
        super().__setattr__(attribute, name)


@view(context=New, methods=("PUT",), permission=PUBLIC)
def put(context: Any, request: Any) -> str:
    return f"new {context.__name__}"


@view(context=Leaf, methods=("GET", "PUT"), permission=PUBLIC)
@view(context=Folder, permission=PUBLIC)
@view(context=Cover, permission=PUBLIC)
def show(context: Any, request: Any) -> str:
    return f"{type(context).__name__} {request.subpath}"


@view(context=Folder, name="edit", methods=("GET", "POST"), permission=PUBLIC)
def edit(context: Any, request: Any) -> str:
    return f"edit {request.subpath}"


@view(context=Interface, name="kind", methods=("POST",), request_type=IXMLRPCRequest, permission=PUBLIC)
def kind(context: Any, request: Any) -> str:
    return type(context).__name__


@view(context=Interface, name="echo", methods=("POST",), request_type=IXMLRPCRequest, permission=PUBLIC)
def echo(context: Any, request: Any, value: Any) -> Any:
    return value


@view(context=Interface, name="shown", methods=("POST",), request_type=IXMLRPCRequest, permission=PUBLIC)
def shown(context: Any, request: Any, value: Any) -> str:
    return repr(value)


@view(context=Interface, name="items", methods=("POST",), request_type=IXMLRPCRequest, permission=PUBLIC)
def items(context: Any, request: Any, start: int) -> Any:
    return list(islice(range(10), start, None))


SCAN = (__name__, "pipeline.publishing.namespaces", "pipeline.publishing.xmlrpc")
BAD = {"_x": 404, "__class__": 404, "..": 400, "x\0y": 400}
"""Names that are never reached, and the status that says so."""


def new_root() -> Folder:
    """Return a root that has an item of each name."""
    root = Folder({name: Leaf() for name in (*BAD, ".", "a/b", "note", "edit")})
    root["sub"] = Folder(root, sub=Folder(note=Leaf()))
    root["room"] = Room()
    return root


def pipeline(root: Any, *outer: Any, request_type: Any = None) -> Pipeline:
    walk = traverse(root=lambda: root, request_type=request_type)
    return Pipeline(errors(), forms(), *outer, walk, publisher(scan=SCAN))


@element(outside={"traverse": "it sets what traversal starts with"})
def before(next: Any, *, call: Callable[[Any], None]) -> Any:
    """Call a function with the request ahead of traversal."""

    def before(request: Any, response: Any) -> None:
        call(request)
        next(request, response)

    return before


def ask(path: str, root: Any = None, *outer: Any, **options: Any) -> tuple[int, str]:
    app = pipeline(new_root() if root is None else root, *outer)
    seen.clear()
    answer = Sent.blank(path, **options).get_response(app)
    return answer.status_int, answer.text


def in_path(before: str, after: str = "") -> Callable[[str], tuple[int, str]]:
    return lambda name: ask(f"/{before}{quote(name)}{after}")


def by_form(method: str, path: str, field: str) -> Callable[[str], tuple[int, str]]:
    def by_form(name: str) -> tuple[int, str]:
        fields = field.format(quote(name, safe=""))
        if method == "POST":
            return ask(path, method=method, body=fields.encode(), content_type="application/x-www-form-urlencoded")
        return ask(f"{path}?{fields}", method=method)

    return by_form


def by_default_steps(*steps: str) -> Callable[[str], tuple[int, str]]:
    def by_default_steps(name: str) -> tuple[int, str]:
        root = Leading(dict(new_root()))
        root.steps = tuple(step.format(name) for step in steps)
        return ask("/", root)

    return by_default_steps


def by_hook(path: str, *steps: str) -> Callable[[str], tuple[int, str]]:
    """A hook of the second object of the path, or of the root, adds steps."""

    def by_hook(name: str) -> tuple[int, str]:
        root = new_root()
        place = root if path == "/" else dict.__getitem__(root, "sub")

        def lead(request: Any, obj: Any) -> None:
            if obj is place:
                request.add_steps(*(step.format(name) for step in steps))

        return ask(path, root, before(call=lambda request: request.add_traversal_hook(lead)))

    return by_hook


def by_virtual_root(*path: str) -> Callable[[str], tuple[int, str]]:
    def by_virtual_root(name: str) -> tuple[int, str]:
        def set_path(request: Any) -> None:
            request.virtual_root_path = tuple(step.format(name) for step in path)

        return ask("/note", None, before(call=set_path))

    return by_virtual_root


def call(method: str, *parameters: Any, root: Any = None, outer: Any = (), body: str = "") -> tuple[int, Any]:
    """Return the status, also of a fault, and the result."""
    app = pipeline(new_root() if root is None else root, *outer, request_type=IXMLRPCRequest)
    seen.clear()
    text = body or f"<methodCall><methodName>{method}</methodName><params/></methodCall>"
    if parameters:
        text = xmlrpc.client.dumps(parameters, method)
    answer = Sent.blank("/", method="POST", body=text.encode(), content_type="text/xml").get_response(app)
    if answer.status_int != 200:
        return answer.status_int, answer.text
    try:
        return 200, xmlrpc.client.loads(answer.body)[0][0]
    except xmlrpc.client.Fault as fault:
        return fault.faultCode, fault.faultString


WAYS: dict[str, Callable[[str], tuple[int, str]]] = {
    "segment": in_path(""),
    "segment, then a view": in_path("", "/edit"),
    "segment below": in_path("sub/"),
    "segment of an adapter": in_path("room/"),
    "behind a view": in_path("@@edit/"),
    "@@": in_path("@@"),
    "++view++": in_path("++view++"),
    "++item++": in_path("++item++"),
    "++item++ below": in_path("sub/++item++", "/edit"),
    "++attribute++": in_path("++attribute++"),
    "++etc++": in_path("++etc++"),
    "++skin++": in_path("++skin++"),
    "++own++": in_path("++own++"),
    "++own++ behind a view": in_path("@@edit/++own++"),
    "++own++ in an adapter": in_path("room/inner/++own++"),
    "an unknown namespace": in_path("++nobody++"),
    ":method": by_form("POST", "/", ":method={}"),
    ":action": by_form("POST", "/sub/", ":action={}"),
    "name:method": by_form("POST", "/", "{}:method=x"),
    "null resource": by_form("PUT", "/", "{}:method="),
    "null resource by its value": by_form("PUT", "/sub/", ":method={}"),
    "null resource by its path": lambda name: ask(f"/{quote(name)}", method="PUT"),
    "null resource by @@": lambda name: ask(f"/@@{quote(name)}", method="PUT"),
    "default step": by_default_steps("{}"),
    "default step, the last": by_default_steps("sub", "{}"),
    "default step behind a view": by_default_steps("@@edit", "{}"),
    "default step in a namespace": by_default_steps("++own++{}"),
    "step of a hook": by_hook("/", "{}"),
    "step of a hook below": by_hook("/sub/note", "{}"),
    "step of a hook in a namespace": by_hook("/sub/note", "++own++{}"),
    "virtual root": by_virtual_root("{}"),
    "virtual root below": by_virtual_root("sub", "{}"),
    "virtual root in a namespace": by_virtual_root("sub", "++own++{}"),
    "XML-RPC step": lambda name: call(f"{name}.kind"),
    "XML-RPC step below": lambda name: call(f"sub.{name}.kind"),
    "XML-RPC step of an adapter": lambda name: call(f"room.{name}.kind"),
    "XML-RPC namespace": lambda name: call(f"++own++{name}.kind"),
    "XML-RPC method": lambda name: call(f"sub.{name}"),
}


def sends(way: str, name: str) -> bool:
    """Return whether a name can be sent that way: XML has no NUL, a dot in a method and a slash in a path part."""
    if "XML-RPC" in way:
        return not {".", "\0"} & set(name)
    in_path = way.startswith(("segment", "@@", "++", "behind", "an unknown")) or way.endswith(("path", "by @@"))
    return not (in_path and "/" in name)


@pytest.mark.parametrize(("way", "name"), [(way, name) for way in WAYS for name in BAD if sends(way, name)])
def test_a_name_that_is_refused_is_never_reached(way: str, name: str) -> None:
    """S3 and S14, wherever the name comes from: no object, adapter or view is given it."""
    status, text = WAYS[way](name)
    assert (status, set(seen) & set(BAD)) == (BAD[name], set()), text


SLASHES = ["a/b", "../x", "sub/note"]


@pytest.mark.parametrize(("way", "name"), [(way, name) for way in WAYS for name in SLASHES if sends(way, name)])
def test_a_slash_is_never_in_a_name(way: str, name: str) -> None:
    status, text = WAYS[way](name)
    assert status == 404 and name not in seen, text


@pytest.mark.parametrize("way", [way for way in WAYS if "hook" in way or "default" in way or "root" in way])
def test_a_dot_is_not_a_step_either(way: str) -> None:
    status, text = WAYS[way](".")
    assert status == 400 and "." not in seen, text


@pytest.mark.parametrize("way", WAYS)
def test_the_ways_lead_to_other_names(way: str) -> None:
    """The control of the tests above."""
    name = {
        "@@": "edit",
        "++view++": "edit",
        "++attribute++": "cover",
        ":method": "edit",
        ":action": "edit",
        "name:method": "edit",
        "segment of an adapter": "inner",
        "XML-RPC step of an adapter": "inner",
        "XML-RPC method": "kind",
        "null resource": "fresh",
        "null resource by its value": "fresh",
        "null resource by its path": "fresh",
        "null resource by @@": "fresh",
        "++own++ in an adapter": "note",
    }.get(way, "sub")
    status, text = WAYS[way](name)
    if way in ("++etc++", "++skin++", "an unknown namespace"):
        assert status == 404
    else:
        assert status in (200, 302), text


@pytest.mark.parametrize("path", ["/note", "/@@note", "/?note:method=", "/?:method=note"])
def test_put_makes_nothing_where_something_is(path: str) -> None:
    """A name that a form or ``@@`` gives is no way around the view of the object that is there."""
    status, text = ask(path, method="PUT")
    assert "new" not in text and (status == 200) == (path == "/note")


@pytest.mark.parametrize("path", ["/++own++", "/sub/++own++/note", "/++own++?x=1"])
def test_a_namespace_is_never_entered_without_a_value(path: str) -> None:
    root = new_root()
    root[""] = Leaf()
    assert ask(path, root)[0] == 404 and "" not in seen


@pytest.mark.parametrize("method", ["GET", "PUT"])
@pytest.mark.parametrize("path", ["/", "/note", "/x"])
@pytest.mark.parametrize("top", [("nothing",), ("sub", "nothing"), ("@@edit",), ("nothing", "sub")])
def test_a_virtual_root_that_is_not_there_is_404(top: tuple[str, ...], path: str, method: str) -> None:
    """Its name is not that of a view, and a PUT makes nothing of that name."""
    setting = before(call=lambda request: setattr(request, "virtual_root_path", top))
    assert ask(path, None, setting, method=method)[0] == 404


# Hooks


def test_steps_of_a_hook_in_the_middle_of_the_path() -> None:
    """They are taken before the rest of the path, and the hooks see their objects."""
    root, trail = new_root(), []
    sub = dict.__getitem__(root, "sub")
    sub["inner"] = inner = Folder(note=Leaf(), last=Folder())

    def lead(request: Any, obj: Any) -> None:
        trail.append(obj)
        if obj is sub:
            request.add_steps("inner")

    hooking = before(call=lambda request: request.add_traversal_hook(lead))
    assert ask("/sub/note", root, hooking) == (200, "Leaf ()")
    assert trail == [root, sub, inner, inner["note"]]
    assert ask("/sub/edit/x", root, hooking) == (200, "edit ('x',)")
    trail.clear()
    assert ask("/sub/", root, hooking)[0] == 200 and trail == [root, sub, inner]
    assert call("sub.last.kind", root=root, outer=(hooking,)) == (200, "Folder")


def test_xmlrpc_steps_are_those_of_a_path() -> None:
    """Adapters take them, the hooks see them, and a namespace is entered at most once (S16)."""
    root, trail = new_root(), []
    hooking = before(call=lambda request: request.add_traversal_hook(lambda request, obj: trail.append(obj)))
    assert call("room.inner.note.kind", root=root, outer=(hooking,)) == (200, "Leaf")
    assert [type(obj) for obj in trail] == [Folder, Room, Folder, Leaf]
    assert call("++item++note.kind") == (200, "Leaf")
    assert call("++own++sub.++own++note.kind")[0] == 400
    assert call("@@kind.kind")[0] == 404
    assert call("++item++kind")[0] == 404
    assert call("a..kind")[0] == call(".kind")[0] == 404


def test_xmlrpc_steps_are_limited() -> None:
    """S16."""
    root = Folder()
    root["a"] = root
    assert call("a." * 128 + "kind", root=root) == (200, "Folder")
    assert call("a." * 129 + "kind", root=root)[0] == 400


# The parameters of a call


@pytest.mark.parametrize("method", ["echo", "items"])
@pytest.mark.parametrize("kind", ["int", "i4", "i8", "biginteger"])
@pytest.mark.parametrize("number", [10**21, -(10**21), 2**63, 2**63 - 1, 2**31, -(2**31) - 1])
@pytest.mark.parametrize("around", ["{}", "<array><data><value>{}</value></data></array>"])
def test_a_number_that_is_too_large_for_xmlrpc_is_400(method: str, kind: str, number: int, around: str) -> None:
    """A view would use it as an index, or return it: both were a 500."""
    value = around.format(f"<{kind}>{number}</{kind}>")
    body = f"<methodName>{method}</methodName><params><param><value>{value}</value></param></params>"
    status, text = call("", body=f"<methodCall>{body}</methodCall>")
    assert (status, "32 bits" in text) == (400, True)


@pytest.mark.parametrize("number", [0, 2**31 - 1, -(2**31)])
def test_a_number_of_32_bits_comes_back(number: int) -> None:
    assert call("echo", [{"n": number}]) == (200, [{"n": number}])


@pytest.mark.parametrize(
    "sent",
    ["20240229T23:59:58", "2024-02-29T23:59:58", "20240229T235958", "2024-02-29T23:59:58Z",
     " 20240229T235958+01:00", "2024-02-29T23:59:58.125", "2024-02-29T23:59", "2024-02-30T23:59:58",
     "2024-02-29", "now"],
)  # fmt: skip
def test_dates_in_every_form_of_iso_8601(sent: str) -> None:
    value = f"<value><dateTime.iso8601>{sent}</dateTime.iso8601></value>"
    body = f"<methodName>shown</methodName><params><param>{value}</param></params>"
    status, text = call("", body=f"<methodCall>{body}</methodCall>")
    try:
        expected = datetime.fromisoformat(sent.strip()) if "T" in sent else None
    except ValueError:
        expected = None
    assert (status, text) == (200, repr(expected)) if expected else status == 400


def nested(depth: int, before: str, after: str) -> str:
    value = before * depth + "<int>1</int>" + after * depth
    value = f"<params><param><value>{value}</value></param></params>"
    return f"<methodCall><methodName>echo</methodName>{value}</methodCall>"


@pytest.mark.parametrize("depth", [100, 101, 500, 10_000])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<array><data><value>", "</value></data></array>"),
        ("<struct><member><name>a</name><value>", "</value></member></struct>"),
    ],
)
def test_nesting_is_limited(depth: int, before: str, after: str) -> None:
    status, _ = call("", body=nested(depth, before, after))
    assert status == (200 if depth <= 100 else 400)


@pytest.mark.parametrize("around", ["{}", "<array><data><value>{}</value></data></array>"])
def test_the_names_of_a_struct_are_text(around: str) -> None:
    value = around.format("<struct><value><int>1</int></value><value><int>2</int></value></struct>")
    params = f"<params><param><value>{value}</value></param></params>"
    status, text = call("", body=f"<methodCall><methodName>echo</methodName>{params}</methodCall>")
    assert (status, "not a string" in text) == (400, True)


# The check


def expected(name: str) -> int:
    """The rule, written down another way: status of what is refused, 0 for nothing."""
    value = re.sub(r"\A(@@|\+\+[^+/]+\+\+)", "", name)
    if "/" in name or not name:
        return 404
    if "\0" in name:
        return 400
    if name[0] == "_" or value[:1] == "_":
        return 404
    return 400 if {name, value} & {".", ".."} else 0


_names = st.text(st.sampled_from("_.@+/\0ax\n\u00e9"), max_size=8) | st.text(max_size=5)


@given(_names)
def test_the_check_and_what_is_built_on_it(name: str) -> None:
    try:
        check_name(name)
    except HTTPException as error:
        assert error.wsgi_response.status_int == expected(name)
    else:
        assert expected(name) == 0
    assert is_segment(name) == (expected(name) == 0)
    assert is_name(name) == (is_segment(name) and re.match(r"@@|\+\+[^+/]+\+\+", name) is None)


@given(st.lists(_names.map(lambda name: name.replace("/", "")), max_size=5))
def test_a_path_is_refused_as_its_names_are(names: list[str]) -> None:
    statuses = [expected(name) for name in names if name not in ("", ".")]
    path = quote("/" + "/".join(names), safe="/", errors="replace")
    status, _ = ask(path, Folder())
    assert (status in statuses) if any(statuses) else status in (200, 302, 404), (status, statuses)
