"""``traverse``: from the path to the context, denying by default (S1, S3, S4, S8, S14, S16)."""

from __future__ import annotations

import collections
import datetime
import enum
import functools
import inspect
import re
import types
from collections.abc import Callable
from typing import Any
from urllib.parse import urljoin

import pytest
from persistent.list import PersistentList
from persistent.mapping import PersistentMapping
from webob import Request
from ZODB.POSException import POSKeyError
from zope.interface import Interface, alsoProvides, implementer

from pipeline import Pipeline, element
from pipeline.composition import Element, Offers
from pipeline.elements.errors import errors
from pipeline.elements.traverse import LONGEST_KEPT, MOST_KEPT, traverse
from pipeline.interfaces import ConfigurationError, IPublishTraverse, IRequest
from pipeline.publishing.kinds import CONTAINER, DENIED, LEAF, TRAVERSER, kind_of
from pipeline.views import Views


class Folder(dict[str, Any]):
    """A container."""


class Leaf:
    """No container; what it has is nobody's business."""

    attribute = "secret"

    def method(self) -> str:
        return "secret"


LEAF_ = Leaf()
DEEP = Folder(c=LEAF_)
ROOT = Folder(a=Folder(b=DEEP), leaf=LEAF_, **{"é": LEAF_, "a b": LEAF_, "@x": LEAF_, "a.b": LEAF_})


@element(requires=("context",))
def show(*, views: Any = None) -> Any:
    """The end of the pipeline: says what it was given."""

    def show(request: Any, response: Any) -> None:
        seen.append(request)
        response.content_type = "text/plain"
        response.text = f"{request.view_name}|{'/'.join(request.subpath)}"

    return Offers(show, views=views)


seen: list[Any] = []


def site(root: Any = ROOT, *inner: Element, views: Views | None = None, **options: Any) -> Pipeline:
    return Pipeline(errors(), traverse(root=lambda: root, **options), *inner, show(views=views))


SITE = site()


def ask(path: str | None, app: Any = SITE, method: str = "GET", query: str = "", **extra: str) -> Any:
    """The answer for a path that the server has decoded; None is no PATH_INFO at all."""
    seen.clear()
    environ = {"QUERY_STRING": query, "PATH_INFO": path, "SCRIPT_NAME": "", **extra}
    request = Request.blank("/", environ={k: v for k, v in environ.items() if v is not None}, method=method)
    if path is None:
        del request.environ["PATH_INFO"]
    return request.get_response(app)


def reached(path: str | None, app: Any = SITE, **options: Any) -> Any:
    """Context, view name and subpath for a path."""
    answer = ask(path, app, **options)
    assert answer.status_int == 200, answer
    [request] = seen
    return request.context, request.view_name, request.subpath


def latin(text: str) -> str:
    """A path as a server hands it over (PEP 3333)."""
    return text.encode().decode("latin-1")


WALKS: list[tuple[str | None, Any, str, tuple[str, ...]]] = [
    ("/", ROOT, "", ()),
    ("//", ROOT, "", ()),
    ("/a/", ROOT["a"], "", ()),
    ("/a/b/", DEEP, "", ()),
    ("/a/b/c", LEAF_, "", ()),
    ("/a/b/c/", LEAF_, "", ()),
    ("//a///b//c", LEAF_, "", ()),
    ("/./a/./b/c", LEAF_, "", ()),
    ("/a/b/./", DEEP, "", ()),
    ("a/b/c", LEAF_, "", ()),
    ("/view", ROOT, "view", ()),
    ("/a/view", ROOT["a"], "view", ()),
    ("/a/view/x/y", ROOT["a"], "view", ("x", "y")),
    ("/a/view//x/./y/", ROOT["a"], "view", ("x", "y")),
    ("/leaf/view", LEAF_, "view", ()),
    ("/leaf/view/a/b", LEAF_, "view", ("a", "b")),
    ("/leaf/attribute", LEAF_, "attribute", ()),
    ("/@@a", ROOT, "a", ()),
    ("/a/@@b/c", ROOT["a"], "b", ("c",)),
    ("/a/b/c/@@view/@@x", LEAF_, "view", ("@@x",)),
    ("/++view++a/b", ROOT, "a", ("b",)),
    ("/a/@@", ROOT["a"], "", ()),
    ("/@x", LEAF_, "", ()),
    ("/a.b", LEAF_, "", ()),
    ("/...", ROOT, "...", ()),
    ("/..x", ROOT, "..x", ()),
    ("/.x", ROOT, ".x", ()),
    ("/a b", LEAF_, "", ()),
    (latin("/é"), LEAF_, "", ()),
    (latin("/é/ü"), LEAF_, "ü", ()),
    (latin("/\u20ac/\U0001f600"), ROOT, "\u20ac", ("\U0001f600",)),
    ("/%5Fx", ROOT, "%5Fx", ()),  # decoded once by the server, and never again
    ("/%2e%2e", ROOT, "%2e%2e", ()),
    ("*", ROOT, "*", ()),
    ("http://elsewhere/a", ROOT, "http:", ("elsewhere", "a")),
]


