"""Registering views: what is accepted, what is refused, and which view is found (S2)."""

from __future__ import annotations

import functools
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from zope.interface import (
    Interface,
    alsoProvides,
    classImplements,
    directlyProvides,
    implementedBy,
    implementer,
)

from pipeline import Pipeline, element, view
from pipeline.interfaces import ConfigurationError, IPublishTraverse, IRequest, IResult, ViewError
from pipeline.publisher import publisher
from pipeline.views import Views, adapter


class IThing(Interface):
    """Something published."""


class ISpecial(IThing):
    """Something special."""


class Thing:
    """Of no interface."""


class SubThing(Thing):
    """A more specific one."""


@implementer(IThing)
class Provider:
    """Of the interface."""


@implementer(ISpecial)
class Special:
    """Of the special interface."""


class ITyped(IRequest):
    """A request type."""


class IMoreTyped(ITyped):
    """A more specific one."""


class Request:
    """Enough of a request for a look-up."""


alsoProvides(plain := Request(), IRequest)
alsoProvides(typed := Request(), ITyped)
alsoProvides(more_typed := Request(), IMoreTyped)


def make(result: str = "") -> Callable[[Any, Any], str]:
    def made(context: Any, request: Any) -> str:
        return result

    return made


def added(*registrations: dict[str, Any]) -> Views:
    """Views with these registrations; each is known by its place in the list."""
    views = Views()
    for number, options in enumerate(registrations):
        options = {"context": None, "name": "", "methods": ("GET",), "request_type": None} | options
        views.add(make(str(number)), **{"permission": None, **options})
    return views


def found(
    views: Views, context: Any, request: Any = plain, method: str = "GET", name: str = ""
) -> int | None:
    view = views.find(context, request, method, name)
    return None if view is None else int(view.function(None, None))


SPECIFIC: list[tuple[list[dict[str, Any]], Any, Any, int | None]] = [
    # registrations, context, request, which is found
    ([], Thing(), plain, None),
    ([{}], Thing(), plain, 0),
    ([{"context": Thing}], Thing(), plain, 0),
    ([{"context": Thing}], SubThing(), plain, 0),
    ([{"context": SubThing}], Thing(), plain, None),
    ([{"context": Thing}, {"context": SubThing}], SubThing(), plain, 1),
    ([{"context": SubThing}, {"context": Thing}], SubThing(), plain, 0),
    ([{}, {"context": Thing}], Thing(), plain, 1),
    ([{"context": IThing}], Provider(), plain, 0),
    ([{"context": IThing}], Special(), plain, 0),
    ([{"context": ISpecial}], Provider(), plain, None),
    ([{"context": IThing}, {"context": ISpecial}], Special(), plain, 1),
    ([{"context": IThing}, {"context": Provider}], Provider(), plain, 1),
    ([{"context": IThing}, {"context": Provider}], Special(), plain, 0),
    ([{"context": dict}], {}, plain, 0),
    ([{"context": str}], "text", plain, 0),
    ([{"context": type(None)}], None, plain, 0),
    ([{"context": Interface}], object(), plain, 0),
    ([{"request_type": ITyped}], Thing(), plain, None),
    ([{"request_type": ITyped}], Thing(), typed, 0),
    ([{"request_type": ITyped}], Thing(), more_typed, 0),
    ([{}, {"request_type": ITyped}], Thing(), plain, 0),
    ([{}, {"request_type": ITyped}], Thing(), typed, 1),
    ([{"request_type": ITyped}, {}], Thing(), plain, 1),
    ([{"request_type": ITyped}, {}], Thing(), typed, 0),
    ([{"request_type": ITyped}, {"request_type": IMoreTyped}], Thing(), more_typed, 1),
    ([{"request_type": ITyped}, {"request_type": IMoreTyped}], Thing(), typed, 0),
    # the context decides first, then the request type
    ([{"context": Thing}, {"request_type": ITyped}], Thing(), typed, 0),
    ([{"context": Thing, "request_type": ITyped}, {"context": Thing}], SubThing(), typed, 0),
]


@pytest.mark.parametrize(("registrations", "context", "request_", "number"), SPECIFIC)
def test_the_most_specific_view_is_found(
    registrations: list[dict[str, Any]], context: Any, request_: Any, number: int | None
) -> None:
    assert found(added(*registrations), context, request_) == number
    assert found(added(*registrations), context, request_, "HEAD") == number


