"""``forms``: what is sent becomes ``request.form``, and what is too much is refused before anything is
looked up."""

from __future__ import annotations

import email.message
import email.utils
import errno
import gc
import gzip
import io
import json
import logging
import os
import resource
import sys
import time
import tracemalloc
import warnings
import zlib
from collections.abc import Iterator
from datetime import date, datetime
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, Literal
from urllib.parse import quote_plus
from wsgiref.validate import validator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paste.deploy import loadapp
from transaction.interfaces import TransientError
from webob import Request as Asked
from webob import Response as Answer
from webob.exc import HTTPBadRequest
from zope.interface import implementer

from pipeline import Pipeline, Request, Response, element, view
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.retry import retry
from pipeline.elements.traverse import traverse
from pipeline.forms.converters import IFieldConverter
from pipeline.forms.upload import Upload
from pipeline.interfaces import OptionError, OrderError
from pipeline.publisher import publisher
from pipeline.views import utility

_numbers = count()
FORM = "application/x-www-form-urlencoded"


class Thing(dict[str, Any]):
    """What the views of these tests are for."""


def shown(value: Any) -> Any:
    """A value of a form as JSON has it."""
    if isinstance(value, Upload):
        text = value.file.read().decode(errors="replace")  # the fuzzed tests send any bytes
        return {"filename": value.filename, "type": value.type, "length": value.length, "text": text}
    if isinstance(value, (list, tuple)):
        return [shown(item) for item in value]
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    return {key: shown(item) for key, item in value.items()} if hasattr(value, "items") else value


@view(context=Thing, methods=("GET", "POST", "PATCH", "PUT", "DELETE"))
def echo(context: Thing, request: Request, response: Response) -> str:
    response.content_type = "application/json"
    return json.dumps(shown(request.form))


@view(context=Thing, name="save", methods=("GET", "POST"))
def save(context: Thing, request: Request) -> str:
    return f"saved {dict(request.form)}"


@view(context=Thing, name="remove", methods=("POST",), permission="manage")
def remove(context: Thing, request: Request) -> str:
    return "removed"


@pytest.fixture
def site(request: pytest.FixtureRequest) -> Iterator[Any]:
    """``site(view, ..., outer=..., option=value)``: a pipeline with forms, of these views and those above."""
    made = []

    def site(*targets: Any, outer: Any = (), **options: Any) -> Pipeline:
        module = ModuleType(f"site_of_a_form_test_{next(_numbers)}")
        made.append(module.__name__)
        sys.modules[module.__name__] = module
        for target in (echo, save, remove, *targets):
            target.__module__ = module.__name__
            setattr(module, target.__name__, target)
        root = Thing(a=Thing())
        return Pipeline(
            *outer,
            errors(),
            forms(**options),
            traverse(root=lambda: root),
            publisher(scan=(module.__name__,)),
        )

    yield site
    for name in made:
        del sys.modules[name]


def visit(
    app: Any, path: str = "/", method: str = "GET", body: Any = b"", type: str = "", **environ: Any
) -> Answer:
    """Ask under wsgiref's validator. A body that is a mapping is sent as a browser would."""
    if isinstance(body, dict):
        asked = Asked.blank(path, method=method, POST=body)
    else:
        asked = Asked.blank(path, method=method, body=body)
        asked.headers["Content-Type"] = type
    asked.environ.update(environ)
    del asked.environ["webob.is_body_seekable"]  # behind the validator it is not
    status, headers, chunks = asked.call_application(validator(app))
    try:
        return Answer(status=status, headerlist=headers, app_iter=list(chunks))
    finally:
        chunks.close()


def multipart(*parts: tuple[str, str, bytes], boundary: str = "xyz") -> bytes:
    """A body of (content-disposition parameters, further headers, content)."""
    return (
        b"".join(
            f"--{boundary}\r\nContent-Disposition: form-data; {parameters}\r\n{headers}\r\n".encode()
            + content
            + b"\r\n"
            for parameters, headers, content in parts
        )
        + f"--{boundary}--\r\n".encode()
    )


MULTIPART = "multipart/form-data; boundary=xyz"

# What is sent, and what is read.


@pytest.mark.parametrize(
    ("query", "form"),
    [
        ("", {}),
        ("a=1&b=2&a=3", {"a": ["1", "3"], "b": "2"}),
        ("a=1;b=2", {"a": "1;b=2"}),  # S19
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=1&&&b=1=2", {"b": "1=2"}),
        ("a+b=c+d%2B%26%3D", {"a b": "c d+&="}),
        ("%C3%BC=%e2%82%ac", {"ü": "€"}),
        ("a=%zz%", {"a": "%zz%"}),
        ("a:int=1&a:int=2&r.x:record=y", {"a": [1, 2], "r": {"x": "y"}}),
        ("a%3Aint=1", {"a": 1}),
        ("a=%00", {"a": "\0"}),
    ],
)
def test_query_and_urlencoded_body(site: Any, query: str, form: dict[str, Any]) -> None:
    app = site()
    assert visit(app, f"/?{query}").json == form
    assert visit(app, "/", "POST", query.encode(), FORM).json == form
    assert visit(app, "/", "POST", query.encode(), f"{FORM.upper()} ; charset=UTF-8").json == form


def test_raw_bytes_in_a_query_are_utf_8(site: Any) -> None:
    assert visit(site(), QUERY_STRING="a=ü".encode().decode("latin-1")).json == {"a": "ü"}
    assert visit(site(), QUERY_STRING="a=\xfc").status_int == 400


def test_query_and_body_together(site: Any) -> None:
    """The body counts where both have a name: what a link says cannot add to it."""
    assert visit(site(), "/?a=1&b=2", "POST", b"a=3&c=4", FORM).json == {"a": "3", "b": "2", "c": "4"}
    answer = visit(site(), "/?a=1&b:int=2", "POST", b'{"a": [3], "c:int": "4"}', "application/json")
    assert answer.json == {"a": [3], "b": 2, "c:int": "4"}


@pytest.mark.parametrize(
    ("type", "body", "form"),
    [
        (f"{FORM}; charset=iso-8859-1", b"\xfc=%FC", {"ü": "ü"}),
        (f"{FORM}; charset=latin1", b"a=%FC", {"a": "ü"}),
        (f"{FORM}; charset=Shift_JIS", b"a=%93%FA%96%7B", {"a": "日本"}),
        (FORM, b"_charset_=windows-1252&a=%80", {"_charset_": "windows-1252", "a": "€"}),
        (
            f"{FORM}; charset=utf-8",
            b"_charset_=windows-1252&a=%E2%82%AC",
            {"_charset_": "windows-1252", "a": "€"},
        ),
        (
            MULTIPART,
            multipart(("name=a", "Content-Type: text/plain; charset=latin-1\r\n", b"\xfc")),
            {"a": "ü"},
        ),
        (
            MULTIPART,
            multipart(('name="_charset_"', "", b"windows-1252"), ('name="NAME"', "", b"\x80")).replace(
                b"NAME", b"\xfc"
            ),
            {"_charset_": "windows-1252", "ü": "€"},
        ),
        (f"{MULTIPART}; charset=iso-8859-15", multipart(('name="a"', "", b"\xa4")), {"a": "€"}),
    ],
)
def test_charsets(site: Any, type: str, body: bytes, form: dict[str, Any]) -> None:
    assert visit(site(), "/", "POST", body, type).json == form