@pytest.mark.parametrize(("path", "context", "view_name", "subpath"), WALKS)
def test_a_path_that_leads_somewhere(
    path: str, context: Any, view_name: str, subpath: tuple[str, ...]
) -> None:
    assert reached(path) == (context, view_name, subpath)


@pytest.mark.parametrize("path", ["", None])
def test_no_path_at_all_is_the_root(path: str | None) -> None:
    assert reached(path) == (ROOT, "", ())


REFUSED: list[tuple[str, int]] = [
    # S3: after decoding, wherever it stands
    ("/_x", 404),
    ("/_", 404),
    ("_x", 404),
    ("/__class__", 404),
    ("/a/__getitem__/b", 404),
    ("/a/b/c/__class__/__init__/__globals__", 404),
    ("/leaf/view/_x", 404),
    ("//_x", 404),
    ("/./_x", 404),
    ("/@@view/_x", 404),
    # S14
    ("/..", 400),
    ("/../a", 400),
    ("/a/../a", 400),
    ("/a/..", 400),
    ("..", 400),
    ("/a/view/..", 400),
    ("/@@view/../x", 400),
    ("/a\0", 400),
    ("/\0", 400),
    ("/a/view/x\0y", 400),
    ("/\xff", 400),
    ("/\xc3", 400),
    ("/a/\xe9", 400),
    ("/\xc0\xaf", 400),  # an overlong slash
    ("/\xc0\xae\xc0\xae/", 400),  # overlong dots
    ("/\xe0\x80\xaf", 400),
    ("/\xed\xa0\x80", 400),  # a surrogate
    ("/\xf4\x90\x80\x80", 400),  # beyond Unicode
    ("/\xff/_x", 400),
    ("/\u20ac", 400),  # no latin-1: a server that breaks PEP 3333
]


@pytest.mark.parametrize(("path", "status"), REFUSED)
def test_a_path_that_is_refused(path: str, status: int) -> None:
    hooked: list[Any] = []

    @element(outside={"traverse": "test"})
    def hook(next: Any) -> Any:
        def hook(request: Any, response: Any) -> None:
            request.add_traversal_hook(lambda request, obj: hooked.append(obj))
            next(request, response)

        return hook

    opened: list[bool] = []
    app = Pipeline(errors(), hook(), traverse(root=lambda: opened.append(True) or ROOT), show())
    answer = ask(path, app)
    assert answer.status_int == status and seen == []
    assert hooked == [] and opened == [], "nothing has seen it, and no database was opened for it"


# S16


@pytest.mark.parametrize(
    ("segments", "status"), [(1, 200), (127, 200), (128, 200), (129, 414), (1000, 414), (10_000, 414)]
)
@pytest.mark.parametrize("segment", ["x", "", "@@x", ".", "a"])
@pytest.mark.parametrize("slash", ["", "/"])
def test_the_number_of_segments_is_limited(segments: int, status: int, segment: str, slash: str) -> None:
    """The trailing slash is not a segment."""
    path = "/" + "/".join([segment] * segments) + (slash if segment else "/")
    assert ask(path, method="POST").status_int == status


