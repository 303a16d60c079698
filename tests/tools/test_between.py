"""Watchers are linked in between the parts of a pipeline at load, when one of its elements asks for that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from paste.deploy import loadapp

from pipeline import Pipeline, element
from pipeline.between import openers
from pipeline.composition import Offers
from pipeline.elements.errors import errors
from pipeline.elements.traverse import traverse
from pipeline.paste import Step, load
from pipeline.publisher import publisher
from pipeline.request import Request, on_first_use


class SeenRequest(Request):
    """What ``watching`` adds."""

    seen: Any = None


def between(step: Step, offers: Offers) -> Offers:
    next = offers.handler

    def watcher(request: Any, response: Any) -> None:
        seen = getattr(request, "seen", None)
        if seen is not None:
            seen.append(str(step))
        next(request, response)

    return Offers(watcher, **offers.attributes)


SEEN: list[list[str]] = []


@element(adds=SeenRequest, between=between)
def watching(next: Any) -> Any:
    """Note the parts that a request passes."""

    def watching(request: Any, response: Any) -> None:
        request.seen = []
        SEEN.append(request.seen)
        next(request, response)

    return watching


def swallow(app: Any) -> Any:
    def swallowing(environ: Any, start_response: Any) -> Any:
        return app(environ, start_response)

    return swallowing


def swallow_factory(app: Any, global_conf: Any) -> Any:
    return swallow(app)


@pytest.fixture(autouse=True)
def forget() -> None:
    SEEN.clear()


def test_each_part_is_watched(call: Callable[..., Any]) -> None:
    app = Pipeline(watching(), errors(), traverse(root=dict), publisher())
    call(app, "/")
    assert SEEN == [["errors", "traverse", "publisher"]]


def test_a_foreign_middleware_and_a_foreign_app_are_watched(call: Callable[..., Any]) -> None:
    def hello(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"hello"]

    app = Pipeline(watching(), swallow, errors(), hello)
    assert call(app, "/").text == "hello"
    assert SEEN == [["swallowing", "errors", "hello"]]


def test_without_such_an_element_nothing_is_linked_in() -> None:
    handler = Pipeline(errors(), traverse(root=dict), publisher()).handler
    assert handler.__qualname__ == "errors.<locals>.errors"


def test_what_a_part_opens_is_known() -> None:
    class Opening(Request):
        store: Any = on_first_use()
        plain: int = 1

    found: list[tuple[str, list[str]]] = []

    def note(step: Step, offers: Offers) -> Offers:
        found.append((str(step), sorted(openers(step, offers))))
        return offers

    @element(between=note)
    def noting(next: Any) -> Any:
        return next

    @element(adds=Opening)
    def store(next: Any) -> Any:
        return Offers(next, store=lambda request: "store", plain=2)

    Pipeline(noting(), store(), traverse(root=dict), publisher())
    assert ("store", ["store"]) in found


INI = f"""\
[pipeline:main]
pipeline = watching errors foreign choice

[composite:choice]
use = egg:wsgi-pipeline#switch
branches = posts method=POST
default = pages

[pipeline:posts]
pipeline = traverse publisher

[pipeline:pages]
pipeline = traverse publisher

[filter:watching]
paste.filter_factory = {__name__}:watching

[filter:foreign]
paste.filter_app_factory = {__name__}:swallow_factory

[filter:errors]
use = egg:wsgi-pipeline#errors

[filter:traverse]
use = egg:wsgi-pipeline#traverse
root = builtins:dict

[app:publisher]
use = egg:wsgi-pipeline#publisher
"""


@pytest.mark.parametrize("loader", [loadapp, load])
def test_an_ini_is_watched_whoever_loads_it(call: Callable[..., Any], tmp_path: Path, loader: Any) -> None:
    ini = tmp_path / "site.ini"
    ini.write_text(INI)
    app = loader(f"config:{ini}")
    assert call(app, "/").status == 404
    assert SEEN == [["errors", "swallowing", "traverse", "publisher"]]


def test_a_section_that_no_pipeline_names_asks_for_nothing(tmp_path: Path) -> None:
    ini = tmp_path / "site.ini"
    ini.write_text(INI.replace("pipeline = watching errors", "pipeline = errors"))
    handler = loadapp(f"config:{ini}").handler
    assert handler.__qualname__ == "errors.<locals>.errors"
