"""``compress``: what is packed, by what, and that whatever comes out can be unpacked to what went in."""

from __future__ import annotations

import gzip
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import brotli
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from webob import Request as Asked
from webob import Response as Answer

import asking
from pipeline import Pipeline, Request, Response, element
from pipeline.elements.base import base
from pipeline.elements.compress import PACKERS, Packer, Start, compress, pack, pack_whole
from pipeline.elements.errors import errors
from pipeline.http.encodings import LONGEST_HEADER, choose
from pipeline.interfaces import OptionError, OrderError
from unpacking import zstd_unpacker

TEXT = b"".join(b"<p>%d bottles of beer</p>\n" % number for number in range(500))
EVERY = "zstd, br, gzip"


class Unpacker:
    """Unpacks block by block, as a browser does."""

    def __init__(self, encoding: str) -> None:
        self.add: Callable[[bytes], bytes]
        if encoding == "gzip":
            self.add = zlib.decompressobj(31).decompress
        elif encoding == "br":
            self.add = brotli.Decompressor().process
        elif encoding == "zstd":
            self.add = zstd_unpacker()
        else:
            self.add = bytes


def unpacked(answer: Answer) -> bytes:
    return Unpacker(answer.headers.get("Content-Encoding", "")).add(answer.body)


def says(**attributes: Any) -> Any:
    """The end of a pipeline: an answer with these attributes."""

    @element
    def says() -> Any:
        def says(request: Request, response: Response) -> None:
            response.content_type = "text/html"
            for name, value in attributes.items():
                setattr(response, name, value)

        return says

    return says()


def ask(
    end: Any,
    accept: str | None = EVERY,
    *,
    method: str = "GET",
    options: dict[str, Any] | None = None,
    **headers: str,
) -> Answer:
    environ: dict[str, Any] = dict(headers)
    if accept is not None:
        environ["HTTP_ACCEPT_ENCODING"] = accept
    return asking.ask(Pipeline(errors(), compress(**options or {}), end), method=method, environ=environ)


# What is chosen (RFC 9110, section 12.5.3).

OFFERED = ("zstd", "br", "gzip")


@pytest.mark.parametrize(
    ("accept", "encoding", "only"),
    [
        ("", "", False),
        ("gzip", "gzip", False),
        ("GZIP", "gzip", False),
        ("x-gzip", "gzip", False),
        ("gzip, deflate, br, zstd", "zstd", False),
        ("gzip, deflate, br", "br", False),
        ("gzip;q=0.5, br;q=0.4", "gzip", False),
        ("gzip;q=0.5,br ; q=0.9", "br", False),
        ("gzip;q=1.000, br;q=0.001", "gzip", False),
        ("*", "zstd", False),
        ("*;q=0.5, gzip", "gzip", False),
        ("*, zstd;q=0", "br", False),
        ("*;q=0", "", False),
        ("*;q=0, gzip", "gzip", True),
        ("identity;q=0, br", "br", True),
        ("identity;q=0, *;q=0.1", "zstd", True),
        ("identity;q=0", "", False),
        ("identity", "", False),
        ("identity, gzip;q=0.5", "", False),
        ("identity;q=0.5, gzip", "gzip", False),
        ("identity;q=0.5, gzip;q=0.5", "gzip", False),
        ("gzip;q=0", "", False),
        ("gzip;q=0.0", "", False),
        ("deflate, compress", "", False),
        # What is malformed is skipped.
        ("gzip;q=2", "", False),
        ("gzip;q=-1", "", False),
        ("gzip;q=0.1234", "", False),
        ("gzip;q=nan", "", False),
        ("gzip;level=9", "", False),
        ("gzip;q=2, br", "br", False),
        (",,;q=1,\t,gzip ,", "gzip", False),
    ],
)
def test_choice(accept: str, encoding: str, only: bool) -> None:
    assert choose(accept, OFFERED) == (encoding, only)


def test_of_what_is_wanted_alike_the_first_offered_is_taken() -> None:
    assert choose("br, gzip, zstd", ("gzip", "br")) == ("gzip", False)


@given(st.text(max_size=80) | st.text(alphabet="gzipbrstd*identy,;q=01.5 \t", max_size=80))
@example("," * 900)
def test_any_header_has_an_answer(accept: str) -> None:
    encoding, only = choose(accept, OFFERED)
    assert encoding in ("", *OFFERED) and not (only and not encoding)
    if encoding:
        assert encoding in accept.lower() or "*" in accept