@pytest.mark.parametrize(
    "charset",
    ["x", "zip", "rot13", "idna", "punycode", "utf-7", "unicode_escape", "raw_unicode_escape", "undefined",
     "hex", "utf-16", "mbcs", '"a\0"', "utf-8-sig", "../x", "a" * 10_000],
)  # fmt: skip
def test_other_charsets_are_400(site: Any, charset: str) -> None:
    """S12: some of Python's codecs are not linear, and some are none of text."""
    app = site()
    assert visit(app, "/", "POST", b"a=1", f"{FORM}; charset={charset}").status_int == 400
    assert visit(app, "/", "POST", b"a=1&_charset_=" + quote_plus(charset).encode(), FORM).status_int == 400
    assert visit(app, "/", "POST", b"{}", f"application/json; charset={charset}").status_int == 400
    headers = f"Content-Type: text/plain; charset={charset}\r\n"
    body = multipart(('name="a"', headers, b""))
    assert visit(app, "/", "POST", body, MULTIPART).status_int in (400, 413)


@pytest.mark.parametrize(
    ("type", "body"),
    [(FORM, b"a=%FF"), (FORM, b"\xff=a"), (FORM, b"a=%ED%A0%80"), (f"{FORM}; charset=iso-8859-7", b"a=%FF"),
     (MULTIPART, multipart(('name="a"', "", b"\xff"))), ("application/json", b'{"a": "\xff"}')],
)  # fmt: skip
def test_what_is_not_in_its_charset_is_400(site: Any, type: str, body: bytes) -> None:
    assert visit(site(), "/", "POST", body, type).status_int == 400


@pytest.mark.parametrize(
    ("body", "form"),
    [
        (b"", {}),
        (b"{}", {}),
        (b' {"a": 1, "b": [true, null, {"c": 1.5}], "d": "\\u00fc\\ud834\\udd1e"} ',
         {"a": 1, "b": [True, None, {"c": 1.5}], "d": "ü𝄞"}),
        ('{"ü": "€"}'.encode(), {"ü": "€"}),
    ],
)  # fmt: skip
def test_json(site: Any, body: bytes, form: dict[str, Any]) -> None:
    assert visit(site(), "/", "POST", body, "application/json").json == form


@pytest.mark.parametrize(
    "body",
    [b"[]", b"1", b'"a"', b"null", b"{", b"{'a': 1}", b'{"a": NaN}', b'{"a": Infinity}', b'{"a": "\\ud800"}',
     b'{"\\udfff": 1}', b'{"a": 1e400}', b'{"a": -1E0999}', b"9" * 250 + b"e99",
     b"[" * 100_000, b'{"a":' * 100_000, b"\0", b'{"a": 1, "a": 2}', b'{"b": [{"a": 1, "c": 2, "\\u0061": 1}]}',
     b'{"a":' + b"9" * 10_000 + b"}"],
    ids=lambda body: repr(body[:20]),
)  # fmt: skip
def test_no_json_is_400(site: Any, body: bytes) -> None:
    assert visit(site(), "/", "POST", body, "application/json").status_int == 400


def test_multipart(site: Any) -> None:
    body = multipart(
        ('name="a"', "", b"1"),
        ('name="a"', "", b"2\r\n--xy"),
        ('name="n:int"', "", b"3"),
        (
            'name="f"; filename="C:\\\\d\\\\a \\"b\\".txt"',
            "Content-Type: Text/Plain; charset=utf-8\r\n",
            b"text",
        ),
        ('name="g"; filename="/etc/ü.bin"', "", b""),
        ('name="none"; filename=""', "Content-Type: application/octet-stream\r\n", b""),
        ('filename="b"; name="h:list"', "", b"x" * 100),
    )
    assert visit(site(), "/", "POST", body, MULTIPART).json == {
        "a": ["1", "2\r\n--xy"],
        "n": 3,
        "f": {"filename": 'a "b".txt', "type": "text/plain; charset=utf-8", "length": 4, "text": "text"},
        "g": {"filename": "ü.bin", "type": "application/octet-stream", "length": 0, "text": ""},
        "none": "",
        "h": [{"filename": "b", "type": "application/octet-stream", "length": 100, "text": "x" * 100}],
    }


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        ('filename=".."', ""),
        ('filename="a/.."', ""),
        ('filename="."', ""),
        ('filename="..."', "..."),
        ("filename*=UTF-8''a%0d%0aSet-Cookie:%20b%00.txt", "aSet-Cookie: b.txt"),
        ("filename*=UTF-8''..%2F..%00", ""),
        ("filename*=UTF-8''a%E2%80%A8b%C2%85%7F.txt", "ab.txt"),
        ("filename*=UTF-8''%E2%82%AC%E3%80%80a.txt", "€\u3000a.txt"),
    ],
)
def test_the_name_of_a_file_is_no_folder_and_one_line(site: Any, sent: str, name: str) -> None:
    """A view may join it to the path of a directory, or put it into a header or a log."""
    body = multipart((f'name="f"; {sent}', "", b"x"))
    assert visit(site(), "/", "POST", body, MULTIPART).json["f"]["filename"] == name


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_multipart_in_small_blocks(site: Any, size: int) -> None:
    """Wherever a block ends, also in the last boundary, it is the same form."""

    class Slow(io.BytesIO):
        def read(self, n: int | None = -1) -> bytes:
            return super().read(min(size, n) if n and n > 0 else size)

        def seekable(self) -> bool:
            return False

    body = multipart(('name="a"', "", b"1"), ('name="f"; filename="f"', "", b"x" * 200))
    for end in (b"", b"\r\n"):
        sent = body.removesuffix(b"\r\n") + end
        said = {"wsgi.input": Slow(sent), "CONTENT_LENGTH": None, "wsgi.input_terminated": True}
        app = site()
        asked = Asked.blank("/", method="POST", content_type=MULTIPART)
        asked.environ.update({key: value for key, value in said.items() if value is not None})
        asked.environ.pop("CONTENT_LENGTH", None)
        assert asked.get_response(app).json["f"]["length"] == 200


def test_the_last_line_break_may_come_in_a_block_of_its_own(site: Any) -> None:
    """A block is 64 KiB, and the body one boundary longer than that."""
    empty = len(multipart(('name="f"; filename="f"', "", b"")))
    for length in range(65536 - empty - 3, 65536 - empty + 4):
        body = multipart(('name="f"; filename="f"', "", b"x" * length))
        assert visit(site(), "/", "POST", body, MULTIPART).json["f"]["length"] == length


