"""What a client sent is what the view gets, or it is refused and the view does not run (R11).

A generator, not a list: a value, a way in which it reaches a view, an encoding that a standard names for that way,
and a method. Libraries that are not ours write what is sent: ``email``, ``urllib``, ``json``, ``xmlrpc.client``.
The controls put old readings back, and the generator must find each.
"""

from __future__ import annotations

import codecs
import json
import os
import random
import re
import xmlrpc.client
from collections.abc import Callable, Mapping
from email.encoders import encode_base64, encode_quopri
from email.mime.nonmultipart import MIMENonMultipart
from email.utils import encode_rfc2231
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

import pytest
from webob import Request as Asked

import pipeline.auth.authentication
import pipeline.cookies
import pipeline.elements.forms
import pipeline.forms.charsets
import pipeline.forms.multipart_body
import pipeline.publishing.steps
from pipeline import Pipeline, Request, view
from pipeline.elements.authenticate import authenticate
from pipeline.elements.errors import errors
from pipeline.elements.forms import forms
from pipeline.elements.traverse import traverse
from pipeline.interfaces import IXMLRPCRequest
from pipeline.publisher import publisher

GOT: list[Any] = []
ROUNDS = 100_000 if os.environ.get("PIPELINE_FAULTS") == "full" else 7_000
METHODS = ("POST", "PUT", "PATCH", "DELETE")
LETTERS = ["a", "Z", "0", " ", "+", "%", "&", "=", ";", ",", ":", ".", "*", "'", '"', "\\", "/", "é", "ß", "€",
           "あ", "髙", "①", "\uff5e", "똠", "碁", "ў", "𝄞", "\n", "\r\n", "\t", "\ufeff", "~"]  # fmt: skip
CHARSETS = ("utf-8", "iso-8859-1", "iso-8859-2", "windows-1251", "koi8-u", "shift_jis", "euc-jp", "iso-2022-jp",
            "gbk", "big5", "euc-kr", "utf-16", "utf-7", "x-unknown", "macintosh")  # fmt: skip
WRITERS = {
    "shift_jis": "cp932",
    "euc-jp": "euc_jp",
    "gbk": "gb18030",
    "euc-kr": "cp949",
    "big5": "big5hkscs",
    "x-unknown": "utf-8",
}
JSON_TYPES = ("application/json", "text/json", "application/merge-patch+json", "application/vnd.api+json",
              "text/plain", "application/problem+json;charset=utf-8", "", "application/x-ndjson")  # fmt: skip


