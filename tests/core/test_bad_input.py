"""Bad input: whatever a client sends, it gets an answer that is no 500, and the site goes on (S14, S16)."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from persistent.mapping import PersistentMapping

from pipeline import Pipeline, redirect, view
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.log import log
from pipeline.elements.retry import retry
from pipeline.elements.transaction import transaction
from pipeline.elements.traverse import traverse
from pipeline.elements.vhost import vhost
from pipeline.elements.zodb import zodb
from pipeline.publisher import publisher


def find_root(mapping: Any) -> Any:
    if "site" not in mapping:
        mapping["site"] = PersistentMapping(folder=PersistentMapping(), text="text", number=3)
    return mapping["site"]


def check(request: Any, login: str, password: str) -> str | None:
    return login if password == "right" else None


@view(context=PersistentMapping)
def folder(context: Any, request: Any, response: Any) -> str:
    response.conditional_response = True
    response.etag = "x"
    return f"{sorted(context)} {sorted(request.GET)}"


@view(context=str)
def text(context: str, request: Any) -> str:
    return request.absolute_url(object())  # type: ignore[no-any-return]


@view(context=PersistentMapping, name="add", methods=("POST", "PUT"), permission="public")
def add(context: Any, request: Any) -> Any:
    context[f"item {len(context)}"] = dict(request.form)
    return redirect(".")


@view(context=PersistentMapping, name="secret", permission="edit")
def secret(context: Any, request: Any) -> str:
    return "secret"


@pytest.fixture(scope="module")
def site() -> Pipeline:
    return Pipeline(
        log(),
        vhost(),
        retry(delay=0.0),
        zodb(uri="memory://bad_input", root=f"{__name__}:find_root"),
        errors(),
        transaction(),
        forms(),
        authenticate(check=check),
        traverse(),
        publisher(scan=(__name__,)),
    )


def ask(site: Any, **given: Any) -> tuple[int, bytes]:
    """Status and body of an answer; the environ is what a server makes of what the client sent."""
    body = given.pop("body", b"")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/",
        "QUERY_STRING": "",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": io.StringIO(),
        "CONTENT_LENGTH": str(len(body)),
        "REMOTE_ADDR": "192.0.2.1",
    }
    environ.update(given)
    setup_testing_defaults(environ)
    started: list[Any] = []
    sent = site(environ, lambda status, headers, exc_info=None: started.append((status, headers)))
    try:
        received = b"".join(sent)
    finally:
        if hasattr(sent, "close"):
            sent.close()
    [(status, headers)] = started
    for name, value in headers:
        assert not any(letter < " " or letter == "\x7f" for letter in name + value), "S6"
    return int(status[:3]), received


def goes_on(site: Any) -> bool:
    return ask(site)[0] == 200


LARGE = "x" * 1_000_000

BAD: list[tuple[str, dict[str, Any], set[int]]] = [
    ("NUL", {"PATH_INFO": "/\0"}, {400}),
    ("NUL in a name", {"PATH_INFO": "/folder/a\0b"}, {400}),
    ("up", {"PATH_INFO": "/../../etc/passwd"}, {400}),
    ("up, encoded", {"PATH_INFO": "/%2e%2e/%2e%2e"}, {404}),  # decoded twice it would be
    ("no UTF-8", {"PATH_INFO": "/\xff\xfe"}, {400}),
    ("half a character", {"PATH_INFO": "/\xc3"}, {400}),
    ("overlong", {"PATH_INFO": "/\xc0\xae\xc0\xae"}, {400}),
    ("a surrogate", {"PATH_INFO": "/\xed\xa0\x80"}, {400}),
    ("10,000 segments", {"PATH_INFO": "/a" * 10_000}, {414}),
    ("10,000 slashes", {"PATH_INFO": "/" * 10_000}, {414}),
    ("10,000 views", {"PATH_INFO": "/@@a" * 10_000}, {414}),
    ("a long segment", {"PATH_INFO": f"/{LARGE}"}, {404, 414}),
    ("private", {"PATH_INFO": "/_private"}, {404}),
    ("class", {"PATH_INFO": "/__class__/__init__/__globals__"}, {404}),
    ("class behind @@", {"PATH_INFO": "/@@__class__"}, {404}),
    ("an unknown namespace", {"PATH_INFO": "/++nothing++x"}, {404}),
    ("a namespace twice", {"PATH_INFO": "/++skin++a/++skin++b"}, {400, 404}),
    ("no namespace", {"PATH_INFO": "/++"}, {404}),
    ("a text", {"PATH_INFO": "/text/upper"}, {404}),
    ("a number", {"PATH_INFO": "/number/real"}, {404}),
    ("an empty path", {"PATH_INFO": ""}, {200}),
    ("no slash", {"PATH_INFO": "folder/"}, {200}),
    ("an asterisk", {"PATH_INFO": "*", "REQUEST_METHOD": "OPTIONS"}, {200, 404}),
    ("an absolute form", {"PATH_INFO": "http://elsewhere/"}, {404}),
    ("an unknown method", {"REQUEST_METHOD": "BREW"}, {405}),
    ("an odd method", {"REQUEST_METHOD": "get"}, {405}),
    ("a hostile method", {"REQUEST_METHOD": "GET /x\r\nX: y"}, {405, 400}),
    ("an empty method", {"REQUEST_METHOD": ""}, {405, 400}),
    ("a long method", {"REQUEST_METHOD": LARGE}, {405}),
    ("a 1 MB query", {"QUERY_STRING": f"a={LARGE}"}, {414}),
    ("a 1 MB query of fields", {"QUERY_STRING": "&".join(["a=b"] * 250_000)}, {400, 413, 414}),
    ("a query of no UTF-8", {"QUERY_STRING": "a=%FF&b=\xff"}, {200, 400}),
    ("a nameless field of no UTF-8", {"QUERY_STRING": "=%FF"}, {200}),  # S19: it is ignored
    ("a query of controls", {"PATH_INFO": "/folder", "QUERY_STRING": "\0\r\nX: y\x7f"}, {302}),
    ("a bad length", {"REQUEST_METHOD": "POST", "PATH_INFO": "/add", "CONTENT_LENGTH": "x"}, {302, 400}),
    (
        "a negative length",
        {"REQUEST_METHOD": "POST", "PATH_INFO": "/add", "CONTENT_LENGTH": "-1"},
        {302, 400},
    ),
    ("no type", {"REQUEST_METHOD": "POST", "PATH_INFO": "/add", "body": b"x", "CONTENT_TYPE": ""}, {415}),
    (
        "broken multipart",
        {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": "/add",
            "body": b"--x\r\nnonsense",
            "CONTENT_TYPE": "multipart/form-data; boundary=x",
        },
        {400},
    ),
    (
        "broken JSON",
        {"REQUEST_METHOD": "POST", "PATH_INFO": "/add", "body": b"{", "CONTENT_TYPE": "application/json"},
        {400},
    ),
    (
        "a form of no UTF-8",
        {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": "/add",
            "body": b"a=%FF&%FF=\xff",
            "CONTENT_TYPE": "application/x-www-form-urlencoded",
        },
        {302, 400},
    ),
    ("a login", {"PATH_INFO": "/secret", "HTTP_AUTHORIZATION": "Basic \xff\0"}, {401}),
    ("a long login", {"PATH_INFO": "/secret", "HTTP_AUTHORIZATION": f"Basic {LARGE}"}, {401}),
    ("a nameless cookie", {"HTTP_COOKIE": "=x; ;; =; a"}, {200}),
    ("a host of nonsense", {"PATH_INFO": "/text", "HTTP_HOST": "a b\x80:x:y"}, {200, 400}),
    ("ranges", {"HTTP_RANGE": "bytes=" + ",".join(["0-0"] * 10_000)}, {200, 206, 416}),
    ("a date", {"HTTP_IF_MODIFIED_SINCE": "Thu, 99 Foo 99999 99:99:99"}, {200}),
    ("tags", {"HTTP_IF_NONE_MATCH": '"' * 10_000}, {200}),
    ("types", {"PATH_INFO": "/nowhere", "HTTP_ACCEPT": "text/html;q=" * 1000}, {404}),
]


@pytest.mark.parametrize(("what", "given_", "statuses"), BAD, ids=[what for what, _, _ in BAD])
def test_bad_input(site: Any, what: str, given_: dict[str, Any], statuses: set[int]) -> None:
    assert ask(site, **given_)[0] in statuses
    assert goes_on(site)


LATIN = st.characters(max_codepoint=255)
HOSTILE = st.sampled_from(
    [
        *(
            "",
            ".",
            "..",
            "_x",
            "__class__",
            "@@x",
            "++view++",
            "++x++y",
            "\0",
            "\xff",
            "\xc3\xa9",
            "%2e",
            "\\",
        ),
        *(
            "folder",
            "text",
            "number",
            "add",
            "secret",
            "@@add",
            "a" * 300,
            "\r\n",
            " ",
            "\x7f",
            "~",
            ";",
            "?",
        ),
        *(":", "*", "#"),
    ]
)
PATHS = st.one_of(
    st.text(LATIN, max_size=30),
    st.lists(st.one_of(HOSTILE, st.text(LATIN, max_size=5)), max_size=8).map(
        lambda parts: "/" + "/".join(parts)
    ),
)
METHODS = st.one_of(
    st.sampled_from(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get"]),
    st.text(LATIN, max_size=8),
)
HEADERS = st.dictionaries(
    st.sampled_from(
        [
            *("HTTP_ACCEPT", "HTTP_ACCEPT_ENCODING", "HTTP_ACCEPT_LANGUAGE", "HTTP_ACCEPT_CHARSET"),
            *("HTTP_AUTHORIZATION", "HTTP_COOKIE", "HTTP_HOST", "HTTP_IF_MATCH", "HTTP_IF_MODIFIED_SINCE"),
            *(
                "HTTP_IF_NONE_MATCH",
                "HTTP_IF_RANGE",
                "HTTP_IF_UNMODIFIED_SINCE",
                "HTTP_RANGE",
                "HTTP_REFERER",
            ),
            *(
                "HTTP_USER_AGENT",
                "HTTP_X_FORWARDED_FOR",
                "HTTP_X_FORWARDED_HOST",
                "HTTP_FORWARDED",
                "HTTP_ORIGIN",
            ),
            *("HTTP_SEC_FETCH_SITE", "HTTP_X_VHM_HOST", "HTTP_X_VHM_ROOT", "HTTP_TRANSFER_ENCODING"),
            *("CONTENT_TYPE", "CONTENT_LENGTH", "REMOTE_USER", "SERVER_PROTOCOL"),
        ]
    ),
    st.one_of(
        st.text(LATIN, max_size=30),
        st.sampled_from(
            [
                *(
                    "bytes=0-0",
                    "bytes=5-2",
                    "bytes=-1,0-",
                    '"x"',
                    'W/"x"',
                    "*",
                    "text/html",
                    "*/*;q=x",
                    "Basic",
                ),
                *(
                    "Basic YTpyaWdodA==",
                    "application/json",
                    "multipart/form-data; boundary=x",
                    "null",
                    "chunked",
                ),
                *(
                    "application/x-www-form-urlencoded; charset=nonsense",
                    "Thu, 01 Jan 1970 00:00:00 GMT",
                    "-1",
                ),
            ]
        ),
    ),
    max_size=4,
)


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    logging.getLogger("pipeline").setLevel(logging.ERROR)
    yield
    logging.getLogger("pipeline").setLevel(logging.NOTSET)


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=PATHS,
    method=METHODS,
    query=st.text(LATIN, max_size=30),
    headers=HEADERS,
    body=st.binary(max_size=60),
)
def test_no_input_is_a_500(
    site: Any, path: str, method: str, query: str, headers: dict[str, str], body: bytes
) -> None:
    status, _ = ask(site, PATH_INFO=path, REQUEST_METHOD=method, QUERY_STRING=query, body=body, **headers)
    if status == 501:  # RFC 9112 section 6.1: a transfer coding that is not known
        assert headers["HTTP_TRANSFER_ENCODING"].strip().lower() not in ("", "chunked")
        return
    assert 200 <= status < 500


def test_the_site_has_gone_on(site: Any) -> None:
    assert goes_on(site)