def test_the_limit_can_be_chosen() -> None:
    app = site(max_segments=2)
    assert ask("/x/y", app).status_int == 200 and ask("/x/y/z", app).status_int == 414


def test_paths_that_clients_invent_do_not_fill_the_memory() -> None:
    """Paths are kept once parsed: few, short, and none that is refused."""
    app = site()
    handler = inspect.getclosurevars(app.handler).nonlocals["next"]  # of errors
    kept = inspect.getclosurevars(handler).nonlocals["paths"]
    for number in range(3 * MOST_KEPT):
        assert ask(f"/a/{number}", app).status_int == 200
        assert len(kept) <= MOST_KEPT
    ask("/a/b/c", app)
    before = kept.copy()
    for path in ("/" + "x" * LONGEST_KEPT, "/a/../b", "/_x", "/\0", "/\xff", "/x" * 200):
        ask(path, app)
        assert kept == before
    assert reached("/a/b/c", app) == reached("/a/b/c", app) == (LEAF_, "", ())


# S1 and S4


def function() -> str:
    return "secret"


class Klass:
    def method(self) -> str:
        return "secret"

    @classmethod
    def of_class(cls) -> str:
        return "secret"

    @property
    def prop(self) -> str:
        return "secret"


class Colour(enum.Enum):
    RED = 1


class IFace(Interface):
    """An interface."""


def generator() -> Any:
    yield "secret"


CODE: dict[str, Any] = {
    "module": re,
    "class": Klass,
    "builtin class": dict,
    "metaclass": type,
    "enum class": Colour,
    "interface": IFace,
    "generic": dict[str, str],
    "function": function,
    "lambda": lambda: "secret",
    "builtin": len,
    "bound method": Klass().method,
    "class method": Klass.of_class,
    "builtin method": {}.get,
    "method descriptor": str.upper,
    "slot wrapper": object.__init__,
    "method wrapper": [].__len__,
    "class method descriptor": vars(dict)["fromkeys"],
    "getset descriptor": types.FunctionType.__code__,
    "property": vars(Klass)["prop"],
    "raw class method": vars(Klass)["of_class"],
    "partial": functools.partial(function),
    "cached function": functools.lru_cache(function),
    "code": function.__code__,
    "generator": generator(),
}


@pytest.mark.parametrize("what", CODE)
@pytest.mark.parametrize("path", ["/x", "/x/", "/x/y", "/x/@@view", "/folder/x", "/folder/x/y/z"])
def test_code_is_never_published(what: str, path: str) -> None:
    """S1: at no step, be it the last or not."""
    assert kind_of(type(CODE[what])) == DENIED
    app = site(Folder(x=CODE[what], folder=Folder(x=CODE[what])))
    assert ask(path, app).status_int == 404 and seen == []


class Callable_:
    def __call__(self) -> str:
        return "called"


LEAVES: list[Any] = [
    "text",
    b"bytes",
    bytearray(b"x"),
    [1],
    (1,),
    range(3),
    3,
    None,
    {1, 2},
    object(),
    Leaf(),
    Colour.RED,
    Callable_(),
    datetime.date(2026, 1, 1),
    collections.deque([1]),
    collections.UserList([1]),
    collections.UserString("text"),
    PersistentList([1]),
    collections.namedtuple("Point", "x")(1),
]


@pytest.mark.parametrize("leaf", LEAVES)
@pytest.mark.parametrize("name", ["0", "x", "upper", "append", "attribute", "name", "count", "-1", ":"])
def test_what_is_no_container_has_no_items(leaf: Any, name: str) -> None:
    """S4: attributes are never walked, and text and sequences are no containers."""
    context, view_name, _ = reached(f"/x/{name}", site(Folder(x=leaf)))
    assert context is leaf and view_name == name
    assert reached("/x", site(Folder(x=leaf)))[0] is leaf, "and is not redirected to a slash"


class NoItems(Folder):
    __getitem__ = None  # type: ignore[assignment]


