"""Elements and pipelines: one object for Python, Paste Deploy and WSGI, linked once, immutable after."""

from __future__ import annotations

import gc
import logging
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any
from wsgiref.validate import validator

import pytest
from webob.exc import HTTPFound, HTTPNotFound

from pipeline import Pipeline, Request, Response, element, view
from pipeline.composition import Element, Offers
from pipeline.elements.errors import errors
from pipeline.elements.log import log
from pipeline.elements.traverse import traverse
from pipeline.interfaces import ConfigurationError, OptionError, OrderError
from pipeline.publisher import publisher
from pipeline.request import Verdict


def hello(environ: Any, start_response: Any) -> Any:
    start_response("200 OK", [("Content-Type", "text/plain"), ("X-App", "hello")])
    return [b"hello"]


@pytest.fixture
def trail() -> list[str]:
    return []


@pytest.fixture
def step(trail: list[str]) -> Callable[..., Element]:
    """``step("a")`` is an element of that name that leaves a trail."""

    def step(name: str, **contract: Any) -> Element:
        def factory(next: Any, *, disabled: bool = False) -> Any:
            trail.append(f"link {name}")
            if disabled:
                return next

            def handler(request: Request, response: Response) -> None:
                trail.append(f"> {name}")
                request.on_close(lambda: trail.append(f"close {name}"))
                next(request, response)
                trail.append(f"< {name}")

            return handler

        factory.__name__ = name
        made = element(**contract)(factory)
        assert isinstance(made, Element)
        return made

    return step


# One object for three callers.


def test_an_element_around_a_wsgi_app_is_a_middleware(call: Any, step: Any, trail: list[str]) -> None:
    app = step("a")(step("b")(hello))
    assert trail == ["link b", "link a"]
    assert call(app).text == "hello"
    assert trail[2:] == ["> a", "> b", "< b", "< a", "close b", "close a"]


def test_a_pipeline_of_python(call: Any, step: Any, trail: list[str]) -> None:
    app = Pipeline(step("a"), step("b")(), step("c")(disabled=True), hello)
    assert sorted(trail) == ["link a", "link b", "link c"], "each factory is called once, at load"
    for _ in range(2):
        trail.clear()
        assert call(app).text == "hello"
        assert trail == ["> a", "> b", "< b", "< a", "close b", "close a"]


def test_an_element_is_a_paste_filter_factory(call: Any, step: Any, trail: list[str]) -> None:
    configured = step("a")({"debug": "true"}, disabled="yes")
    assert trail == []
    assert call(configured(hello)).text == "hello"
    assert trail == ["link a"]


def test_elements_that_meet_become_one_pipeline(step: Any) -> None:
    inner = step("b")(hello)
    outer = step("a")(inner)
    assert isinstance(outer, Pipeline)
    assert [contract.name for contract in outer.linked] == ["a", "b"]
    assert outer.handler.__closure__ is not None
    assert inner.handler in [cell.cell_contents for cell in outer.handler.__closure__]


def test_the_inner_pipeline_still_works_by_itself(call: Any, step: Any, trail: list[str]) -> None:
    inner = step("b")(hello)
    outer = step("a")(inner)
    call(outer)
    trail.clear()
    call(inner)
    assert trail == ["> b", "< b", "close b"]


def test_pipelines_nest(call: Any, step: Any, trail: list[str]) -> None:
    app = Pipeline(step("a"), Pipeline(step("b"), Pipeline(step("c"), hello)))
    assert [contract.name for contract in app.linked] == ["a", "b", "c"]
    trail.clear()
    call(app)
    assert trail == ["> a", "> b", "> c", "< c", "< b", "< a", "close c", "close b", "close a"]


def test_a_foreign_middleware_that_returns_the_app_itself_is_not_there(step: Any) -> None:
    app = Pipeline(step("a"), lambda app: app, step("b"), hello)
    assert [contract.name for contract in app.linked] == ["a", "b"]


def test_the_end_of_a_pipeline_is_an_app_by_itself(call: Any, module: Any) -> None:
    @view(context=None)
    def anything(context: Any, request: Any) -> str:
        return repr(context)

    name = module(anything)
    app = publisher({}, scan=name)
    assert isinstance(app, Pipeline)
    assert call(traverse(root=dict)(app)).text == "{}"


