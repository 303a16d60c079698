"""What elements add to a request: declared in a class, offered at load, and refused where two of them clash."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from zope.interface import Interface, alsoProvides, implementer, providedBy

from around_a_view import Look, looking
from asking import ask
from pipeline import Pipeline, Request, Response, element, view
from pipeline.attributes import composed, declaration, names_of
from pipeline.composition import Element, Offers
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.interfaces import ConfigurationError, IJSONRequest, IRequest
from pipeline.publisher import publisher
from pipeline.request import OnFirstUse, on_first_use
from pipeline.testing import fault


class ColourRequest(Request):
    """Adds a default, an annotation without a value, and what is made on first use."""

    colour: str = "grey"
    shade: int
    palette: list[str] = on_first_use()


class SizeRequest(Request):
    size: int = 1


class ShelfRequest(Request):
    """Adds what is read from a database."""

    shelf: list[str] = on_first_use(dropped=True)
    label: str = on_first_use()


def adding(added: type[Request] | None, *, named: str = "adding", **offered: Any) -> Element:
    """Return an element that adds a class of attributes, and offers some of them."""

    def factory(next: Any) -> Offers:
        return Offers(next, **offered)

    factory.__name__ = named
    return element(adds=added)(factory)


@element
def end(*, look: Look) -> Any:
    """The end of a pipeline: answers with what ``look`` returns."""

    def end(request: Request, response: Response) -> None:
        response.app_iter = [str(look(request)).encode()]

    return end


def middleware(app: Any) -> Any:
    """A foreign middleware that copies the environ."""
    return lambda environ, start_response: app({**environ}, start_response)


def text(app: Any, path: str = "/") -> str:
    answer = ask(app, path)
    assert answer.status == 200
    return answer.text


# -- What is refused at load ---------------------------------------------------------------------------------------


def test_two_elements_that_add_one_name_are_refused() -> None:
    class OtherRequest(Request):
        colour: int = 7

    with pytest.raises(ConfigurationError) as caught:
        Pipeline(adding(ColourRequest, named="paint"), adding(OtherRequest, named="dye"), end(look=str))
    message = str(caught.value)
    assert message.startswith("paint and dye both add request.colour, in ")
    assert "ColourRequest" in message and "OtherRequest" in message and "another name" in message


def test_an_annotation_clashes_like_a_value() -> None:
    class OtherRequest(Request):
        shade: str

    with pytest.raises(ConfigurationError, match=r"both add request\.shade"):
        Pipeline(adding(ColourRequest, named="paint"), adding(OtherRequest, named="dye"), end(look=str))


def test_annotations_that_are_not_text_clash_as_well() -> None:
    """Python 3.14 keeps the annotations of such a module in a function (PEP 649)."""
    kind = "Unknown" if sys.version_info >= (3, 14) else "str"
    source = f"class OtherRequest(Request):\n    shade: {kind}"
    names: dict[str, Any] = {"Request": Request, "__name__": "plain"}
    exec(compile(source, "plain.py", "exec", dont_inherit=True), names)
    with pytest.raises(ConfigurationError, match=r"both add request\.shade"):
        Pipeline(adding(ColourRequest, named="paint"), adding(names["OtherRequest"], named="dye"), end(look=str))


def test_a_clash_is_found_behind_a_foreign_middleware() -> None:
    class OtherRequest(Request):
        size: int = 2

    outer, inner = adding(SizeRequest, named="outer"), adding(OtherRequest, named="inner")
    with pytest.raises(ConfigurationError, match=r"outer and inner both add request\.size"):
        Pipeline(outer, middleware, inner, end(look=str))
    with pytest.raises(ConfigurationError, match=r"outer and inner both add request\.size"):
        Pipeline(outer, Pipeline(inner, end(look=str)))


def test_a_clash_is_found_when_elements_join_as_paste_joins_them() -> None:
    class OtherRequest(Request):
        size: int = 2

    joined = adding(OtherRequest, named="inner")(end(look=str))
    with pytest.raises(ConfigurationError, match=r"outer and inner both add request\.size"):
        adding(SizeRequest, named="outer")(joined)


@pytest.mark.parametrize("name", ["context", "root", "tm", "on_close", "GET", "environ", "closers"])
def test_an_attribute_of_the_core_is_not_hidden(name: str) -> None:
    hiding = type("HidingRequest", (Request,), {name: None})
    with pytest.raises(ConfigurationError, match=rf"hides adds request\.{name} \(.*HidingRequest\), but every"):
        Pipeline(adding(hiding, named="hides"), end(look=str))


def test_an_annotation_hides_an_attribute_of_the_core_as_well() -> None:
    class HidingRequest(Request):
        context: str

    with pytest.raises(ConfigurationError, match=r"adds request\.context"):
        Pipeline(adding(HidingRequest), end(look=str))


@pytest.mark.parametrize("added", [None, SizeRequest])
def test_an_offer_that_no_class_declares_is_refused(added: type[Request] | None) -> None:
    with pytest.raises(ConfigurationError, match=r"adding offers request\.colour, which no class declares"):
        Pipeline(adding(added, colour="red"), end(look=str))


def test_an_element_may_offer_what_the_core_declares() -> None:
    app = Pipeline(adding(None, root=lambda request: "a root"), end(look=lambda request: request.root))
    assert text(app) == "a root"


@pytest.mark.parametrize("members", [{"__slots__": ("a",)}, {"__init__": lambda self: None}])
def test_a_class_of_another_layout_is_refused(members: dict[str, Any]) -> None:
    other = type("OtherRequest", (Request,), members)
    below = type("BelowRequest", (other,), {})
    for added in (other, below):
        with pytest.raises(TypeError, match=r"OtherRequest.* has __slots__ or __init__"):
            element(adds=added)


@pytest.mark.parametrize("added", [Request, object, dict, "ColourRequest", ColourRequest({})])
def test_only_a_subclass_of_request_is_added(added: Any) -> None:
    with pytest.raises(TypeError, match=r"adds must be a subclass of pipeline.Request, not"):
        element(adds=added)


# -- What a request has --------------------------------------------------------------------------------------------


def test_a_request_has_what_all_elements_add() -> None:
    seen: list[Any] = []
    app = Pipeline(
        adding(ColourRequest, named="paint", palette=lambda request: ["red"]),
        adding(SizeRequest, named="scale", size=3),
        end(look=seen.append),
    )
    ask(app)
    [request] = seen
    assert isinstance(request, ColourRequest) and isinstance(request, SizeRequest)
    assert (request.colour, request.palette, request.size) == ("grey", ["red"], 3)
    assert type(request) is app.request_class and type(request).__name__ == "Request"


def test_without_additions_a_request_is_that_of_the_core() -> None:
    app = Pipeline(looking(str), end(look=lambda request: type(request).__mro__[1] is Request))
    assert text(app) == "True"


def test_an_attribute_without_an_offer_is_an_error_that_says_so() -> None:
    def look(request: Any) -> str:
        with pytest.raises(AttributeError, match=r"no element of this pipeline provides request\.palette"):
            _ = request.palette
        assert not hasattr(request, "shade"), "an annotation has no value before it is set"
        request.shade = 5
        return str(request.shade)

    assert text(Pipeline(adding(ColourRequest), end(look=look))) == "5"


def test_it_is_made_on_first_use_and_once_for_each_request() -> None:
    made: list[Any] = []

    def make(request: Any) -> list[str]:
        made.append(request)
        return []

    def look(request: Any) -> bool:
        before = len(made)
        return request.palette is request.palette and len(made) == before + 1

    app = Pipeline(adding(ColourRequest, palette=make), end(look=look))
    assert made == []
    assert (text(app), text(app)) == ("True", "True")
    assert len(made) == 2 and made[0] is not made[1]


def test_a_function_that_is_offered_for_a_plain_attribute_is_its_value() -> None:
    class CallRequest(Request):
        double: Callable[[int], int] | None = None

    app = Pipeline(adding(CallRequest, double=lambda number: 2 * number), end(look=lambda it: it.double(4)))
    assert text(app) == "8"


def test_the_offers_of_one_pipeline_are_not_those_of_another() -> None:
    def look(request: Any) -> str:
        return str(request.size)

    apps = [Pipeline(adding(SizeRequest, size=size), end(look=look)) for size in (2, 3)]
    plain = Pipeline(adding(SizeRequest), end(look=look))
    assert [text(app) for app in (*apps, plain)] == ["2", "3", "1"]
    assert SizeRequest.size == 1


def test_the_offer_of_the_outermost_element_wins() -> None:
    elements = [adding(SizeRequest, named=f"number_{size}", size=size) for size in (2, 3)]
    assert text(Pipeline(*elements, end(look=lambda request: request.size))) == "2"
    assert text(Pipeline(*elements[::-1], end(look=lambda request: request.size))) == "3"


def test_the_offer_of_the_outermost_element_wins_for_what_is_made_on_first_use_and_for_a_field() -> None:
    def authorize(request: Any, view: Any) -> None:
        """Allow everything."""

    outer = adding(ColourRequest, named="outer", palette=lambda request: ["outer"], authorize=authorize)
    inner = adding(ColourRequest, named="inner", palette=lambda request: ["inner"], authorize=print)
    app = Pipeline(outer, inner, end(look=lambda request: (request.palette, request.authorize is authorize)))
    assert text(app) == "(['outer'], True)"


def test_a_base_class_that_two_elements_share_is_added_once() -> None:
    class BaseRequest(Request):
        shared: int = 0

    class LeftRequest(BaseRequest):
        left: int = 1

    class RightRequest(BaseRequest):
        right: int = 2

    def look(request: Any) -> Any:
        return request.shared, request.left, request.right

    pair = (LeftRequest, RightRequest)
    for classes in (pair, (BaseRequest, *pair), pair[::-1]):
        elements = [adding(cls, named=cls.__name__) for cls in classes]
        assert text(Pipeline(*elements, end(look=look))) == "(0, 1, 2)"


def test_a_class_and_its_subclass_are_combined_in_both_orders() -> None:
    class BaseRequest(Request):
        shared: int = 0

    class BelowRequest(BaseRequest):
        below: int = 1

    for pair in ((BaseRequest, BelowRequest), (BelowRequest, BaseRequest)):
        made = composed([(cls.__name__, cls) for cls in pair], {})
        assert issubclass(made, BelowRequest) and made({}).shared == 0  # type: ignore[attr-defined]


def test_a_subclass_that_declares_a_name_of_its_base_anew_clashes_with_an_element_that_adds_the_base() -> None:
    class BaseRequest(Request):
        shared: int = 0

    class AnewRequest(BaseRequest):
        shared: int = 1

    with pytest.raises(ConfigurationError, match=r"both add request\.shared"):
        Pipeline(adding(BaseRequest, named="base_"), adding(AnewRequest, named="anew"), end(look=str))


def test_the_names_that_a_class_adds_are_those_of_its_bases_too() -> None:
    class BelowRequest(ColourRequest):
        below: int = 1

        def method(self) -> None:
            """Is an attribute as well."""

    names = dict(names_of(BelowRequest))
    assert names == {
        "below": BelowRequest,
        "method": BelowRequest,
        "colour": ColourRequest,
        "palette": ColourRequest,
        "shade": ColourRequest,
    }


def test_a_declaration_is_what_stands_in_the_class() -> None:
    assert declaration(ColourRequest, "colour") == "grey"
    assert isinstance(declaration(ColourRequest, "palette"), OnFirstUse)
    assert declaration(ColourRequest, "shade") is None


# -- Attempts and aborts -------------------------------------------------------------------------------------------


def test_what_an_element_adds_is_restored_between_attempts__R2() -> None:
    seen: list[Any] = []

    def look(request: Any) -> str:
        seen.append((request.colour, request.palette.copy(), hasattr(request, "shade")))
        request.colour, request.shade = "red", 1
        request.palette.append("green")
        return "done"

    from_outside = looking(lambda request: setattr(request, "colour", "blue"))
    app = Pipeline(
        adding(ColourRequest, palette=lambda request: []),
        from_outside,
        retry(delay=0),
        fault(error=conflict, at="exit", times=2),
        end(look=look),
    )
    assert text(app) == "done"
    assert seen == [("blue", [], False)] * 3


def conflict() -> BaseException:
    from transaction.interfaces import TransientError

    error: BaseException = TransientError("in the way")
    return error


def test_what_was_made_before_the_attempts_is_kept__R2() -> None:
    made: list[int] = []

    def make(request: Any) -> list[str]:
        made.append(1)
        return []

    app = Pipeline(
        adding(ColourRequest, palette=make),
        looking(lambda request: request.palette),
        retry(delay=0),
        fault(error=conflict, at="exit", times=2),
        end(look=lambda request: request.palette),
    )
    assert text(app) == "[]" and made == [1]


@pytest.mark.parametrize("between", [(), (middleware,)])
def test_what_was_read_is_dropped_after_an_abort__R3(between: Any) -> None:
    """An error view reads anew; what is not from a database is kept."""
    read: list[str] = []
    labels: list[str] = []
    seen: list[Any] = []

    def open_shelf(request: Any) -> list[str]:
        read.append("shelf")
        return ["book"]

    def open_label(request: Any) -> str:
        labels.append("label")
        return "a label"

    def fail(request: Any) -> None:
        _ = request.tm
        request.shelf.append("changed")
        _ = request.label
        raise ZeroDivisionError

    @element
    def answers(next: Any) -> Any:
        def answers(request: Any, response: Response) -> None:
            try:
                next(request, response)
            except ZeroDivisionError:
                request.read_afresh(request)  # as ``errors`` does before it calls an error view
                seen.append((request.shelf, request.label))
                response.app_iter = [b"answered"]

        return answers

    offers = adding(ShelfRequest, named="shelves", shelf=open_shelf, label=open_label)
    app = Pipeline(offers, *between, answers(), transaction(), end(look=fail))
    assert text(app) == "answered"
    assert seen == [(["book"], "a label")]
    assert (read, labels) == (["shelf", "shelf"], ["label"])


def test_the_names_that_are_dropped_are_those_that_an_element_offers() -> None:
    added = [("shelves", ShelfRequest)]
    assert composed(added, {}).dropped == ()
    assert composed(added, {"shelf": list, "label": str}).dropped == ("shelf",)
    assert composed(added, {"shelf": list, "root": dict}).dropped == ("root", "shelf")


# -- Behind a foreign middleware -----------------------------------------------------------------------------------


def both(request: Any) -> str:
    return f"{request.colour} {request.palette} {request.size}"


def outer_of(colour: str, named: str = "outer") -> Element:
    return adding(ColourRequest, named=named, colour=colour, palette=lambda request: [colour])


def test_behind_a_middleware_a_request_has_the_attributes_of_both() -> None:
    app = Pipeline(outer_of("red"), middleware, adding(SizeRequest, named="inner", size=4), end(look=both))
    assert text(app) == text(app) == "red ['red'] 4"


def test_behind_a_middleware_the_outer_offer_wins() -> None:
    inner = adding(ColourRequest, named="inner", colour="blue", palette=lambda request: ["blue"])
    size = adding(SizeRequest)
    assert text(Pipeline(outer_of("red"), middleware, inner, size, end(look=both))) == "red ['red'] 1"
    assert text(Pipeline(adding(ColourRequest, named="outer"), middleware, inner, size, end(look=both))) == (
        "blue ['blue'] 1"
    )


def test_what_was_set_outside_is_seen_inside_and_what_was_set_inside_is_seen_outside() -> None:
    seen: list[str] = []

    @element
    def around(next: Any) -> Any:
        def around(request: Any, response: Response) -> None:
            request.colour = "blue"
            next(request, response)
            seen.append(request.colour)

        return around

    def look(request: Any) -> str:
        before, request.colour = request.colour, "green"
        return str(before)

    assert text(Pipeline(adding(ColourRequest), around(), middleware, end(look=look))) == "blue"
    assert seen == ["green"]


def asking_twice(first: Any, second: Any) -> Any:
    """A foreign middleware that asks two apps, and answers with what both of them say."""

    def body_of(app: Any, environ: dict[str, Any]) -> bytes:
        blocks = app({**environ}, lambda *arguments: None)
        try:
            return b"".join(blocks)
        finally:
            if hasattr(blocks, "close"):
                blocks.close()

    def both(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        body = b" + ".join(body_of(app, environ) for app in (first, second))
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [body]

    return both


def test_a_middleware_that_asks_twice_finds_the_request_as_it_was() -> None:
    def look(request: Any) -> str:
        found = both(request)
        request.colour, request.size = "changed", 0
        request.palette.append("changed")
        return found

    inner = (adding(SizeRequest, named="inner"), end(look=look))
    app = Pipeline(outer_of("red"), lambda app: asking_twice(app, app), *inner)
    assert text(app) == text(app) == "red ['red'] 1 + red ['red'] 1"


def test_each_of_two_inner_pipelines_has_its_own_attributes() -> None:
    class OtherRequest(Request):
        size: str = "large"

    def own(request: Any) -> str:
        return f"{both(request)} {isinstance(request, SizeRequest)}"

    first = Pipeline(adding(SizeRequest, size=2), end(look=own))
    second = Pipeline(adding(OtherRequest), end(look=own))
    app = Pipeline(outer_of("red"), asking_twice(first, second))
    assert text(app) == text(app) == "red ['red'] 2 True + red ['red'] large False"


def test_an_inner_pipeline_below_two_outer_ones_serves_both_at_once() -> None:
    """From several threads, which all meet the inner pipeline for the first time."""
    inner = Pipeline(adding(SizeRequest, size=5), end(look=lambda request: getattr(request, "colour", "none")))
    apps = [Pipeline(outer_of(colour), middleware(inner)) for colour in ("red", "blue")] + [inner]
    threads = 6
    together = Barrier(threads)

    def ask_in_turn(number: int) -> list[str]:
        together.wait(30)
        return [text(apps[(number + turn) % 3]) for turn in range(60)]

    with ThreadPoolExecutor(threads) as pool:
        answers = list(pool.map(ask_in_turn, range(threads)))
    colours = ["red", "blue", "none"]
    assert answers == [[colours[(number + turn) % 3] for turn in range(60)] for number in range(threads)]


def test_a_request_has_its_attributes_if_another_one_finishes_the_pipeline_meanwhile__R9() -> None:
    """The first requests of a process come at once, such as after a reload, and one of them finishes it."""
    app: Any = adding(SizeRequest, size=5)(end(look=lambda request: request.size))
    begin = app.begin

    def begin_slowly(*given: Any) -> Any:
        request = begin(*given)
        app.finish()
        return request

    assert not app.finished
    app.begin = begin_slowly
    assert text(app) == text(app) == "5"


# -- Request types and views ---------------------------------------------------------------------------------------


class IMobile(IRequest):
    """From a small screen."""


class IBlue(Interface):
    """A request type that is not one of the core's."""


