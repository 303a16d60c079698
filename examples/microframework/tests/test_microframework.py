"""An application of the framework, by its requests, and the elements of the framework by the test kit."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import webob
from paste.deploy import loadapp
from transaction.interfaces import TransientError
from webob.exc import HTTPFound

from microframework import MicroRequest, Routes, error_pages, routing, site
from pipeline.composition import Element
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.vhost import vhost
from pipeline.interfaces import OrderError
from pipeline.testing import FakeDataManager, assert_order, check_element
from pipeline.testing import site as client_of

app = Routes()
stored: list[str] = []
conflicts: list[Exception] = []


@app.route("/")
def index(request: MicroRequest) -> str:
    return "<p>Welcome</p>"


@app.route("/hello/{name}")
def hello(request: MicroRequest, name: str) -> dict[str, str]:
    return {"hello": name}


@app.route("/words/{word}", "PUT")
def put_word(request: MicroRequest, word: str) -> webob.Response:
    fails = {"tpc_vote": conflicts.pop()} if conflicts else {}
    FakeDataManager(request.tm, stored, word, fails=fails).join()
    if word == "wrong":
        raise ValueError(word)
    return webob.Response("stored", status=201, content_type="text/plain")


@app.route("/old")
def old(request: MicroRequest) -> None:
    raise HTTPFound(location="/")


@app.error(404)
def missing(request: MicroRequest, error: Exception) -> str:
    return f"<p>{request.path_info_safe} is not here</p>"


@app.error(500)
def sorry(request: MicroRequest, error: Exception) -> dict[str, str]:
    return {"sorry": type(error).__name__}


@pytest.fixture
def client() -> Any:
    stored.clear()
    return client_of(site(app))


def test_a_route_answers_with_text_json_or_a_response(client: Any) -> None:
    assert client.get("/").text == "<p>Welcome</p>"
    assert client.get("/hello/ada").json == {"hello": "ada"}
    assert client.put("/words/one", status=201).text == "stored"
    assert stored == ["one"]


def test_an_address_without_a_route_has_an_own_page(client: Any) -> None:
    answer = client.get("/no%20where", status=404)
    assert answer.text == "<p>/no%20where is not here</p>" and answer.content_type == "text/html"


def test_a_method_that_no_route_accepts(client: Any) -> None:
    answer = client.post("/hello/ada", status=405)
    assert answer.headers["Allow"] == "GET, HEAD"


def test_a_redirect_is_an_answer(client: Any) -> None:
    assert client.get("/old", status=302).follow().text == "<p>Welcome</p>"


def test_an_error_has_an_own_page_and_stores_nothing(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "microframework"):
        answer = client.put("/words/wrong", status=500)
    assert answer.json == {"sorry": "ValueError"} and stored == []
    assert "PUT /words/wrong failed" in caplog.text


def test_a_conflict_is_tried_again(client: Any) -> None:
    conflicts.append(TransientError("another was first"))
    client.put("/words/two", status=201)
    assert stored == ["two"]


def test_an_ini_serves_it(tmp_path: Path) -> None:
    ini = tmp_path / "site.ini"
    ini.write_text(
        f"""
[pipeline:main]
pipeline = egg:wsgi-pipeline#log egg:wsgi-pipeline#vhost app
[app:app]
paste.app_factory = microframework:make_site
app = {__name__}:app
"""
    )
    assert client_of(ini).get("/hello/ada").json == {"hello": "ada"}
    names = [contract.name for contract in loadapp(f"config:{ini}").linked]
    assert names == ["log", "vhost", "retry", "error_pages", "transaction", "routing", "calling"]


def test_an_element_of_an_ini_in_a_wrong_place_is_refused() -> None:
    with pytest.raises(OrderError, match="error_pages"):
        retry()(site(app))
    with pytest.raises(OrderError, match="a failed commit gets a page"):
        transaction()(error_pages(app=app)(vhost()(lambda environ, start_response: [])))


@pytest.mark.parametrize("element", [routing(app=app), error_pages(app=app)], ids=lambda element: element.name)
def test_its_elements_keep_the_protocol(element: Element) -> None:
    check_element(element)


def test_its_order_is_declared() -> None:
    assert_order(retry, error_pages, because="transient")
    assert_order(error_pages, transaction, because="a failed commit")
    assert_order(error_pages, routing, because="an error page")
