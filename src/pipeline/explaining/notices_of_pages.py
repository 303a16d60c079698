"""Notices of debug mode about an answer: what a view has sent, and most likely did not mean to send."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from html.parser import HTMLParser
from typing import Any

from webob.exc import HTTPException

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
SHOWN = re.compile(r"(?:<|&lt;)(?:bound method [\w.]+|[\w.]+ object at 0x)")
FIELD = re.compile(r"<(?:input|select|textarea)\s[^<>]*>")
FIELDS = ("input", "select", "textarea")
ODD = ("file", "password", '"put', '"patch', '"delete')
"""The texts of forms that are looked at."""
METHODS = ("", "get", "post", "dialog")
"""The methods of a form that browsers know. For any other they send a GET."""
NAMELESS = ("button", "image", "reset", "submit")
"""The types of inputs that need no name."""
LONGEST = 1_000_000
"""Bytes of a page that is looked at."""


def of_answer(request: Any, response: Response) -> Iterator[str]:
    """Yield the notices of an answer."""
    if "Set-Cookie" in response.headers and "public" in response.headers.get("Cache-Control", ""):
        yield "caches may keep the answer for all, and with it the cookie of one visitor. Leave out public"
    location = "Location" in response.headers
    if response.status_line[0] == "3" and response.status_line[:3] != "304" and not location:
        yield f"{response.status_line} without a Location: a browser shows an empty page. Return redirect(address)"
    elif response.status_line is OK and location:
        yield "a browser ignores Location beside 200 OK. Return redirect(address)"
    if response.status_line is not OK or request.method == "HEAD":
        return
    if response.blocks == () and not location and "Content-Length" not in response.headers:
        yield (
            "the view has returned None, and the page is empty. Return a page or a redirect, or set response.text; "
            "without a body, set response.status = 204"
        )
    if isinstance(response.blocks, list) and response.content_type in ("text/html", "text/plain"):
        body = b"".join(block for block in response.blocks if isinstance(block, bytes))
        encoding = response.headers.get("Content-Encoding", "")
        if encoding == "gzip":
            body = gzip.decompress(body)
        if response.content_type == "text/plain":
            if body[:15].lower().startswith((b"<!doctype html", b"<html")):
                yield "a page is sent as text/plain, so a browser shows its tags. Leave out response.content_type"
        elif encoding in ("", "gzip") and len(body) < LONGEST:
            yield from of_page(request, body, response.charset)


def of_page(request: Any, body: bytes, charset: str | None) -> Iterator[str]:
    """Yield the notices of a body that is sent as text/html."""
    kind = next((kind for start, kind in STARTS.items() if body.startswith(start)), "")
    if kind:
        yield f"{kind} is sent as text/html. Set response.content_type, or use pipeline.http.files.serve"
    elif is_json(body):
        yield (
            "JSON is sent as text/html. Return the value itself, with pipeline.publishing.json in the option scan "
            "of the publisher, or set response.content_type"
        )
    elif ADDRESS.fullmatch(body) and (body[:1] == b"/" or request.method == "POST"):
        yield "the page is an address. To lead the visitor there, return redirect(address)"
    else:
        text = body.decode("utf-8", "replace")
        if charset == "UTF-8" and "\ufffd" in text and "\ufffd".encode() not in body:
            yield "the body is not UTF-8, as its header says. Return the text itself, and not text.encode(...)"
        if (" object at 0x" in text or "bound method " in text) and (found := SHOWN.search(text)):
            yield f"the page shows {found[0]!r}: call the method, or show an attribute of the object"
        for name, value in values_of(request) if may_have_markup(request) else ():
            if MARKUP.search(value) and value in text:
                yield (
                    f"the page has the markup of the field {name!r} as the visitor has sent it: a script in it "
                    f"runs. Use render() with a template, or html.escape() (S7)"
                )
        yield from Forms(text).notices
        outside = "".join(part.partition("</form>")[2] for part in f"</form>{text}".split("<form"))
        for field in FIELD.findall(outside) if " name=" in outside and "<script" not in text else ():
            if " name=" in field and " form=" not in field:
                yield f"{field:.200} stands outside of every form, so a browser does not send it"


def is_json(body: bytes) -> bool:
    """Return whether a body is an object or a list in JSON."""
    try:
        return body[:1] in (b"{", b"[") and isinstance(json.loads(body), (dict, list))
    except ValueError:
        return False


def may_have_markup(request: Any) -> bool:
    """Return whether a visitor has sent a form, or a query with a less-than sign."""
    query = request.environ.get("QUERY_STRING", "")
    return request.announces_body or "<" in query or "%3c" in query.lower()


def values_of(request: Any) -> Iterator[tuple[str, str]]:
    """Yield the fields of the query and of the form, as far as the request has read them."""
    with suppress(HTTPException):  # it is not UTF-8, and the view has not read it
        yield from request.GET.items()
    form = request.__dict__.get("form") or request.__dict__.get("POST") or {}
    yield from ((name, value) for name, value in form.items() if isinstance(value, str))


def is_plain(form: str) -> bool:
    """Return whether a form in lower case has nothing to look at. To parse it takes a tenth of the time of a page
    (36 of 300 microseconds)."""
    fields = sum(form.count(f"<{name}") for name in FIELDS)
    return form.count(" name=") >= fields and not any(word in form for word in ODD)


class Forms(HTMLParser):
    """The forms of a page: what a browser does not send of them, or sends in another way."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.form: dict[str, str] | None = None
        self.notices: list[str] = []
        start = page.find("<form")
        while start >= 0:  # to parse the rest would take as long as to make the page
            end = page.find("</form>", start)
            form = page[start : end if end >= 0 else len(page)]
            if "<form" in form[1:]:
                self.notices.append("a form stands in another one: a browser ignores it, and sends the outer one")
            if not is_plain(form.lower()):
                self.feed(form)
                self.form = None
            start = page.find("<form", start + 1)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        if tag == "form":
            self.form = found
            if found.get("method", "").lower() not in METHODS:
                self.notices.append(
                    f"a form has the method {found['method']!r}, for which browsers send a GET. Use post, and a "
                    f'view with methods=("POST",)'
                )
        elif self.form is not None and tag in FIELDS and not found.keys() & {"disabled", "readonly"}:
            self.look_at(found, self.form, f"{self.get_starttag_text()!r:.200}")

    def look_at(self, field: dict[str, str], form: dict[str, str], shown: str) -> None:
        """Note what happens to a field of a form."""
        kind = field.get("type", "").lower()
        if not field.get("name") and kind not in NAMELESS:
            self.notices.append(f"{shown} has no name, so a browser does not send it")
        if kind in ("file", "password") and form.get("method", "").lower() != "post":
            self.notices.append(f'a form with {shown} has no method="post": its values stand in the address')
        elif kind == "file" and form.get("enctype", "").lower() != "multipart/form-data":
            self.notices.append(
                f'a form with {shown} has no enctype="multipart/form-data": a browser sends the name of the file, '
                f"and not the file"
            )