def test_elements_say_what_they_are() -> None:
    configured = log(logger="x")
    assert repr(configured) == "log(logger='x')" and repr(log) == "log()"
    assert log.__name__ == "log" and log.__doc__ and log.__doc__.startswith("Write one line")
    assert log.__module__ == "pipeline.elements.log"


def test_options_add_up(step: Any, trail: list[str]) -> None:
    some = step("a")(disabled=False)
    assert some(disabled=True).options == {"disabled": True} and some.options == {"disabled": False}


# What cannot be put together.


@element
def end() -> Any:
    return lambda request, response: None


@element
def middle(next: Any) -> Any:
    return next


BROKEN: list[tuple[Callable[[], Any], str]] = [
    (lambda: Pipeline(), "a pipeline needs at least an end"),
    (lambda: Pipeline(middle), "middle cannot be the end of a pipeline: it needs an app inside it"),
    (lambda: Pipeline(hello, middle), "middle cannot be the end of a pipeline"),
    (lambda: Pipeline(end, hello), "end is the end of a pipeline, so it must stand last"),
    (lambda: Pipeline(3, hello), "3 is neither an element nor a WSGI app or middleware"),
    (lambda: Pipeline(middle, None), "None is neither an element nor a WSGI app or middleware"),
    (lambda: Pipeline(middle, lambda app: None, hello), "None is neither an element nor a WSGI app"),
    (lambda: middle(3), "3 is neither an element nor a WSGI app"),
    (lambda: middle(middle), "middle cannot be the end of a pipeline"),
    (lambda: Pipeline(middle, middle, hello), "middle stands twice. The order as written"),
    (lambda: middle(middle(hello)), "middle stands twice. The order as written"),
    (lambda: Pipeline(middle, Pipeline(middle, hello)), "middle stands twice"),
    (lambda: Pipeline(middle, lambda app: lambda *wsgi: app(*wsgi), middle, hello), "middle stands twice"),
    (
        lambda: Pipeline(traverse(), hello),
        "traverse requires 'root', and no element outside it provides that",
    ),
    (lambda: Pipeline(publisher()), "publisher requires 'context'"),
]