CONTAINERS: list[Any] = [
    {"x": LEAF_},
    Folder(x=LEAF_),
    collections.OrderedDict(x=LEAF_),
    collections.defaultdict(None, x=LEAF_),
    collections.UserDict(x=LEAF_),
    collections.ChainMap({"x": LEAF_}),
    types.MappingProxyType({"x": LEAF_}),
    PersistentMapping(x=LEAF_),
]


@pytest.mark.parametrize("container", CONTAINERS)
def test_containers(container: Any) -> None:
    assert kind_of(type(container)) == CONTAINER
    assert reached("/c/x", site({"c": container})) == (LEAF_, "", ())
    assert reached("/c/keys", site({"c": container})) == (container, "keys", ())
    assert ask("/c", site({"c": container})).status_int == 302


def test_a_class_that_has_taken_its_items_back() -> None:
    assert kind_of(NoItems) == LEAF


def test_items_of_the_instance_alone_do_not_count() -> None:
    leaf = Leaf()
    leaf.__getitem__ = lambda name: LEAF_  # type: ignore[attr-defined]
    assert reached("/x/y", site({"x": leaf})) == (leaf, "y", ())


class Failing:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def __getitem__(self, name: str) -> Any:
        raise self.error


class SomeLookupError(LookupError):
    """Of an application."""


@pytest.mark.parametrize("error", [KeyError("x"), IndexError(), LookupError(), SomeLookupError()])
def test_an_item_that_is_not_there_is_a_view_name(error: Exception) -> None:
    failing = Failing(error)
    assert reached("/f/x", site({"f": failing})) == (failing, "x", ())


@pytest.mark.parametrize("error", [POSKeyError(b"\0" * 8), ZeroDivisionError(), AttributeError("x")])
def test_an_error_is_no_missing_page(error: Exception) -> None:
    """A lost object is a KeyError for ZODB, and must not look like a 404."""
    assert ask("/f/x", site({"f": Failing(error)})).status_int == 500


# IPublishTraverse


@implementer(IPublishTraverse)
class Traverser:
    """Walks by itself."""

    def __init__(self, thing: Any = None) -> None:
        self.thing = thing

    def publishTraverse(self, request: Any, name: str) -> Any:
        if name == "none":
            raise KeyError(name)
        if name == "code":
            return function
        return f"{name} of {type(self.thing).__name__}"

    def __getitem__(self, name: str) -> Any:
        raise AssertionError("it is not asked for items")


def test_a_class_that_traverses_by_itself() -> None:
    assert kind_of(Traverser) == TRAVERSER
    app = site({"t": Traverser()})
    assert reached("/t/x", app)[0] == "x of NoneType"
    assert reached("/t/none/y", app)[1:] == ("none", ("y",))
    assert ask("/t", app).status_int == 302, "as a container"


def views_with(*adapters: tuple[Any, Any]) -> Views:
    views = Views()
    for adapts, factory in adapters:
        views.add_adapter(factory, adapts, IPublishTraverse)
    return views


def test_an_adapter_takes_the_step() -> None:
    app = site({"leaf": LEAF_, "folder": Folder(x=LEAF_)}, views=views_with((Leaf, Traverser)))
    assert reached("/leaf/x", app)[0] == "x of Leaf"
    assert reached("/leaf/none", app)[1] == "none"
    assert reached("/folder/x", app)[0] is LEAF_, "others are not concerned"


def test_an_adapter_beats_items_and_the_most_specific_one_wins() -> None:
    class Special(Traverser):
        def publishTraverse(self, request: Any, name: str) -> Any:
            return "special"

    class SubFolder(Folder):
        """More specific."""

    class IMarked(Interface):
        """Put on an object."""

    marked = Folder()
    alsoProvides(marked, IMarked)
    views = views_with((Folder, Traverser), (SubFolder, Special), (IMarked, Special))
    app = site({"folder": Folder(x=1), "sub": SubFolder(x=1), "marked": marked}, views=views)
    assert reached("/folder/x", app)[0] == "x of Folder"
    assert reached("/sub/x", app)[0] == "special"
    assert reached("/marked/x", app)[0] == "special"


