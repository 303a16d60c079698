"""Notices of debug mode about an answer: what a view has sent, and most likely did not mean to send."""

from __future__ import annotations

import gzip
import json
import re
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from html import unescape
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl
from weakref import WeakKeyDictionary

from webob.exc import HTTPException

from pipeline.explaining.remedies import NOTICES, RULES
from pipeline.response import OK, Response

ADDRESS = re.compile(rb"(?:/|https?://)[^\s<]*")
MARKUP = re.compile("<[a-zA-Z/!]")
PAGER = re.compile(r'<a\s(?=[^<>]*\brel="(?:next|prev)")[^<>]*\bhref="\?([^"<>]*)"')
OPTION = re.compile(r'<option(?:\s+value="([^"<>]*)")?[^<>]*>([^<>]*)')
DOMAIN = re.compile(r"(?i);\s*+domain=\.?([^\s;]+)")
FIELD = re.compile(r"<(?:input|select|textarea)(?=\s)(?![^<>]*\sform=)[^<>]*\sname=[^<>]*>")
FIELDS = ("input", "select", "textarea")
ODD = ("file", "password", *(f'type="{name}' for name in RULES["input"]))
"""The texts of forms that are looked at."""
LONGEST = 1_000_000
"""Bytes of a page that is looked at."""
BY_KIND = {
    kind: [one for one in RULES["text"] if kind in one["kinds"]] for rule in RULES["text"] for kind in rule["kinds"]
}
"""The rules for each type of bodies, and for each header."""
STRUCTURE = re.compile("<(?:!|/?form|input|option|select|textarea|script|/head)")
"""Pattern of what belongs to a form, or ends it: a part of a page without it changes no form."""
NEEDLES = [re.escape(needle) for rule in BY_KIND["text/html"] for needle in rule["needles"]]
NEEDED = re.compile("|".join([STRUCTURE.pattern, *NEEDLES]))
"""Pattern of what any rule for pages needs. Most parts that change have none of it."""
sent_under: Any = lru_cache(maxsize=500)(lambda address, tag: set())
"""Returns the hashes of the bodies that were sent from an address under an ETag, for the caller to add one."""
SCRIPT = re.compile(r"(?i)<script|<[^<>]*\s(?:on\w+|href\s*=\s*[\"']?javascript:)")
"""Pattern of markup that runs. A text of an editor may rightly have other markup."""
_sent: deque[tuple[str, str]] = deque(maxlen=5)
"""The last fields with scripts that visitors have sent, to be looked for in later pages."""
_before: WeakKeyDictionary[Any, tuple[str, bool]] = WeakKeyDictionary()
"""The last page of each view if nothing was told of it, or "", and whether it has a select."""


def of_answer(request: Any, response: Response, function: Any) -> Iterator[str]:
    """Yield the notices of an answer of a view."""
    headers = {name.lower(): value for name, value in response.headerlist}
    keep_scripts(request)
    if "set-cookie" in headers and "public" in headers.get("cache-control", ""):
        yield "caches may keep the answer for all, and with it the cookie of one visitor. Leave out public"
    for name in BY_KIND.keys() & headers.keys():
        yield from of_rules(name, headers[name])
    for name, value in response.headerlist:
        rule = RULES["header"].get(name.lower())
        if rule and not re.fullmatch(rule["pattern"], value):
            yield NOTICES["a header that is not valid"].format(name=name, value=value[:200], **rule)
    yield from of_rules("query", request.environ.get("QUERY_STRING", ""))
    for cookie in response.headers.getall("Set-Cookie") if "set-cookie" in headers else ():
        if len(cookie) > 4096:
            yield NOTICES["a cookie that is too large"].format(name=cookie.partition("=")[0])
        domain, host = DOMAIN.search(cookie), request.host.partition(":")[0]
        if domain and not f".{host}".endswith(f".{domain[1]}"):
            yield NOTICES["a cookie of another domain"].format(domain=domain[1], host=host)
    if response.status_line[0] == "3" and response.status_line[:3] != "304" and "location" not in headers:
        yield f"{response.status_line} without a Location: a browser shows an empty page. Return redirect(address)"
    elif response.status_line is OK and "location" in headers:
        yield "a browser ignores Location beside 200 OK. Return redirect(address)"
    if response.status_line is not OK or request.environ["REQUEST_METHOD"] == "HEAD":
        return
    if response.blocks == () and headers.keys().isdisjoint(("location", "content-length")):
        yield NOTICES["nothing is returned"]
    kind = headers.get("content-type", "").partition(";")[0]
    if isinstance(response.blocks, list) and kind in ("text/html", "text/plain", "application/json"):
        yield from of_body(request, response, function, kind, headers)


