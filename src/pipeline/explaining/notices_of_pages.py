"""Notices of debug mode about an answer: what a view has sent, and most likely did not mean to send."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from html import unescape
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl

from webob.exc import HTTPException

from pipeline.explaining.remedies import NOTICES, RULES
from pipeline.response import OK, Response

STARTS = {
    b"%PDF-": "a PDF",
    b"\x89PNG\r\n": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"PK\x03\x04": "a ZIP file, or a document that is one",
    b"\x1f\x8b": "a gzip file",
}
"""The kinds of files, by the bytes at their begin."""
ADDRESS = re.compile(rb"(?:/|https?://)[^\s<]*")
MARKUP = re.compile("<[a-zA-Z/!]")
PAGER = re.compile(r'<a\s(?=[^<>]*\brel="(?:next|prev)")[^<>]*\bhref="\?([^"<>]*)"')
OPTION = re.compile(r'<option(?:\s+value="([^"<>]*)")?[^<>]*>([^<>]*)')
DOMAIN = re.compile(r"(?i);\s*+domain=\.?([^\s;]+)")
FIELD = re.compile(r"<(?:input|select|textarea)\s[^<>]*>")
FIELDS = ("input", "select", "textarea")
ODD = ("file", "password", '"put', '"patch', '"delete', *(f'type="{name}' for name in RULES["input"]))
"""The texts of forms that are looked at."""
METHODS = ("", "get", "post", "dialog")
"""The methods of a form that browsers know. For any other they send a GET."""
NAMELESS = ("button", "image", "reset", "submit")
"""The types of inputs that need no name."""
LONGEST = 1_000_000
"""Bytes of a page that is looked at."""


def of_answer(request: Any, response: Response) -> Iterator[str]:
    """Yield the notices of an answer."""
    headers = {name.lower(): value for name, value in response.headerlist}
    if "set-cookie" in headers and "public" in headers.get("cache-control", ""):
        yield "caches may keep the answer for all, and with it the cookie of one visitor. Leave out public"
    for rule in RULES["header"]:
        if (value := headers.get(rule["name"])) is not None and re.search(rule["pattern"], value):
            yield rule["told"].format(value=value)
    for cookie in response.headers.getall("Set-Cookie") if "set-cookie" in headers else ():
        domain, host = DOMAIN.search(cookie), request.host.partition(":")[0]
        if domain and not f".{host}".endswith(f".{domain[1]}"):
            yield NOTICES["a cookie of another domain"].format(domain=domain[1], host=host)
    location = "location" in headers
    if response.status_line[0] == "3" and response.status_line[:3] != "304" and not location:
        yield f"{response.status_line} without a Location: a browser shows an empty page. Return redirect(address)"
    elif response.status_line is OK and location:
        yield "a browser ignores Location beside 200 OK. Return redirect(address)"
    if response.status_line is not OK or request.method == "HEAD":
        return
    if response.blocks == () and not location and "content-length" not in headers:
        yield NOTICES["nothing is returned"]
    kind = headers.get("content-type", "").partition(";")[0]
    if isinstance(response.blocks, list) and kind in ("text/html", "text/plain", "application/json"):
        yield from of_body(request, response, kind, headers.get("content-encoding", ""))


def of_body(request: Any, response: Response, kind: str, encoding: str) -> Iterator[str]:
    """Yield the notices of a body in memory, of a type that is looked at."""
    body = b"".join(block for block in response.blocks if isinstance(block, bytes))
    if encoding == "gzip":
        body = gzip.decompress(body)
    if encoding not in ("", "gzip") or len(body) > LONGEST:
        return
    if kind == "text/html":
        told = "" if body[:1] == b"<" else of_file(body, request.method)
        yield from [told] if told else of_page(request, body, response)
    else:
        yield from of_rules(kind, body.decode("utf-8", "replace"))


def of_rules(kind: str, text: str) -> Iterator[str]:
    """Yield the notices of a body of some type that a pattern tells."""
    for rule in RULES["body"]:
        is_meant = kind in rule["kinds"] and any(one in text for one in rule.get("needles", ("",)))
        if is_meant and (found := re.search(rule["pattern"], text)):
            yield rule["told"].format(found=found[0][:200])


def of_file(body: bytes, method: str) -> str:
    """Return the notice of a body that is sent as text/html and is not a page, or ""."""
    if kind := next((kind for start, kind in STARTS.items() if body.startswith(start)), ""):
        return f"{kind} is sent as text/html. Set response.content_type, or use pipeline.http.files.serve"
    if body[:1] in (b"{", b"["):
        with suppress(ValueError):
            json.loads(body)
            return NOTICES["JSON as a page"]
    if ADDRESS.fullmatch(body) and (body[:1] == b"/" or method == "POST"):
        return "the page is an address. To lead the visitor there, return redirect(address)"
    return NOTICES["lines as a page"] if b"<" not in body and body.strip().count(b"\n") > 1 else ""


def of_page(request: Any, body: bytes, response: Response) -> Iterator[str]:
    """Yield the notices of a page."""
    text = body.decode("utf-8", "replace")
    if "\ufffd" in text and "\ufffd".encode() not in body and response.charset == "UTF-8":
        yield "the body is not UTF-8, as its header says. Return the text itself, and not text.encode(...)"
    for name, value in values_of(request):
        if MARKUP.search(value) and value in text:
            yield NOTICES["markup of a visitor"].format(name=name)
    query = request.environ.get("QUERY_STRING", "")
    for link in PAGER.findall(text) if query else ():
        asked = dict(parse_qsl(query))
        if names := ", ".join(sorted(asked.keys() - dict(parse_qsl(unescape(link), True)).keys())):
            yield NOTICES["a link that forgets"].format(link=link, names=names)
    if "<select" in text and request.method == "GET" and request.views is not None:
        yield from unselected(request, text)
    yield from of_text(text)


def unselected(request: Any, text: str) -> Iterator[str]:
    """Yield the selects of a form that do not show what the object has, and that the view for POST takes."""
    view = request.views.find(request.context, request, "POST", request.view_name)
    names = getattr(getattr(view, "fill", None), "names", ())
    for part in text.split("<select")[1:]:
        part = part.partition("</select")[0]
        options = [value or shown.strip() for value, shown in OPTION.findall(part)]
        for name in names if " selected" not in part else ():
            value = str(getattr(request.context, "__dict__", {}).get(name, ""))  # it reads no database
            if f' name="{name}"' in part.partition(">")[0] and value in options[1:]:
                yield NOTICES["an option that is not selected"].format(name=name, value=value)


@lru_cache(maxsize=16)
def of_text(text: str) -> tuple[str, ...]:
    """Return the notices of a page that follow from its text alone. Most pages are asked for more than once, and
    each search takes a hundredth of the time of a page."""
    forms = Forms(text)
    forms.notices += of_rules("text/html", text)
    fields = [field for part in forms.outside if " name=" in part for field in FIELD.findall(part)]
    for field in fields if fields and "<script" not in text else ():
        if " name=" in field and " form=" not in field:
            forms.notices.append(f"{field:.200} stands outside of every form, so a browser does not send it")
    return tuple(forms.notices)


def values_of(request: Any) -> Iterator[tuple[str, str]]:
    """Yield the fields of the query and of the form, as far as the request has read them. They are only read if a
    visitor has sent a form, or a query with a less-than sign."""
    query = request.environ.get("QUERY_STRING", "")
    if request.announces_body or "<" in query or "%3c" in query.lower():
        with suppress(HTTPException):  # it is not UTF-8, and the view has not read it
            yield from request.GET.items()
        yield from ((name, value) for name, value in form_of(request).items() if isinstance(value, str))


def form_of(request: Any) -> Mapping[str, Any]:
    """Return the form as far as the request has read it; an empty one if it is not UTF-8."""
    with suppress(HTTPException):
        return request.__dict__.get("form") or request.__dict__.get("POST") or {}
    return {}


class Forms(HTMLParser):
    """The forms of a page: what a browser does not send of them, or sends in another way."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.form: dict[str, str] = {}
        self.notices: list[str] = []
        first, *parts = page.split("<form")
        self.outside = [first[first.find("</head>") + 1 :]]
        for number, part in enumerate(parts, 1):
            form, end, rest = part.partition("</form>")
            self.outside.append(rest)
            if not end and number < len(parts):
                self.notices.append("a form stands in another one: a browser ignores it, and sends the outer one")
            plain = form.lower()  # to parse it takes a tenth of the time of a page: 36 of 300 microseconds
            is_nameless = plain.count(" name=") < sum(plain.count(f"<{name}") for name in FIELDS)
            if is_nameless or any(word in plain for word in ODD):
                self.feed(f"<form{form}")

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        if tag == "form":
            self.form = found
            if found.get("method", "").lower() not in METHODS:
                self.notices.append(NOTICES["a method of a form"].format(method=found["method"]))
        elif tag in FIELDS and not found.keys() & {"disabled", "readonly"}:
            self.look_at(found, self.form, f"{self.get_starttag_text()!r:.200}")

    def look_at(self, field: dict[str, str], form: dict[str, str], shown: str) -> None:
        """Note what happens to a field of a form."""
        kind = field.get("type", "").lower()
        if not field.get("name") and kind not in NAMELESS:
            self.notices.append(f"{shown} has no name, so a browser does not send it")
        rule, value = RULES["input"].get(kind), field.get("value", "").strip()
        if rule is not None and value and not re.fullmatch(rule["pattern"], value):
            self.notices.append(NOTICES["a value that is not shown"].format(shown=shown, kind=kind, **rule))
        if kind in ("file", "password") and form.get("method", "").lower() != "post":
            self.notices.append(f'a form with {shown} has no method="post": its values stand in the address')
        elif kind == "file" and form.get("enctype", "").lower() != "multipart/form-data":
            self.notices.append(NOTICES["a file without enctype"].format(field=shown))
