"""``timing``: what each element takes, and what is made of it."""

from __future__ import annotations

import gc
import logging
import re
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from paste.deploy import loadapp
from pytest import approx
from transaction.interfaces import TransientError
from webob.exc import HTTPNotFound

from around_a_view import looking
from asking import ask
from pipeline import Pipeline, Request, Response, element, view
from pipeline.elements.errors import errors
from pipeline.elements.log import log
from pipeline.elements.retry import retry
from pipeline.elements.timing import timing
from pipeline.elements.traverse import traverse
from pipeline.interfaces import ConfigurationError, OrderError
from pipeline.measuring.measures import Measures, attempts, view_name
from pipeline.publisher import publisher

PAUSE = 0.02
CLOCK = SimpleNamespace(now=0.0)
"""The clock of ``timing``. It stands still but for ``pause``, so that the times are exact on a busy machine."""

SEEN: list[Request] = []

seeing = looking(SEEN.append)
"""Keeps the request, so that a test can look at it when it is closed."""


def pause(seconds: float = PAUSE) -> None:
    CLOCK.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pipeline.elements.timing", "pipeline.measuring.measures"):
        monkeypatch.setattr(f"{module}.clock", lambda: CLOCK.now)


@element
def slow(next: Any, *, before: float = 0.0, after: float = 0.0) -> Any:
    def slow(request: Request, response: Response) -> None:
        pause(before)
        next(request, response)
        pause(after)

    return slow


@element
def end(*, do: Callable[[Request, Response], Any]) -> Any:
    def end(request: Request, response: Response) -> None:
        response.app_iter = do(request, response) or [b"hello"]

    return end