@pytest.fixture
def typed(module: Callable[..., str]) -> str:
    """The name of a module with a view for each type of request."""

    @view(context=dict)
    def plain(context: object, request: Request) -> str:
        return "plain"

    @view(context=dict, request_type=IMobile)
    def mobile(context: object, request: Request) -> str:
        return "mobile"

    @view(context=dict, request_type=IJSONRequest)
    def json(context: object, request: Request) -> str:
        return "json"

    return module(plain, mobile, json)


def marking(*types: Any) -> Element:
    """Return an element that puts types on each request."""
    return looking(lambda request: alsoProvides(request, *types), named="marking")


@pytest.mark.parametrize("between", [(), (middleware,)])
@pytest.mark.parametrize("added", [(), (SizeRequest,)])
def test_a_view_is_found_by_the_type_that_an_element_put_on_the_request(
    typed: str, between: Any, added: Any
) -> None:
    elements = [adding(cls) for cls in added]
    inner = (*between, *elements, traverse(root=dict), publisher(scan=(typed,)))
    assert text(Pipeline(outer_of("red"), *inner)) == "plain"
    assert text(Pipeline(outer_of("red"), marking(IMobile), *inner)) == "mobile"
    assert text(Pipeline(outer_of("red"), marking(IJSONRequest), *inner)) == "json"