def test_an_interface_that_the_object_itself_provides() -> None:
    views = added({"context": Thing}, {"context": ISpecial})
    thing, other = Thing(), Thing()
    alsoProvides(thing, ISpecial)
    assert found(views, thing) == 1 and found(views, other) == 0


def test_methods_of_one_name_may_stand_on_several_classes() -> None:
    views = added(
        {"context": IThing, "methods": ("GET",)},
        {"context": Provider, "methods": ("POST", "DELETE")},
        {"context": Interface, "methods": ("PUT",)},
    )
    answers = {method: found(views, Provider(), method=method) for method in ("GET", "POST", "DELETE", "PUT")}
    assert answers == {"GET": 0, "POST": 1, "DELETE": 1, "PUT": 2}
    assert views.allowed(Provider(), plain, "") == ["DELETE", "GET", "HEAD", "POST", "PUT"]
    assert views.allowed(Special(), plain, "") == ["GET", "HEAD", "PUT"]
    assert views.allowed(Special(), plain, "x") == []


HEAD: list[tuple[list[dict[str, Any]], int | None]] = [
    ([{"methods": ("GET",)}], 0),
    ([{"methods": ("POST",)}], None),
    ([{"methods": ("GET",)}, {"methods": ("HEAD",)}], 1),
    ([{"methods": ("HEAD",)}, {"methods": ("GET",)}], 0),
    ([{"methods": ("GET", "HEAD")}], 0),
    ([{"methods": ("GET",)}, {"methods": ("HEAD",), "context": Thing}], 1),
    ([{"methods": ("HEAD",)}, {"methods": ("GET",), "context": Thing}], 1),
    ([{"methods": ("get",)}], 0),
]


@pytest.mark.parametrize(("registrations", "number"), HEAD)
def test_get_includes_head_unless_there_is_one(registrations: list[dict[str, Any]], number: int) -> None:
    assert found(added(*registrations), Thing(), method="HEAD") == number


CONFLICTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"context": Thing}, {"context": Thing}),
    ({"context": IThing, "name": "x"}, {"context": IThing, "name": "x"}),
    ({"methods": ("GET", "POST")}, {"methods": ("PUT", "POST")}),
    ({"methods": ("HEAD",)}, {"methods": ("GET", "HEAD")}),
    ({"methods": ("GET", "HEAD")}, {"methods": ("HEAD",)}),
    ({"methods": ("get",)}, {"methods": ("GET",)}),
    ({"request_type": ITyped}, {"request_type": ITyped}),
    ({"request_type": None}, {"request_type": IRequest}),
    ({"context": None}, {"context": Interface}),
    ({"context": ValueError}, {"context": ValueError}),
    ({"context": ValueError, "methods": ("GET",)}, {"context": ValueError, "methods": ("POST",)}),
]


