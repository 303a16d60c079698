"""Answers of every kind through elements in every order that is allowed, judged by the rules of HTTP.

The judge has the rules of RFC 9110 (HEAD, ranges, conditions), RFC 9111 (``Vary``) and RFC 9530 (digests) in it,
and knows nothing of the elements. The answers and the orders are drawn by seeds.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import random
from base64 import b64encode
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import webob

from asking import Answer, ask
from pipeline import Pipeline, Response, view
from pipeline.elements.authenticate import authenticate
from pipeline.elements.base import base
from pipeline.elements.coalesce import coalesce
from pipeline.elements.compress import compress
from pipeline.elements.cors import cors
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.request_id import request_id
from pipeline.elements.retry import retry
from pipeline.elements.session import session
from pipeline.elements.shield import shield
from pipeline.elements.traverse import traverse
from pipeline.elements.vhost import vhost
from pipeline.http.files import serve
from pipeline.interfaces import ConfigurationError
from pipeline.publisher import publisher

LOGIN = {"HTTP_AUTHORIZATION": "Basic " + b64encode(b"ada:right").decode()}
ASKED: list[dict[str, str]] = [
    {},
    {"HTTP_ACCEPT_ENCODING": "gzip"},
    {"HTTP_ORIGIN": "https://a.example"},
    {"HTTP_SEC_FETCH_DEST": "script"},
    LOGIN,
]
OF_A_304 = ("cache-control", "etag", "expires", "vary")
"""Headers that a 304 and a 206 have as the 200 has them (RFC 9110 sections 15.3.7 and 15.4.5)."""


class Root(dict[str, Any]):
    """The root of the site."""


def digest(body: bytes) -> str:
    return f"sha-256=:{b64encode(hashlib.sha256(body).digest()).decode()}:"


class Drawn:
    """An answer that was drawn: what a view returns, or a foreign application."""

    def __init__(self, draw: random.Random) -> None:
        size = draw.choice([0, 5, 60, 3_000])
        self.data = (b"<html><head><title>x</title></head>" + b"<p>text" * size)[:size]
        self.kind = draw.choice(["text/html", "application/json", "image/png"])
        self.made_by = draw.choice(["view", "view", "webob", "file", "foreign"])
        self.body = draw.choice(["bytes", "list", "stream", "open file"])
        self.is_conditional = draw.random() < 0.7
        self.reads_session = draw.random() < 0.2
        self.status = draw.choice([200] * 6 + [203, 404, 410])
        self.headers = {
            name: value
            for name, value in {
                "ETag": draw.choice(["", '"v1"', 'W/"v1"']),
                "Last-Modified": draw.choice(["", "Mon, 01 Jan 2024 00:00:00 GMT"]),
                "Cache-Control": draw.choice(["", "max-age=60", "public, max-age=9", "no-store", "no-transform"]),
                "Vary": draw.choice(["", "Accept", "*"]),
                "Content-Digest": draw.choice(["", digest(self.data)]),
                "Repr-Digest": draw.choice(["", digest(self.data)]),
                "Content-Length": draw.choice(["", str(len(self.data))]),
            }.items()
            if value and not (self.made_by == "foreign" and "Digest" in name)  # it makes its own parts
        }

    def blocks(self) -> Any:
        blocks = [self.data[:7], b"", self.data[7:]]
        made = {"bytes": self.data, "list": blocks, "stream": iter(blocks), "open file": io.BytesIO(self.data)}
        return made[self.body]

    def response(self) -> webob.Response:
        made = webob.Response(content_type=self.kind, body=self.data)
        made.headers.update(self.headers)
        made.conditional_response = self.is_conditional
        return made

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        made: Any = self.response()
        made.status = self.status
        return made(environ, start_response)

    def __repr__(self) -> str:
        return repr(vars(self) | {"data": len(self.data)})


@view(context=Root, name="page")
def page(context: Root, request: Any, response: Response) -> Any:
    drawn: Drawn = request.environ["tests.drawn"]
    if drawn.reads_session and hasattr(request, "session"):
        dict(request.session)
    if drawn.made_by == "file":
        serve(request, response, request.environ["tests.file"], content_type=drawn.kind)
        return None
    if drawn.made_by == "webob":
        return drawn.response()
    response.status = drawn.status
    response.headers["Content-Type"] = drawn.kind
    response.headers.update(drawn.headers)
    response.conditional_response = drawn.is_conditional
    return drawn.blocks()


def pipeline(draw: random.Random, drawn: Drawn, keys: str) -> Pipeline:
    """Put elements around the answer, in an order that is allowed."""
    login = authenticate(check=lambda request, login, password: login, by=("session", "basic"), keys=keys)
    elements = [
        compress(minimum=10, encodings=("gzip",)), coalesce(size=100), cors(origins=("https://a.example",)),
        login, session(keys=keys), shield(), request_id(), retry(), vhost(), forms(), errors(),
    ]  # fmt: skip
    while True:
        some = [element for element in elements if draw.random() < 0.6]
        end: list[Any] = [drawn]
        if drawn.made_by != "foreign":
            some += [traverse(root=Root), base()]
            end = [publisher(scan=(__name__,))]
        draw.shuffle(some)
        try:
            return Pipeline(*some, *end)
        except ConfigurationError:
            continue


def headers_of(answer: Answer) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.headerlist if name != "X-Request-ID"}


def faults(drawn: Drawn, get: Any) -> Iterator[Any]:
    """Yield what breaks a rule."""
    answers = [(asked, get(**asked)) for asked in ASKED]
    for asked, whole in answers:
        said, body = headers_of(whole), whole.body
        is_coded = "content-encoding" in said
        if "content-length" in said and said["content-length"] != str(len(body)):
            yield "length", asked, whole
        if (gzip.decompress(body) if is_coded else body) != drawn.data and whole.status in (200, 203):
            yield "body", asked, whole
        if said.get("content-digest", digest(body)) != digest(body):
            yield "digest", asked, whole
        if is_coded and said.get("etag", "W/")[:2] != "W/":
            yield "one strong tag for two bodies", asked, whole
        head = get(method="HEAD", **asked)
        heads = headers_of(head)
        length = heads.pop("content-length", None)
        if head.status != whole.status or head.body or length not in (None, str(len(body))):
            yield "HEAD", asked, whole, head
        if heads.items() ^ {name: said[name] for name in said if name != "content-length"}.items():
            yield "headers of HEAD", asked, whole, head
        if whole.status == 200 and (tag := said.get("etag")):
            yield from faults_of_parts(drawn, get, asked, whole, tag)
    for (one, first), (other, second) in combinations(answers, 2):
        if (first.status, first.body, first.content_type) == (second.status, second.body, second.content_type):
            continue
        for answer in (first, second):
            said = headers_of(answer)
            differing = {key[5:].replace("_", "-").lower() for key in one.keys() ^ other.keys()}
            named = said.get("vary", "").lower()
            is_shared = {"no-store", "private"}.isdisjoint(said.get("cache-control", "").split(", "))
            if is_shared and named != "*" and not any(name in named for name in differing):
                yield "Vary", one, other, first, second


def faults_of_parts(drawn: Drawn, get: Any, asked: dict[str, str], whole: Answer, tag: str) -> Iterator[Any]:
    said = headers_of(whole)
    same = get(HTTP_IF_NONE_MATCH=tag, **asked)
    if same.status == 304:
        again = headers_of(same)
        if any(said.get(name, "") not in again.get(name, "") for name in OF_A_304) or same.body:
            yield "304", asked, whole, same
        if {"content-type", "content-encoding", "content-digest"} & again.keys():
            yield "304 with headers of a body", asked, whole, same
    elif drawn.is_conditional or drawn.made_by == "file":
        yield "a tag that never matches", asked, whole, same
    for named in ({}, {"HTTP_IF_RANGE": tag}):
        part = get(HTTP_RANGE="bytes=1-3", **named, **asked)
        parts = headers_of(part)
        if part.status == 206 and "content-encoding" not in said:
            if part.body != whole.body[1:4] or parts["content-range"] != f"bytes 1-3/{len(whole.body)}":
                yield "part", asked, whole, part
            if any(said.get(name, "") not in parts.get(name, "") for name in OF_A_304):
                yield "headers of a part", asked, whole, part
            if parts.get("content-digest", digest(part.body)) != digest(part.body):
                yield "digest of a part", asked, whole, part
        if part.status == 206 and named and tag[:2] == "W/":
            yield "a part by a weak tag", asked, whole, part


@pytest.mark.parametrize("seed", range(12))
def test_answers_of_every_kind_keep_the_rules(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    for _ in range(8):
        drawn = Drawn(draw)
        (tmp_path / "file").write_bytes(drawn.data)
        app = pipeline(draw, drawn, str(tmp_path / "keys"))
        environ = {"tests.drawn": drawn, "tests.file": tmp_path / "file"}

        def get(method: str = "GET", app: Any = app, environ: Any = environ, **headers: str) -> Answer:
            return ask(app, "/page", method, **environ, **headers)

        assert list(faults(drawn, get)) == [], (drawn, app.names)