def test_a_type_is_kept_when_the_class_of_the_request_changes() -> None:
    kept: list[Any] = []

    def look(request: Any) -> None:
        kept.append((type(request), IMobile.providedBy(request), IRequest.providedBy(request)))

    app = Pipeline(marking(IMobile), looking(look), middleware, adding(SizeRequest), end(look=look))
    ask(app)
    (outer, *found), (inner, *found_inside) = kept
    assert outer is not inner and issubclass(inner, SizeRequest)
    assert found == found_inside == [True, True]


def test_a_type_of_an_attempt_is_gone_in_the_next__R2() -> None:
    seen: list[bool] = []
    look = looking(lambda request: seen.append(IMobile.providedBy(request)))
    app = Pipeline(
        retry(delay=0), fault(error=conflict, at="exit", times=1), look, marking(IMobile), end(look=str)
    )
    ask(app)
    assert seen == [False, False]


@implementer(IMobile)
class MobileRequest(Request):
    """Every request of a pipeline with this class is of the type."""


@pytest.mark.parametrize("between", [(), (middleware,)])
@pytest.mark.parametrize("marks", [(), (IBlue,)])
def test_a_class_of_attributes_may_be_of_a_request_type(typed: str, between: Any, marks: Any) -> None:
    app = Pipeline(
        *(marking(*marks) for _ in marks[:1]),
        *between,
        adding(MobileRequest),
        traverse(root=dict),
        publisher(scan=(typed,)),
    )
    assert text(app) == "mobile"


