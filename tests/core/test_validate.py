"""``wsgiref.validate`` around every element, and around the whole pipeline, for every kind of answer.

The client of ``conftest.py`` puts the validator around whatever it calls, and checks HTTP's own rules; so
does every test that uses it. Here each element stands alone around an app of others, with validators on both
sides.
"""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Iterator
from importlib import import_module
from itertools import count
from pathlib import Path
from pkgutil import iter_modules
from typing import Any
from wsgiref.validate import validator

import pytest
from webob.exc import HTTPFound, HTTPNotFound

import pipeline.elements
from pipeline import Pipeline, view
from pipeline.composition import Element
from pipeline.publisher import publisher

NAMES = [module.name for module in iter_modules(pipeline.elements.__path__)]
_numbers = count()
_directory = Path()
"""The directory of the file that ``session`` needs."""


@pytest.fixture(autouse=True, scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> None:
    global _directory
    _directory = tmp_path_factory.mktemp("validate")


def elements(*names: str) -> list[Element]:
    """The elements of these names, configured."""
    number = next(_numbers)
    options: dict[str, dict[str, Any]] = {
        "authenticate": {"check": lambda request, login, password: login},
        "traverse": {"root": dict, "slash_redirect": False},
        "zodb": {"uri": f"memory://validate_{number}"},
        "sql": {"url": "sqlite://"},
        "retry": {"delay": 0.0},
        "session": {"keys": str(_directory / "keys")},
        "causal": {"keys": str(_directory / "keys")},
        "cors": {"origins": ("*",)},
    }
    found = [getattr(import_module(f"pipeline.elements.{name}"), name) for name in names]
    return [element(**options.get(element.name, {})) for element in found]


def around(name: str, app: Any) -> Any:
    """The element around the app, with what it requires outside of it."""
    [element] = elements(name)
    requires = element.contract.requires
    outer = [given for thing, given in NEEDED.items() if thing in requires]
    return Pipeline(*elements(*outer), element, app)


NEEDED = {"context": "traverse", "zodb_connection": "zodb"}
"""The elements that provide the things that others require."""


class Blocks:
    def __init__(self) -> None:
        self.blocks = iter([b"a", b"", b"b"])
        self.closed = 0

    def __iter__(self) -> Iterator[bytes]:
        return self.blocks

    def close(self) -> None:
        self.closed += 1


def answering(status: str, body: Any, **headers: str) -> Any:
    """An app of others that answers this; a HEAD without a body."""

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        start_response(status, list(({"Content-Type": "text/html; charset=utf-8"} | given).items()))
        if environ["REQUEST_METHOD"] == "HEAD":
            if hasattr(body, "close"):
                body.close()
            return []
        return body

    return app


def empty(status: str) -> Any:
    def app(environ: dict[str, Any], start_response: Any) -> Any:
        start_response(status, [("ETag", '"x"')])
        return []

    return app


def lazy(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    if environ["REQUEST_METHOD"] != "HEAD":
        yield b"lazy"


def reading(environ: dict[str, Any], start_response: Any) -> Any:
    read = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [b"read ", read]


PAGE = b"<html><head><title>x</title></head><body>" + b"page " * 500 + b"</body></html>"

APPS: dict[str, Any] = {
    "page": lambda: answering("200 OK", [PAGE], Content_Length=str(len(PAGE))),
    "two blocks": lambda: answering("200 OK", [b"a", b"b"]),
    "nothing": lambda: answering("200 OK", []),
    "stream": lambda: answering("200 OK", Blocks()),
    "file": lambda: answering("200 OK", io.BytesIO(PAGE)),
    "error": lambda: answering("500 Sorry", [b"sorry"]),
    "redirect": lambda: answering("302 Found", [b""], Location="/x"),
    "204": lambda: empty("204 No Content"),
    "304": lambda: empty("304 Not Modified"),
    "lazy": lambda: lazy,
    "reading": lambda: reading,
}

REQUESTS: dict[str, dict[str, Any]] = {
    "GET": {"method": "GET"},
    "HEAD": {"method": "HEAD"},
    "POST": {"method": "POST", "body": b"a=1&b=2", "CONTENT_TYPE": "application/x-www-form-urlencoded"},
    "GET of a browser": {
        "method": "GET",
        "HTTP_ACCEPT": "text/html,*/*;q=0.5",
        "HTTP_ACCEPT_ENCODING": "gzip, br, zstd",
        "HTTP_COOKIE": "a=b",
        "HTTP_AUTHORIZATION": "Basic " + b64encode(b"ada:x").decode(),
        "HTTP_HOST": "example.org",
        "HTTP_X_FORWARDED_FOR": "192.0.2.1",
        "REMOTE_ADDR": "192.0.2.1",
    },
}

STATUS = {"error": 500, "redirect": 302, "204": 204, "304": 304}


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("app", APPS)
@pytest.mark.parametrize("name", NAMES)
def test_every_element_alone_around_an_app(call: Any, name: str, app: str, request_: str) -> None:
    answer = call(around(name, validator(APPS[app]())), "/", **REQUESTS[request_])
    assert answer.status == STATUS.get(app, 200), answer


@view(context=dict, methods=("GET", "POST"), permission="public")
def index(context: Any, request: Any) -> Any:
    """Whatever the query asks for."""
    what = request.environ["QUERY_STRING"]
    if what == "204":
        request.answer.status = 204
    return {
        "page": lambda: PAGE.decode(),
        "stream": Blocks,
        "file": lambda: io.BytesIO(PAGE),
        "204": lambda: None,
        "error": lambda: 1 / 0,
        "missing": lambda: HTTPNotFound("x"),
        "redirect": lambda: HTTPFound(location="/x"),
        "wrong": lambda: {"a": "dict"},
    }[what]()


@view(context=dict, name="conditional")
def conditional(context: Any, request: Any, response: Any) -> str:
    response.conditional_response = True
    response.etag = "x"
    return PAGE.decode()


@view(context=dict, name="nothing", methods=("GET", "POST"), permission="public")
def nothing(context: Any, request: Any, response: Any) -> None:
    response.status = 204


WHOLE = ["log", "vhost", "retry", "zodb", "errors", "transaction", "forms", "authenticate", "traverse"]
WHOLE += ["base", "compress", "coalesce"]

ASKED: list[tuple[str, int]] = [
    ("/?page", 200),
    ("/?stream", 200),
    ("/?file", 200),
    ("/?error", 500),
    ("/?missing", 404),
    ("/?redirect", 302),
    ("/?wrong", 500),
    ("/nothing", 204),
    ("/nowhere", 404),
    ("/..", 400),
    ("/%FF", 400),
]


@pytest.fixture(scope="module")
def whole() -> Pipeline:
    names = [name for name in WHOLE if name in NAMES]
    return Pipeline(*elements(*names), publisher(scan=(__name__,)))


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize(("path", "status"), ASKED)
def test_the_whole_pipeline(call: Any, whole: Pipeline, path: str, status: int, request_: str) -> None:
    assert call(whole, path, **REQUESTS[request_]).status == status


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"HTTP_IF_NONE_MATCH": '"x"'}, 304),
        ({"HTTP_RANGE": "bytes=2-4"}, 206),
        ({"HTTP_RANGE": "bytes=99999-"}, 416),
        ({"HTTP_RANGE": "bytes=0-0", "HTTP_ACCEPT_ENCODING": "gzip"}, 200),
        ({"method": "HEAD"}, 200),
    ],
)
def test_conditional_answers_of_the_whole_pipeline(
    call: Any, whole: Pipeline, asked: dict[str, str], status: int
) -> None:
    assert call(whole, "/conditional", **asked).status == status


def test_the_whole_pipeline_of_an_ini(call: Any, tmp_path: Path) -> None:
    from pipeline.paste import load

    ini = tmp_path / "site.ini"
    ini.write_text(
        f"[pipeline:main]\npipeline = egg:wsgi-pipeline#log egg:wsgi-pipeline#retry egg:wsgi-pipeline#errors "
        f"traverse site\n[filter:traverse]\nuse = egg:wsgi-pipeline#traverse\nroot = builtins:dict\n"
        f"[app:site]\nuse = egg:wsgi-pipeline#publisher\nscan = {__name__}\n"
    )
    app = load(f"config:{ini}")
    for path, status in ASKED:
        assert call(app, path).status == status
