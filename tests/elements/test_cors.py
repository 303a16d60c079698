"""``cors``: what scripts of other origins may ask, and what stays refused (S23)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from asking import ask, served
from pipeline import Pipeline, Response, view
from pipeline.elements.authenticate import authenticate
from pipeline.elements.cors import cors
from pipeline.elements.errors import errors
from pipeline.elements.request_id import request_id
from pipeline.elements.traverse import traverse
from pipeline.elements.vhost import vhost
from pipeline.interfaces import OptionError
from pipeline.publisher import publisher

LISTED, NAMED, STRANGE = "https://app.example.com", "https://own.example.com:8443", "https://evil.example"
stored: list[str] = []


class Root(dict[str, Any]):
    """What is published."""


@view(context=Root)
def show(context: Root, request: Any, response: Response) -> str:
    response.etag = "v1"
    return "shown"


@view(context=Root, name="add", methods=("POST", "PUT"))
def add(context: Root, request: Any) -> str:
    stored.append(request.environ.get("HTTP_ORIGIN", ""))
    return "added"


@view(context=Root, name="fails")
def fails(context: Root, request: Any) -> str:
    raise KeyError("x")


@view(context=Root, name="streams")
def streams(context: Root, request: Any) -> Iterator[bytes]:
    raise KeyError("x")
    yield b""


@view(context=Root, name="filters")
def filters(context: Root, request: Any, response: Response) -> str:
    response.add_filter(lambda chunks: chunks.missing)
    return "shown"


def site(
    *parts: Any, origins: tuple[str, ...] = (LISTED,), with_cookies: tuple[str, ...] = (NAMED,), **options: Any
) -> Any:
    stored.clear()
    parts = (*parts, vhost(allowed_hosts=("site.example.com", "127.0.0.1", "localhost")))
    inner = (errors(), traverse(root=Root), publisher(scan=(__name__,)))
    return Pipeline(*parts, cors(origins=origins, with_cookies=with_cookies, **options), *inner)


def send(app: Any, path: str, method: str, **headers: str) -> Any:
    extra = {f"HTTP_{name.upper()}": value for name, value in headers.items()}
    content_type = extra.pop("HTTP_CONTENT_TYPE", None)
    if content_type is not None:
        extra["CONTENT_TYPE"] = content_type
    return ask(app, path, method, HTTP_HOST="site.example.com", **extra)


CREDENTIALS = {
    "none": {},
    "a cookie": {"cookie": "a=b"},
    "a password": {"authorization": "Basic YTpi"},
    "a token": {"authorization": "Bearer abc"},
}
SENDERS = {
    "a script": {"sec_fetch_site": "cross-site", "sec_fetch_mode": "cors"},
    "a form": {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"},
    "a script without asking": {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"},
    "an old browser, JSON": {"content_type": "application/json"},
    "an old browser, a form": {"content_type": "text/plain; charset=utf-8"},
    "an old browser, nothing": {},
}


@pytest.mark.parametrize(
    ("origin", "credentials", "sender"), list(product([LISTED, NAMED, STRANGE, "null"], CREDENTIALS, SENDERS))
)
def test_what_may_change_something(origin: str, credentials: str, sender: str) -> None:
    answer = send(site(), "/add", "POST", origin=origin, **CREDENTIALS[credentials], **SENDERS[sender])
    of_a_script = sender in ("a script", "an old browser, JSON")
    may = of_a_script and (origin == NAMED or (origin == LISTED and credentials in ("none", "a token")))
    assert answer.status == (200 if may else 403)
    assert stored == ([origin] if may else [])


@pytest.mark.parametrize("sender", ["a script", "an old browser, JSON"])
@pytest.mark.parametrize("origin", [LISTED, NAMED])
@pytest.mark.parametrize(
    ("methods", "method"), list(product([("GET", "HEAD"), ("GET", "PUT"), ("GET", "POST")], ["POST", "PUT"]))
)
def test_a_method_that_is_not_named_stays_refused__S23(
    methods: tuple[str, ...], method: str, origin: str, sender: str
) -> None:
    """A browser sends a POST of text/plain without a preflight (Fetch, CORS-safelisted method): it asks nothing."""
    answer = send(site(methods=methods), "/add", method, origin=origin, **SENDERS[sender])
    assert answer.status == (200 if method in methods else 403)
    assert stored == ([origin] if method in methods else [])
    assert answer.headers["Access-Control-Allow-Origin"] == origin, "the script may read why"


@pytest.mark.parametrize("user", ["", " ", "ann"])
@pytest.mark.parametrize("origin", [LISTED, NAMED, STRANGE])
@pytest.mark.parametrize("foreign", [True, False])
def test_a_user_whom_a_proxy_names_is_a_credential(user: str, origin: str, foreign: bool) -> None:
    """The browser has shown the proxy a certificate or a ticket, as it would send a cookie: without being asked."""

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        stored.append(environ["HTTP_ORIGIN"])
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"added"]

    stored.clear()
    outer = vhost(allowed_hosts=("*",)), cors(origins=(LISTED,), with_cookies=(NAMED,)), errors()
    by_header = authenticate(by=("header",), realm="sso", trusted=("unix",), undeclared="allow")
    end = (app,) if foreign else (traverse(root=Root), publisher(scan=(__name__,)))
    pipeline = Pipeline(*outer, by_header, *end)
    asked = {"origin": origin, "x_forwarded_user": user, "content_type": "text/plain", **SENDERS["a script"]}
    answer = send(lambda environ, start: pipeline({**environ, "REMOTE_ADDR": ""}, start), "/add", "POST", **asked)
    may = origin == NAMED or (origin == LISTED and not user.strip())
    assert answer.status == (200 if may else 403)
    assert stored == ([origin] if may else [])


@pytest.mark.parametrize("path", ["/", "/add", "/fails", "/missing"])
@pytest.mark.parametrize("origin", [LISTED, NAMED, STRANGE, "null", None])
def test_who_may_read_an_answer(path: str, origin: str | None) -> None:
    answer = send(site(), path, "GET", **({} if origin is None else {"origin": origin}))
    headers = answer.headers
    assert headers.get("Access-Control-Allow-Origin") == (origin if origin in (LISTED, NAMED) else None)
    assert headers.get("Access-Control-Allow-Credentials") == ("true" if origin == NAMED else None)
    assert ("ETag" in headers.get("Access-Control-Expose-Headers", "")) == (origin in (LISTED, NAMED))
    assert "Origin" in headers["Vary"], "no cache gives the answer for one origin to another"


def test_any_origin_reads_without_cookies() -> None:
    app = site(origins=("*",), with_cookies=())
    for origin in ({"origin": LISTED}, {"origin": STRANGE}, {"origin": "null"}, {}):
        headers = send(app, "/", "GET", **origin, cookie="a=b").headers  # without Vary, all have the same headers
        assert headers["Access-Control-Allow-Origin"] == "*"
        assert "Access-Control-Allow-Credentials" not in headers and "Vary" not in headers
    assert send(app, "/add", "POST", origin=STRANGE, **SENDERS["a script"]).status == 200
    assert send(app, "/add", "POST", origin=STRANGE, **SENDERS["a script"], cookie="a=b").status == 403
    both = site(origins=("*",))
    assert send(both, "/", "GET", origin=NAMED).headers["Access-Control-Allow-Origin"] == NAMED
    assert "Origin" in send(both, "/", "GET", origin=STRANGE).headers["Vary"]
    assert send(app, "/", "OPTIONS", access_control_request_method="PUT").status == 403


PREFLIGHTS = [
    (LISTED, "PUT", "", 204),
    (LISTED, "PUT", "content-type, Authorization,if-match", 204),
    (LISTED, "PUT", "content-type,,", 204),
    (NAMED, "DELETE", "", 204),
    (LISTED, "BREW", "", 403),
    (LISTED, "put", "", 403),
    (LISTED, "PUT", "x-own", 403),
    (STRANGE, "GET", "", 403),
    ("null", "GET", "", 403),
    ("", "GET", "", 403),
    (LISTED, "PUT", "x" * 10_000, 403),
]


@pytest.mark.parametrize(("origin", "method", "names", "status"), PREFLIGHTS)
def test_the_question_before(origin: str, method: str, names: str, status: int) -> None:
    asked = {"access_control_request_method": method} | ({"access_control_request_headers": names} if names else {})
    answer = send(site(), "/fails", "OPTIONS", origin=origin, **asked)
    assert answer.status == status
    if status == 204:
        assert method in answer.headers["Access-Control-Allow-Methods"] and not answer.body
        assert answer.headers["Access-Control-Max-Age"] == "600"
        assert answer.headers["Access-Control-Allow-Origin"] == origin
    else:
        assert "Access-Control-Allow-Methods" not in answer.headers and answer.text.endswith(".\n")


def test_other_options_requests_reach_the_site() -> None:
    assert send(site(), "/", "OPTIONS", origin=LISTED).headers["Allow"] == "GET, HEAD, OPTIONS"
    asked = {"origin": LISTED, "access_control_request_method": "PUT"}
    strange = {f"HTTP_{name.upper()}": value for name, value in asked.items()}
    assert ask(site(), "/", "OPTIONS", HTTP_HOST="elsewhere.example", **strange).status == 400


@pytest.mark.parametrize(
    "options",
    [
        {"origins": ("app.example.com",)},
        {"origins": ("https://app.example.com/",)},
        {"origins": ("https://*.example.com",)},
        {"origins": ("null",)},
        {"origins": ("https://app.example.com:443",)},  # a browser leaves that port out: nothing would be let in
        {"origins": ("http://app.example.com:080",)},
        {"origins": ("https://App.example.com",)},
        {"origins": ("http://[0:0:0:0:0:0:0:1]:3000",)},
        {"origins": ("ws://app.example.com",)},
        {"with_cookies": ("*",)},
        {"methods": ("GET, PUT",)},
        {"headers": ("*\r\nX: y",)},
        {"expose": ("X Y",)},
    ],
)
def test_options_that_mean_something_else(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        site(**options)


def test_origins_as_browsers_send_them() -> None:
    for origin in ("http://localhost:3000", "http://[::1]:3000", "https://a.example", "http://127.0.0.1"):
        answer = send(site(origins=(origin,)), "/", "GET", origin=origin)
        assert answer.headers["Access-Control-Allow-Origin"] == origin


ASKS = """
const done = arguments[arguments.length - 1];
const [url, method, credentials, type] = arguments;
fetch(url, {method, credentials, headers: type ? {"Content-Type": type} : {}, body: method == "GET" ? null : "{}"})
  .then(async got => done([got.status, await got.text(), got.headers.get("ETag")]), () => done("refused"));