def test_a_composed_class_implements_what_a_request_does() -> None:
    made = composed([("paint", ColourRequest), ("scale", SizeRequest)], {})
    assert IRequest.implementedBy(made)
    assert list(providedBy(made({})).interfaces()) == [IRequest]


@pytest.fixture(autouse=True)
def _nothing_is_left_on_the_classes() -> Iterator[None]:
    """Composing changes no class that an element declares."""
    before = [dict(vars(cls)) for cls in (Request, ColourRequest, SizeRequest, ShelfRequest)]
    yield
    after = [dict(vars(cls)) for cls in (Request, ColourRequest, SizeRequest, ShelfRequest)]
    for old, new in zip(before, after, strict=True):
        # zope.interface and Python itself (PEP 649) keep there what they have found.
        kept = {"__implemented__", "__providedBy__", "__provides__", "__annotate_func__", "__annotations_cache__"}
        assert {k: v for k, v in old.items() if k not in kept} == {k: v for k, v in new.items() if k not in kept}


def test_an_offered_field_may_be_an_empty_object() -> None:
    class Shelf(dict[str, Any]):
        def __repr__(self) -> str:
            return "<a shelf>"

    @element
    def shelving(next: Any) -> Offers:
        return Offers(next, context=shelf)

    shelf, seen = Shelf(), []
    ask(Pipeline(shelving(), end(look=lambda request: seen.append(request.context))))
    assert seen[0] is shelf