@pytest.mark.parametrize(("build", "message"), BROKEN)
def test_what_cannot_be_put_together(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        build()
    assert message in str(refused.value)


def test_what_stands_behind_a_middleware_of_a_nested_pipeline_counts(step: Any) -> None:
    def foreign(app: Any) -> Any:
        return lambda *wsgi: app(*wsgi)

    inner = Pipeline(foreign, step("a"), step("b"), hello)
    with pytest.raises(OrderError, match="b stands twice"):
        Pipeline(step("b"), inner)
    late = Pipeline(foreign, step("c", outside={"b": "c comes first"}), hello)
    with pytest.raises(OrderError, match="c must be outside b: c comes first"):
        Pipeline(step("b"), late)


def test_options_and_an_app_at_once_are_refused() -> None:
    with pytest.raises(TypeError, match=r"give log its options first, then the app: log\(\.\.\.\)\(app\)"):
        log(hello, logger="x")


def test_names_that_are_a_string_are_refused() -> None:
    with pytest.raises(TypeError, match="requires and provides must be tuples of names, not 'root'"):
        element(requires="root")


def test_a_factory_that_returns_no_handler_is_named() -> None:
    @element
    def forgetful(next: Any) -> Any:
        """Forgets to return its handler."""

    with pytest.raises(ConfigurationError) as refused:
        forgetful(hello)
    said = str(refused.value)
    assert "the factory of element forgetful" in said and "returned None" in said and __name__ in said


def test_a_failing_factory_is_not_hidden() -> None:
    @element
    def failing(next: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing(hello)


def test_bad_options_are_refused_when_they_are_given() -> None:
    with pytest.raises(OptionError):
        log(looger="x")


# Completeness, for whoever is not told that the pipeline is done.


def test_a_missing_partner_is_refused_before_any_element_runs(
    call: Any, step: Any, trail: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    app = step("a")(step("b", requires=("thing",))(hello))
    for _ in range(2):
        trail.clear()
        caplog.clear()
        answer = call(app)
        assert answer.status == 500 and b"thing" not in answer.body
        assert trail == []
        [record] = caplog.records
        assert record.levelno == logging.ERROR and record.exc_info is not None
        assert "b requires 'thing', and no element outside it provides that" in str(record.exc_info[1])


def test_finish_says_what_the_first_request_would() -> None:
    app = traverse()(hello)
    with pytest.raises(OrderError, match="traverse requires 'root'"):
        app.finish()
    traverse(root=dict)(hello).finish()


def test_a_partner_in_front_of_a_middleware_counts(call: Any, step: Any, trail: list[str]) -> None:
    """Paste Deploy builds from the inside out: what stands outside is known at the first request."""
    inner = step("b", requires=("thing",))(hello)
    app = step("a", provides=("thing",))(lambda *wsgi: inner(*wsgi))
    assert call(app).text == "hello"


def test_a_wrong_order_across_a_middleware_is_refused(
    call: Any, step: Any, trail: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    inner = step("b", outside={"a": "b comes first"})(hello)
    app = step("a")(lambda *wsgi: inner(*wsgi))
    trail.clear()
    assert call(app).status == 500
    assert "> b" not in trail and trail[-1] == "close a"
    assert "b must be outside a: b comes first" in caplog.text


def test_an_inner_pipeline_may_have_two_outer_ones(call: Any, step: Any) -> None:
    inner = step("b", requires=("thing",))(hello)
    good = step("a", provides=("thing",))(lambda *wsgi: inner(*wsgi))
    bad = step("c")(lambda *wsgi: inner(*wsgi))
    for _ in range(3):
        assert call(good).status == 200
        assert call(bad).status == 500


# Request and response, across a middleware.


def test_the_same_request_and_a_new_response(call: Any) -> None:
    seen: list[Any] = []

    @element
    def outer(next: Any) -> Any:
        def outer(request: Any, response: Any) -> None:
            seen.append((request, response, request.environ, request.pipeline))
            response.headers["X-Both"] = "outer"
            response.headers["X-Outer"] = "1"
            response.set_cookie("a", "1")
            next(request, response)
            seen.append((request, response, request.environ, request.pipeline))

        return outer

    @element
    def inner(next: Any) -> Any:
        def inner(request: Any, response: Any) -> None:
            seen.append((request, response, request.environ, request.pipeline))
            assert request.environ["pipeline.response"] is response
            response.headers["X-Both"] = "inner"
            response.set_cookie("b", "2")
            next(request, response)

        return inner

    app = Pipeline(outer, lambda app: lambda environ, start: app({**environ, "copy": True}, start), inner, hello)
    answer = call(app)
    (r1, p1, e1, l1), (r2, p2, e2, l2), (r3, p3, e3, l3) = seen
    assert r1 is r2 is r3
    assert p1 is p3 and p2 is not p1
    assert e1 is e3 and "copy" in e2 and "copy" not in e1
    assert l1 is l3 is app and l2 is not app
    assert answer.headers.getall("X-Both") == ["inner"]
    assert answer.headers["X-Outer"] == "1" and answer.headers["X-App"] == "hello"
    assert [cookie[:3] for cookie in answer.headers.getall("Set-Cookie")] == ["a=1", "b=2"]
    assert answer.headers.getall("Content-Type") == ["text/plain"]


def test_an_error_passes_through_a_middleware_to_the_outer_errors(call: Any) -> None:
    def fails(environ: Any, start_response: Any) -> Any:
        raise HTTPNotFound("not here")

    answer = call(Pipeline(errors(), lambda app: lambda *wsgi: app(*wsgi), middle, fails))
    assert answer.status == 404 and b"not here" in answer.body


def test_one_request_may_be_tried_on_several_pipelines(call: Any, module: Any) -> None:
    """As Paste's cascade does: each finds the request as it was in front of the first."""

    @view(context=dict, name="x")
    def found(context: Any, request: Any) -> str:
        return f"found {request.subpath}"

    apps = [traverse(root=dict)(publisher({}, scan=scanned)) for scanned in ("", module(found), "")]

    def cascade(environ: Any, start_response: Any) -> Any:
        for app in apps:
            try:
                return app(dict(environ), start_response)
            except HTTPNotFound:
                continue
        raise HTTPNotFound

    pipeline = Pipeline(errors(), cascade)
    assert call(pipeline, "/x/y").text == "found ('y',)"
    assert call(pipeline, "/y/x").status == 404


# Errors that nobody answers, at the edge.


@pytest.mark.parametrize(
    ("error", "status"),
    [(ZeroDivisionError("secret"), 500), (HTTPNotFound("gone"), 404), (HTTPFound(location="/x"), 302)],
)
def test_the_edge_answers_what_no_element_has_answered(call: Any, error: Exception, status: int) -> None:
    @element
    def failing(next: Any) -> Any:
        def failing(request: Any, response: Any) -> None:
            raise error

        return failing

    answer = call(failing(hello))
    assert answer.status == status and b"secret" not in answer.body
    assert answer.headers["Content-Type"].startswith("text/html" if status == 302 else "text/plain")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("interrupt", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_what_is_no_error_is_not_answered_and_closes_all_the_same(
    interrupt: type[BaseException], environ: Any, step: Any, trail: list[str]
) -> None:
    """R5: whoever ends the process ends it; connections are given back first."""

    def ends(environ: Any, start_response: Any) -> Any:
        raise interrupt

    for app in (
        Pipeline(step("a"), step("b"), ends),
        Pipeline(step("a"), lambda app: lambda *wsgi: app(*wsgi), step("b"), ends),
    ):
        given = environ()
        trail.clear()
        with pytest.raises(interrupt):
            app(given, lambda *started: None)
        assert trail == ["> a", "> b", "close b", "close a"]
        assert not [key for key in given if key.startswith("pipeline.")]


@pytest.mark.parametrize("blocks", [[b"x"], (b"x", b"y")])
def test_a_server_that_refuses_the_answer_still_has_the_request_closed(
    environ: Any, step: Any, trail: list[str], blocks: Any
) -> None:
    """R5, R7: ``start_response`` may raise, and then nobody calls close()."""
    closed: list[bool] = []

    class Blocks:
        def __iter__(self) -> Iterator[bytes]:
            return iter(blocks)

        def close(self) -> None:
            closed.append(True)

    def app(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return Blocks()

    def refuse(*started: Any) -> Any:
        raise OSError("gone")

    given = environ()
    with pytest.raises(OSError, match="gone"):
        step("a")(app)(given, refuse)
    assert closed == [True] and trail[-1] == "close a"
    assert not [key for key in given if key.startswith("pipeline.")]


# Linking.


@pytest.mark.parametrize("put", [lambda needy: Pipeline(needy, hello), lambda needy: needy(hello)])
def test_an_element_without_the_option_that_it_needs_is_refused_when_it_is_linked(put: Any) -> None:
    """Nobody has called it with options, so nobody else has looked."""

    @element
    def needy(next: Any, *, size: int) -> Any:
        return next

    with pytest.raises(OptionError, match="needy needs the option 'size'"):
        put(needy)
    assert put(needy(size=1))


def test_an_element_that_only_offers_attributes_costs_no_call(call: Any) -> None:
    """Its handler is taken out when the pipeline is linked, and what it offers stays."""

    @element
    def offering(next: Any) -> Any:
        return Offers(next, root=lambda request: "the root")

    @element
    def end() -> Any:
        def end(request: Any, response: Any) -> None:
            assert sys._getframe(1).f_code is Pipeline.__call__.__code__
            response.text = request.root

        return end

    for app in (offering()(end()), Pipeline(offering(), end()), step_around(offering()(end()))):
        assert call(app).text == "the root"


def step_around(app: Any) -> Any:
    """An element that has nothing to do, around ``app``."""

    @element
    def nothing(next: Any) -> Any:
        return next

    return nothing()(app)


# Nothing is left.


@pytest.fixture
def no_collector() -> Iterator[None]:
    """The garbage collector does not run: what is in a cycle stays."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@element
def plain(next: Any) -> Any:
    def plain(request: Any, response: Any) -> None:
        requests.append(weakref.ref(request))
        request.on_close(lambda: request.environ.get("x"))
        next(request, response)

    return plain


requests: list[Any] = []


def streams(environ: Any, start_response: Any) -> Any:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return (block for block in [b"a", b"b"])


def fails(environ: Any, start_response: Any) -> Any:
    raise ZeroDivisionError


@view(context=dict)
def index(context: Any, request: Any) -> str:
    return "index"


@view(context=dict, name="stream")
def stream(context: Any, request: Any) -> Any:
    return (block for block in [b"a", b"b"])


@view(context=dict, name="moved")
def moved(context: Any, request: Any) -> str:
    raise HTTPFound(location="/x")


@view(context=dict, name="raised")
def raised(context: Any, request: Any) -> str:
    raise HTTPNotFound("x")


@view(context=dict, name="returned")
def returned(context: Any, request: Any) -> Any:
    return HTTPNotFound("x")


@view(context=dict, name="broken")
def broken(context: Any, request: Any) -> Any:
    return 1 / 0


@view(context=dict, name="wrong")
def wrong(context: Any, request: Any) -> Any:
    return {"a": "dict"}


@view(context=dict, name="transient")
def transient(context: Any, request: Any) -> Any:
    """As the element ``transaction`` does with what its data managers call transient."""
    try:
        raise ZeroDivisionError
    except ZeroDivisionError as error:
        request.verdict = Verdict(error, True)
        raise


def site(*outer: Any) -> Pipeline:
    return Pipeline(plain, *outer, traverse(root=dict), publisher(scan=(__name__,)))


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", "200"),
        ("/stream", "200"),
        ("/moved", "302"),
        ("/raised", "404"),
        ("/returned", "404"),
        ("/broken", "500"),
        ("/wrong", "500"),
        ("/transient", "503"),
        ("/nowhere", "404"),
        ("/_x", "404"),
        ("/%FF", "400"),
    ],
)
@pytest.mark.parametrize("outer", [(), (errors,), (lambda app: lambda environ, start: app({**environ}, start),)])
def test_a_request_is_freed_when_it_is_closed(
    path: str, status: str, outer: Any, environ: Any, no_collector: None
) -> None:
    """No reference cycle is left: nothing waits for the garbage collector, and no connection either."""
    logging.disable()  # pytest keeps what is logged, with the frames of its traceback
    try:
        app = site(*outer)
        requests.clear()
        started: list[str] = []
        for _ in range(3):
            body = app(environ(path), lambda status, headers: started.append(status[:3]))
            list(body)
            if hasattr(body, "close"):
                body.close()
            del body
            assert requests.pop()() is None, "the request is gone"
        assert started == [status] * 3
    finally:
        logging.disable(logging.NOTSET)


def test_a_pipeline_is_deep_without_being_slow() -> None:
    """Handlers are linked: a hundred elements are a hundred plain calls, and no limit is near."""
    app: Any = hello
    for number in range(100):

        def factory(next: Any) -> Any:
            return lambda request, response: next(request, response)

        factory.__name__ = f"e{number}"
        app = element(factory)(app)
    depth = sys.getrecursionlimit()
    assert depth >= 1000
    started: list[Any] = []
    assert list(app({"REQUEST_METHOD": "GET"}, lambda *arguments: started.append(arguments))) == [b"hello"]


def test_every_element_and_every_app_is_silent_under_the_validator(call: Any, step: Any) -> None:
    assert call(validator(step("a")(validator(step("b")(validator(hello)))))).text == "hello"


class AppByPath(dict[str, Any]):
    """A WSGI app that is a mapping as well, as Paste's URLMap is."""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        return self[environ["PATH_INFO"]](environ, start_response)


def test_an_element_stands_around_an_app_that_is_a_mapping(call: Any) -> None:
    @element
    def around(next: Any) -> Any:
        return next

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"by path"]

    assert call(around(AppByPath({"/": app})), "/").body == b"by path"