@pytest.mark.parametrize("path", ["/t/code", "/t/code/x"])
def test_an_adapter_publishes_no_code_either(path: str) -> None:
    """S1: what a traverser returns is judged as what a container holds is."""
    assert ask(path, site({"t": Traverser()})).status_int == 404
    assert ask(path, site({"t": LEAF_}, views=views_with((Leaf, Traverser)))).status_int == 404


@pytest.mark.parametrize("path", ["/leaf/_x", "/leaf/..", "/leaf/x\0", "/leaf/__class__"])
def test_an_adapter_never_sees_what_is_refused(path: str) -> None:
    """S2, S3: the check sits outside of replaceable traversers."""
    names: list[str] = []

    class Curious(Traverser):
        def publishTraverse(self, request: Any, name: str) -> Any:
            names.append(name)
            raise KeyError(name)

    assert ask(path, site({"leaf": LEAF_}, views=views_with((Leaf, Curious)))).status_int in (400, 404)
    assert names == []


# Hooks


def test_hooks_see_the_root_and_each_step() -> None:
    trail: list[Any] = []

    @element(outside={"traverse": "test"})
    def hooking(next: Any) -> Any:
        def hooking(request: Any, response: Any) -> None:
            request.add_traversal_hook(lambda request, obj: trail.append(("one", obj)))
            request.add_traversal_hook(lambda request, obj: trail.append(("two", obj)))
            next(request, response)

        return hooking

    app = Pipeline(errors(), hooking(), traverse(root=lambda: ROOT), show())
    assert ask("/a/b/c/view", app).status_int == 200
    steps = (ROOT, ROOT["a"], DEEP, LEAF_)
    assert trail == [(hook, obj) for obj in steps for hook in ("one", "two")]
    trail.clear()
    ask("/a/", app)
    assert len(trail) == 4, "hooks live as long as their request"


def test_a_hook_may_add_another_for_the_next_step() -> None:
    trail: list[Any] = []

    def first(request: Any, obj: Any) -> None:
        trail.append(("first", obj))
        if obj is ROOT["a"]:
            request.add_traversal_hook(lambda request, obj: trail.append(("second", obj)))

    @element(outside={"traverse": "test"})
    def hooking(next: Any) -> Any:
        def hooking(request: Any, response: Any) -> None:
            request.add_traversal_hook(first)
            next(request, response)

        return hooking

    ask("/a/b/c", Pipeline(errors(), hooking(), traverse(root=lambda: ROOT), show()))
    assert trail[:3] == [("first", ROOT), ("first", ROOT["a"]), ("first", DEEP)]
    assert trail[3:] == [("second", DEEP), ("first", LEAF_), ("second", LEAF_)]


def test_an_adapter_may_add_a_hook() -> None:
    trail: list[Any] = []

    class Hooking(Traverser):
        def publishTraverse(self, request: Any, name: str) -> Any:
            request.add_traversal_hook(lambda request, obj: trail.append(obj))
            return DEEP

    ask("/leaf/x/c", site({"leaf": LEAF_}, views=views_with((Leaf, Hooking))))
    assert trail == [DEEP, LEAF_]


def test_a_hook_may_refuse() -> None:
    from webob.exc import HTTPForbidden

    def refuse(request: Any, obj: Any) -> None:
        if obj is DEEP:
            raise HTTPForbidden("Not here.")

    @element(outside={"traverse": "test"})
    def hooking(next: Any) -> Any:
        def hooking(request: Any, response: Any) -> None:
            request.add_traversal_hook(refuse)
            next(request, response)

        return hooking

    app = Pipeline(errors(), hooking(), traverse(root=lambda: ROOT), show())
    assert ask("/a/b/c", app).status_int == 403 and ask("/a/", app).status_int == 200


# The trailing slash


