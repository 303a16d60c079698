"""The short ways of the request are asked what Zope's own request is asked, in random order; both say the same."""

from __future__ import annotations

from io import BytesIO
from random import Random
from typing import Any

import pytest
from ZPublisher.HTTPRequest import WSGIRequest
from ZPublisher.HTTPResponse import WSGIResponse

from pipeline.zope import short
from pipeline.zope.short import is_own

ENVIRONS: list[dict[str, Any]] = [
    {},
    {"HTTP_HOST": "www.example.com", "SCRIPT_NAME": "/app"},
    {"HTTP_HOST": "www.example.com:8080", "wsgi.url_scheme": "https"},
    {"SERVER_URL": "https://www.example.com/"},
    {"SERVER_PORT": "443", "HTTPS": "on", "HTTP_COOKIE": "a=1; title=cookie"},
]
KEYS = ["REQUEST", "RESPONSE", "URL", "URL0", "URL1", "URL9", "URLPATH0", "BASE0", "BASE1", "BASEPATH1"]
KEYS += ["SERVER_URL", "PARENTS", "PUBLISHED", "HTTP_HOST", "REQUEST_METHOD", "SERVER_PORT", "BODY", "method"]
KEYS += ["a", "title", "lazy", "form", "other", "missing", "", 1, None, ()]
KEPT_OUT = ("RESPONSE", "REQUEST")
SCHEMES: list[Any] = [None, "http", "https", "ftp"]
HOSTS: list[Any] = [None, "", "other.example.org"]
PORTS: list[Any] = [None, "", 80, "443", "8080"]


def request(cls: Any, environ: dict[str, Any]) -> Any:
    environ = {"SERVER_NAME": "localhost", "SERVER_PORT": "80", "REQUEST_METHOD": "GET"} | environ
    made = cls(BytesIO(), environ, WSGIResponse(stdout=BytesIO(), stderr=BytesIO()))
    made["PARENTS"] = ["root"]
    return made


def answer(one: Any, what: str, *arguments: Any) -> Any:
    """Return what a request says, or the class of what it raises; itself by a word."""
    try:
        found = getattr(one, what)(*arguments)
    except Exception as error:
        return type(error)
    if found is one or found is one.response:
        return "itself" if found is one else "its response"
    return "a copy" if what == "clone" else found


def questions(random: Random) -> tuple[Any, ...]:
    """Return a method of a request, and arguments."""
    key = random.choice(KEYS)
    return random.choice(
        [
            ("__getitem__", key),
            ("__getitem__", key, "default"),
            ("__getitem__", key, "default", 1),
            ("__getitem__", []),
            ("get", key),
            ("__contains__", key),
            ("__getattr__", key) if isinstance(key, str) else ("keys",),
            ("set", key, random.choice(["value", None, 3])),
            ("set_lazy", "lazy", lambda: "lazy value"),
            ("setServerURL", random.choice(SCHEMES), random.choice(HOSTS), random.choice(PORTS)),
            ("setServerURL",),
            ("clone",),
            ("clear",) if random.random() < 0.1 else ("keys",),
        ]
    )


@pytest.mark.parametrize("number", range(len(ENVIRONS)))
def test_the_short_request_says_what_that_of_zope_says(number: int) -> None:
    for seed in range(60):
        random = Random(seed)
        theirs, ours = (request(cls, ENVIRONS[number]) for cls in (WSGIRequest, short.ShortRequest))
        for _ in range(60):
            question = questions(random)
            said = [answer(one, *question) for one in (theirs, ours)]
            assert said[0] == said[1], (seed, question, said)
            if random.random() < 0.2:
                name = random.choice(["steps", "_steps", "form"])
                for one in (theirs, ours):
                    part = getattr(one, name)
                    part.update(title="form") if name == "form" else part.append("step")
            kept = [{k: v for k, v in one.other.items() if k not in KEPT_OUT} for one in (theirs, ours)]
            assert kept[0] == kept[1], (seed, question)


def test_a_copy_is_a_short_request_too() -> None:
    assert type(request(short.ShortRequest, {}).clone()) is short.ShortRequest


@pytest.mark.parametrize("name", ["get", "__getitem__"])
def test_a_patched_request_has_its_own_code_called(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"SERVER_NAME": "localhost", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1"}
    assert type(short.new_request(BytesIO(), environ, WSGIResponse())) is short.ShortRequest
    own = getattr(WSGIRequest, name)
    monkeypatch.setattr(WSGIRequest, name, lambda self, *words, **named: own(self, *words, **named))
    is_own.cache_clear()  # type: ignore[attr-defined]
    try:
        assert type(short.new_request(BytesIO(), environ, WSGIResponse())) is WSGIRequest
    finally:
        is_own.cache_clear()  # type: ignore[attr-defined]