@pytest.mark.parametrize(("one", "other"), CONFLICTS)
def test_two_views_for_the_same_thing_are_refused_and_both_are_named(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    with pytest.raises(ViewError) as refused:
        added(one, other)
    line = make.__code__.co_firstlineno + 1
    assert str(refused.value).count(f"{__file__}, line {line}") == 2
    assert str(refused.value).startswith("two views are both for ")


DIFFERENT: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"context": Thing}, {"context": SubThing}),
    ({"name": "x"}, {"name": "y"}),
    ({"methods": ("GET",)}, {"methods": ("POST",)}),
    ({"request_type": ITyped}, {"request_type": None}),
    ({"context": ValueError}, {"context": KeyError}),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_views_for_different_things_go_together(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert len(list(added(one, other))) >= 2


BAD: list[tuple[dict[str, Any], str]] = [
    ({"name": "_private"}, "a view cannot be named '_private'"),
    ({"name": "@@x"}, "a view cannot be named '@@x'"),
    ({"name": "++x"}, "a view cannot be named '++x'"),
    ({"name": "a/b"}, "a view cannot be named 'a/b'"),
    ({"context": "Thing"}, "'Thing' is neither a class nor an interface"),
    ({"context": Thing()}, "is neither a class nor an interface"),
    ({"request_type": 3}, "3 is neither a class nor an interface"),
    ({"methods": ()}, "it accepts no method"),
    ({"methods": ("GET POST",)}, "'GET POST' is not a method"),
    ({"methods": ("",)}, "'' is not a method"),
    ({"methods": ("GET,POST",)}, "'GET,POST' is not a method"),
    ({"name": ".."}, "a view cannot be named '..'"),
    ({"context": KeyError, "permission": "edit"}, "an error view cannot have a permission"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_a_view_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ViewError) as refused:
        added(options)
    assert message in str(refused.value)
    assert __file__ in str(refused.value)


@pytest.mark.parametrize(
    "options", [{"cross_site": "no"}, {"cross_site": None}, {"permission": ""}, {"permission": ["edit"]}]
)
def test_options_of_another_type_are_refused(options: dict[str, Any]) -> None:
    """``cross_site = "no"`` was true, and let other sites in."""
    with pytest.raises(TypeError, match="cross_site is a bool, and permission a name"):
        view(**options)


def test_methods_that_are_a_string_are_refused() -> None:
    with pytest.raises(TypeError, match=r"methods must be a tuple such as \('GET', 'POST'\), not 'POST'"):
        view(methods="POST")


class Callable_:
    def __init__(self, context: Any, request: Any) -> None:
        self.context = context

    def __call__(self) -> str:
        return "called"


class Inheriting(Callable_):
    """Inherits both."""


class NotCallable:
    def __init__(self, context: Any, request: Any) -> None:
        """Has no __call__."""


class OfOne:
    def __init__(self, context: Any) -> None:
        """Takes no request."""

    def __call__(self) -> str:
        return ""


class OfFour:
    def __init__(self, context: Any, request: Any, response: Any, more: Any) -> None:
        """Takes too much."""

    def __call__(self) -> str:
        return ""


ACCEPTED: list[tuple[Any, bool]] = [
    (lambda context, request: "", False),
    (lambda context, request, response: "", True),
    (lambda c, r: "", False),
    (lambda *arguments: "", False),
    (lambda context, *more: "", False),
    (lambda context, request, **more: "", False),
    (lambda context, request, response, **more: "", True),
    (Callable_, False),
    (Inheriting, False),
]


@pytest.mark.parametrize(("function", "takes_response"), ACCEPTED)
def test_what_can_be_called_as_a_view(function: Any, takes_response: bool) -> None:
    views = Views()
    views.add(function, None, "", ("GET",), None, None)
    registered = views.find(Thing(), plain, "GET", "")
    assert registered is not None and registered.takes_response == takes_response
    arguments = (None, None, None) if takes_response else (None, None)
    assert registered.call(*arguments) in ("", "called")


@pytest.mark.parametrize(
    "function",
    [lambda: "", lambda context: "", lambda context, *, request: "", NotCallable, OfOne, OfFour, 3],
)
def test_what_cannot_be_called_as_a_view_is_refused(function: Any) -> None:
    with pytest.raises(ViewError):
        Views().add(function, None, "", ("GET",), None, None)


# Scanning.


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """``package({"__init__": "...", "sub/mod": "..."})`` is the name of a package of these modules."""
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)

    def package(files: dict[str, str]) -> str:
        name = f"scanned_{abs(hash(str(tmp_path)))}"
        for path, source in files.items():
            file = tmp_path / name / f"{path}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            head = f"from pipeline import view\nfrom pipeline.views import adapter\nTHIS = {name!r}\n"
            file.write_text(head + textwrap.dedent(source))
        return name

    yield package
    for name in set(sys.modules) - known:
        if name.startswith("scanned_"):
            del sys.modules[name]


def names(views: Views) -> list[str]:
    return sorted(view.function.__name__ for _, _, key, view in views if not key.startswith("HEAD"))


VIEW = """
@view(name={name!r})
def {name}(context, request):
    return ""
"""


def source(*names: str) -> str:
    return "".join(VIEW.format(name=name) for name in names)


def test_a_package_is_scanned_with_everything_below_it(package: Any) -> None:
    name = package(
        {
            "__init__": source("top"),
            "module": source("one", "two"),
            "__main__": "raise SystemExit('was run')",
            "sub/__init__": source("sub"),
            "sub/deep/__init__": "",
            "sub/deep/module": source("deepest"),
            "no_package/module": source("unseen"),
        }
    )
    assert names(Views([name])) == ["deepest", "one", "sub", "top", "two"]
    assert names(Views([f"{name}.sub"])) == ["deepest", "sub"]
    assert names(Views([f"{name}.module"])) == ["one", "two"]
    assert names(Views([f"{name}.module", f"{name}.sub.deep"])) == ["deepest", "one", "two"]
    assert names(Views([name, f"{name}.module"])) == ["deepest", "one", "sub", "top", "two"]


def test_a_view_that_is_imported_elsewhere_counts_once(package: Any) -> None:
    name = package(
        {"__init__": "from .one import first\nfrom .one import first as alias", "one": source("first")}
    )
    assert names(Views([name])) == ["first"]
    assert names(Views([f"{name}.one"])) == ["first"]


def test_an_alias_in_its_own_module_counts_once(package: Any) -> None:
    assert names(Views([package({"__init__": source("first") + "\nalias = first\n"})])) == ["first"]


def test_importing_a_module_registers_nothing(package: Any) -> None:
    name = package(
        {"__init__": "", "one": source("first"), "two": "from . import one\nfrom .one import first"}
    )
    assert names(Views([f"{name}.two"])) == []


def test_a_subclass_of_what_was_decorated_is_not_registered_again(package: Any) -> None:
    name = package(
        {
            "__init__": """
            class Base:
                def __init__(self, context, request):
                    pass

                def __call__(self):
                    return ""

            @view(name="base")
            class Decorated(Base):
                pass

            class Plain(Decorated):
                pass

            @view(name="other")
            class Other(Decorated):
                pass
            """
        }
    )
    assert names(Views([name])) == ["Decorated", "Other"]


def test_decorators_stack(package: Any) -> None:
    name = package(
        {
            "__init__": """
            @view(name="one")
            @view(name="two", methods=("POST",))
            @view(context=ValueError)
            def many(context, request):
                return ""
            """
        }
    )
    views = Views([name])
    assert sorted(key for _, _, key, _ in views) == ["GET one", "HEAD one", "POST two", "error "]


def test_a_wrapper_of_a_view_is_what_is_called(package: Any) -> None:
    name = package(
        {
            "__init__": """
            import functools

            def loud(function):
                @functools.wraps(function)
                def loud(context, request):
                    return function(context, request).upper()
                return loud

            @loud
            @view()
            def inside(context, request):
                return "inside"

            @view(name="outside")
            @loud
            def outside(context, request):
                return "outside"
            """
        }
    )
    views = Views([name])
    for path in ("", "outside"):
        view = views.find(None, plain, "GET", path)
        assert view is not None and view.call(None, plain).isupper()


@pytest.mark.parametrize("dotted", ["no_such_package", "pipeline.no_such_module", "pipeline.elements.log.x"])
def test_a_package_that_is_not_there_is_named(dotted: str) -> None:
    with pytest.raises(ConfigurationError, match=f"scan: there is no module .*{dotted}"):
        Views([dotted])


@pytest.mark.parametrize("path", ["__init__", "bad", "sub/__init__", "sub/bad"])
@pytest.mark.parametrize(
    ("line", "error"), [("import no_such_module_at_all", ModuleNotFoundError), ("1 / 0", ZeroDivisionError)]
)
def test_a_module_that_fails_is_not_hidden(
    package: Any, path: str, line: str, error: type[Exception]
) -> None:
    name = package({"__init__": "", "sub/__init__": "", path: line})
    with pytest.raises(error):
        Views([name])


def test_two_views_of_two_modules_are_named_with_file_and_line(package: Any) -> None:
    name = package({"__init__": "", "a": source("same"), "b": "\n\n" + source("same")})
    with pytest.raises(ViewError) as refused:
        Views([name])
    said = str(refused.value)
    assert f"{name}.a.same" in said and "a.py, line 5" in said
    assert f"{name}.b.same" in said and "b.py, line 7" in said


def test_a_class_is_named_with_file_and_line(package: Any) -> None:
    klass = "\n@view()\nclass {0}(list):\n    def __init__(self, c, r): pass\n    def __call__(self): pass\n"
    name = package({"__init__": klass.format("A") + klass.format("B")})
    with pytest.raises(ViewError) as refused:
        Views([name])
    assert "__init__.py, line 5" in str(refused.value) and "__init__.py, line 10" in str(refused.value)


def test_each_publisher_has_views_of_its_own(module: Any) -> None:
    @view(name="one")
    def one(context: Any, request: Any) -> str:
        return ""

    first, second = publisher(scan=(module(one),)).link(), publisher().link()
    assert names(first.attributes["views"]) == ["one"] and names(second.attributes["views"]) == []


def test_odd_things_in_a_module_disturb_nobody(module: Any) -> None:
    class Odd:
        def __getattr__(self, name: str) -> Any:
            raise AttributeError(name)

    partial = functools.partial(make)
    name = module(odd=Odd(), partial=partial, number=3, none=None, module=sys)
    assert names(Views([name])) == []


# Adapters.


def test_two_adapters_for_the_same_thing_are_refused() -> None:
    views = Views()
    views.add_adapter(Provider, Thing, IResult)
    views.add_adapter(Provider, Thing, IResult)
    views.add_adapter(Provider, SubThing, IResult)
    with pytest.raises(ViewError, match="two adapters of"):
        views.add_adapter(Special, Thing, IResult)
    with pytest.raises(ViewError, match="neither a class nor an interface"):
        views.add_adapter(Special, "Thing", IResult)


def test_an_adapter_is_found_for_subclasses_and_interfaces() -> None:
    views = Views()
    views.add_adapter(lambda thing: "thing", Thing, IResult)
    views.add_adapter(lambda thing: "special", ISpecial, IResult)
    assert views.adapt(SubThing(), IResult) == "thing"
    assert views.adapt(Special(), IResult) == "special"
    assert views.adapt(Provider(), IResult) is None
    assert views.adapt(Thing(), IPublishTraverse) is None


@pytest.mark.parametrize("kind", [dict, list, str, Thing, type("Marked", (dict,), {})])
def test_a_class_may_be_declared_to_provide_the_interface_after_its_objects_were_adapted(kind: type) -> None:
    views = Views()
    views.add_adapter(lambda thing: "adapted", kind, IResult)
    assert views.adapt(kind(), IResult) == "adapted"
    found = implementedBy(kind)
    before = found.declared, found.__bases__
    try:
        classImplements(kind, IResult)
        value = kind()
        assert views.adapt(value, IResult) is value
    finally:  # classImplementsOnly would leave a dict that is no object any more to views of other tests
        found.declared, found.__bases__ = before
    assert views.adapt(kind(), IResult) == "adapted"


def test_an_object_of_a_subclass_of_dict_may_provide_the_interface_itself() -> None:
    marked = type("Marked", (dict,), {})()
    directlyProvides(marked, IResult)
    assert Views().adapt(marked, IResult) is marked


def test_what_provides_the_interface_is_its_own_adapter() -> None:
    result = Thing()
    alsoProvides(result, IResult)
    assert Views().adapt(result, IResult) is result


def test_an_adapter_is_scanned(module: Any) -> None:
    @adapter(Thing, IResult)
    def as_result(thing: Thing) -> Any:
        return "adapted"

    assert Views([module(as_result)]).adapt(Thing(), IResult) == "adapted"


def test_a_view_that_was_found_is_not_kept_for_longer_than_it_is_right() -> None:
    """A class may be declared to implement one interface more after its instances were published."""

    class Late(Thing):
        """Of no interface yet."""

    views = Views()
    views.add(lambda context, request: "thing", Thing, "", ("GET",), None, None)
    views.add(lambda context, request: "special", ISpecial, "", ("GET",), None, None)

    def found(context: Any) -> Any:
        view = views.find(context, plain, "GET", "")
        return view and view.call(context, plain)

    assert [found(Late()), found(Late()), found(Provider())] == ["thing", "thing", None]
    classImplements(Late, ISpecial)
    assert [found(Late()), found(Late())] == ["special", "special"]
    views.add(lambda context, request: "late", Late, "", ("GET",), None, None)
    assert [found(Late()), found(Thing())] == ["late", "thing"]
    one = Thing()
    alsoProvides(one, ISpecial)
    assert [found(one), found(Thing())] == ["special", "thing"]


def test_only_a_step_is_chosen_by_the_type_of_the_request() -> None:
    with pytest.raises(ViewError, match="IResult"):
        Views().add_adapter(lambda thing: thing, Thing, IResult, request_type=ITyped)


# S2: what clients invent leaves nothing behind.


def size(views: Views) -> int:
    """How many entries all caches and tables below the registry have."""
    seen: set[int] = set()

    def count(thing: Any) -> int:
        if id(thing) in seen:
            return 0
        seen.add(id(thing))
        if isinstance(thing, dict):
            return len(thing) + sum(map(count, thing.values()))
        if isinstance(thing, (list, tuple)):
            return sum(map(count, thing))
        return 0

    import gc

    lookup = views.registry._v_lookup  # type: ignore[attr-defined]
    caches = [thing for thing in gc.get_referents(lookup) if isinstance(thing, dict)]
    return count(caches) + count(views.known) + len(list(views))


def test_names_and_methods_that_clients_invent_leave_no_trace(call: Any, publish: Any) -> None:
    """S2: 10,000 random view names, methods and paths do not grow the caches of the registry."""

    @view(context=dict)
    def index(context: Any, request: Any) -> str:
        return "index"

    @view(context=dict, name="typed", request_type=ITyped)
    def typed_view(context: Any, request: Any) -> str:
        return "typed"

    @adapter(Thing, IPublishTraverse)
    class Traverser:
        def __init__(self, thing: Any) -> None:
            """Walks nowhere."""

        def publishTraverse(self, request: Any, name: str) -> Any:
            raise KeyError(name)

    app: Pipeline = publish(index, typed_view, Traverser, root={"thing": Thing(), "leaf": 3})
    views = app.offered["views"]
    environ = {"SCRIPT_NAME": "", "QUERY_STRING": "", "SERVER_NAME": "x", "SERVER_PORT": "80"}

    def ask(path: str, method: str = "GET") -> None:
        body = app({**environ, "PATH_INFO": path, "REQUEST_METHOD": method}, lambda *started: None)
        assert isinstance(body, list)

    for number in range(20):
        for path in ("/{}", "/@@{}", "/thing/{}", "/leaf/{}", "/thing/@@{}/x", "/++{}++", "/typed/{}"):
            ask(path.format(number))
        ask("/", f"M{number}")
    before = size(views)
    assert before > 0
    for number in range(20, 1440):
        for path in ("/{}", "/@@{}", "/thing/{}", "/leaf/{}", "/thing/@@{}/x", "/++{}++", "/typed/{}"):
            ask(path.format(number))
    for number in range(100):
        ask("/", f"M{number}")
        ask(f"/x{number}", "OPTIONS")
    assert size(views) == before


def test_a_request_type_that_an_element_puts_on(call: Any, publish: Any) -> None:
    @element
    def types(next: Any) -> Any:
        def types(request: Any, response: Any) -> None:
            if "typed" in request.environ["QUERY_STRING"]:
                alsoProvides(request, ITyped)
            next(request, response)

        return types

    @view(context=dict)
    def index(context: Any, request: Any) -> str:
        return "index"

    @view(context=dict, request_type=ITyped)
    def special(context: Any, request: Any) -> str:
        return "special"

    app = publish(index, special, outer=(types,))
    assert call(app, "/").text == "index" and call(app, "/?typed").text == "special"


async def _function(context: object, request: object) -> str:
    return "never"


class _Class:
    def __init__(self, context: object, request: object) -> None:
        pass

    async def __call__(self) -> str:
        return "never"


@pytest.mark.parametrize("target", [_function, _Class])
def test_an_async_view_is_refused(target: Any) -> None:
    """Nothing would await it: the page was an error about a coroutine."""
    with pytest.raises(ViewError, match="it is async, and nothing awaits it"):
        Views().add(target, None, "", ("GET",), None, None)


def a_view() -> Any:
    return lambda context, request: ""


def seconds_to_add(count: int) -> float:
    """The processor time to register so many views, each of a class of its own."""
    views = Views()
    rows = [(a_view(), type(f"Class{number}", (), {})) for number in range(count)]
    began = time.process_time()
    for number, (function, cls) in enumerate(rows):
        views.add(function, cls, f"view{number}", ("GET",), None, None)
    return time.process_time() - began


def test_the_time_to_load_grows_with_the_number_of_views() -> None:
    """Four times as many take four times as long; it was sixteen."""
    seconds_to_add(100)
    few = min(seconds_to_add(500) for _ in range(3))
    many = min(seconds_to_add(2_000) for _ in range(3))
    assert many < 8 * few, (few, many)