def keep_scripts(request: Any) -> None:
    """Keep the fields with scripts that were stored with a request."""
    if request.outcome == "committed" and request.announces_body:
        _sent.extend(one for one in values_of(request) if SCRIPT.search(one[1]) and one not in _sent)


def of_body(
    request: Any, response: Response, function: Any, kind: str, headers: Mapping[str, str]
) -> Iterator[str]:
    """Yield the notices of a body in memory, of a type that is looked at."""
    body = b"".join(block for block in response.blocks if isinstance(block, bytes))
    encoding, tag = headers.get("content-encoding", ""), headers.get("etag", "")
    if encoding == "gzip":
        body = gzip.decompress(body)
    if encoding not in ("", "gzip") or len(body) > LONGEST:
        return
    if tag[:1] == '"':
        (sent := sent_under(request.url, tag)).add(hash(body))
        yield from [NOTICES["an ETag that stays"].format(tag=tag)] if len(sent) > 1 else ()
    token = request.__dict__.get("csrf_token")
    if token and "public" in headers.get("cache-control", "") and token.encode() in body:
        yield "caches may keep the answer for all, and with it the token of one visitor. Leave out public"
    if kind == "text/html":
        told = "" if body[:1] == b"<" else of_file(body, request.method)
        yield from [told] if told else of_page(request, body, response, function)
    else:
        text = body.decode("utf-8", "replace")
        yield from of_rules(kind, text)
        yield from of_rules("stored", text) if request.outcome == "committed" and kind == "application/json" else ()


@lru_cache(maxsize=16)
def of_rules(kind: str, text: str) -> list[str]:
    """Return the notices of a body of some type, or of a header, that a pattern tells."""
    rules = [one for one in BY_KIND[kind] if any(map(text.__contains__, one.get("needles", ("",))))]
    found = [(rule["told"], re.search(rule["pattern"], text)) for rule in rules]
    return [told.format(found=one[one.lastindex or 0][:200], value=text[:200]) for told, one in found if one]


def of_file(body: bytes, method: str) -> str:
    """Return the notice of a body that is sent as text/html and is not a page, or ""."""
    start = body[:8].decode("latin-1")
    if kind := next((kind for begin, kind in RULES["starts"].items() if start.startswith(begin)), ""):
        return f"{kind} is sent as text/html. Set response.content_type, or use pipeline.http.files.serve"
    if body[:1] in (b"{", b"["):
        with suppress(ValueError):
            json.loads(body)
            return NOTICES["JSON as a page"]
    if ADDRESS.fullmatch(body) and (body[:1] == b"/" or method == "POST"):
        return "the page is an address. To lead the visitor there, return redirect(address)"
    return NOTICES["lines as a page"] if b"<" not in body and body.strip().count(b"\n") > 1 else ""