def test_multipart_as_browsers_and_clients_write_it(site: Any) -> None:
    files = {"a": "ü", "f": ("ü.txt", "€".encode())}
    assert visit(site(), "/", "POST", files).json["f"]["text"] == "€"


@pytest.mark.parametrize(
    ("type", "body"),
    [
        ("multipart/form-data", multipart()),
        ("multipart/form-data; boundary=", multipart()),
        ("multipart/form-data; boundary=abc", multipart(("name=a", "", b""))),
        (f"multipart/form-data; boundary={'x' * 201}", multipart(("name=a", "", b""), boundary="x" * 201)),
        ('multipart/form-data; boundary="\xff"', multipart(("name=a", "", b""))),
        (MULTIPART, b""),
        (MULTIPART, b"--xyz"),
        (MULTIPART, b"--xyz\r\n"),
        (MULTIPART, multipart(("name=a", "", b"1"))[:-6]),
        (MULTIPART, multipart(("name=a", "", b"1")) + b"more" * 50_000),
        (MULTIPART, b"preamble" * 10_000 + multipart(("name=a", "", b"1"))),
        (MULTIPART, multipart(("", "", b"1"))),
        (MULTIPART, multipart(("name=a", "no header\r\n", b"1"))),
        (MULTIPART, multipart(("name=a", "X: y\n", b"1"))),
        (MULTIPART, multipart(("name=a", " continued\r\n", b"1"))),
        (MULTIPART, multipart(("name=a", "Content-Length: 5\r\n", b"1"))),
        (MULTIPART, multipart(("name=a", "", b"1")).replace(b"form-data", b"attachment")),
        (MULTIPART, multipart(("name=a", "", b"1")).replace(b"Content-Disposition", b"X")),
        (MULTIPART, multipart(("name=a", "", b"1")).replace(b"--xyz--", b"--xyz-x")),
    ],
)
def test_malformed_multipart_is_400(site: Any, type: str, body: bytes) -> None:
    assert visit(site(), "/", "POST", body, type).status_int == 400


@pytest.mark.parametrize(
    "type", ["", "text/plain", "application/xml", "application/octet-stream", "multipart/mixed", "json"]
)
@pytest.mark.filterwarnings("ignore:Unknown REQUEST_METHOD")  # wsgiref does not know QUERY
@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE", "QUERY"])
def test_another_body_is_for_a_view_that_reads_no_field__R11(site: Any, type: str, method: str) -> None:
    @view(context=Thing, name="body", methods=(method,))
    def body(context: Thing, request: Request) -> bytes:
        return request.body

    @view(context=Thing, name="fields", methods=(method,))
    def fields(context: Thing, request: Request, a: str = "nothing") -> str:
        return a

    app = site(body, fields)
    assert visit(app, "/body", method, b"as it is", type).body == b"as it is"
    assert visit(app, "/fields", method, b"", type).text == "nothing"
    refused = visit(app, "/fields", method, b"as it is", type)
    name = {"POST": "Accept-Post", "PATCH": "Accept-Patch"}.get(method, "Accept")
    assert (refused.status_int, "application/json" in refused.headers[name]) == (415, True)


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("type", [FORM, f"{FORM}; charset=windows-1252", MULTIPART, "application/json"])
@pytest.mark.parametrize("coding", ["gzip", "deflate", " GZip", "identity", ""])
def test_a_compressed_form_is_415__R11(site: Any, type: str, method: str, coding: str) -> None:
    """In a charset that has a letter for each byte it was read as a form without the fields that were sent."""

    @view(context=Thing, name="fields", methods=(method,))
    def fields(context: Thing, request: Request, a: str = "nothing") -> str:
        return a

    @view(context=Thing, name="body", methods=("PUT",))
    def body(context: Thing, request: Request) -> bytes:
        return request.body

    of_types = {FORM: b"a=some", MULTIPART: multipart(("name=a", "", b"some"))}
    sent = of_types.get(type.partition("; c")[0], b'{"a": "some"}')
    compress = {"gzip": gzip.compress, "deflate": zlib.compress}.get(coding.strip().lower(), bytes)
    answer = visit(site(fields, body), "/fields", method, compress(sent), type, HTTP_CONTENT_ENCODING=coding)
    if compress is bytes:
        assert answer.text == "some"
    else:
        assert (answer.status_int, answer.headers["Accept-Encoding"]) == (415, "identity")
    unread = visit(site(fields, body), "/body", "PUT", compress(sent), type, HTTP_CONTENT_ENCODING=coding)
    assert unread.body == compress(sent)


@pytest.mark.filterwarnings("ignore:Unknown REQUEST_METHOD")  # wsgiref does not know QUERY
@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE", "QUERY"])
@pytest.mark.parametrize(
    ("type", "body"),
    [(FORM, b"a=%C3%A9"), ("multipart/form-data; boundary=xyz", None)]
    + [
        (type, '{"a": "é"}'.encode())
        for type in ("application/json", "text/json", "application/merge-patch+json", "application/vnd.api+json",
                     "application/problem+json; charset=utf-8")
    ],
)  # fmt: skip
def test_the_body_of_every_method_is_read__R11(site: Any, method: str, type: str, body: bytes | None) -> None:
    @view(context=Thing, name="fields", methods=(method,))
    def fields(context: Thing, request: Request, a: str = "nothing") -> str:
        return a

    sent = multipart(("name=a", "", "é".encode())) if body is None else body
    assert visit(site(fields), "/fields", method, sent, type).text == "é"


def test_json_that_is_a_list_is_for_a_view_that_reads_json(site: Any) -> None:
    @view(context=Thing, name="list", methods=("POST",))
    def listed(context: Thing, request: Request) -> str:
        assert request.json is request.json
        return repr(request.json)

    app = site(listed)
    assert visit(app, "/list", "POST", b"\xef\xbb\xbf[1]", "application/json").text == "[1]"
    assert visit(app, "/list", "POST", b"[1e400]", "application/json").status_int == 400


@pytest.mark.parametrize(
    ("type", "body", "form"),
    [
        (FORM, b"\xef\xbb\xbfa=1", {"a": "1"}),
        ("application/json", b'\xef\xbb\xbf{"a": 1e30}', {"a": 1e30}),
    ],
)
def test_a_byte_order_mark_is_not_a_part_of_the_text(site: Any, type: str, body: bytes, form: Any) -> None:
    assert visit(site(), "/", "POST", body, type).json == form


def test_a_field_names_the_view_by_some_methods_only(site: Any) -> None:
    assert visit(site(), "/", "PUT", b":method=save", FORM).status_int == 400
    assert visit(site(methods=("PUT",)), "/", "PUT", b":method=echo&a=1", FORM).status_int == 404