class Step:
    """An object at a path: the names that were walked to it."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def __getitem__(self, name: str) -> Step:
        return Step([*self.names, name])


class Root(dict[str, Any]):
    """The context of the views of this test."""

    def __missing__(self, name: str) -> Step:
        return Step([name])


@view(context=Step)
def step(context: Step, request: Request) -> str:
    GOT.append(context.names)
    return "got"


@view(context=Root, methods=("GET", *METHODS))
def field(context: Root, request: Request, v: Any) -> str:
    GOT.append(v)
    return "got"


@view(context=Root, name="file", methods=METHODS)
def file(context: Root, request: Request, v: Any) -> str:
    GOT.append((v.filename, v.file.read()) if hasattr(v, "file") else v)
    return "got"


@view(context=Root, name="cookie")
def cookie(context: Root, request: Request) -> str:
    [sent] = pipeline.cookies.cookies_of(request.environ, "v")
    GOT.append((sent.encode("latin-1").decode(), request.cookies["v"]))
    return "got"


@view(context=Root, name="call", methods=("POST",), request_type=IXMLRPCRequest)
def call(context: Root, request: Request, v: Any) -> str:
    GOT.append(v)
    return "got"


@view(context=Root, name="header")
def header(context: Root, request: Request) -> str:
    GOT.append(request.headers["X-Value"].encode("latin-1").decode())
    return "got"


@view(context=Root, name="login")
def login(context: Root, request: Any) -> str:
    GOT.append(LOGINS[request.principal])
    return "got"


LOGINS: dict[str, tuple[str, str]] = {}


def check(request: Request, user: str, password: str) -> str:
    LOGINS["someone"] = (user, password)
    return "someone"


class Sent(NamedTuple):
    """A request, and what its view must get."""

    value: Any
    method: str = "GET"
    path: str = "/"
    type: str = ""
    body: bytes = b""
    headers: Mapping[str, str] = MappingProxyType({})


def written(value: str, chance: random.Random) -> tuple[str, bytes]:
    """Return a charset, and the bytes of a value in it; UTF-8 if the charset lacks a letter."""
    charset = chance.choice(CHARSETS)
    if charset in ("euc-jp", "iso-2022-jp"):  # Python's codecs write the wave dash of browsers for another letter
        value = value.replace("\uff5e", "\u301c")
    try:
        return charset, value.encode(WRITERS.get(charset, charset))
    except UnicodeError:
        return "utf-8", value.replace("\u301c", "\uff5e").encode()


def query(value: str, chance: random.Random) -> Sent:
    quoted = chance.choice([quote(value, safe=""), quote_plus(value), "%" + value.encode().hex("%")])
    return Sent(value, path=f"/?v={quoted}")


def urlencoded(value: str, chance: random.Random) -> Sent:
    charset, raw = written(value, chance)
    body = b"v=" + quote_plus(raw).encode()
    kind = "application/x-www-form-urlencoded"
    how = chance.choice(["parameter", "field", "mark"])
    if how == "parameter":
        kind += f"; charset={charset}"
    elif how == "field":
        body = f"_charset_={charset}&".encode() + body
    else:
        body = codecs.BOM_UTF8 + b"v=" + quote_plus(value).encode()
    return Sent(value, chance.choice(METHODS), "/", kind, body)


def part(disposition: str, headers: str, content: bytes) -> bytes:
    head = f"Content-Disposition: form-data; {disposition}\r\n{headers}\r\n".encode("utf-8", "surrogateescape")
    return b"--xyz\r\n" + head + content + b"\r\n--xyz--\r\n"


def multipart_field(value: str, chance: random.Random) -> Sent:
    charset, raw = written(value, chance)
    mail = MIMENonMultipart("text", "plain", charset=charset)
    mail.set_payload(raw)
    encode = chance.choice([None, encode_base64, encode_quopri])
    headers = f"Content-Type: text/plain; charset={charset}\r\n"
    if encode is not None:
        encode(mail)
        payload: Any = mail.get_payload()
        raw = payload.encode("latin-1") if isinstance(payload, str) else payload
        headers += f"Content-Transfer-Encoding: {mail['Content-Transfer-Encoding']}\r\n"
    return Sent(
        value, chance.choice(METHODS), "/", "multipart/form-data; boundary=xyz", part("name=v", headers, raw)
    )


def multipart_file(value: str, chance: random.Random) -> Sent:
    name = "".join(letter for letter in value if letter.isprintable() and letter not in "\\/").strip() or "x"
    content = chance.choice([b"", b"\xff\0", value.encode()])
    how = chance.choice(["browser", "rfc2231", "continued", "both"])
    if how == "browser":
        disposition = f'name="v"; filename="{name.replace(chr(34), "%22")}"'
    elif how == "continued":
        half = len(name) // 2
        first, second = quote(name[:half], safe=""), quote(name[half:], safe="")
        disposition = f"name=v; filename*0*=utf-8''{first}; filename*1*={second}"
    else:
        disposition = f"name=v; filename*={encode_rfc2231(name, 'utf-8')}"
        disposition += '; filename="other"' if how == "both" else ""
    encoding = chance.choice(["", "binary", "8bit", "base64", "quoted-printable"])
    headers = f"Content-Transfer-Encoding: {encoding}\r\n" if encoding else ""
    if encoding == "base64":
        content = codecs.encode(content, "base64")
    body = part(disposition, headers, content)
    told = "" if name in (".", "..") else name  # the name of a folder is none
    value = (told, content) if told or content else ""  # as if no file was chosen
    return Sent(value, chance.choice(METHODS), "/@@file", "multipart/form-data; boundary=xyz", body)


def json_value(value: str, chance: random.Random) -> Sent:
    held = chance.choice([value, [value, 1.5, None], {"k": {value: True}}, 10 ** chance.choice([3, 30]), 1e300])
    text = json.dumps({"v": held}, ensure_ascii=chance.random() < 0.5)
    kind = chance.choice(JSON_TYPES)
    if chance.random() < 0.1:
        text, held = '{"v": 1e400}', 10**400
    body = chance.choice([b"", codecs.BOM_UTF8]) + text.encode()
    return Sent(held, chance.choice(METHODS), "/", kind, body)


def xml_rpc(value: str, chance: random.Random) -> Sent:
    held: Any = chance.choice([value.replace("\r\n", "\n"), [value.replace("\r\n", "\n"), 1], {"k": 2.5}])
    return Sent(held, "POST", "/", "text/xml", xmlrpc.client.dumps((held,), "call").encode())


def cookies(value: str, chance: random.Random) -> Sent:
    held = quote(value, safe="") if chance.random() < 0.5 else re.sub('[;,"\r\n\t]', "", value).strip()
    before = chance.choice(["", "a=b; ", "a=b;", "a=b, ", "a=b,", "a; ", "=x; "])
    behind = chance.choice(["", "; c=d", ", c=d", ",c=d"])
    header = f"{before}v={held}{behind}".encode().decode("latin-1")
    return Sent((held, held), path="/@@cookie", headers={"HTTP_COOKIE": header})


def path(value: str, chance: random.Random) -> Sent:
    """Steps of a path. A server decodes each step, and so a slash in one is a step more."""
    names = [name for name in value.split("/") if name not in ("", ".")]
    quoted = [chance.choice([quote(name, safe=""), "%" + name.encode().hex("%")]) for name in names]
    return Sent(names, path="/".join(["", *quoted, ""]))


def plain_header(value: str, chance: random.Random) -> Sent:
    held = "".join(letter for letter in value if letter.isprintable()).strip()
    return Sent(held, path="/@@header", headers={"HTTP_X_VALUE": held.encode().decode("latin-1")})


def password(value: str, chance: random.Random) -> Sent:
    held = value.partition(":")[0], value[::-1]
    scheme = chance.choice(["Basic", "basic", "BASIC"])
    sent = codecs.encode(":".join(held).encode(), "base64").replace(b"\n", b"").decode()
    return Sent(held, path="/@@login", headers={"HTTP_AUTHORIZATION": f"{scheme} {sent}"})


WAYS: dict[str, Callable[[str, random.Random], Sent]] = {
    "query": query,
    "urlencoded": urlencoded,
    "multipart field": multipart_field,
    "multipart file": multipart_file,
    "json": json_value,
    "xml-rpc": xml_rpc,
    "cookie": cookies,
    "path": path,
    "header": plain_header,
    "password": password,
}


def lost(way: str, rounds: int) -> list[Any]:
    """Return the requests whose view got another value, or whose refused view ran."""
    chance = random.Random(way)
    root = Root()
    remote = IXMLRPCRequest if way == "xml-rpc" else None
    scan = (__name__, "pipeline.publishing.xmlrpc") if remote else (__name__,)
    guard = [authenticate(check=check, failures=1_000_000)] if way == "password" else []
    walk = traverse(root=lambda: root, request_type=remote)
    app = Pipeline(errors(), forms(), *guard, walk, publisher(scan=scan))
    found = []
    for _ in range(rounds):
        sent = WAYS[way]("".join(chance.choices(LETTERS, k=chance.randrange(1, 6))), chance)
        asked = Asked.blank(sent.path, method=sent.method, body=sent.body)
        asked.environ.update({"CONTENT_TYPE": sent.type, **sent.headers})
        GOT.clear()
        status = asked.get_response(app).status_int
        is_right = [sent.value] == GOT if status == 200 else 400 <= status < 500 and not GOT
        if not is_right:
            found.append((sent, status, list(GOT)))
    return found


@pytest.mark.parametrize("way", WAYS)
def test_what_was_sent_is_what_the_view_gets(way: str) -> None:
    assert lost(way, ROUNDS // len(WAYS))[:3] == []


def _plain(segment: Any) -> bytes | None:
    return None if segment.filename is None else segment.filename.encode("latin-1")


def _reads_nothing(reading: Any, request: Any) -> tuple[dict[str, Any], None]:
    return {"v": "nothing"}, None


def _in_latin_1(sent: str) -> tuple[str, str]:
    login, _, password = codecs.decode(sent.partition(" ")[2].encode(), "base64").decode("latin-1").partition(":")
    return login, password


CONTROLS: list[tuple[str, Any, str, Any]] = [
    ("urlencoded", pipeline.forms.charsets, "_from_euc_jp", lambda raw: raw.decode("euc_jp")),
    ("multipart field", pipeline.forms.multipart_body, "_AS_THEY_ARE", ("base64", "quoted-printable", "binary")),
    ("multipart file", pipeline.forms.multipart_body, "_filename", _plain),
    ("json", pipeline.elements.forms, "_JSON", json.JSONDecoder()),
    ("json", pipeline.elements.forms.Reading, "_sent", _reads_nothing),
    ("cookie", pipeline.cookies, "_JOINED", re.compile("\0")),
    ("path", pipeline.publishing.steps, "_decode", str),
    ("header", Request, "headers", property(lambda request: {"X-Value": request.environ["HTTP_X_VALUE"].lower()})),
    ("password", pipeline.auth.authentication, "_credentials", _in_latin_1),
]


@pytest.mark.parametrize(
    ("way", "holder", "name", "old"), CONTROLS, ids=lambda value: getattr(value, "__name__", None)
)
def test_an_old_reading_is_found(
    way: str, holder: Any, name: str, old: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holder, name, old)
    assert lost(way, 4_000)