SLASHES: list[tuple[str, str, str, str]] = [
    # SCRIPT_NAME, PATH_INFO, QUERY_STRING, Location
    ("", "/a", "", "/a/"),
    ("", "/a/b", "", "/a/b/"),
    ("", "/a", "x=1&y=%20", "/a/?x=1&y=%20"),
    ("/app", "/a", "", "/app/a/"),
    ("/app", "", "", "/app/"),
    ("/app", "", "x=1", "/app/?x=1"),
    ("/a b", "/a", "", "/a%20b/a/"),
    ("", "a", "", "/a/"),
    ("", "//a", "", "/a/"),
    ("", "///a//b", "", "/a/b/"),
    ("", "/./a", "", "/a/"),
    ("", "/a/.", "", "/a/"),
    ("", "/evil.example", "", "/evil.example/"),
    ("", "//evil.example", "", "/evil.example/"),
    ("", "/\\evil.example", "", "/%5Cevil.example/"),
    ("", "/a\r\nX: y", "", "/a%0D%0AX:%20y/"),
    ("", "/a?b#c", "", "/a%3Fb%23c/"),
    ("", latin("/é"), "", "/%C3%A9/"),
    ("", "/a", "x=\x01\r\n\x7f \xff", "/a/?x=%01%0D%0A%7F%20%FF"),
    ("", "/a", "x=\xc3\xa9", "/a/?x=%C3%A9"),
]


class Everything(Folder):
    """Has a folder of every name."""

    def __getitem__(self, name: str) -> Any:
        return Everything()


@pytest.mark.parametrize(("script", "path", "query", "location"), SLASHES)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_container_is_redirected_to_its_slash(
    script: str, path: str, query: str, location: str, method: str
) -> None:
    """S8: whatever the path is, the redirect stays on this origin."""
    answer = ask(path, site(Everything()), method, query, SCRIPT_NAME=script)
    assert answer.status_int == 302 and answer.headers["Location"] == location and seen == []
    assert urljoin("http://here.example/x", location).startswith("http://here.example/")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/a"),
        ("PUT", "/a"),
        ("DELETE", "/a"),
        ("OPTIONS", "/a"),
        ("GET", "/a/"),
        ("GET", "/a/b/c"),
        ("GET", "/a/view"),
        ("GET", "/a/@@view"),
        ("GET", "/"),
        ("GET", ""),
    ],
)
def test_what_is_not_redirected(method: str, path: str) -> None:
    assert ask(path, method=method).status_int == 200


def test_the_redirect_can_be_turned_off() -> None:
    assert reached("/a", site(slash_redirect=False)) == (ROOT["a"], "", ())


# The root


def test_a_root_may_want_the_request() -> None:
    asked: list[Any] = []

    def root(request: Any) -> Any:
        asked.append(request)
        return ROOT

    app = Pipeline(errors(), traverse(root=root), show())
    assert reached("/a/b/c", app) == (LEAF_, "", ())
    assert asked == seen and seen[0].root is ROOT


@pytest.mark.parametrize("root", [dict, functools.partial(dict), Folder])
def test_a_root_may_want_nothing(root: Callable[[], Any]) -> None:
    assert reached("/", Pipeline(errors(), traverse(root=root), show()))[0] == {}


def test_the_root_of_an_outer_element_is_used() -> None:
    @element(provides=("root",), outside={"traverse": "test"})
    def provides(next: Any) -> Any:
        def provides(request: Any, response: Any) -> None:
            next(request, response)

        return Offers(provides, root=lambda request: ROOT)

    assert reached("/a/b/c", Pipeline(errors(), provides(), traverse(), show())) == (LEAF_, "", ())


def test_a_root_of_its_own_beats_that_of_an_outer_element() -> None:
    @element(provides=("root",))
    def provides(next: Any) -> Any:
        def provides(request: Any, response: Any) -> None:
            next(request, response)

        return Offers(provides, root=lambda request: pytest.fail("it was opened"))

    assert reached("/", Pipeline(errors(), provides(), traverse(root=lambda: ROOT), show()))[0] is ROOT


def test_all_requests_may_be_of_one_type() -> None:
    class ITyped(IRequest):
        """A request type."""

    reached("/", site(request_type=ITyped))
    assert ITyped.providedBy(seen[0])
    for wrong in (Interface, Folder, 3):
        with pytest.raises(ConfigurationError, match="does not extend IRequest"):
            site(request_type=wrong)
