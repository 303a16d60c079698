"""The key of debug mode (S17): how it is made, handed over, and judged."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import webob

from pipeline import Pipeline, Request, Response, element
from pipeline.elements.errors import errors
from pipeline.elements.inspector import inspector
from pipeline.http import debug_key
from pipeline.interfaces import ConfigurationError

KEY = "k" * 43


@pytest.fixture(autouse=True)
def no_key_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug_key, "_key", None)
    monkeypatch.delenv(debug_key.VARIABLE, raising=False)


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv(debug_key.VARIABLE, KEY)
    debug_key.make()
    yield KEY


def request_of(**environ: Any) -> Request:
    return Request({"REQUEST_METHOD": "GET", "PATH_INFO": "/", "wsgi.url_scheme": "http", **environ})


def test_the_key_is_made_once_and_logged_with_its_address(caplog: pytest.LogCaptureFixture) -> None:
    debug_key.make()
    debug_key.make()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    sent = record.getMessage().partition("/?")[2].split()[0]
    name, _, key = sent.partition("=")
    assert name == debug_key.PARAMETER and len(key) >= 43
    assert debug_key.may_see(request_of(HTTP_COOKIE=f"{debug_key.COOKIE}={key}"))


@pytest.mark.parametrize(
    ("address", "where"),
    [("http://127.0.0.1:8080", "http://127.0.0.1:8080/++inspect++/,"), ("", "/++inspect++/,")],
)
def test_the_address_of_the_inspector_is_logged_at_start(
    address: str, where: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_chosen", "_address", "_told"):
        monkeypatch.setattr(debug_key, name, getattr(debug_key, name))
    for again in (False, True):
        debug_key.choose(KEY, address, again)
        Pipeline(inspector(), errors(debug=True), lambda request, response: None)
    told = [one.getMessage() for one in caplog.records if "++inspect++" in one.getMessage()]
    assert [f"the inspector is at {where}" in one for one in told] == [True], "a site that starts again is silent"


def test_two_processes_have_two_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    debug_key.make()
    first = debug_key._key
    monkeypatch.setattr(debug_key, "_key", None)
    debug_key.make()
    assert debug_key._key != first


def test_the_environment_chooses_the_key_of_workers_that_load_the_site_each(key: str) -> None:
    assert debug_key._key == key


@pytest.mark.parametrize("chosen", ["", "short", "x" * 31, "with a blank " * 5, "é" * 40, "a;b" * 20])
def test_a_key_that_is_short_or_cannot_be_a_cookie_is_refused(
    chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(debug_key.VARIABLE, chosen)
    with pytest.raises(ConfigurationError, match="PIPELINE_DEBUG_KEY"):
        errors(debug=True)(lambda request, response: None)


@pytest.mark.parametrize(
    ("cookie", "may"),
    [
        (f"debug-key={KEY}", True),
        (f"a=b; debug-key={KEY}", True),
        (f"debug-key=planted; debug-key={KEY}", True),
        ("debug-key=", False),
        ("debug-key=wrong", False),
        (f"debug-key={KEY}x", False),
        (f"debug-key={KEY[:-1]}", False),
        (f"other={KEY}", False),
        (f"debug-key=\xff; x={KEY}", False),
        ("", False),
        (None, False),
    ],
)
def test_the_cookie_decides(key: str, cookie: str | None, may: bool) -> None:
    environ = {} if cookie is None else {"HTTP_COOKIE": cookie}
    assert debug_key.may_see(request_of(**environ)) is may


def test_without_a_key_nobody_may_see() -> None:
    assert not debug_key.may_see(request_of(HTTP_COOKIE="debug-key="))
    assert not debug_key.may_see(request_of(HTTP_COOKIE="debug-key=None"))


@element
def end() -> Any:
    """The end of a pipeline; shows the query that reached it, and whether the visitor may see more."""

    def end(request: Request, response: Response) -> None:
        response.text = f"{request.environ['QUERY_STRING']} {request.debug}"

    return end


def visit(path: str, method: str = "GET", **environ: Any) -> webob.Response:
    asked = webob.Request.blank(path, environ, method=method)
    return asked.get_response(Pipeline(errors(debug=True), end()))


def test_the_address_with_the_key_sets_the_cookie_and_leads_away(key: str) -> None:
    answer = visit(f"/?debug-key={key}")
    assert (answer.status_int, answer.headers["Location"]) == (303, "/")
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    cookie = answer.headers["Set-Cookie"]
    assert cookie.split("; ")[0] == f"debug-key={key}"
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; ")) and "secure" not in cookie
    assert key not in answer.text
    assert visit("/", HTTP_COOKIE=cookie.partition(";")[0]).text == " True"
    assert visit("/").text == " False"


def test_under_https_the_cookie_is_secure_and_the_mount_point_stays(key: str) -> None:
    answer = visit(
        f"/?debug-key={key}", **{"wsgi.url_scheme": "https", "SCRIPT_NAME": "//evil.example\\\r\n"}
    )
    assert answer.headers["Location"] == "/evil.example%5C%0D%0A/"
    assert "; secure" in answer.headers["Set-Cookie"]


@pytest.mark.parametrize(
    "query", ["debug-key=", "debug-key=wrong", f"debug-key={KEY}x", f"a=b&debug-key={KEY}", "debug-key=\xff"]
)
def test_another_query_is_an_ordinary_request(key: str, query: str) -> None:
    answer = visit("/", QUERY_STRING=query)
    assert answer.text == f"{query} False" and "Set-Cookie" not in answer.headers


def test_only_GET_hands_the_key_over(key: str) -> None:
    assert "Set-Cookie" not in visit(f"/?debug-key={key}", method="POST").headers


def test_the_key_is_not_in_the_access_log(key: str, caplog: pytest.LogCaptureFixture) -> None:
    from pipeline.elements.log import log

    caplog.set_level(logging.INFO, "pipeline.access")
    caplog.clear()
    app = Pipeline(log(), errors(debug=True), end())
    for given in ({}, {"REQUEST_URI": f"/?debug-key={key}"}, {"RAW_URI": f"/?debug-key={key}"}):
        request = webob.Request.blank(f"/?debug-key={key}", environ=given)
        assert request.get_response(app).status_int == 303
    assert caplog.text.count("GET / ") == 3 and key not in caplog.text