"""


@pytest.mark.browser
def test_a_browser_agrees(browser: Any) -> None:
    def page(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/html")])
        return [b"<title>another origin</title>"]

    with (
        served(page, "127.0.0.1") as listed,
        served(page, "127.0.0.1") as strange,
        served(site(origins=(listed,), with_cookies=()), "localhost") as asked,
    ):

        def fetch(url: str, method: str = "GET", credentials: str = "omit", type: str | None = None) -> Any:
            return browser.execute_async_script(ASKS, asked + url, method, credentials, type)

        browser.get(strange)
        assert fetch("/") == fetch("/add", "PUT", type="application/json") == "refused"
        assert fetch("/add", "POST", type="text/plain") == "refused"
        browser.get(listed)
        assert fetch("/") == [200, "shown", '"v1"']
        assert fetch("/", credentials="include") == "refused"
        assert fetch("/add", "PUT", type="application/json")[:2] == [200, "added"]
        assert fetch("/add", "POST", type="text/plain")[:2] == [200, "added"]
        assert fetch("/fails")[0] == 500
        assert stored == [listed, listed]


@pytest.mark.parametrize("origin", [LISTED, NAMED, STRANGE])
@pytest.mark.parametrize("name", ["streams", "filters"])
def test_an_error_in_the_body_has_the_headers_of_any_answer(name: str, origin: str) -> None:
    """It comes to light when all elements have answered. A script reads why, and a log has the id of the answer."""
    app = site(request_id())
    usual = send(app, "/fails", "GET", origin=origin).headers
    answer = send(app, f"/{name}", "GET", origin=origin)
    told = {one: usual[one] for one in usual if one.startswith("Access-Control-")}
    assert answer.status == 500 and bool(told) == (origin != STRANGE)
    assert {one: answer.headers[one] for one in answer.headers if one.startswith("Access-Control-")} == told
    assert answer.headers["X-Request-ID"] in answer.text