def test_the_form_of_a_page_with_a_broken_field_in_its_query(site: Any) -> None:
    """A parameter of an advertisement in another charset is not read, and does not break the page."""

    @view(context=Thing, name="search")
    def search(context: Thing, request: Request, q: str = "") -> str:
        return q

    app = site(search)
    assert visit(app, "/search?utm=%FF&q=1").text == "1"
    assert visit(app, "/search?utm=1&q=%FF").status_int == 400
    assert visit(app, "/search?%71=%FF").status_int == 400
    assert visit(app, "/?utm=%FF").status_int == 400  # it reads all fields
    assert visit(app, "/?a=%FF", "POST", b"a=1", FORM).json == {"a": "1"}


@pytest.mark.parametrize(
    ("parameters", "filename"),
    [
        ("name=a; filename*=UTF-8''na%C3%AFve.txt", "naïve.txt"),
        ("name=a; filename*=utf-8'en'%e2%82%ac", "€"),
        ("name=a; filename*=iso-8859-1''%E9", "é"),
        ('name=a; filename*0="long "; filename*1="name"', "long name"),
        ("name=a; filename*0*=UTF-8''%C3%A9; filename*1=b", "éb"),
        ('name=a; filename="a*b"', "a*b"),
    ],
)
def test_names_of_files_in_the_forms_of_rfc_2231(site: Any, parameters: str, filename: str) -> None:
    """The standard library's reader of mail is the judge."""
    judge = email.message.Message()
    judge["Content-Disposition"] = f"form-data; {parameters}"
    assert email.utils.collapse_rfc2231_value(judge.get_filename()) == filename
    for more in ("", "; filename=plain" if "filename*=" in parameters else ""):
        sent = multipart((parameters + more, "", b"\xff"))
        assert visit(site(), "/", "POST", sent, MULTIPART).json["a"]["filename"] == filename


@pytest.mark.parametrize(
    ("parameters", "headers"),
    [
        ("name=a; filename*=x-none''b", ""),
        ("name*=UTF-8''a", ""),
        ("name=a", "Content-Transfer-Encoding: base64\r\n"),
        ("name=a; filename=b", "Content-Transfer-Encoding: Quoted-Printable\r\n"),
    ],
)
def test_parts_that_cannot_be_read_are_400__R11(site: Any, parameters: str, headers: str) -> None:
    assert visit(site(), "/", "POST", multipart((parameters, headers, b"YQ==")), MULTIPART).status_int == 400
    as_it_is = multipart(("name=a", "Content-Transfer-Encoding: 8BIT\r\n", b"YQ=="))
    assert visit(site(), "/", "POST", as_it_is, MULTIPART).json == {"a": "YQ=="}


@pytest.mark.parametrize(
    ("type", "body"),
    [(FORM, b"a=1"), ("application/json", b'{"a": "1"}'), (MULTIPART, multipart(("name=a", "", b"1")))],
)
def test_the_body_can_be_read_again(site: Any, type: str, body: bytes) -> None:
    """By a view, by WebOb, by an app of others further in."""

    @view(context=Thing, name="again", methods=("POST",))
    def again(context: Thing, request: Request) -> bytes:
        assert request.form == {"a": "1"}
        if type != "application/json":
            assert request.POST["a"] == "1"
        return request.body

    assert visit(site(again, outer=(retry(),)), "/again", "POST", body, type).body == body
    if type != MULTIPART:  # that may be large; who wants it again has an input that can seek
        assert visit(site(again), "/again", "POST", body, type).body == body
    environ = Asked.blank("/again", method="POST", body=body, content_type=type).environ
    assert Asked(environ).get_response(site(again)).body == body


def test_around_a_foreign_app() -> None:
    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        request: Request = environ["pipeline.request"]
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [repr((dict(request.form), Asked(environ).POST.mixed())).encode()]

    answer = visit(forms()(app), "/", "POST", b"a:int=1", FORM)
    assert answer.text == "({'a': 1}, {'a:int': '1'})"


def test_behind_a_foreign_middleware(site: Any) -> None:
    def copying(app: Any) -> Any:
        return lambda environ, start_response: app(dict(environ), start_response)

    for body, type in ((b"a=1", FORM), (multipart(("name=a", "", b"1")), MULTIPART)):
        assert visit(site(outer=(retry(), copying)), "/", "POST", body, type).json == {"a": "1"}


# Uploads.