def hello(environ: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hello"]


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    SEEN.clear()


def measured(app: Any, path: str = "/", **options: Any) -> Measures:
    """Send a request; return its measures."""
    ask(app, path, **options)
    measures: Measures = SEEN[-1].measures
    return measures


def server_timing(answer: Any) -> dict[str, float]:
    """Return the milliseconds of each part, as a browser reads them from the header."""
    [header] = answer.headers.getall("Server-Timing")
    found = [re.fullmatch(r"([!#$%&'*+.^`|~\w-]+);dur=(\d+\.\d{3})", part) for part in header.split(", ")]
    assert all(found), header
    return {one[1]: float(one[2]) for one in found if one is not None}


def test_each_element_has_its_own_time() -> None:
    app = Pipeline(seeing, timing(), retry(), slow(before=PAUSE, after=PAUSE), errors(), end(do=lambda *_: None))
    own = measured(app).own_times()
    assert list(own) == ["retry", "slow", "errors", "end"]
    assert own == approx({"retry": 0, "slow": 2 * PAUSE, "errors": 0, "end": 0})


def test_the_times_of_all_attempts_are_added() -> None:
    tries: list[int] = []

    def do(request: Request, response: Response) -> None:
        pause()
        tries.append(1)
        if len(tries) < 3:
            raise TransientError

    app = Pipeline(seeing, timing(), retry(delay=0.0), errors(), end(do=do))
    found = measured(app)
    assert found.own_times() == approx({"retry": 0, "errors": 0, "end": 3 * PAUSE})
    assert attempts(SEEN[0]) == 3 and not found.is_conflict


def test_a_foreign_middleware_and_a_foreign_app_are_measured() -> None:
    def pausing(app: Any) -> Any:
        def pausing(environ: Any, start_response: Any) -> Any:
            pause()
            return app(environ, start_response)

        return pausing

    own = measured(Pipeline(seeing, timing(), pausing, errors(), hello)).own_times()
    assert list(own) == ["pausing", "errors", "hello"]
    assert own == approx({"pausing": PAUSE, "errors": 0, "hello": 0})


def test_an_exception_ends_a_stay_too() -> None:
    def do(request: Request, response: Response) -> None:
        pause()
        raise HTTPNotFound

    own = measured(Pipeline(seeing, timing(), errors(), end(do=do))).own_times()
    assert own == approx({"errors": 0, "end": PAUSE})


def test_alone_around_a_foreign_app_it_is_ordinary_middleware() -> None:
    assert server_timing(ask(timing(header=True)(hello))).keys() == {"total"}


# The view


@pytest.fixture
def site() -> Iterator[Callable[..., Pipeline]]:
    """``site(function, ...)``: a pipeline with these views of a dict."""
    name = "views_of_timing"
    sys.modules[name] = module = ModuleType(name)

    def site(*functions: Any, **options: Any) -> Pipeline:
        for function in functions:
            function.__module__ = name
            setattr(module, function.__name__, function)
        return Pipeline(
            *(seeing, timing(**options), errors(), traverse(root=lambda: {"page": {}}), publisher(scan=(name,)))
        )

    yield site
    del sys.modules[name]


@view(context=dict)
def index(context: Any, request: Any) -> str:
    return "index"


@view(context=dict, name="edit", methods=("POST",), permission="public")
def edit(context: Any, request: Any) -> str:
    return "edit"


@pytest.mark.parametrize(
    ("path", "method", "status", "name"),
    [
        ("/", "GET", 200, "views_of_timing.index"),
        ("/", "HEAD", 200, "views_of_timing.index"),
        ("/page/", "GET", 200, "views_of_timing.index"),
        ("/page/edit", "POST", 200, "views_of_timing.edit"),
        ("/page/edit", "GET", 405, ""),
        ("/page/missing", "GET", 404, ""),
        ("/page/%FF", "GET", 400, ""),
    ],
)
def test_the_view_is_known_by_name(
    site: Callable[..., Pipeline], path: str, method: str, status: int, name: str
) -> None:
    app = site(index, edit)
    assert ask(app, path, method).status_int == status
    assert view_name(SEEN[0].measures.view) == name


# The header


def test_the_header_has_each_element_and_the_total() -> None:
    app = Pipeline(timing(header=True), slow(before=PAUSE), errors(), end(do=lambda *_: None))
    found = server_timing(ask(app))
    assert list(found) == ["slow", "errors", "end", "total"]
    assert found == approx({"slow": 1000 * PAUSE, "errors": 0, "end": 0, "total": 1000 * PAUSE})


def test_without_the_option_there_is_no_header() -> None:
    assert "Server-Timing" not in ask(Pipeline(timing(), errors(), hello)).headers


def test_an_error_page_has_the_header_too() -> None:
    def do(request: Request, response: Response) -> None:
        raise HTTPNotFound

    answer = ask(Pipeline(timing(header=True), errors(), end(do=do)))
    assert answer.status_int == 404 and "end" in server_timing(answer)


def test_the_name_of_a_foreign_app_is_made_a_token() -> None:
    def strange(environ: Any, start_response: Any) -> list[bytes]:
        return hello(environ, start_response)

    strange.__name__ = 'a "strange", name\n'
    assert "a__strange___name_" in server_timing(ask(Pipeline(timing(header=True), errors(), strange)))


# Where it is linked in

INI = """\
[composite:main]
use = egg:wsgi-pipeline#switch
branches = plain path=/plain
default = timed

[pipeline:timed]
pipeline = log timing errors hello

[pipeline:plain]
pipeline = errors hello

[filter:log]
use = egg:wsgi-pipeline#log

[filter:timing]
use = egg:wsgi-pipeline#timing
header = true

[filter:errors]
use = egg:wsgi-pipeline#errors

[app:hello]
paste.app_factory = elements_test_timing:hello_factory
"""


def hello_factory(global_conf: Any) -> Any:
    return hello


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """``load(text)``: the app of an ini, loaded by Paste Deploy itself."""
    monkeypatch.setitem(sys.modules, "elements_test_timing", sys.modules[__name__])

    def load(text: str) -> Any:
        ini = tmp_path / "site.ini"
        ini.write_text(text)
        return loadapp(f"config:{ini}")

    return load


def test_an_ini_links_it_in(load: Any) -> None:
    assert list(server_timing(ask(load(INI)))) == ["errors", "hello", "total"]


def test_another_pipeline_of_the_ini_answers_as_without_it(load: Any) -> None:
    answer = ask(load(INI), "/plain")
    assert answer.text == "hello" and "Server-Timing" not in answer.headers


def test_without_it_nothing_is_linked_in(load: Any) -> None:
    def outermost(text: str) -> str:
        handler: Any = load(text).default.handler
        return str(handler.__qualname__)

    assert outermost(INI).startswith("watcher."), "the control"
    assert outermost(INI.replace("log timing errors", "log errors")) == "log.<locals>.log"


@pytest.mark.parametrize("outer", [retry(), errors()])
def test_a_wrong_place_is_refused(outer: Any) -> None:
    with pytest.raises(OrderError, match=f"timing must be outside {outer.name}: each request is measured once"):
        Pipeline(outer, timing(), hello)


def test_log_may_stand_outside_or_inside() -> None:
    for parts in ((log(), timing()), (timing(), log())):
        assert ask(Pipeline(*parts, errors(), hello)).status_int == 200


@pytest.mark.parametrize(
    ("option", "module", "extra"),
    [("metrics", "prometheus_client", "prometheus"), ("spans", "opentelemetry", "opentelemetry")],
)
def test_a_missing_extra_is_named(option: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pipeline.measuring.metrics", "pipeline.measuring.spans"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigurationError, match=rf"timing: .*{option}.*pip install 'wsgi-pipeline\[{extra}\]'"):
        Pipeline(timing(**{option: True}), hello)


# What is left


@pytest.mark.parametrize("options", [{}, {"header": True}, {"metrics": True}, {"spans": True}])
def test_no_cycle_is_left(options: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """Exceptions are kept until the request is closed, and not longer."""
    caplog.set_level(logging.CRITICAL, "pipeline")  # a record that is captured refers to the traceback
    kept: list[Any] = []

    def do(request: Request, response: Response) -> None:
        kept.append(weakref.ref(request))
        raise ZeroDivisionError

    app = Pipeline(timing(**options), errors(), end(do=do))
    gc.collect()
    gc.disable()
    try:
        ask(app)
        assert kept[0]() is None
    finally:
        gc.enable()