@given(
    st.permutations(["gzip", "br", "zstd", "identity", "*"]),
    st.lists(st.integers(0, 1000), min_size=5, max_size=5),
)
def test_the_order_of_a_header_means_nothing(names: list[str], weights: list[int]) -> None:
    items = [f"{name};q={weight / 1000:.3f}" for name, weight in zip(names, weights, strict=True)]
    assert choose(",".join(items), OFFERED) == choose(",".join(reversed(items)), OFFERED)


def test_a_header_that_is_too_long_is_taken_for_none__S12() -> None:
    answer = ask(says(body=TEXT), "gzip," * (LONGEST_HEADER // 5 + 1))
    assert answer.body == TEXT and answer.vary == ("Accept-Encoding",)


# What comes out.


@pytest.mark.parametrize("encoding", OFFERED)
@pytest.mark.parametrize("level", [1, 5, 9])
def test_a_body_in_memory(encoding: str, level: int) -> None:
    answer = ask(says(body=TEXT), encoding, options={"level": level})
    assert unpacked(answer) == TEXT and len(answer.body) < len(TEXT) / 4
    assert answer.content_encoding == encoding and answer.content_length == len(answer.body)
    assert answer.vary == ("Accept-Encoding",)


@pytest.mark.parametrize("encoding", OFFERED)
def test_each_block_of_a_stream_can_be_unpacked_when_it_is_there(encoding: str) -> None:
    made: list[bytes] = []

    def blocks() -> Iterator[bytes]:
        for number in range(5):
            made.append(b"block %d " % number * 100)
            yield made[-1]

    packer = PACKERS[encoding]
    assert packer is not None
    unpacker = Unpacker(encoding)
    sent = pack(blocks(), packer(5))
    for number in range(5):
        assert unpacker.add(next(sent)) == made[number] and len(made) == number + 1
    assert unpacker.add(b"".join(sent)) == b""


@pytest.mark.parametrize("encoding", OFFERED)
def test_a_stream_is_complete(encoding: str) -> None:
    answer = ask(says(app_iter=iter([TEXT[:10], b"", TEXT[10:]])), encoding)
    assert unpacked(answer) == TEXT
    assert "Content-Length" not in answer.headers or answer.content_length == len(answer.body)


@given(st.lists(st.binary(max_size=200), max_size=8), st.sampled_from(OFFERED), st.sampled_from([pack, pack_whole]))
def test_what_comes_out_is_what_went_in(blocks: list[bytes], encoding: str, way: Any) -> None:
    packer = PACKERS[encoding]
    assert packer is not None
    unpacker = Unpacker(encoding)
    packed = list(way(iter(blocks), packer(5)))
    assert b"".join(map(unpacker.add, packed)) == b"".join(blocks)


def test_the_same_body_is_packed_to_the_same_bytes() -> None:
    """No time stands in it."""
    assert ask(says(body=TEXT), "gzip").body == ask(says(body=TEXT), "gzip").body
    assert gzip.decompress(ask(says(body=TEXT), "gzip").body) == TEXT


def test_an_event_stream_is_flushed() -> None:
    answer = ask(says(app_iter=iter([b"data: 1\n\n", b"data: 2\n\n"]), content_type="text/event-stream"))
    assert answer.content_encoding == "zstd" and unpacked(answer) == b"data: 1\n\ndata: 2\n\n"


@pytest.mark.parametrize("encoding", OFFERED)
def test_a_long_stream_takes_little_memory(encoding: str) -> None:
    block = bytes(range(256)) * 1024
    packer = PACKERS[encoding]
    assert packer is not None
    tracemalloc.start()
    for _ in pack((block for _ in range(50)), packer(1)):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * len(block)


# What is packed, and what passes.


@pytest.mark.parametrize(
    "attributes",
    [
        {"body": TEXT[:1000]},
        {"body": TEXT, "content_type": "image/png"},
        {"body": TEXT, "content_type": "application/octet-stream"},
        {"body": TEXT, "cache_control": "no-transform, public"},
        {"body": TEXT, "content_encoding": "gzip"},
        {"body": TEXT, "content_encoding": "br"},
        {"body": TEXT, "status": "206 Partial Content", "content_range": "bytes 0-11/100"},
        {"app_iter": None, "content_length": 1000},
        {"body": b""},
    ],
    ids=str,
)
def test_what_passes(attributes: dict[str, Any]) -> None:
    if "app_iter" in attributes:
        attributes["app_iter"] = iter([TEXT[:1000]])
    answer = ask(says(etag="x", **attributes))
    assert answer.body == attributes.get("body", TEXT[:1000])
    is_part = answer.status_int == 206  # it has what the whole would have (RFC 9110 section 15.3.7)
    assert answer.headers.get("Vary") == ("Accept-Encoding" if is_part else None)
    assert answer.headers.get("ETag", '"x"') == '"x"'
    assert answer.content_encoding == attributes.get("content_encoding")


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_what_has_no_body_passes(status: str) -> None:
    answer = ask(says(status=status, body=b""))
    assert answer.body == b"" and answer.content_encoding is None


@pytest.mark.parametrize(
    ("kind", "is_packed"),
    [
        ("text/html", True),
        ("TEXT/CSS", True),
        ("application/json", True),
        ("application/problem+json", True),
        ("image/svg+xml", True),
        ("font/woff2", False),
        ("application/zip", False),
        ("video/mp4", False),
    ],
)
def test_types(kind: str, is_packed: bool) -> None:
    assert (ask(says(body=TEXT, content_type=kind)).content_encoding is not None) == is_packed
    assert ask(says(body=TEXT, content_type=kind), options={"types": ("*/*",)}).content_encoding == "zstd"
    assert ask(says(body=TEXT, content_type=kind), options={"types": ()}).content_encoding is None


def test_one_that_refuses_what_is_not_packed_gets_it_packed() -> None:
    for attributes in ({"body": b"small"}, {"body": TEXT, "content_type": "image/png"}):
        answer = ask(says(**attributes), "identity;q=0, gzip")
        assert answer.content_encoding == "gzip" and unpacked(answer) == attributes["body"]


def test_what_depends_on_the_client_says_so_to_caches() -> None:
    for accept in (None, "", "identity", "gzip"):
        assert ask(says(body=TEXT), accept).headers["Vary"] == "Accept-Encoding"
    assert ask(says(body=TEXT, vary="Cookie")).headers["Vary"] == "Cookie, Accept-Encoding"
    assert ask(says(body=TEXT, vary="accept-encoding")).headers["Vary"] == "accept-encoding"
    assert ask(says(body=TEXT, vary="*")).headers["Vary"] == "*"
    for other in ("X-Accept-Encoding", "Accept-Encodings", "Accept"):  # the names of other headers
        assert ask(says(body=TEXT, vary=other)).headers["Vary"] == f"{other}, Accept-Encoding"


def test_what_an_outer_element_says_at_last_counts() -> None:
    @element
    def outer(next: Any) -> Any:
        def outer(request: Request, response: Response) -> None:
            next(request, response)
            response.cache_control = "no-transform"

        return outer

    app = Pipeline(outer(), errors(), compress(), says(body=TEXT))
    assert asking.ask(app, environ={"HTTP_ACCEPT_ENCODING": "gzip"}).body == TEXT


@pytest.mark.parametrize(("accept", "filters"), [("gzip", 1), ("identity", 0), ("", 0)])
def test_an_answer_that_is_not_packed_has_no_filter_and_says_on_what_it_depends(accept: str, filters: int) -> None:
    found = []

    @element
    def outer(next: Any) -> Any:
        def outer(request: Request, response: Response) -> None:
            next(request, response)
            found.append(len(response.delivery_filters))

        return outer

    app = Pipeline(outer(), errors(), compress(), says(body=TEXT))
    answer = asking.ask(app, environ={"HTTP_ACCEPT_ENCODING": accept})
    assert found == [filters]
    assert answer.headers["Vary"] == "Accept-Encoding"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("accept", ["", "gzip"])
def test_HEAD_says_what_GET_does(streamed: bool, accept: str) -> None:
    def end() -> Any:
        return says(etag="x", **({"app_iter": iter([TEXT])} if streamed else {"body": TEXT}))

    got, head = (ask(end(), accept, method=method) for method in ("GET", "HEAD"))
    assert head.body == b"" and head.headerlist == got.headerlist


def test_HEAD_of_an_app_that_makes_no_body_for_it() -> None:
    """Its length is known, and what would come of it is not."""

    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/html"), ("Content-Length", str(len(TEXT)))])
        return [TEXT] if environ["REQUEST_METHOD"] == "GET" else []

    got, head = (ask(app, method=method) for method in ("GET", "HEAD"))
    assert got.content_encoding == head.content_encoding == "zstd" and unpacked(got) == TEXT
    assert head.vary == got.vary and "Content-Length" not in head.headers
    plain = ask(app, "", method="HEAD")
    assert plain.content_length == len(TEXT)


# Together with conditional requests and ranges.

TAGGED = {"etag": "tag", "conditional_response": True, "accept_ranges": "bytes"}


def tagged(streamed: bool) -> Any:
    if streamed:
        return says(app_iter=iter([TEXT]), content_length=len(TEXT), **TAGGED)
    return says(body=TEXT, **TAGGED)


@pytest.mark.parametrize("streamed", [False, True])
def test_the_ETag_of_what_is_packed_is_a_weak_one(streamed: bool) -> None:
    answer = ask(tagged(streamed))
    assert answer.headers["ETag"] == 'W/"tag"' and "Accept-Ranges" not in answer.headers
    plain = ask(tagged(streamed), "")
    assert plain.headers["ETag"] == '"tag"' and plain.accept_ranges == "bytes"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("known", ['W/"tag"', '"tag"', '"x", W/"tag"', "*"])
def test_304_as_before_with_the_headers_of_the_200(streamed: bool, known: str) -> None:
    answer = ask(tagged(streamed), HTTP_IF_NONE_MATCH=known)
    assert answer.status_int == 304 and answer.body == b""
    assert answer.headers["ETag"] == 'W/"tag"' and answer.vary == ("Accept-Encoding",)
    assert answer.content_encoding is None
    assert ask(tagged(streamed), HTTP_IF_NONE_MATCH='"other"').status_int == 200


@pytest.mark.parametrize("accept", ["gzip", ""])
@pytest.mark.parametrize("outer", [(compress,), (compress, base), (base, compress)])
@pytest.mark.parametrize("kind", ["text/html", "image/png"])
def test_a_304_of_an_inner_part_says_what_its_200_has_said(kind: str, outer: Any, accept: str) -> None:
    """RFC 9110 section 15.4.5. A cache updates no stored answer by a 304 with another tag (RFC 9111 4.3.4)."""

    @element
    def inner() -> Any:
        def inner(request: Request, response: Response) -> None:
            request.context, request.lacks_slash = object(), True
            response.content_type, response.body, response.etag = kind, TEXT, "tag"
            if '"tag"' in request.headers.get("If-None-Match", ""):  # as Django, Flask, and @view(version=...)
                response.headerlist, response.body, response.status = [("ETag", '"tag"')], b"", 304

        return inner

    app = Pipeline(errors(), contextual(), *[made() for made in outer], inner())
    given = {"accept_encoding": accept} if accept else {}
    first = Asked.blank("/a", **given).get_response(app)
    again = Asked.blank("/a", headers={"If-None-Match": first.headers["ETag"]}, **given).get_response(app)
    assert (first.status_int, again.status_int) == (200, 304)
    assert again.headers["ETag"] == first.headers["ETag"]
    assert first.headers["ETag"].startswith("W/") is (kind == "text/html" and (base in outer or accept == "gzip"))
    assert again.vary == ("Accept-Encoding",) and first.vary in (again.vary, None)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_range_of_what_would_be_packed_is_the_whole(streamed: bool) -> None:
    """Its bytes are not those that another answer had at this place."""
    answer = ask(tagged(streamed), HTTP_RANGE="bytes=2-5")
    assert answer.status_int == 200 and unpacked(answer) == TEXT
    plain = ask(tagged(streamed), "identity", HTTP_RANGE="bytes=2-5")
    assert plain.status_int == 206 and plain.body == TEXT[2:6] and plain.headers["ETag"] == '"tag"'
    assert plain.vary == ("Accept-Encoding",)


def test_a_part_is_not_resumed_with_bytes_of_another_encoding() -> None:
    answer = ask(tagged(True), "identity", HTTP_RANGE="bytes=2-5", HTTP_IF_RANGE='W/"tag"')
    assert answer.status_int == 200 and answer.body == TEXT


# Errors.


@pytest.mark.parametrize("accept", ["", "gzip"])
def test_a_stream_that_is_shorter_than_it_says_breaks(accept: str, caplog: pytest.LogCaptureFixture) -> None:
    """Without Content-Length nobody else would notice."""
    end = says(app_iter=iter([TEXT, TEXT]), content_length=3 * len(TEXT))
    app = Pipeline(errors(), compress(), end)
    environ = Asked.blank("/", accept_encoding=accept).environ
    sent = app(environ, lambda status, headers: None)
    with pytest.raises(ValueError, match="shorter than its Content-Length"):
        list(sent)


def test_a_stream_that_fails_is_not_finished(caplog: pytest.LogCaptureFixture) -> None:
    def blocks() -> Iterator[bytes]:
        yield TEXT
        raise ZeroDivisionError

    app = Pipeline(errors(), compress(), says(app_iter=blocks()))
    sent = app(Asked.blank("/", accept_encoding="gzip").environ, lambda status, headers: None)
    unpacker = zlib.decompressobj(31)
    with pytest.raises(ZeroDivisionError):
        for block in sent:
            unpacker.decompress(block)
    assert not unpacker.eof


def test_a_packer_that_fails_is_an_error_page(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(block: bytes) -> bytes:
        raise ZeroDivisionError

    def failing(level: int) -> Start:
        return lambda size: Packer(fail, bytes, bytes)

    monkeypatch.setitem(PACKERS, "gzip", failing)  # type: ignore[arg-type]
    for attributes in ({"body": TEXT}, {"app_iter": iter([TEXT])}):
        answer = ask(says(**attributes), "gzip")
        assert answer.status_int == 500 and answer.content_encoding is None and b"bottles" not in answer.body


# Options.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 0}, "must be from 1 to 9, not 0"),
        ({"level": 10}, "from 1 to 9"),
        ({"encodings": ("gzip", "lzma")}, "'lzma', which is not one of zstd, br, gzip"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ask(says(body=TEXT), options=options)


def test_an_encoding_whose_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PACKERS, "br", None)  # type: ignore[arg-type]
    assert ask(says(body=TEXT), "br").content_encoding is None
    with pytest.raises(OptionError, match=r"'br' needs an extra: pip install wsgi-pipeline\[brotli\]"):
        ask(says(body=TEXT), options={"encodings": ("br",)})


def test_the_encodings_that_are_named_are_used_in_their_order() -> None:
    assert ask(says(body=TEXT), options={"encodings": ("gzip", "br")}).content_encoding == "gzip"
    assert ask(says(body=TEXT), "zstd", options={"encodings": ("gzip", "br")}).content_encoding is None


def test_it_stands_inside_errors() -> None:
    with pytest.raises(OrderError, match="a filter that cannot be set up is an error page too"):
        Pipeline(compress(), errors(), says(body=TEXT))


def test_it_is_linear__S12() -> None:
    """In what a client can make long."""
    began = time.process_time()
    for _ in range(50):
        choose("gzip;q=0.5," * 90, OFFERED)
        choose(";" * LONGEST_HEADER, OFFERED)
        choose("gzip;q=" + "0" * LONGEST_HEADER, OFFERED)
        choose(" " * LONGEST_HEADER + ";", OFFERED)
    assert time.process_time() - began < 1


@pytest.mark.parametrize("came_back", [str, lambda tag: tag.removeprefix("W/"), lambda tag: tag[2:-1] + '-gzip"'])
@pytest.mark.parametrize("outer", [(compress,), (base,), (compress, base)])
def test_an_inner_application_gets_its_own_tag_back(outer: Any, came_back: Callable[[str], str]) -> None:
    """It compares tags itself, as Django, Flask and Kinto do, whose answer is 412 to every other form."""

    @element
    def inner() -> Any:
        def inner(request: Request, response: Response) -> None:
            request.context, request.lacks_slash = object(), True
            response.content_type, response.body, response.etag = "text/html", TEXT, "tag"
            for name in ("If-Match", "If-None-Match"):
                response.headers[f"X-{name}"] = request.headers.get(name, "")

        return inner

    app = Pipeline(errors(), contextual(), *[made() for made in outer], inner())
    first = Asked.blank("/a", accept_encoding="gzip").get_response(app)
    tag = came_back(first.headers["ETag"])
    for name in ("If-Match", "If-None-Match"):
        answer = Asked.blank("/a", headers={name: tag}, accept_encoding="gzip").get_response(app)
        assert answer.headers[f"X-{name}"] == '"tag"'


@pytest.mark.parametrize("outer", [(compress,), (base,), (compress, base)])
@pytest.mark.parametrize("own", ['"tag-gzip"', '"7-br"'])
def test_a_tag_of_the_site_may_end_as_those_of_apache_do(outer: Any, own: str) -> None:
    """It comes back as it was sent, and it is not the tag without its end."""
    end = says(body=TEXT, etag=own.strip('"'), conditional_response=True)
    app = Pipeline(errors(), contextual(), *[made() for made in outer], end)

    def status(**headers: str) -> int:
        return Asked.blank("/a", headers=headers, accept_encoding="gzip").get_response(app).status_int

    without = own.partition("-")[0] + '"'
    for tag in (own, f"W/{own}", f'"1", {own}'):
        assert status(**{"If-None-Match": tag}) == 304
    assert status(**{"If-None-Match": without}) == 200


@element(provides=("context",))
def contextual(next: Any) -> Any:
    return next