def of_page(request: Any, body: bytes, response: Response, function: Any) -> Iterator[str]:
    """Yield the notices of a page."""
    text = body.decode("utf-8", "replace")
    if "\ufffd" in text and "\ufffd".encode() not in body and response.charset == "UTF-8":
        yield "the body is not UTF-8, as its header says. Return the text itself, and not text.encode(...)"
    before, has_select = _before.get(function, ("", False))
    is_same = text == before
    for name, value in values_of(request) if is_same else (*values_of(request), *_sent):
        if MARKUP.search(value) and value in text:
            yield NOTICES["markup of a visitor"].format(name=name)
    query = request.environ.get("QUERY_STRING", "")
    for link in PAGER.findall(text) if query else ():
        asked = dict(parse_qsl(query))
        if names := ", ".join(sorted(asked.keys() - dict(parse_qsl(unescape(link), True)).keys())):
            yield NOTICES["a link that forgets"].format(link=link, names=names)
    for name, value in getattr(request.context, "__dict__", {}).items() if ">None<" in text else ():
        if value is None and name[0] != "_":
            yield NOTICES["None on a page"].format(name=name)
    if not (is_same or is_as_before(text, before)):
        found, has_select = of_text(text), "<select" in text
        _before[function] = ("" if found else text), has_select
        yield from found
    if has_select and request.method == "GET" and request.views is not None:
        yield from unselected(request, text)


def is_as_before(text: str, before: str) -> bool:
    """Return whether a page differs from one without notices only in tags and texts without notices."""
    if text == before or not (text and before):
        return text == before
    # How much both begin with, and how much both end with, in steps of a 64th: a loop over the characters would
    # take longer than the look at the whole page.
    most = min(len(text), len(before))
    ends = range(0, most, size := most // 64 + 1)
    same = ends[bisect_left(ends, True, key=lambda end: not text.startswith(before[:end])) - 1]
    rest = max(most - same - size, 0)
    if not text.endswith(before[len(before) - rest :]):  # they differ in more than one part
        rest = ends[bisect_left(ends, True, key=lambda end: not text.endswith(before[len(before) - end :])) - 1]
    begin = max(text.rfind("<", 0, same), 0)
    after = text.find(">", len(text) - min(rest, most - same)) + 1
    changed, old = text[begin : after or None], before[begin : after - len(text) + len(before) if after else None]
    part = changed + old
    return not NEEDED.search(part) or not (STRUCTURE.search(part) or of_rules("text/html", changed))


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


def of_text(text: str) -> list[str]:
    """Return the notices of a page that follow from its text alone."""
    forms = Forms(text)
    forms.notices += of_rules("text/html", text)
    fields = [field for part in forms.outside if " name=" in part for field in FIELD.findall(part)]
    for field in fields if fields and "<script" not in text else ():
        forms.notices.append(f"{field:.200} stands outside of every form, so a browser does not send it")
    return forms.notices


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
    try:
        return request.__dict__.get("form") or request.__dict__.get("POST") or {}
    except HTTPException:
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
            self.notices += of_rules("form", form)
            if not end and number < len(parts):
                self.notices.append("a form stands in another one: a browser ignores it, and sends the outer one")
            plain = form.lower()  # to parse it takes a tenth of the time of a page: 36 of 300 microseconds
            is_nameless = plain.count(" name=") < sum(plain.count(f"<{name}") for name in FIELDS)
            if is_nameless or any(word in plain for word in ODD):
                self.feed(f"<form{form}")

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note what happens to a field of a form."""
        found = {name: value or "" for name, value in attributes}
        if tag == "form":
            self.form = found
        if tag not in FIELDS or found.keys() & {"disabled", "readonly"}:
            return
        kind, shown = found.get("type", "").lower(), f"{self.get_starttag_text()!r:.200}"
        if not found.get("name") and kind not in ("button", "image", "reset", "submit"):
            self.notices.append(f"{shown} has no name, so a browser does not send it")
        rule, value = RULES["input"].get(kind), found.get("value", "").strip()
        if rule is not None and value and not re.fullmatch(rule["pattern"], value):
            self.notices.append(NOTICES["a value that is not shown"].format(shown=shown, kind=kind, **rule))
        if kind in ("file", "password") and self.form.get("method", "").lower() != "post":
            self.notices.append(f'a form with {shown} has no method="post": its values stand in the address')
        elif kind == "file" and self.form.get("enctype", "").lower() != "multipart/form-data":
            self.notices.append(NOTICES["a file without enctype"].format(field=shown))