def test_uploads_are_closed_with_the_request(site: Any) -> None:
    kept: list[Upload] = []

    @view(context=Thing, name="keep", methods=("POST",))
    def keep(context: Thing, request: Request, small: Upload, large: Upload) -> str:
        kept.extend((small, large))
        assert not small.file.closed
        assert large.file.read() == b"x" * 100_000
        return f"{small} {large.length}"

    files = {"small": ("a", b"1"), "large": ("b", b"x" * 100_000)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        answer = visit(site(keep), "/keep", "POST", files)
        gc.collect()
    assert answer.text == "<file 'a', application/octet-stream, 1 bytes> 100000"
    assert [upload.file.closed for upload in kept] == [True, True]
    files = {"small": ("a", b"1"), "large:int": ("b", b"")}
    assert visit(site(keep), "/keep", "POST", files).status_int == 400


def test_uploads_of_a_refused_form_are_closed(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    import pipeline.forms.multipart_body

    real = pipeline.forms.multipart_body.TemporaryFile

    def make() -> Any:
        made.append(real())
        return made[-1]

    monkeypatch.setattr(pipeline.forms.multipart_body, "TemporaryFile", make)
    body = multipart(('name="f"; filename="f"', "", b"x" * 100_000), ('name="a"', "", b"1"))[:-6]
    assert visit(site(), "/", "POST", body, MULTIPART).status_int == 400
    assert [file.closed for file in made] == [True]


def test_a_file_goes_to_disk_when_it_is_large(site: Any) -> None:
    @view(context=Thing, name="where", methods=("POST",))
    def where(context: Thing, request: Request) -> str:
        found = request.form.items()
        return " ".join(f"{name}={not isinstance(upload.file, io.BytesIO)}" for name, upload in found)

    files = {f"f{number}": ("n", b"x" * 60_000) for number in range(4)} | {"large": ("n", b"x" * 70_000)}
    answer = visit(site(where, max_memory=200_000), "/where", "POST", files)
    assert answer.text == "f0=False f1=False f2=False f3=True large=True"


def test_files_on_disk_share_one_temporary_file(site: Any) -> None:
    """S15: one descriptor for a body of 66 MB with a thousand files; each of them reads as a file by itself."""
    count, size = 1000, 65_600

    @view(context=Thing, name="all", methods=("POST",))
    def all_(context: Thing, request: Request) -> str:
        uploads = list(request.form.values())
        for upload in uploads[::-250]:
            number = int(upload.filename)
            content, file = contents[number], upload.file
            assert file.readline() == b"%d\n" % number and file.tell() == len(str(number)) + 1
            assert file.seek(0) == 0 and file.read() == content and file.read(1) == b""
            assert file.seek(-3, 2) == size - 3 and file.read() == b"xxx"
            with pytest.raises(ValueError, match="no position -1"):
                file.seek(-1)
        return f"{len(uploads)} {len(os.listdir('/proc/self/fd')) - before}"

    if not Path("/proc/self/fd").exists():
        pytest.skip("the open files are counted in /proc, which Linux has")
    contents = [b"%d\n" % number + b"x" * (size - len(str(number)) - 1) for number in range(count)]
    body = multipart(*((f'name="f{n}"; filename="{n}"', "", content) for n, content in enumerate(contents)))
    app = site(all_)
    before = len(os.listdir("/proc/self/fd"))
    answer = visit(app, "/all", "POST", body, MULTIPART)
    assert answer.status_int == 200, answer.text
    assert answer.text == f"{count} 1"
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_no_descriptor_left_is_a_503(site: Any, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """S15."""
    import pipeline.forms.multipart_body

    def fail() -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(pipeline.forms.multipart_body, "TemporaryFile", fail)
    answer = visit(site(), "/", "POST", {"f": ("n", b"x" * 100_000)})
    assert (answer.status_int, answer.headers["Retry-After"]) == (503, "1")


def test_a_process_that_has_no_descriptor_left_is_a_503(site: Any) -> None:
    """S15: with the limit of the system itself."""
    app = site()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    asked = Asked.blank("/", POST={"f": ("n", b"x" * 100_000)})
    used = os.open(os.devnull, os.O_RDONLY)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (used, hard))
        answer = asked.get_response(app)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(used)
    assert (answer.status_int, answer.headers["Retry-After"]) == (503, "1")


def test_the_type_of_an_upload_keeps_its_parameters(site: Any) -> None:
    kind = 'Text/CSV; charset="utf-8"; header=present'
    body = multipart(('name="f"; filename="f"', f"Content-Type: {kind}\r\n", b"1"))
    sent = visit(site(), "/", "POST", body, MULTIPART).json["f"]
    assert sent["type"] == 'text/csv; charset="utf-8"; header=present'


# Nested JSON.


@pytest.mark.parametrize("annotation", [int, list[int], dict, Literal["a"], date | None])
def test_deep_json_is_400_whatever_the_view_takes(site: Any, annotation: Any) -> None:
    """S12, S15: a message that shows the wrong value ran out of stack where the parser had just enough."""

    def take(context: Thing, request: Request, a: Any) -> str:
        return "taken"

    take.__annotations__["a"] = annotation
    app = site(view(context=Thing, name="take", methods=("POST",))(take))
    for depth in (100, *range(500, 1000, 3), 100_000):
        for nested in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth):
            answer = visit(app, "/take", "POST", b'{"a": [' + nested + b"]}", "application/json")
            assert answer.status_int == 400, (depth, answer.text)


def test_json_may_be_nested_a_hundred_deep(site: Any) -> None:
    deepest = b'{"a":' + b"[" * 99 + b"]" * 99 + b"}"
    assert visit(site(), "/", "POST", deepest, "application/json").status_int == 200
    beyond = b'{"a":' + b"[" * 100 + b"]" * 100 + b"}"
    answer = visit(site(), "/", "POST", beyond, "application/json")
    assert (answer.status_int, "nested more than 100 deep" in answer.text) == (400, True)
    wide = b'{"a": [' + b",".join([b"[[]]"] * 10_000) + b"]}"
    assert visit(site(), "/", "POST", wide, "application/json").status_int == 200


# Retry.


def test_every_attempt_reads_the_form_anew(site: Any) -> None:
    seen: list[Any] = []

    @view(context=Thing, name="again", methods=("POST",))
    def again(context: Thing, request: Request, f: Upload, a: str) -> str:
        seen.append((f, f.file.read(), a, request.form))
        if len(seen) < 3:
            raise TransientError
        return "at last"

    app = site(again, outer=(retry(delay=0),))
    answer = visit(app, "/again", "POST", {"f": ("n", b"x" * 100_000), "a": "1"})
    assert answer.text == "at last"
    assert [content for _, content, _, _ in seen] == [b"x" * 100_000] * 3
    assert len({id(form) for _, _, _, form in seen}) == 3
    assert all(upload.file.closed for upload, _, _, _ in seen)


# :method and :action.


@pytest.mark.parametrize(
    ("path", "method", "body", "status"),
    [
        ("/?save:method=1", "GET", b"", 200),
        ("/a/?save:action=1", "GET", b"", 200),
        ("/", "POST", b"save:method=Save", 200),
        ("/a", "POST", b":action=save", 200),
        ("/a/", "POST", b"save%3Amethod.x=1&save%3Amethod.y=2", 200),
        ("/?other:method=1", "POST", b"save:method=1", 200),
        ("/", "POST", b"a:method=1", 404),  # an item is no view
        ("/", "POST", b"__class__:method=1", 404),
        ("/", "POST", b"a/save:method=1", 404),
        ("/", "POST", b"@@save:method=1", 404),
        ("/", "POST", b"remove:method=1", 403),
        ("/?remove:method=1", "GET", b"", 405),
        ("/echo", "POST", b"save:method=1", 404),  # the path names one already
        ("/@@echo", "POST", b"save:method=1", 404),
    ],
)
def test_a_field_may_name_the_view(site: Any, path: str, method: str, body: bytes, status: int) -> None:
    """S2: what it names is looked up as any other view is."""
    answer = visit(site(), path, method, body, FORM if body else "")
    assert answer.status_int == status
    if status == 200:
        assert answer.text.startswith("saved {")


def test_the_value_of_a_button_that_names_the_view_is_in_the_form(site: Any) -> None:
    """As in Zope; that of ``:method`` is the name itself, and there is no name for it."""
    answer = visit(site(), "/", "POST", b"save:method=Save+it&a=1", FORM)
    assert answer.text == "saved {'save': 'Save it', 'a': '1'}"
    assert visit(site(), "/", "POST", b":method=save", FORM).text == "saved {}"


def test_an_error_view_finds_an_empty_form(site: Any) -> None:
    @view(context=HTTPBadRequest)
    def wrong(error: HTTPBadRequest, request: Request) -> str:
        return f"{error.detail} {dict(request.form)}"

    answer = visit(site(wrong), "/?a=1", "POST", b"[]", "application/json")
    assert (answer.status_int, answer.text) == (400, "The JSON is not an object. {}")


def test_a_malformed_query_that_nobody_reads_is_ignored(site: Any) -> None:
    """S15: its limits are kept ahead; its text is decoded for the view that reads it."""

    @view(context=Thing, name="plain")
    def plain(context: Thing, request: Request) -> str:
        return f"form made: {'form' in vars(request)}"

    @view(context=HTTPBadRequest)
    def wrong(error: HTTPBadRequest, request: Request) -> str:
        return f"{error.detail} {dict(request.form)}"

    app = site(plain, wrong, max_fields=3)
    for query in ("a=1", "a=%FF", "a=%e9%3f"):
        assert visit(app, f"/plain?{query}").text == "form made: False"
    answer = visit(app, "/save?a=%FF")
    assert (answer.status_int, answer.text) == (400, "The query or form is not utf-8. {}")
    assert visit(app, "/plain?a&b&c&d").text == "The query has more than 3 fields. {}"
    for query in (":method=_x", "%3Amethod=_x", "a:int=x", "a%3aint=x", "a:b=%FF"):
        assert visit(app, f"/plain?{query}").status_int in (400, 403, 404), query
    assert visit(app, "/?:method=save&a=1").text == "saved {'a': '1'}"


def test_json_names_no_view(site: Any) -> None:
    assert visit(site(), "/", "POST", b'{"save:method": 1}', "application/json").json == {"save:method": 1}


# Limits (S15).


def texts(*contents: bytes, name: str = "a") -> bytes:
    return multipart(*[(f"name={name}", "", content) for content in contents])


def files(*lengths: int, filename: str = "a") -> bytes:
    return multipart(*[(f"name=a; filename={filename}", "", b"x" * length) for length in lengths])


def refused(app: Any, body: bytes, type: str, **environ: Any) -> int:
    """The status; nothing was looked up before, but for JSON, which the view reads: then a 200 is a 404."""
    path = "/" if type == "application/json" else "/not/there"
    status = visit(app, path, "POST", body, type, **environ).status_int
    return 404 if path == "/" and status == 200 else status


@pytest.mark.parametrize(
    ("options", "fits", "does_not", "type"),
    [
        ({"max_body": 10}, b"a=34567890", b"a=345678901", FORM),
        ({"max_memory": 10}, b"a=34567890", b"a=345678901", FORM),
        ({"max_memory": 10}, b'{"a":"89"}', b'{"a":"890"}', "application/json"),
        ({"max_fields": 2}, b"a=1&b=2", b"a=1&b=2&c=3", FORM),
        ({"max_fields": 2}, b"&", b"&&", FORM),
        ({"max_fields": 1}, b'{"a":"89"}', b'{"a":"8","b":1}', "application/json"),
        ({"max_parts": 1}, texts(b""), texts(b"", b""), MULTIPART),
        ({"max_memory": 10}, texts(b"x" * 9), texts(b"x" * 10), MULTIPART),
        ({"max_memory": 10}, texts(b"x" * 4, b"x" * 4), texts(b"x" * 5, b"x" * 4), MULTIPART),
        ({"max_memory": 10}, texts(b"", name="a" * 10), texts(b"", name="a" * 11), MULTIPART),
        ({"max_memory": 10}, files(6, filename="aaa"), files(6, filename="a" * 10), MULTIPART),
        ({"max_disk": 99_999}, files(99_999), files(100_000), MULTIPART),
        ({"max_disk": 150_000}, files(70_000, 80_000), files(70_000, 80_001), MULTIPART),
        ({"max_disk": 99, "max_memory": 50}, files(99), files(100), MULTIPART),
        ({"max_body": 1000}, files(900), files(1000), MULTIPART),
        ({"max_header": 100}, texts(b"", name="a" * 63), texts(b"", name="a" * 64), MULTIPART),
        (
            {},
            multipart(("name=a", "X: y\r\n" * 7, b"")),
            multipart(("name=a", "X: y\r\n" * 8, b"")),
            MULTIPART,
        ),
    ],
)
def test_limits(site: Any, options: dict[str, int], fits: bytes, does_not: bytes, type: str) -> None:
    app = site(**options)
    assert refused(app, fits, type) == 404
    assert refused(app, does_not, type) == 413
    chunked = {"CONTENT_LENGTH": "", "wsgi.input_terminated": True}
    assert refused(app, fits, type, **chunked) == 404
    assert refused(app, does_not, type, **chunked) == 413


@pytest.mark.parametrize("type", [FORM, "application/json"])
def test_a_body_that_a_middleware_cut_is_400(site: Any, type: str) -> None:
    """R11: it is not taken for a short form."""

    def cut(app: Any) -> Any:
        def middleware(environ: Any, start_response: Any) -> Any:
            return app({**environ, "wsgi.input": io.BytesIO(b'{"a"')}, start_response)

        return middleware

    asked = Asked.blank("/", method="POST", body=b'{"a":1}', content_type=type)
    assert asked.get_response(retry()(cut(site()))).status_int == 400


def test_the_limit_of_a_query(site: Any) -> None:
    app = site(max_fields=2)
    assert visit(app, "/?a&b").status_int == 200
    assert visit(app, "/?a&b&c").status_int == 400


@pytest.mark.parametrize("length", ["x", "-1", "+1", "1.0", " 1", "1,1", "²"])
@pytest.mark.parametrize("type", [FORM, MULTIPART, "application/json"])
def test_a_length_that_is_none_is_400(length: str, type: str) -> None:
    environ = Asked.blank("/", method="POST").environ | {"CONTENT_LENGTH": length, "CONTENT_TYPE": type}
    app = forms()(lambda environ, start_response: pytest.fail("it went through"))
    assert Asked(environ).get_response(app).status_int == 400


@pytest.mark.parametrize("type", [FORM, MULTIPART, "application/json"])
def test_a_length_beyond_the_limit_is_refused_unread(site: Any, type: str) -> None:
    class Unread(io.BytesIO):
        def read(self, *args: Any) -> bytes:
            pytest.fail("the body was read")

    environ = Asked.blank("/", method="POST").environ | {"wsgi.input": Unread(), "CONTENT_TYPE": type}
    for length in (str(2**30), "9" * 4000):
        environ["CONTENT_LENGTH"] = length
        assert Asked(dict(environ)).get_response(site()).status_int == 413
        assert Asked(dict(environ)).get_response(site(outer=(retry(),))).status_int == 413
    environ["CONTENT_LENGTH"] = "9" * 10_000
    assert Asked(dict(environ)).get_response(site()).status_int == 413


@pytest.mark.parametrize("type", [FORM, MULTIPART, "application/json"])
def test_a_body_that_breaks_off_is_400(site: Any, type: str) -> None:
    class Broken(io.BytesIO):
        def read(self, *args: Any) -> bytes:
            raise ConnectionResetError

    body = multipart(("name=a", "", b"1"))
    for stream in (io.BytesIO(body[:-9]), Broken()):
        environ = Asked.blank("/", method="POST").environ
        environ.update({"CONTENT_LENGTH": str(len(body)), "CONTENT_TYPE": type, "wsgi.input": stream})
        assert Asked(environ).get_response(site()).status_int == 400


class Bomb(io.RawIOBase):
    """A body that is made while it is read, and counts how much of it was: `head`, then `part` for ever."""

    def __init__(self, head: bytes, part: bytes) -> None:
        self.waiting = head
        self.block = part * max(1, 65536 // len(part))
        self.read_bytes = 0

    def read(self, size: int | None = -1) -> bytes:
        assert size and size > 0, "nobody reads all of it"
        while len(self.waiting) < size:
            self.waiting += self.block
        block, self.waiting = self.waiting[:size], self.waiting[size:]
        self.read_bytes += len(block)
        return block

    def seekable(self) -> bool:
        return False


PART = b'--xyz\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n'
HEAD = b"--xyz\r\nContent-Disposition: form-data; "
BOMBS = {
    # name: head, what follows it for ever, options, bytes that may be read
    "100,000 parts": (b"", PART, {}, 1000 * len(PART)),
    "100,000 empty files": (b"", PART.replace(b'"a"', b'"a"; filename=""'), {}, 1000 * (len(PART) + 13)),
    "a text of 1 GiB": (HEAD + b'name="a"\r\n\r\n', b"x", {}, 2 * 2**20),
    "a file of 1 GiB": (HEAD + b'name="a"; filename="a"\r\n\r\n', b"x", {"max_disk": 2**22}, 2**22),
    "a file of line breaks": (HEAD + b'name="a"; filename="a"\r\n\r\n', b"\r\n", {"max_disk": 2**22}, 2**22),
    "a file of half boundaries": (
        HEAD + b'name="a"; filename="a"\r\n\r\n',
        b"\r\n--xy",
        {"max_disk": 2**22},
        2**22,
    ),
    "a name without an end": (HEAD + b'name="', b"a", {}, 0),
    "nested quotes": (HEAD + b'name="', b'\\"', {}, 0),
    "quotes": (HEAD, b'"', {}, 0),
    "parameters": (HEAD, b'a="b"; ', {}, 0),
    "blanks": (HEAD, b" ", {}, 0),
    "nested quotes in many parts": (
        b"",
        HEAD + b"a=" + b'\\"' * 1990 + b"; name=a\r\n\r\n\r\n",
        {},
        4_100_000,
    ),
    "blanks in many parts": (b"", HEAD + b"; " * 1990 + b"; name=a\r\n\r\n\r\n", {}, 4_100_000),
    "headers": (HEAD + b"name=a\r\n", b"X: y\r\n", {}, 0),
    "a preamble": (b"", b"x", {}, 0),
    "line breaks first": (b"", b"\r\n", {}, 0),
    "continued headers": (HEAD + b"name=a\r\n", b" x\r\n", {}, 0),
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("with_retry", [False, True])
def test_a_multipart_bomb_is_refused_at_its_first_limit(site: Any, name: str, with_retry: bool) -> None:
    """S15: in about the time and memory of reading as much as the limit lets in."""
    head, part, options, may_read = BOMBS[name]
    bomb = Bomb(head, part)
    environ = Asked.blank("/", method="POST", content_type=MULTIPART).environ
    environ.update({"wsgi.input": bomb, "wsgi.input_terminated": True})
    environ.pop("CONTENT_LENGTH", None)
    app = site(outer=(retry(),) if with_retry else (), **options)
    tracemalloc.start()
    start = time.process_time()
    try:
        status = Asked(environ).get_response(app).status_int
        seconds = time.process_time() - start
        memory = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert status in (400, 413)
    assert bomb.read_bytes <= may_read + 4 * 65536, "blocks are read ahead"
    assert memory < max(2 * may_read, 2**21) + 2**21
    assert seconds < 5, "under tracemalloc, which is slow"


@pytest.mark.parametrize(
    ("type", "head", "part", "may_read"),
    [
        (FORM, b"a=", b"x", 2 * 2**20),
        (FORM, b"", b"%", 2 * 2**20),
        (FORM, b"", b"&", 2 * 2**20),
        (FORM, b"", b"\xc3\xbc%", 2 * 2**20),
        ("application/json", b"[", b"[],", 2 * 2**20),
        ("application/json", b'{"', b"\\u00", 2 * 2**20),
    ],
)
def test_other_bombs_are_refused_at_their_first_limit(
    site: Any, type: str, head: bytes, part: bytes, may_read: int
) -> None:
    """S15."""
    bomb = Bomb(head, part)
    environ = Asked.blank("/", method="POST", content_type=type).environ
    environ.update({"wsgi.input": bomb, "wsgi.input_terminated": True})
    environ.pop("CONTENT_LENGTH", None)
    start = time.process_time()
    assert Asked(environ).get_response(site()).status_int == 413
    assert bomb.read_bytes <= may_read + 65536
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("type", "body"),
    [
        (FORM, b"%" * 2_000_000),
        (FORM, b"%41" * 600_000),
        (FORM, b"\xc3\xbc%" * 600_000),
        (FORM, b"+=" * 1_000_000),
        ("application/json", b"[" * 2_000_000),
        ("application/json", b"{" + b'"a":[' * 300_000),
        ("application/json", b'{"a":"' + b"\\ud834\\udd1e" * 150_000 + b'"}'),
        ("application/json", b'{"a":' + b"1" * 2_000_000 + b"}"),
        (f"{FORM}; a=" + '\\"' * 4000, b""),
        (FORM + '; a="' * 4000, b""),
        (FORM + ";" + " " * 8000, b""),
        (MULTIPART, multipart(*[(f"name={'a' * 900}", "", b"")] * 1000)),
        (MULTIPART, multipart(*[(f"name={'%22' * 300}", "", b"")] * 1000)),
        (MULTIPART, multipart(("name=a; filename=a", "", b"\r\n--xyz\r" * 100_000))),
    ],
    ids=lambda value: repr(value[:30]),
)
def test_the_worst_is_read_in_linear_time(site: Any, type: str, body: bytes) -> None:
    """S12: what is quadratic takes minutes."""
    start = time.process_time()
    assert visit(site(), "/", "POST", body, type).status_int < 500
    assert time.process_time() - start < 5


def test_no_file_descriptor_is_left(site: Any) -> None:
    app = site()
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    body = multipart(*[("name=a; filename=a", "", b"x" * 70_000)] * 20, ('name="b:int"', "", b"x"))
    assert visit(app, "/", "POST", body, MULTIPART).status_int == 400
    assert before == (len(os.listdir("/proc/self/fd")) if before else 0)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 100


@pytest.mark.parametrize("option", ["max_body", "max_memory", "max_disk", "max_parts", "max_fields", "max_header"])
def test_a_limit_is_one_or_more(option: str) -> None:
    with pytest.raises(OptionError, match="must be a number of at least 1"):
        forms(**{option: 0})(lambda environ, start_response: [])


def test_its_place() -> None:
    with pytest.raises(OrderError, match="a malformed form is an error page"):
        Pipeline(forms(), errors(), publisher())
    with pytest.raises(OrderError, match="every attempt reads the body"):
        Pipeline(forms(), retry(), publisher())
    with pytest.raises(OrderError, match="before anything is looked up"):
        Pipeline(traverse(root=dict), forms(), publisher())


def test_from_an_ini(tmp_path: Path) -> None:
    ini = tmp_path / "site.ini"
    ini.write_text(
        "[pipeline:main]\npipeline = forms app\n"
        "[filter:forms]\npaste.filter_factory = pipeline.elements.forms:forms\n"
        "methods = POST PUT\nmax_body = 10\n"
        f"[app:app]\npaste.app_factory = {__name__}_app:make\n"
    )
    module = ModuleType(f"{__name__}_app")
    module.make = lambda conf: (
        lambda environ, start: (  # type: ignore[attr-defined]
            start("200 OK", []),
            [str(dict(environ["pipeline.request"].form)).encode()],
        )[1]
    )
    sys.modules[module.__name__] = module
    try:
        app = loadapp(f"config:{ini}")
    finally:
        del sys.modules[module.__name__]
    asked = Asked.blank("/", method="PUT", body=b"a=1", content_type=FORM)
    assert asked.get_response(app).text == "{'a': '1'}"
    asked = Asked.blank("/", method="PUT", body=b"a=123456789", content_type=FORM)
    assert asked.get_response(app).status_int == 413


def test_the_form_is_read_only(site: Any) -> None:
    @view(context=Thing, name="change")
    def change(context: Thing, request: Request) -> str:
        with pytest.raises(TypeError):
            request.form["a"] = "2"
        return "no"

    assert visit(site(change), "/change?a=1").text == "no"
    assert visit(site(change), "/change").text == "no"


def test_converters_of_ones_own(site: Any) -> None:
    @utility(IFieldConverter, name="iban")
    @implementer(IFieldConverter)
    class Iban:
        def __call__(self, text: str) -> str:
            if not text.startswith("DE"):
                raise ValueError("it is not a German account")
            return text.replace(" ", "")

    @utility(IFieldConverter, name="int")
    class NotOurs:
        def __call__(self, text: str) -> str:
            return "replaced"

    @utility(IFieldConverter, name="record")
    class NorThis(NotOurs):
        pass

    app = site(Iban, NotOurs, NorThis)
    assert visit(app, "/?a:iban:list=DE+12&b:int=1&c.d:record=2").json == {
        "a": ["DE12"],
        "b": 1,
        "c": {"d": "2"},
    }
    answer = visit(app, "/?a:iban=FR+12")
    assert answer.status_int == 400
    assert answer.text == "Field 'a:iban', value 'FR 12': it is not a German account.\n"
    assert visit(site(), "/?a:iban=DE").json == {"a:iban": "DE"}


# Nothing but 4xx comes of what is malformed.

_bytes = st.binary(max_size=40) | st.lists(
    st.sampled_from(
        [b"--xyz", b"--xyz--", b"\r\n", b"\n", b"Content-Disposition: form-data", b"; name=a", b"; filename=",
         b'; name="a:int"', b'"', b"\\", b"Content-Type: text/plain; charset=", b"Content-Length: 3", b": ",
         b"=", b"&", b"%", b"%C3", b"a", b"1", b":records", b":default", b".b", b"_charset_", b"utf-8", b"{",
         b"}", b"[", b'"a"', b",", b"null", b"\\ud800", b"\0", b"\xff", b":method", b"save"]
    ),
    max_size=30,
).map(b"".join)  # fmt: skip


def _structured(parts: list[tuple[bytes, bytes, bytes]]) -> bytes:
    return (
        b"".join(
            b"--xyz\r\nContent-Disposition: form-data"
            + parameters
            + b"\r\n"
            + headers
            + b"\r\n"
            + content
            + b"\r\n"
            for parameters, headers, content in parts
        )
        + b"--xyz--\r\n"
    )


_parts = st.lists(
    st.tuples(
        st.sampled_from([b"; name=a", b"; name=a; filename=f", b'; name="a:int"', b"; name=_charset_", b""])
        | _bytes,
        st.just(b"") | _bytes,
        _bytes,
    ),
    max_size=4,
).map(_structured)


@given(
    body=_bytes | _parts,
    type=st.sampled_from([FORM, MULTIPART, "application/json", f"{FORM}; charset=gbk", "multipart/form-data"])
    | st.text(st.characters(max_codepoint=255, exclude_characters="\r\n"), max_size=30).map(
        lambda t: f"{MULTIPART}; {t}"
    ),
    query=_bytes,
    length=st.none() | st.integers(0, 100).map(str) | st.sampled_from(["x", "-1", ""]),
    terminated=st.booleans(),
)
def test_nothing_but_4xx_escapes(
    body: bytes, type: str, query: bytes, length: str | None, terminated: bool
) -> None:
    environ = Asked.blank("/", method="POST").environ
    environ.update(
        {
            "wsgi.input": io.BytesIO(body),
            "wsgi.input_terminated": terminated,
            "CONTENT_TYPE": type,
            "CONTENT_LENGTH": str(len(body)) if length is None else length,
            "QUERY_STRING": query.decode("latin-1"),
        }
    )
    assert 200 <= Asked(environ).get_response(FUZZED).status_int < 500


@element
def see(next: Any) -> Any:
    """Look at the form: it can be shown, whatever was sent."""

    def see(request: Request, response: Response) -> None:
        next(request, response)
        json.dumps(shown(request.form)).encode()

    return see


def _end(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("200 OK", [])
    return [b""]


FUZZED = Pipeline(retry(), errors(), forms(max_memory=200, max_parts=3, max_fields=3, max_header=100), see(), _end)


class Unseekable(io.BytesIO):
    """A body of a server whose stream cannot seek, as most cannot."""

    def seekable(self) -> bool:
        return False


@pytest.mark.parametrize("read", ["read", "readline", "readlines", "__iter__"])
def test_an_app_gets_no_empty_body_where_the_parts_were_read(caplog: Any, read: str) -> None:
    """R11: the bytes of a long multipart body are gone then. The log says what to do."""
    body = texts(b"tea" * 30_000)

    def app(environ: Any, start_response: Any) -> Any:
        found = getattr(environ["wsgi.input"], read)()
        start_response("200 OK", [])
        return [found] if isinstance(found, bytes) else list(found)

    def ask(pipeline: Any) -> Any:
        asked = Asked.blank("/", method="POST", body=body, content_type=MULTIPART)
        asked.environ["wsgi.input"] = Unseekable(body)
        return asked.get_response(pipeline)

    caplog.set_level(logging.ERROR)
    assert ask(errors()(forms()(app))).status_int == 500
    assert "put retry outside forms" in caplog.text
    sent = ask(retry()(errors()(forms()(app)))).body
    assert sent and body.startswith(sent)
